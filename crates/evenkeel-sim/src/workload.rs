//! Programs that run on simulated hosts, and their records.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::UdpSocket;
use evenkeel_core::time::{Duration, Instant};

use crate::rng::Rng;

/// A counter that a program increments and an experiment reads.
#[derive(Debug, Clone, Default)]
pub struct Tally(Arc<AtomicU64>);

impl Tally {
    /// Adds one to the counter.
    pub fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds `count` to the counter.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Raises the counter to `count`, if it is less.
    pub fn raise_to(&self, count: u64) {
        self.0.fetch_max(count, Ordering::Relaxed);
    }

    /// Returns the present count.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A list that a program writes and an experiment reads.
#[derive(Debug)]
pub struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Log<T> {
    /// Appends `item` to the log.
    pub fn push(&self, item: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(item);
    }

    /// Takes everything written so far.
    #[must_use]
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Opens the socket of a program at its first step.
///
/// # Panics
/// If the port is taken, which is an error in the experiment.
pub(crate) fn open(socket: &mut Option<UdpSocket>, system: &mut System<'_>, port: u16) -> UdpSocket {
    *socket.get_or_insert_with(|| match UdpSocket::bind(system, None, port) {
        Ok(socket) => socket,
        Err(error) => panic!("cannot bind port {port}: {error}"),
    })
}

/// A program that receives datagrams and discards them (W6).
#[derive(Debug)]
pub struct Sink {
    port: u16,
    compute: Duration,
    socket: Option<UdpSocket>,
    received: Tally,
}

impl Sink {
    /// Creates a sink on `port` that computes for `compute` for each datagram, and the counter of received
    /// datagrams.
    #[must_use]
    pub fn new(port: u16, compute: Duration) -> (Self, Tally) {
        let received = Tally::default();
        (Self { port, compute, socket: None, received: received.clone() }, received)
    }
}

impl Program for Sink {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let socket = open(&mut self.socket, system, self.port);
        let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        system.recycle(datagram);
        system.compute(self.compute);
        self.received.add_one();
        Step::Again
    }
}

/// A datagram as a program received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The time at which the receive call returned.
    pub at: Instant,
    /// The endpoint that sent the datagram.
    pub from: IpEndpoint,
    /// The payload of the datagram.
    pub payload: Vec<u8>,
}

/// A program that receives datagrams and keeps them.
#[derive(Debug)]
pub struct Recorder {
    port: u16,
    socket: Option<UdpSocket>,
    got: Option<Delivery>,
    log: Log<Delivery>,
}

impl Recorder {
    /// Creates a recorder on `port`, and its log.
    #[must_use]
    pub fn new(port: u16) -> (Self, Log<Delivery>) {
        let log = Log::default();
        (Self { port, socket: None, got: None, log: log.clone() }, log)
    }
}

impl Program for Recorder {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let socket = open(&mut self.socket, system, self.port);
        // The call is over when the next step begins.
        if let Some(delivery) = self.got.take() {
            self.log.push(Delivery { at: system.now(), ..delivery });
        }
        let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        let payload = datagram.chunks().flatten().copied().collect();
        self.got = Some(Delivery { at: system.now(), from: datagram.source(), payload });
        system.recycle(datagram);
        Step::Again
    }
}

/// Sends every datagram back (the ping-pong server of W7).
#[derive(Debug)]
pub struct Echo {
    port: u16,
    socket: Option<UdpSocket>,
    answer: Option<(IpEndpoint, Vec<u8>)>,
}

impl Echo {
    /// Creates an echo server on `port`.
    #[must_use]
    pub const fn new(port: u16) -> Self {
        Self { port, socket: None, answer: None }
    }
}

impl Program for Echo {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let socket = open(&mut self.socket, system, self.port);
        if let Some((to, payload)) = self.answer.take() {
            // A datagram that cannot be sent is lost, as on any network, and the client detects that.
            let _ = socket.send(system, to, &payload);
            return Step::Again;
        }
        let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        self.answer = Some((datagram.source(), datagram.chunks().flatten().copied().collect()));
        system.recycle(datagram);
        Step::Again
    }
}

/// A program that computes for ever (W3).
#[derive(Debug, Clone, Copy)]
pub struct Spinner;

/// The time that a spinner computes before it returns to the scheduler.
const SPIN: Duration = Duration::from_millis(1);

impl Program for Spinner {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        system.compute(SPIN);
        Step::Again
    }
}

/// The outcome of one ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ping {
    /// The time at which the message was sent.
    pub at: Instant,
    /// The time from sending to the answer; `None` if none came in time.
    pub round_trip: Option<Duration>,
}

/// Sends a short message, waits for the answer, and again (the client of W7).
#[derive(Debug)]
pub struct PingPong {
    to: IpEndpoint,
    timeout: Duration,
    socket: Option<UdpSocket>,
    number: u64,
    state: Ponging,
    log: Log<Ping>,
}

#[derive(Debug, Clone, Copy)]
enum Ponging {
    Sending,
    Waiting { since: Instant },
    Got { since: Instant },
}

impl PingPong {
    /// Creates a client of the echo server at `to` that gives up on an answer after `timeout`; and its log.
    #[must_use]
    pub fn new(to: IpEndpoint, timeout: Duration) -> (Self, Log<Ping>) {
        let log = Log::default();
        (Self { to, timeout, socket: None, number: 0, state: Ponging::Sending, log: log.clone() }, log)
    }

    fn send(&mut self, system: &mut System<'_>, socket: UdpSocket) -> Step {
        self.number += 1;
        let _ = socket.send(system, self.to, &self.number.to_be_bytes());
        self.state = Ponging::Waiting { since: system.now() };
        Step::Again
    }

    fn wait(&mut self, system: &mut System<'_>, socket: UdpSocket, since: Instant) -> Step {
        let Ok(datagram) = socket.receive(system) else {
            if system.now() < since + self.timeout {
                return Step::WaitUntil(socket.fd(), since + self.timeout);
            }
            self.log.push(Ping { at: since, round_trip: None });
            self.state = Ponging::Sending;
            return Step::Again;
        };
        // An answer after its time is not the expected one.
        if datagram.as_slice() == Some(&self.number.to_be_bytes()) {
            self.state = Ponging::Got { since };
        }
        system.recycle(datagram);
        Step::Again
    }
}

impl Program for PingPong {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let socket = open(&mut self.socket, system, 0);
        match self.state {
            Ponging::Sending => self.send(system, socket),
            Ponging::Waiting { since } => self.wait(system, socket, since),
            Ponging::Got { since } => {
                self.log.push(Ping { at: since, round_trip: Some(system.now().since(since)) });
                self.send(system, socket)
            }
        }
    }
}

/// A datagram as a talker sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The time at which the send call began.
    pub at: Instant,
    /// The endpoint to which the datagram went.
    pub to: IpEndpoint,
    /// The payload of the datagram, which differs from that of any other datagram.
    pub payload: Vec<u8>,
}

/// Sends distinguishable datagrams to random peers at random times.
#[derive(Debug)]
pub struct Talker {
    name: u64,
    peers: Vec<IpEndpoint>,
    payload_bytes_max: u64,
    gap: Duration,
    until: Instant,
    rng: Rng,
    socket: Option<UdpSocket>,
    number: u64,
    log: Log<Sent>,
}

impl Talker {
    /// Creates a talker with a `name` of its own, and the log of the datagrams that it sent. The talker
    /// sends to one of `peers` every `gap` on average until `until`.
    #[must_use]
    pub fn new(
        name: u64,
        peers: Vec<IpEndpoint>,
        gap: Duration,
        until: Instant,
        rng: Rng,
    ) -> (Self, Log<Sent>) {
        let log = Log::default();
        let (number, socket) = (0, None);
        let talker =
            Self { name, peers, payload_bytes_max: 1400, gap, until, rng, socket, number, log: log.clone() };
        (talker, log)
    }

    /// Sets the greatest payload in bytes. Datagrams above the MTU are sent in fragments.
    #[must_use]
    pub const fn with_payload_bytes_max(mut self, bytes: u64) -> Self {
        self.payload_bytes_max = bytes;
        self
    }

    /// Returns a payload: the name, a number, and random bytes.
    fn payload(&mut self) -> Vec<u8> {
        let mut payload = Vec::from(self.name.to_be_bytes());
        payload.extend(self.number.to_be_bytes());
        let len = self.rng.between(payload.len() as u64, self.payload_bytes_max) as usize;
        while payload.len() < len {
            payload.extend(self.rng.next_u64().to_be_bytes());
        }
        payload.truncate(len);
        self.number += 1;
        payload
    }
}

impl Program for Talker {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let socket = open(&mut self.socket, system, 0);
        let Some(&to) = self.rng.choose(&self.peers) else { return Step::Exit };
        if system.now() >= self.until {
            return Step::Exit;
        }
        let payload = self.payload();
        if socket.send(system, to, &payload).is_ok() {
            self.log.push(Sent { at: system.now(), to, payload });
        }
        Step::Sleep(system.now() + self.rng.exponential(self.gap))
    }
}
