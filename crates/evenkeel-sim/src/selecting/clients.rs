//! Programs that load a server: hot clients send requests at a fixed rate, and cold clients hold silent
//! connections.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::socket::StreamError;
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::{EventQueue, TcpStream};
use evenkeel_core::time::{Duration, Instant};

use super::exchange::REQUEST;
use crate::rng::Rng;
use crate::workload::{Log, Tally};

/// The times at which requests are due.
#[derive(Debug, Clone)]
pub enum Due {
    /// Requests from a time on with this mean gap. Each gap is between half of it and one and a half times
    /// it.
    Regular {
        /// The time that is one gap before the first request.
        from: Instant,
        /// The mean.
        gap: Duration,
        /// The dice.
        rng: Rng,
    },
    /// Requests at these times, in order.
    At(VecDeque<Instant>),
}

impl Due {
    /// Returns the time of the next request, or `None` after the last one.
    fn next(&mut self) -> Option<Instant> {
        match self {
            Self::Regular { from, gap, rng } => {
                *from += *gap / 2 + rng.duration(*gap);
                Some(*from)
            }
            Self::At(times) => times.pop_front(),
        }
    }

    /// Drops requests that were due before `now`: a regular client does not make up for them.
    fn skip_to(&mut self, now: Instant) {
        if let Self::Regular { from, .. } = self {
            *from = (*from).max(now);
        }
    }
}

/// Counters of the requests of [`HotClients`].
#[derive(Debug, Clone, Default)]
pub struct ClientCounts {
    /// Requests begun.
    pub asked: Tally,
    /// Answers that came whole.
    pub answered: Tally,
    /// Connections that failed, or ended early.
    pub failed: Tally,
    /// The times from opening the connection to the end of the answer, for each complete answer.
    pub times: Log<Duration>,
}

/// Clients that open a connection for each request when it is due, whatever the state of earlier requests. So
/// the rate can exceed the server's capacity (S-Clients). At most one request is in progress for each client.
#[derive(Debug)]
pub struct HotClients {
    to: IpEndpoint,
    clients: usize,
    /// The least bytes of an answer.
    bytes: usize,
    due: Due,
    next: Option<Instant>,
    streams: BTreeMap<TcpStream, Asking>,
    counts: ClientCounts,
}

#[derive(Debug)]
struct Asking {
    since: Instant,
    asked: bool,
    came: usize,
}

impl HotClients {
    /// Creates this number of clients of the server at `to`. An answer of the server has `bytes`. Also
    /// returns the counters of their requests.
    #[must_use]
    pub fn new(to: IpEndpoint, clients: usize, bytes: usize, mut due: Due) -> (Self, ClientCounts) {
        let counts = ClientCounts::default();
        let next = due.next();
        let streams = BTreeMap::new();
        (Self { to, clients, bytes, due, next, streams, counts: counts.clone() }, counts)
    }

    /// Begins the due requests, as long as there are free clients.
    fn begin(&mut self, system: &mut System<'_>) {
        let now = system.now();
        while self.streams.len() < self.clients && self.next.is_some_and(|next| next <= now) {
            self.next = self.due.next();
            self.counts.asked.add_one();
            match TcpStream::connect(system, self.to) {
                Ok(stream) => {
                    self.streams.insert(stream, Asking { since: now, asked: false, came: 0 });
                }
                Err(_) => self.counts.failed.add_one(),
            }
        }
        if self.streams.len() == self.clients {
            self.due.skip_to(now);
        }
    }

    /// Continues a request. Once it is over, returns whether it was answered.
    fn go_on(&mut self, stream: TcpStream, system: &mut System<'_>) -> Option<bool> {
        let asking = self.streams.get_mut(&stream)?;
        if !asking.asked {
            match stream.write(system, REQUEST) {
                Ok(len) => asking.asked = len == REQUEST.len(),
                Err(StreamError::WouldBlock) => return None,
                Err(_) => return Some(false),
            }
        }
        let mut chunk = [0; 16 << 10];
        loop {
            match stream.read(system, &mut chunk) {
                Ok(0) => return Some(asking.came >= self.bytes),
                Ok(len) => asking.came += len,
                Err(StreamError::WouldBlock) => return None,
                Err(_) => return Some(false),
            }
        }
    }
}

impl Program for HotClients {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).expect("a process may have some descriptors");
        self.begin(system);
        if let Ok(event) = events.next(system) {
            let stream = TcpStream::of(&event);
            if let Some(answered) = self.go_on(stream, system) {
                let asking = self.streams.remove(&stream);
                let took = asking.map_or(Duration::ZERO, |asking| system.now().since(asking.since));
                if answered {
                    self.counts.answered.add_one();
                    self.counts.times.push(took);
                } else {
                    self.counts.failed.add_one();
                }
                system.close(stream);
            }
            return Step::Again;
        }
        let next = self.next.filter(|_| self.streams.len() < self.clients);
        Step::WaitUntil(events.fd(), next.unwrap_or(Instant::NEVER))
    }
}

/// A program that opens connections and does nothing with them: the paper's load-adding client. Its
/// connections are infinitely slow.
#[derive(Debug)]
pub struct ColdClients {
    to: IpEndpoint,
    left: usize,
}

/// The time between two openings.
const GAP: Duration = Duration::from_millis(1);

impl ColdClients {
    /// Creates `count` clients of the server at `to`.
    #[must_use]
    pub const fn new(to: IpEndpoint, count: usize) -> Self {
        Self { to, left: count }
    }
}

impl Program for ColdClients {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        if self.left == 0 {
            return Step::Sleep(Instant::NEVER);
        }
        if TcpStream::connect(system, self.to).is_ok() {
            self.left -= 1;
        }
        Step::Sleep(system.now() + GAP)
    }
}
