//! A minimal HTTP/1.x responder (RFC 9110, RFC 9112), sans-IO: bytes of a connection in, bytes of a
//! connection out; and a reader of other people's responses.
//!
//! It has one document, of so many bytes, which is made up as it is sent: any size costs no memory. `GET` and
//! `HEAD` of `/` give it; everything else gives an error that fits. Connections are kept (HTTP/1.1) or closed
//! (HTTP/1.0, or as the client says), and requests may come one behind the other.
//!
//! It is for measurements and for tests against other people's clients. It has no clock: unless it is told
//! the date there is no `Date` (RFC 9110, 6.6.1), and who runs it says when a client has had [time
//! enough](Responder::time_out).

mod content;
mod date;
mod document;
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
/// Give it what comes ([`Responder::receive`], [`Responder::end`]) and send what it has to say
/// ([`Responder::fill`], [`Responder::sent`]); when it [is over](Responder::is_over), close. Its memory is
/// bounded: it takes no more while an answer waits to be sent.
#[derive(Debug)]
pub struct Responder {
    document: Document,
    /// The beginning of a request.
    input: Vec<u8>,
    /// A request's content, which nobody wants.
    content: Content,
    date: Option<HttpDate>,
    answer: Option<Answer>,
    ended: bool,
    /// After the answer that is on its way nothing more is read.
    last: bool,
    answers: u64,
}

/// What is being sent.
#[derive(Debug)]
struct Answer {
    head: Vec<u8>,
    head_sent: usize,
    /// Of the document, what is still to be sent.
    body: Range<u64>,
}

impl Responder {
    /// A connection on which nothing has been said.
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

    /// It is so late: answers from now on say so.
    pub const fn set_date(&mut self, date: HttpDate) {
        self.date = Some(date);
    }

    /// The client has had time enough. If it has begun a request there is an answer to send (RFC 9110,
    /// 15.5.9); false if there is nothing to say, and the connection can be closed at once.
    pub fn time_out(&mut self) -> bool {
        if self.answer.is_some() || self.last || self.input.is_empty() {
            return false;
        }
        self.refuse(Status::RequestTimeout);
        true
    }

    /// Takes bytes that came from the client; says how many. The rest has to wait until answers are sent.
    /// Once the connection is to be closed it takes everything, and forgets it.
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

    /// The client has said all it has to say.
    pub const fn end(&mut self) {
        self.ended = true;
    }

    /// Writes what is to be sent next to the beginning of `to`; says how much. It stays to be sent until it
    /// [was](Responder::sent).
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

    /// The first `len` bytes of what [`Responder::fill`] gave have been sent.
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

    /// There is something to send.
    #[must_use]
    pub const fn has_answer(&self) -> bool {
        self.answer.is_some()
    }

    /// All that will ever be said was sent: the connection is to be closed.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.answer.is_none() && (self.last || self.ended)
    }

    /// Answers given, errors included.
    #[must_use]
    pub const fn answers(&self) -> u64 {
        self.answers
    }

    /// Answers the request that is there, if a whole one is.
    fn advance(&mut self) {
        if self.answer.is_some() || self.last {
            return;
        }
        // What follows a request may have been taken along with it.
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

    /// Takes what belongs to a request's content; says how much that is. If that cannot be told, the
    /// connection is closed: the request itself has its answer.
    fn pass_content(&mut self, bytes: &[u8]) -> usize {
        self.content.pass(bytes).unwrap_or_else(|_| {
            self.last = true;
            bytes.len()
        })
    }

    /// Says why, and that it is the last word.
    fn refuse(&mut self, status: Status) {
        self.last = true;
        self.input = Vec::new();
        self.answer_with(status, Head::Whole, true);
    }

    fn reply(&mut self, request: &Request) {
        self.last = !request.keep;
        self.answer_with(request.status, request.head, request.closes_by_default);
    }

    /// `old` clients take a connection to be closed unless told otherwise.
    fn answer_with(&mut self, status: Status, head: Head, old: bool) {
        let found = status == Status::Ok;
        let len = if found { self.document.len() } else { status.text().len() as u64 };
        let mut text = format!("HTTP/1.1 {} {}\r\n", status.code(), status.text());
        if let Some(date) = self.date {
            text.push_str(&format!("Date: {date}\r\n"));
        }
        text.push_str("Server: evenkeel\r\n");
        // RFC 9110, 15.4.5: that has no content, and no length of its own.
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
