//! The loads of a measurement.

/// Returns loads in equal ratios from the lowest to the highest, in pps: at least two.
pub(super) fn rising(lowest: f64, highest: f64, points: usize) -> Vec<u64> {
    let steps = points.max(2) - 1;
    let ratio = (highest / lowest).powf(1.0 / steps as f64);
    (0..=steps).map(|n| (lowest * ratio.powi(n as i32)).round() as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_rise_by_one_ratio() {
        assert_eq!(rising(100.0, 1600.0, 5), [100, 200, 400, 800, 1600]);
        assert_eq!(rising(100.0, 1600.0, 1), [100, 1600]);
    }
}
