//! Scales: the conversion of values to places on a picture.

/// The spacing of values along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equal lengths.
    Linear,
    /// Equal ratios are equal lengths. Only values above zero have a place.
    Log,
}

/// One axis of a chart.
#[derive(Debug, Clone)]
pub struct Axis {
    /// The text at the axis: the quantity and its unit.
    pub label: String,
    /// The spacing of values along the axis.
    pub scale: Scale,
    /// Smallest and largest value that must have a place, beyond those of the data.
    pub include: Option<(f64, f64)>,
    /// The greatest value shown. Greater values have no place on the picture.
    pub max: Option<f64>,
    /// Formats the value next to its tick.
    pub format: fn(f64) -> String,
}

/// An axis laid over a stretch of the picture.
#[derive(Debug)]
pub(super) struct Span {
    scale: Scale,
    low: f64,
    high: f64,
    /// The greatest value with a place on the picture.
    max: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Lays the axis over `from..to` (picture coordinates), so that `values` have a place.
    pub(super) fn over(&self, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Span {
        let included = self.include.into_iter().flat_map(|(low, high)| [low, high]);
        let placed =
            values.chain(included).filter(|v| v.is_finite() && (self.scale == Scale::Linear || *v > 0.0));
        let placed = placed.filter(|v| self.max.is_none_or(|max| *v <= max));
        let (low, high) =
            placed.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = match self.scale {
            _ if low > high => (1.0, 10.0),
            Scale::Linear if low == high => (low.min(0.0), high.max(1.0)),
            Scale::Log if low == high => (low / 2.0, high * 2.0),
            _ => (low, high),
        };
        Span { scale: self.scale, low, high, max: self.max.unwrap_or(f64::INFINITY), from, to }
    }
}

impl Span {
    /// Returns the span with its high end moved out to the next tick.
    pub(super) fn rounded(self) -> Self {
        match self.scale {
            Scale::Linear => {
                let step = linear_step(self.high - self.low);
                // A value a rounding error above a tick needs no further step.
                Self { high: (self.high / step - 1e-9).ceil() * step, ..self }
            }
            Scale::Log => {
                let ticks = marks(multiples(self.low, self.high), self.low / 10.0, self.high * 10.0);
                let low = ticks.iter().copied().rfind(|t| *t <= self.low * (1.0 + 1e-9)).unwrap_or(self.low);
                let high =
                    ticks.iter().copied().find(|t| *t >= self.high * (1.0 - 1e-9)).unwrap_or(self.high);
                Self { low, high, ..self }
            }
        }
    }

    /// Returns the picture coordinate of `value`; `None` if it has no place.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        if value > self.max {
            return None;
        }
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log if value > 0.0 => (value / self.low).ln() / (self.high / self.low).ln(),
            Scale::Log => return None,
        };
        share.is_finite().then_some(self.from + share * (self.to - self.from))
    }

    /// Returns the values to mark: 1, 2 and 5 times powers of ten on both scales.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => linear_ticks(self.low, self.high),
            Scale::Log => marks(multiples(self.low, self.high), self.low, self.high),
        }
    }

    /// Returns choices of ticks to label, each with fewer than the one before. On a logarithmic scale powers
    /// of ten stay longest.
    pub(super) fn fewer_ticks(&self) -> impl Iterator<Item = Vec<f64>> {
        let all = self.ticks();
        let powers = all.iter().copied().filter(|tick| (tick.log10() - tick.log10().round()).abs() < 1e-9);
        let kept: Vec<f64> = match self.scale {
            Scale::Log => powers.collect(),
            Scale::Linear => all.clone(),
        };
        let every = (1..=kept.len()).map(move |nth| kept.iter().copied().step_by(nth).collect());
        core::iter::once(all).chain(every)
    }

    /// Returns values between which a curve is drawn in small steps.
    pub(super) fn steps(&self, count: u32) -> impl Iterator<Item = f64> {
        let (scale, low, high) = (self.scale, self.low, self.high);
        (0..=count).map(move |i| {
            let share = f64::from(i) / f64::from(count);
            match scale {
                Scale::Linear => low + share * (high - low),
                Scale::Log => low * (high / low).powf(share),
            }
        })
    }
}

/// Returns the step between ticks that gives about five of them.
fn linear_step(range: f64) -> f64 {
    let power = 10f64.powf((range / 5.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| range / step <= 5.5).unwrap_or(range)
}

fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let step = linear_step(high - low);
    let first = (low / step - 1e-9).ceil();
    (0..20).map(|i| (first + f64::from(i)) * step).take_while(|tick| *tick <= high + step * 1e-9).collect()
}

/// Returns the multiples of powers of ten to mark: fewer if there are many powers.
fn multiples(low: f64, high: f64) -> &'static [f64] {
    if (high / low).log10() > 3.5 { &[1.0] } else { &[1.0, 2.0, 5.0] }
}

/// Returns the multiples of powers of ten from `low` to `high`.
fn marks(multiples: &[f64], low: f64, high: f64) -> Vec<f64> {
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    let marks = (first..=last).flat_map(|power| multiples.iter().map(move |m| m * 10f64.powi(power)));
    marks.filter(|t| *t >= low * (1.0 - 1e-9) && *t <= high * (1.0 + 1e-9)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale, include: Option<(f64, f64)>) -> Axis {
        Axis { label: String::new(), scale, include, max: None, format: |v| v.to_string() }
    }

    #[test]
    fn ends_and_middle_have_their_places() {
        let linear = axis(Scale::Linear, Some((0.0, 0.0))).over([50.0, 100.0].into_iter(), 200.0, 0.0);
        assert_eq!([0.0, 50.0, 100.0].map(|v| linear.place(v)), [Some(200.0), Some(100.0), Some(0.0)]);
        let log = axis(Scale::Log, None).over([1.0, 100.0].into_iter(), 0.0, 10.0);
        assert_eq!([1.0, 10.0, 100.0, 0.0].map(|v| log.place(v)), [Some(0.0), Some(5.0), Some(10.0), None]);
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let linear = axis(Scale::Linear, Some((0.0, 0.0))).over([663.0].into_iter(), 0.0, 1.0).rounded();
        assert_eq!(linear.ticks(), [0.0, 200.0, 400.0, 600.0, 800.0]);
        let log = axis(Scale::Log, None).over([60e3, 6e6].into_iter(), 0.0, 1.0);
        let ticks: Vec<_> = log.ticks().iter().map(|t| t.round()).collect();
        assert_eq!(ticks, [1e5, 2e5, 5e5, 1e6, 2e6, 5e6]);
    }

    #[test]
    fn rounding_goes_out_to_ticks_only_where_needed() {
        let full = axis(Scale::Linear, Some((0.0, 100.0))).over([3.0].into_iter(), 0.0, 1.0).rounded();
        assert_eq!(full.high, 100.0);
        let log = axis(Scale::Log, None).over([8.0, 300.0].into_iter(), 0.0, 1.0).rounded();
        assert!((log.low - 5.0).abs() < 1e-9 && (log.high - 500.0).abs() < 1e-9);
    }

    #[test]
    fn no_value_one_value_and_nonsense_still_make_an_axis() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in [vec![], vec![7.0], vec![0.0], vec![f64::NAN, f64::INFINITY]] {
                let span = axis(scale, None).over(values.clone().into_iter(), 0.0, 1.0).rounded();
                assert!(span.place(7.0).is_some(), "{scale:?} {values:?}");
                assert!(!span.ticks().is_empty(), "{scale:?} {values:?}");
            }
        }
    }
}
