//! A histogram of latencies, with bounded memory and error.

use std::io::{self, Write};

use evenkeel::raw::time::Duration;

/// Decimal digits that a value keeps.
const DIGITS: u8 = 3;
/// The longest latency, an hour; longer ones count as this one.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Lines of the percentile text format for each halving of the remaining share.
const TICKS_PER_HALF: u32 = 5;

/// Latencies of up to an hour, as Gil Tene's HdrHistogram keeps them.
///
/// Buckets grow with the value, so that a percentile is never too low, and at most a thousandth too high.
/// 270 KiB; recording is a few instructions and allocates nothing.
#[derive(Clone)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        let histogram = hdrhistogram::Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
        Self(histogram.expect("these bounds are possible"))
    }
}

impl core::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let percentiles = [50.0, 99.0, 100.0].map(|p| self.percentile(p));
        f.debug_struct("Histogram").field("count", &self.count()).field("p50_p99_max", &percentiles).finish()
    }
}

impl Histogram {
    /// Records a latency in the histogram.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns the number of latencies recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the latency that `percent` of 100 recorded latencies do not exceed; `None` if none was
    /// recorded.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        let value = || Duration::from_nanos(self.0.value_at_percentile(percent));
        (!self.0.is_empty()).then(value)
    }

    /// Returns how many latencies exceed `latency`, to the precision of the buckets.
    #[must_use]
    pub fn count_over(&self, latency: Duration) -> u64 {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.0.len() - self.0.count_between(0, nanos)
    }

    /// Returns the mean latency; `None` if none was recorded.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        (!self.0.is_empty()).then(|| Duration::from_nanos(self.0.mean() as u64))
    }

    /// Adds the latencies of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// Returns the recorded values in nanoseconds, to the precision of the buckets, and how often each was.
    #[must_use]
    pub fn values(&self) -> Vec<(u64, u64)> {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
    }

    /// Adds values that another histogram returned.
    pub fn add_values(&mut self, values: &[(u64, u64)]) {
        for &(nanos, count) in values {
            self.0.saturating_record_n(nanos, count);
        }
    }

    /// Removes all recorded latencies.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Writes the distribution in HdrHistogram's percentile text format, in milliseconds, as its plotters
    /// read it.
    ///
    /// # Errors
    /// The errors of writing to `to`.
    pub fn write_percentiles(&self, to: &mut impl Write) -> io::Result<()> {
        let millis = |nanos: f64| nanos / 1e6;
        writeln!(
            to,
            "{:>12} {:>14} {:>10} {:>14}\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        )?;
        let mut below = 0;
        for step in self.0.iter_quantiles(TICKS_PER_HALF) {
            below += step.count_since_last_iteration();
            let (value, quantile) = (millis(step.value_iterated_to() as f64), step.quantile_iterated_to());
            write!(to, "{value:12.3} {quantile:2.12} {below:10}")?;
            if quantile < 1.0 {
                write!(to, " {:14.2}", 1.0 / (1.0 - quantile))?;
            }
            writeln!(to)?;
        }
        let (mean, deviation) = (millis(self.0.mean()), millis(self.0.stdev()));
        writeln!(to, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]")?;
        let (max, count) = (millis(self.0.max() as f64), self.0.len());
        writeln!(to, "#[Max     = {max:12.3}, Total count    = {count:12}]")?;
        let (buckets, sub_buckets) = (self.0.buckets(), 2 * 10_u64.pow(DIGITS.into()));
        writeln!(to, "#[Buckets = {buckets:12}, SubBuckets     = {:12}]", sub_buckets.next_power_of_two())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_never_too_low_and_at_most_a_thousandth_too_high() {
        let mut histogram = Histogram::default();
        for nanos in 1..=100_000 {
            histogram.record(Duration::from_nanos(nanos));
        }
        for percent in [0.001, 1.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
            let exact = 1_000.0 * percent;
            let told = histogram.percentile(percent).unwrap().as_nanos() as f64;
            assert!(told >= exact && told <= exact * 1.001, "{percent} %: {told} for {exact}");
        }
        assert_eq!(histogram.mean().unwrap().as_micros(), 50);
    }

    #[test]
    fn the_empty_and_the_endless() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.percentile(50.0), histogram.mean()), (None, None));
        histogram.record(Duration::MAX);
        let hour = histogram.percentile(0.0).unwrap().as_secs_f64();
        assert!((hour - 3_600.0).abs() < 4.0, "{hour}");
        histogram.clear();
        assert_eq!((histogram.count(), histogram.percentile(99.0)), (0, None));
    }

    /// `HistogramLogProcessor` and wrk2 print this format, and the plotter at hdrhistogram.github.io reads
    /// it.
    #[test]
    fn the_text_is_what_plotters_read() {
        let mut histogram = Histogram::default();
        for millis in 1..=1_000 {
            histogram.record(Duration::from_millis(millis));
        }
        let mut text = Vec::new();
        histogram.write_percentiles(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
        assert_eq!(lines[1], "");
        let rows = lines.iter().skip(2).take_while(|line| !line.starts_with('#'));
        let rows: Vec<Vec<f64>> =
            rows.map(|row| row.split_whitespace().map(|number| number.parse().unwrap()).collect()).collect();
        let (last, others) = rows.split_last().unwrap();
        assert_eq!((last.len(), last[1], last[2]), (3, 1.0, 1_000.0), "{last:?}");
        assert!((last[0] - 1_000.0).abs() <= 1.0, "{last:?}");
        for row in others {
            assert_eq!(row.len(), 4, "{row:?}");
            assert!((row[3] - 1.0 / (1.0 - row[1])).abs() < row[3] / 100.0, "{row:?}");
            assert!((row[0] - row[2]).abs() <= 1.0, "{row:?}");
        }
        assert!(others.iter().any(|row| row[1] == 0.5 && (row[2] - 500.0).abs() <= 1.0), "{text}");
        assert!(lines[lines.len() - 3].starts_with("#[Mean    =      500."), "{text}");
        assert!(lines[lines.len() - 2].ends_with("Total count    =         1000]"), "{text}");
    }
}
