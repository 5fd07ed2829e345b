//! Programs with TCP streams, for simulated hosts: an echo server, clients that check every byte, and a
//! listener that does nothing.

use std::collections::BTreeMap;

use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::socket::{ConnectError, ConnectOptions, StreamError};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::{EventQueue, TcpListener, TcpStream};
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::Duration;

use crate::workload::{Log, Tally};

/// The most bytes that one call moves.
const CHUNK: usize = 16 << 10;

/// Sends back what comes, stream by stream, and ends a stream when its peer has.
#[derive(Debug)]
pub struct StreamEcho {
    port: u16,
    config: ListenerConfig,
    listener: Option<TcpListener>,
    streams: BTreeMap<TcpStream, Echoing>,
    accepted: Tally,
}

/// A stream, and the bytes that could not be sent back yet.
#[derive(Debug, Default)]
struct Echoing {
    back: Vec<u8>,
    ended: bool,
}

impl StreamEcho {
    /// Creates a server on `port`, and the counter of the connections it accepted.
    #[must_use]
    pub fn new(port: u16, config: ListenerConfig) -> (Self, Tally) {
        let accepted = Tally::default();
        (
            Self { port, config, listener: None, streams: BTreeMap::new(), accepted: accepted.clone() },
            accepted,
        )
    }

    /// Moves as many bytes as possible; returns false when the stream is to be closed.
    fn serve(stream: TcpStream, echoing: &mut Echoing, system: &mut System<'_>) -> bool {
        let mut chunk = [0; CHUNK];
        loop {
            while !echoing.back.is_empty() {
                match stream.write(system, &echoing.back) {
                    Ok(taken) => drop(echoing.back.drain(..taken)),
                    Err(StreamError::WouldBlock) => return true,
                    Err(_) => return false,
                }
            }
            if echoing.ended {
                return false;
            }
            match stream.read(system, &mut chunk) {
                Ok(0) => echoing.ended = true,
                Ok(len) => echoing.back.extend_from_slice(&chunk[..len]),
                Err(StreamError::WouldBlock) => return true,
                Err(_) => return false,
            }
        }
    }
}

impl Program for StreamEcho {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).expect("a process may have some descriptors");
        if self.listener.is_none() {
            let listener = TcpListener::listen(system, None, self.port, &self.config);
            self.listener = Some(listener.unwrap_or_else(|error| panic!("cannot listen: {error}")));
        }
        match events.next(system) {
            Err(_) => return Step::Wait(events.fd()),
            Ok(event) if Some(TcpListener::of(&event)) == self.listener => {
                while let Ok((stream, _)) = TcpListener::of(&event).accept(system) {
                    self.accepted.add_one();
                    self.streams.insert(stream, Echoing::default());
                }
            }
            Ok(event) => {
                let stream = TcpStream::of(&event);
                let Some(echoing) = self.streams.get_mut(&stream) else { return Step::Again };
                if !Self::serve(stream, echoing, system) {
                    self.streams.remove(&stream);
                    system.close(stream);
                }
            }
        }
        Step::Again
    }
}

/// A listener that accepts no connection.
#[derive(Debug)]
pub struct StreamDummy {
    port: u16,
    config: ListenerConfig,
    listener: Option<TcpListener>,
}

impl StreamDummy {
    /// Creates a listener on `port`.
    #[must_use]
    pub const fn new(port: u16, config: ListenerConfig) -> Self {
        Self { port, config, listener: None }
    }
}

impl Program for StreamDummy {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let listen = || match TcpListener::listen(system, None, self.port, &self.config) {
            Ok(listener) => listener,
            Err(error) => panic!("cannot listen: {error}"),
        };
        Step::Wait(self.listener.get_or_insert_with(listen).fd())
    }
}

/// The outcome of a stream of a [`StreamClient`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All bytes came back, in order.
    Echoed,
    /// The connection failed with this error.
    Failed(StreamError),
    /// No connection was opened.
    NotOpened,
    /// The client left before all bytes had come back.
    Left,
    /// The returned bytes differ from the sent ones.
    Wrong {
        /// The number of bytes that had come back correctly before.
        after: usize,
    },
}

/// A client that opens connections, one after the other or several at once. It sends bytes over each and
/// compares them with the bytes that come back.
#[derive(Debug)]
pub struct StreamClient {
    to: IpEndpoint,
    /// The number of connections still to be opened.
    left: usize,
    /// The number of simultaneous connections.
    abreast: usize,
    bytes: usize,
    manners: Manners,
    pause: Duration,
    streams: BTreeMap<TcpStream, Asking>,
    outcomes: Log<Outcome>,
}

/// The options of a [`StreamClient`] for the beginning and the end of its connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Manners {
    /// Whether the client passes its first bytes to the call that opens the connection (RFC 7413).
    pub early: bool,
    /// The number of returned bytes after which the client leaves every second connection, if more are
    /// missing: it aborts one and closes the next.
    pub leaves_after: Option<usize>,
}

#[derive(Debug)]
struct Asking {
    number: usize,
    sent: usize,
    back: usize,
}

/// Returns the byte at `place` of the stream with this number.
fn byte(number: usize, place: usize) -> u8 {
    (place.wrapping_mul(31) ^ (place >> 8).wrapping_mul(7) ^ number.wrapping_mul(131)) as u8
}

impl StreamClient {
    /// Creates a client that opens `connections` of `bytes` each to `to`, `abreast` at a time; and the log
    /// of their outcomes.
    #[must_use]
    pub fn new(to: IpEndpoint, connections: usize, abreast: usize, bytes: usize) -> (Self, Log<Outcome>) {
        Self::with_manners(to, connections, abreast, bytes, Manners::default())
    }

    /// Creates a client like [`StreamClient::new`], with these `manners`.
    #[must_use]
    pub fn with_manners(
        to: IpEndpoint,
        connections: usize,
        abreast: usize,
        bytes: usize,
        manners: Manners,
    ) -> (Self, Log<Outcome>) {
        let outcomes = Log::default();
        let client = Self {
            to,
            left: connections,
            abreast,
            bytes,
            manners,
            pause: Duration::from_millis(10),
            streams: BTreeMap::new(),
            outcomes: outcomes.clone(),
        };
        (client, outcomes)
    }

    /// Opens the missing connections; returns false if one could not be opened.
    fn open(&mut self, system: &mut System<'_>) -> bool {
        while self.left > 0 && self.streams.len() < self.abreast {
            self.left -= 1;
            match self.connect(self.left, system) {
                Ok((stream, sent)) => {
                    self.streams.insert(stream, Asking { number: self.left, sent, back: 0 });
                }
                Err(_) => {
                    self.outcomes.push(Outcome::NotOpened);
                    return false;
                }
            }
        }
        true
    }

    /// Opens a connection. Returns the stream, and the number of bytes that the call has taken.
    fn connect(&self, number: usize, system: &mut System<'_>) -> Result<(TcpStream, usize), ConnectError> {
        if !self.manners.early {
            return TcpStream::connect(system, self.to).map(|stream| (stream, 0));
        }
        let data: Vec<u8> = (0..self.bytes.min(CHUNK)).map(|place| byte(number, place)).collect();
        let options = ConnectOptions { data: Some(&data), ..ConnectOptions::default() };
        let (stream, taken) = TcpStream::connect_with(system, self.to, &options)?;
        if taken == self.bytes {
            let _ = stream.shutdown(system);
        }
        Ok((stream, taken))
    }

    /// Returns whether the client leaves this stream now: an odd one, after `leaves_after` bytes have come
    /// back.
    fn leaves(&self, asking: &Asking) -> bool {
        asking.number % 2 == 1 && self.manners.leaves_after.is_some_and(|enough| asking.back >= enough)
    }

    /// Sends and receives what is possible. Returns the outcome of the stream once it is known.
    fn ask(&self, stream: TcpStream, asking: &mut Asking, system: &mut System<'_>) -> Option<Outcome> {
        while asking.sent < self.bytes {
            let end = self.bytes.min(asking.sent + CHUNK);
            let chunk: Vec<u8> = (asking.sent..end).map(|place| byte(asking.number, place)).collect();
            match stream.write(system, &chunk) {
                Ok(taken) => asking.sent += taken,
                Err(StreamError::WouldBlock) => break,
                Err(why) => return Some(Outcome::Failed(why)),
            }
            if asking.sent == self.bytes {
                let _ = stream.shutdown(system);
            }
        }
        let mut chunk = [0; CHUNK];
        loop {
            match stream.read(system, &mut chunk) {
                Ok(0) if asking.back == self.bytes => return Some(Outcome::Echoed),
                Ok(0) => return Some(Outcome::Wrong { after: asking.back }),
                Ok(len) => {
                    for &came in &chunk[..len] {
                        if came != byte(asking.number, asking.back) || asking.back >= self.bytes {
                            return Some(Outcome::Wrong { after: asking.back });
                        }
                        asking.back += 1;
                    }
                    if self.leaves(asking) && asking.back < self.bytes {
                        if asking.number % 4 == 1 {
                            let _ = stream.abort(system);
                        }
                        return Some(Outcome::Left);
                    }
                }
                Err(StreamError::WouldBlock) => return None,
                Err(why) => return Some(Outcome::Failed(why)),
            }
        }
    }
}

impl Program for StreamClient {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).expect("a process may have some descriptors");
        if !self.open(system) {
            return Step::Sleep(system.now() + self.pause);
        }
        let Ok(event) = events.next(system) else {
            return if self.streams.is_empty() && self.left == 0 {
                Step::Exit
            } else {
                Step::Wait(events.fd())
            };
        };
        let stream = TcpStream::of(&event);
        let Some(mut asking) = self.streams.remove(&stream) else { return Step::Again };
        if event.ready.is_empty() {
            self.streams.insert(stream, asking);
            return Step::Again;
        }
        match self.ask(stream, &mut asking, system) {
            None => drop(self.streams.insert(stream, asking)),
            Some(outcome) => {
                self.outcomes.push(outcome);
                system.close(stream);
            }
        }
        Step::Again
    }
}
