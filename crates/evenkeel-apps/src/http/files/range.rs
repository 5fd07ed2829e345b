//! `Range` (RFC 9110, 14).

use core::ops::Range;

use hyper::header::{HeaderMap, RANGE};

/// The number of ranges above which a request is answered with the whole file: a list of many small ranges
/// costs more than it saves (RFC 9110, 14.2).
const RANGES_MAX: usize = 16;

/// The part of a file that a request wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Selection {
    /// The whole file: there is no range, or none that this server takes.
    Whole,
    /// These ranges, none of which is empty.
    Ranges(Vec<Range<u64>>),
    /// Only ranges that the file does not have.
    Unsatisfiable,
}

impl Selection {
    /// Returns the part of a file of `len` bytes that the headers of a `GET` select.
    pub(super) fn of(headers: &HeaderMap, len: u64) -> Self {
        let mut values = headers.get_all(RANGE).iter();
        let Some(value) = values.next().filter(|_| values.next().is_none()) else { return Self::Whole };
        value.to_str().ok().and_then(|value| Self::parse(value, len)).unwrap_or(Self::Whole)
    }

    /// Returns the selection of a value, or `None` if the value is to be ignored.
    fn parse(value: &str, len: u64) -> Option<Self> {
        let (unit, specs) = value.split_once('=')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        let specs =
            specs.split(',').map(|spec| spec.trim_matches([' ', '\t'])).filter(|spec| !spec.is_empty());
        let mut all = 0;
        let mut ranges = Vec::new();
        for spec in specs {
            all += 1;
            ranges.extend(parse_spec(spec, len)?);
        }
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
        match (all, ranges.len()) {
            (0, _) => None,
            (_, 0) => Some(Self::Unsatisfiable),
            // Ranges that overlap so much that the whole is shorter.
            (_, 2..) if all > RANGES_MAX || bytes > len => None,
            _ => Some(Self::Ranges(ranges)),
        }
    }
}

/// Returns the range of one specification: `None` in an error, `Some(None)` if the file does not have it.
fn parse_spec(spec: &str, len: u64) -> Option<Option<Range<u64>>> {
    let (first, last) = spec.split_once('-')?;
    let range = if first.is_empty() {
        len.saturating_sub(number(last)?)..len
    } else {
        let first = number(first)?;
        let last = if last.is_empty() { u64::MAX } else { number(last)? };
        if last < first {
            return None;
        }
        first..len.min(last.saturating_add(1))
    };
    Some((!range.is_empty()).then_some(range))
}

/// Returns a number of digits alone. One that is too large is the largest.
fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(value: &str, len: u64) -> Selection {
        Selection::parse(value, len).unwrap_or(Selection::Whole)
    }

    #[test]
    fn ranges_are_those_of_the_standard() {
        let one = |range| Selection::Ranges(vec![range]);
        for (value, expected) in [
            ("bytes=0-499", one(0..500)),
            ("bytes=500-999", one(500..1000)),
            ("bytes=-500", one(9500..10_000)),
            ("bytes=9500-", one(9500..10_000)),
            ("bytes=0-0,-1", Selection::Ranges(vec![0..1, 9999..10_000])),
            ("BYTES= 500-600 , 601-999,", Selection::Ranges(vec![500..601, 601..1000])),
            ("bytes=9999-20000", one(9999..10_000)),
            ("bytes=-99999999999999999999999", one(0..10_000)),
            ("bytes=0-99999999999999999999999", one(0..10_000)),
            ("bytes=20000-,5-6", one(5..7)),
            ("bytes=10000-", Selection::Unsatisfiable),
            ("bytes=-0", Selection::Unsatisfiable),
            ("bytes=10000-, -0", Selection::Unsatisfiable),
        ] {
            assert_eq!(of(value, 10_000), expected, "{value}");
        }
        assert_eq!(of("bytes=0-", 0), Selection::Unsatisfiable);
        assert_eq!(of("bytes=-5", 0), Selection::Unsatisfiable);
    }

    #[test]
    fn other_values_are_ignored() {
        for value in [
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=a-b",
            "bytes=5-4",
            "bytes=1-2,x",
            "bytes=-",
            "bytes=+1-2",
            "lines=1-2",
            "bytes=1 - 2",
            "bytes=--1",
        ] {
            assert_eq!(of(value, 10_000), Selection::Whole, "{value}");
        }
    }

    #[test]
    fn lists_that_cost_more_than_the_file_get_the_file() {
        assert_eq!(of("bytes=0-,0-,0-", 1000), Selection::Whole);
        let many = |count: usize| format!("bytes={}", vec!["1-1"; count].join(","));
        assert_eq!(of(&many(RANGES_MAX + 1), 1000), Selection::Whole);
        assert!(matches!(of(&many(RANGES_MAX), 1000), Selection::Ranges(_)));
    }

    proptest! {
        #[test]
        fn no_range_leaves_the_file(value in "bytes=[-0-9, ]{0,40}", len in 0u64..2000) {
            if let Selection::Ranges(ranges) = of(&value, len) {
                prop_assert!(!ranges.is_empty() && ranges.iter().all(|r| r.start < r.end && r.end <= len));
            }
        }
    }
}
