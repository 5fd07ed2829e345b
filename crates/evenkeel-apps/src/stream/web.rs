//! A service of one document over HTTP/1.x: the responder of [`crate::http`] on streams.

use evenkeel::raw::error::StreamError;
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::IpEndpoint;

use super::session::{CHUNK, Progress, Service, Stream};
use crate::http::{Document, HttpDate, Responder};

/// A web service of one document.
#[derive(Debug, Clone)]
pub struct Web {
    document: Document,
    buffer: Box<[u8]>,
    /// The clock that the date in answers is taken from; `None` for answers without a date.
    clock: Option<Clock>,
    timeout: Option<Duration>,
}

impl Web {
    /// Creates a service of one document, without date and timeout.
    #[must_use]
    pub fn new(document: Document) -> Self {
        Self { document, buffer: vec![0; CHUNK].into_boxed_slice(), clock: None, timeout: None }
    }

    /// Adds a date, taken from `clock`, to every answer.
    #[must_use]
    pub fn with_date(self, clock: Clock) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Sets the time that a client may take for a request, from the last answer on, and to receive a part
    /// of an answer.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Sends the pending answers as far as there is room. Returns false if there was not room for all.
    fn answer(&mut self, session: &mut Browsing, stream: &mut Stream<'_, '_>) -> Result<bool, StreamError> {
        while session.responder.has_answer() {
            let room = stream.room()?.min(self.buffer.len());
            let Some(buffer) = self.buffer.get_mut(..room).filter(|buffer| !buffer.is_empty()) else {
                return Ok(false);
            };
            let len = session.responder.fill(buffer);
            let taken = stream.write(buffer.get(..len).unwrap_or_default())?;
            session.responder.sent(taken);
            if taken > 0 {
                stream.restart_timeout();
            }
            if taken < len || stream.is_over() {
                return Ok(!session.responder.has_answer());
            }
        }
        Ok(true)
    }

    /// Passes bytes to the responder: those left over from the last read, or those of another read. Returns
    /// the progress if the connection cannot go on at once.
    fn hear(
        &mut self,
        session: &mut Browsing,
        stream: &mut Stream<'_, '_>,
    ) -> Result<Option<Progress>, StreamError> {
        if !session.unheard.is_empty() {
            let taken = session.responder.receive(&session.unheard);
            session.unheard.drain(..taken);
            return Ok(None);
        }
        match stream.read(&mut self.buffer)? {
            None => return Ok(Some(Progress::Wait)),
            Some(0) => session.ended = true,
            Some(len) => {
                let came = self.buffer.get(..len).unwrap_or_default();
                let taken = session.responder.receive(came);
                session.unheard = came.get(taken..).unwrap_or_default().to_vec();
            }
        }
        Ok(None)
    }
}

/// The state of a client's connection to a [`Web`] service.
#[derive(Debug)]
pub struct Browsing {
    responder: Responder,
    /// The bytes read that the responder has not taken, because it has an answer to send first.
    unheard: Vec<u8>,
    /// Whether the client has closed its sending side.
    ended: bool,
    /// Whether everything was sent and the sending side is shut down.
    shut: bool,
    /// The number of answers that the server's counter already includes.
    counted: u64,
}

impl Browsing {
    fn count(&mut self, stream: &Stream<'_, '_>) {
        let answers = self.responder.answers();
        stream.count_requests(answers - self.counted);
        self.counted = answers;
    }
}

impl Service for Web {
    type Session = Browsing;

    fn open(&mut self, _peer: IpEndpoint) -> Browsing {
        let responder = Responder::new(self.document);
        Browsing { responder, unheard: Vec::new(), ended: false, shut: false, counted: 0 }
    }

    fn go_on(
        &mut self,
        session: &mut Browsing,
        stream: &mut Stream<'_, '_>,
    ) -> Result<Progress, StreamError> {
        if let Some(clock) = &self.clock {
            let seconds = clock.wall_nanos(clock.now()) / 1_000_000_000;
            session.responder.set_date(HttpDate { seconds });
        }
        while !stream.is_over() {
            let all = self.answer(session, stream)?;
            session.count(stream);
            if !all {
                return Ok(if stream.is_over() { Progress::More } else { Progress::Wait });
            }
            if session.ended && session.unheard.is_empty() {
                return Ok(Progress::Over);
            }
            // Data that a client still sends to a closing connection is read, because a reset could overtake
            // the answer (RFC 9112, 9.6).
            if session.responder.is_over() && !core::mem::replace(&mut session.shut, true) {
                stream.shutdown();
            }
            if let Some(progress) = self.hear(session, stream)? {
                return Ok(progress);
            }
        }
        Ok(Progress::More)
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn time_out(&mut self, session: &mut Browsing) -> bool {
        session.responder.time_out()
    }
}
