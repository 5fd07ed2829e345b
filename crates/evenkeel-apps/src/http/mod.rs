//! A minimal HTTP/1.x responder (RFC 9110, RFC 9112), sans-IO: octets of a connection in, octets of a connection out.
//!
//! It has one document, of so many octets, which is made up as it is sent: any size costs no memory. `GET` and `HEAD` of `/` give it; everything else
//! gives an error that fits. Connections are kept (HTTP/1.1) or closed (HTTP/1.0, or as the client says), and requests may come one behind the other.
//!
//! It is for measurements and for tests against other people's clients. There is no `Date`, as there is no clock (RFC 9110, 6.6.1).

mod document;
mod request;

use std::ops::Range;

pub use document::Document;
pub use request::{HEAD_BYTES_MAX, HEADERS_MAX, Status};
use request::{Head, Request};

/// One connection of a server.
///
/// Give it what comes ([`Responder::receive`], [`Responder::end`]) and send what it has to say ([`Responder::fill`], [`Responder::sent`]); when it
/// [is over](Responder::is_over), close. Its memory is bounded: it takes no more while an answer waits to be sent.
#[derive(Debug)]
pub struct Responder {
    document: Document,
    /// The beginning of a request.
    input: Vec<u8>,
    /// Octets of a request's content, which nobody wants.
    skip: u64,
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
        Self { document, input: Vec::new(), skip: 0, answer: None, ended: false, last: false, answers: 0 }
    }

    /// Takes octets that came from the client; says how many. The rest has to wait until answers are sent. Once the connection is to be closed it
    /// takes everything, and forgets it.
    pub fn receive(&mut self, octets: &[u8]) -> usize {
        if self.last {
            return octets.len();
        }
        let mut taken = self.skip_content(octets);
        while self.answer.is_none() && !self.last && taken < octets.len() {
            let room = HEAD_BYTES_MAX - self.input.len();
            let some = octets.len().min(taken + room);
            self.input.extend(octets.get(taken..some).unwrap_or_default());
            taken = some;
            self.advance();
        }
        taken
    }

    /// The client has said all it has to say.
    pub const fn end(&mut self) {
        self.ended = true;
    }

    /// Writes what is to be sent next to the beginning of `to`; says how much. It stays to be sent until it [was](Responder::sent).
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

    /// The first `len` octets of what [`Responder::fill`] gave have been sent.
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
        let content = self.skip.min(self.input.len() as u64);
        self.input.drain(..content as usize);
        self.skip -= content;
        match request::parse(&self.input) {
            Ok(None) => {}
            Ok(Some((request, len))) => {
                self.input.drain(..len);
                self.skip = request.content_len;
                self.reply(&request);
            }
            Err(status) => {
                self.last = true;
                self.answer_with(status, Head::Whole, true);
            }
        }
        if self.last {
            self.input = Vec::new();
        }
    }

    fn skip_content(&mut self, octets: &[u8]) -> usize {
        if self.answer.is_some() || !self.input.is_empty() {
            return 0;
        }
        let skipped = self.skip.min(octets.len() as u64);
        self.skip -= skipped;
        skipped as usize
    }

    fn reply(&mut self, request: &Request) {
        self.last = !request.keep;
        self.answer_with(request.status, request.head, request.closes_by_default);
    }

    /// `old` clients take a connection to be closed unless told otherwise.
    fn answer_with(&mut self, status: Status, head: Head, old: bool) {
        let found = status == Status::Ok;
        let len = if found { self.document.len() } else { status.text().len() as u64 };
        let connection = match (self.last, old) {
            (true, _) => "Connection: close\r\n",
            (false, true) => "Connection: keep-alive\r\n",
            (false, false) => "",
        };
        let kind = if found { "application/octet-stream" } else { "text/plain" };
        let allow = if status == Status::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
        let mut octets = format!(
            "HTTP/1.1 {} {}\r\nServer: evenkeel\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n{allow}{connection}\r\n",
            status.code(),
            status.text(),
        )
        .into_bytes();
        let whole = head == Head::Whole;
        if whole && !found {
            octets.extend(status.text().as_bytes());
        }
        self.answer =
            Some(Answer { head: octets, head_sent: 0, body: 0..if whole && found { len } else { 0 } });
        self.answers += 1;
    }
}

#[cfg(test)]
mod tests;
