//! Quantities on the command line: times, rates and counts with their usual suffixes.

use std::time::Duration;

/// The rate at which a generator sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rate {
    /// Frames a second.
    PerSecond(u64),
    /// As fast as the machine can.
    Max,
}

impl Rate {
    /// Returns the rate in frames a second, or none for [`Rate::Max`].
    pub(crate) fn per_second(self) -> Option<u64> {
        match self {
            Self::PerSecond(rate) => Some(rate),
            Self::Max => None,
        }
    }

    /// Returns the number of frames that a generator may send at a time to catch up. The number covers
    /// 50 µs, which a busy machine often takes from a thread. It is at least 64, so that reading the clock
    /// costs little a frame.
    pub(crate) fn burst_pkts(self) -> u64 {
        self.per_second().map_or(64, |rate| (rate / 20_000).clamp(64, 1_024))
    }
}

/// Reads a time with its unit: `850ns`, `1us`, `2.5ms`, `10s`, `1min`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("min", 60e9), ("s", 1e9), ("h", 3600e9)];
    let expected = || "expected a time with its unit, such as 500ns, 1us, 2.5ms, 10s or 1min".to_owned();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (number, unit) = split(text);
    let (_, nanos) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(expected)?;
    let value = positive(number).ok_or_else(expected)? * nanos;
    whole(value).map(Duration::from_nanos).ok_or_else(expected)
}

/// Reads a program's work for each packet: at most 1 ms, so that a tenth of a second has room for 100 packets
/// and a short run finds the peak.
pub(crate) fn short_work(text: &str) -> Result<Duration, String> {
    let work = time(text)?;
    let short = (work <= Duration::from_millis(1)).then_some(work);
    short.ok_or_else(|| "expected at most 1ms: with more, no load is long enough to find the peak".to_owned())
}

/// Reads a period: a time above zero with its unit.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    time(text)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "expected a time above 0 with its unit, such as 100us, 2.5ms or 1s".to_owned())
}

/// Reads a number of seconds without a unit, above zero and at most a day.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let seconds = positive(text).filter(|s| *s > 0.0 && *s <= 86_400.0);
    seconds.ok_or_else(|| "expected a number of seconds above 0, such as 0.5 or 2".to_owned())
}

/// Reads a rate in frames a second, `500k` or `2M`, or `max`.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    let rate = with_suffix(text).filter(|rate| *rate > 0).map(Rate::PerSecond);
    rate.ok_or_else(|| "expected frames a second above 0, such as 1500, 500k or 2M, or max".to_owned())
}

/// Reads bits a second in the units of tc: `64kbit`, `50mbit`, `1gbit`.
pub(crate) fn bit_rate(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 4] = [("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
    let (number, unit) = split(text);
    let unit = unit.to_ascii_lowercase();
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let rate = positive(number).zip(factor).map(|(number, factor)| number * factor);
    rate.filter(|rate| (1.0..=1e12).contains(rate))
        .and_then(whole)
        .ok_or_else(|| "expected bits a second with their unit, such as 64kbit, 50mbit or 1gbit".to_owned())
}

/// Reads a rate of requests a second above zero: `0.5`, `1500`, `10k`.
pub(crate) fn frequency(text: &str) -> Result<f64, String> {
    let (number, suffix) = split(text);
    let factor = match suffix {
        "" => Some(1.0),
        "k" => Some(1e3),
        "M" => Some(1e6),
        _ => None,
    };
    let rate = positive(number).zip(factor).map(|(number, factor)| number * factor);
    rate.filter(|rate| *rate > 0.0 && *rate <= 1e9)
        .ok_or_else(|| "expected a number above 0, such as 0.5, 1500 or 10k".to_owned())
}

/// Reads a size in bytes: `64k`, `100M`; without a suffix in millions, as `tcpdump -C` has it.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let plain = text.chars().all(|c| c.is_ascii_digit());
    let size = with_suffix(text).map(|size| if plain { size.saturating_mul(1_000_000) } else { size });
    size.filter(|size| *size > 0).ok_or_else(|| {
        "expected a size above 0, such as 64k or 100M; without a suffix in millions of bytes".to_owned()
    })
}

/// Reads a time above zero, with its unit or in seconds.
pub(crate) fn time_or_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0).map(Duration::from_secs);
    seconds
        .map_or_else(|| time(text).ok().filter(|time| !time.is_zero()), Some)
        .ok_or_else(|| "expected a time above 0, such as 60 (seconds), 10min or 1h".to_owned())
}

/// Reads a count above zero, `1000`, `10k` or `2M`.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let count = with_suffix(text).filter(|count| *count > 0);
    count.ok_or_else(|| "expected a count above 0, such as 1000, 10k or 2M".to_owned())
}

fn with_suffix(text: &str) -> Option<u64> {
    let (number, suffix) = split(text);
    let factor = match suffix {
        "" => return number.parse().ok(),
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    };
    whole(positive(number)? * factor)
}

/// Splits a text at the end of its number.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// Reads a plain decimal number: no sign, no exponent, no words for infinity.
pub(crate) fn positive(text: &str) -> Option<f64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    if plain { text.parse().ok() } else { None }
}

/// Returns the nearest integer, if it fits.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within range, as tested")]
pub(crate) fn whole(value: f64) -> Option<u64> {
    (0.0..1.8e19).contains(&value).then(|| value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let nanos = |text| time(text).map(|t| t.as_nanos());
        assert_eq!(nanos("1us"), Ok(1_000));
        assert_eq!(nanos("1.5µs"), Ok(1_500));
        assert_eq!(nanos("2ms"), Ok(2_000_000));
        assert_eq!(nanos("1min"), Ok(60_000_000_000));
        assert_eq!(nanos("0"), Ok(0));
        for wrong in ["", "1", "us", "-1us", "1 us", "1parsec", "1e3s", "1.2.3s", "99999999999999h"] {
            assert!(time(wrong).is_err_and(|e| e.contains("such as 500ns")), "{wrong}");
        }
    }

    #[test]
    fn rates_and_counts_have_suffixes() {
        assert_eq!(rate("1500"), Ok(Rate::PerSecond(1_500)));
        assert_eq!(rate("2.5k"), Ok(Rate::PerSecond(2_500)));
        assert_eq!(rate("10M"), Ok(Rate::PerSecond(10_000_000)));
        assert_eq!(rate("max"), Ok(Rate::Max));
        assert_eq!(count("18446744073709551615"), Ok(u64::MAX));
        for wrong in ["", "0", "-5", "1K", "2m", "inf", "1..2k", "k", "1e9"] {
            assert!(rate(wrong).is_err() && count(wrong).is_err(), "{wrong}");
        }
        assert!(count("max").is_err());
    }

    #[test]
    fn frequencies_may_be_fractions() {
        assert_eq!(["0.5", "1500", "2.5k", "1M"].map(frequency), [0.5, 1_500.0, 2_500.0, 1e6].map(Ok));
        for wrong in ["", "0", "-1", "1G", "1/s", "inf", "max", "1e3", "9999999M"] {
            assert!(frequency(wrong).is_err_and(|error| error.contains("10k")), "{wrong}");
        }
    }

    #[test]
    fn sizes_and_ages_of_files_are_read_as_tcpdump_reads_them() {
        assert_eq!(size("10"), Ok(10_000_000));
        assert_eq!(size("64k"), Ok(64_000));
        assert_eq!(size("1.5M"), Ok(1_500_000));
        assert_eq!(time_or_seconds("60"), Ok(Duration::from_secs(60)));
        assert_eq!(time_or_seconds("10min"), Ok(Duration::from_secs(600)));
        for wrong in ["", "0", "-1", "1K", "0s"] {
            assert!(size(wrong).is_err() && time_or_seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seconds_are_plain_numbers() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "1s", "NaN", "inf", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
