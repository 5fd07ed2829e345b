//! Interfaces that demultiplex and interfaces that do not on one host.
//!
//! ```text
//!                 +-------------- the host --------------+
//!   peer 1 -------+ 10.0.1.2: demultiplexes (`ni-lrp`)   |
//!   peer 2 -------+ 10.0.2.2: does not      (`soft-lrp`) |
//!                 +--------------------------------------+
//! ```
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::nic::{Event, Nic};
use common::{Sink, UNIT, udp_between};
use evenkeel_core::cable::{End, Options, pair};
use evenkeel_core::demux::{Binding, Change};
use evenkeel_core::host::{AddInterfaceError, Config, Host, System};
use evenkeel_core::interface::Interface;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::{Architecture, DeviceWork, ReceivePath};
use evenkeel_core::stack::{InterfaceId, IpEndpoint};
use evenkeel_core::system::{EventQueue, TcpListener, TcpStream, UdpSocket};
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::tcp::connection::StreamOption;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{EthernetAddress, IpCidr, Ipv4Address};
use evenkeel_core::work::Work;

const ECHO: u16 = 7;
const FLOODED: u16 = 9;
const LAZY: [Architecture; 2] = [Architecture::NiLrp, Architecture::SoftLrp];

/// One of the two links of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Demultiplexing,
    Plain,
}
use Kind::{Demultiplexing, Plain};

impl Kind {
    fn ours(self) -> Ipv4Address {
        Ipv4Address::new(10, 0, self as u8 + 1, 2)
    }

    fn peer(self) -> Ipv4Address {
        Ipv4Address::new(10, 0, self as u8 + 1, 1)
    }

    fn hardware(self) -> EthernetAddress {
        EthernetAddress([0x02, 0, 0, 0, 0, 20 + self as u8])
    }

    fn cable(self) -> (End, End) {
        let number = self as u8;
        let demultiplexes = self == Demultiplexing;
        let near = Options { ring_pkts: 64, demultiplexes, ..Options::new("near", 20 + number) };
        pair(Options { ring_pkts: 64, ..Options::new("far", 10 + number) }, near)
    }
}

fn cidr(address: Ipv4Address) -> [IpCidr; 1] {
    [IpCidr::new(address.into(), 24)]
}

fn config(architecture: Architecture) -> Config {
    Config { batch_pkts: 1, ..Config::of(architecture) }
}

/// Runs a host for some time at most, with work items of a microsecond. Returns how often it demultiplexed.
fn run(host: &mut Host, now: Instant, time: Duration) -> u64 {
    let (mut demultiplexed, mut elapsed) = (0, Duration::ZERO);
    while elapsed < time {
        let Some(ran) = host.turn(now + elapsed) else {
            if host.halt(now + elapsed) {
                break;
            }
            continue;
        };
        demultiplexed += u64::from(host.work().count(Work::Demultiplex));
        let unit = UNIT + host.work().compute;
        elapsed += unit;
        host.charge(&ran, unit);
        host.finish(&ran, now + elapsed);
    }
    demultiplexed
}

/// The host and its peers.
struct Net {
    host: Host,
    peers: Vec<Host>,
    now: Instant,
    demultiplexed: u64,
}

impl Net {
    fn new(architecture: Architecture) -> Self {
        let host = Host::new(config(architecture)).unwrap();
        Self { host, peers: Vec::new(), now: Instant::ZERO, demultiplexed: 0 }
    }

    /// A link with a host at its other end.
    fn connect(&mut self, kind: Kind) -> InterfaceId {
        let (far, near) = kind.cable();
        self.connect_ends(kind, far, Box::new(near))
    }

    fn connect_ends(&mut self, kind: Kind, far: End, near: Box<dyn Interface>) -> InterfaceId {
        let mut peer = Host::new(config(Architecture::Eager)).unwrap();
        peer.add_interface(Box::new(far), &cidr(kind.peer()), self.now).unwrap();
        self.peers.push(peer);
        self.host.add_interface(near, &cidr(kind.ours()), self.now).unwrap()
    }

    fn pass(&mut self, time: Duration) {
        /// Longer than most of what comes at a time takes.
        const ROUND: Duration = Duration::from_micros(200);
        let until = self.now + time;
        while self.now < until {
            self.demultiplexed += run(&mut self.host, self.now, ROUND);
            self.peers.iter_mut().for_each(|peer| _ = run(peer, self.now, ROUND));
            self.now += ROUND * 2;
        }
        self.host.check().unwrap();
        self.peers.iter().for_each(|peer| peer.check().unwrap());
    }
}

/// Sends back whatever comes to its port, by UDP and TCP.
#[derive(Debug, Default)]
struct Echo {
    sockets: Option<(UdpSocket, TcpListener)>,
    /// Bytes of each stream that were read and not written yet.
    held: Vec<(TcpStream, VecDeque<u8>)>,
}

impl Echo {
    fn datagrams(socket: UdpSocket, system: &mut System<'_>) {
        while let Ok(datagram) = socket.receive(system) {
            let payload: Vec<u8> = datagram.chunks().flatten().copied().collect();
            socket.send(system, datagram.source(), &payload).unwrap();
            system.recycle(datagram);
        }
    }

    fn streams(&mut self, system: &mut System<'_>) {
        let mut room = [0; 4_096];
        for (stream, held) in &mut self.held {
            while held.len() < 16_384
                && let Ok(len @ 1..) = stream.read(system, &mut room)
            {
                held.extend(&room[..len]);
            }
            while !held.is_empty()
                && let Ok(len @ 1..) = stream.write(system, held.make_contiguous())
            {
                held.drain(..len);
            }
        }
    }
}

impl Program for Echo {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let (socket, listener) = *self.sockets.get_or_insert_with(|| {
            let listener = TcpListener::listen(system, None, ECHO, &ListenerConfig::default()).unwrap();
            (UdpSocket::bind(system, None, ECHO).unwrap(), listener)
        });
        let events = EventQueue::of_all(system).unwrap();
        while events.next(system).is_ok() {}
        Self::datagrams(socket, system);
        while let Ok((stream, _)) = listener.accept(system) {
            self.held.push((stream, VecDeque::new()));
        }
        self.streams(system);
        Step::WaitUntil(events.fd(), system.now() + Duration::from_millis(1))
    }
}

/// Sends to an echo service, with datagrams one after the other and with a stream, and counts the bytes that
/// return.
#[derive(Debug)]
struct Talker {
    to: IpEndpoint,
    bytes: usize,
    sockets: Option<(UdpSocket, TcpStream)>,
    said: usize,
    /// The time when the last datagram was sent: a lost one is sent again.
    sent_at: Instant,
    heard: Arc<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    datagrams: AtomicU64,
    bytes: AtomicU64,
}

impl Heard {
    fn get(&self) -> (u64, u64) {
        (self.datagrams.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

const DATAGRAMS: u64 = 50;
const BYTES: usize = 300_000;

impl Talker {
    fn to(address: Ipv4Address) -> (Box<Self>, Arc<Heard>) {
        let heard = Arc::<Heard>::default();
        let to = IpEndpoint { addr: address.into(), port: ECHO };
        let talker = Self {
            to,
            bytes: BYTES,
            sockets: None,
            said: 0,
            sent_at: Instant::ZERO,
            heard: Arc::clone(&heard),
        };
        (Box::new(talker), heard)
    }

    fn datagrams(&mut self, socket: UdpSocket, system: &mut System<'_>) {
        let mut answered = self.sent_at == Instant::ZERO;
        let mut next = self.heard.datagrams.load(Ordering::Relaxed);
        while let Ok(datagram) = socket.receive(system) {
            if datagram.chunks().flatten().eq(&next.to_be_bytes()) {
                next = self.heard.datagrams.fetch_add(1, Ordering::Relaxed) + 1;
                answered = true;
            }
            system.recycle(datagram);
        }
        let lost = system.now() >= self.sent_at + Duration::from_millis(10);
        if next < DATAGRAMS && (answered || lost) {
            socket.send(system, self.to, &next.to_be_bytes()).unwrap();
            self.sent_at = system.now();
        }
    }

    fn text(from: usize) -> Vec<u8> {
        (from..from + 1_000).map(|n| (n / 7) as u8).collect()
    }
}

impl Program for Talker {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let (socket, stream) = *self.sockets.get_or_insert_with(|| {
            let socket = UdpSocket::bind(system, None, 0).unwrap();
            (socket, TcpStream::connect(system, self.to).unwrap())
        });
        self.datagrams(socket, system);
        let mut room = [0; 1_000];
        while let Ok(len @ 1..) = stream.read(system, &mut room) {
            let before = self.heard.bytes.fetch_add(len as u64, Ordering::Relaxed);
            assert_eq!(room[..len], Self::text(before as usize)[..len]);
        }
        while self.said < self.bytes
            && let left = (self.bytes - self.said).min(1_000)
            && let Ok(len @ 1..) = stream.write(system, &Self::text(self.said)[..left])
        {
            self.said += len;
        }
        Step::Sleep(system.now() + Duration::from_micros(500))
    }
}

/// A step in the setup of a host; tests take them in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Add(Kind),
    Open,
}

const ORDERS: [[Deed; 3]; 6] = {
    use Deed::{Add, Open};
    let (ni, plain) = (Add(Demultiplexing), Add(Plain));
    [
        [ni, plain, Open],
        [plain, ni, Open],
        [ni, Open, plain],
        [plain, Open, ni],
        [Open, ni, plain],
        [Open, plain, ni],
    ]
};

#[test]
fn udp_and_tcp_pass_by_links_of_both_kinds_whatever_came_first() {
    for (architecture, order) in LAZY.into_iter().flat_map(|a| ORDERS.map(|order| (a, order))) {
        let what = format!("{architecture}, {order:?}");
        let mut net = Net::new(architecture);
        let mut plain = None;
        for deed in order {
            match deed {
                Deed::Add(kind) => {
                    let id = net.connect(kind);
                    plain = plain.or((kind == Plain).then_some(id));
                }
                Deed::Open => _ = net.host.spawn("echo", 0, Box::<Echo>::default()),
            }
            // Sockets that are to be open are open, and the first round of neighbours and the like is over.
            net.pass(Duration::from_millis(2));
        }
        let mut heard = Vec::new();
        // Of the peers, each talks to the host by its own link; the host talks to both.
        let kinds = order.into_iter().filter_map(|d| if let Deed::Add(kind) = d { Some(kind) } else { None });
        for (peer, kind) in kinds.enumerate() {
            let (talker, theirs) = Talker::to(kind.ours());
            net.peers[peer].spawn("talker", 0, talker);
            net.peers[peer].spawn("echo", 0, Box::<Echo>::default());
            let (talker, ours) = Talker::to(kind.peer());
            net.host.spawn("talker", 0, talker);
            heard.extend([theirs, ours]);
        }
        net.pass(Duration::from_millis(1_500));
        let got: Vec<_> = heard.iter().map(|heard| heard.get()).collect();
        assert_eq!(got, [(DATAGRAMS, BYTES as u64); 4], "{what}");
        // The host has demultiplexed what came by the one, and nothing else.
        assert_eq!(net.demultiplexed, net.host.traffic(plain.unwrap()).unwrap().received, "{what}");
    }
}

#[test]
fn udp_and_tcp_pass_by_an_interface_with_fewer_rings_than_channels() {
    // The daemons have four channels, UDP two, the listener two, and each connection may have one.
    let rings = [(0, 0), (3, 0), (6, 0), (9, 1), (64, 2)];
    for ((rings_max, connections), is_first) in rings.into_iter().flat_map(|n| [(n, false), (n, true)]) {
        let what = format!("{rings_max} rings, {is_first}");
        let mut net = Net::new(Architecture::NiLrp);
        if is_first {
            net.host.spawn("echo", 0, Box::<Echo>::default());
            net.pass(Duration::from_millis(2));
        }
        let (far, near) = Plain.cable();
        let nic = Nic::new(near, rings_max);
        let adaptor = nic.adaptor();
        let id = net.connect_ends(Plain, far, Box::new(nic));
        if !is_first {
            net.host.spawn("echo", 0, Box::<Echo>::default());
        }
        net.pass(Duration::from_millis(2));
        let (talker, theirs) = Talker::to(Plain.ours());
        net.peers[0].spawn("talker", 0, talker);
        net.peers[0].spawn("echo", 0, Box::<Echo>::default());
        let (talker, ours) = Talker::to(Plain.peer());
        net.host.spawn("talker", 0, talker);
        net.pass(Duration::from_millis(1_500));
        assert_eq!([theirs.get(), ours.get()], [(DATAGRAMS, BYTES as u64); 2], "{what}");
        let binds = |e: &Event| matches!(e, Event::Update(Change::Bind(Binding::Connection(_), _)));
        let bound = adaptor.lock().unwrap().events.iter().filter(|&e| binds(e)).count();
        assert_eq!(bound, connections, "{what}");
        // The host demultiplexes frames that come by the shared ring, and only those.
        let (received, rings) = (net.host.traffic(id).unwrap().received, adaptor.lock().unwrap().rings());
        assert!(rings <= rings_max && (rings < rings_max) == (rings_max == 64), "{what}: {rings}");
        match rings_max {
            0 => assert_eq!(net.demultiplexed, received, "{what}"),
            64 => assert_eq!((net.demultiplexed, received > 0), (0, true), "{what}"),
            _ => assert!(net.demultiplexed < received, "{what}"),
        }
    }
}

/// A host with a socket that is never read, and one that is read at once.
struct Flooded {
    host: Host,
    wires: [End; 2],
    seen: Arc<common::Seen>,
    now: Instant,
}

impl Flooded {
    fn new(architecture: Architecture) -> Self {
        let mut host = Host::new(config(architecture)).unwrap();
        let wires = [Demultiplexing, Plain].map(|kind| {
            let (far, near) = kind.cable();
            host.add_interface(Box::new(near), &cidr(kind.ours()), Instant::ZERO).unwrap();
            far
        });
        let (mut hung, _) = Sink::new(FLOODED);
        hung.nap = Some(Duration::from_secs(1_000));
        host.spawn("hung", 0, Box::new(hung));
        let (sink, seen) = Sink::new(ECHO);
        host.spawn("sink", 0, Box::new(sink));
        let mut flooded = Self { host, wires, seen, now: Instant::ZERO };
        flooded.pass();
        flooded
    }

    fn send(&mut self, kind: Kind, port: u16, number: u32) -> bool {
        let frame = udp_between(kind.peer(), kind.hardware(), kind.ours(), port, &number.to_be_bytes());
        let wire = &mut self.wires[kind as usize];
        let taken = wire.send(&frame);
        wire.flush();
        taken
    }

    fn pass(&mut self) {
        const ROUND: Duration = Duration::from_micros(100);
        run(&mut self.host, self.now, ROUND);
        self.now += ROUND;
        self.host.check().unwrap();
    }
}

#[test]
fn a_flood_of_one_link_leaves_the_other_alone() {
    const ROUNDS: u32 = 500;
    for (architecture, flooded) in LAZY.into_iter().flat_map(|a| [(a, Demultiplexing), (a, Plain)]) {
        let mut net = Flooded::new(architecture);
        let other = if flooded == Plain { Demultiplexing } else { Plain };
        for round in 0..ROUNDS {
            let taken = (0..100).filter(|&n| net.send(flooded, FLOODED, n)).count();
            assert!(round < 10 || taken < 100, "{architecture}: no flood of {flooded:?}");
            assert!(net.send(other, ECHO, round), "{architecture}: {flooded:?} is flooded");
            net.pass();
        }
        assert_eq!(net.seen.count(), u64::from(ROUNDS), "{architecture}: {flooded:?} is flooded");
        // What the flood left behind is no more than the channel and the socket's queue hold, and a receive
        // ring.
        assert!(net.host.queued() + net.host.in_rings() <= 2 * 128 + 64, "{architecture}, {flooded:?}");
    }
}

/// The first socket to be hung up on the one link is served by the other all the same.
#[test]
fn a_socket_receives_by_one_link_while_its_ring_on_the_other_is_full() {
    for architecture in LAZY {
        let mut net = Flooded::new(architecture);
        for round in 0..200 {
            (0..200).for_each(|n| _ = net.send(Demultiplexing, ECHO, n));
            net.send(Plain, ECHO, round);
            run(&mut net.host, net.now, UNIT * 20);
            net.now += UNIT * 20;
        }
        (0..100).for_each(|_| net.pass());
        let payloads = net.seen.payloads.lock().unwrap();
        let by_plain = net.host.traffic(InterfaceId(1)).unwrap().received;
        assert!(by_plain >= 64, "{architecture}: {by_plain}");
        assert!(payloads.len() as u64 > by_plain + 128, "{architecture}: {}", payloads.len());
    }
}

/// Opens a given number of sockets of both kinds, and ends on command.
#[derive(Debug)]
struct Opener {
    count: u16,
    open: bool,
    ends: Arc<AtomicU64>,
}

impl Program for Opener {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        if !core::mem::replace(&mut self.open, true) {
            for port in 0..self.count {
                UdpSocket::bind(system, None, 1_000 + port).unwrap();
                TcpListener::listen(system, None, 1_000 + port, &ListenerConfig::default()).unwrap();
            }
        }
        if self.ends.load(Ordering::Relaxed) > 0 {
            return Step::Exit;
        }
        Step::Sleep(system.now() + Duration::from_micros(100))
    }
}

#[test]
fn the_buffers_promised_are_the_same_whatever_came_first() {
    for architecture in LAZY {
        let mut promised = Vec::new();
        for order in ORDERS {
            let mut net = Net::new(architecture);
            let ends = Arc::new(AtomicU64::new(0));
            for deed in order {
                match deed {
                    Deed::Add(kind) => _ = net.connect(kind),
                    Deed::Open => {
                        let opener = Opener { count: 5, open: false, ends: Arc::clone(&ends) };
                        net.host.spawn("opener", 0, Box::new(opener));
                    }
                }
                net.pass(Duration::from_millis(1));
            }
            let open = net.host.pool().1;
            ends.store(1, Ordering::Relaxed);
            net.pass(Duration::from_millis(1));
            let closed = net.host.pool().1;
            // For each socket a queue and a ring, and for a listener two of both; UDP's have one more for
            // what is processed.
            let config = net.host.config();
            let each = 3 * 2 * config.channel_pkts + config.socket_queue_pkts;
            assert_eq!(open - closed, 5 * each, "{architecture}, {order:?}");
            promised.push((open, closed));
        }
        assert!(promised.iter().all(|&p| p == promised[0]), "{architecture}: {promised:?}");
    }
}

#[test]
fn an_interface_that_cannot_be_added_changes_nothing() {
    // Whichever of its promises it is that cannot be kept.
    let memories = (0..12).map(|n| 1_200 + 16 * n);
    for (kind, memory_pkts) in memories.flat_map(|memory| [(Demultiplexing, memory), (Plain, memory)]) {
        let config = Config { memory_pkts, channel_pkts: 64, ..config(Architecture::NiLrp) };
        let config = Config { ip_queue_pkts: 16, output_queue_pkts: 16, socket_queue_pkts: 16, ..config };
        let mut host = Host::new(config).unwrap();
        let error = loop {
            let before = (host.pool().1, host.interfaces().count());
            let added = host.add_interface(Box::new(kind.cable().1), &[], Instant::ZERO);
            let after = (host.pool().1, host.interfaces().count());
            if let Err(error) = added {
                assert_eq!(after, before, "{kind:?} in {memory_pkts}");
                break error;
            }
            assert_eq!(after.1, before.1 + 1);
        };
        assert!(matches!(error, AddInterfaceError::NoMemory(_)), "{kind:?}: {error}");
        host.check().unwrap();
    }
}

/// The channels are filled according to the link, not to the architecture that the host was created with.
#[test]
fn a_link_that_does_not_demultiplex_bounds_the_windows_that_programs_ask_for() {
    let mut host = Host::new(config(Architecture::NiLrp)).unwrap();
    let most = config(Architecture::SoftLrp).window_max().unwrap();
    let (_far, near) = Plain.cable();
    host.add_interface(Box::new(near), &cidr(Plain.ours()), Instant::ZERO).unwrap();
    let me = host.attach("me", 0, Instant::ZERO);
    let limit = host.enter(me, Instant::ZERO, |system| {
        let stream = TcpStream::connect(system, IpEndpoint::new(Plain.peer().into(), ECHO)).unwrap();
        stream.set(system, StreamOption::ReceiveBuffer(64 << 20)).unwrap();
        stream.info(system).unwrap().1.receive_limit
    });
    assert_eq!(limit.unwrap(), most);
}

#[test]
fn a_plan_that_is_asked_for_is_followed_or_refused() {
    for own in Architecture::ALL {
        let mut host = Host::new(config(own)).unwrap();
        for asked in Architecture::ALL {
            let plan = ReceivePath::of(asked, DeviceWork::Polled);
            let mut add = |kind: Kind| {
                host.add_interface_with(Box::new(kind.cable().1), &[], plan, Instant::ZERO).map(drop)
            };
            let on_interface = asked == Architecture::NiLrp;
            let not_lazy = LAZY.contains(&asked) && !LAZY.contains(&own);
            let plain = match () {
                () if on_interface => Err(AddInterfaceError::CannotDemultiplex),
                () if not_lazy => Err(AddInterfaceError::NotLazy),
                () => Ok(()),
            };
            let demultiplexing = match () {
                () if !on_interface => Err(AddInterfaceError::Demultiplexes),
                () if not_lazy => Err(AddInterfaceError::NotLazy),
                () => Ok(()),
            };
            assert_eq!((add(Plain), add(Demultiplexing)), (plain, demultiplexing), "{asked} on {own}");
        }
    }
}

/// A frame takes the receive path of its interface.
#[test]
fn plans_of_all_kinds_share_a_host() {
    let plans = [
        (ReceivePath::of(Architecture::Eager, DeviceWork::Polled), Plain),
        (ReceivePath::of(Architecture::EarlyDemux, DeviceWork::Polled), Plain),
        (ReceivePath::of(Architecture::Polled, DeviceWork::Polled), Plain),
        (ReceivePath::of(Architecture::Polled, DeviceWork::Interrupt), Plain),
        (ReceivePath::of(Architecture::SoftLrp, DeviceWork::Polled), Plain),
        (ReceivePath::of(Architecture::SoftLrp, DeviceWork::Interrupt), Plain),
        (ReceivePath::of(Architecture::NiLrp, DeviceWork::None), Demultiplexing),
    ];
    for architecture in LAZY {
        let mut host = Host::new(config(architecture)).unwrap();
        let address = |number: usize, last| Ipv4Address::new(10, 1, number as u8, last);
        let mut wires = plans.iter().enumerate().map(|(number, &(plan, kind))| {
            let (far, near) = kind.cable();
            host.add_interface_with(Box::new(near), &cidr(address(number, 2)), plan, Instant::ZERO).unwrap();
            (far, kind)
        });
        let mut wires: Vec<_> = wires.by_ref().collect();
        let (sink, seen) = Sink::new(ECHO);
        host.spawn("sink", 0, Box::new(sink));
        let mut now = Instant::ZERO;
        let mut pass = |host: &mut Host| {
            let demultiplexed = run(host, now, Duration::from_millis(1));
            now += Duration::from_millis(1);
            host.check().unwrap();
            demultiplexed
        };
        pass(&mut host);
        let mut demultiplexed = Vec::new();
        for (number, (wire, kind)) in wires.iter_mut().enumerate() {
            for n in 0..20_u8 {
                let (from, to) = (address(number, 1), address(number, 2));
                assert!(wire.send(&udp_between(from, kind.hardware(), to, ECHO, &[number as u8, n])));
            }
            wire.flush();
            demultiplexed.push(pass(&mut host));
        }
        let expected: Vec<_> = (0..7_u8).flat_map(|number| (0..20).map(move |n| vec![number, n])).collect();
        assert_eq!(*seen.payloads.lock().unwrap(), expected, "{architecture}");
        assert_eq!(demultiplexed, [0, 20, 0, 0, 20, 20, 0], "{architecture}");
    }
}

/// Without any link of the other kind, a host with links of one kind promises no buffers for the other.
#[test]
fn a_host_with_links_of_one_kind_pays_for_no_other() {
    let promised = |architecture, kinds: &[Kind]| {
        let mut host = Host::new(config(architecture)).unwrap();
        for &kind in kinds {
            host.add_interface(Box::new(kind.cable().1), &[], Instant::ZERO).unwrap();
        }
        let before = host.pool().1;
        let (sink, _) = Sink::new(ECHO);
        host.spawn("sink", 0, Box::new(sink));
        run(&mut host, Instant::ZERO, Duration::from_millis(1));
        let config = host.config();
        (host.pool().1 - before - config.socket_queue_pkts) / config.channel_pkts
    };
    for architecture in LAZY {
        assert_eq!(promised(architecture, &[Plain, Plain, Plain]), 1, "{architecture}");
        assert_eq!(promised(architecture, &[Demultiplexing]), 1, "{architecture}");
        assert_eq!(promised(architecture, &[Demultiplexing, Demultiplexing]), 2, "{architecture}");
        assert_eq!(promised(architecture, &[Demultiplexing, Plain, Plain]), 2, "{architecture}");
    }
}
