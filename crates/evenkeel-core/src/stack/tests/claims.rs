//! New addresses are probed for and announced, and those who claim them too are noticed (RFC 5227, RFC 4861
//! 7.2.6).

use super::neighbors::{arp, bytes};
use super::*;
use crate::stack::AddressConflict;
use crate::wire::{ArpOperation, Ipv4Address};

const OURS: [u8; 4] = [10, 0, 0, 2];

fn announcing() -> Node {
    Node::new(2, Config { report_groups: false, announce: true, ..Config::default() })
}

/// Returns sender and target of an ARP request to all; `None` for other frames.
fn arp_of(frame: &[u8]) -> Option<([u8; 4], [u8; 4])> {
    let to_all = frame[..6] == [0xff; 6] && frame[12..14] == [8, 6] && frame[20..22] == [0, 1];
    to_all.then(|| (frame[28..32].try_into().unwrap(), frame[38..42].try_into().unwrap()))
}

/// Returns type, source and target of an NDP message.
fn ndp_of(frame: &[u8]) -> Option<(u8, [u8; 16], [u8; 16])> {
    let is = frame[12..14] == [0x86, 0xdd] && frame[20] == 58 && matches!(frame[54], 135 | 136);
    is.then(|| (frame[54], frame[22..38].try_into().unwrap(), frame[62..78].try_into().unwrap()))
}

#[test]
fn a_new_address_is_probed_for_at_once_and_announced_twice() {
    let mut node = announcing();
    let (mine, global) = (bytes(v6(2)), bytes(v6(2)));
    let first = node.sent();
    assert!(
        first.iter().filter_map(|frame| arp_of(frame)).eq([([0; 4], OURS)]),
        "a probe says nothing of us"
    );
    assert!(first.iter().filter_map(|frame| ndp_of(frame)).any(|ndp| ndp == (135, [0; 16], mine)));
    assert_eq!(node.stack.next_deadline(), Instant::from_millis(1000));
    for millis in [1000, 3000] {
        let sent = node.tick_at(Instant::from_millis(millis));
        assert!(sent.iter().filter_map(|frame| arp_of(frame)).eq([(OURS, OURS)]), "{millis}");
        let own = |&(kind, source, target): &(u8, [u8; 16], [u8; 16])| {
            kind == 136 && source == target && target == global
        };
        assert_eq!(sent.iter().filter_map(|frame| ndp_of(frame)).filter(own).count(), 1, "{millis}");
    }
    assert_eq!(node.stack.next_deadline(), Instant::NEVER);
    node.check();
}

#[test]
fn an_address_that_is_taken_away_is_not_announced() {
    let mut node = announcing();
    node.sent();
    assert!(node.stack.remove_address(LAN, IpCidr::new(v4(2), 24)));
    let sent = node.tick_at(Instant::from_millis(1000));
    assert!(sent.iter().all(|frame| arp_of(frame).is_none()), "{sent:?}");
}

fn claim(from: u8) -> Vec<u8> {
    arp(ArpOperation::Reply, from, OURS, [10, 0, 0, 9])
}

#[test]
fn who_had_the_address_first_is_reported_and_not_announced_against() {
    let mut node = announcing();
    node.sent();
    node.now = Instant::from_millis(300);
    node.receive(&claim(9));
    let conflict = AddressConflict { interface: LAN, address: v4(2), hardware: mac(9) };
    assert_eq!((node.stack.next_conflict(), node.stack.next_conflict()), (Some(conflict), None));
    let sent = [node.sent(), node.tick_at(Instant::from_millis(5000))].concat();
    assert!(sent.iter().all(|frame| arp_of(frame).is_none()), "{sent:?}");
    node.check();
}

#[test]
fn an_address_in_use_is_defended_and_the_conflict_reported_every_ten_seconds_at_most() {
    let mut node = announcing();
    for millis in [1000, 3000] {
        node.tick_at(Instant::from_millis(millis));
    }
    for (millis, news) in [(20_000, true), (20_001, false), (29_000, false), (30_001, true)] {
        node.now = Instant::from_millis(millis);
        node.receive(&claim(9));
        let defended = node.sent().iter().filter_map(|frame| arp_of(frame)).eq([(OURS, OURS)]);
        assert_eq!((node.stack.next_conflict().is_some(), defended), (news, news), "{millis}");
    }
    node.check();
}

#[test]
fn a_conflict_over_neighbour_discovery_is_reported_too() {
    let mut node = Node::quiet(2);
    let ours = bytes(v6(2));
    let advertisement = |from: u8| {
        let option = [2, 1, 2, 0, 0, 0, 0, from];
        let message = [&[136, 0, 0, 0, 0x20, 0, 0, 0], &ours[..], &option].concat();
        packet_v6(58, 255, &icmp_bytes(Some(v6(2)), v6(1), message))
    };
    // A bridge that gives back what we said is nobody else.
    node.receive(&advertisement(2));
    assert_eq!(node.stack.next_conflict(), None);
    node.receive(&advertisement(9));
    let conflict = AddressConflict { interface: LAN, address: v6(2), hardware: mac(9) };
    assert_eq!((node.stack.next_conflict(), node.sent().len()), (Some(conflict), 0), "it is not to announce");
    node.check();
}

/// A probe asks, and a host that is asked has it still.
#[test]
fn questions_about_our_address_are_no_claims() {
    let mut node = announcing();
    node.receive(&arp(ArpOperation::Request, 9, [0; 4], OURS));
    node.receive(&arp(ArpOperation::Request, 9, [10, 0, 0, 9], OURS));
    node.receive(&arp(ArpOperation::Reply, 9, [10, 0, 0, 9], OURS));
    assert_eq!(node.stack.next_conflict(), None);
    assert_eq!(Ipv4Address::from(OURS), Ipv4Address::new(10, 0, 0, 2));
}

/// Of all that strangers can claim, no more is kept than there are addresses and places to report.
#[test]
fn a_flood_of_claims_is_bounded() {
    let mut node = announcing();
    for from in 0..200 {
        node.now = Instant::from_millis(u64::from(from) * 11_000);
        node.receive(&claim(if from == 2 { 3 } else { from }));
    }
    assert!(core::iter::from_fn(|| node.stack.next_conflict()).count() <= 16);
    node.sent();
    node.check();
}

#[test]
fn all_addresses_are_announced_again_by_another_hardware_address() {
    let mut node = announcing();
    for millis in [1000, 3000] {
        node.tick_at(Instant::from_millis(millis));
    }
    node.with(|stack, io| {
        stack.set_hardware(LAN, mac(7), io);
        stack.announce_again(LAN, io);
    });
    let sent = [node.sent(), node.tick_at(Instant::from_millis(4000))].concat();
    let announced = |frame: &&Vec<u8>| arp_of(frame) == Some((OURS, OURS)) && frame[22..28] == mac(7).0;
    assert_eq!(sent.iter().filter(announced).count(), 1, "{sent:?}");
    let link_locals = node.stack.local_addresses().filter(|address| match address {
        IpAddress::Ipv6(address) => address.is_unicast_link_local(),
        IpAddress::Ipv4(_) => false,
    });
    assert_eq!(link_locals.count(), 1, "that of the earlier hardware address is gone");
    node.check();
}
