//! A client with one connection: it sends from a source, passes received bytes to a drain, and ends when both
//! sides have sent all.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel::raw::error::{ConnectError, StreamError};
use evenkeel::raw::process::{Program, Step, System};
use evenkeel::raw::socket::{ConnectOptions, EventQueue, TcpStream};
use evenkeel::raw::tcp::FourTuple;
use evenkeel::raw::tcp::connection::{Error, Info};
use evenkeel::raw::tcp::state::State;
use evenkeel::raw::time::Duration;
use evenkeel::raw::wire::IpEndpoint;

use super::pattern::Pattern;
use super::session::{CHUNK, now};
use super::stdio::{Came, Gave, Input, Output};
use super::tally::Count;

/// The number of bytes after which a turn ends, in each direction.
const TURN: u64 = 64 << 10;
/// The interval at which the program checks whether the peer has acknowledged everything, for which there
/// is no event.
const LOOK: Duration = Duration::from_millis(5);

/// The bytes that a [`Send`] transmits.
#[derive(Debug)]
pub enum Source {
    /// Input read from outside the program.
    Input(Input),
    /// The first `bytes` bytes of a pattern.
    Pattern {
        /// The pattern that the bytes are taken from.
        pattern: Pattern,
        /// The number of bytes to send.
        bytes: u64,
    },
}

/// The destination of the bytes that the peer sends back.
#[derive(Debug)]
pub enum Drain {
    /// The received bytes are written to an output.
    Output(Output),
    /// The received bytes are only counted, and compared if the source is a [`Source::Pattern`].
    Count,
}

/// The reason why the connection ended before both sides had sent everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// No connection could be opened.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] StreamError),
    /// The received bytes could not be written to the output.
    #[error("what came back could not be written")]
    Output,
}

/// The live counters and flags of a [`Send`]. Any thread may read them while the program runs.
#[derive(Debug, Default)]
pub struct Counters {
    written: Count,
    read: Count,
    connected: AtomicBool,
    ended: AtomicBool,
    differs: AtomicBool,
    outcome: Mutex<Outcome>,
}

/// The final state of a [`Send`], and the connection as last seen.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) broken: Option<Broken>,
    /// The error with which reading the input ended early.
    pub(crate) input: Option<io::Error>,
    /// The output. Its last bytes are still to be written.
    pub(crate) output: Option<Output>,
    /// The connection as it was last seen.
    pub(crate) last: Option<(FourTuple, Info)>,
}

impl Counters {
    /// Returns the number of bytes written to the connection.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.get()
    }

    /// Returns the number of bytes read from the connection.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.read.get()
    }

    /// Returns whether the connection is or was established.
    #[must_use]
    pub fn connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// Returns whether the program has exited.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns whether other bytes came back than were sent. Only the bytes of a [`Source::Pattern`] are
    /// compared.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.differs.load(Ordering::Relaxed)
    }

    pub(crate) fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A program that sends a [`Source`] over one connection and passes what comes back to a [`Drain`].
#[derive(Debug)]
pub struct Send {
    to: IpEndpoint,
    opening: Opening,
    stream: Option<TcpStream>,
    source: Source,
    /// The piece of the input that is being written, and how many of its bytes are written.
    piece: (Vec<u8>, usize),
    /// Whether nothing more is to be sent; then the sending side is shut down.
    shut: bool,
    drain: Option<Drain>,
    /// The bytes that were read and that the output had no room for.
    held: Option<Vec<u8>>,
    /// Whether the peer has closed its sending side.
    heard: bool,
    /// Whether the output takes nothing any more.
    gone: bool,
    /// The error that stopped the writing before everything was written.
    cut_off: Option<StreamError>,
    buffer: Box<[u8]>,
    tally: Arc<Counters>,
}

/// The method of opening the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// By an ordinary handshake.
    Plainly,
    /// With Fast Open (RFC 7413), first step: a connection without data, which obtains the server's cookie.
    ForCookie(Option<TcpStream>),
    /// With Fast Open, second step: a connection whose SYN carries the first bytes.
    WithData,
}

/// The time at which a direction continues: at once, or when an event wakes the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Again,
    Wait,
}

impl Send {
    /// Creates a client that reports in `tally`. With `fast_open` the SYN carries the first bytes.
    #[must_use]
    pub fn new(to: IpEndpoint, fast_open: bool, source: Source, drain: Drain, tally: Arc<Counters>) -> Self {
        Self {
            to,
            opening: if fast_open { Opening::ForCookie(None) } else { Opening::Plainly },
            stream: None,
            source,
            piece: (Vec::new(), 0),
            shut: false,
            drain: Some(drain),
            held: None,
            heard: false,
            gone: false,
            cut_off: None,
            buffer: vec![0; CHUNK].into_boxed_slice(),
            tally,
        }
    }

    /// Opens the connection, or takes the next step of the Fast Open sequence.
    fn open(&mut self, events: EventQueue, system: &mut System<'_>) -> Result<Step, Broken> {
        match self.opening {
            Opening::Plainly => self.stream = Some(TcpStream::connect(system, self.to)?),
            Opening::ForCookie(None) => {
                self.opening =
                    Opening::ForCookie(Some(TcpStream::connect_with(system, self.to, &saying(&[]))?.0));
            }
            Opening::ForCookie(Some(first)) => {
                while events.next(system).is_ok() {}
                if !first.info(system).is_ok_and(|(_, info)| info.state.is_synchronized()) {
                    // The connection has failed, or is not established yet.
                    return first.room(system).map(|_| Step::Wait(events.fd())).map_err(Broken::from);
                }
                system.close(first);
                self.opening = Opening::WithData;
            }
            Opening::WithData => return self.open_with_data(events, system),
        }
        Ok(Step::Again)
    }

    fn open_with_data(&mut self, events: EventQueue, system: &mut System<'_>) -> Result<Step, Broken> {
        if self.unwritten().is_empty() && self.next_piece() == Next::Wait {
            return Ok(Step::Wait(events.fd()));
        }
        let (stream, taken) = TcpStream::connect_with(system, self.to, &saying(self.unwritten()))?;
        self.wrote(taken);
        self.stream = Some(stream);
        if self.shut {
            let _ = stream.shutdown(system);
        }
        Ok(Step::Again)
    }

    /// Returns the bytes at hand that are to be written next.
    fn unwritten(&self) -> &[u8] {
        match &self.source {
            Source::Input(_) => self.piece.0.get(self.piece.1..).unwrap_or_default(),
            Source::Pattern { pattern, bytes } => {
                let (from, rest) = (self.tally.written(), bytes - self.tally.written());
                let run = pattern.from(from);
                &run[..run.len().min(usize::try_from(rest).unwrap_or(usize::MAX))]
            }
        }
    }

    fn wrote(&mut self, bytes: usize) {
        self.piece.1 += bytes;
        self.tally.written.add(bytes as u64);
    }

    /// Writes what there is room for, until about [`TURN`] bytes are written.
    fn write(&mut self, stream: TcpStream, system: &mut System<'_>) -> Result<Next, StreamError> {
        let mut left = TURN;
        while left > 0 && !self.shut {
            let data = self.unwritten();
            if data.is_empty() {
                if self.next_piece() == Next::Wait {
                    return Ok(Next::Wait);
                }
                if self.shut {
                    let _ = stream.shutdown(system);
                }
                continue;
            }
            let Some(taken) = now(stream.write(system, data))? else { return Ok(Next::Wait) };
            self.wrote(taken);
            left = left.saturating_sub(taken as u64);
        }
        Ok(if self.shut { Next::Wait } else { Next::Again })
    }

    /// Fetches the next piece of the source. Sets `shut` if there is none.
    fn next_piece(&mut self) -> Next {
        let Source::Input(input) = &self.source else {
            self.shut = true;
            return Next::Again;
        };
        match input.next() {
            Came::Piece(piece) => self.piece = (piece, 0),
            Came::NotYet => return Next::Wait,
            Came::End => self.shut = true,
            Came::Failed(error) => {
                self.tally.outcome().input = Some(error);
                self.shut = true;
            }
        }
        Next::Again
    }

    /// Reads what has come and the drain has room for, until about [`TURN`] bytes are read.
    fn read(&mut self, stream: TcpStream, system: &mut System<'_>) -> Result<Next, StreamError> {
        let mut left = TURN;
        while left > 0 && !self.heard {
            if self.held.take().is_some_and(|piece| !self.give(piece)) {
                return Ok(Next::Wait);
            }
            let Some(len) = now(stream.read(system, &mut self.buffer))? else { return Ok(Next::Wait) };
            self.heard = len == 0;
            left = left.saturating_sub(len as u64);
            self.take(len);
        }
        Ok(if self.heard { Next::Wait } else { Next::Again })
    }

    /// Counts and compares the `len` bytes that were read, and passes them to the output, if there is one.
    fn take(&mut self, len: usize) {
        let came = self.buffer.get(..len).unwrap_or_default();
        if let Source::Pattern { pattern, .. } = &self.source
            && !pattern.is(self.tally.read(), came)
        {
            self.tally.differs.store(true, Ordering::Relaxed);
        }
        self.tally.read.add(len as u64);
        if len > 0 && matches!(self.drain, Some(Drain::Output(_))) {
            let piece = came.to_vec();
            self.give(piece);
        }
    }

    /// Passes a piece to the output. Returns false if the piece has to wait. After the output has failed,
    /// pieces are discarded.
    fn give(&mut self, piece: Vec<u8>) -> bool {
        let Some(Drain::Output(output)) = &self.drain else { return true };
        match output.give(piece) {
            Gave::Taken => true,
            Gave::Full(piece) => {
                self.held = Some(piece);
                false
            }
            Gave::Gone => {
                self.gone = true;
                true
            }
        }
    }

    /// Returns whether both sides have sent everything and each knows it.
    fn is_over(&self, stream: TcpStream, system: &System<'_>) -> bool {
        let settled = |info: &Info| matches!(info.state, State::TimeWait | State::Closed);
        self.shut && self.heard && stream.info(system).ok().is_none_or(|(_, info)| settled(&info))
    }

    /// Records the state of the connection. The connection may already be over when this is called first.
    fn look(&self, stream: TcpStream, system: &System<'_>) {
        let Ok((tuple, info)) = stream.info(system) else { return };
        // A connection that was never established is refused, not reset.
        let is_reset = matches!(info.error, Some(Error::Reset | Error::BrokenPipe));
        let was = is_reset || info.counts.bytes_acked > 0;
        if was || info.state.is_synchronized() {
            self.tally.connected.store(true, Ordering::Relaxed);
        }
        self.tally.outcome().last = Some((tuple, info));
    }

    fn go_on(
        &mut self,
        stream: TcpStream,
        events: EventQueue,
        system: &mut System<'_>,
    ) -> Result<Step, StreamError> {
        while events.next(system).is_ok() {}
        let written = self.write(stream, system).unwrap_or_else(|why| {
            // Earlier data is still to be read, and then the reason.
            self.cut_off = Some(why);
            self.shut = true;
            Next::Wait
        });
        let read = self.read(stream, system);
        self.look(stream, system);
        let read = read?;
        if self.gone || self.is_over(stream, system) {
            return Ok(Step::Exit);
        }
        Ok(match (written, read) {
            (Next::Wait, Next::Wait) if self.shut && self.heard => {
                Step::WaitUntil(events.fd(), system.now() + LOOK)
            }
            (Next::Wait, Next::Wait) => Step::Wait(events.fd()),
            _ => Step::Again,
        })
    }

    fn end(&mut self, broken: Option<Broken>) -> Step {
        let mut outcome = self.tally.outcome();
        outcome.broken = broken;
        if let Some(Drain::Output(output)) = self.drain.take() {
            outcome.output = Some(output);
        }
        drop(outcome);
        self.tally.ended.store(true, Ordering::Release);
        Step::Exit
    }
}

impl Program for Send {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = match EventQueue::of_all(system) {
            Ok(events) => events,
            Err(error) => return self.end(Some(ConnectError::from(error).into())),
        };
        let Some(stream) = self.stream else {
            return self.open(events, system).unwrap_or_else(|error| self.end(Some(error)));
        };
        match self.go_on(stream, events, system) {
            Ok(Step::Exit) if self.gone => self.end(Some(Broken::Output)),
            Ok(Step::Exit) => self.end(self.cut_off.map(Broken::from)),
            Ok(step) => step,
            Err(error) => self.end(Some(error.into())),
        }
    }
}

/// Returns options for a connection that has `data` to send from the beginning.
fn saying(data: &[u8]) -> ConnectOptions<'_> {
    ConnectOptions { data: Some(data), ..ConnectOptions::default() }
}

#[cfg(test)]
mod tests {
    use evenkeel::raw::socket::TcpListener;
    use evenkeel::raw::tcp::ListenerConfig;

    use super::*;
    use crate::two_hosts::{ADDRESSES, TwoHosts};

    /// Between two of the program's turns the handshake completes, and the peer accepts and resets.
    #[test]
    fn a_connection_that_is_reset_before_the_program_saw_it_was_one() {
        let mut hosts = TwoHosts::new();
        let listener =
            hosts.turn(1, |system| TcpListener::listen(system, None, 9, &ListenerConfig::default())).unwrap();
        let tally = Arc::new(Counters::default());
        let source = Source::Pattern { pattern: Pattern::new(1), bytes: 100_000 };
        let to = IpEndpoint::new(ADDRESSES[1], 9);
        let mut send = Send::new(to, false, source, Drain::Count, Arc::clone(&tally));
        assert_eq!(hosts.turn(0, |system| send.step(system)), Step::Again);
        assert!(!tally.connected(), "it has not looked yet");
        let reset = hosts.turn(1, |system| {
            let (stream, _) = listener.accept(system).unwrap();
            stream.abort(system)
        });
        assert_eq!(reset, Ok(()));
        assert_eq!(hosts.turn(0, |system| send.step(system)), Step::Exit);
        let outcome = tally.outcome();
        assert_eq!(outcome.broken, Some(Broken::Connection(StreamError::Failed(Error::Reset))));
        assert!(tally.connected());
        assert_eq!(outcome.last.as_ref().map(|(_, info)| info.error), Some(Some(Error::Reset)));
    }
}
