//! Content codings of files that were compressed beforehand (RFC 9110, 12.5.3).

use hyper::header::{ACCEPT_ENCODING, HeaderMap};

/// A coding of which a file can have a copy next to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Brotli,
    Gzip,
}

impl Coding {
    /// Returns the name in HTTP.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// Returns the end of the copy's name.
    pub(super) const fn extension(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
        }
    }

    /// Returns the codings that a request prefers to none, best first; of equals, Brotli is smaller.
    pub(super) fn accepted(headers: &HeaderMap) -> impl Iterator<Item = Self> {
        let quality = Qualities::of(headers);
        let wanted = |coding: &Self| quality.of_coding(coding.name()) >= quality.identity().max(1);
        let mut codings = [Self::Brotli, Self::Gzip];
        codings.sort_by_key(|coding| core::cmp::Reverse(quality.of_coding(coding.name())));
        codings.map(|coding| wanted(&coding).then_some(coding)).into_iter().flatten()
    }
}

/// Qualities in thousandths, by lower-case name.
struct Qualities(Vec<(String, u16)>);

impl Qualities {
    fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let members = values.flat_map(|value| value.split(','));
        let named = members.filter_map(|member| {
            let (name, parameters) = member.split_once(';').unwrap_or((member, ""));
            let name = name.trim().to_ascii_lowercase();
            // `x-gzip` is the same (RFC 9110, 8.4.1.3).
            let name = name.strip_prefix("x-").map_or_else(|| name.clone(), str::to_owned);
            Some((name, quality(parameters)?))
        });
        Self(named.collect())
    }

    fn get(&self, name: &str) -> Option<u16> {
        self.0.iter().find(|(other, _)| other == name).map(|&(_, quality)| quality)
    }

    fn of_coding(&self, name: &str) -> u16 {
        self.get(name).or_else(|| self.get("*")).unwrap_or(0)
    }

    /// Returns the quality of the file as it is, which is acceptable unless the request excludes it.
    fn identity(&self) -> u16 {
        self.get("identity").unwrap_or(0)
    }
}

/// Returns the quality of a member's parameters, or `None` if it is none.
fn quality(parameters: &str) -> Option<u16> {
    let parameters = parameters.trim();
    if parameters.is_empty() {
        return Some(1000);
    }
    let (name, value) = parameters.split_once('=')?;
    let value: f32 = value.trim().parse().ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
    let quality = (value * 1000.0) as u16;
    (name.trim().eq_ignore_ascii_case("q") && (0.0..=1.0).contains(&value)).then_some(quality)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn codings_are_ordered_by_quality() {
        use Coding::{Brotli, Gzip};
        for (value, expected) in [
            ("gzip, deflate, br", &[Brotli, Gzip][..]),
            ("gzip;q=1.0, br;q=0.5", &[Gzip, Brotli]),
            ("gzip", &[Gzip]),
            ("X-GZIP", &[Gzip]),
            ("*", &[Brotli, Gzip]),
            ("*;q=0.5, br;q=0", &[Gzip]),
            ("br;q=0, gzip;q=0.001", &[Gzip]),
            ("identity, gzip;q=0.5", &[]),
            ("identity;q=0.2, gzip;q=0.5", &[Gzip]),
            ("gzip;q=2", &[]),
            ("gzip;q", &[]),
            ("gzip;q=NaN", &[]),
            ("deflate", &[]),
            ("", &[]),
        ] {
            let headers = [(ACCEPT_ENCODING, HeaderValue::from_static(value))].into_iter().collect();
            let accepted: Vec<_> = Coding::accepted(&headers).collect();
            assert_eq!(accepted, expected, "{value}");
        }
        assert_eq!(Coding::accepted(&HeaderMap::new()).count(), 0);
    }
}
