//! The requests of a day: the rise and fall of the rate from midnight to midnight.

use core::f64::consts::TAU;

use evenkeel::raw::time::Duration;

use super::curve::{Curve, Step};
use crate::dice::Dice;
use crate::quantity::per_s;

/// The number of samples of a day in the paper's live trials, one each 15 minutes.
pub const SAMPLES: usize = 96;
const HOURS: f64 = 24.0;

/// The shape, a power of a raised cosine, is an assumption, because the paper has no picture of it. Its
/// parameters satisfy the paper's statistics of the day of 1998-04-23: 2 602 448 requests, which is 30.1
/// requests/s on average (table 3), 55 requests/s from 10:00 to 11:00 (table 7), and 54 of the 96 samples
/// above 20 requests/s (table 5).
const NIGHT: f64 = 13.10;
const NOON: f64 = 58.49;
const BUSIEST_HOUR: f64 = 12.0;

/// The order of the gamma distribution of a single second's rate, relative to the rate of its quarter of an
/// hour. The busiest second of the day had 116 requests, and the busiest hours had 55 a second on average.
/// With independent users it would have had about 87. A gamma distribution of this order (its deviation is
/// 0.22 of its mean) accounts for the rest.
const ORDER: u32 = 21;

/// A day from midnight to midnight.
#[derive(Debug, Clone, PartialEq)]
pub struct Day {
    /// The rates in requests a second, for parts of the day of equal length.
    rates: Vec<f64>,
    bursty: bool,
}

impl Day {
    /// Creates a day like those of the paper's live trials.
    #[must_use]
    pub fn synthetic() -> Self {
        let hour = |sample: usize| (sample as f64 + 0.5) * HOURS / SAMPLES as f64;
        let shape = |hour: f64| ((1.0 + (TAU * (hour - BUSIEST_HOUR) / HOURS).cos()) / 2.0).powi(2);
        let rates = (0..SAMPLES).map(|sample| NIGHT + (NOON - NIGHT) * shape(hour(sample))).collect();
        Self { rates, bursty: true }
    }

    /// Reads a day from lines of a time of day and the requests a second from then on, such as `09:30 55`.
    /// Text after a `#` is a comment.
    ///
    /// # Errors
    /// A message about a line that is malformed or out of order, a missing rate at 00:00, or a day without
    /// requests.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut changes = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let said = line.split('#').next().unwrap_or_default().trim();
            if said.is_empty() {
                continue;
            }
            let wrong = || format!("line {number}: `{said}` is no time and rate such as `09:30 55`");
            let change = change(said).ok_or_else(wrong)?;
            if changes.last().is_some_and(|(minute, _)| *minute >= change.0) {
                return Err(format!("line {number}: {said} is not after the line before"));
            }
            changes.push(change);
        }
        if changes.first().is_none_or(|(minute, _)| *minute != 0) {
            return Err("the first line must say the rate at 00:00".to_owned());
        }
        let rate_at =
            |minute: usize| changes.iter().rev().find(|(from, _)| *from <= minute).map(|(_, rate)| *rate);
        let rates: Vec<f64> = (0..MINUTES).filter_map(rate_at).collect();
        if rates.iter().any(|rate| *rate > 0.0) {
            Ok(Self { rates, bursty: false })
        } else {
            Err("nobody comes all day".to_owned())
        }
    }

    /// Returns the average rate in requests a second.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.rates.iter().sum::<f64>() / self.rates.len() as f64
    }

    /// Returns the rate in the busiest part, in requests a second.
    #[must_use]
    pub fn peak(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the day scaled to another mean and, if `peak` is given, to that peak.
    ///
    /// # Errors
    /// No such day exists: the peak is below the mean, a rate would be negative, or a day of constant rate
    /// would have another peak.
    pub fn scaled(mut self, mean: f64, peak: Option<f64>) -> Result<Self, String> {
        let (old_mean, old_peak) = (self.mean(), self.peak());
        let depth = old_mean - self.rates.iter().copied().fold(f64::INFINITY, f64::min);
        let height = match peak {
            None => mean / old_mean,
            Some(peak) if depth > 0.0 => (peak - mean) / (old_peak - old_mean),
            Some(_) => return Err("a day that is the same at all times has no other peak".to_owned()),
        };
        // With this factor the lowest rate becomes zero.
        let highest = if depth > 0.0 { mean / depth } else { f64::INFINITY };
        if !(0.0..=highest * (1.0 + 1e-9)).contains(&height) {
            let most = mean + (old_peak - old_mean) * highest;
            let [mean, most] = [mean, most].map(per_s);
            return Err(format!("with a mean of {mean} this day can have a peak from {mean} to {most}"));
        }
        for rate in &mut self.rates {
            *rate = (mean + (*rate - old_mean) * height).max(0.0);
        }
        Ok(self)
    }

    /// Returns the day as a curve of the given length.
    #[must_use]
    pub fn within(&self, length: Duration, seed: u64) -> Curve {
        let parts = u32::try_from(self.rates.len()).unwrap_or(u32::MAX);
        let mut dice = Dice::new(seed);
        let mut steps = Vec::new();
        // Consecutive parts of one rate become one step.
        let changes = (1..parts).filter(|part| self.rate(*part) != self.rate(part - 1));
        let mut from = 0;
        for until in changes.chain([parts]) {
            let (mut left, rate) = (length * until / parts - length * from / parts, self.rate(from));
            while !left.is_zero() {
                let length = if self.bursty { left.min(Duration::from_secs(1)) } else { left };
                let lot = if self.bursty { burst(&mut dice) } else { 1.0 };
                steps.push(Step { length, rate: rate * lot });
                left -= length;
            }
            from = until;
        }
        Curve::of(steps)
    }

    fn rate(&self, part: u32) -> f64 {
        self.rates.get(part as usize).copied().unwrap_or_default()
    }
}

/// Returns the rate of a random second, as a multiple of its quarter of an hour's rate.
fn burst(dice: &mut Dice) -> f64 {
    (0..ORDER).map(|_| dice.exponential()).sum::<f64>() / f64::from(ORDER)
}

const MINUTES: usize = 24 * 60;

/// Reads a minute of the day and a rate.
fn change(line: &str) -> Option<(usize, f64)> {
    let (time, rate) = line.split_once([' ', '\t', ','])?;
    let (hour, minute) = time.split_once(':')?;
    let (hour, minute): (usize, usize) = (hour.parse().ok()?, minute.parse().ok()?);
    let rate: f64 = rate.trim().parse().ok()?;
    (hour < 24 && minute < 60 && rate.is_finite() && rate >= 0.0).then_some((hour * 60 + minute, rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests a second on average over the day of 1998-04-23.
    const MEAN: f64 = 2_602_448.0 / 86_400.0;

    #[test]
    fn the_synthetic_day_has_the_statistics_of_the_paper() {
        let day = Day::synthetic();
        assert!((day.mean() / MEAN - 1.0).abs() < 0.002, "{}", day.mean());
        let from_ten = day.rates[40..44].iter().sum::<f64>() / 4.0;
        assert!((from_ten - 55.0).abs() < 0.5, "{from_ten}");
        assert_eq!(day.rates.iter().filter(|rate| **rate > 20.0).count(), 54);
    }

    /// Uncompressed, over several days: the busiest second of a day has about 116 requests, and without
    /// bursts it would have far fewer.
    #[test]
    fn its_busiest_second_is_as_busy_as_the_papers() {
        use super::super::arrivals::{Arrivals, Spacing};
        let busiest = |bursty: bool, seed: u64| {
            let day = Day { bursty, ..Day::synthetic() };
            let mut arrivals =
                Arrivals::new(day.within(Duration::from_hours(24), seed), Spacing::Poisson, seed);
            let mut seconds = vec![0_u32; 86_400];
            while let Some(time) = arrivals.next() {
                seconds[time.as_secs() as usize] += 1;
                arrivals.advance();
            }
            seconds.into_iter().max().unwrap()
        };
        for seed in 1..4 {
            let (with, without) = (busiest(true, seed), busiest(false, seed));
            assert!((105..135).contains(&with), "{with}");
            assert!((80..100).contains(&without), "{without}");
        }
    }

    #[test]
    fn a_day_may_be_scaled_to_any_mean_and_within_bounds_to_any_peak() {
        let day = Day::synthetic().scaled(1_000.0, None).unwrap();
        assert!((day.mean() - 1_000.0).abs() < 1e-6 && (day.peak() - 1_940.0).abs() < 10.0, "{}", day.peak());
        let flat = Day::synthetic().scaled(1_000.0, Some(1_200.0)).unwrap();
        assert!((flat.mean() - 1_000.0).abs() < 1e-6 && (flat.peak() - 1_200.0).abs() < 1e-6);
        let error = Day::synthetic().scaled(1_000.0, Some(3_000.0)).unwrap_err();
        assert!(error.contains("from 1.00 k/s to 2.6"), "{error}");
        assert!(Day::synthetic().scaled(1_000.0, Some(2_600.0)).is_ok());
        assert!(Day::synthetic().scaled(1_000.0, Some(900.0)).is_err());
    }

    #[test]
    fn compressed_it_has_fewer_requests_at_the_same_rates() {
        let curve = Day::synthetic().within(Duration::from_mins(5), 1);
        assert_eq!(curve.length(), Duration::from_mins(5));
        assert!((curve.requests() / (300.0 * MEAN) - 1.0).abs() < 0.1, "{}", curve.requests());
    }

    #[test]
    fn days_are_read_from_text() {
        let day = Day::parse("00:00 5  # night\n\n# day\n06:00 50\n18:30,7\n").unwrap();
        assert!((day.mean() - (5.0 * 6.0 + 50.0 * 12.5 + 7.0 * 5.5) / 24.0).abs() < 1e-9);
        let curve = day.within(Duration::from_secs(24), 1);
        assert!((curve.requests_between(Duration::ZERO, Duration::from_secs(6)) - 30.0).abs() < 1e-6);
        for (wrong, why) in [
            ("", "at 00:00"),
            ("01:00 5", "at 00:00"),
            ("00:00 0", "nobody"),
            ("00:00 5\n25:00 6", "line 2"),
            ("00:00 -5", "line 1"),
            ("00:00 inf", "line 1"),
            ("00:00 5\n06:00 1\n06:00 2", "line 3"),
            ("noon 5", "line 1"),
        ] {
            assert!(Day::parse(wrong).is_err_and(|error| error.contains(why)), "{wrong}");
        }
    }
}
