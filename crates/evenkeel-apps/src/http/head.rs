//! The head of a message: its first line and its field lines (RFC 9112, 2 to 5), for requests and responses
//! alike.
//!
//! httparse reads field lines. First lines are read here, because httparse refuses all versions but HTTP/1.0
//! and HTTP/1.1. The tables have rows for these: `HTTP/1.2`, `HTTP/1.9 without a host`, `HTTP/0.9 by its
//! name`, `HTTP/2.0` and `the preface of HTTP/2`.
//!
//! The parser reads from the front. So it refuses malformed heads before their end has arrived, and pieces do
//! not change its result. A line ends with CR LF, or with LF alone (RFC 9112, 2.2). A CR anywhere else is
//! malformed.

use std::borrow::Cow;

use httparse::{EMPTY_HEADER, Header, ParserConfig, Response};

/// The reason why a head cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The bytes are no head.
    Malformed,
    /// The head has more fields than there is room for.
    TooManyFields,
}

/// The treatment of odd field lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fields {
    /// For requests: blanks before the colon and folded lines are refused (RFC 9112, 5.1 and 5.2).
    Strict,
    /// For responses: blanks before the colon are removed, and a fold becomes a space.
    Lenient,
}

/// The version of a message, as far as it makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// HTTP/1.0.
    Old,
    /// HTTP/1.1, or a higher minor version, which is read as the highest known one (RFC 9110, 2.5).
    Current,
    /// Another major version.
    Other,
}

/// A value read from the front of some bytes, with the number of bytes read; `None` if more bytes are
/// needed.
pub(super) type Read<T> = Result<Option<(T, usize)>, Unreadable>;

/// Reads `HTTP/` and two digits with a dot between them.
pub(super) fn version(bytes: &[u8]) -> Read<Version> {
    const PATTERN: &[u8; 8] = b"HTTP/0.0";
    let fits = |(byte, pattern): (&u8, &u8)| match pattern {
        b'0' => byte.is_ascii_digit(),
        letter => byte == letter,
    };
    if !bytes.iter().zip(PATTERN).all(fits) {
        return Err(Unreadable::Malformed);
    }
    let version = match bytes {
        [_, _, _, _, _, b'1', _, b'0', ..] => Version::Old,
        [_, _, _, _, _, b'1', _, _, ..] => Version::Current,
        [_, _, _, _, _, _, _, _, ..] => Version::Other,
        _ => return Ok(None),
    };
    Ok(Some((version, PATTERN.len())))
}

/// Reads the end of a line; returns its length.
pub(super) const fn line_end(bytes: &[u8]) -> Result<Option<usize>, Unreadable> {
    match bytes {
        [b'\n', ..] => Ok(Some(1)),
        [b'\r', b'\n', ..] => Ok(Some(2)),
        [] | [b'\r'] => Ok(None),
        _ => Err(Unreadable::Malformed),
    }
}

/// Reads text up to the end of its line.
pub(super) fn text(bytes: &[u8]) -> Read<&[u8]> {
    let len = run(bytes, is_text);
    let (text, rest) = bytes.split_at(len);
    Ok(line_end(rest)?.map(|end| (text, len + end)))
}

/// The most fields in the head of any message.
pub(super) const FIELDS_MAX: usize = 128;

/// A line that httparse reads before the field lines of a response, and nowhere else.
const STATUS_LINE: &[u8] = b"HTTP/1.1 200 \r\n";

/// Reads field lines up to the empty line that ends them, at most `most` and [`FIELDS_MAX`], and calls `each`
/// with the name and the value of each. Returns their length; `None` if the empty line has not come yet.
pub(super) fn fields(
    bytes: &[u8],
    how: Fields,
    most: usize,
    mut each: impl FnMut(&[u8], &[u8]),
) -> Result<Option<usize>, Unreadable> {
    let mut room = [EMPTY_HEADER; FIELDS_MAX];
    let room = room.get_mut(..most).unwrap_or_default();
    let mut tell = |fields: &[Header<'_>]| {
        fields.iter().for_each(|field| each(field.name.as_bytes(), &unfolded(field.value)));
    };
    match how {
        Fields::Strict => Ok(match httparse::parse_headers(bytes, room)? {
            httparse::Status::Partial => None,
            httparse::Status::Complete((len, fields)) => {
                tell(fields);
                Some(len)
            }
        }),
        Fields::Lenient => {
            let (head, mut response) = ([STATUS_LINE, bytes].concat(), Response::new(room));
            let read = ParserConfig::default()
                .allow_obsolete_multiline_headers_in_responses(true)
                .allow_spaces_after_header_name_in_responses(true)
                .parse_response(&mut response, &head)?;
            let httparse::Status::Complete(len) = read else { return Ok(None) };
            tell(response.headers);
            Ok(Some(len - STATUS_LINE.len()))
        }
    }
}

/// Returns a value with a space in place of each fold, and without blanks around it.
fn unfolded(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.contains(&b'\n') {
        return Cow::Borrowed(value.trim_ascii());
    }
    let lines: Vec<&[u8]> = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).collect();
    Cow::Owned(lines.join(&b' ').trim_ascii().to_vec())
}

impl From<httparse::Error> for Unreadable {
    fn from(error: httparse::Error) -> Self {
        match error {
            httparse::Error::TooManyHeaders => Self::TooManyFields,
            _ => Self::Malformed,
        }
    }
}

/// Returns how many bytes at the front are of one kind.
pub(super) fn run(bytes: &[u8], is_kind: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !is_kind(*byte)).unwrap_or(bytes.len())
}

/// Returns whether a name may have this character (RFC 9110, 5.6.2).
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns whether a line may have this character: visible ones, blanks, and bytes above 127 (RFC 9110, 5.5).
pub(super) const fn is_text(byte: u8) -> bool {
    byte == b'\t' || byte >= b' ' && byte != 0x7f
}

/// Returns the elements of a field that is a list (RFC 9110, 5.6.1). Empty ones are passed over.
pub(super) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], how: Fields) -> Result<Option<Vec<(String, String)>>, Unreadable> {
        let mut all = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let read = fields(bytes, how, 3, |name, value| all.push((text(name), text(value))))?;
        assert!(read.is_none_or(|len| len == bytes.len()));
        Ok(read.map(|_| all))
    }

    #[test]
    fn fields_have_a_name_and_a_value() {
        let all = [("A", "b c"), ("D", ""), ("e!", "f")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        for how in [Fields::Strict, Fields::Lenient] {
            assert_eq!(read(b"A:  b c\t\r\nD:\ne!:f\r\n\r\n", how), Ok(Some(all.to_vec())));
            assert_eq!(read(b"A: b\r\nB: c\r\nC: d\r\nD: e\r\n\r\n", how), Err(Unreadable::TooManyFields));
            assert_eq!(read(b"\r\n", how), Ok(Some(Vec::new())));
            for wrong in [&b": b\r\n"[..], b"A\r\n", b" A: b\r\n", b"A: b\rc", b"A: b\0", b"A: b\r\n\rc"] {
                assert_eq!(read(wrong, how), Err(Unreadable::Malformed), "{}", wrong.escape_ascii());
            }
        }
    }

    #[test]
    fn folds_and_blanks_before_the_colon_are_for_responses() {
        for odd in [&b"A: b\r\n c\r\n\td\r\n\r\n"[..], b"A \t: b c d\r\n\r\n", b"A:\r\n b\r\n c d\r\n\r\n"] {
            let all = vec![("A".to_owned(), "b c d".to_owned())];
            assert_eq!(read(odd, Fields::Lenient).map(|all| all.map(|all| all.len())), Ok(Some(1)));
            assert_eq!(read(odd, Fields::Lenient), Ok(Some(all)), "{}", odd.escape_ascii());
            assert_eq!(read(odd, Fields::Strict), Err(Unreadable::Malformed), "{}", odd.escape_ascii());
        }
    }

    #[test]
    fn a_beginning_is_no_head_yet() {
        let whole = b"A : b\r\n c\r\nD: e\r\n\r\n";
        for cut in 0..whole.len() {
            assert_eq!(read(&whole[..cut], Fields::Lenient), Ok(None), "{cut}");
        }
        for cut in 0..8 {
            assert_eq!(version(&b"HTTP/1.1"[..cut]), Ok(None));
        }
        for (text, version_) in [("1.0", Version::Old), ("1.9", Version::Current), ("3.1", Version::Other)] {
            assert_eq!(version(format!("HTTP/{text}").as_bytes()), Ok(Some((version_, 8))));
        }
        assert_eq!(version(b"HTTQ"), Err(Unreadable::Malformed));
    }
}
