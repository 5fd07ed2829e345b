//! Every variant under rising load.

use std::io;

use evenkeel_apps::measure::undisturbed;

use super::bench::{Measured, measure};
use super::router::Variant;
use super::{Options, Progress};

/// The best of so many tries is the reference: what disturbs a measurement only ever makes it lower.
const CALIBRATIONS: usize = 3;
/// One measurement in so many may be repeated because the machine disturbed it.
const REPEATS_SHARE: usize = 3;
/// Loads go from this share of the reference peak to this multiple of it, as far as the generator goes.
const LOWEST: f64 = 0.05;
const HIGHEST: f64 = 12.0;

/// What one variant did at each load, lowest first.
#[derive(Debug)]
pub(super) struct Curve {
    pub(super) name: &'static str,
    /// The load asked for, and the median of what was measured at it.
    pub(super) points: Vec<(f64, Measured)>,
}

/// Measures all variants at all loads; the loads go by the peak of `reference`.
pub(super) fn sweep(
    variants: &[Variant],
    reference: &Variant,
    options: &Options,
    progress: &mut (dyn FnMut(&Progress<'_>) + Send),
) -> io::Result<Vec<Curve>> {
    let loads = loads(reference, options)?;
    let (repeats, all) = (options.repeats.max(1), loads.len() * variants.len() * options.repeats.max(1));
    let mut spare = all / REPEATS_SHARE;
    let mut done = 0;
    let mut runs = vec![vec![Vec::with_capacity(repeats); loads.len()]; variants.len()];
    // Everything once, then everything again: what the machine's other tenants do then hits all alike.
    for _ in 0..repeats {
        for (nth, &load) in loads.iter().enumerate() {
            for (variant, runs) in variants.iter().zip(&mut runs) {
                let again = || measure(variant, Some(load), options);
                let run = undisturbed(&mut spare, |run: &Measured| run.core_share, again)?;
                done += 1;
                progress(&Progress {
                    variant: variant.name,
                    offered_pps: run.offered_pps,
                    forwarded_pps: run.forwarded_pps,
                    done: (done, all),
                });
                runs[nth].push(run);
            }
        }
    }
    Ok(variants.iter().zip(runs).map(|(variant, runs)| Curve::new(variant.name, &loads, runs)).collect())
}

impl Curve {
    fn new(name: &'static str, loads: &[u64], runs: Vec<Vec<Measured>>) -> Self {
        let points = loads.iter().zip(runs).filter_map(|(&load, runs)| Some((load as f64, median(runs)?)));
        Self { name, points: points.collect() }
    }

    /// The most that was forwarded at any load.
    pub(super) fn peak_pps(&self) -> f64 {
        self.points.iter().map(|(_, m)| m.forwarded_pps).fold(0.0, f64::max)
    }

    /// The share of the peak that was still forwarded at the highest load.
    pub(super) fn retention(&self) -> f64 {
        let last = self.points.last().map_or(0.0, |(_, m)| m.forwarded_pps);
        if self.peak_pps() > 0.0 { last / self.peak_pps() } else { 0.0 }
    }
}

/// The run that forwarded the median: one that really was, rather than a mixture.
fn median(mut runs: Vec<Measured>) -> Option<Measured> {
    runs.sort_by(|a, b| a.forwarded_pps.total_cmp(&b.forwarded_pps));
    let conserved = runs.iter().all(|run| run.conserved);
    let middle = runs.len().checked_sub(1)? / 2;
    Some(Measured { conserved, ..runs.swap_remove(middle) })
}

/// Loads in equal ratios, up to what the generator can offer.
fn loads(reference: &Variant, options: &Options) -> io::Result<Vec<u64>> {
    let (mut peak, mut most) = (1_000.0_f64, 0.0_f64);
    for _ in 0..CALIBRATIONS {
        let flooded = measure(reference, None, options)?;
        (peak, most) = (peak.max(flooded.forwarded_pps), most.max(flooded.offered_pps));
    }
    let (lowest, highest) = (peak * LOWEST, (peak * HIGHEST).min(most).max(peak));
    let steps = options.points.max(2) - 1;
    let ratio = (highest / lowest).powf(1.0 / steps as f64);
    Ok((0..=steps).map(|n| round(lowest * ratio.powi(n as i32))).collect())
}

/// Two digits are enough to ask for.
fn round(load: f64) -> u64 {
    let unit = 10_f64.powf(load.log10().floor() - 1.0);
    ((load / unit).round() * unit) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(forwarded_pps: f64) -> Measured {
        Measured {
            offered_pps: 100.0,
            forwarded_pps,
            neighbour: 0.0,
            cpu: Default::default(),
            core_share: 1.0,
            drops: [("", 0); 6],
            conserved: forwarded_pps > 2.0,
        }
    }

    #[test]
    fn a_point_is_the_median_run_and_one_bad_book_shows() {
        let median = median([5.0, 1.0, 3.0].map(run).to_vec()).unwrap();
        assert_eq!((median.forwarded_pps, median.conserved), (3.0, false));
        assert!(super::median(Vec::new()).is_none());
    }

    #[test]
    fn retention_is_measured_at_the_highest_load() {
        let runs = [90.0, 100.0, 97.0].map(|pps| vec![run(pps)]).to_vec();
        let curve = Curve::new("v", &[1, 2, 3], runs);
        assert_eq!((curve.peak_pps(), curve.retention()), (100.0, 0.97));
    }

    #[test]
    fn loads_have_two_digits() {
        assert_eq!([12_345.0, 99.6, 5_550_000.0].map(round), [12_000, 100, 5_600_000]);
    }
}
