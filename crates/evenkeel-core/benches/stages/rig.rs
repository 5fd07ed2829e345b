//! A host on a cable, with a program that sinks or sends datagrams.

use std::hint::black_box;

use evenkeel_core::cable::{End, Options, pair};
use evenkeel_core::capture::Capture;
use evenkeel_core::frame::Pool;
use evenkeel_core::host::{Config, Host, Level, System};
use evenkeel_core::interface::Interface;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::Datagrams;
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::system::{CaptureSocket, TcpListener, UdpSocket};
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr, IpEndpoint};

use crate::batch::PAYLOAD;
use crate::common::{HOST, PEER, arp_request};

/// The time that a work item takes on the host's clock.
const UNIT: Duration = Duration::from_nanos(100);
/// The time that a sender sleeps before it begins.
pub(crate) const NAP: Duration = Duration::from_millis(1);

/// A host, the other end of its cable, and its clock.
pub(crate) struct Rig {
    host: Host,
    wire: End,
    pool: Pool,
    now: Instant,
}

impl Rig {
    pub(crate) fn new(config: Config, program: Box<dyn Program>) -> Self {
        let demultiplexes = config.architecture == Architecture::NiLrp;
        let (mut wire, end) =
            pair(Options::new("wire", 1), Options { demultiplexes, ..Options::new("host", 2) });
        let mut host = Host::new(config).unwrap();
        host.add_interface(Box::new(end), &[IpCidr::new(HOST.into(), 24)], Instant::ZERO).unwrap();
        let mut pool = Pool::with_limit(1024);
        wire.attach(&mut pool).unwrap();
        host.spawn("program", 0, program);
        let mut rig = Self { host, wire, pool, now: Instant::ZERO };
        rig.run_to_rest();
        // The host learns who we are.
        rig.send(&[arp_request()]);
        rig.run_to_rest();
        rig.discard_sent();
        rig
    }

    /// Adds a gateway: all destinations off the link are behind the other end.
    pub(crate) fn add_gateway(&mut self) {
        let all = IpCidr::new(IpAddress::v4(0, 0, 0, 0), 0);
        self.host.add_route(all, PEER.into(), InterfaceId(0)).unwrap();
    }

    /// Puts frames on the wire, as many as the host's adaptor takes.
    pub(crate) fn send(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            let _ = self.wire.send(frame);
        }
        self.wire.flush();
    }

    /// Takes what the host has sent off the wire.
    pub(crate) fn discard_sent(&mut self) {
        while let Some(frame) = self.wire.queue_mut(0).take(&mut self.pool) {
            self.pool.recycle(frame);
        }
    }

    fn unit(&mut self) -> bool {
        let Some(ran) = self.host.turn(self.now) else { return false };
        self.now += UNIT;
        self.host.charge(&ran, UNIT);
        self.host.finish(&ran, self.now);
        true
    }

    /// Runs units until the host would halt.
    pub(crate) fn run_to_rest(&mut self) {
        while self.unit() || !self.host.halt(self.now) {}
    }

    /// Runs what comes before the programs: interrupts, software interrupts, the polling thread.
    pub(crate) fn run_above_processes(&mut self) {
        while self.host.peek(self.now).is_some_and(|next| next.level < Level::Process) {
            self.unit();
        }
    }

    /// Returns the number of received frames that the host has dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.host.ledger().drops().map(|(_, input, _)| input).sum()
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    pub(crate) fn run_units(&mut self, units: usize) {
        for _ in 0..units {
            self.unit();
        }
    }
}

/// Receives datagrams at a port, and gives them back.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) port: u16,
    pub(crate) socket: Option<UdpSocket>,
}

impl Program for Sink {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(socket) = self.socket else {
            self.socket = UdpSocket::bind(system, None, self.port).ok();
            return Step::Again;
        };
        let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        system.recycle(datagram);
        Step::Again
    }
}

/// Receives datagrams at a port, many a call, and gives them back.
#[derive(Debug)]
pub(crate) struct BurstSink {
    pub(crate) port: u16,
    pub(crate) socket: Option<UdpSocket>,
    pub(crate) datagrams: Datagrams,
}

impl Program for BurstSink {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(socket) = self.socket else {
            self.socket = UdpSocket::bind(system, None, self.port).ok();
            return Step::Again;
        };
        if socket.receive_burst(system, &mut self.datagrams).is_err() {
            return Step::Wait(socket.fd());
        }
        for datagram in &*self.datagrams {
            black_box(datagram.as_slice());
        }
        Step::Again
    }
}

/// Opens a port and sleeps: its channel fills and stays full.
#[derive(Debug)]
pub(crate) struct Sleeper {
    pub(crate) port: u16,
}

impl Program for Sleeper {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        UdpSocket::bind(system, None, self.port).unwrap();
        Step::Sleep(Instant::NEVER)
    }
}

/// Listens, and accepts nothing.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) port: u16,
}

impl Program for Listening {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        TcpListener::listen(system, None, self.port, &ListenerConfig::default()).unwrap();
        Step::Sleep(Instant::NEVER)
    }
}

/// Sends a datagram in every step.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    pub(crate) socket: Option<UdpSocket>,
    /// Datagrams that it sends in a step.
    pub(crate) at_a_time: usize,
}

impl Program for Sender {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(socket) = self.socket else {
            self.socket = UdpSocket::bind(system, None, 0).ok();
            return Step::Sleep(system.now() + NAP);
        };
        let to = IpEndpoint::new(IpAddress::Ipv4(PEER), 4321);
        for _ in 0..self.at_a_time {
            socket.send(system, to, &[0; PAYLOAD]).unwrap();
        }
        Step::Again
    }
}

/// A program that looks at captured frames.
#[derive(Debug, Default)]
pub(crate) struct Monitor {
    queue: Option<CaptureSocket>,
}

impl Program for Monitor {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(queue) = self.queue else {
            self.queue = CaptureSocket::open(system, Capture { snaplen: 68, ..Capture::default() }).ok();
            return Step::Again;
        };
        while let Ok(captured) = queue.front(system) {
            black_box(captured.bytes);
            queue.pop(system);
        }
        Step::Wait(queue.fd())
    }
}
