//! An origin server at the end of a slow path: each answer arrives in pieces, over a random time.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::system::{EventQueue, TcpListener, TcpStream};
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};

use super::exchange::{Arriving, FILLER};

/// The time and the pieces of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// The time from the request to the end of the answer.
    pub time: Duration,
    /// The number of pieces, which are sent at equal intervals.
    pub pieces: u32,
    /// Bytes of a piece.
    pub bytes: usize,
}

/// Draws how each answer comes.
type Draw = Box<dyn FnMut() -> Path + Send>;

/// A server that answers each request after a random time, and closes, as in HTTP/1.0.
pub struct SlowOrigin {
    port: u16,
    config: ListenerConfig,
    draw: Draw,
    listener: Option<TcpListener>,
    asking: BTreeMap<TcpStream, Arriving>,
    /// The pieces to send, by due time; pieces of one time in the order of planning.
    planned: BTreeMap<Instant, VecDeque<Piece>>,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    stream: TcpStream,
    path: Path,
    left: u32,
}

impl fmt::Debug for SlowOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlowOrigin").field("port", &self.port).finish_non_exhaustive()
    }
}

impl SlowOrigin {
    /// Creates a server on `port`. `draw` returns the path of each answer.
    #[must_use]
    pub fn new(port: u16, config: ListenerConfig, draw: impl FnMut() -> Path + Send + 'static) -> Self {
        let draw = Box::new(draw);
        Self { port, config, draw, listener: None, asking: BTreeMap::new(), planned: BTreeMap::new() }
    }

    fn plan(&mut self, piece: Piece, now: Instant) {
        let at = now + piece.path.time / piece.path.pieces.max(1);
        self.planned.entry(at).or_default().push_back(piece);
    }

    /// Sends a piece, and plans the next one.
    fn send(&mut self, piece: Piece, system: &mut System<'_>) {
        let sent = piece.stream.write(system, &FILLER[..FILLER.len().min(piece.path.bytes)]);
        let left = piece.left - 1;
        if left == 0 || sent.is_err() {
            system.close(piece.stream);
        } else {
            self.plan(Piece { left, ..piece }, system.now());
        }
    }

    fn read_request(&mut self, stream: TcpStream, system: &mut System<'_>) {
        let mut chunk = [0; 1 << 10];
        let Some(request) = self.asking.get_mut(&stream) else { return };
        let Ok(len) = stream.read(system, &mut chunk) else { return };
        if request.add(&chunk[..len]) {
            self.asking.remove(&stream);
            let path = (self.draw)();
            self.plan(Piece { stream, path, left: path.pieces.max(1) }, system.now());
        }
    }

    /// Returns the next piece that is due.
    fn due(&mut self, now: Instant) -> Option<Piece> {
        let mut first = self.planned.first_entry().filter(|first| *first.key() <= now)?;
        let piece = first.get_mut().pop_front();
        if first.get().is_empty() {
            first.remove();
        }
        piece
    }
}

impl Program for SlowOrigin {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).expect("a process may have some descriptors");
        if self.listener.is_none() {
            let listener = TcpListener::listen(system, None, self.port, &self.config);
            self.listener = Some(listener.unwrap_or_else(|error| panic!("cannot listen: {error}")));
        }
        if let Some(piece) = self.due(system.now()) {
            self.send(piece, system);
            return Step::Again;
        }
        match events.next(system) {
            Ok(event) if Some(TcpListener::of(&event)) == self.listener => {
                while let Ok((stream, _)) = TcpListener::of(&event).accept(system) {
                    self.asking.insert(stream, Arriving::default());
                }
            }
            Ok(event) => self.read_request(TcpStream::of(&event), system),
            Err(_) => {
                let next = self.planned.keys().next().copied();
                return Step::WaitUntil(events.fd(), next.unwrap_or(Instant::NEVER));
            }
        }
        Step::Again
    }
}
