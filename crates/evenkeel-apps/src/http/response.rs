//! A reader of responses from a server that may send anything (RFC 9112). It finds where each ends, and its
//! status.

use core::mem;

use super::content::{Chunked, Content};
use super::framing::{Framing, Length};
use super::head::{self, Unreadable, Version};

/// The maximum number of bytes in the head of a response.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// The length in bytes up to which a head is parsed again with every read, and beyond which only with every
/// line. So a head that comes letter by letter is not parsed anew for each letter.
const LOOK_BYTES: usize = 512;
/// The maximum number of interim responses (RFC 9110, 15.2) before a response.
const INTERIM_MAX: u8 = 8;

/// A response that came completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The status code of the response.
    pub status: u16,
    /// Whether the connection can be used again: the server keeps it, and no unrequested bytes follow.
    pub keep: bool,
}

/// An error: the bytes are not a response, or one without bounds, so the start of the next response is
/// unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// The reason why a response is not complete when the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// The connection ended too early.
    Short,
    /// The bytes are no response.
    Malformed,
}

/// A reader of one response, sans-IO. It discards the content, and its memory is bounded.
#[derive(Debug)]
pub struct ResponseReader {
    /// The bytes of an incomplete head.
    head: Vec<u8>,
    body: Option<Body>,
    interim: u8,
    /// Whether the request was a HEAD. Its response has no content.
    bodiless: bool,
    begun: bool,
}

#[derive(Debug, Clone, Copy)]
struct Body {
    answered: Answered,
    /// The content; `None` if it ends when the connection is closed.
    content: Option<Content>,
}

impl ResponseReader {
    /// Creates a reader for the response to a request; `to_head` says whether that was a HEAD.
    #[must_use]
    pub const fn new(to_head: bool) -> Self {
        Self { head: Vec::new(), body: None, interim: 0, bodiless: to_head, begun: false }
    }

    /// Returns whether bytes of the response have come.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.begun
    }

    /// Takes received bytes, and returns the response when it is complete.
    ///
    /// # Errors
    /// [`Malformed`], after which the connection is to be closed.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Option<Answered>, Malformed> {
        self.begun |= !bytes.is_empty();
        if self.body.is_some() {
            return self.pass(bytes);
        }
        if self.head.is_empty() {
            let rest = self.read_head(bytes)?;
            if self.body.is_none() {
                self.head = rest.to_vec();
            }
            return if self.body.is_some() { self.pass(rest) } else { Ok(None) };
        }
        let mut held = mem::take(&mut self.head);
        held.extend_from_slice(bytes);
        let looks = bytes.contains(&b'\n') || held.len() <= LOOK_BYTES;
        let rest = if looks { self.read_head(&held)?.len() } else { held.len() };
        if self.body.is_some() {
            return self.pass(held.get(held.len() - rest..).unwrap_or_default());
        }
        held.drain(..held.len() - rest);
        self.head = held;
        if self.head.len() < HEAD_BYTES_MAX { Ok(None) } else { Err(Malformed) }
    }

    /// Returns the response that ends because the server has closed the connection.
    ///
    /// # Errors
    /// The response is not complete.
    pub fn end(&self) -> Result<Answered, Unfinished> {
        match self.body {
            Some(Body { answered, content: None }) => Ok(Answered { keep: false, ..answered }),
            None if parse(&self.head, self.bodiless).is_err() => Err(Unfinished::Malformed),
            _ => Err(Unfinished::Short),
        }
    }

    /// Reads interim responses, and the head of the final one if it is complete. Returns the bytes that
    /// follow.
    fn read_head<'b>(&mut self, mut bytes: &'b [u8]) -> Result<&'b [u8], Malformed> {
        while self.body.is_none() {
            let Some((head, len)) = parse(bytes, self.bodiless)? else {
                return if bytes.len() < HEAD_BYTES_MAX { Ok(bytes) } else { Err(Malformed) };
            };
            bytes = bytes.get(len..).unwrap_or_default();
            match head.answered.status {
                // No request asked for another protocol.
                101 => return Err(Malformed),
                100..200 => {
                    self.interim += 1;
                    if self.interim > INTERIM_MAX {
                        return Err(Malformed);
                    }
                }
                _ => self.body = Some(head),
            }
        }
        Ok(bytes)
    }

    fn pass(&mut self, bytes: &[u8]) -> Result<Option<Answered>, Malformed> {
        let Some(Body { answered, content: Some(content) }) = &mut self.body else { return Ok(None) };
        let passed = content.pass(bytes).map_err(|_| Malformed)?;
        let whole = Answered { keep: answered.keep && passed == bytes.len(), ..*answered };
        Ok(content.is_over().then_some(whole))
    }
}

/// Parses the head at the front of `bytes`; `None` if it is incomplete.
fn parse(bytes: &[u8], bodiless: bool) -> Result<Option<(Body, usize)>, Malformed> {
    let Some(((version, status), begin)) = read_line(bytes)? else { return Ok(None) };
    if version == Version::Other {
        return Err(Malformed);
    }
    let mut framing = Framing::new();
    let rest = bytes.get(begin..).unwrap_or_default();
    let read =
        head::fields(rest, head::Fields::Lenient, head::FIELDS_MAX, |name, value| framing.add(name, value));
    let Some(len) = read? else { return Ok(None) };
    let old = version == Version::Old;
    // A server of HTTP/1.0 does not know codings, so an intermediary may have misread where the message
    // ends. So may one that has seen two lengths (RFC 9112, 6.1).
    let doubtful = framing.codings.present && (old || framing.length != Length::Absent);
    let keep = framing.keeps(old) && !doubtful;
    let none = bodiless || matches!(status, 100..200 | 204 | 304);
    let content = if none { Some(Content::NONE) } else { content(&framing)? };
    Ok(Some((Body { answered: Answered { status, keep }, content }, begin + len)))
}

/// Reads the status line (RFC 9112, 4): a version, three digits, and perhaps a reason. Any three digits are a
/// status (RFC 9110, 15).
fn read_line(bytes: &[u8]) -> head::Read<(Version, u16)> {
    let Some((version, at)) = head::version(bytes)? else { return Ok(None) };
    let rest = bytes.get(at..).unwrap_or_default();
    let fits = |(at, byte): (usize, &u8)| if at == 0 { *byte == b' ' } else { byte.is_ascii_digit() };
    if !rest.iter().take(4).enumerate().all(fits) {
        return Err(Unreadable::Malformed);
    }
    let Some((&[_, a, b, c], rest)) = rest.split_first_chunk() else { return Ok(None) };
    let status = [a, b, c].into_iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    if !matches!(rest, [] | [b' ' | b'\r' | b'\n', ..]) {
        return Err(Unreadable::Malformed);
    }
    Ok(head::text(rest)?.map(|(_, len)| ((version, status), at + 4 + len)))
}

impl From<Unreadable> for Malformed {
    fn from(_: Unreadable) -> Self {
        Self
    }
}

/// Returns how much content follows (RFC 9112, 6.3); `None` if it ends with the connection.
const fn content(framing: &Framing) -> Result<Option<Content>, Malformed> {
    let codings = framing.codings;
    if codings.present {
        return match (codings.chunked_last, codings.misused) {
            (true, true) => Err(Malformed),
            (true, false) => Ok(Some(Content::Chunked(Chunked::lenient()))),
            (false, _) => Ok(None),
        };
    }
    match framing.length {
        Length::Absent => Ok(None),
        Length::Bytes(len) => Ok(Some(Content::Length(len))),
        Length::Huge | Length::Invalid => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads `bytes` in pieces of `piece` bytes, after which the server closes.
    fn read(bytes: &[u8], piece: usize) -> Result<Answered, Unfinished> {
        let mut reader = ResponseReader::new(false);
        for bytes in bytes.chunks(piece) {
            if let Some(answered) = reader.receive(bytes).map_err(|Malformed| Unfinished::Malformed)? {
                return Ok(answered);
            }
        }
        reader.end()
    }

    const WHOLE: [&str; 8] = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\nT: x\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 N\r\n\
         Content-Length: 1\r\n\r\nx",
        "HTTP/1.1 503 Busy\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ];

    #[test]
    fn responses_end_where_they_say() {
        for (text, status) in WHOLE.into_iter().zip([200, 200, 200, 204, 304, 200, 404, 503]) {
            for piece in [1, 2, 7, 1_000] {
                let answered = Answered { status, keep: true };
                assert_eq!(read(text.as_bytes(), piece), Ok(answered), "{text:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_connection_is_kept_only_if_nothing_speaks_against_it() {
        let keeps = |text: &str| read(text.as_bytes(), 1_000).unwrap().keep;
        assert!(!keeps("HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n"));
        assert!(!keeps("HTTP/1.1 200 OK\r\nConnection: x, close\r\nContent-Length: 0\r\n\r\n"));
        assert!(!keeps("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"));
        assert!(!keeps("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP"), "more than was asked for");
        assert!(!keeps("HTTP/1.1 200 OK\r\n\r\nuntil the end"));
        assert!(!keeps("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nuntil the end"));
    }

    #[test]
    fn the_response_to_head_has_no_content() {
        let mut reader = ResponseReader::new(true);
        let answered = reader.receive(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n");
        assert_eq!(answered, Ok(Some(Answered { status: 200, keep: true })));
    }

    #[test]
    fn what_is_cut_off_is_not_whole() {
        for text in WHOLE {
            for cut in 0..text.len() {
                assert_eq!(read(&text.as_bytes()[..cut], 5), Err(Unfinished::Short), "{:?}", &text[..cut]);
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/2 200\r\n\r\n",
            "HTTP/1.1 1000 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\nxx",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        ] {
            assert_eq!(read(text.as_bytes(), 1_000), Err(Unfinished::Malformed), "{text:?}");
        }
    }

    #[test]
    fn a_server_that_never_comes_to_an_end_is_cut_off() {
        for text in ["HTTP/1.1 100 Continue\r\n\r\n", "A: b\r\n", "aaaaaaaaaaaaaaaaaaaaaaaa"] {
            for piece in [1, 100, 100_000] {
                let mut reader = ResponseReader::new(false);
                reader.receive(b"HTTP/1.1 100 Continue\r\nB: c\r\n").unwrap();
                let endless = text.repeat(100_000 / text.len());
                let refused = endless.as_bytes().chunks(piece).any(|bytes| {
                    assert!(reader.head.len() <= HEAD_BYTES_MAX + piece);
                    reader.receive(bytes).is_err()
                });
                assert!(refused, "{text:?} in pieces of {piece}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_do_no_harm(
            start in 0..WHOLE.len(),
            cut in 0usize..80,
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            piece in 1usize..50,
        ) {
            let text = WHOLE[start].as_bytes();
            let bytes = [&text[..cut.min(text.len())], &bytes].concat();
            let (whole, pieces) = (read(&bytes, 1_000), read(&bytes, piece));
            // Whether something follows can be seen only if it came along.
            prop_assert_eq!(whole.map(|answered| answered.status), pieces.map(|answered| answered.status));
        }
    }
}
