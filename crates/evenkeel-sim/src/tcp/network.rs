//! Nodes, links, and the schedule of events.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use core::fmt;

use evenkeel_core::tcp::endpoint::{EndpointEvent, Packet as Arrival};
use evenkeel_core::tcp::{AddrPort, Counter, Ecn, Endpoint, EndpointConfig, FourTuple, Secret, SeqNumber};
use evenkeel_core::time::{Duration, Instant};

use super::middlebox::Middlebox;
use super::packet::{Content, Packet};
use crate::event::Events;
use crate::net::{Conditions, Counters, Path};
use crate::rng::{Ratio, Rng};

/// A user of TCP: it makes calls on endpoints and observes the segments.
pub trait User {
    /// Handles an event that an endpoint reports.
    fn event(&mut self, network: &mut Network, node: usize, event: EndpointEvent);

    /// Handles a time that [`Network::wake`] set.
    fn woken(&mut self, network: &mut Network, token: u64);

    /// Observes a segment that leaves. The tuple is the sender's.
    fn sent(&mut self, _network: &Network, _node: usize, _tuple: &FourTuple, _segment: &[u8]) {}

    /// Observes a segment that has arrived unchanged. The tuple is the receiver's.
    fn arrived(&mut self, _network: &Network, _node: usize, _tuple: &FourTuple, _segment: &[u8]) {}
}

/// A direction of a link: from its first node to its second, or back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Direction {
    /// The link's number.
    pub link: usize,
    /// Whether the direction is from the second node to the first.
    pub back: bool,
}

/// A change of one direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// New conditions from now on.
    Conditions(Conditions),
    /// Packets with more bytes than this, IP header included, are dropped. The flag is whether the sender
    /// is notified. IPv6 has at least 1280.
    Mtu(u16, bool),
    /// All packets are dropped, or no longer.
    Hole(bool),
    /// This share of ECN-capable packets is marked.
    Mark(Ratio),
    /// A middlebox interferes with Fast Open, or no longer.
    Middlebox(Option<Middlebox>),
}

/// A run cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck(String);

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

struct Node {
    endpoint: Endpoint,
    addresses: [IpAddr; 2],
    deadline: Instant,
    touched: bool,
}

struct Way {
    path: Path<Packet>,
    mtu: u16,
    tells: bool,
    hole: bool,
    mark: Ratio,
    middlebox: Option<Middlebox>,
}

struct Link {
    ways: [Way; 2],
}

/// Endpoints and the links between them, in virtual time.
pub struct Network {
    now: Instant,
    nodes: Vec<Node>,
    links: Vec<Link>,
    /// The links of each node, with the node at the peer's end.
    neighbors: Vec<Vec<(usize, Direction)>>,
    wakes: Events<u64>,
    changes: Events<(Direction, Change)>,
    rng: Rng,
    digest: u64,
    segments: u64,
    /// The number of segments that arrived changed.
    damaged: u64,
}

/// Bytes of an IP packet on an Ethernet.
const MTU: u16 = 1_500;
/// The least MTU of a link with IPv6 (RFC 8200, 5).
const IPV6_MTU_MIN: u16 = 1_280;
/// The most events at one instant; more are a loop.
const AT_ONCE_MAX: u32 = 20_000;

impl Network {
    /// Creates an empty network at one second past zero.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            now: Instant::from_millis(1_000),
            nodes: Vec::new(),
            links: Vec::new(),
            neighbors: Vec::new(),
            wakes: Events::new(),
            changes: Events::new(),
            rng: Rng::new(seed),
            digest: seed,
            segments: 0,
            damaged: 0,
        }
    }

    /// Adds a node; returns its number, from zero.
    pub fn add(&mut self, config: EndpointConfig) -> usize {
        let number = self.nodes.len();
        let [high, low] = (number as u16 + 1).to_be_bytes();
        let v6 = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number as u16 + 1));
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&self.rng.next_u64().to_le_bytes());
        self.nodes.push(Node {
            endpoint: Endpoint::new(config, Secret::new(secret)),
            addresses: [IpAddr::V4(Ipv4Addr::new(10, 0, high, low)), v6],
            deadline: Instant::NEVER,
            touched: false,
        });
        self.neighbors.push(Vec::new());
        number
    }

    /// Joins two nodes; returns the link's number, from zero. The conditions are those from `a` to `b`, and
    /// back.
    pub fn join(&mut self, a: usize, b: usize, conditions: [Conditions; 2]) -> usize {
        let link = self.links.len();
        let ways = conditions.map(|conditions| Way {
            path: Path::new(conditions, self.rng.fork()),
            mtu: MTU,
            tells: true,
            hole: false,
            mark: Ratio::ZERO,
            middlebox: None,
        });
        self.links.push(Link { ways });
        self.neighbors[a].push((b, Direction { link, back: false }));
        self.neighbors[b].push((a, Direction { link, back: true }));
        link
    }

    /// Returns the simulated time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Returns the number of nodes.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the endpoint of a node.
    #[must_use]
    pub fn endpoint(&self, node: usize) -> &Endpoint {
        &self.nodes[node].endpoint
    }

    /// Returns the time at which the endpoint of a node next has something to do; [`Instant::NEVER`] if it
    /// waits for nothing.
    #[must_use]
    pub fn deadline(&self, node: usize) -> Instant {
        self.nodes[node].deadline
    }

    /// Returns the endpoint of a node, to make calls.
    pub fn endpoint_mut(&mut self, node: usize) -> &mut Endpoint {
        self.nodes[node].touched = true;
        &mut self.nodes[node].endpoint
    }

    /// Returns the sockets of a connection from port to port, as the first node sees it.
    #[must_use]
    pub fn tuple(&self, from: (usize, u16), to: (usize, u16), ipv6: bool) -> FourTuple {
        let end =
            |(node, port): (usize, u16)| AddrPort::new(self.nodes[node].addresses[usize::from(ipv6)], port);
        FourTuple::new(end(from), end(to))
    }

    /// Returns the node with this address.
    #[must_use]
    pub fn node_of(&self, address: &IpAddr) -> Option<usize> {
        let number = match address {
            IpAddr::V4(address) => {
                let [_, _, high, low] = address.octets();
                u16::from_be_bytes([high, low])
            }
            IpAddr::V6(address) => address.segments()[7],
        };
        usize::from(number).checked_sub(1).filter(|node| *node < self.nodes.len())
    }

    /// Returns the number of bytes that a segment may have after its 20-byte header, for a node that does
    /// not know the path.
    #[must_use]
    pub const fn mss(ipv6: bool) -> u16 {
        MTU - 20 - if ipv6 { 40 } else { 20 }
    }

    /// Calls [`User::woken`] with `token` after this time.
    pub fn wake(&mut self, after: Duration, token: u64) {
        self.wakes.schedule(self.now + after, token);
    }

    /// Schedules a change of one direction for the time `at`.
    pub fn change(&mut self, at: Instant, way: Direction, change: Change) {
        self.changes.schedule(at, (way, change));
    }

    /// Returns a digest of all segments that left, with their times.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns the number of segments that have left.
    #[must_use]
    pub const fn segments(&self) -> u64 {
        self.segments
    }

    /// Returns the number of arrived segments that the network had changed.
    #[must_use]
    pub const fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Returns the counters of one direction of a link.
    #[must_use]
    pub fn counters(&self, way: Direction) -> Counters {
        self.links[way.link].ways[usize::from(way.back)].path.counters()
    }

    /// Runs all events until `limit`. Returns whether later events remain.
    ///
    /// # Errors
    /// Events repeat without end, and time does not pass.
    pub fn run(&mut self, user: &mut impl User, limit: Instant) -> Result<bool, Stuck> {
        let mut at_once = 0;
        loop {
            self.settle(user)?;
            let next = self.next();
            if next > limit {
                if limit != Instant::NEVER {
                    self.now = self.now.max(limit);
                }
                return Ok(next != Instant::NEVER);
            }
            if next == Instant::NEVER {
                return Ok(false);
            }
            at_once = if next > self.now { 0 } else { at_once + 1 };
            if at_once > AT_ONCE_MAX {
                return Err(Stuck(format!("time does not pass at {:?}", self.now)));
            }
            self.now = self.now.max(next);
            self.happen(user)?;
        }
    }

    /// Returns the time of the next event of any path, endpoint, wake or change.
    fn next(&self) -> Instant {
        let ways = self.links.iter().flat_map(|link| link.ways.iter().map(|way| way.path.poll_timeout()));
        let deadlines = self.nodes.iter().map(|node| node.deadline);
        let soonest = ways.chain(deadlines).min().unwrap_or(Instant::NEVER);
        soonest.min(self.wakes.next_due()).min(self.changes.next_due())
    }

    fn happen(&mut self, user: &mut impl User) -> Result<(), Stuck> {
        let now = self.now;
        while let Some((way, change)) = self.changes.pop_due(now) {
            self.apply(way, change);
        }
        for link in 0..self.links.len() {
            for back in [false, true] {
                let way = usize::from(back);
                while let Some(packet) = self.links[link].ways[way].path.poll_frame(now) {
                    self.deliver(user, packet)?;
                }
            }
        }
        for node in self.nodes.iter_mut().filter(|node| node.deadline <= now) {
            node.endpoint.advance(now);
            node.touched = true;
        }
        while let Some(token) = self.wakes.pop_due(now) {
            user.woken(self, token);
        }
        Ok(())
    }

    fn apply(&mut self, at: Direction, change: Change) {
        let way = &mut self.links[at.link].ways[usize::from(at.back)];
        match change {
            Change::Conditions(conditions) => way.path.set_conditions(conditions),
            Change::Mtu(mtu, tells) => (way.mtu, way.tells) = (mtu, tells),
            Change::Hole(hole) => way.hole = hole,
            Change::Mark(mark) => way.mark = mark,
            Change::Middlebox(middlebox) => way.middlebox = middlebox,
        }
    }

    fn deliver(&mut self, user: &mut impl User, packet: Packet) -> Result<(), Stuck> {
        let Some(number) = self.node_of(&packet.destination) else { return Ok(()) };
        let Packet { source, destination, content, damaged } = packet;
        let (bytes, ecn) = match content {
            Content::Segment(bytes, ecn) => (bytes, ecn),
            Content::TooBig { .. } if damaged => return Ok(()),
            Content::TooBig { tuple, seq, mss } => {
                let now = self.now;
                self.endpoint_mut(number).packet_too_big(&tuple, seq, mss, now);
                return Ok(());
            }
        };
        if damaged {
            self.damaged += 1;
        } else if let Some(tuple) = tuple_of(&bytes, destination, source) {
            user.arrived(self, number, &tuple, &bytes);
        }
        let ipv6 = matches!(source, IpAddr::V6(_));
        let arrival = Arrival { source, destination, ecn, mss: Self::mss(ipv6) };
        let node = &mut self.nodes[number];
        node.touched = true;
        let before = node.endpoint.counters().get(Counter::InErrs);
        node.endpoint.input(&bytes, &arrival, self.now);
        let refused = node.endpoint.counters().get(Counter::InErrs) > before;
        if refused == damaged {
            return Ok(());
        }
        let what = if damaged { "a damaged segment was taken" } else { "a good segment was refused" };
        Err(Stuck(format!("{what} at {:?}: {bytes:02x?}", self.now)))
    }

    /// Lets users and endpoints do everything that they can do now.
    fn settle(&mut self, user: &mut impl User) -> Result<(), Stuck> {
        let mut rounds = 0;
        while let Some(number) = self.nodes.iter().position(|node| node.touched) {
            self.nodes[number].touched = false;
            while let Some(event) = self.nodes[number].endpoint.poll_event() {
                user.event(self, number, event);
            }
            self.transmit(user, number);
            let node = &mut self.nodes[number];
            node.deadline = node.endpoint.next_deadline().unwrap_or(Instant::NEVER);
            rounds += 1;
            if rounds > AT_ONCE_MAX {
                return Err(Stuck(format!("users and endpoints never settle at {:?}", self.now)));
            }
        }
        Ok(())
    }

    fn transmit(&mut self, user: &mut impl User, number: usize) {
        let mut buffer = [0; MTU as usize];
        while let Some(transmit) = self.nodes[number].endpoint.poll_transmit(self.now, &(), &mut buffer) {
            let Some(bytes) = buffer.get(..transmit.len) else { return };
            self.segments += 1;
            self.record(number, bytes);
            user.sent(self, number, &transmit.tuple, bytes);
            self.send(number, &transmit.tuple, bytes, transmit.ecn);
        }
    }

    /// Adds a segment to the digest.
    fn record(&mut self, number: usize, bytes: &[u8]) {
        let mut mix = |word: u64| {
            self.digest = (self.digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        };
        mix(self.now.as_nanos());
        mix(number as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            mix(u64::from_le_bytes(word));
        }
    }

    fn send(&mut self, number: usize, tuple: &FourTuple, bytes: &[u8], ecn: Ecn) {
        let (source, destination) = (tuple.local.addr, tuple.remote.addr);
        let there = self.node_of(&destination);
        let Some(&(_, at)) = self.neighbors[number].iter().find(|(node, _)| Some(*node) == there) else {
            return;
        };
        let link = &mut self.links[at.link];
        let way = &mut link.ways[usize::from(at.back)];
        if way.hole {
            return;
        }
        let ipv6 = matches!(source, IpAddr::V6(_));
        let (ip, least) = if ipv6 { (40, IPV6_MTU_MIN) } else { (20, 0) };
        let mtu = way.mtu.max(least);
        if bytes.len() + ip > usize::from(mtu) {
            let mss = mtu - ip as u16 - 20;
            if way.tells
                && let Some(content) = too_big(tuple, bytes, mss)
            {
                let back = &mut link.ways[usize::from(!at.back)];
                let told = Packet { source: destination, destination: source, content, damaged: false };
                if !back.hole {
                    back.path.handle_frame(self.now, told);
                }
            }
            return;
        }
        let marked = ecn == Ecn::Capable && self.rng.chance(way.mark);
        let ecn = if marked { Ecn::Experienced } else { ecn };
        let mut bytes = bytes.to_vec();
        if way.middlebox.is_some_and(|middlebox| !middlebox.handle(&mut bytes)) {
            return;
        }
        let content = Content::Segment(bytes, ecn);
        way.path.handle_frame(self.now, Packet { source, destination, content, damaged: false });
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("now", &self.now)
            .field("nodes", &self.nodes.len())
            .finish_non_exhaustive()
    }
}

/// Returns the sockets that a segment names, as its receiver sees them.
fn tuple_of(bytes: &[u8], local: IpAddr, remote: IpAddr) -> Option<FourTuple> {
    let [a, b, c, d] = *bytes.first_chunk()?;
    let (from, to) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    Some(FourTuple::new(AddrPort::new(local, to), AddrPort::new(remote, from)))
}

/// Creates a router's message about a segment that exceeds the MTU.
fn too_big(tuple: &FourTuple, bytes: &[u8], mss: u16) -> Option<Content> {
    let seq = bytes.get(4..8)?.first_chunk()?;
    Some(Content::TooBig { tuple: *tuple, seq: SeqNumber::new(u32::from_be_bytes(*seq)), mss })
}
