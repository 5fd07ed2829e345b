//! Remote procedure calls over UDP (W8): servers, a worker with one long call, and a client that keeps them
//! busy.

use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::UdpSocket;
use evenkeel_core::time::{Duration, Instant};

use crate::rng::Ratio;
use crate::workload::{Log, Tally, open};

/// Bytes of a call and of its answer.
const MESSAGE: usize = 32;

/// A server that computes for a fixed time for each call, and answers.
#[derive(Debug)]
pub struct RpcServer {
    port: u16,
    compute: Duration,
    socket: Option<UdpSocket>,
    answer: Option<(IpEndpoint, Vec<u8>)>,
}

impl RpcServer {
    /// Creates a server on `port` whose calls take `compute` of CPU time.
    #[must_use]
    pub const fn new(port: u16, compute: Duration) -> Self {
        Self { port, compute, socket: None, answer: None }
    }
}

impl Program for RpcServer {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let socket = open(&mut self.socket, system, self.port);
        if let Some((to, message)) = self.answer.take() {
            let _ = socket.send(system, to, &message);
            return Step::Again;
        }
        let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        self.answer = Some((datagram.source(), datagram.chunks().flatten().copied().collect()));
        system.recycle(datagram);
        system.compute(self.compute);
        Step::Again
    }
}

/// A server of one call, with a long computation on memory that fills a large part of the cache.
///
/// Interrupts use the cache as well, and the worker has to fetch displaced lines again. This takes `refill`
/// times as long as the interrupts took, which is added to the computation. The worker measures interrupts as
/// excess time of its slices; a longer excess was another process.
#[derive(Debug)]
pub struct Worker {
    port: u16,
    compute: Duration,
    refill: Ratio,
    socket: Option<UdpSocket>,
    work: Option<Working>,
}

#[derive(Debug)]
struct Working {
    client: IpEndpoint,
    left: Duration,
    slice: Duration,
    slice_began: Instant,
}

const SLICE: Duration = Duration::from_micros(500);
/// A longer excess means that another process had the CPU.
const INTERRUPTS_MAX: Duration = Duration::from_millis(10);

impl Worker {
    /// Creates a worker on `port` whose call takes `compute` of CPU time if nothing disturbs it.
    #[must_use]
    pub const fn new(port: u16, compute: Duration, refill: Ratio) -> Self {
        Self { port, compute, refill, socket: None, work: None }
    }

    fn accept(&mut self, socket: UdpSocket, system: &mut System<'_>) -> Step {
        let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        let (client, now) = (datagram.source(), system.now());
        self.work = Some(Working { client, left: self.compute, slice: Duration::ZERO, slice_began: now });
        system.recycle(datagram);
        Step::Again
    }
}

impl Program for Worker {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let socket = open(&mut self.socket, system, self.port);
        let Some(work) = &mut self.work else { return self.accept(socket, system) };
        let interrupted = system.now().since(work.slice_began).saturating_sub(work.slice);
        if interrupted < INTERRUPTS_MAX && !work.slice.is_zero() {
            work.left += interrupted * self.refill.numerator() / self.refill.denominator();
        }
        if work.left.is_zero() {
            let _ = socket.send(system, work.client, b"done");
            self.work = None;
            return Step::Again;
        }
        work.slice = work.left.min(SLICE);
        work.left -= work.slice;
        work.slice_began = system.now();
        system.compute(work.slice);
        Step::Again
    }
}

/// A client that calls the worker once. Until the answer it keeps servers busy with short calls, evenly
/// spread over time, with some outstanding at each.
#[derive(Debug)]
pub struct RpcClient {
    worker: IpEndpoint,
    servers: Vec<Server>,
    /// The call of the worker.
    start: Instant,
    socket: Option<UdpSocket>,
    called: bool,
    answered: Tally,
    worked: Log<Duration>,
}

#[derive(Debug)]
struct Server {
    at: IpEndpoint,
    interval: Duration,
    next: Instant,
    sent: u64,
    answered: u64,
    /// Answers a second, over the last few periods.
    served_per_s: f64,
    /// The time at which the interval was last adapted, and the number of answers at that time.
    adapted: (Instant, u64),
}

/// The greatest number of calls that are outstanding at one server.
pub const OUTSTANDING_MAX: u64 = 4_000;
/// The target for the calls outstanding at one server. The server does not run out of calls even if the
/// scheduler lets it run for half a second, and the number stays below [`OUTSTANDING_MAX`].
const OUTSTANDING: f64 = 2_000.0;
/// The interval at which the rate of calls is adapted to the rate of answers. Processes take turns within
/// that time.
const ADAPT: Duration = Duration::from_millis(600);
/// A rate above that of any server, so that calls are outstanding soon.
const FIRST_RATE: f64 = 4_000.0;

impl RpcClient {
    /// Creates a client that calls `worker` at `start`, and `servers` from then on; with the counter of the
    /// servers' answers, and the log of the worker's times.
    #[must_use]
    pub fn new(worker: IpEndpoint, servers: &[IpEndpoint], start: Instant) -> (Self, Tally, Log<Duration>) {
        let (answered, worked) = (Tally::default(), Log::default());
        let first = Duration::from_secs_f64(1.0 / FIRST_RATE);
        let servers = servers.iter().enumerate().map(|(n, &at)| Server {
            at,
            interval: first,
            // The servers do not start at one time.
            next: start + first * n as u32 / servers.len() as u32,
            sent: 0,
            answered: 0,
            served_per_s: FIRST_RATE / 4.0,
            adapted: (start, 0),
        });
        let client = Self {
            worker,
            servers: servers.collect(),
            start,
            socket: None,
            called: false,
            answered: answered.clone(),
            worked: worked.clone(),
        };
        (client, answered, worked)
    }

    fn receive(&mut self, socket: UdpSocket, system: &mut System<'_>) -> bool {
        let Ok(datagram) = socket.receive(system) else { return false };
        if datagram.source() == self.worker {
            self.worked.push(system.now().since(self.start));
        }
        if let Some(server) = self.servers.iter_mut().find(|server| server.at == datagram.source()) {
            server.answered += 1;
            self.answered.add_one();
        }
        system.recycle(datagram);
        true
    }
}

impl Server {
    const fn outstanding(&self) -> u64 {
        self.sent - self.answered
    }

    /// Adapts the rate of calls to that of answers. If the number of outstanding calls is far from the
    /// target, the rate is up to half as much higher or lower.
    fn adapt(&mut self, now: Instant) {
        let (since, answered) = self.adapted;
        if now < since + ADAPT {
            return;
        }
        let served_per_s = (self.answered - answered) as f64 / now.since(since).as_secs_f64();
        self.served_per_s += (served_per_s - self.served_per_s) / 2.0;
        let missing = (OUTSTANDING - self.outstanding() as f64) / OUTSTANDING;
        let rate = self.served_per_s.max(FIRST_RATE / 8.0) * (1.0 + missing.clamp(-1.0, 1.0) / 2.0);
        self.interval = Duration::from_secs_f64(1.0 / rate);
        self.adapted = (now, self.answered);
    }

    fn call(&mut self, socket: UdpSocket, system: &mut System<'_>) {
        self.adapt(system.now());
        if system.now() < self.next {
            return;
        }
        self.next = (self.next + self.interval).max(system.now());
        if self.outstanding() < OUTSTANDING_MAX && socket.send(system, self.at, &[0; MESSAGE]).is_ok() {
            self.sent += 1;
        }
    }
}

impl Program for RpcClient {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let socket = open(&mut self.socket, system, 0);
        while self.receive(socket, system) {}
        if !self.called && system.now() >= self.start {
            self.called = socket.send(system, self.worker, &[0; MESSAGE]).is_ok();
        }
        for server in &mut self.servers {
            server.call(socket, system);
        }
        let next = self.servers.iter().map(|server| server.next).min().unwrap_or(Instant::NEVER);
        let start = if self.called { Instant::NEVER } else { self.start };
        Step::WaitUntil(socket.fd(), next.min(start))
    }
}
