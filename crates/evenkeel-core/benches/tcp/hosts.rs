//! Many short conversations between the programs of two hosts on a cable: the same as
//! [`calls`](crate::calls), and all that a host does for it.

use core::fmt;

use evenkeel_core::cable::{Options, pair};
use evenkeel_core::host::{Config, Host, System};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::{ConnectOptions, Event, StreamError};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::{EventQueue, TcpListener, TcpStream};
use evenkeel_core::tcp::{EndpointConfig, ListenerConfig, TimeWaitConfig};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr};

use crate::meter::{Meter, Scenario};

/// Conversations at a time.
const TOGETHER: usize = 32;
/// Connections in TIME-WAIT, once there are as many: each new one ends the wait of the oldest.
const WAITING: usize = 1 << 14;
const SERVER: IpAddress = IpAddress::v4(10, 0, 0, 1);
const CLIENT: IpAddress = IpAddress::v4(10, 0, 0, 2);
const PORT: u16 = 80;

/// The conversation that is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversation {
    /// A request and its response, on connections that are there.
    Request,
    /// A request and its response, on a connection made for it, which the client closes first.
    Connection,
}

/// A client, a server, and the time.
pub(crate) struct Hosts {
    client: Host,
    server: Host,
    now: Instant,
    conversation: Conversation,
}

impl Hosts {
    pub(crate) fn new(architecture: Architecture, conversation: Conversation) -> Self {
        let end = |name, number| Options {
            demultiplexes: architecture == Architecture::NiLrp,
            ..Options::new(name, number)
        };
        let (near, far) = pair(end("client", 1), end("server", 2));
        let host = |end, address, program: Box<dyn Program>| {
            let time_wait = TimeWaitConfig { connections: WAITING, ..TimeWaitConfig::default() };
            let tcp = EndpointConfig { time_wait, ..EndpointConfig::default() };
            let mut host = Host::new(Config { tcp, ..Config::of(architecture) }).unwrap();
            host.add_interface(Box::new(end), &[IpCidr::new(address, 24)], Instant::ZERO).unwrap();
            host.spawn("program", 0, program);
            host
        };
        let mut hosts = Self {
            server: host(far, SERVER, Box::<Server>::default()),
            client: host(near, CLIENT, Box::new(Client::new(conversation))),
            now: Instant::ZERO,
            conversation,
        };
        // The server listens before the client's first SYN.
        run(&mut hosts.server, hosts.now);
        let mut meter = Meter::new();
        while conversation == Conversation::Connection && hosts.client.tcp().waiting() < WAITING {
            hosts.turn(&mut meter);
        }
        hosts
    }
}

impl Scenario for Hosts {
    fn ends(&self) -> [&'static str; 2] {
        ["client", "server"]
    }

    fn turn(&mut self, meter: &mut Meter) -> usize {
        let before = self.client.ledger().delivered;
        let rounds = if self.conversation == Conversation::Request { 1 } else { 4 };
        for _ in 0..rounds {
            meter.part(0, || run(&mut self.client, self.now));
            meter.part(1, || run(&mut self.server, self.now));
            self.now += Duration::from_micros(50);
        }
        (self.client.ledger().delivered - before) as usize
    }

    fn rate(&self, nanos: f64) -> String {
        format!("{:.0} k/s", 1e6 / nanos)
    }
}

/// Runs all work that the host has at the moment.
fn run(host: &mut Host, now: Instant) {
    while let Some(ran) = host.turn(now) {
        host.charge(&ran, Duration::from_nanos(100));
        host.finish(&ran, now);
    }
}

/// Answers what comes, and closes when the client has.
#[derive(Default)]
struct Server {
    listener: Option<TcpListener>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Server")
    }
}

impl Server {
    fn serve(stream: TcpStream, system: &mut System<'_>) {
        match stream.read(system, &mut [0; 16]) {
            Ok(len) if len > 0 => _ = stream.write(system, b"!"),
            Err(StreamError::WouldBlock) => {}
            Ok(_) | Err(_) => system.close(stream),
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
        let mut news = [Event::default(); 16];
        let heard = events.take(system, &mut news).unwrap();
        for event in &news[..heard] {
            let listener = TcpListener::of(event);
            if Some(listener) == self.listener {
                while listener.accept(system).is_ok() {}
            } else if event.ready.is_readable() {
                Self::serve(TcpStream::of(event), system);
            }
        }
        Step::Wait(events.fd())
    }
}

/// Has a number of conversations at a time.
struct Client {
    conversation: Conversation,
    opened: usize,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    const fn new(conversation: Conversation) -> Self {
        Self { conversation, opened: 0 }
    }

    fn connect(&mut self, system: &mut System<'_>) {
        let port = 1_024 + (self.opened % 60_000) as u16;
        self.opened += 1;
        let from = ConnectOptions { port, ..ConnectOptions::default() };
        TcpStream::connect_with(system, IpEndpoint::new(SERVER, PORT), &from).unwrap();
    }

    fn work(&mut self, stream: TcpStream, system: &mut System<'_>) {
        match stream.read(system, &mut [0; 16]) {
            Ok(1) if self.conversation == Conversation::Connection => {
                system.close(stream);
                self.connect(system);
            }
            Ok(1) | Err(StreamError::WouldBlock) => _ = stream.write(system, b"?"),
            other => panic!("{other:?}"),
        }
    }
}

impl Program for Client {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).unwrap();
        if self.opened == 0 {
            (0..TOGETHER).for_each(|_| self.connect(system));
        }
        let mut news = [Event::default(); 16];
        let heard = events.take(system, &mut news).unwrap();
        for event in &news[..heard] {
            if event.ready.is_writable() {
                self.work(TcpStream::of(event), system);
            }
        }
        Step::Wait(events.fd())
    }
}
