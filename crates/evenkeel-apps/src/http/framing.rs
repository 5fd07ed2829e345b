//! The fields of a message that describe its content and its connection (RFC 9112, 6 and 9).

use super::head::elements;

/// The content length that the `Content-Length` fields give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// No such field is present.
    Absent,
    /// A length in bytes.
    Bytes(u64),
    /// A length that does not fit in 64 bits.
    Huge,
    /// A malformed length, or two different lengths.
    Invalid,
}

/// A summary of the codings in the `Transfer-Encoding` fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Codings {
    /// Whether there is such a field.
    pub(super) present: bool,
    /// Whether `chunked` is the last coding.
    pub(super) chunked_last: bool,
    /// Whether `chunked` is there more than once, or not as the last one, or with parameters, which it has
    /// none of (RFC 9112, 7.1).
    pub(super) misused: bool,
    /// Whether there is another coding.
    pub(super) others: bool,
}

/// The fields that frame a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Framing {
    pub(super) length: Length,
    /// Whether a length is said more than once.
    pub(super) repeated: bool,
    pub(super) codings: Codings,
    close: bool,
    keep_alive: bool,
}

impl Framing {
    pub(super) const fn new() -> Self {
        let codings = Codings { present: false, chunked_last: false, misused: false, others: false };
        Self { length: Length::Absent, repeated: false, codings, close: false, keep_alive: false }
    }

    /// Adds a field to the summary.
    pub(super) fn add(&mut self, name: &[u8], value: &[u8]) {
        if name.eq_ignore_ascii_case(b"connection") {
            // RFC 9110, 7.6.1.
            for option in elements(value) {
                self.close |= option.eq_ignore_ascii_case(b"close");
                self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if name.eq_ignore_ascii_case(b"content-length") {
            self.add_length(value);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.codings.present = true;
            elements(value).for_each(|coding| self.codings.add(coding));
        }
    }

    /// Adds a value of `Content-Length`. A list that repeats one length counts as that length (RFC 9110,
    /// 8.6).
    fn add_length(&mut self, value: &[u8]) {
        let mut empty = true;
        for element in elements(value) {
            empty = false;
            let length = read_length(element);
            self.length = match self.length {
                Length::Absent => length,
                before => {
                    self.repeated = true;
                    if before == length { before } else { Length::Invalid }
                }
            };
        }
        if empty {
            self.length = Length::Invalid;
        }
    }

    /// Returns whether the connection is kept after the message (RFC 9112, 9.3): `close` wins.
    pub(super) const fn keeps(&self, old: bool) -> bool {
        !self.close && (!old || self.keep_alive)
    }
}

impl Codings {
    fn add(&mut self, coding: &[u8]) {
        let name = coding.split(|byte| *byte == b';').next().unwrap_or_default();
        let chunked = name.trim_ascii().eq_ignore_ascii_case(b"chunked");
        self.misused |= self.chunked_last || chunked && name.len() < coding.len();
        self.others |= !chunked;
        self.chunked_last = chunked;
    }
}

fn read_length(digits: &[u8]) -> Length {
    if !digits.iter().all(u8::is_ascii_digit) {
        return Length::Invalid;
    }
    let bytes = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    bytes.map_or(Length::Huge, Length::Bytes)
}
