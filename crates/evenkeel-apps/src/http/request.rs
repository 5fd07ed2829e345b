//! The parser of requests (RFC 9112, 2 to 6), within bounds.

use super::content::{CONTENT_BYTES_MAX, Chunked, Content};
use super::framing::{Framing, Length};
use super::head::{self, Unreadable, Version};
use super::host;
use super::target::{self, Target};

/// The maximum number of bytes in the head of a request.
pub const HEAD_BYTES_MAX: usize = 8 << 10;
/// The maximum number of header fields in a request.
pub const HEADERS_MAX: usize = 64;

/// The status of the answer to a request (RFC 9110, 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// The answer has the document.
    Ok,
    /// The request says that the client already has the document.
    NotModified,
    /// The bytes are no request, or can be read in two ways.
    BadRequest,
    /// The server has no document at the target.
    NotFound,
    /// The method is known, but is neither `GET` nor `HEAD`.
    MethodNotAllowed,
    /// The request was not complete in time.
    RequestTimeout,
    /// The request is only for another document than the server's.
    PreconditionFailed,
    /// The request's content is longer than the responder reads.
    ContentTooLarge,
    /// The request line is too long.
    UriTooLong,
    /// The target is for another server: its URI has another scheme than `http`.
    Misdirected,
    /// The header fields are too many or too long.
    HeaderFieldsTooLarge,
    /// The method, or the coding of the content, is unknown.
    NotImplemented,
    /// The version is not HTTP/1.x.
    VersionNotSupported,
}

impl Status {
    pub(super) const fn code(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::NotModified => 304,
            Self::BadRequest => 400,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::RequestTimeout => 408,
            Self::PreconditionFailed => 412,
            Self::ContentTooLarge => 413,
            Self::UriTooLong => 414,
            Self::Misdirected => 421,
            Self::HeaderFieldsTooLarge => 431,
            Self::NotImplemented => 501,
            Self::VersionNotSupported => 505,
        }
    }

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::NotModified => "Not Modified",
            Self::BadRequest => "Bad Request",
            Self::NotFound => "Not Found",
            Self::MethodNotAllowed => "Method Not Allowed",
            Self::RequestTimeout => "Request Timeout",
            Self::PreconditionFailed => "Precondition Failed",
            Self::ContentTooLarge => "Content Too Large",
            Self::UriTooLong => "URI Too Long",
            Self::Misdirected => "Misdirected Request",
            Self::HeaderFieldsTooLarge => "Request Header Fields Too Large",
            Self::NotImplemented => "Not Implemented",
            Self::VersionNotSupported => "HTTP Version Not Supported",
        }
    }
}

/// The part of an answer that the client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// Only the head.
    Only,
    /// The head and the content.
    Whole,
}

/// A parsed request, with the status of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) status: Status,
    pub(super) head: Head,
    /// Whether the connection stays open after the answer.
    pub(super) keep: bool,
    /// Whether the client is of HTTP/1.0, which closes connections by default.
    pub(super) closes_by_default: bool,
    /// The request's content, which follows the head.
    pub(super) content: Content,
}

/// The parts of a request line.
struct Line<'b> {
    method: &'b [u8],
    target: &'b [u8],
    version: Version,
}

/// Parses a request, and returns it with the number of bytes of its head; `None` if the head is incomplete.
///
/// # Errors
/// The request cannot be understood, so the start of the next one is unknown.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, Status> {
    let full = bytes.len() >= HEAD_BYTES_MAX;
    let begin = empty_lines(bytes);
    let rest = bytes.get(begin..).unwrap_or_default();
    let Some((line, len)) = read_line(rest)? else {
        return match rest {
            _ if !full => Ok(None),
            [] | [b'\r'] => Err(Status::BadRequest),
            _ => Err(Status::UriTooLong),
        };
    };
    let (old, begin) = (line.version == Version::Old, begin + len);
    if line.version == Version::Other {
        return Err(Status::VersionNotSupported);
    }
    let (mut framing, mut hosts, mut condition) = (Framing::new(), Hosts::default(), Condition::default());
    let rest = bytes.get(begin..).unwrap_or_default();
    let read = head::fields(rest, head::Fields::Strict, HEADERS_MAX, |name, value| {
        framing.add(name, value);
        hosts.add(name, value);
        condition.add(name, value);
    });
    let Some(len) = read? else {
        return if full { Err(Status::HeaderFieldsTooLarge) } else { Ok(None) };
    };
    let target = target::read(line.method, line.target).ok_or(Status::BadRequest)?;
    let content = content(&framing, old)?;
    hosts.check(old)?;
    let status = match (line.method, target) {
        (_, Target::Foreign) => Status::Misdirected,
        (b"GET" | b"HEAD", Target::Root) => condition.judge(),
        (b"GET" | b"HEAD", _) => Status::NotFound,
        (b"POST" | b"PUT" | b"DELETE" | b"CONNECT" | b"OPTIONS" | b"TRACE" | b"PATCH", _) => {
            Status::MethodNotAllowed
        }
        // RFC 9110, 9.1.
        _ => Status::NotImplemented,
    };
    let head = if line.method == b"HEAD" { Head::Only } else { Head::Whole };
    let keep = framing.keeps(old);
    Ok(Some((Request { status, head, keep, closes_by_default: old, content }, begin + len)))
}

/// Returns the length of the empty lines before a request (RFC 9112, 2.2).
fn empty_lines(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Ok(Some(len)) = head::line_end(bytes.get(at..).unwrap_or_default()) {
        at += len;
    }
    at
}

/// Reads the request line (RFC 9112, 3): three parts with one space between them.
fn read_line(bytes: &[u8]) -> Result<Option<(Line<'_>, usize)>, Status> {
    if matches!(bytes, [] | [b'\r']) {
        return Ok(None);
    }
    let (method, rest) = bytes.split_at(head::run(bytes, head::is_token));
    let Some(rest) = after_space(method, rest)? else { return Ok(None) };
    let (target, rest) = rest.split_at(head::run(rest, |byte| byte.is_ascii_graphic()));
    let Some(rest) = after_space(target, rest)? else { return Ok(None) };
    let Some((version, len)) = head::version(rest)? else { return Ok(None) };
    let Some(end) = head::line_end(rest.get(len..).unwrap_or_default())? else { return Ok(None) };
    Ok(Some((Line { method, target, version }, method.len() + target.len() + 2 + len + end)))
}

/// Returns what follows the space behind a part of the request line; `None` if that has not come yet.
fn after_space<'b>(part: &[u8], rest: &'b [u8]) -> Result<Option<&'b [u8]>, Status> {
    match rest {
        [] => Ok(None),
        [b' ', rest @ ..] if !part.is_empty() => Ok(Some(rest)),
        _ => Err(Status::BadRequest),
    }
}

impl From<Unreadable> for Status {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Malformed => Self::BadRequest,
            Unreadable::TooManyFields => Self::HeaderFieldsTooLarge,
        }
    }
}

/// A summary of a request's `Host` fields.
#[derive(Default)]
struct Hosts {
    count: usize,
    invalid: bool,
}

impl Hosts {
    fn add(&mut self, name: &[u8], value: &[u8]) {
        if name.eq_ignore_ascii_case(b"host") {
            self.count += 1;
            self.invalid |= !host::is_valid(value);
        }
    }

    /// Checks that there is exactly one valid field. A client of HTTP/1.0 may omit it (RFC 9112, 3.2).
    const fn check(&self, old: bool) -> Result<(), Status> {
        if self.invalid || self.count > 1 || self.count == 0 && !old {
            return Err(Status::BadRequest);
        }
        Ok(())
    }
}

/// The conditions of a request (RFC 9110, 13). The document has no entity tag and no date. So conditions on
/// a date are ignored (13.1.3, 13.1.4), and no entity tag matches except `*`, which means any document.
#[derive(Default)]
struct Condition {
    wants_other: bool,
    wants_none: bool,
}

impl Condition {
    fn add(&mut self, name: &[u8], value: &[u8]) {
        let any = value == b"*";
        self.wants_other |= name.eq_ignore_ascii_case(b"if-match") && !any;
        self.wants_none |= name.eq_ignore_ascii_case(b"if-none-match") && any;
    }

    /// Returns the status that the conditions lead to, in the order of RFC 9110, 13.2.2.
    const fn judge(&self) -> Status {
        match (self.wants_other, self.wants_none) {
            (true, _) => Status::PreconditionFailed,
            (false, true) => Status::NotModified,
            (false, false) => Status::Ok,
        }
    }
}

/// Returns the content that follows the head (RFC 9112, 6.3). Framing that can be read in two ways is
/// refused.
fn content(framing: &Framing, old: bool) -> Result<Content, Status> {
    let codings = framing.codings;
    if codings.present {
        // A client of HTTP/1.0 does not know codings, and an intermediary may not either (6.1). Unless
        // `chunked` comes last, and once, the end of the content is unknown (6.3).
        let both = framing.length != Length::Absent;
        return if old || both || codings.misused || !codings.chunked_last {
            Err(Status::BadRequest)
        } else if codings.others {
            Err(Status::NotImplemented)
        } else {
            Ok(Content::Chunked(Chunked::strict(CONTENT_BYTES_MAX)))
        };
    }
    match framing.length {
        Length::Absent => Ok(Content::NONE),
        _ if framing.repeated => Err(Status::BadRequest),
        Length::Bytes(len) if len <= CONTENT_BYTES_MAX => Ok(Content::Length(len)),
        Length::Bytes(_) | Length::Huge => Err(Status::ContentTooLarge),
        Length::Invalid => Err(Status::BadRequest),
    }
}
