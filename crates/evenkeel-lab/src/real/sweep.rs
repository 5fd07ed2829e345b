//! The measurement of every variant under rising load.

use std::io;

use evenkeel_apps::measure::undisturbed;

use super::bench::Measured;
use super::{Options, Progress};

/// The number of tries whose best result is the reference: disturbances only make it lower.
const CALIBRATIONS: usize = 3;
/// Loads go from this share of the reference peak to this multiple of it, as far as the generator goes.
const LOWEST: f64 = 0.05;
const HIGHEST: f64 = 12.0;

/// A system that can be measured under load.
pub(super) trait Subject {
    /// Returns the name of its curve.
    fn name(&self) -> &'static str;

    /// Offers a load, or the highest possible one (`None`), and measures the result. Several loads run one
    /// after the other in one run.
    fn measure<const LOADS: usize>(
        &self,
        loads: [Option<u64>; LOADS],
        options: &Options,
    ) -> io::Result<[Measured; LOADS]>;
}

/// The measurements of one variant at each load, lowest first.
#[derive(Debug)]
pub(super) struct Curve {
    pub(super) name: &'static str,
    /// The requested loads, each with the median of its measurements.
    pub(super) points: Vec<(f64, Measured)>,
    /// Pairs of measurements in one run: at the load of the peak, and at the highest. Empty if these loads
    /// are equal.
    pub(super) pairs: Vec<[Measured; 2]>,
}

/// Measures all variants at all loads. The peak of `reference` determines the loads.
pub(super) fn sweep<S: Subject>(
    variants: &[S],
    reference: &S,
    options: &Options,
    progress: &mut (dyn FnMut(&Progress<'_>) + Send),
) -> io::Result<Vec<Curve>> {
    let loads = loads(reference, options)?;
    let rounds = options.repeats.max(1);
    let pairs = 2 * rounds + 1;
    let all = (loads.len() * rounds + 2 * pairs) * variants.len();
    // With one round no measurement is repeated.
    let spare = if rounds == 1 { 0 } else { all };
    let mut bench = Bench { options, spare, done: 0, all, progress };
    let mut runs = vec![Vec::with_capacity(rounds); variants.len()];
    // The loop measures everything once, then everything again, and one variant after the other. So
    // conditions that last for minutes, such as the place of a virtual machine's processors, are equal for a
    // whole curve, and differ between its rounds.
    for _ in 0..rounds {
        for (variant, runs) in variants.iter().zip(&mut runs) {
            let round = loads.iter().map(|&load| bench.measure(variant, [load]).map(|[run]| run));
            runs.push(round.collect::<io::Result<Vec<_>>>()?);
        }
    }
    let mut curves = Vec::with_capacity(variants.len());
    for (variant, rounds) in variants.iter().zip(&runs) {
        let (peak, last) = (peak(rounds), loads.len() - 1);
        let pairs = if peak == last { 0 } else { pairs };
        let pair = |nth| bench.pair(variant, loads[peak], loads[last], nth % 2 == 1);
        let pairs = (0..pairs).map(pair).collect::<io::Result<_>>()?;
        curves.push(Curve { name: variant.name(), points: points(&loads, rounds), pairs });
    }
    Ok(curves)
}

/// A series of measurements, with the number of repetitions.
struct Bench<'a> {
    options: &'a Options,
    /// The measurements that may still be repeated because the machine disturbed them.
    spare: usize,
    done: usize,
    all: usize,
    progress: &'a mut (dyn FnMut(&Progress<'_>) + Send),
}

impl Bench<'_> {
    /// Measures at one load, or at several in one run.
    fn measure<const LOADS: usize>(
        &mut self,
        variant: &impl Subject,
        loads: [u64; LOADS],
    ) -> io::Result<[Measured; LOADS]> {
        let again = || variant.measure(loads.map(Some), self.options);
        let core_share = |runs: &[Measured; LOADS]| runs.iter().map(|run| run.core_share).fold(1.0, f64::min);
        let runs = undisturbed(&mut self.spare, core_share, again)?;
        for run in &runs {
            self.done += 1;
            let result = format!("at {:.0} pps forwards {:.0}", run.offered_pps, run.forwarded_pps);
            let done = (self.done, self.all);
            (self.progress)(&Progress { variant: variant.name(), result: &result, done });
        }
        Ok(runs)
    }

    /// Measures at two loads in one run, the second one first if `turned`. So changes during the run favour
    /// each load equally often.
    fn pair(
        &mut self,
        variant: &impl Subject,
        first: u64,
        second: u64,
        turned: bool,
    ) -> io::Result<[Measured; 2]> {
        if turned {
            let [second, first] = self.measure(variant, [second, first])?;
            return Ok([first, second]);
        }
        self.measure(variant, [first, second])
    }
}

/// Returns the number of the load at which a curve has its peak: the greatest sum of rates over the rounds.
/// Each rate counts as a share of its round's highest rate, because the machine may become slower or faster
/// between rounds.
fn peak(rounds: &[Vec<Measured>]) -> usize {
    let mut shares = Vec::new();
    for round in rounds {
        let most = round.iter().map(|run| run.forwarded_pps).fold(1.0, f64::max);
        shares.resize(round.len().max(shares.len()), 0.0);
        shares.iter_mut().zip(round).for_each(|(share, run)| *share += run.forwarded_pps / most);
    }
    let last_highest = shares.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
    last_highest.map_or(0, |(nth, _)| nth)
}

fn points(loads: &[u64], rounds: &[Vec<Measured>]) -> Vec<(f64, Measured)> {
    let at = |nth: usize| rounds.iter().filter_map(|round| round.get(nth).cloned()).collect();
    loads.iter().enumerate().filter_map(|(nth, &load)| Some((load as f64, median(at(nth))?))).collect()
}

impl Curve {
    /// Returns the greatest rate of forwarding at any load.
    pub(super) fn peak_pps(&self) -> f64 {
        self.points.iter().map(|(_, m)| m.forwarded_pps).fold(0.0, f64::max)
    }

    /// Returns the share of the peak that was still forwarded at the highest load: the median of the pairs.
    pub(super) fn retention(&self) -> f64 {
        let mut shares: Vec<f64> = self
            .pairs
            .iter()
            .map(
                |[peak, highest]| {
                    if peak.forwarded_pps > 0.0 { highest.forwarded_pps / peak.forwarded_pps } else { 0.0 }
                },
            )
            .collect();
        shares.sort_by(f64::total_cmp);
        shares.get(shares.len() / 2).copied().unwrap_or(1.0)
    }

    /// Returns the measurements at all loads, and those of the pairs.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Measured> {
        self.points.iter().map(|(_, run)| run).chain(self.pairs.iter().flatten())
    }
}

/// Returns the run with the median forwarding rate: an actual run, not a mixture.
fn median(mut runs: Vec<Measured>) -> Option<Measured> {
    runs.sort_by(|a, b| a.forwarded_pps.total_cmp(&b.forwarded_pps));
    let conserved = runs.iter().all(|run| run.conserved);
    let middle = runs.len().checked_sub(1)? / 2;
    Some(Measured { conserved, ..runs.swap_remove(middle) })
}

/// Returns loads in equal ratios, up to what the generator can offer.
fn loads(reference: &impl Subject, options: &Options) -> io::Result<Vec<u64>> {
    let (mut peak, mut most) = (1_000.0_f64, 0.0_f64);
    for _ in 0..CALIBRATIONS {
        let [flooded] = reference.measure([None], options)?;
        (peak, most) = (peak.max(flooded.forwarded_pps), most.max(flooded.offered_pps));
    }
    let (lowest, highest) = (peak * LOWEST, (peak * HIGHEST).min(most).max(peak));
    let steps = options.points.max(2) - 1;
    let ratio = (highest / lowest).powf(1.0 / steps as f64);
    Ok((0..=steps).map(|n| round(lowest * ratio.powi(n as i32))).collect())
}

/// Rounds a load to two digits.
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
            round_trip: None,
            drops: Vec::new(),
            conserved: forwarded_pps > 2.0,
        }
    }

    #[test]
    fn a_point_is_the_median_run_and_one_run_that_does_not_add_up_shows() {
        let median = median([5.0, 1.0, 3.0].map(run).to_vec()).unwrap();
        assert_eq!((median.forwarded_pps, median.conserved), (3.0, false));
        assert!(super::median(Vec::new()).is_none());
    }

    fn curve(pairs: Vec<[Measured; 2]>) -> Curve {
        Curve { name: "v", points: points(&[1, 2], &[vec![run(90.0), run(80.0)]]), pairs }
    }

    #[test]
    fn retention_is_the_median_of_pairs() {
        let curve = curve([[100.0, 97.0], [50.0, 40.0], [200.0, 220.0]].map(|pair| pair.map(run)).to_vec());
        assert_eq!((curve.peak_pps(), curve.retention()), (90.0, 0.97));
        assert_eq!(curve.runs().count(), 8);
    }

    #[test]
    fn what_forwards_nothing_keeps_nothing_and_what_peaks_last_keeps_all() {
        assert_eq!(curve(vec![[run(0.0), run(0.0)]]).retention(), 0.0);
        assert_eq!(curve(Vec::new()).retention(), 1.0);
    }

    #[test]
    fn the_peak_is_where_most_rounds_have_theirs_however_fast_the_machine_was() {
        let rounds =
            [[50.0, 99.0, 100.0], [50.0, 70.0, 60.0], [5.0, 7.0, 6.0]].map(|round| round.map(run).to_vec());
        assert_eq!(peak(&rounds), 1);
    }

    #[test]
    fn loads_have_two_digits() {
        assert_eq!([12_345.0, 99.6, 5_550_000.0].map(round), [12_000, 100, 5_600_000]);
    }
}
