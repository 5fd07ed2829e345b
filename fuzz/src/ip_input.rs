//! IP input with reassembly and neighbour caches: the counters add up, no buffer leaks, every bound holds,
//! and deadlines advance.
//!
//! Demultiplexing agrees with it: a datagram comes out for the socket in whose channel the frame would have
//! waited. Otherwise a flood could fill one socket's channel and be delivered to another.

use std::collections::VecDeque;

use evenkeel_core::channel::ChannelId;
use evenkeel_core::demux::{Binding, Change, Class, DemuxTable};
use evenkeel_core::drop::UdpDrop;
use evenkeel_core::frame::{Frame, Pool};
use evenkeel_core::internals::{Io, Received, RouteHandle, Source, Stack};
use evenkeel_core::ledger::Ledger;
use evenkeel_core::stack::{Config, InterfaceId, IpEndpoint};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr};

use super::frames::{FROM_V4, FROM_V6, GROUP, GROUP_V6, HOST, HOST_MAC, HOST_V6, PORTS, frame, noise};
use super::{Script, sent};

const LAN: InterfaceId = InterfaceId(0);
const POOL_PKTS: usize = 96;
const CONTROL: ChannelId = ChannelId(1000);

/// Returns limits so low that scripts of a few frames reach them.
fn limits() -> Config {
    Config {
        neighbors: 4,
        pending_per_neighbor_pkts: 3,
        pending_pkts: 5,
        reassembly_packets: 3,
        fragments_per_packet: 6,
        fragment_pkts: 10,
        icmp_error_burst: 3,
        groups: 3,
        path_mtus: 2,
        ..Config::default()
    }
}

/// Returns a table with every port bound to its own channel.
fn table() -> DemuxTable {
    let mut table = DemuxTable::new(1);
    table.apply(Change::Hardware(HOST_MAC));
    table.apply(Change::Bind(Binding::Control, CONTROL));
    for (id, &port) in (0..).zip(&PORTS) {
        table.apply(Change::Bind(Binding::Udp { address: None, port }, ChannelId(id)));
    }
    table
}

struct Node {
    stack: Stack,
    table: DemuxTable,
    pool: Pool,
    ledger: Ledger,
    out: VecDeque<(InterfaceId, Frame)>,
    now: Instant,
}

/// Runs the script; returns the counters, which show how far it got.
pub fn run(input: &[u8]) -> Ledger {
    let mut script = Script(input);
    let mut node = Node::new();
    while !script.is_over() {
        node.act(&mut script);
        node.check();
    }
    node.end();
    node.ledger
}

impl Node {
    fn new() -> Self {
        let mut node = Self {
            stack: Stack::new(limits(), 1),
            table: table(),
            pool: Pool::new(POOL_PKTS),
            ledger: Ledger::default(),
            out: VecDeque::new(),
            now: Instant::ZERO,
        };
        node.stack.add_interface(HOST_MAC, 1500);
        for cidr in [IpCidr::new(HOST.into(), 24), IpCidr::new(HOST_V6.into(), 64)] {
            node.with(|stack, io| stack.add_address(LAN, cidr, io));
        }
        for (all, gateway) in [
            (IpCidr::new(IpAddress::v4(0, 0, 0, 0), 0), FROM_V4[1].into()),
            (IpCidr::new(IpAddress::v6(0, 0, 0, 0, 0, 0, 0, 0), 0), FROM_V6[0].into()),
        ] {
            node.stack.add_route(all, gateway, LAN).expect("the table has room");
        }
        node.follow_addresses();
        node
    }

    fn with<T>(&mut self, work: impl FnOnce(&mut Stack, &mut Io<'_>) -> T) -> T {
        let mut io = Io { now: self.now, pool: &mut self.pool, ledger: &mut self.ledger, out: &mut self.out };
        work(&mut self.stack, &mut io)
    }

    fn act(&mut self, script: &mut Script<'_>) {
        match script.byte() % 10 {
            0..=4 => {
                let made = frame(script);
                self.receive(&made.bytes, script.flag());
            }
            5 => {
                let bytes = noise(script);
                self.receive(&bytes, false);
            }
            6 => self.pass(script),
            7 => self.send(script),
            8 => {
                let group = if script.flag() { GROUP.into() } else { GROUP_V6.into() };
                // Refusals are valid results, too.
                let _ = self.with(|stack, io| stack.join(group, LAN, io));
                self.follow_addresses();
            }
            _ => {
                let group = if script.flag() { GROUP.into() } else { GROUP_V6.into() };
                let _ = self.with(|stack, io| stack.leave(group, LAN, io));
                self.follow_addresses();
            }
        }
        self.transmit();
    }

    fn receive(&mut self, bytes: &[u8], refuse: bool) {
        let Some(frame) = self.pool.take_copy(bytes) else { return };
        self.ledger.received += 1;
        let class = self.table.classify(bytes);
        let datagram = match self.with(|stack, io| stack.input(LAN, frame, io)) {
            Some(Received::Datagram(datagram)) => datagram,
            Some(Received::Transit(transit)) => panic!("a host forwards nothing: {transit:?}"),
            Some(Received::Segment(packet)) => return packet.consume(&mut self.ledger, &mut self.pool),
            Some(Received::IcmpError(_) | Received::Control) | None => return,
        };
        assert_eq!(datagram.chunks().map(<[u8]>::len).sum::<usize>(), datagram.len());
        assert!(self.stack.is_local(&datagram.destination().addr), "{datagram:?}");
        assert!(!datagram.source().addr.is_multicast(), "{datagram:?}");
        let IpEndpoint { addr, port } = datagram.destination();
        let expected = self.table.udp(&addr, port).unwrap_or(CONTROL);
        match class {
            Class::FirstFragment(channel, _) => assert_eq!(channel, expected, "{datagram:?}"),
            class if datagram.frames() == 1 => assert_eq!(class, Class::Channel(expected), "{datagram:?}"),
            _ => {}
        }
        if refuse {
            self.with(|stack, io| stack.port_unreachable(&datagram, io));
            self.ledger.drop_input(UdpDrop::NoSocket, datagram.frames());
        } else {
            self.ledger.delivered += datagram.frames();
        }
        datagram.recycle(&mut self.pool);
    }

    fn follow_addresses(&mut self) {
        let current: Vec<IpAddress> = self.stack.local_addresses().collect();
        let gone: Vec<IpAddress> = self.table.addresses().filter(|a| !current.contains(a)).collect();
        gone.into_iter().for_each(|address| self.table.apply(Change::RemoveAddress(address)));
        current.into_iter().for_each(|address| self.table.apply(Change::AddAddress(address)));
    }

    fn pass(&mut self, script: &mut Script<'_>) {
        let steps = [1, 1_000, 10, 100, 30_000, 5_000, 600_000].map(Duration::from_millis);
        self.now += script.pick(&steps);
        self.tick();
    }

    fn tick(&mut self) {
        if self.now >= self.stack.next_deadline() {
            self.with(|stack, io| stack.tick(io));
            assert!(self.stack.next_deadline() > self.now, "what was due has been done");
        }
    }

    fn send(&mut self, script: &mut Script<'_>) {
        let to = if script.flag() { script.pick(&FROM_V4).into() } else { script.pick(&FROM_V6).into() };
        let to = IpEndpoint::new(to, script.pick(&PORTS));
        let payload = vec![0; usize::from(script.byte()) * 24];
        let source = Source { port: PORTS[0], ..Source::default() };
        let _ = self.with(|stack, io| stack.send_udp(source, to, &payload, &mut RouteHandle::default(), io));
    }

    fn transmit(&mut self) {
        while let Some((_, frame)) = self.out.pop_front() {
            sent::check(frame.bytes());
            self.ledger.transmitted += 1;
            self.pool.recycle(frame);
        }
    }

    fn check(&self) {
        let (reassembling, held) = (self.stack.reassembling(), self.stack.held());
        self.ledger.check(reassembling, held).expect("the counters add up");
        let in_use = (reassembling + held) as usize + self.out.len();
        assert_eq!(self.pool.available() + in_use, self.pool.capacity(), "no buffer leaks");
        assert!(reassembling as usize <= limits().fragment_pkts && held as usize <= limits().pending_pkts);
    }

    /// Checks that the stack, left alone, drops everything that it holds.
    fn end(&mut self) {
        for _ in 0..200 {
            self.now += Duration::from_secs(10);
            self.tick();
            self.transmit();
        }
        self.check();
        assert_eq!((self.stack.reassembling(), self.stack.held()), (0, 0), "nothing is held for ever");
    }
}
