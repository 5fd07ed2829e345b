//! The polling thread between the receive and the transmit side of one interface (Mogul and Ramakrishnan,
//! TOCS 1997, section 6.6).
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::collections::VecDeque;

use common::{HOST, HOST_MAC, PEER, PEER_MAC, UNIT, arp_request};
use evenkeel_core::drop::QueueDrop;
use evenkeel_core::frame::{Frame, Metadata, Pool};
use evenkeel_core::host::{Config, Host};
use evenkeel_core::interface::{Burst, Effort, Interface, Properties, RxCounters, RxQueue, Seen, TxQueue};
use evenkeel_core::poll::Quota;
use evenkeel_core::receive::Architecture;
use evenkeel_core::time::Instant;
use evenkeel_core::wire::{
    EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4Packet, Icmpv4Repr, IpCidr, IpProtocol, Ipv4Packet,
    Ipv4Repr,
};

/// Frames the transmit ring holds until their buffers are reclaimed.
const TRANSMIT_RING: usize = 16;

/// An interface that always has another ping, and whose transmit ring is freed only by the host. A frame
/// that it has been given has left when the next ping arrives.
#[derive(Debug)]
struct Flooded {
    properties: Properties,
    next: Vec<u8>,
    ping: Vec<u8>,
    sent: Vec<Frame>,
    left: usize,
}

impl RxQueue for Flooded {
    fn pending(&self) -> usize {
        1
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        for done in 0..limit {
            self.left = self.sent.len();
            if burst.pool().available() == 0 {
                return done;
            }
            let goes_on = match burst.see(&self.next, &Metadata::NONE) {
                Seen::Take => {
                    let frame = burst.pool().take_copy(&self.next).unwrap();
                    burst.take(frame)
                }
                seen => seen == Seen::Discard,
            };
            self.next.clone_from(&self.ping);
            if !goes_on {
                return done + 1;
            }
        }
        limit
    }

    fn arm(&mut self) -> bool {
        true
    }

    fn counters(&self, effort: Effort) -> Option<RxCounters> {
        (effort == Effort::SystemCall).then(RxCounters::default)
    }
}

impl TxQueue for Flooded {
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, _pool: &mut Pool) -> usize {
        let count = frames.len().min(TRANSMIT_RING - self.sent.len());
        self.sent.extend(frames.drain(..count));
        count
    }

    fn unreclaimed(&self) -> Option<usize> {
        Some(self.left)
    }

    fn reclaim(&mut self, pool: &mut Pool, limit_pkts: usize) -> usize {
        let count = self.left.min(limit_pkts);
        self.left -= count;
        self.sent.drain(..count).for_each(|frame| pool.recycle(frame));
        count
    }
}

impl Interface for Flooded {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn queue(&self, _index: usize) -> &dyn RxQueue {
        self
    }

    fn queue_mut(&mut self, _index: usize) -> &mut dyn RxQueue {
        self
    }
}

fn ping() -> Vec<u8> {
    let echo = Icmpv4Repr::EchoRequest { ident: 1, seq_no: 1, data: b"again" };
    let len = echo.buffer_len();
    let ip = Ipv4Repr {
        src_addr: PEER,
        dst_addr: HOST,
        next_header: IpProtocol::Icmp,
        payload_len: len,
        hop_limit: 64,
    };
    let mut frame = vec![0; 34 + len];
    let ethernet = EthernetRepr { src_addr: PEER_MAC, dst_addr: HOST_MAC, ethertype: EthernetProtocol::Ipv4 };
    ethernet.emit(&mut EthernetFrame::new_unchecked(&mut frame[..]));
    let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
    ip.emit(&mut packet, &Default::default());
    echo.emit(&mut Icmpv4Packet::new_unchecked(packet.payload_mut()), &Default::default());
    frame
}

/// Runs `polled` under endless input; gives the frames sent, and those the output queue had no room for.
fn flood(quota: Quota) -> (u64, u64) {
    let mut host = Host::new(Config { quota, ..Config::of(Architecture::Polled) }).unwrap();
    let properties = Properties::new("flooded", HOST_MAC);
    let interface = Flooded { properties, next: arp_request(), ping: ping(), sent: Vec::new(), left: 0 };
    host.add_interface(Box::new(interface), &[IpCidr::new(HOST.into(), 24)], Instant::ZERO).unwrap();
    let mut now = Instant::ZERO;
    for _ in 0..2_000 {
        let ran = host.turn(now).unwrap();
        now += UNIT;
        host.charge(&ran, UNIT);
        host.finish(&ran, now);
    }
    host.check().unwrap();
    (host.ledger().transmitted, host.ledger().output_drops(QueueDrop::Output))
}

#[test]
fn with_a_quota_the_transmit_side_gets_its_turn() {
    let (sent, dropped) = flood(Quota::Fixed(8));
    assert!(sent > 5_000, "{sent}");
    assert_eq!(dropped, 0);
}

#[test]
fn without_a_quota_input_starves_it_and_output_stops() {
    let (sent, dropped) = flood(Quota::Unlimited);
    assert!(sent < 100, "{sent}");
    assert!(dropped > 5_000, "{dropped}");
}

#[test]
fn a_quota_beyond_the_transmit_ring_wastes_work() {
    let (sent, dropped) = flood(Quota::Fixed(64));
    assert!(dropped > sent, "{sent} sent, {dropped} dropped after all their work");
}
