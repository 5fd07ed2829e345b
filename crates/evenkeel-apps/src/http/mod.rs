//! A minimal HTTP/1.x responder (RFC 9110, RFC 9112), sans-IO: bytes of a connection in, bytes of a
//! connection out. Also a reader of other servers' responses.
//!
//! The responder has one document of a given length, which is computed as it is sent, so any size costs no
//! memory. `GET` and `HEAD` of `/` return it; every other request gets a fitting error. Connections are
//! kept (HTTP/1.1) or closed (HTTP/1.0, or as the client requests), and requests may be pipelined.
//!
//! The responder is for measurements and for tests against other clients. It has no clock. Without
//! [`Responder::set_date`] answers have no `Date` (RFC 9110, 6.6.1), and its caller decides when a client
//! has had [time enough](Responder::time_out).

mod content;
mod date;
mod document;
pub mod files;
mod framing;
mod head;
mod host;
mod request;
mod response;
#[cfg(test)]
pub(crate) mod table;
mod target;

use std::ops::Range;

use content::Content;
pub use date::HttpDate;
pub use document::Document;
pub use request::{HEAD_BYTES_MAX, HEADERS_MAX, Status};
use request::{Head, Request};
pub use response::{Answered, Malformed, ResponseReader, Unfinished};

/// One connection of a server.
///
/// The caller passes received bytes to it ([`Responder::receive`], [`Responder::end`]) and sends its
/// answers ([`Responder::fill`], [`Responder::sent`]). When it [is over](Responder::is_over), the caller
/// closes the connection. Its memory is bounded, because it takes no more bytes while an answer waits to be
/// sent.
#[derive(Debug)]
pub struct Responder {
    document: Document,
    /// The bytes of an incomplete request.
    input: Vec<u8>,
    /// The rest of a request's content, which is discarded.
    content: Content,
    date: Option<HttpDate>,
    answer: Option<Answer>,
    ended: bool,
    /// Whether nothing more is read after the answer that is being sent.
    last: bool,
    answers: u64,
}

/// An answer that is being sent.
#[derive(Debug)]
struct Answer {
    head: Vec<u8>,
    head_sent: usize,
    /// The range of the document that is still to be sent.
    body: Range<u64>,
}

impl Responder {
    /// Creates the responder of a new connection.
    #[must_use]
    pub const fn new(document: Document) -> Self {
        Self {
            document,
            input: Vec::new(),
            content: Content::NONE,
            date: None,
            answer: None,
            ended: false,
            last: false,
            answers: 0,
        }
    }

    /// Sets the date that answers have from now on.
    pub const fn set_date(&mut self, date: HttpDate) {
        self.date = Some(date);
    }

    /// Ends the client's time for a request. If the client has begun a request, an error answer is now to
    /// be sent (RFC 9110, 15.5.9). Otherwise returns false, and the connection can be closed at once.
    pub fn time_out(&mut self) -> bool {
        if self.answer.is_some() || self.last || self.input.is_empty() {
            return false;
        }
        self.refuse(Status::RequestTimeout);
        true
    }

    /// Takes bytes from the client, and returns their number. The rest has to wait until answers are sent.
    /// Once the connection is to be closed, it takes all bytes and discards them.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        if self.last {
            return bytes.len();
        }
        let mut taken = 0;
        while self.answer.is_none() && !self.last && taken < bytes.len() {
            if !self.content.is_over() {
                taken += self.pass_content(bytes.get(taken..).unwrap_or_default());
                continue;
            }
            let room = HEAD_BYTES_MAX - self.input.len();
            let some = bytes.len().min(taken + room);
            self.input.extend(bytes.get(taken..some).unwrap_or_default());
            taken = some;
            self.advance();
        }
        taken
    }

    /// Records that the client has closed its sending side.
    pub const fn end(&mut self) {
        self.ended = true;
    }

    /// Copies the bytes that are to be sent next to the front of `to`, and returns their number. They stay
    /// pending until [`Responder::sent`] is called.
    pub fn fill(&self, to: &mut [u8]) -> usize {
        let Some(answer) = &self.answer else { return 0 };
        let head = answer.head.get(answer.head_sent..).unwrap_or_default();
        let first = head.len().min(to.len());
        let (front, rest) = to.split_at_mut(first);
        front.copy_from_slice(head.get(..first).unwrap_or_default());
        let left = answer.body.end - answer.body.start;
        let len = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.document.read(answer.body.start, rest.get_mut(..len).unwrap_or_default());
        first + len
    }

    /// Removes the first `len` bytes that [`Responder::fill`] returned, because they were sent.
    pub fn sent(&mut self, len: usize) {
        let Some(answer) = &mut self.answer else { return };
        let of_head = len.min(answer.head.len() - answer.head_sent);
        answer.head_sent += of_head;
        answer.body.start = (answer.body.start + (len - of_head) as u64).min(answer.body.end);
        if answer.head_sent == answer.head.len() && answer.body.is_empty() {
            self.answer = None;
            self.advance();
        }
    }

    /// Returns whether there is something to send.
    #[must_use]
    pub const fn has_answer(&self) -> bool {
        self.answer.is_some()
    }

    /// Returns whether everything was sent and the connection is to be closed.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.answer.is_none() && (self.last || self.ended)
    }

    /// Returns the number of answers begun, errors included.
    #[must_use]
    pub const fn answers(&self) -> u64 {
        self.answers
    }

    /// Answers the request in the input, if it is complete.
    fn advance(&mut self) {
        if self.answer.is_some() || self.last {
            return;
        }
        // Bytes after a request may have been taken along with it.
        let input = core::mem::take(&mut self.input);
        let passed = self.pass_content(&input);
        self.input = input;
        self.input.drain(..passed);
        if self.last || !self.content.is_over() {
            return;
        }
        match request::parse(&self.input) {
            Ok(None) => {}
            Ok(Some((request, len))) => {
                self.input.drain(..len);
                self.content = request.content;
                self.reply(&request);
            }
            Err(status) => self.refuse(status),
        }
        if self.last {
            self.input = Vec::new();
        }
    }

    /// Discards those of `bytes` that belong to a request's content, and returns their number. If the
    /// content's end cannot be found, the connection is closed after the request's answer.
    fn pass_content(&mut self, bytes: &[u8]) -> usize {
        self.content.pass(bytes).unwrap_or_else(|_| {
            self.last = true;
            bytes.len()
        })
    }

    /// Answers with an error, after which the connection is closed.
    fn refuse(&mut self, status: Status) {
        self.last = true;
        self.input = Vec::new();
        self.answer_with(status, Head::Whole, true);
    }

    fn reply(&mut self, request: &Request) {
        self.last = !request.keep;
        self.answer_with(request.status, request.head, request.closes_by_default);
    }

    /// Begins the answer. `old` clients assume that the connection is closed unless the answer says
    /// otherwise.
    fn answer_with(&mut self, status: Status, head: Head, old: bool) {
        let found = status == Status::Ok;
        let len = if found { self.document.len() } else { status.text().len() as u64 };
        let mut text = format!("HTTP/1.1 {} {}\r\n", status.code(), status.text());
        if let Some(date) = self.date {
            text.push_str(&format!("Date: {date}\r\n"));
        }
        text.push_str("Server: evenkeel\r\n");
        // RFC 9110, 15.4.5: this answer has no content, and no length of its own.
        if status != Status::NotModified {
            let kind = if found { "application/octet-stream" } else { "text/plain" };
            text.push_str(&format!("Content-Type: {kind}\r\nContent-Length: {len}\r\n"));
        }
        if status == Status::MethodNotAllowed {
            text.push_str("Allow: GET, HEAD\r\n");
        }
        text.push_str(match (self.last, old) {
            (true, _) => "Connection: close\r\n\r\n",
            (false, true) => "Connection: keep-alive\r\n\r\n",
            (false, false) => "\r\n",
        });
        let mut bytes = text.into_bytes();
        let whole = head == Head::Whole && status != Status::NotModified;
        if whole && !found {
            bytes.extend(status.text().as_bytes());
        }
        self.answer =
            Some(Answer { head: bytes, head_sent: 0, body: 0..if whole && found { len } else { 0 } });
        self.answers += 1;
    }
}

#[cfg(test)]
mod tests;
