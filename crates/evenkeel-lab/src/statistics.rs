//! Medians, means and deviations of measurements.

use std::time::Duration;

/// The number of measurements of a figure whose noise is as wide as the margin of its check.
const DRAWS: u64 = 5;

/// Returns the median of several measurements, of which `first` is the one with `seed`.
pub(crate) fn settled(first: f64, seed: u64, measure: impl Fn(u64) -> f64) -> f64 {
    let others = (1..DRAWS).map(|nth| measure(seed ^ nth << 48));
    median([first].into_iter().chain(others))
}

/// Returns the middle number, or the mean of the two in the middle. NaN counts as greatest.
pub(crate) fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut of: Vec<f64> = of.collect();
    of.sort_by(f64::total_cmp);
    let middle = of.len() / 2;
    match of.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => of[middle],
        _ => f64::midpoint(of[middle - 1], of[middle]),
    }
}

pub(crate) fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// Returns the standard deviation.
pub(crate) fn deviation(of: &[f64]) -> f64 {
    let mean = mean(of);
    (of.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / of.len() as f64).sqrt()
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_even_count_the_median_is_between_two() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!(median(std::iter::empty()).is_nan());
    }

    #[test]
    fn a_settled_figure_is_the_median_of_several_seeds() {
        let high_with_some = |seed: u64| if seed >> 48 == 3 { 9.0 } else { 1.0 };
        assert_eq!(settled(9.0, 7, high_with_some), 1.0);
        assert_eq!(settled(1.0, 7, |seed| (seed >> 48) as f64), 2.0);
    }

    #[test]
    fn a_deviation_is_about_the_mean() {
        assert_eq!((mean(&[1.0, 3.0]), deviation(&[1.0, 3.0]), deviation(&[2.0; 3])), (2.0, 1.0, 0.0));
    }
}
