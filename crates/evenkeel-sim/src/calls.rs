//! Programs as lists of their calls, and the clients that load them. Every system call of such a server is a
//! step, so a simulated CPU passes through a trigger state at the end of each.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::socket::StreamError;
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::{EventQueue, TcpListener, TcpStream, UdpSocket, UserEvent};
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};

use crate::rng::{Ratio, Rng};
use crate::workload::Tally;

/// A call that a program makes at the end of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Reads the request.
    Read,
    /// Writes the whole answer.
    Write,
    /// Shuts the sending direction down, after the last answer.
    Shutdown,
    /// Closes the connection.
    Close,
    /// Any other system call: for files, time or signals.
    Other,
    /// Causes a page fault: the program has touched a page that is not in memory.
    Fault,
}

/// A step: user mode, then a call.
#[derive(Debug, Clone, Copy)]
pub struct Planned {
    /// The mean time in user mode before the call.
    pub user: Duration,
    /// The call at the end of that time.
    pub call: Call,
    /// The mean time in the kernel, without entry, exit and the work of the network subsystem.
    pub kernel: Duration,
}

/// Times that vary uniformly about their mean.
#[derive(Debug, Clone)]
pub struct Varying {
    /// The largest deviation, in percent of the mean.
    pub percent: u32,
    /// The dice.
    pub rng: Rng,
}

impl Varying {
    fn of(&mut self, mean: Duration) -> Duration {
        let spread = mean * self.percent.min(100) / 100;
        mean - spread + self.rng.duration(spread * 2)
    }
}

/// The calls of a web server for each connection, and for each request on a connection.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The calls that wait for a connection and accept it.
    pub accept: Vec<Planned>,
    /// The calls for a request, with one [`Call::Read`] at the beginning and one [`Call::Write`].
    pub request: Vec<Planned>,
    /// The calls after the answer to the last request.
    pub end: Vec<Planned>,
    /// Requests on a connection.
    pub requests: u32,
    /// Bytes of an answer.
    pub bytes: usize,
}

/// A web server. Its processes handle one connection after the other, as long as none has to wait.
#[derive(Debug)]
pub struct CallServer {
    port: u16,
    config: ListenerConfig,
    plan: Plan,
    varying: Varying,
    traps: Tally,
    answer: Vec<u8>,
    answered: Tally,
    open: Option<Opened>,
    /// Connections, with the number of answered requests.
    streams: BTreeMap<TcpStream, u32>,
    /// Connections with a request to read.
    ready: VecDeque<TcpStream>,
    acceptable: bool,
    now: Option<Work>,
}

/// The descriptors that a process of the server opens when it begins.
#[derive(Debug, Clone, Copy)]
struct Opened {
    listener: TcpListener,
    events: EventQueue,
    /// The descriptor for calls that do not concern the network.
    other: UserEvent,
}

/// The progress of a process of the server on a connection.
#[derive(Debug)]
struct Work {
    /// The connection; `None` before it is accepted.
    stream: Option<TcpStream>,
    steps: VecDeque<Planned>,
}

impl CallServer {
    /// Creates a server on `port`, and the counter of answered requests. The server counts its exceptions
    /// in `traps`, which the CPU reads.
    #[must_use]
    pub fn new(
        (port, config): (u16, ListenerConfig),
        plan: Plan,
        varying: Varying,
        traps: Tally,
    ) -> (Self, Tally) {
        let answered = Tally::default();
        let answer = vec![b'.'; plan.bytes];
        let (open, streams, ready, now) = (None, BTreeMap::new(), VecDeque::new(), None);
        let server = Self {
            port,
            config,
            plan,
            varying,
            traps,
            answer,
            answered: answered.clone(),
            open,
            streams,
            ready,
            acceptable: false,
            now,
        };
        (server, answered)
    }

    fn opened(&mut self, system: &mut System<'_>) -> Opened {
        *self.open.get_or_insert_with(|| {
            let listener = TcpListener::listen(system, None, self.port, &self.config);
            let listener = listener.unwrap_or_else(|error| panic!("cannot listen: {error}"));
            let events = EventQueue::of_all(system).expect("a process may have some descriptors");
            let other = UserEvent::open(system).expect("a process may have some descriptors");
            Opened { listener, events, other }
        })
    }

    /// Processes the ready descriptors. Returns whether there is something to do.
    fn hear(&mut self, opened: Opened, system: &mut System<'_>) -> bool {
        while let Ok(event) = opened.events.next(system) {
            let stream = TcpStream::of(&event);
            if TcpListener::of(&event) == opened.listener {
                self.acceptable = true;
            } else if self.streams.contains_key(&stream) && !self.ready.contains(&stream) {
                self.ready.push_back(stream);
            }
        }
        if let Some(stream) = self.ready.pop_front() {
            self.now =
                Some(Work { stream: Some(stream), steps: self.plan.request.iter().copied().collect() });
        } else if self.acceptable {
            self.now = Some(Work { stream: None, steps: self.plan.accept.iter().copied().collect() });
        }
        self.now.is_some()
    }

    /// Makes the next call of `work`.
    fn go_on(&mut self, mut work: Work, opened: Opened, system: &mut System<'_>) -> Option<Work> {
        let Some(Planned { user, call, kernel }) = work.steps.pop_front() else {
            return self.next(work, opened, system);
        };
        let time = self.varying.of(user) + self.varying.of(kernel);
        let Some(stream) = work.stream.filter(|_| !matches!(call, Call::Other | Call::Fault)) else {
            system.compute(time);
            if call == Call::Fault {
                self.traps.add_one();
            } else {
                let _ = opened.other.posted(system);
            }
            return Some(work);
        };
        match call {
            Call::Read => return self.read(stream, time, work, system),
            Call::Write => {
                system.compute(time);
                if stream.write(system, &self.answer) == Ok(self.answer.len()) {
                    self.answered.add_one();
                }
            }
            Call::Shutdown => {
                system.compute(time);
                let _ = stream.shutdown(system);
            }
            Call::Close => {
                system.compute(time);
                system.close(stream);
                self.streams.remove(&stream);
            }
            Call::Other | Call::Fault => {}
        }
        Some(work)
    }

    fn read(
        &mut self,
        stream: TcpStream,
        time: Duration,
        work: Work,
        system: &mut System<'_>,
    ) -> Option<Work> {
        let mut chunk = [0; 1 << 10];
        match stream.read(system, &mut chunk) {
            Ok(len) if len > 0 => {
                system.compute(time);
                Some(work)
            }
            // An event reports the descriptor again.
            Err(StreamError::WouldBlock) => None,
            _ => {
                self.streams.remove(&stream);
                system.close(stream);
                None
            }
        }
    }

    /// Continues at the end of a list of steps.
    fn next(&mut self, work: Work, opened: Opened, system: &mut System<'_>) -> Option<Work> {
        let Some(stream) = work.stream else {
            // The previous steps were to accept it.
            match opened.listener.accept(system) {
                Ok((stream, _)) => {
                    self.streams.insert(stream, 0);
                    self.ready.push_back(stream);
                }
                Err(_) => self.acceptable = false,
            }
            return None;
        };
        let requests = self.streams.get_mut(&stream)?;
        *requests += 1;
        if *requests == self.plan.requests {
            return Some(Work { stream: Some(stream), steps: self.plan.end.iter().copied().collect() });
        }
        if !self.ready.contains(&stream) {
            // The next request may have arrived meanwhile.
            self.ready.push_back(stream);
        }
        None
    }
}

impl Program for CallServer {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let opened = self.opened(system);
        if self.now.is_none() && !self.hear(opened, system) {
            return Step::Wait(opened.events.fd());
        }
        if let Some(work) = self.now.take() {
            self.now = self.go_on(work, opened, system);
        }
        Step::Again
    }
}

/// Clients that send the next request as soon as they have an answer: a number of requests on each
/// connection, then another connection.
#[derive(Debug)]
pub struct Customers {
    /// The server addresses that have no connection at present.
    free: VecDeque<IpEndpoint>,
    requests: u32,
    /// Bytes of an answer.
    bytes: usize,
    streams: BTreeMap<TcpStream, Asking>,
}

#[derive(Debug)]
struct Asking {
    to: IpEndpoint,
    asked: u32,
    came: usize,
}

const REQUEST: &[u8] = b"GET /index.html HTTP/1.0\r\nHost: server\r\nUser-Agent: customer\r\n\r\n";

impl Customers {
    /// Creates clients with one connection at a time to each of these addresses. An address may occur
    /// several times.
    #[must_use]
    pub fn new(to: Vec<IpEndpoint>, requests: u32, bytes: usize) -> Self {
        Self { free: to.into(), requests, bytes, streams: BTreeMap::new() }
    }

    fn open(&mut self, system: &mut System<'_>) {
        while let Some(to) = self.free.pop_front() {
            let Ok(stream) = TcpStream::connect(system, to) else { return self.free.push_back(to) };
            self.streams.insert(stream, Asking { to, asked: 0, came: 0 });
        }
    }

    /// Continues with a connection. Returns whether it is over.
    fn go_on(&mut self, stream: TcpStream, system: &mut System<'_>) -> bool {
        let Some(asking) = self.streams.get_mut(&stream) else { return false };
        let mut chunk = [0; 16 << 10];
        loop {
            let whole = asking.came >= self.bytes * asking.asked as usize;
            if whole && asking.asked < self.requests {
                match stream.write(system, REQUEST) {
                    Ok(_) => asking.asked += 1,
                    Err(StreamError::WouldBlock) => return false,
                    Err(_) => return true,
                }
            }
            match stream.read(system, &mut chunk) {
                Ok(0) => return true,
                Ok(len) => asking.came += len,
                Err(StreamError::WouldBlock) => return false,
                Err(_) => return true,
            }
        }
    }
}

impl Program for Customers {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).expect("a process may have some descriptors");
        self.open(system);
        let Ok(event) = events.next(system) else {
            return Step::WaitUntil(events.fd(), system.now() + Duration::from_millis(10));
        };
        let stream = TcpStream::of(&event);
        if self.go_on(stream, system) {
            self.free.extend(self.streams.remove(&stream).map(|asking| asking.to));
            system.close(stream);
        }
        Step::Again
    }
}

/// A program without network traffic, given by its mix of calls: from a list, each as often as the others.
/// After some calls it waits for a disk.
#[derive(Debug)]
pub struct Caller {
    mix: Vec<Planned>,
    /// The probability in percent that the program waits after a call, and the mean waiting time.
    waits: (u32, Duration),
    varying: Varying,
    traps: Tally,
    other: Option<UserEvent>,
}

impl Caller {
    /// Creates a program with this mix of calls. The program counts its exceptions in `traps`, which the
    /// CPU reads.
    #[must_use]
    pub const fn new(mix: Vec<Planned>, waits: (u32, Duration), varying: Varying, traps: Tally) -> Self {
        Self { mix, waits, varying, traps, other: None }
    }
}

impl Program for Caller {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let opened = self.other.is_none();
        let other =
            *self.other.get_or_insert_with(|| UserEvent::open(system).expect("a process may have some"));
        let Some(Planned { user, call, kernel }) = self.varying.rng.choose(&self.mix).copied() else {
            return Step::Exit;
        };
        system.compute(self.varying.of(user) + self.varying.of(kernel));
        if call == Call::Fault {
            if !opened {
                self.traps.add_one();
            }
        } else {
            let _ = other.posted(system);
        }
        let (percent, time) = self.waits;
        if self.varying.rng.chance(Ratio::percent(percent)) {
            return Step::Sleep(system.now() + self.varying.rng.exponential(time));
        }
        Step::Again
    }
}

/// A file server whose disk is its bottleneck: each datagram takes a time at the disk, one after the other,
/// before its answer.
#[derive(Debug)]
pub struct DiskServer {
    port: u16,
    socket: Option<UdpSocket>,
    /// CPU time of a request, before the disk and after it.
    compute: Duration,
    disk: Duration,
    varying: Varying,
    answer: Vec<u8>,
    asked: Option<(IpEndpoint, Instant)>,
    answered: Tally,
}

impl DiskServer {
    /// Creates a server on `port` whose answers have `bytes`, with the CPU time and the time at the disk of
    /// each request. Also returns the counter of its answers.
    #[must_use]
    pub fn new(
        port: u16,
        bytes: usize,
        (compute, disk): (Duration, Duration),
        varying: Varying,
    ) -> (Self, Tally) {
        let answered = Tally::default();
        let (socket, asked, answer) = (None, None, vec![b'.'; bytes]);
        (Self { port, socket, compute, disk, varying, answer, asked, answered: answered.clone() }, answered)
    }
}

impl Program for DiskServer {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let socket = crate::workload::open(&mut self.socket, system, self.port);
        if let Some((from, ready)) = self.asked {
            if system.now() < ready {
                return Step::Sleep(ready);
            }
            system.compute(self.varying.of(self.compute));
            let _ = socket.send(system, from, &self.answer);
            self.answered.add_one();
            self.asked = None;
            return Step::Again;
        }
        let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        let from = datagram.source();
        system.recycle(datagram);
        let compute = self.varying.of(self.compute);
        system.compute(compute);
        self.asked = Some((from, system.now() + compute + self.varying.of(self.disk)));
        Step::Again
    }
}
