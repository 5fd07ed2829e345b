//! Vectors, and the short way, change nothing but the cost.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use crate::cable::{End, Options, pair};
use crate::capture::Capture;
use crate::demux::{Class, LastClass};
use crate::drop::UdpDrop;
use crate::frame::Pool;
use crate::host::{Config, Host, System};
use crate::interface::Interface as _;
use crate::plain::Plain;
use crate::poll::Quota;
use crate::process::{Program, Step};
use crate::receive::Architecture;
use crate::socket::{Datagrams, Descriptor, SocketId};
use crate::stack::{self, Datagram, InterfaceId};
use crate::system::{CaptureSocket, UdpSocket, close};
use crate::tcp::Checksum;
use crate::time::{Duration, Instant};
use crate::wire::{EthernetAddress, IpAddress, IpCidr, IpEndpoint, Ipv4Address, Ipv6Address};

const HOST_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);
const LAN: InterfaceId = InterfaceId(0);
const UNIT: Duration = Duration::from_micros(1);

fn v4(n: u8) -> Ipv4Address {
    Ipv4Address::new(10, 0, 0, n)
}

fn v6(n: u16) -> Ipv6Address {
    Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, n)
}

// --- Frames ---

/// The contents of a frame, nearly always those of a plain one.
#[derive(Debug, Clone)]
struct Spec {
    is_v6: bool,
    hardware: EthernetAddress,
    source: usize,
    destination: usize,
    protocol: u8,
    port: u16,
    payload: Vec<u8>,
    /// The sum of UDP: right, none, or wrong.
    sum: u8,
    /// Flags and offset.
    field: u16,
    /// Bytes of IPv4 options.
    options: usize,
    /// The error of the UDP length field, in bytes.
    off_by: i8,
    /// Behind the packet.
    padding: usize,
    /// Bits that are turned round, by the place of each.
    damage: Vec<u16>,
}

/// One that a group is received at, one of an address only, one of any, and one of nobody.
const PORTS: [u16; 4] = [9, 10, 11, 77];
/// The port that all frames are from.
const SENDERS: u16 = 4_321;

fn spec() -> impl Strategy<Value = Spec> {
    let hardware = prop_oneof![
        12 => Just(HOST_MAC),
        1 => Just(EthernetAddress::BROADCAST),
        1 => Just(EthernetAddress([0x01, 0, 0x5e, 0, 0, 9])),
        1 => Just(EthernetAddress([2, 0, 0, 0, 0, 7])),
    ];
    let addresses =
        (prop_oneof![8 => Just(0_usize), 1 => 1..8_usize], prop_oneof![8 => Just(0_usize), 1 => 1..8_usize]);
    let protocol = prop_oneof![8 => Just(17_u8), 2 => Just(6_u8), 1 => any::<u8>()];
    let port =
        prop_oneof![3 => Just(PORTS[0]), 3 => Just(PORTS[1]), 3 => Just(PORTS[2]), 1 => Just(PORTS[3])];
    let sum = prop_oneof![8 => Just(0_u8), 1 => Just(1_u8), 1 => Just(2_u8)];
    let field = prop_oneof![8 => Just(0_u16), 2 => Just(0x4000), 1 => Just(0x8000), 1 => any::<u16>()];
    let options = prop_oneof![10 => Just(0_usize), 1 => Just(4_usize)];
    let off_by = prop_oneof![10 => Just(0_i8), 1 => any::<i8>()];
    let padding = prop_oneof![5 => Just(0_usize), 1 => 0..40_usize];
    let damage = prop_oneof![
        5 => Just(Vec::new()),
        2 => proptest::collection::vec(0..600_u16, 1..3),
    ];
    let payload = proptest::collection::vec(any::<u8>(), 0..60);
    (
        (any::<bool>(), hardware, addresses, protocol, port),
        (payload, sum, field, options, off_by, padding, damage),
    )
        .prop_map(|((is_v6, hardware, (source, destination), protocol, port), rest)| {
            let (payload, sum, field, options, off_by, padding, damage) = rest;
            Spec {
                is_v6,
                hardware,
                source,
                destination,
                protocol,
                port,
                payload,
                sum,
                field,
                options,
                off_by,
                padding,
                damage,
            }
        })
}

impl Spec {
    fn ends(&self) -> [IpAddress; 2] {
        if self.is_v6 {
            let sources =
                [v6(1), v6(2), Ipv6Address::UNSPECIFIED, Ipv6Address::LOCALHOST, v6(9), v6(3), v6(4), v6(5)];
            let group = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
            let ours = [v6(2), v6(3), group, v6(9), Ipv6Address::UNSPECIFIED, v6(1), v6(4), v6(2)];
            return [sources[self.source].into(), ours[self.destination].into()];
        }
        let odd = |a, b, c, d| Ipv4Address::new(a, b, c, d);
        let sources =
            [v4(1), v4(2), odd(0, 0, 0, 0), odd(127, 0, 0, 1), v4(255), odd(224, 0, 0, 9), v4(3), v4(4)];
        let ours = [v4(2), v4(3), odd(224, 0, 0, 9), v4(255), odd(255, 255, 255, 255), v4(9), v4(0), v4(2)];
        [sources[self.source].into(), ours[self.destination].into()]
    }

    fn frame(&self) -> Vec<u8> {
        let [source, destination] = self.ends();
        let transport = self.transport(&source, &destination);
        let mut frame = [&self.hardware.0[..], &[2, 0, 0, 0, 0, 1]].concat();
        if self.is_v6 {
            frame.extend([0x86, 0xdd, 0x60, 0x10, 0, 0]);
            frame.extend((transport.len() as u16).to_be_bytes());
            frame.extend([self.protocol, 64]);
        } else {
            let header = 20 + self.options;
            let mut ip = vec![0x40 | (header / 4) as u8, 0];
            ip.extend(((header + transport.len()) as u16).to_be_bytes());
            ip.extend([0, 7]);
            ip.extend(self.field.to_be_bytes());
            ip.extend([64, self.protocol, 0, 0]);
            for end in [&source, &destination] {
                if let IpAddress::Ipv4(address) = end {
                    ip.extend(address.octets());
                }
            }
            ip.resize(header, 1);
            let sum = Checksum::default().add(&ip).finish();
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend([8, 0]);
            frame.extend(ip);
        }
        if self.is_v6 {
            for end in [&source, &destination] {
                if let IpAddress::Ipv6(address) = end {
                    frame.extend(address.octets());
                }
            }
        }
        frame.extend(transport);
        frame.extend(vec![0xee; self.padding]);
        for &bit in &self.damage {
            let at = usize::from(bit / 8) % frame.len();
            frame[at] ^= 1 << (bit % 8);
        }
        frame
    }

    fn transport(&self, source: &IpAddress, destination: &IpAddress) -> Vec<u8> {
        let mut bytes = [SENDERS, self.port].map(u16::to_be_bytes).concat();
        if self.protocol == 6 {
            bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0x40, 0, 0, 0, 0, 0]);
            let pseudo = Checksum::pseudo(*source, *destination, 6, bytes.len());
            let sum = pseudo.add(&bytes).finish();
            bytes[16..18].copy_from_slice(&sum.to_be_bytes());
            return bytes;
        }
        let len = (8 + self.payload.len()) as u16;
        bytes.extend(len.wrapping_add_signed(self.off_by.into()).to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(&self.payload);
        if self.sum != 1 {
            let pseudo = Checksum::pseudo(*source, *destination, 17, bytes.len());
            let sum = pseudo.add(&bytes).finish();
            bytes[6..8].copy_from_slice(&sum.wrapping_add(u16::from(self.sum == 2)).to_be_bytes());
        }
        bytes
    }
}

// --- Hosts ---

/// A datagram that a program received: the port, the source, the destination and the payload.
type Heard = (u16, IpEndpoint, IpEndpoint, Vec<u8>);

/// Receives at a port, one datagram a call or many.
#[derive(Debug)]
struct Recorder {
    address: Option<IpAddress>,
    port: u16,
    group: Option<IpAddress>,
    datagrams: Option<Datagrams>,
    socket: Option<UdpSocket>,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Recorder {
    fn note(&self, datagram: &Datagram) {
        let payload = datagram.chunks().flatten().copied().collect();
        let heard = (self.port, datagram.source(), datagram.destination(), payload);
        self.heard.lock().unwrap().push(heard);
    }
}

impl Program for Recorder {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(socket) = self.socket else {
            let socket = UdpSocket::bind(system, self.address, self.port).unwrap();
            self.group.into_iter().for_each(|group| socket.join(system, group).unwrap());
            self.socket = Some(socket);
            return Step::Again;
        };
        let Some(mut datagrams) = self.datagrams.take() else {
            let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
            self.note(&datagram);
            system.recycle(datagram);
            return Step::Again;
        };
        let received = socket.receive_burst(system, &mut datagrams);
        datagrams.iter().for_each(|datagram| self.note(datagram));
        self.datagrams = Some(datagrams);
        if received.is_ok() { Step::Again } else { Step::Wait(socket.fd()) }
    }
}

/// Captures all that comes.
#[derive(Debug, Default)]
struct Watcher {
    queue: Option<CaptureSocket>,
    captured: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Program for Watcher {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(queue) = self.queue else {
            let wanted = Capture { limit_pkts: 512, feedback: false, ..Capture::default() };
            self.queue = Some(CaptureSocket::open(system, wanted).unwrap());
            return Step::Again;
        };
        let Ok(captured) = queue.front(system) else { return Step::Wait(queue.fd()) };
        self.captured.lock().unwrap().push(captured.bytes.to_vec());
        queue.pop(system);
        Step::Again
    }
}

/// The configuration of a host's receive path.
#[derive(Debug, Clone, Copy)]
struct How {
    architecture: Architecture,
    /// Frames and datagrams at a time.
    vector: usize,
    /// Every frame takes the long way up.
    long_way: bool,
    /// A packet monitor captures what comes.
    watched: bool,
    role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Host,
    /// A router that is a host, too.
    Router,
    /// One that has another's addresses.
    RouterOnly,
}

impl How {
    fn of(architecture: Architecture, vector: usize) -> Self {
        Self { architecture, vector, long_way: false, watched: false, role: Role::Host }
    }
}

/// All that can be seen of it.
#[derive(Debug, PartialEq)]
struct Outcome {
    heard: Vec<Heard>,
    captured: Vec<Vec<u8>>,
    /// Received, duplicated, delivered, consumed, forwarded, originated.
    counts: [u64; 6],
    drops: Vec<(String, u64, u64)>,
    sent: Vec<Vec<u8>>,
    /// Buffers that are free in the end.
    free: usize,
}

struct World {
    host: Host,
    wire: End,
    pool: Pool,
    now: Instant,
    heard: Arc<Mutex<Vec<Heard>>>,
    captured: Arc<Mutex<Vec<Vec<u8>>>>,
    sent: Vec<Vec<u8>>,
    /// The socket that nobody reads.
    unread: Option<SocketId>,
}

impl World {
    fn new(how: How, channel_pkts: usize) -> Self {
        let How { architecture, vector, long_way, watched, role } = how;
        let demultiplexes = architecture == Architecture::NiLrp;
        let (mut wire, end) = pair(
            Options { ring_pkts: 512, ..Options::new("wire", 1) },
            Options { demultiplexes, ring_pkts: 512, ..Options::new("host", 2) },
        );
        let quota = Quota::Fixed(vector);
        let config = Config { batch_pkts: vector, quota, channel_pkts, ..Config::of(architecture) };
        let stack = stack::Config {
            forwarding: role != Role::Host,
            forward_only: role == Role::RouterOnly,
            ..stack::Config::default()
        };
        let mut host = Host::new(Config { stack, ..config }).unwrap();
        host.net.stack.long_way_only = long_way;
        let addresses = [IpCidr::new(v4(2).into(), 24), IpCidr::new(v6(2).into(), 64)];
        host.add_interface(Box::new(end), &addresses, Instant::ZERO).unwrap();
        let mut pool = Pool::with_limit(2_048);
        wire.attach(&mut pool).unwrap();
        let mut world = Self {
            host,
            wire,
            pool,
            now: Instant::ZERO,
            heard: Arc::default(),
            captured: Arc::default(),
            sent: Vec::new(),
            unread: None,
        };
        if watched {
            let watcher = Watcher { queue: None, captured: Arc::clone(&world.captured) };
            world.host.spawn("watcher", 0, Box::new(watcher));
        }
        world.spawn(None, PORTS[0], Some(Ipv4Address::new(224, 0, 0, 9).into()), vector);
        world.spawn(Some(v4(2).into()), PORTS[1], None, vector);
        world.spawn(None, PORTS[2], None, vector);
        world.settle();
        world
    }

    fn spawn(&mut self, address: Option<IpAddress>, port: u16, group: Option<IpAddress>, vector: usize) {
        let datagrams = (vector > 1).then(|| Datagrams::new(vector));
        let heard = Arc::clone(&self.heard);
        let recorder = Recorder { address, port, group, datagrams, socket: None, heard };
        self.host.spawn("recorder", 0, Box::new(recorder));
    }

    fn send(&mut self, frames: &[Vec<u8>]) {
        frames.iter().for_each(|frame| _ = self.wire.send(frame));
        self.wire.flush();
    }

    /// Does one piece of work if there is any.
    fn unit(&mut self) -> bool {
        let Some(ran) = self.host.turn(self.now) else { return false };
        self.now += UNIT;
        self.host.charge(&ran, UNIT);
        self.host.finish(&ran, self.now);
        true
    }

    fn settle(&mut self) {
        while self.unit() || !self.host.halt(self.now) {}
        self.host.check().unwrap();
        while let Some(frame) = self.wire.queue_mut(0).take(&mut self.pool) {
            self.sent.push(frame.bytes().to_vec());
            self.pool.recycle(frame);
        }
    }

    fn outcome(self) -> Outcome {
        let ledger = self.host.ledger();
        let counts = [
            ledger.received,
            ledger.duplicated,
            ledger.delivered,
            ledger.consumed,
            ledger.forwarded,
            ledger.originated,
        ];
        let drops = ledger.drops().map(|(reason, input, output)| (format!("{reason:?}"), input, output));
        let heard = core::mem::take(&mut *self.heard.lock().unwrap());
        let captured = core::mem::take(&mut *self.captured.lock().unwrap());
        Outcome { heard, captured, counts, drops: drops.collect(), sent: self.sent, free: self.host.pool().0 }
    }
}

/// An event that happens to a host.
#[derive(Debug, Clone)]
enum Event {
    Frames(Vec<Spec>),
    /// It gets or loses its second address.
    Address(bool),
    /// A socket that nobody reads is opened for one address only, at a port that no other has; or closed.
    Socket(bool),
    /// The socket of any address is connected to the sender of the frames, or to somebody else.
    Connect(bool),
    /// Frames come, and after so many units of work the rest happens to those that wait.
    Meanwhile(Vec<Spec>, u8, Box<Self>),
}

fn event() -> impl Strategy<Value = Event> {
    let frames = || proptest::collection::vec(spec(), 1..12);
    let change = prop_oneof![
        any::<bool>().prop_map(Event::Address),
        any::<bool>().prop_map(Event::Socket),
        any::<bool>().prop_map(Event::Connect),
    ];
    let meanwhile = (frames(), 0..5_u8, change.clone())
        .prop_map(|(frames, units, change)| Event::Meanwhile(frames, units, Box::new(change)));
    prop_oneof![6 => frames().prop_map(Event::Frames), 1 => change, 2 => meanwhile]
}

impl World {
    fn happens(&mut self, event: &Event) {
        match event {
            Event::Frames(specs) => self.send(&specs.iter().map(Spec::frame).collect::<Vec<_>>()),
            Event::Address(true) => self.host.add_address(LAN, IpCidr::new(v4(3).into(), 24), self.now),
            Event::Address(false) => {
                self.host.remove_address(LAN, IpCidr::new(v4(3).into(), 24));
            }
            Event::Socket(true) => {
                let address = Some(v4(2).into());
                let opened = UdpSocket::open(&mut self.host.net, None, address, PORTS[3], self.now);
                self.unread = self.unread.or(opened.ok());
            }
            Event::Socket(false) => {
                if let Some(socket) = self.unread.take() {
                    close(&mut self.host.net, socket, self.now);
                }
            }
            Event::Connect(to_sender) => {
                let peer = IpEndpoint::new(v4(if *to_sender { 1 } else { 9 }).into(), SENDERS);
                let sockets = self.host.net.sockets.descriptors.iter();
                let of_port = |descriptor: &Descriptor| match descriptor {
                    Descriptor::Udp(socket) => socket.port == PORTS[2],
                    _ => false,
                };
                let (id, _) = sockets.into_iter().find(|(_, descriptor)| of_port(descriptor)).unwrap();
                UdpSocket::connect_to(&mut self.host.net, id, peer).unwrap();
            }
            Event::Meanwhile(specs, units, change) => {
                self.happens(&Event::Frames(specs.clone()));
                (0..*units).for_each(|_| _ = self.unit());
                self.happens(change);
            }
        }
    }
}

/// Returns whether the outcome of an event depends on the number of frames in a work item.
fn is_timed(event: &Event) -> bool {
    matches!(event, Event::Meanwhile(..))
}

fn play(how: How, events: &[Event]) -> Outcome {
    let mut world = World::new(how, 128);
    for event in events {
        world.happens(event);
        world.settle();
    }
    world.outcome()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every frame has the same end on both ways: the same datagram for the same program, the same answer,
    /// the same reason if it is dropped.
    #[test]
    fn the_short_way_ends_where_the_long_one_does(
        events in proptest::collection::vec(event(), 1..8),
        role in prop_oneof![Just(Role::Host), Just(Role::Router), Just(Role::RouterOnly)],
    ) {
        for architecture in Architecture::ALL {
            let how = |long_way| How { long_way, role, ..How::of(architecture, 16) };
            prop_assert_eq!(play(how(false), &events), play(how(true), &events), "{}", architecture);
        }
    }

    /// If nothing preempts, the number of frames handled at a time does not change the outcome.
    #[test]
    fn vectors_of_any_length_deliver_and_drop_the_same(
        mut events in proptest::collection::vec(event(), 1..8),
        vector in 2..=64_usize,
        watched in any::<bool>(),
    ) {
        events.retain(|event| !is_timed(event));
        for architecture in Architecture::ALL {
            let how = |vector| How { watched, ..How::of(architecture, vector) };
            let (mut one, mut many) = (play(how(1), &events), play(how(vector), &events));
            // How many buffers a ring has been given back is its own business, and which of two programs has
            // its turn first the scheduler's.
            (one.free, many.free) = (0, 0);
            for outcome in [&mut one, &mut many] {
                outcome.heard.sort_by_key(|heard| heard.0);
                // Each channel of `ni-lrp` is a ring of its own, and which is served first the scheduler's.
                outcome.captured.sort();
                // TCP answers at the end of a unit, ICMP in the middle.
                outcome.sent.sort();
            }
            prop_assert_eq!(one, many, "{}", architecture);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 999, failure_persistence: None, ..ProptestConfig::default() })]

    /// The demultiplexer of plain datagrams agrees with that of all frames, whatever is bound. So does the
    /// comparison of a frame with the last one.
    #[test]
    fn a_plain_datagram_leads_where_any_frame_would(
        changes in proptest::collection::vec((any::<bool>(), any::<bool>()), 0..4),
        frames in proptest::collection::vec(spec(), 1..6),
    ) {
        let mut world = World::new(How::of(Architecture::SoftLrp, 16), 128);
        for (is_socket, how) in changes {
            world.happens(&if is_socket { Event::Socket(how) } else { Event::Connect(how) });
        }
        let table = &world.host.net.rx.table;
        let mut last: Option<LastClass> = None;
        for frame in frames.iter().map(Spec::frame) {
            let class = table.classify(&frame);
            let plain = Plain::of(&frame);
            let id = plain.and_then(|plain| table.classify_plain(&frame, plain));
            let same = last.filter(|last| last.next(&frame).is_some()).map(|last| last.channel());
            for id in id.into_iter().chain(same) {
                prop_assert!(matches!(class, Class::Channel(channel) if channel == id), "{:?}", class);
            }
            last = match (plain, class) {
                (Some(plain), Class::Channel(id)) => table.last_class(&frame, plain, id),
                _ => None,
            };
            if let Some((tuple, flags)) = plain.and_then(|plain| table.plain_segment(&frame, plain)) {
                let opens = flags.opens();
                let channel = table.segments_for_nobody(&tuple, opens);
                prop_assert_eq!(class, Class::Segment { tuple, opens, channel });
            }
        }
    }
}

fn flood(port: u16, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| Spec { payload: n.to_be_bytes().to_vec(), ..plain(port) }.frame()).collect()
}

/// More than a channel holds, at once: feedback stops a vector at the very frame that reaches the mark, so
/// that whatever the vectors are, none is lost and they come in order.
#[test]
fn a_vector_ends_at_the_frame_that_closes_a_gate() {
    for vector in [1, 2, 7, 16, 64] {
        let how = How::of(Architecture::SoftLrp, vector);
        let mut world = World::new(how, 32);
        world.send(&flood(PORTS[0], 400));
        world.settle();
        let outcome = world.outcome();
        let numbers: Vec<_> = outcome.heard.iter().map(|heard| heard.3.clone()).collect();
        let sent: Vec<_> = (0..400_usize).map(|n| n.to_be_bytes().to_vec()).collect();
        assert!(numbers == sent && outcome.drops.is_empty(), "{vector}: {:?}", outcome.drops);
    }
}

/// Frames that the short way takes do take it: else these tests compare the long way with itself.
#[test]
fn plain_datagrams_take_the_short_way() {
    for architecture in [Architecture::SoftLrp, Architecture::NiLrp] {
        // Port 0 has a group, so its socket two channels: under `ni-lrp` it takes frame by frame.
        let port = PORTS[1];
        let mut world = World::new(How::of(architecture, 16), 128);
        let before = world.host.net.stack.long_ways.get();
        world.send(&flood(port, 50));
        world.settle();
        assert_eq!(world.host.net.stack.long_ways.get(), before, "{architecture}");
        let wrong = Spec { options: 4, ..plain(port) };
        world.send(&[wrong.frame()]);
        world.settle();
        assert_eq!(world.host.net.stack.long_ways.get(), before + 1, "{architecture}");
        assert_eq!(world.outcome().heard.len(), 51, "{architecture}");
    }
}

/// A capture under `ni-lrp` has all frames of a vector, in order, once.
#[test]
fn a_monitor_sees_each_frame_of_a_vector_from_a_ring() {
    for vector in [1, 2, 7, 16, 64] {
        let mut world = World::new(How { watched: true, ..How::of(Architecture::NiLrp, vector) }, 128);
        let mut frames = flood(PORTS[2], 20);
        // One that takes the long way stands in the middle.
        frames.insert(10, Spec { options: 4, ..plain(PORTS[2]) }.frame());
        world.send(&frames);
        world.settle();
        let outcome = world.outcome();
        let payloads: Vec<_> = outcome.heard.iter().map(|heard| heard.3.clone()).collect();
        let mut expected: Vec<_> = (0..20_usize).map(|n| n.to_be_bytes().to_vec()).collect();
        expected.insert(10, vec![7]);
        assert_eq!(outcome.captured, frames, "{vector}");
        assert_eq!(payloads, expected, "{vector}");
        // Received, duplicated for the monitor, delivered to both.
        assert_eq!(outcome.counts[..3], [21, 21, 42], "{vector}");
    }
}

/// An adaptor has demultiplexed by its own table, before the socket was connected to another peer: what waits
/// in the socket's ring is nobody's, as the host's table says.
#[test]
fn a_frame_that_an_older_table_put_into_a_ring_goes_by_the_hosts() {
    let mut world = World::new(How::of(Architecture::NiLrp, 16), 128);
    world.send(&flood(PORTS[2], 5));
    world.happens(&Event::Connect(false));
    world.settle();
    let drops: Vec<_> = world.host.ledger().drops().map(|(reason, input, _)| (reason, input)).collect();
    assert_eq!(drops, [(UdpDrop::NoSocket.into(), 5)]);
    assert_eq!(world.heard.lock().unwrap().len(), 0);
    // Those of the peer do arrive.
    world.send(&flood(PORTS[2], 5));
    world.happens(&Event::Connect(true));
    world.settle();
    assert_eq!(world.heard.lock().unwrap().len(), 5);
}

#[test]
fn plain_packets_in_transit_take_the_short_way() {
    for role in [Role::Router, Role::RouterOnly] {
        let mut world = World::new(How { role, ..How::of(Architecture::SoftLrp, 16) }, 128);
        let before = world.host.net.stack.long_ways.get();
        // To address 9, which nobody has: they wait for it.
        let away = Spec { destination: 5, ..plain(PORTS[0]) };
        world.send(&[away.frame(), away.frame()]);
        world.settle();
        assert_eq!(world.host.net.stack.long_ways.get(), before, "{role:?}");
        assert_eq!(world.host.ledger().forwarded, 2, "{role:?}");
    }
}

/// Returns a plain datagram to `port`.
fn plain(port: u16) -> Spec {
    Spec {
        is_v6: false,
        hardware: HOST_MAC,
        source: 0,
        destination: 0,
        protocol: 17,
        port,
        payload: vec![7],
        sum: 0,
        field: 0,
        options: 0,
        off_by: 0,
        padding: 0,
        damage: Vec::new(),
    }
}
