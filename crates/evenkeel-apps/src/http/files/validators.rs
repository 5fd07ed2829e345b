//! Validators of a file, and the conditions that a request sets on them (RFC 9110, 8.8 and 13).

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::{fmt_http_date, parse_http_date};
use hyper::Method;
use hyper::header::{
    HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
};

/// The time in which a file can change twice without another time of modification. Times of files have the
/// resolution of the kernel's tick, and dates of HTTP that of a second.
const AMBIGUOUS: Duration = Duration::from_secs(1);

/// The validators of one version of a file.
///
/// The entity tag is made of the time of modification in nanoseconds and the length. A file that was modified
/// less than a second ago has a weak one: it could still change unnoticed (RFC 9110, 8.8.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Validators {
    tag: String,
    is_strong: bool,
    modified: SystemTime,
}

/// The result of a request's conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The request is carried out.
    Perform,
    /// The client's copy is the current version.
    NotModified,
    /// The client's condition does not hold.
    PreconditionFailed,
}

impl Validators {
    /// Returns the validators of a file at the time `now`. Of two files of one address, each has its own
    /// `coding`.
    pub(super) fn new(metadata: &Metadata, coding: &str, now: SystemTime) -> Self {
        let modified = metadata.modified().unwrap_or(UNIX_EPOCH);
        let (seconds, nanos, len) = (metadata.mtime(), metadata.mtime_nsec(), metadata.len());
        Self {
            tag: format!("\"{seconds:x}.{nanos:x}-{len:x}{coding}\""),
            is_strong: now.duration_since(modified).is_ok_and(|age| age > AMBIGUOUS),
            // RFC 9110, 8.8.2.1: never later than the answer's date.
            modified: whole_seconds(modified.min(now)),
        }
    }

    /// Returns the value of `ETag`.
    pub(super) fn etag(&self) -> String {
        format!("{}{}", if self.is_strong { "" } else { "W/" }, self.tag)
    }

    /// Returns the value of `Last-Modified`.
    pub(super) fn last_modified(&self) -> String {
        fmt_http_date(self.modified)
    }

    /// Evaluates the conditions in the order of RFC 9110, 13.2.2, except `If-Range`.
    pub(super) fn evaluate(&self, method: &Method, headers: &HeaderMap) -> Verdict {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        if headers.contains_key(IF_MATCH) {
            if !self.is_any_of(headers, &IF_MATCH, Comparison::Strong) {
                return Verdict::PreconditionFailed;
            }
        } else if date(headers, &IF_UNMODIFIED_SINCE).is_some_and(|date| self.modified > date) {
            return Verdict::PreconditionFailed;
        }
        if headers.contains_key(IF_NONE_MATCH) {
            if self.is_any_of(headers, &IF_NONE_MATCH, Comparison::Weak) {
                return if reads { Verdict::NotModified } else { Verdict::PreconditionFailed };
            }
        } else if reads && date(headers, &IF_MODIFIED_SINCE).is_some_and(|date| self.modified <= date) {
            return Verdict::NotModified;
        }
        Verdict::Perform
    }

    /// Returns whether ranges may be sent: `If-Range` is absent, or names this version by a strong validator
    /// (RFC 9110, 13.1.5).
    pub(super) fn allow_range(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(IF_RANGE) else { return true };
        let Ok(value) = value.to_str() else { return false };
        let value = value.trim();
        self.is_strong
            && (value == self.tag || parse_http_date(value).is_ok_and(|date| date == self.modified))
    }

    fn is_any_of(&self, headers: &HeaderMap, name: &HeaderName, comparison: Comparison) -> bool {
        headers.get_all(name).iter().any(|value| {
            tags(value.as_bytes()).any(|tag| match tag {
                Tag::Any => true,
                Tag::Strong(tag) => {
                    tag == self.tag.as_bytes() && (self.is_strong || comparison == Comparison::Weak)
                }
                Tag::Weak(tag) => tag == self.tag.as_bytes() && comparison == Comparison::Weak,
            })
        })
    }
}

/// A comparison of entity tags (RFC 9110, 8.8.3.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// A member of a list of entity tags. Tags keep their quotes.
#[derive(Debug, PartialEq, Eq)]
enum Tag<'a> {
    Any,
    Strong(&'a [u8]),
    Weak(&'a [u8]),
}

/// Returns the entity tags of a field's value, up to the first error. A tag may contain commas.
fn tags(mut rest: &[u8]) -> impl Iterator<Item = Tag<'_>> {
    core::iter::from_fn(move || {
        let start = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b','))?;
        rest = rest.get(start..)?;
        if let Some(after) = rest.strip_prefix(b"*") {
            rest = after;
            return Some(Tag::Any);
        }
        let (is_weak, quoted) = match rest.strip_prefix(b"W/") {
            Some(quoted) => (true, quoted),
            None => (false, rest),
        };
        let inner = quoted.strip_prefix(b"\"")?;
        let len = inner.iter().position(|&byte| byte == b'"')? + 2;
        let (tag, after) = quoted.split_at_checked(len)?;
        rest = after;
        Some(if is_weak { Tag::Weak(tag) } else { Tag::Strong(tag) })
    })
}

/// Returns the date of a field that has exactly one valid date. Any other is ignored, as the standard says.
fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    parse_http_date(value.to_str().ok()?.trim()).ok()
}

fn whole_seconds(time: SystemTime) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const MODIFIED: Duration = Duration::from_secs(784_111_777);

    fn version(is_strong: bool) -> Validators {
        Validators { tag: "\"a,b\"".to_owned(), is_strong, modified: UNIX_EPOCH + MODIFIED }
    }

    fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    #[test]
    fn each_condition_is_evaluated() {
        use Verdict::{NotModified, Perform, PreconditionFailed};
        for (name, value, expected) in [
            (IF_MATCH, "\"a,b\"", Perform),
            (IF_MATCH, "*", Perform),
            (IF_MATCH, "\"x\", \"a,b\"", Perform),
            (IF_MATCH, "\"x\"", PreconditionFailed),
            (IF_MATCH, "W/\"a,b\"", PreconditionFailed),
            (IF_MATCH, "nonsense", PreconditionFailed),
            (IF_UNMODIFIED_SINCE, SAME, Perform),
            (IF_UNMODIFIED_SINCE, BEFORE, PreconditionFailed),
            (IF_UNMODIFIED_SINCE, "yesterday", Perform),
            (IF_NONE_MATCH, "\"a,b\"", NotModified),
            (IF_NONE_MATCH, "W/\"a,b\"", NotModified),
            (IF_NONE_MATCH, "*", NotModified),
            (IF_NONE_MATCH, "\"a\" , W/\"b\"", Perform),
            (IF_NONE_MATCH, "\"a,b", Perform),
            (IF_MODIFIED_SINCE, SAME, NotModified),
            (IF_MODIFIED_SINCE, BEFORE, Perform),
            (IF_MODIFIED_SINCE, "yesterday", Perform),
        ] {
            let verdict = version(true).evaluate(&Method::GET, &headers(&[(name.clone(), value)]));
            assert_eq!(verdict, expected, "{name}: {value}");
        }
    }

    #[test]
    fn conditions_have_the_order_of_the_standard() {
        use Verdict::{NotModified, Perform, PreconditionFailed};
        for (fields, expected) in [
            (vec![(IF_MATCH, "\"a,b\""), (IF_UNMODIFIED_SINCE, BEFORE)], Perform),
            (vec![(IF_MATCH, "\"x\""), (IF_NONE_MATCH, "\"a,b\"")], PreconditionFailed),
            (vec![(IF_MATCH, "\"a,b\""), (IF_NONE_MATCH, "\"a,b\"")], NotModified),
            (vec![(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, SAME)], Perform),
            (vec![(IF_UNMODIFIED_SINCE, SAME), (IF_MODIFIED_SINCE, SAME)], NotModified),
            (vec![(IF_UNMODIFIED_SINCE, BEFORE), (IF_MODIFIED_SINCE, SAME)], PreconditionFailed),
        ] {
            assert_eq!(version(true).evaluate(&Method::GET, &headers(&fields)), expected, "{fields:?}");
        }
    }

    #[test]
    fn only_a_strong_validator_allows_a_range() {
        let allows = |is_strong, value| version(is_strong).allow_range(&headers(&[(IF_RANGE, value)]));
        assert!(allows(true, "\"a,b\"") && allows(true, SAME));
        for value in ["W/\"a,b\"", "\"x\"", BEFORE, "Sun, 06 Nov 1994 08:49:38 GMT", "x"] {
            assert!(!allows(true, value), "{value}");
        }
        assert!(!allows(false, "\"a,b\"") && !allows(false, SAME) && !allows(false, "W/\"a,b\""));
        assert!(version(false).allow_range(&HeaderMap::new()));
        let verdict = version(false).evaluate(&Method::GET, &headers(&[(IF_MATCH, "\"a,b\"")]));
        assert_eq!(verdict, Verdict::PreconditionFailed);
    }

    #[test]
    fn a_file_is_strongly_tagged_once_it_is_a_second_old() {
        let path = std::env::temp_dir().join(format!("evenkeel-validators-{}", std::process::id()));
        std::fs::write(&path, "text").unwrap();
        let metadata = std::fs::metadata(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let modified = metadata.modified().unwrap();
        let at = |age| Validators::new(&metadata, "", modified + age);
        assert!(at(Duration::from_millis(999)).etag().starts_with("W/\""));
        assert!(at(Duration::from_millis(1001)).etag().starts_with('"'));
        let early = Validators::new(&metadata, "br", UNIX_EPOCH + MODIFIED);
        assert_eq!(early.last_modified(), SAME, "never later than the date of the answer");
        assert!(!early.is_strong);
        assert_ne!(early.tag, at(Duration::ZERO).tag, "copies in other codings have tags of their own");
    }
}
