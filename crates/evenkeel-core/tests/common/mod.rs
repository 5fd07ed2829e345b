//! A host on a cable, driven in virtual time where every unit takes a microsecond, and frames made by hand.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

pub(crate) mod extended;
pub(crate) mod nic;
pub(crate) mod offloading;
pub(crate) mod packets;
pub(crate) mod programs;
pub(crate) mod refusing;
pub(crate) mod router;
pub(crate) mod two;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use evenkeel_core::cable::{End, Options, pair};
use evenkeel_core::frame::{Frame, Pool};
use evenkeel_core::host::{Config, Host, Level, System};
use evenkeel_core::interface::Interface;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::system::UdpSocket;
use evenkeel_core::tcp::{Flags, Header, Segment};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr,
    IpAddress, IpCidr, IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};
use evenkeel_core::work::Work;

pub(crate) const UNIT: Duration = Duration::from_micros(1);
pub(crate) const HOST: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
pub(crate) const PEER: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
pub(crate) const HOST_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);
pub(crate) const PEER_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 1]);

/// A host on one end of a cable, the test on the other.
pub(crate) struct Bench {
    pub(crate) host: Host,
    pub(crate) wire: End,
    /// The other end of a second interface, if there is one.
    pub(crate) wan: Option<End>,
    pub(crate) pool: Pool,
    pub(crate) now: Instant,
    /// Units run at each level.
    pub(crate) units: [u64; 5],
    /// Work done, summed over units.
    pub(crate) work: Vec<(Work, u64)>,
}

impl Bench {
    pub(crate) fn new(config: Config) -> Self {
        Self::with_queues(config, 1)
    }

    pub(crate) fn with_queues(config: Config, queues: usize) -> Self {
        let demultiplexes = config.architecture == Architecture::NiLrp;
        let (mut wire, end) = pair(
            Options::new("wire", 1),
            Options { queues, demultiplexes, ring_pkts: 64, ..Options::new("host", 2) },
        );
        let mut host = Host::new(config).unwrap();
        let cidr = IpCidr::new(IpAddress::Ipv4(HOST), 24);
        host.add_interface(Box::new(end), &[cidr], Instant::ZERO).unwrap();
        let mut pool = Pool::with_limit(1024);
        wire.attach(&mut pool).unwrap();
        let work = Work::ALL.iter().map(|&w| (w, 0)).collect();
        Self { host, wire, wan: None, pool, now: Instant::ZERO, units: [0; 5], work }
    }

    /// Sends frames to the host, and rings its bell.
    pub(crate) fn send(&mut self, frames: &[Vec<u8>]) -> usize {
        let taken = frames.iter().filter(|f| self.wire.send(f)).count();
        self.wire.flush();
        taken
    }

    /// Runs one unit; false if there is nothing to do.
    pub(crate) fn unit(&mut self) -> bool {
        let Some(ran) = self.host.turn(self.now) else { return false };
        self.units[ran.level as usize] += 1;
        for (work, count) in self.host.work().iter() {
            self.work[work as usize].1 += u64::from(count);
        }
        let elapsed = UNIT + self.host.work().compute;
        self.now += elapsed;
        self.host.charge(&ran, elapsed);
        self.host.finish(&ran, self.now);
        true
    }

    /// Runs until the host would halt.
    pub(crate) fn settle(&mut self) {
        for _ in 0..1_000_000 {
            if !self.unit() && self.host.halt(self.now) {
                self.host.check().unwrap();
                return;
            }
        }
        panic!("the host never comes to rest");
    }

    /// Runs a while: for hosts with programs, or clocks, that never rest.
    pub(crate) fn settle_some(&mut self) {
        self.run(UNIT * 1_000);
    }

    /// Runs for some time; when the host has nothing to do, time jumps to its next deadline.
    pub(crate) fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            if !self.unit() && self.host.halt(self.now) {
                self.now = self.host.next_deadline().max(self.now).min(until);
            }
        }
        self.host.check().unwrap();
    }

    /// Returns the frames that the host has sent.
    pub(crate) fn sent(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some(frame) = self.take() {
            frames.push(frame.bytes().to_vec());
            self.pool.recycle(frame);
        }
        frames
    }

    pub(crate) fn take(&mut self) -> Option<Frame> {
        self.wire.queue_mut(0).take(&mut self.pool)
    }

    pub(crate) fn done(&self, work: Work) -> u64 {
        self.work[work as usize].1
    }

    pub(crate) fn at(&self, level: Level) -> u64 {
        self.units[level as usize]
    }
}

/// A record of the datagrams that a program of these tests has received.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) payloads: Mutex<Vec<Vec<u8>>>,
    pub(crate) count: AtomicU64,
}

impl Seen {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// Receives datagrams at a port, computes for each, and records them.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) port: u16,
    pub(crate) bind_to: Option<IpAddress>,
    pub(crate) compute: Duration,
    /// Sleeps this long before each look at its socket.
    pub(crate) nap: Option<Duration>,
    pub(crate) seen: Arc<Seen>,
    socket: Option<UdpSocket>,
    rested: bool,
}

impl Sink {
    pub(crate) fn new(port: u16) -> (Self, Arc<Seen>) {
        let seen = Arc::new(Seen::default());
        let sink = Self {
            port,
            bind_to: None,
            compute: Duration::ZERO,
            nap: None,
            seen: Arc::clone(&seen),
            socket: None,
            rested: false,
        };
        (sink, seen)
    }
}

impl Program for Sink {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(socket) = self.socket else {
            let socket = UdpSocket::bind(system, self.bind_to, self.port).unwrap();
            self.socket = Some(socket);
            return Step::Again;
        };
        if let (Some(nap), false) = (self.nap, self.rested) {
            self.rested = true;
            return Step::Sleep(system.now() + nap);
        }
        self.rested = false;
        let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        self.seen.payloads.lock().unwrap().push(datagram.chunks().flatten().copied().collect());
        self.seen.count.fetch_add(1, Ordering::Relaxed);
        system.recycle(datagram);
        system.compute(self.compute);
        Step::Again
    }
}

/// Computes and does nothing else.
#[derive(Debug)]
pub(crate) struct Spinner;

impl Program for Spinner {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        system.compute(Duration::from_micros(10));
        Step::Again
    }
}

/// Returns an Ethernet frame with a UDP datagram over IPv4, with right checksums.
pub(crate) fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    udp_to(HOST_MAC, HOST, port, payload)
}

pub(crate) fn udp_to(mac: EthernetAddress, to: Ipv4Address, port: u16, payload: &[u8]) -> Vec<u8> {
    udp_between(PEER, mac, to, port, payload)
}

pub(crate) fn udp_between(
    from: Ipv4Address,
    mac: EthernetAddress,
    to: Ipv4Address,
    port: u16,
    payload: &[u8],
) -> Vec<u8> {
    let segment = datagram(from, to, port, payload);
    let ip = Ipv4Repr {
        src_addr: from,
        dst_addr: to,
        next_header: IpProtocol::Udp,
        payload_len: segment.len(),
        hop_limit: 64,
    };
    let mut frame = vec![0; 14 + 20 + segment.len()];
    ethernet(&mut frame, mac, EthernetProtocol::Ipv4);
    let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
    ip.emit(&mut packet, &Default::default());
    packet.payload_mut().copy_from_slice(&segment);
    frame
}

/// Returns a SYN from `from` to `port`.
pub(crate) fn syn(from: u16, port: u16) -> Vec<u8> {
    syn_from(PEER, from, port)
}

/// Returns a SYN from `from` of any address to `port`.
pub(crate) fn syn_from(address: Ipv4Address, from: u16, port: u16) -> Vec<u8> {
    tcp_from(address, Header { source: from, destination: port, flags: Flags::SYN, ..Header::default() }, b"")
}

/// Returns a segment from the peer to the host.
pub(crate) fn tcp(header: Header, payload: &[u8]) -> Vec<u8> {
    tcp_from(PEER, header, payload)
}

fn tcp_from(from: Ipv4Address, header: Header, payload: &[u8]) -> Vec<u8> {
    let segment = Segment { header, payload: [payload, b""] };
    let mut bytes = vec![0; segment.len()];
    segment.emit(&mut bytes, from, HOST).unwrap();
    let ip = Ipv4Repr {
        src_addr: from,
        dst_addr: HOST,
        next_header: IpProtocol::Tcp,
        payload_len: bytes.len(),
        hop_limit: 64,
    };
    let mut frame = vec![0; 14 + 20 + bytes.len()];
    ethernet(&mut frame, HOST_MAC, EthernetProtocol::Ipv4);
    let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
    ip.emit(&mut packet, &Default::default());
    packet.payload_mut().copy_from_slice(&bytes);
    frame
}

/// Returns the fragments of a UDP datagram from the peer, of `piece` bytes of IP payload each, a multiple of
/// eight.
pub(crate) fn udp_fragments(port: u16, payload: &[u8], piece: usize, id: u16) -> Vec<Vec<u8>> {
    let segment = datagram(PEER, HOST, port, payload);
    let pieces: Vec<_> = segment.chunks(piece).collect();
    let last = pieces.len() - 1;
    let fragment = |(i, bytes): (usize, &&[u8])| {
        let mut frame = vec![0; 34 + bytes.len()];
        ethernet(&mut frame, HOST_MAC, EthernetProtocol::Ipv4);
        let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
        let ip = Ipv4Repr {
            src_addr: PEER,
            dst_addr: HOST,
            next_header: IpProtocol::Udp,
            payload_len: bytes.len(),
            hop_limit: 64,
        };
        ip.emit(&mut packet, &Default::default());
        packet.set_dont_frag(false);
        packet.set_ident(id);
        packet.set_more_frags(i != last);
        packet.set_frag_offset((i * piece) as u16);
        packet.fill_checksum();
        packet.payload_mut().copy_from_slice(bytes);
        frame
    };
    pieces.iter().enumerate().map(fragment).collect()
}

fn datagram(from: Ipv4Address, to: Ipv4Address, port: u16, payload: &[u8]) -> Vec<u8> {
    let udp = UdpRepr { src_port: 4321, dst_port: port };
    let mut segment = vec![0; 8 + payload.len()];
    let mut packet = UdpPacket::new_unchecked(&mut segment);
    let fill = |bytes: &mut [u8]| bytes.copy_from_slice(payload);
    udp.emit(&mut packet, &from.into(), &to.into(), payload.len(), fill, &Default::default());
    segment
}

fn ethernet(frame: &mut [u8], to: EthernetAddress, ethertype: EthernetProtocol) {
    let repr = EthernetRepr { src_addr: PEER_MAC, dst_addr: to, ethertype };
    repr.emit(&mut EthernetFrame::new_unchecked(frame));
}

/// Returns an ARP request in which the peer asks for the host's address.
pub(crate) fn arp_request() -> Vec<u8> {
    let mut frame = vec![0; 14 + 28];
    ethernet(&mut frame, EthernetAddress::BROADCAST, EthernetProtocol::Arp);
    let request = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: PEER_MAC,
        source_protocol_addr: PEER,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: HOST,
    };
    request.emit(&mut ArpPacket::new_unchecked(&mut frame[14..]));
    frame
}
