//! What a request asks for (RFC 9112, 2 to 6), within bounds.

use httparse::{EMPTY_HEADER, Error, Header};

use super::content::{CONTENT_BYTES_MAX, Chunked, Content};
use super::host;

/// Bytes that the head of a request may have.
pub const HEAD_BYTES_MAX: usize = 8 << 10;
/// Header fields that a request may have.
pub const HEADERS_MAX: usize = 64;

/// What a request is answered with (RFC 9110, 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// The document.
    Ok,
    /// It is no request, or says two things at once.
    BadRequest,
    /// There is no such document.
    NotFound,
    /// Only `GET` and `HEAD` are.
    MethodNotAllowed,
    /// It has not come to its end in time.
    RequestTimeout,
    /// It brings more than anybody wants to read.
    ContentTooLarge,
    /// Its first line is too long.
    UriTooLong,
    /// Its header fields are too many or too long.
    HeaderFieldsTooLarge,
    /// Its content is coded in a way that nobody knows.
    NotImplemented,
    /// It is not HTTP/1.x.
    VersionNotSupported,
}

impl Status {
    pub(super) const fn code(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::BadRequest => 400,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::RequestTimeout => 408,
            Self::ContentTooLarge => 413,
            Self::UriTooLong => 414,
            Self::HeaderFieldsTooLarge => 431,
            Self::NotImplemented => 501,
            Self::VersionNotSupported => 505,
        }
    }

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::BadRequest => "Bad Request",
            Self::NotFound => "Not Found",
            Self::MethodNotAllowed => "Method Not Allowed",
            Self::RequestTimeout => "Request Timeout",
            Self::ContentTooLarge => "Content Too Large",
            Self::UriTooLong => "URI Too Long",
            Self::HeaderFieldsTooLarge => "Request Header Fields Too Large",
            Self::NotImplemented => "Not Implemented",
            Self::VersionNotSupported => "HTTP Version Not Supported",
        }
    }
}

/// How much of an answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// The head alone.
    Only,
    /// All of it.
    Whole,
}

/// What is to be done about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) status: Status,
    pub(super) head: Head,
    /// The connection stays open afterwards.
    pub(super) keep: bool,
    /// The client is of HTTP/1.0.
    pub(super) closes_by_default: bool,
    /// What follows.
    pub(super) content: Content,
}

/// Reads a request and says how many bytes its head has; `None` if it is not all there yet.
///
/// # Errors
/// It cannot be understood, so nobody knows where the next one would begin.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, Status> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let len = match request.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(httparse::Status::Partial) if bytes.contains(&b'\n') => return Err(Status::HeaderFieldsTooLarge),
        Ok(httparse::Status::Partial) => return Err(Status::UriTooLong),
        Err(Error::TooManyHeaders) => return Err(Status::HeaderFieldsTooLarge),
        Err(Error::Version) => return Err(Status::VersionNotSupported),
        Err(_) => return Err(Status::BadRequest),
    };
    let fields = Fields(request.headers);
    let old = request.version == Some(0);
    let content = fields.content(old)?;
    fields.check_host(old)?;
    let head = if request.method == Some("HEAD") { Head::Only } else { Head::Whole };
    let status = match request.method {
        Some("GET" | "HEAD") if path(request.path.unwrap_or_default()) == "/" => Status::Ok,
        Some("GET" | "HEAD") => Status::NotFound,
        _ => Status::MethodNotAllowed,
    };
    let keep = if old { fields.asks_for("keep-alive") } else { !fields.asks_for("close") };
    Ok(Some((Request { status, head, keep, closes_by_default: old, content }, len)))
}

/// The path of a target, which proxies are given whole (RFC 9112, 3.2), without the query.
fn path(target: &str) -> &str {
    let absolute = target.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let target = if absolute {
        let authority = target.get(7..).unwrap_or_default();
        authority.find(['/', '?']).and_then(|end| authority.get(end..)).unwrap_or("/")
    } else {
        target
    };
    match target.split('?').next() {
        Some("") | None => "/",
        Some(path) => path,
    }
}

struct Fields<'h, 'b>(&'h [Header<'b>]);

impl<'h, 'b> Fields<'h, 'b> {
    fn all(&self, name: &'static str) -> impl Iterator<Item = &'b [u8]> + use<'h, 'b> {
        self.0.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }

    /// One of the words of `Connection` (RFC 9110, 7.6.1).
    fn asks_for(&self, option: &'static str) -> bool {
        let mut words = self.all("connection").flat_map(|value| value.split(|byte| *byte == b','));
        words.any(|word| word.trim_ascii().eq_ignore_ascii_case(option.as_bytes()))
    }

    /// Exactly one that makes sense; a client that is too old to know of it may do without (RFC 9112, 3.2).
    fn check_host(&self, old: bool) -> Result<(), Status> {
        let mut hosts = self.all("host");
        match (hosts.next(), hosts.next()) {
            (Some(host), None) if host::is_valid(host) => Ok(()),
            (None, _) if old => Ok(()),
            _ => Err(Status::BadRequest),
        }
    }

    /// How much content follows (RFC 9112, 6.3). What could be read in two ways is refused.
    fn content(&self, old: bool) -> Result<Content, Status> {
        let mut codings = self.all("transfer-encoding").peekable();
        let mut lengths = self.all("content-length");
        if codings.peek().is_some() {
            // A client of HTTP/1.0 does not know codings, and somebody on the way may not (6.1).
            if old || lengths.next().is_some() {
                return Err(Status::BadRequest);
            }
            return chunked(codings.flat_map(|value| value.split(|byte| *byte == b',')));
        }
        let Some(first) = lengths.next() else { return Ok(Content::NONE) };
        if lengths.next().is_some() || first.is_empty() || !first.iter().all(u8::is_ascii_digit) {
            return Err(Status::BadRequest);
        }
        // More digits than a number has are too much, too.
        let len = str::from_utf8(first).ok().and_then(|digits| digits.parse().ok()).unwrap_or(u64::MAX);
        if len > CONTENT_BYTES_MAX { Err(Status::ContentTooLarge) } else { Ok(Content::Length(len)) }
    }
}

/// Content that was coded so. Unless `chunked` comes last, and once, nobody can tell where it ends (RFC 9112,
/// 6.3).
fn chunked<'b>(codings: impl Iterator<Item = &'b [u8]>) -> Result<Content, Status> {
    let mut codings = codings.map(<[u8]>::trim_ascii).filter(|coding| !coding.is_empty()).peekable();
    let mut known = true;
    while let Some(coding) = codings.next() {
        let (chunked, last) = (coding.eq_ignore_ascii_case(b"chunked"), codings.peek().is_none());
        if chunked != last {
            return Err(Status::BadRequest);
        }
        if last {
            return if known {
                Ok(Content::Chunked(Chunked::up_to(CONTENT_BYTES_MAX)))
            } else {
                Err(Status::NotImplemented)
            };
        }
        known = false;
    }
    Err(Status::BadRequest)
}
