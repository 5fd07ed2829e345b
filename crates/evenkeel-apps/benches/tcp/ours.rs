//! Two of our hosts on a cable.

use std::fmt;
use std::sync::{Arc, Barrier};

use evenkeel::Engine;
use evenkeel::raw::cable::{Options, pair};
use evenkeel::raw::error::StreamError;
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::process::{Program, Step, System};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::socket::{ConnectOptions, EventQueue, TcpListener, TcpStream};
use evenkeel::raw::tcp::ListenerConfig;
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wire::{IpAddress, IpCidr, IpEndpoint};

use crate::shared::{BULK_WINDOW, CHUNK, PORT, Progress, TOGETHER, Workload, on_two_processors};

/// The ring size of adaptors of 10 Gbit/s.
const RING_PKTS: usize = 1_024;
/// The most events that a program handles in one step: all possible ones, like a large `epoll_wait`.
const EVENTS: usize = 2 * TOGETHER;
const SERVER: IpAddress = IpAddress::v4(10, 0, 0, 1);
/// The number of the client's addresses: connections in TIME-WAIT keep their ports.
const ADDRESSES: u8 = 8;
const PORTS: u32 = 60_000;

fn address(number: u8) -> IpAddress {
    IpAddress::v4(10, 0, 0, 2 + number)
}

/// The behaviour of a host while there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// The host sleeps until a frame or a deadline comes, as the kernel's programs do.
    Halt,
    /// The host polls its interface without sleeping, as smoltcp does here.
    Look,
}

pub(crate) fn run(
    (architecture, rest): (Architecture, Rest),
    idle: usize,
    workload: Workload,
    progress: &Arc<Progress>,
) {
    let end = |name, number| Options {
        ring_pkts: RING_PKTS,
        demultiplexes: architecture == Architecture::NiLrp,
        ..Options::new(name, number)
    };
    let (near, far) = pair(end("client", 1), end("server", 2));
    let client = Client::new(workload, idle, progress);
    let server = Server { workload, progress: Arc::clone(progress), listener: None, room: vec![0; CHUNK] };
    let addresses: Vec<_> = (0..ADDRESSES).map(|n| IpCidr::new(address(n), 24)).collect();
    // A frame that arrives before the receiver is ready is lost, and its sender waits for a second.
    let both = Barrier::new(2);
    let host = |end, addresses: &[IpCidr], program: Box<dyn Program>| {
        // A channel holds as many frames as a ring; otherwise the channel would limit the window.
        let mut config = Config { channel_pkts: RING_PKTS, ..Config::of(architecture) };
        let connection = Arc::make_mut(&mut config.tcp.connection);
        connection.send_buffer_max = BULK_WINDOW;
        connection.receive_buffer_max = BULK_WINDOW;
        let mut engine = Engine::new(Host::new(config).unwrap(), Clock::start()).unwrap();
        engine.add_cable(end, addresses).unwrap();
        engine.host_mut().spawn("program", 0, program);
        both.wait();
        match rest {
            Rest::Halt => halt(&mut engine, progress),
            Rest::Look => look(&mut engine, progress),
        }
    };
    on_two_processors(
        || host(near, &addresses, Box::new(client)),
        || host(far, &[IpCidr::new(SERVER, 24)], Box::new(server)),
    );
}

/// Runs a host that halts when idle, until the run is over.
fn halt(engine: &mut Engine, progress: &Progress) {
    while !progress.is_over() {
        // A frame or this deadline wakes a halted host.
        let until = engine.clock().now() + Duration::from_millis(20);
        engine.run(until, |_| progress.is_over()).unwrap();
    }
}

/// Runs like [`Engine::run`], but without halting.
fn look(engine: &mut Engine, progress: &Progress) {
    let clock = *engine.clock();
    let host = engine.host_mut();
    while !progress.is_over() {
        for _ in 0..100 {
            let begin = clock.now();
            let Some(ran) = host.turn(begin) else { continue };
            let end = clock.now();
            host.charge(&ran, end.since(begin));
            host.finish(&ran, end);
        }
    }
}

/// Reads what comes; answers it, unless it is bulk; and closes when the client has.
struct Server {
    workload: Workload,
    progress: Arc<Progress>,
    listener: Option<TcpListener>,
    room: Vec<u8>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Server")
    }
}

impl Server {
    fn serve(&mut self, stream: TcpStream, system: &mut System<'_>) {
        loop {
            match stream.read(system, &mut self.room) {
                Ok(len) if len > 0 && self.workload == Workload::Bulk => self.progress.add(len as u64),
                Ok(len) if len > 0 => {
                    let _ = stream.write(system, b"!");
                    return;
                }
                Err(StreamError::WouldBlock) => return,
                Ok(_) | Err(_) => return system.close(stream),
            }
        }
    }
}

impl Program for Server {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).unwrap();
        if self.listener.is_none() {
            self.listener =
                Some(TcpListener::listen(system, None, PORT, &ListenerConfig::default()).unwrap());
        }
        for _ in 0..EVENTS {
            match events.next(system) {
                Err(_) => return Step::Wait(events.fd()),
                Ok(event) if Some(TcpListener::of(&event)) == self.listener => {
                    while TcpListener::of(&event).accept(system).is_ok() {}
                }
                Ok(event) if event.ready.is_readable() => self.serve(TcpStream::of(&event), system),
                Ok(_) => {}
            }
        }
        Step::Again
    }
}

/// A client that opens idle connections, then works on others.
struct Client {
    workload: Workload,
    progress: Arc<Progress>,
    opened: u32,
    /// Idle connections to open, and opened ones that are not connected yet.
    idle: usize,
    opening: usize,
    begun: bool,
    data: Vec<u8>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    fn new(workload: Workload, idle: usize, progress: &Arc<Progress>) -> Self {
        let progress = Arc::clone(progress);
        Self { workload, progress, opened: 0, idle, opening: 0, begun: false, data: vec![b'x'; CHUNK] }
    }

    fn connect(&mut self, system: &mut System<'_>) {
        let from = address((self.opened / PORTS % u32::from(ADDRESSES)) as u8);
        let port = (1_024 + self.opened % PORTS) as u16;
        self.opened += 1;
        let from = ConnectOptions { address: Some(from), port, ..ConnectOptions::default() };
        TcpStream::connect_with(system, IpEndpoint::new(SERVER, PORT), &from).unwrap();
    }

    /// Opens the idle connections, and then those that work. Returns whether all idle connections are open.
    fn prepare(&mut self, system: &mut System<'_>) -> bool {
        while self.idle > 0 && self.opening < TOGETHER {
            self.connect(system);
            self.idle -= 1;
            self.opening += 1;
        }
        if self.opening > 0 {
            return false;
        }
        if !core::mem::replace(&mut self.begun, true) {
            let streams = if self.workload == Workload::Bulk { 1 } else { TOGETHER };
            (0..streams).for_each(|_| self.connect(system));
        }
        true
    }

    fn work(&mut self, stream: TcpStream, system: &mut System<'_>) {
        if self.workload == Workload::Bulk {
            while stream.write(system, &self.data).is_ok() {}
            return;
        }
        match stream.read(system, &mut [0; 16]) {
            Ok(1) => {
                self.progress.add(1);
                if self.workload == Workload::Requests {
                    let _ = stream.write(system, b"?");
                } else {
                    system.close(stream);
                    self.connect(system);
                }
            }
            Err(StreamError::WouldBlock) => _ = stream.write(system, b"?"),
            other => panic!("{other:?}"),
        }
    }
}

impl Program for Client {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).unwrap();
        if system.now() < Instant::from_millis(20) {
            // The server may not listen yet.
            return Step::Sleep(Instant::from_millis(20));
        }
        let begun = self.prepare(system);
        for _ in 0..EVENTS {
            match events.next(system) {
                Err(_) => return Step::Wait(events.fd()),
                Ok(event) if event.ready.is_writable() => {
                    if begun {
                        self.progress.begin();
                        self.work(TcpStream::of(&event), system);
                    } else {
                        // Another connection may be opened.
                        self.opening -= 1;
                        return Step::Again;
                    }
                }
                Ok(event) => assert!(!event.ready.is_hang_up(), "a connection failed"),
            }
        }
        Step::Again
    }
}
