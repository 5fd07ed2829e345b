//! A client that opens connections, as many at a time and in all as it is told, sends made-up bytes over
//! each, and looks at what comes back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::socket::{Event, Fd, StreamError};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::time::{Duration, Instant};
use serde::Serialize;

use super::pattern::Pattern;
use super::session::{CHUNK, now};
use super::streams::Streams;
use super::tally::Count;

/// Connections that are being opened or are at work at a time, at most. Others that are open do nothing: if
/// thousands began at the same instant, their first segments would overflow every ring, and so would the
/// repetitions, again at the same instants.
const UNDER_WAY: usize = 128;
/// Bytes that a connection moves in one step at most.
const TURN: u64 = 64 << 10;
/// How long it waits when no connection can be opened, for want of a port say.
const PAUSE: Duration = Duration::from_millis(10);

/// What a client is to do.
#[derive(Debug, Clone)]
pub struct Load {
    /// Where it connects to.
    pub to: IpEndpoint,
    /// Connections at a time. None is used before so many are open for the first time.
    pub clients: usize,
    /// Connections in all; without end if not given.
    pub count: Option<u64>,
    /// How long connections are opened.
    pub duration: Option<Duration>,
    /// What each does.
    pub ask: Ask,
}

/// What a client does with a connection.
#[derive(Debug, Clone)]
pub enum Ask {
    /// Sends so many bytes, and reads to the end.
    Bytes {
        /// How many.
        bytes: u64,
        /// They are to come back.
        echoed: bool,
    },
    /// Sends a request, and reads to the end.
    Request {
        /// The request.
        text: Arc<[u8]>,
        /// Bytes that the answer has at least.
        answer: u64,
    },
}

impl Ask {
    fn bytes(&self) -> u64 {
        match self {
            Self::Bytes { bytes, .. } => *bytes,
            Self::Request { text, .. } => text.len() as u64,
        }
    }
}

/// What a client has done; may be read from anywhere while it runs.
#[derive(Debug, Default)]
pub struct Tally {
    opened: Count,
    completed: Count,
    failed: Count,
    wrong: Count,
    unopened: Count,
    bytes_out: Count,
    bytes_in: Count,
    ended: AtomicBool,
}

impl Tally {
    /// Whether all connections there were to be are over.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// As of now.
    #[must_use]
    pub fn asked(&self) -> Asked {
        Asked {
            opened: self.opened.get(),
            completed: self.completed.get(),
            failed: self.failed.get(),
            wrong: self.wrong.get(),
            unopened: self.unopened.get(),
            bytes_out: self.bytes_out.get(),
            bytes_in: self.bytes_in.get(),
        }
    }
}

/// What a client has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// Connections it began to open.
    pub opened: u64,
    /// Those that were closed by both sides after all had come that was to come.
    pub completed: u64,
    /// Those that were refused, reset or timed out.
    pub failed: u64,
    /// Those over which something else came than was to come.
    pub wrong: u64,
    /// Attempts for which the host had no port or no room.
    pub unopened: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Bytes read.
    pub bytes_in: u64,
}

/// What a connection is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening,
    /// It is open, and waits to be used.
    Idle,
    Asking(Asking),
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Asking {
    sent: u64,
    back: u64,
    /// All is written, and that is said.
    shut: bool,
}

/// How a connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Wait,
    More,
    Completed,
    Wrong,
}

/// The program.
#[derive(Debug)]
pub struct Client {
    load: Load,
    pattern: Pattern,
    buffer: Box<[u8]>,
    streams: Streams<Phase>,
    /// Connections that are open and wait to be used.
    idle: VecDeque<Fd>,
    /// Connections that are being opened, or used.
    under_way: usize,
    /// As many are open as there are to be at a time, or were.
    gathered: bool,
    /// No connection is opened from then on.
    end: Option<Instant>,
    tally: Arc<Tally>,
}

impl Client {
    /// A client that tells `tally` what it does.
    #[must_use]
    pub fn new(load: Load, seed: u64, tally: Arc<Tally>) -> Self {
        Self {
            load,
            pattern: Pattern::new(seed),
            buffer: vec![0; CHUNK].into_boxed_slice(),
            streams: Streams::default(),
            idle: VecDeque::new(),
            under_way: 0,
            gathered: false,
            end: None,
            tally,
        }
    }

    fn wants_more(&self, now: Instant) -> bool {
        let all = self.load.count.is_some_and(|count| self.tally.opened.get() >= count);
        let late = self.end.is_some_and(|end| now >= end);
        !all && !late && self.streams.len() < self.load.clients
    }

    /// Opens connections; false if one could not be opened now.
    fn open(&mut self, system: &mut System<'_>) -> bool {
        while self.under_way < UNDER_WAY && self.wants_more(system.now()) {
            let Ok(stream) = system.connect(self.load.to) else {
                self.tally.unopened.add(1);
                return false;
            };
            self.tally.opened.add(1);
            self.under_way += 1;
            self.streams.insert(stream, Phase::Opening);
        }
        true
    }

    /// Puts connections to use.
    fn use_idle(&mut self, now: Instant) {
        self.gathered |= self.are_all_open(now);
        while self.gathered && self.under_way < UNDER_WAY {
            let Some(stream) = self.idle.pop_front() else { return };
            if let Some(phase) = self.streams.get_mut(stream) {
                *phase = Phase::Asking(Asking::default());
                self.under_way += 1;
                self.streams.put_back(stream);
            }
        }
    }

    fn are_all_open(&self, now: Instant) -> bool {
        self.idle.len() == self.streams.len() && !self.wants_more(now)
    }

    /// Whether another one can be opened or used at once.
    fn could_go_on(&self, now: Instant) -> bool {
        let uses = !self.idle.is_empty() && (self.gathered || self.are_all_open(now));
        self.under_way < UNDER_WAY && (uses || self.wants_more(now))
    }

    /// A connection has news.
    fn hear(&mut self, event: &Event, system: &mut System<'_>) {
        let (socket, ready) = (Fd::of(event), event.ready);
        match self.streams.get_mut(socket) {
            Some(phase @ Phase::Opening) if ready.is_writable() && !ready.is_hang_up() => {
                *phase = Phase::Idle;
                self.under_way -= 1;
                self.idle.push_back(socket);
            }
            // It was refused, or reset.
            Some(Phase::Opening) if ready.is_hang_up() => {
                self.under_way -= 1;
                self.close(socket, system);
                self.tally.failed.add(1);
            }
            Some(Phase::Idle) if ready.is_hang_up() => {
                self.idle.retain(|other| *other != socket);
                self.close(socket, system);
                self.tally.failed.add(1);
            }
            Some(Phase::Asking(_)) => self.serve(socket, system),
            _ => {}
        }
    }

    /// Gives a connection its turn.
    fn serve(&mut self, socket: Fd, system: &mut System<'_>) {
        let Some(Phase::Asking(asking)) = self.streams.get_mut(socket) else { return };
        let mut turn = Turn {
            load: &self.load,
            pattern: &self.pattern,
            buffer: &mut self.buffer,
            tally: &self.tally,
            socket,
            system,
        };
        let counter = match turn.go_on(asking) {
            Ok(Next::Wait) => return,
            Ok(Next::More) => return self.streams.put_back(socket),
            Ok(Next::Completed) => &self.tally.completed,
            Ok(Next::Wrong) => &self.tally.wrong,
            Err(_) => &self.tally.failed,
        };
        counter.add(1);
        self.under_way -= 1;
        self.close(socket, system);
    }

    fn close(&mut self, socket: Fd, system: &mut System<'_>) {
        self.streams.remove(socket);
        system.close(socket);
    }
}

/// A connection's turn.
struct Turn<'a, 's> {
    load: &'a Load,
    pattern: &'a Pattern,
    buffer: &'a mut [u8],
    tally: &'a Tally,
    socket: Fd,
    system: &'a mut System<'s>,
}

impl Turn<'_, '_> {
    fn go_on(&mut self, asking: &mut Asking) -> Result<Next, StreamError> {
        let full = self.write(asking)?;
        match self.read(asking)? {
            // What was left to write is not waited for by anybody: its turn comes again.
            Next::Wait if !full => Ok(Next::More),
            next => Ok(next),
        }
    }

    /// Writes what there is room for, up to a turn; false if there was room for all of that, and there is
    /// more.
    fn write(&mut self, asking: &mut Asking) -> Result<bool, StreamError> {
        let bytes = self.load.ask.bytes();
        let end = bytes.min(asking.sent + TURN);
        while asking.sent < end {
            let data = match &self.load.ask {
                Ask::Bytes { .. } => self.pattern.from(asking.sent),
                Ask::Request { text, .. } => text.get(asking.sent as usize..).unwrap_or_default(),
            };
            let length = data.len().min((end - asking.sent) as usize);
            let Some(taken) = now(self.system.write(self.socket, &data[..length]))? else { return Ok(true) };
            asking.sent += taken as u64;
            self.tally.bytes_out.add(taken as u64);
        }
        if asking.sent == bytes && !core::mem::replace(&mut asking.shut, true) {
            let _ = self.system.shutdown(self.socket);
        }
        Ok(asking.sent == bytes)
    }

    /// Reads what has come, up to a turn.
    fn read(&mut self, asking: &mut Asking) -> Result<Next, StreamError> {
        let end = asking.back + TURN;
        while asking.back < end {
            let Some(len) = now(self.system.read(self.socket, self.buffer))? else { return Ok(Next::Wait) };
            if len == 0 {
                return Ok(if self.has_all(asking) { Next::Completed } else { Next::Wrong });
            }
            let came = self.buffer.get(..len).unwrap_or_default();
            if matches!(self.load.ask, Ask::Bytes { .. }) && !self.pattern.is(asking.back, came) {
                return Ok(Next::Wrong);
            }
            asking.back += len as u64;
            self.tally.bytes_in.add(len as u64);
        }
        Ok(Next::More)
    }

    fn has_all(&self, asking: &Asking) -> bool {
        match self.load.ask {
            Ask::Bytes { bytes, echoed } => asking.back == if echoed { bytes } else { 0 },
            Ask::Request { answer, .. } => asking.back >= answer,
        }
    }
}

impl Program for Client {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Ok(events) = system.events() else { return Step::Exit };
        let now = system.now();
        if let (None, Some(duration)) = (self.end, self.load.duration) {
            self.end = Some(now + duration);
        }
        let opened = self.open(system);
        self.use_idle(now);
        let event = system.next_event(events);
        if let Ok(event) = event {
            self.hear(&event, system);
        }
        if let Some(stream) = self.streams.next_busy() {
            self.serve(stream, system);
        }
        if self.streams.len() == 0 && opened && !self.wants_more(now) {
            self.tally.ended.store(true, Ordering::Release);
            return Step::Exit;
        }
        let more = event.is_ok() || self.streams.has_busy();
        match (more || self.could_go_on(now), opened) {
            (_, false) if !more => Step::WaitUntil(events, now + PAUSE),
            (true, _) => Step::Again,
            (false, _) => Step::Wait(events),
        }
    }
}
