//! Two endpoints and a network between them, in virtual time.

mod cookies;
mod egress;
mod fate;
mod flood;
mod options;
mod over;
mod reuse;

use core::net::{IpAddr, Ipv4Addr};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::super::fast_open::FastOpenServer;
use super::super::listener::ListenerConfig;
use super::super::{Counter, Flags, Header, Options, Secret, Segment, State, TcpDrop, Timestamps};
use super::entry::Entry;
use super::memory::Memory;
use super::*;
use crate::connection::{Config, Error, Unavailable};
use crate::random::Random;
use crate::segment::Ecn;
use crate::seq::SeqNumber;
use crate::table::Id;
use crate::time::{Duration, Instant};
use crate::tuple::{AddrPort, FourTuple};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const HTTP: ListenAt = ListenAt { address: None, port: 80 };
const MSS: u16 = 1_460;
/// The IP header's part of a packet from the client.
const FROM_CLIENT: Packet = Packet { source: CLIENT, destination: SERVER, ecn: Ecn::NotCapable, mss: MSS };
/// Routes on which all segments leave through one interface.
const ONE_WAY: Ways = Ways { generation: 0, by_port: BTreeMap::new() };

type Endpoint = super::Endpoint<Egress>;

/// Routes by port: the interface through which connections of each client port leave, at either end.
/// Number 0 unless `set` says otherwise.
#[derive(Debug)]
struct Ways {
    generation: u32,
    by_port: BTreeMap<u16, Egress>,
}

impl Ways {
    fn set(&mut self, port: u16, egress: u8) {
        self.by_port.insert(port, Egress::new(egress));
        self.generation = self.generation.wrapping_add(1);
    }
}

impl Routes for Ways {
    type Route = Egress;

    fn generation(&self) -> u32 {
        self.generation
    }

    fn lookup(&self, tuple: &FourTuple) -> Egress {
        let ports = [tuple.local.port, tuple.remote.port];
        ports.iter().find_map(|port| self.by_port.get(port)).copied().unwrap_or_default()
    }

    fn egress(&self, route: &Egress) -> Option<Egress> {
        Some(*route)
    }
}

/// The faults of the network: shares of packets in percent.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    lost: u64,
    doubled: u64,
    damaged: u64,
    /// The most by which delays differ: packets overtake one another.
    jitter: Duration,
}

struct World {
    now: Instant,
    ends: [Endpoint; 2],
    routes: Ways,
    /// Packets in flight by time of arrival, then in the order of sending: the end that receives each, and
    /// its bytes.
    wire: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    sent: u64,
    faults: Faults,
    random: Random,
}

impl World {
    fn new(config: EndpointConfig, faults: Faults, seed: u64) -> Self {
        let end = |key| Endpoint::new(config.clone(), Secret::new([key; 16]));
        Self {
            now: Instant::from_millis(1_000),
            ends: [end(1), end(2)],
            routes: ONE_WAY,
            wire: BTreeMap::new(),
            sent: 0,
            faults,
            random: Random::new(seed),
        }
    }

    fn listening(config: EndpointConfig, listener: &ListenerConfig, faults: Faults, seed: u64) -> Self {
        let mut world = Self::new(config, faults, seed);
        world.ends[1].listen(HTTP, listener, None).unwrap();
        world
    }

    fn connect(&mut self, port: u16) -> Id {
        self.ends[0].connect(tuple(port), MSS, self.now).unwrap()
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.random.next() % 100 < percent
    }

    /// Sends everything that can leave.
    fn send(&mut self) {
        for from in 0..2 {
            let mut bytes = [0; 2_000];
            while let Some(transmit) = self.ends[from].poll_transmit(self.now, &self.routes, &mut bytes) {
                if ![CLIENT, SERVER].contains(&transmit.tuple.remote.addr) {
                    continue;
                }
                let copies =
                    u64::from(!self.chance(self.faults.lost)) + u64::from(self.chance(self.faults.doubled));
                for _ in 0..copies {
                    let mut packet = bytes[..transmit.len].to_vec();
                    if self.chance(self.faults.damaged) {
                        let at = self.random.next() as usize % packet.len();
                        packet[at] ^= 1 << (self.random.next() % 8);
                    }
                    let delay = Duration::from_millis(10) + self.random.up_to(self.faults.jitter);
                    self.sent += 1;
                    self.wire.insert((self.now + delay, self.sent), (1 - from, packet));
                }
            }
        }
    }

    /// Returns the time of the next event, once everything has left.
    fn next(&mut self) -> Option<Instant> {
        let arrival = self.wire.first_key_value().map(|(key, _)| key.0);
        arrival.into_iter().chain(self.ends.iter_mut().filter_map(Endpoint::next_deadline)).min()
    }

    /// Advances to the next event; false if there will never be one.
    fn step(&mut self) -> bool {
        self.send();
        let Some(next) = self.next() else { return false };
        self.now = self.now.max(next);
        while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to, packet) = entry.remove();
            let (source, destination) = if to == 1 { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
            let header = Packet { source, destination, ..FROM_CLIENT };
            self.ends[to].input(&packet, &header, self.now);
        }
        for end in &mut self.ends {
            end.advance(self.now);
        }
        true
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.send();
        while self.next().is_some_and(|next| next <= end) {
            self.step();
            self.send();
        }
        self.now = end;
    }

    /// Asserts that nothing is left of any connection once no event is due.
    fn assert_empty(&mut self) {
        while self.step() {}
        for end in &self.ends {
            assert_eq!(
                (
                    end.len(),
                    end.waiting(),
                    end.state.answers.len(),
                    end.state.send_queue.len(),
                    end.state.deadlines.len()
                ),
                (0, 0, 0, 0, 0)
            );
        }
    }
}

fn tuple(port: u16) -> FourTuple {
    FourTuple::new(AddrPort::new(CLIENT, port), AddrPort::new(SERVER, 80))
}

fn byte(place: usize) -> u8 {
    (place * 7 % 251) as u8
}

#[test]
fn what_a_connection_sends_bears_the_codepoint_that_its_user_chose() {
    let mut world = World::new(EndpointConfig::default(), Faults::default(), 1);
    let id = world.connect(1);
    world.connect(2);
    world.ends[0].set_dscp(id, 46).unwrap();
    let mut bytes = [0; 2_000];
    let codepoints: Vec<(u16, u8)> =
        core::iter::from_fn(|| world.ends[0].poll_transmit(world.now, &world.routes, &mut bytes))
            .map(|transmit| (transmit.tuple.local.port, transmit.dscp))
            .collect();
    assert_eq!(codepoints, [(1, 46), (2, 0)]);
}

/// A stream of `len` bytes to write, and the check of the stream that comes back.
#[derive(Default)]
struct Stream {
    len: usize,
    written: usize,
    read: usize,
    ended: bool,
}

impl Stream {
    fn write(&mut self, end: &mut Endpoint, id: Id) {
        while self.written < self.len {
            let data: Vec<u8> = (self.written..self.len.min(self.written + 5_000)).map(byte).collect();
            match end.write(id, &data) {
                Ok(taken) => self.written += taken,
                Err(_) => return,
            }
        }
    }

    fn read(&mut self, end: &mut Endpoint, id: Id, now: Instant) -> Result<(), Error> {
        let mut data = [0; 3_000];
        loop {
            match end.read(id, &mut data, now) {
                Ok(0) => self.ended = true,
                Ok(len) => {
                    assert!(data[..len].iter().copied().eq((self.read..).map(byte).take(len)), "wrong bytes");
                    self.read += len;
                    continue;
                }
                Err(Unavailable::Failed(error)) => return Err(error),
                Err(Unavailable::WouldBlock | Unavailable::Closed) => {}
            }
            return Ok(());
        }
    }
}

/// Asserts that the totals of an endpoint are the sums over its connections.
fn assert_accounts_are_right(end: &Endpoint) {
    let held: usize = end.connections().map(|(_, _, info)| info.held).sum();
    assert_eq!(end.buffered(), held);
    let established = |state| usize::from(matches!(state, State::Established | State::CloseWait));
    let established: usize = end.connections().map(|(_, _, info)| established(info.state)).sum();
    assert_eq!(end.counters().get(Counter::CurrEstab), established as u64);
}

/// Sends `len` bytes in each direction at the same time, and checks that all come. Returns the error of a
/// connection that fails.
fn exchange(world: &mut World, port: u16, len: usize) -> Result<(), Error> {
    let client = world.connect(port);
    let (mut there, mut back) = (Stream { len, ..Stream::default() }, Stream { len, ..Stream::default() });
    let mut server = None;
    let mut over = (false, false);
    for _ in 0..200_000 {
        if let Some(id) = world.ends[1].accept(&HTTP) {
            server = Some(id);
        }
        if !over.0 {
            there.write(&mut world.ends[0], client);
            back.read(&mut world.ends[0], client, world.now)?;
            if there.written == len {
                world.ends[0].shutdown(client).unwrap();
            }
            if back.ended {
                world.ends[0].close(client, world.now);
                over.0 = true;
            }
        }
        if let Some(id) = server.filter(|_| !over.1) {
            back.write(&mut world.ends[1], id);
            there.read(&mut world.ends[1], id, world.now)?;
            if back.written == len && there.ended {
                world.ends[1].close(id, world.now);
                over.1 = true;
            }
        }
        if over == (true, true) {
            assert_eq!((there.read, back.read), (len, len));
            return Ok(());
        }
        world.ends.iter().for_each(assert_accounts_are_right);
        assert!(
            world.step(),
            "nothing happens any more: {} and {} of {len} bytes came",
            there.read,
            back.read
        );
    }
    panic!("no end: {} and {} of {len} bytes came", there.read, back.read);
}

#[test]
fn streams_go_both_ways_and_nothing_is_left() {
    let mut world =
        World::listening(EndpointConfig::default(), &ListenerConfig::default(), Faults::default(), 1);
    assert_eq!(exchange(&mut world, 40_000, 500_000), Ok(()));
    assert_eq!(world.ends[0].counters().get(Counter::RetransSegs), 0);
    world.assert_empty();
    assert_eq!(
        world.ends[0].counters().get(Counter::RetransSegs),
        0,
        "nothing was lost, nothing was repeated"
    );
}

#[test]
fn bytes_come_once_and_in_order_however_bad_the_network() {
    for seed in 0..60 {
        let mut faults = Faults::default();
        let mut random = Random::new(seed);
        faults.lost = random.next() % 21;
        faults.doubled = random.next() % 11;
        faults.damaged = random.next() % 6;
        faults.jitter = random.up_to(Duration::from_millis(30));
        let plain = Config {
            sack: seed % 2 == 0,
            timestamps: seed % 3 > 0,
            nagle: seed % 5 > 0,
            ..Config::default()
        };
        let config = EndpointConfig { connection: Arc::new(plain), ..EndpointConfig::default() };
        let mut world = World::listening(config, &ListenerConfig::default(), faults, seed);
        let len = 1 + random.next() as usize % 60_000;
        println!("seed {seed}: {len} bytes, {faults:?}");
        // A connection may fail, and must then say so; a network that loses a fifth does not fail one for
        // five minutes.
        assert_eq!(exchange(&mut world, 40_000, len), Ok(()), "seed {seed}");
        world.assert_empty();
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let faults = Faults { lost: 10, doubled: 5, damaged: 5, jitter: Duration::from_millis(20) };
        let mut world = World::listening(EndpointConfig::default(), &ListenerConfig::default(), faults, 7);
        assert_eq!(exchange(&mut world, 40_000, 50_000), Ok(()));
        (world.now, world.sent, world.ends.map(|end| end.counters().clone()))
    };
    assert_eq!(run(), run());
}

#[test]
fn many_connections_at_once() {
    let mut world =
        World::listening(EndpointConfig::default(), &ListenerConfig::default(), Faults::default(), 1);
    let ids: Vec<Id> = (0..500).map(|i| world.connect(20_000 + i)).collect();
    for (i, id) in ids.iter().enumerate() {
        assert_eq!(world.ends[0].write(*id, &[i as u8; 100]), Ok(100));
    }
    world.pass(Duration::from_millis(100));
    assert_eq!(world.ends[1].poll_event(), Some(EndpointEvent::Acceptable(HTTP)), "told once");
    assert_eq!(world.ends[1].poll_event(), None);
    let mut seen = 0;
    while let Some(id) = world.ends[1].accept(&HTTP) {
        let mut data = [0; 200];
        assert_eq!(world.ends[1].read(id, &mut data, world.now), Ok(100));
        let port = world.ends[1].tuple(id).unwrap().remote.port;
        assert_eq!(data[..100], [(port - 20_000) as u8; 100]);
        world.ends[1].close(id, world.now);
        seen += 1;
    }
    assert_eq!(seen, 500);
    world.pass(Duration::from_millis(50));
    ids.iter().for_each(|id| world.ends[0].close(*id, world.now));
    world.pass(Duration::from_millis(200));
    assert_eq!((world.ends[1].len(), world.ends[1].waiting()), (0, 500), "the server closed first");
    world.assert_empty();
}

#[test]
fn nobody_listens() {
    let mut world = World::new(EndpointConfig::default(), Faults::default(), 1);
    let id = world.connect(40_000);
    world.pass(Duration::from_millis(50));
    assert_eq!(world.ends[0].connection(id).unwrap().error(), Some(Error::Refused));
    let over = Readiness { readable: true, ended: true, over: true, ..Readiness::default() };
    assert_eq!(world.ends[0].poll_event(), Some(EndpointEvent::Connection(id, over)));
    assert_eq!(world.ends[1].counters().get(Counter::OutRsts), 1);
    world.ends[0].close(id, world.now);
    world.assert_empty();
}

#[test]
fn a_full_accept_queue_stops_accepting_and_goes_on_when_there_is_room() {
    let listener = ListenerConfig { backlog: 2, ..ListenerConfig::default() };
    let mut world = World::listening(EndpointConfig::default(), &listener, Faults::default(), 1);
    let ids: Vec<Id> = (0..3).map(|i| world.connect(40_000 + i)).collect();
    world.pass(Duration::from_millis(100));
    assert!(!world.ends[1].accepts(&HTTP));
    assert_eq!(world.ends[1].len(), 2);
    assert!(world.ends[1].accept(&HTTP).is_some() && world.ends[1].accepts(&HTTP));
    // The third says something, or its peer repeats the SYN-ACK: the handshake ends after all.
    world.pass(Duration::from_secs(2));
    assert_eq!(world.ends[1].len(), 3);
    for id in ids {
        assert_eq!(world.ends[0].connection(id).unwrap().state(), State::Established);
    }
}

#[test]
fn a_connection_that_is_reset_gives_its_place_in_the_accept_queue_back() {
    let listener = ListenerConfig { backlog: 4, ..ListenerConfig::default() };
    let mut world = World::listening(EndpointConfig::default(), &listener, Faults::default(), 1);
    let mut ids: VecDeque<Id> = VecDeque::new();
    for round in 0..50 {
        while ids.len() < 4 {
            ids.push_back(world.connect(20_000 + 10 * round + ids.len() as u16));
        }
        world.pass(Duration::from_millis(50));
        assert!(!world.ends[1].accepts(&HTTP), "full");
        // One from the middle, or all but the last.
        let gone = if round % 2 == 0 { 1..2 } else { 0..3 };
        for id in ids.drain(gone) {
            world.ends[0].abort(id).unwrap();
        }
        world.pass(Duration::from_millis(50));
        assert!(world.ends[1].accepts(&HTTP), "there is room again");
        let listener = world.ends[1].state.listeners.get(&HTTP).unwrap();
        assert_eq!((listener.accept_queue_len(), world.ends[1].len()), (ids.len(), ids.len()));
    }
    let mut accepted = 0;
    while let Some(id) = world.ends[1].accept(&HTTP) {
        assert_eq!(world.ends[1].connection(id).unwrap().state(), State::Established);
        accepted += 1;
        assert_eq!(
            world.ends[1].state.listeners.get(&HTTP).unwrap().accept_queue_len(),
            ids.len() - accepted
        );
    }
    assert_eq!(accepted, ids.len());
}

/// Each of 200 listeners has a half-open connection, and its deadline comes when it is due, without a
/// search through all listeners.
#[test]
fn deadlines_of_listeners_come_when_they_are_due() {
    let mut end = Endpoint::new(EndpointConfig::default(), Secret::new([1; 16]));
    let mut bytes = [0; 100];
    let start = Instant::from_millis(1_000);
    for port in 0..200 {
        let at = ListenAt { address: Some(SERVER), port: 1_000 + port };
        end.listen(at, &ListenerConfig::default(), None).unwrap();
        let syn = Header { source: 4_000, destination: at.port, flags: Flags::SYN, ..Header::default() };
        let len = Segment::bare(syn).emit(&mut bytes, CLIENT, SERVER).unwrap();
        let now = start + Duration::from_millis(port.into());
        end.input(&bytes[..len], &FROM_CLIENT, now);
        assert!(end.poll_transmit(now, &ONE_WAY, &mut bytes).is_some());
    }
    for port in (0..200).step_by(2) {
        end.unlisten(&ListenAt { address: Some(SERVER), port: 1_000 + port });
    }
    let mut left = Vec::new();
    while let Some(now) = end.next_deadline().filter(|at| *at < start + Duration::from_secs(2)) {
        end.advance(now);
        while let Some(transmit) = end.poll_transmit(now, &ONE_WAY, &mut bytes) {
            left.push((now, transmit.tuple.local.port));
        }
    }
    let due = |port: u16| (start + Duration::from_millis(1_000 + u64::from(port)), 1_000 + port);
    assert!(left.iter().copied().eq((1..200).step_by(2).map(due)), "{left:?}");
}

#[test]
fn a_syn_flood_does_not_keep_anybody_out() {
    let listener = ListenerConfig { syn_queue: 8, ..ListenerConfig::default() };
    let mut world = World::listening(EndpointConfig::default(), &listener, Faults::default(), 1);
    let mut bytes = [0; 100];
    for port in 1..2_000 {
        let syn = Header { flags: Flags::SYN, ..tuple(port).header() };
        let len = Segment::bare(syn).emit(&mut bytes, CLIENT, SERVER).unwrap();
        world.ends[1].input(&bytes[..len], &FROM_CLIENT, world.now);
        // What is answered goes nowhere.
        while world.ends[1].poll_transmit(world.now, &world.routes, &mut bytes).is_some() {}
    }
    assert!(world.ends[1].counters().get(Counter::SyncookiesSent) > 1_900);
    assert_eq!(exchange(&mut world, 40_000, 20_000), Ok(()));
    assert_eq!(world.ends[1].counters().get(Counter::SyncookiesRecv), 1);
}

#[test]
fn a_port_in_time_wait_is_opened_again_by_a_later_syn() {
    let mut world =
        World::listening(EndpointConfig::default(), &ListenerConfig::default(), Faults::default(), 1);
    let client = world.connect(40_000);
    world.pass(Duration::from_millis(50));
    let server = world.ends[1].accept(&HTTP).unwrap();
    world.ends[1].close(server, world.now);
    world.pass(Duration::from_millis(50));
    world.ends[0].close(client, world.now);
    world.pass(Duration::from_millis(50));
    assert_eq!((world.ends[0].len(), world.ends[1].len(), world.ends[1].waiting()), (0, 0, 1));
    assert_eq!(exchange(&mut world, 40_000, 1_000), Ok(()));
    assert_eq!(world.ends[1].counters().get(Counter::TwRecycled), 1);
    world.assert_empty();
}

/// Returns a world with a connection from port 40000 that the client closed first and that now is in
/// TIME-WAIT there. Without `last_ack`, the server never gets the acknowledgment of its FIN.
fn closed_by_the_client(config: EndpointConfig, last_ack: bool) -> World {
    let mut world = World::listening(config, &ListenerConfig::default(), Faults::default(), 1);
    let client = world.connect(40_000);
    assert_eq!(world.ends[0].connect(tuple(40_000), MSS, world.now), Err(OpenError::InUse));
    world.pass(Duration::from_millis(50));
    world.ends[0].close(client, world.now);
    world.pass(Duration::from_millis(50));
    let server = world.ends[1].accept(&HTTP).unwrap();
    world.ends[1].close(server, world.now);
    world.pass(Duration::from_millis(15));
    if !last_ack {
        world.wire.clear();
    }
    world.pass(Duration::from_millis(35));
    assert_eq!((world.ends[0].waiting(), world.ends[1].len()), (1, usize::from(!last_ack)));
    world
}

fn without_timestamps() -> EndpointConfig {
    let plain = Config { timestamps: false, ..Config::default() };
    EndpointConfig { connection: Arc::new(plain), ..EndpointConfig::default() }
}

#[test]
fn who_closed_first_uses_the_port_again_once_the_clock_has_ticked() {
    let mut world = closed_by_the_client(EndpointConfig::default(), true);
    assert_eq!(world.ends[0].connect(tuple(40_000), MSS, world.now), Err(OpenError::InUse));
    world.pass(Duration::from_secs(1));
    assert_eq!(exchange(&mut world, 40_000, 5_000), Ok(()));
    assert_eq!(world.ends[0].counters().get(Counter::TwRecycled), 1);
    world.assert_empty();
}

#[test]
fn without_timestamps_the_port_rests_for_the_whole_of_time_wait() {
    let mut world = closed_by_the_client(without_timestamps(), true);
    world.pass(Duration::from_secs(59));
    assert_eq!(world.ends[0].connect(tuple(40_000), MSS, world.now), Err(OpenError::InUse));
    world.pass(Duration::from_secs(1));
    assert_eq!(exchange(&mut world, 40_000, 5_000), Ok(()));
    world.assert_empty();
}

/// The server, in LAST-ACK, answers the SYN with an ACK; the client resets it; and the SYN that comes again
/// opens a connection.
#[test]
fn a_peer_that_missed_the_last_ack_is_set_right() {
    let mut world = closed_by_the_client(EndpointConfig::default(), false);
    // Every FIN that the server sends again is lost.
    world.faults.lost = 100;
    world.pass(Duration::from_secs(1));
    world.faults.lost = 0;
    world.connect(40_000);
    assert_eq!(world.ends[1].len(), 1, "the server still waits");
    world.pass(Duration::from_secs(2));
    assert_eq!(world.ends[0].counters().get(Counter::OutRsts), 1);
    let id = world.ends[1].accept(&HTTP).expect("a new connection");
    assert_eq!(world.ends[1].connection(id).unwrap().state(), State::Established);
}

fn some_port() -> FourTuple {
    FourTuple::new(AddrPort::new(CLIENT, 0), tuple(1).remote)
}

#[test]
fn ports_are_chosen_in_turn_and_from_where_nobody_can_tell() {
    let first = |key, remote| {
        let mut end = Endpoint::new(EndpointConfig::default(), Secret::new([key; 16]));
        let mut port = || {
            let id = end.connect(FourTuple { remote, ..some_port() }, MSS, Instant::ZERO).unwrap();
            end.tuple(id).unwrap().local.port
        };
        let ports = [port(), port(), port()];
        assert!(ports.iter().all(|port| *port >= 49_152));
        let next = |port: u16| if port == u16::MAX { 49_152 } else { port + 1 };
        assert_eq!((ports[1], ports[2]), (next(ports[0]), next(ports[1])));
        ports[0]
    };
    let here = tuple(1).remote;
    assert_eq!(first(1, here), first(1, here));
    assert_ne!(first(1, here), first(2, here));
    assert_ne!(first(1, here), first(1, AddrPort { port: 81, ..here }));
    assert_ne!(first(1, here), first(1, AddrPort { addr: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3)), ..here }));
}

#[test]
fn when_no_port_is_free_nothing_is_opened_until_one_is() {
    let config = EndpointConfig { ports: 50_000..=50_009, ..without_timestamps() };
    let mut world = World::listening(config, &ListenerConfig::default(), Faults::default(), 1);
    // Not where a number of 16 bits goes round in the middle of them.
    world.ends[0].state.ports.next = 65_533;
    // Somebody listens at one of them.
    let taken = ListenAt { address: Some(CLIENT), port: 50_004 };
    world.ends[0].listen(taken, &ListenerConfig::default(), None).unwrap();
    let open = |world: &mut World| {
        let id = world.ends[0].connect(some_port(), MSS, world.now)?;
        Ok((world.ends[0].tuple(id).unwrap().local.port, id))
    };
    let mut opened: BTreeMap<u16, Id> = (0..9).map(|_| open(&mut world).unwrap()).collect();
    assert!(opened.keys().copied().eq((50_000..50_010).filter(|port| *port != 50_004)));
    world.pass(Duration::from_millis(50));
    assert_eq!(open(&mut world), Err(OpenError::NoPort));
    assert_eq!(open(&mut world), Err(OpenError::NoPort));
    let other = FourTuple { remote: AddrPort::new(SERVER, 81), ..some_port() };
    assert!(
        world.ends[0].connect(other, MSS, world.now).is_ok(),
        "to another port of the peer's all are free"
    );
    // A connection that is reset leaves its port at once.
    world.ends[0].abort(opened.remove(&50_007).unwrap()).unwrap();
    world.send();
    assert_eq!(open(&mut world).map(|(port, _)| port), Ok(50_007));
    // One that is closed leaves it when TIME-WAIT is over.
    world.ends[0].close(opened[&50_002], world.now);
    while let Some(server) = world.ends[1].accept(&HTTP) {
        world.ends[1].close(server, world.now);
    }
    world.pass(Duration::from_millis(100));
    assert_eq!(open(&mut world), Err(OpenError::NoPort));
    world.pass(Duration::from_secs(61));
    assert_eq!(open(&mut world).map(|(port, _)| port), Ok(50_002));
}

#[test]
fn a_listener_that_goes_resets_what_was_not_accepted() {
    let mut world =
        World::listening(EndpointConfig::default(), &ListenerConfig::default(), Faults::default(), 1);
    let client = world.connect(40_000);
    world.pass(Duration::from_millis(50));
    world.ends[1].unlisten(&HTTP);
    world.pass(Duration::from_millis(50));
    assert_eq!(world.ends[0].connection(client).unwrap().error(), Some(Error::Reset));
    world.ends[0].close(client, world.now);
    world.assert_empty();
}

#[test]
fn a_server_takes_data_in_a_syn_with_its_cookie() {
    let mut world = World::new(EndpointConfig::default(), Faults::default(), 1);
    let server = FastOpenServer::new(Secret::new([9; 16]), 10);
    let cookie = server.cookie(&CLIENT, &SERVER);
    world.ends[1].listen(HTTP, &ListenerConfig::default(), Some(server)).unwrap();
    let options = Options { mss: Some(1_000), fast_open: Some(cookie), ..Default::default() };
    let syn = Header { flags: Flags::SYN, window: 1_000, options, ..tuple(40_000).header() };
    let mut bytes = [0; 2_000];
    let len = Segment { header: syn, payload: [b"GET /", b""] }.emit(&mut bytes, CLIENT, SERVER).unwrap();
    world.ends[1].input(&bytes[..len], &FROM_CLIENT, world.now);
    let id = world.ends[1].accept(&HTTP).unwrap();
    let mut data = [0; 10];
    assert_eq!(world.ends[1].read(id, &mut data, world.now), Ok(5));
    assert_eq!(
        (&data[..5], world.ends[1].connection(id).unwrap().state()),
        (&b"GET /"[..], State::SynReceived)
    );
    assert_eq!(world.ends[1].write(id, b"200"), Ok(3));
    let syn_ack = world.ends[1].poll_transmit(world.now, &world.routes, &mut bytes).unwrap();
    let read = Segment::parse(&bytes[..syn_ack.len], SERVER, CLIENT, Ecn::NotCapable).unwrap();
    assert_eq!((read.header.flags, read.header.ack), (Flags::SYN | Flags::ACK, syn.seq + 6));
    let answer = world.ends[1].poll_transmit(world.now, &world.routes, &mut bytes).unwrap();
    let read = Segment::parse(&bytes[..answer.len], SERVER, CLIENT, Ecn::NotCapable).unwrap();
    assert_eq!(read.payload[0], b"200");
}

/// Returns the sequence number of the next segment that leaves.
fn next_seq(end: &mut Endpoint, now: Instant) -> SeqNumber {
    let mut bytes = [0; 2_000];
    let transmit = end.poll_transmit(now, &ONE_WAY, &mut bytes).unwrap();
    let quote = Quote::parse(&bytes[..8], transmit.tuple.local.addr, transmit.tuple.remote.addr).unwrap();
    assert_eq!(quote.tuple, transmit.tuple);
    quote.seq
}

#[test]
fn icmp_is_believed_if_it_quotes_what_is_under_way() {
    let mut world =
        World::listening(EndpointConfig::default(), &ListenerConfig::default(), Faults::default(), 1);
    let id = world.connect(40_000);
    world.pass(Duration::from_millis(50));
    let client = &mut world.ends[0];
    client.write(id, &[7; 5_000]).unwrap();
    let seq = next_seq(client, world.now);
    let mss = |client: &Endpoint| client.connection(id).unwrap().info().mss;
    let dropped = |client: &Endpoint| client.counters().get(Counter::OutOfWindowIcmps);
    client.packet_too_big(&tuple(40_000), seq - 1, 1_000, world.now);
    client.packet_too_big(&tuple(40_001), seq, 1_000, world.now);
    client.unreachable(&tuple(40_001), seq, true);
    client.unreachable(&tuple(40_000), seq - 1, true);
    assert_eq!((mss(client), dropped(client)), (1_448, 4));
    client.packet_too_big(&tuple(40_000), seq, 1_000, world.now);
    client.unreachable(&tuple(40_000), seq, true);
    assert_eq!((mss(client), dropped(client)), (988, 4));
    assert_eq!(client.connection(id).unwrap().state(), State::Established);
    assert_eq!(next_seq(client, world.now), seq, "it leaves again, in smaller segments");
}

#[test]
fn the_network_refuses_a_connection_that_is_being_opened() {
    let mut world = World::new(EndpointConfig::default(), Faults::default(), 1);
    let id = world.connect(40_000);
    let seq = next_seq(&mut world.ends[0], world.now);
    world.ends[0].unreachable(&tuple(40_000), seq, true);
    let over = Readiness { readable: true, ended: true, over: true, ..Readiness::default() };
    assert_eq!(world.ends[0].poll_event(), Some(EndpointEvent::Connection(id, over)));
    assert_eq!(world.ends[0].connection(id).unwrap().error(), Some(Error::Refused));
}

/// The user gets the error of Linux's EHOSTUNREACH.
#[test]
fn a_next_hop_that_does_not_answer_ends_a_connection_that_is_being_opened() {
    let mut world = World::new(EndpointConfig::default(), Faults::default(), 1);
    let id = world.connect(40_000);
    let seq = next_seq(&mut world.ends[0], world.now);
    world.ends[0].next_hop_silent(&tuple(40_001), seq);
    assert_eq!(world.ends[0].poll_event(), None);
    world.ends[0].next_hop_silent(&tuple(40_000), seq);
    let over = Readiness { readable: true, ended: true, over: true, ..Readiness::default() };
    assert_eq!(world.ends[0].poll_event(), Some(EndpointEvent::Connection(id, over)));
    assert_eq!(world.ends[0].connection(id).unwrap().error(), Some(Error::Unreachable));
}

#[test]
fn the_network_refuses_a_half_open_connection() {
    let mut world =
        World::listening(EndpointConfig::default(), &ListenerConfig::default(), Faults::default(), 1);
    let server = &mut world.ends[1];
    let mut bytes = [0; 100];
    let syn = Header { flags: Flags::SYN, ..tuple(40_000).header() };
    let len = Segment::bare(syn).emit(&mut bytes, CLIENT, SERVER).unwrap();
    server.input(&bytes[..len], &FROM_CLIENT, world.now);
    let seq = next_seq(server, world.now);
    let back = FourTuple::new(tuple(40_000).remote, tuple(40_000).local);
    let fails = |server: &Endpoint| server.counters().get(Counter::AttemptFails);
    server.unreachable(&back, seq - 1, true);
    server.unreachable(&back, seq, false);
    assert_eq!((fails(server), server.state.listeners.get(&HTTP).unwrap().syn_queue_len()), (0, 1));
    server.unreachable(&back, seq, true);
    assert_eq!((fails(server), server.state.listeners.get(&HTTP).unwrap().syn_queue_len()), (1, 0));
}

/// The client writes all it can on each of 300 connections, and the server reads nothing. Neither side
/// takes much more memory than its limit. Once the server reads, everything comes.
#[test]
fn slow_readers_fill_no_more_memory_than_there_is_and_everything_comes_in_the_end() {
    const CONNECTIONS: usize = 300;
    const LEN: usize = 20_000;
    const BUFFERS: usize = 1 << 20;
    let config = EndpointConfig { buffers: BUFFERS, ..EndpointConfig::default() };
    let mut world = World::listening(config, &ListenerConfig::default(), Faults::default(), 1);
    let mut streams: Vec<_> = (0..CONNECTIONS)
        .map(|i| (world.connect(20_000 + i as u16), Stream { len: LEN, ..Stream::default() }))
        .collect();
    let mut peak = [0; 2];
    let mut write = |world: &mut World| {
        for (id, stream) in &mut streams {
            stream.write(&mut world.ends[0], *id);
        }
        world.send();
        for (peak, end) in peak.iter_mut().zip(&world.ends) {
            *peak = end.buffered().max(*peak);
        }
    };
    for _ in 0..100 {
        write(&mut world);
        world.pass(Duration::from_millis(20));
    }
    let mut readers: Vec<(Id, Stream)> = core::iter::from_fn(|| world.ends[1].accept(&HTTP))
        .map(|id| (id, Stream { len: LEN, ..Stream::default() }))
        .collect();
    assert_eq!(readers.len(), CONNECTIONS);
    for _ in 0..30_000 {
        write(&mut world);
        for (id, stream) in &mut readers {
            stream.read(&mut world.ends[1], *id, world.now).unwrap();
        }
        if readers.iter().all(|(_, stream)| stream.read == LEN) {
            break;
        }
        world.step();
    }
    assert!(readers.iter().all(|(_, stream)| stream.read == LEN), "all came");
    // A buffer of these is at most twice as large as what it may hold.
    let most = BUFFERS + CONNECTIONS * 2 * usize::from(MSS) + 2 * LEN;
    println!("{peak:?} of {BUFFERS} bytes, {most} at most");
    assert!(peak.iter().all(|peak| (BUFFERS / 2..most).contains(peak)), "{peak:?}, {most}");
    assert!(world.ends[1].counters().get(Counter::MemoryPressures) > 0);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.ends.each_ref().map(Endpoint::buffered), [0, 0], "all is given back");
    streams.iter().for_each(|(id, _)| world.ends[0].close(*id, world.now));
    readers.iter().for_each(|(id, _)| world.ends[1].close(*id, world.now));
    world.assert_empty();
}

/// Only the last segment of each window arrives, which takes memory for all of them. The first such
/// connections lose it, and in the end everything comes.
#[test]
fn segments_far_from_the_others_do_not_take_the_memory_of_all() {
    const CONNECTIONS: u16 = 200;
    const BUFFERS: usize = 1 << 20;
    let config = EndpointConfig { buffers: BUFFERS, ..EndpointConfig::default() };
    let mut world = World::listening(config, &ListenerConfig::default(), Faults::default(), 1);
    world.ends[0].state.memory = Memory::new(usize::MAX);
    let ids: Vec<Id> = (0..CONNECTIONS).map(|i| world.connect(20_000 + i)).collect();
    world.pass(Duration::from_millis(50));
    let data: Vec<u8> = (0..10_000).map(byte).collect();
    let mut bytes = [0; 2_000];
    for id in &ids {
        world.ends[0].write(*id, &data).unwrap();
        let mut last = 0;
        while let Some(transmit) = world.ends[0].poll_transmit(world.now, &world.routes, &mut bytes) {
            last = transmit.len;
        }
        world.ends[1].input(&bytes[..last], &FROM_CLIENT, world.now);
        assert!(world.ends[1].buffered() <= BUFFERS / 4 * 3, "there is room for others");
    }
    let pruned = world.ends[1].counters().get(Counter::OfoPruned);
    assert!((100..u64::from(CONNECTIONS)).contains(&pruned), "{pruned}");
    world.wire.clear();
    let mut streams = BTreeMap::<Id, Stream>::new();
    for _ in 0..600 {
        world.pass(Duration::from_millis(20));
        while let Some(id) = world.ends[1].accept(&HTTP) {
            streams.insert(id, Stream::default());
        }
        for (id, stream) in &mut streams {
            stream.read(&mut world.ends[1], *id, world.now).unwrap();
        }
        assert_accounts_are_right(&world.ends[1]);
    }
    assert_eq!(streams.len(), CONNECTIONS.into());
    assert!(streams.values().all(|stream| stream.read == data.len()), "everything came");
    assert!(world.ends[1].state.holes.len() <= usize::from(CONNECTIONS));
}

#[test]
fn what_a_connection_held_is_given_back_when_it_is_gone() {
    let mut world =
        World::listening(EndpointConfig::default(), &ListenerConfig::default(), Faults::default(), 1);
    let client = world.connect(40_000);
    world.pass(Duration::from_millis(50));
    world.ends[0].write(client, &[7; 50_000]).unwrap();
    world.pass(Duration::from_millis(100));
    world.ends[0].write(client, &[7; 40_000]).unwrap();
    assert!(world.ends[0].buffered() >= 40_000 && world.ends[1].buffered() >= 50_000);
    world.ends[0].abort(client).unwrap();
    world.pass(Duration::from_millis(50));
    assert_eq!(world.ends.each_ref().map(Endpoint::buffered), [0, 0]);
}

/// A connection gets memory that another has left, and keeps all of it for as long as one byte is in it:
/// it must not be much.
#[test]
fn a_byte_takes_little_memory_whatever_others_have_left() {
    let config =
        Config { receive_buffer_initial: 256 << 10, send_buffer_initial: 256 << 10, ..Config::default() };
    let config = EndpointConfig { connection: Arc::new(config), ..EndpointConfig::default() };
    for (len, most) in [(128 << 10, 4 << 10), (10_000, 16 << 10)] {
        let mut world = World::listening(config.clone(), &ListenerConfig::default(), Faults::default(), 1);
        let [large, small] = [1, 2].map(|port| world.connect(port));
        world.pass(Duration::from_millis(50));
        let from_large = world.ends[1].accept(&HTTP).unwrap();
        assert_eq!(world.ends[0].write(large, &vec![7; len]), Ok(len));
        world.pass(Duration::from_secs(1));
        assert!(world.ends[1].buffered() >= len);
        assert_eq!(world.ends[1].read(from_large, &mut vec![0; len], world.now), Ok(len));
        assert_eq!(world.ends.each_ref().map(Endpoint::buffered), [0, 0]);
        world.ends[0].write(small, b"!").unwrap();
        world.pass(Duration::from_millis(100));
        let taken = world.ends[1].buffered();
        assert!((1..=most).contains(&taken), "{taken} bytes after {len}");
    }
}

/// Every segment that leaves is in one of two counters, while its connection lives, and every reset is in
/// a third.
#[test]
fn what_leaves_is_counted_when_it_leaves() {
    let faults = Faults { lost: 15, jitter: Duration::from_millis(20), ..Faults::default() };
    let mut world = World::listening(EndpointConfig::default(), &ListenerConfig::default(), faults, 3);
    let ids: Vec<Id> = (0..20).map(|i| world.connect(20_000 + i)).collect();
    ids.iter().for_each(|id| _ = world.ends[0].write(*id, &[1; 60_000]));
    let mut left = [[0_u64; 2]; 2];
    let mut bytes = [0; 2_000];
    for _ in 0..3_000 {
        for (from, left) in left.iter_mut().enumerate() {
            while let Some(transmit) = world.ends[from].poll_transmit(world.now, &world.routes, &mut bytes) {
                left[0] += 1;
                left[1] += u64::from(bytes[13] & 4 != 0);
                if !world.chance(15) {
                    world.sent += 1;
                    let packet = (1 - from, bytes[..transmit.len].to_vec());
                    world.wire.insert((world.now + Duration::from_millis(10), world.sent), packet);
                }
            }
        }
        world.step();
        while let Some(id) = world.ends[1].accept(&HTTP) {
            // Half of them are not wanted.
            if world.ends[1].tuple(id).unwrap().remote.port.is_multiple_of(2) {
                world.ends[1].abort(id).unwrap();
            }
        }
    }
    for (end, [left, resets]) in world.ends.iter().zip(left) {
        let get = |counter| end.counters().get(counter);
        assert_eq!(get(Counter::OutSegs) + get(Counter::RetransSegs), left);
        assert_eq!(get(Counter::OutRsts), resets);
        assert_eq!(get(Counter::CurrEstab), 10);
    }
    let client = &world.ends[0];
    let sent_again: u64 = client.connections().map(|(_, _, info)| info.recovery.retransmitted_segments).sum();
    assert!(sent_again > 50, "{sent_again}");
    assert_eq!(client.counters().get(Counter::RetransSegs), sent_again, "none is gone");
    assert_eq!(client.counters().get(Counter::EstabResets), 10);
    assert_eq!(world.ends[1].counters().get(Counter::EstabResets), 10);
}

#[test]
fn reports_tell_of_every_connection_and_listener() {
    let mut world =
        World::listening(EndpointConfig::default(), &ListenerConfig::default(), Faults::default(), 1);
    let ids: Vec<Id> = (0..3).map(|i| world.connect(40_000 + i)).collect();
    world.pass(Duration::from_millis(50));
    world.ends[0].write(ids[1], &[7; 5_000]).unwrap();
    world.pass(Duration::from_millis(100));
    let listener = world.ends[1].listeners().next().unwrap();
    assert_eq!((listener.at, listener.half_open, listener.to_accept, listener.backlog), (HTTP, 0, 3, 4_096));
    let infos: BTreeMap<u16, _> =
        world.ends[0].connections().map(|(_, tuple, info)| (tuple.local.port, info)).collect();
    assert!(infos.keys().copied().eq(40_000..40_003));
    let info = &infos[&40_001];
    assert_eq!((info.counts.bytes_out, info.counts.bytes_acked), (5_000, 5_000));
    assert_eq!((info.recovery.algorithm, info.recovery.srtt), ("cubic", Some(Duration::from_millis(20))));
    assert_eq!((info.send_queue, info.unsent, info.held), (0, 0, 0));
    let (_, _, info) = world.ends[1].connections().find(|(_, tuple, _)| tuple.remote.port == 40_001).unwrap();
    assert_eq!((info.counts.bytes_in, info.receive_queue), (5_000, 5_000));
    assert!(info.held >= 5_000 && info.receive_window < 65_535);
}

/// Returns a world whose server gives cookies.
fn with_fast_open() -> World {
    let mut world = World::new(EndpointConfig::default(), Faults::default(), 1);
    let server = FastOpenServer::new(Secret::new([9; 16]), 10);
    world.ends[1].listen(HTTP, &ListenerConfig::default(), Some(server)).unwrap();
    world
}

/// Returns the time from the start of the connection until the server had 1000 bytes to read.
fn connect_with_data(world: &mut World) -> Duration {
    let start = world.now;
    let data: Vec<u8> = (0..1_000).map(byte).collect();
    let (client, taken) = world.ends[0].connect_with(some_port(), MSS, &data, world.now).unwrap();
    assert_eq!(taken, 1_000);
    let (mut stream, mut server) = (Stream::default(), None);
    while stream.read < 1_000 {
        assert!(world.step());
        server = server.or_else(|| world.ends[1].accept(&HTTP));
        if let Some(server) = server {
            stream.read(&mut world.ends[1], server, world.now).unwrap();
        }
    }
    let took = world.now.since(start);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.ends[0].connection(client).unwrap().info().send_queue, 0);
    world.ends[0].abort(client).unwrap();
    world.pass(Duration::from_millis(50));
    world.ends[1].close(server.unwrap(), world.now);
    took
}

#[test]
fn with_a_cookie_data_arrive_a_round_trip_earlier() {
    let mut world = with_fast_open();
    assert_eq!(connect_with_data(&mut world), Duration::from_millis(30), "the cookie is asked for");
    assert_eq!(connect_with_data(&mut world), Duration::from_millis(10));
    assert_eq!(connect_with_data(&mut world), Duration::from_millis(10));
    let count = |world: &World, counter| world.ends[0].counters().get(counter);
    assert_eq!(count(&world, Counter::FastOpenActive), 2);
    // The server has lost its key: the data come again after the handshake, and there is a new cookie.
    world.ends[1].unlisten(&HTTP);
    let server = FastOpenServer::new(Secret::new([8; 16]), 10);
    world.ends[1].listen(HTTP, &ListenerConfig::default(), Some(server)).unwrap();
    assert_eq!(connect_with_data(&mut world), Duration::from_millis(30));
    assert_eq!(count(&world, Counter::FastOpenActiveFail), 1);
    assert_eq!(connect_with_data(&mut world), Duration::from_millis(10));
    // And then it gives no cookies any more: it is only asked whether it does.
    world.ends[1].unlisten(&HTTP);
    world.ends[1].listen(HTTP, &ListenerConfig::default(), None).unwrap();
    assert_eq!(connect_with_data(&mut world), Duration::from_millis(30));
    assert_eq!(count(&world, Counter::FastOpenActiveFail), 2);
    assert_eq!(connect_with_data(&mut world), Duration::from_millis(30));
    assert_eq!((count(&world, Counter::FastOpenActiveFail), count(&world, Counter::FastOpenActive)), (2, 3));
}

#[test]
fn where_a_syn_with_data_vanished_the_next_have_none_for_an_hour() {
    let mut world = with_fast_open();
    connect_with_data(&mut world);
    // This one is lost; the next, after a second, has neither cookie nor data.
    let start = world.now;
    let (client, _) = world.ends[0].connect_with(some_port(), MSS, b"hello", world.now).unwrap();
    world.send();
    world.wire.clear();
    while !world.ends[0].connection(client).unwrap().state().is_synchronized() {
        world.step();
    }
    assert_eq!(world.now.since(start), Duration::from_millis(1_020));
    world.pass(Duration::from_millis(50));
    let server = world.ends[1].accept(&HTTP).unwrap();
    assert_eq!(world.ends[1].read(server, &mut [0; 10], world.now), Ok(5), "it came after the handshake");
    assert_eq!(world.ends[0].counters().get(Counter::FastOpenBlackhole), 1);
    assert_eq!(connect_with_data(&mut world), Duration::from_millis(30), "no cookie in the SYN");
    world.pass(Duration::from_secs(3_600));
    assert_eq!(connect_with_data(&mut world), Duration::from_millis(10), "tried again");
}

#[test]
fn no_more_data_go_with_a_syn_than_the_server_took_last_time() {
    let mut world = World::new(EndpointConfig::default(), Faults::default(), 1);
    let server = FastOpenServer::new(Secret::new([9; 16]), 10);
    world.ends[1].listen(HTTP, &ListenerConfig::default(), Some(server)).unwrap();
    let mut bytes = [0; 2_000];
    let mut open = |world: &mut World| {
        let (id, taken) = world.ends[0].connect_with(some_port(), MSS, &[7; 3_000], world.now).unwrap();
        assert_eq!(taken, 3_000);
        let len = world.ends[0].poll_transmit(world.now, &world.routes, &mut bytes).unwrap().len;
        // The server's path has room for 600 bytes only.
        let packet = Packet { mss: 600, ..FROM_CLIENT };
        world.ends[1].input(&bytes[..len], &packet, world.now);
        world.pass(Duration::from_millis(50));
        world.ends[0].abort(id).unwrap();
        world.pass(Duration::from_millis(50));
        Segment::parse(&bytes[..len], CLIENT, SERVER, Ecn::NotCapable).unwrap().payload_len()
    };
    assert_eq!(open(&mut world), 0);
    // 40 bytes of options: MSS, SACK permitted, timestamps, window scale, cookie of eight bytes.
    assert_eq!(open(&mut world), 600 - 32);
    world.ends[0].state.config.fast_open_servers = 0;
    assert_eq!(open(&mut world), 0, "switched off");
}

/// The number of connections with early data in SYN-RECEIVED has a limit. Each gives its place back,
/// however it ends.
#[test]
fn early_connections_that_fail_give_their_place_back() {
    let mut world = World::new(EndpointConfig::default(), Faults::default(), 1);
    let server = FastOpenServer::new(Secret::new([9; 16]), 1);
    let cookie = server.cookie(&CLIENT, &SERVER);
    let end = &mut world.ends[1];
    end.listen(HTTP, &ListenerConfig::default(), Some(server)).unwrap();
    let options = Options { mss: Some(1_000), fast_open: Some(cookie), ..Default::default() };
    let mut bytes = [0; 2_000];
    let mut now = world.now;
    for port in 40_000..40_006 {
        let syn = Header { flags: Flags::SYN, window: 1_000, options, ..tuple(port).header() };
        let len = Segment { header: syn, payload: [b"hi", b""] }.emit(&mut bytes, CLIENT, SERVER).unwrap();
        end.input(&bytes[..len], &FROM_CLIENT, now);
        let id = end.accept(&HTTP).expect("its data came early");
        match port % 3 {
            0 => end.abort(id).unwrap(),
            1 => end.close(id, now),
            // Nobody ever answers.
            _ => {}
        }
        while end.poll_transmit(now, &ONE_WAY, &mut bytes).is_some() {}
        while let Some(next) = end.next_deadline().filter(|next| *next < now + Duration::from_secs(400)) {
            end.advance(next);
            while end.poll_transmit(next, &ONE_WAY, &mut bytes).is_some() {}
        }
        now += Duration::from_secs(400);
    }
    assert_eq!(end.counters().get(Counter::FastOpenListenOverflow), 0);
    assert_eq!(end.counters().get(Counter::FastOpenPassive), 6);
}

#[test]
fn an_idle_connection_is_small() {
    let bytes = crate::table::slot_bytes::<Entry<Egress>>();
    println!("{bytes} bytes in the table, {} of them loss recovery", size_of::<crate::recovery::Recovery>());
    assert!(bytes <= 1_024, "{bytes}");
}

/// A user who finds no room to write is notified when there is room again: also if no write used it up,
/// but the congestion window shrank after a pause.
#[test]
fn room_that_a_pause_took_away_is_told_of_when_it_is_back() {
    let mut world =
        World::listening(EndpointConfig::default(), &ListenerConfig::default(), Faults::default(), 1);
    let client = world.connect(40_000);
    world.pass(Duration::from_millis(50));
    let server = world.ends[1].accept(&HTTP).unwrap();
    let room = |world: &World| world.ends[0].connection(client).unwrap().writable();
    // Read as fast as it comes, the window grows, and with it what may wait to be sent.
    for _ in 0..2_000 {
        let _ = world.ends[0].write(client, &[7; 20_000]);
        world.step();
        let _ = world.ends[1].read(server, &mut [0; 100_000], world.now);
    }
    for _ in 0..100 {
        world.pass(Duration::from_millis(100));
        let _ = world.ends[1].read(server, &mut [0; 1_000_000], world.now);
    }
    while world.ends[0].poll_event().is_some() {}
    assert_eq!(world.ends[0].write(client, &[7; 66_000]), Ok(66_000));
    assert!(room(&world) > 0);
    world.send();
    while world.ends[0].poll_event().is_some() {}
    assert_eq!(room(&world), 0, "the window is that of a beginning");
    for _ in 0..20 {
        world.pass(Duration::from_millis(20));
        let _ = world.ends[1].read(server, &mut [0; 1_000_000], world.now);
    }
    assert!(room(&world) > 0);
    let writable = Readiness { connected: true, writable: true, ..Readiness::default() };
    assert_eq!(world.ends[0].poll_event(), Some(EndpointEvent::Connection(client, writable)));
}

/// A user who finds no room to write is notified when there is room again: also if a write has taken all
/// the memory that others left, and nothing can leave. The next acknowledgment finds the memory that
/// others have freed.
#[test]
fn room_that_others_took_is_told_of_when_it_is_back() {
    let config = EndpointConfig { buffers: 40_000, ..EndpointConfig::default() };
    let mut world = World::listening(config, &ListenerConfig::default(), Faults::default(), 1);
    let [client, other] = [40_000, 40_001].map(|port| world.connect(port));
    world.pass(Duration::from_millis(50));
    let room = |world: &World| world.ends[0].connection(client).unwrap().writable();
    assert_eq!(world.ends[0].write(other, &[7; 10_000]), Ok(10_000));
    assert_eq!(world.ends[0].write(client, &[7; 14_480]), Ok(14_480));
    world.send();
    assert!(world.ends[0].write(client, &[7; 40_000]).unwrap() < 20_000);
    world.send();
    while world.ends[0].poll_event().is_some() {}
    assert_eq!(room(&world), 0, "the window is full, and so is the memory");
    world.ends[0].abort(other).unwrap();
    world.pass(Duration::from_millis(25));
    assert!(room(&world) > 0);
    let writable = Readiness { connected: true, writable: true, ..Readiness::default() };
    assert_eq!(world.ends[0].poll_event(), Some(EndpointEvent::Connection(client, writable)));
}

/// The caller that gave the endpoint a packet learns its fate.
#[test]
fn what_became_of_a_segment_is_told() {
    let connection = Config {
        receive_buffer_initial: 1_000,
        receive_buffer_max: 1_000,
        timestamps: true,
        ..Config::default()
    };
    let config = EndpointConfig { connection: Arc::new(connection), ..EndpointConfig::default() };
    let mut world = World::listening(config, &ListenerConfig::default(), Faults::default(), 1);
    let id = world.connect(1);
    world.pass(Duration::from_millis(100));
    world.ends[0].write(id, &[1; 1_000]).unwrap();
    let mut bytes = [0; 2_000];
    let len = world.ends[0].poll_transmit(world.now, &world.routes, &mut bytes).unwrap().len;
    let first = Segment::parse(&bytes[..len], CLIENT, SERVER, Ecn::NotCapable).unwrap();
    let more = Header { seq: first.header.seq + first.payload_len() as u32, ..first.header };
    let old =
        more.options.timestamps.map(|clocks| Timestamps { value: clocks.value.wrapping_sub(50), ..clocks });
    let old = Header { options: Options { timestamps: old, ..more.options }, ..more };
    let mut input = |segment: Segment<'_>| {
        let mut bytes = [0; 2_000];
        let len = segment.emit(&mut bytes, CLIENT, SERVER).unwrap();
        world.ends[1].input(&bytes[..len], &FROM_CLIENT, world.now)
    };
    assert_eq!(input(first), Fate::Data);
    assert_eq!(input(Segment { header: more, payload: [b"no room", b""] }), Fate::Dropped(TcpDrop::NoRoom));
    // Also when there have been so many that they are answered no more.
    for _ in 0..50 {
        assert_eq!(input(Segment::bare(old)), Fate::Dropped(TcpDrop::NotAcceptable));
    }
    assert_eq!(input(Segment::bare(more)), Fate::Control);
}
