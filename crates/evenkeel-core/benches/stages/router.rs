//! The stages of a router.

use std::collections::VecDeque;

use evenkeel_core::frame::{Frame, Pool};
use evenkeel_core::internals::{Io, Received, Stack};
use evenkeel_core::ledger::Ledger;
use evenkeel_core::stack::{Config, InterfaceId, Route, Via};
use evenkeel_core::time::Instant;
use evenkeel_core::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address, Ipv4Packet};

use crate::batch::{BATCH, Batch, PAYLOAD};
use crate::common::{HOST, HOST_MAC, PEER, PEER_MAC, udp_to};

const LAN: InterfaceId = InterfaceId(0);
const WAN: InterfaceId = InterfaceId(1);
const WAN_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 1, 2]);

/// Forwards a packet from Ethernet header to Ethernet header, through a table of so many routes. Every
/// packet takes another route, so that the processor's caches do not help.
pub(crate) struct Forward {
    frame: Vec<u8>,
    arrived: Vec<Frame>,
    stack: Stack,
    pool: Pool,
    ledger: Ledger,
    out: VecDeque<(InterfaceId, Frame)>,
    routes: u32,
    next: u32,
}

/// Prefixes like the Internet's: most of 24 bits, spread over the unicast addresses.
fn prefix(number: u32) -> (Ipv4Address, u8) {
    const LENGTHS: [u8; 8] = [24, 24, 24, 24, 24, 22, 20, 16];
    let mixed = number.wrapping_mul(0x9e37_79b1);
    let first = 20 + mixed % 100;
    (Ipv4Address::from_bits(first << 24 | mixed >> 8), LENGTHS[number as usize % LENGTHS.len()])
}

impl Forward {
    pub(crate) fn over(routes: u32) -> Self {
        let config = Config { forwarding: true, report_groups: false, ..Config::default() };
        let mut router = Self {
            frame: udp_to(HOST_MAC, PEER, 9, &[0; PAYLOAD]),
            arrived: Vec::with_capacity(BATCH),
            stack: Stack::new(config, 0),
            pool: Pool::new(2 * BATCH),
            ledger: Ledger::default(),
            out: VecDeque::with_capacity(BATCH),
            routes,
            next: 0,
        };
        let gateway = IpAddress::v4(198, 51, 100, 1);
        for (mac, address) in [(HOST_MAC, HOST.into()), (WAN_MAC, IpAddress::v4(198, 51, 100, 2))] {
            let interface = router.stack.add_interface(mac, 1500);
            let Self { stack, pool, ledger, out, .. } = &mut router;
            let mut io = Io { now: Instant::ZERO, pool, ledger, out };
            stack.add_address(interface, IpCidr::new(address, 24), &mut io);
            if interface == WAN {
                stack.set_neighbor(WAN, gateway, PEER_MAC, &mut io).unwrap();
            }
        }
        for number in 0..routes {
            let (address, length) = prefix(number);
            let route =
                Route { to: IpCidr::new(address.into(), length), via: Via::Gateway(WAN, gateway), metric: 0 };
            router.stack.set_route(route).unwrap();
        }
        router
    }
}

impl Batch for Forward {
    fn prepare(&mut self) {
        while let Some((_, frame)) = self.out.pop_front() {
            self.pool.recycle(frame);
        }
        for _ in 0..BATCH {
            self.next = (self.next.wrapping_add(7919)) % self.routes;
            let mut packet = Ipv4Packet::new_unchecked(&mut self.frame[14..]);
            packet.set_dst_addr(prefix(self.next).0);
            packet.fill_checksum();
            self.arrived.extend(self.pool.take_copy(&self.frame));
        }
    }

    fn run(&mut self) {
        while let Some(frame) = self.arrived.pop() {
            let Self { stack, pool, ledger, out, .. } = self;
            let mut io = Io { now: Instant::ZERO, pool, ledger, out };
            let Some(Received::Transit(transit)) = stack.input(LAN, frame, &mut io) else { panic!() };
            stack.forward(transit, &mut io);
        }
        assert_eq!(self.out.len(), BATCH, "all leave");
    }
}
