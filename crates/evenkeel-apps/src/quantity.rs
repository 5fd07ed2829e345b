//! Numbers and units in the form in which all programs print them.

use core::time::Duration;

/// Formats a number with three significant digits and a prefix of the SI, such as `1.05 M`. A unit may
/// follow.
///
/// Zero is `0 `, so that a unit always follows a space; anything below one keeps its three digits without
/// prefix.
#[must_use]
pub fn si(value: f64) -> String {
    const PREFIXES: [(f64, &str); 3] = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    // Rounding may reach the next prefix: 999 999 is 1.00 M, not 1000 k.
    let rounded = round_to_three_digits(value);
    let (unit, prefix) = PREFIXES.into_iter().find(|(unit, _)| rounded.abs() >= *unit).unwrap_or((1.0, ""));
    format!("{} {prefix}", three_digits(rounded / unit))
}

/// Formats a rate of packets: `1.05 Mpps`, `0 pps`.
#[must_use]
pub fn pps(value: f64) -> String {
    si(value) + "pps"
}

/// Formats a rate of bits: `48.1 Mbit/s`, `0 bit/s`.
#[must_use]
pub fn bit_rate(value: f64) -> String {
    si(value) + "bit/s"
}

/// Formats a rate of bits in as few characters as possible: `50 Mbit/s`.
#[must_use]
pub fn short_bit_rate(value: f64) -> String {
    short_si(value) + "bit/s"
}

/// Formats a rate of bytes: `5.64 MB/s`, `0 B/s`.
#[must_use]
pub fn byte_rate(value: f64) -> String {
    si(value) + "B/s"
}

/// Formats a rate of anything else: `1.97 k/s`, `0 /s`.
#[must_use]
pub fn per_s(value: f64) -> String {
    si(value) + "/s"
}

/// Formats a number with a prefix of the SI in as few characters as possible: `10 k`, `1.05 M`, `0 `. A
/// unit may follow.
#[must_use]
pub fn short_si(value: f64) -> String {
    let text = si(value);
    let (number, prefix) = text.split_once(' ').unwrap_or((&text, ""));
    format!("{} {prefix}", without_zeros(number))
}

/// Formats a number with a prefix of the SI in as few characters as possible, with no unit to follow: `10
/// k`, `1.05 M`, `0`.
#[must_use]
pub fn short(value: f64) -> String {
    short_si(value).trim_end().to_owned()
}

/// Formats three significant digits without prefix: `105`, `10.5`, `1.05`, `0.105`. Larger numbers lose no
/// digit before the point, and are grouped as a [`count`] is.
#[must_use]
pub fn three_digits(value: f64) -> String {
    let value = round_to_three_digits(value);
    if value >= 1_000.0 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and above 0")]
        return count(value as u64);
    }
    let decimals = match value.abs() {
        0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Formats a large number in words, `6.2 million`. A number below a million stays as it is.
#[must_use]
pub fn in_words(value: f64) -> String {
    if value >= 999_500.0 {
        return format!("{} million", three_digits_at_most(value / 1e6));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count below a million")]
    count(value.max(0.0).round() as u64)
}

/// Formats at most three significant digits: `10.5`, `1`, `24 800`.
#[must_use]
pub fn three_digits_at_most(value: f64) -> String {
    without_zeros(&three_digits(value)).to_owned()
}

/// Formats a number with at most so many decimals: `0.25`, `3`.
#[must_use]
pub fn decimals_at_most(value: f64, decimals: usize) -> String {
    without_zeros(&format!("{value:.decimals$}")).to_owned()
}

/// Removes zeros from the end of a decimal number.
fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// Formats a share as percent, with the digits that matter near 0 and near 100: `0.04`, `12.5`, `99.6`,
/// `100`.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0".into(),
        p if p.abs() < 0.1 => format!("{p:.2}"),
        p if (p - 100.0).abs() < 0.005 => "100".into(),
        p if p > 99.9 && p < 100.0 => format!("{p:.2}"),
        p => format!("{p:.1}"),
    }
}

/// Formats a time given in nanoseconds, in the unit that fits: `850 ns`, `1 µs`, `2.5 ms`, `3 s`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn time(nanos: u64) -> String {
    let (value, unit) = match nanos {
        0..1_000 => (nanos as f64, "ns"),
        1_000..1_000_000 => (nanos as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (nanos as f64 / 1e6, "ms"),
        _ => (nanos as f64 / 1e9, "s"),
    };
    format!("{} {unit}", three_digits_at_most(value))
}

/// Formats a time given in microseconds as [`time()`] does; `-` if there is none.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times are above 0")]
pub fn micros(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |micros| time((micros * 1e3) as u64))
}

/// Formats a setting of time to the nanosecond, or to a thousandth of its unit: `100.001 ms`, `0 ms`.
#[must_use]
pub fn exact_time(time: Duration) -> String {
    let (value, unit) = match time.as_nanos() {
        nanos if nanos >= 1_000_000_000 => (time.as_secs_f64(), "s"),
        nanos if nanos >= 1_000_000 || nanos == 0 => (time.as_secs_f64() * 1e3, "ms"),
        _ => (time.as_secs_f64() * 1e6, "µs"),
    };
    format!("{} {unit}", decimals_at_most(value, 3))
}

/// Formats a time of day given in seconds after midnight, `07:30`.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times are above 0")]
pub fn time_of_day(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Formats a count with thin spaces between groups of three digits: `12 345`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::with_capacity(digits.len() * 2);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

fn round_to_three_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let step = 10f64.powf(value.abs().log10().floor() - 2.0);
    (value / step).round() * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_whatever_the_size() {
        let shown = [0.0, 0.0123, 1.0, 12.34, 999.4, 1_234.0, 999_999.0, 10_512_345.0].map(si);
        assert_eq!(shown, ["0 ", "0.012 ", "1.00 ", "12.3 ", "999 ", "1.23 k", "1.00 M", "10.5 M"]);
        assert_eq!([999.4, 24_841.0].map(three_digits), ["999", "24\u{202f}800"]);
    }

    #[test]
    fn a_rate_has_one_unit_behind_one_space() {
        assert_eq!([0.0, 999.0, 1.05e6].map(pps), ["0 pps", "999 pps", "1.05 Mpps"]);
        assert_eq!([0.0, 48.1e6].map(bit_rate), ["0 bit/s", "48.1 Mbit/s"]);
        assert_eq!(short_bit_rate(50e6), "50 Mbit/s");
        assert_eq!((byte_rate(5.64e6), per_s(1_970.0)), ("5.64 MB/s".to_owned(), "1.97 k/s".to_owned()));
    }

    #[test]
    fn short_ones_have_no_zeros_and_a_space_before_a_unit() {
        let values = [0.0, 500.0, 10_000.0, 1_050_000.0];
        assert_eq!(values.map(short_si), ["0 ", "500 ", "10 k", "1.05 M"]);
        assert_eq!(values.map(short), ["0", "500", "10 k", "1.05 M"]);
    }

    #[test]
    fn shares_keep_the_digits_that_matter() {
        let shown = [0.0, 0.0004, 0.125, 0.9965, 0.99951, 1.0].map(percent);
        assert_eq!(shown, ["0", "0.04", "12.5", "99.7", "99.95", "100"]);
    }

    #[test]
    fn times_come_in_the_unit_that_fits() {
        let shown = [0, 850, 1_000, 1_500, 2_500_000, 3_000_000_000, 100_000].map(time);
        assert_eq!(shown, ["0 ns", "850 ns", "1 µs", "1.5 µs", "2.5 ms", "3 s", "100 µs"]);
    }

    #[test]
    fn settings_are_exact_and_short() {
        let times = [0, 850, 100_000, 2_500_000, 100_001_000, 3_000_000_000].map(Duration::from_nanos);
        assert_eq!(
            times.map(exact_time),
            ["0 ms", "0.85 µs", "100 µs", "2.5 ms", "100.001 ms", "3 s"].map(str::to_owned)
        );
        assert_eq!([0.25, 3.0].map(|value| decimals_at_most(value, 6)), ["0.25", "3"]);
        assert_eq!([micros(None), micros(Some(1.5)), time_of_day(27_000.0)], ["-", "1.5 µs", "07:30"]);
        assert_eq!([10.0, 10.5, 24_841.0].map(three_digits_at_most), ["10", "10.5", "24\u{202f}800"]);
    }

    #[test]
    fn large_numbers_in_words() {
        assert_eq!(
            [850_000.0, 999_900.0, 6.2e6, 1.05e7].map(in_words),
            ["850\u{202f}000", "1 million", "6.2 million", "10.5 million"]
        );
    }

    #[test]
    fn counts_are_grouped() {
        let shown = [0, 999, 1_000, 1_234_567].map(count);
        assert_eq!(shown, ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]);
    }
}
