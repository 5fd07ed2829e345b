//! IGMP and MLD: what is reported, and when.

use super::*;
use crate::drop::IpDrop;
use crate::stack::error::GroupError;
use crate::time::Duration;
use crate::wire::{IgmpPacket, Ipv4Packet};

const GROUP: [u8; 4] = [239, 1, 2, 3];

fn group_v4() -> IpAddress {
    IpAddress::Ipv4(GROUP.into())
}

fn group_v6() -> IpAddress {
    IpAddress::v6(0xff05, 0, 0, 0, 0, 0, 1, 3)
}

/// Creates a reporting node that has already reported its own addresses.
fn reporting() -> Node {
    let mut node = Node::new(2, Config::default());
    while node.stack.next_deadline() != Instant::NEVER {
        let due = node.stack.next_deadline();
        node.tick_at(due.max(node.now));
    }
    node.check();
    node
}

fn join(node: &mut Node, group: IpAddress) -> Result<(), GroupError> {
    node.with(|stack, io| stack.join(group, LAN, io))
}

fn leave(node: &mut Node, group: IpAddress) -> Result<(), GroupError> {
    node.with(|stack, io| stack.leave(group, LAN, io))
}

/// Lets time pass until nothing is due; gives what was sent, and when.
fn run(node: &mut Node) -> Vec<(Instant, Vec<u8>)> {
    let mut sent: Vec<_> = node.sent().into_iter().map(|frame| (node.now, frame)).collect();
    while node.stack.next_deadline() != Instant::NEVER {
        let due = node.stack.next_deadline().max(node.now);
        sent.extend(node.tick_at(due).into_iter().map(|frame| (due, frame)));
    }
    node.check();
    sent
}

fn query_v4(group: [u8; 4], code: u8, version_three: bool) -> Vec<u8> {
    let mut message = vec![0x11, code, 0, 0];
    message.extend(group);
    if version_three {
        message.extend([2, 125, 0, 0]);
    }
    let mut frame = packet_v4(2, 1, 0, &[0x94, 4, 0, 0], &icmp_bytes(None, v4(1), message));
    frame[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 1]);
    edit_v4(frame, |packet| packet[16..20].copy_from_slice(&[224, 0, 0, 1]))
}

fn query_v6(millis: u16, version_two: bool, hop_limit: u8) -> Vec<u8> {
    let router = IpAddress::v6(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    let all: core::net::Ipv6Addr = "ff02::1".parse().unwrap();
    let mut message = vec![130, 0, 0, 0];
    message.extend(millis.to_be_bytes());
    message.extend([0; 18]);
    if version_two {
        message.extend([2, 125, 0, 0]);
    }
    let alert = [58, 0, 5, 2, 0, 0, 1, 0];
    let mut frame =
        packet_v6(0, hop_limit, &[&alert[..], &icmp_bytes(Some(all.into()), router, message)].concat());
    frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
    frame[22..38].copy_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    frame[38..54].copy_from_slice(&all.octets());
    frame
}

#[test]
fn joining_is_reported_twice_and_leaving_once() {
    let mut node = reporting();
    join(&mut node, group_v4()).unwrap();
    join(&mut node, group_v4()).unwrap();
    let sent = run(&mut node);
    assert_eq!(sent.len(), 2, "a report and its repetition");
    assert!(sent[1].0.since(sent[0].0) <= Duration::from_secs(1));
    let frame = &sent[0].1;
    assert_eq!(frame[..6], [1, 0, 0x5e, 0, 0, 22]);
    let packet = Ipv4Packet::new_checked(&frame[14..]).unwrap();
    assert!(packet.verify_checksum());
    assert_eq!((packet.hop_limit(), packet.header_len()), (1, 24));
    assert_eq!(frame[34..38], [0x94, 4, 0, 0], "router alert");
    // Type 0x22, one record: change to exclude nothing, that is, to everything.
    assert_eq!(packet.payload()[4..], [0, 0, 0, 1, 4, 0, 0, 0, 239, 1, 2, 3]);
    assert_eq!(
        (packet.payload()[0], crate::tcp::Checksum::default().add(packet.payload()).finish()),
        (0x22, 0)
    );
    leave(&mut node, group_v4()).unwrap();
    assert!(node.stack.is_local(&group_v4()), "joined twice, left once");
    assert!(run(&mut node).is_empty());
    leave(&mut node, group_v4()).unwrap();
    assert_eq!(run(&mut node)[0].1[14 + 24 + 8], 3, "change to include nothing");
    assert_eq!(leave(&mut node, group_v4()), Err(GroupError::NotJoined));
    assert!(!node.stack.is_local(&group_v4()));
}

#[test]
fn mld_reports_are_what_smoltcp_reads() {
    use crate::wire::{Icmpv6Packet, MldAddressRecord, MldRecordType, MldRepr};
    let mut node = reporting();
    join(&mut node, group_v6()).unwrap();
    let frame = &run(&mut node)[0].1;
    assert_eq!((&frame[..6], frame[14 + 7]), (&[0x33, 0x33, 0, 0, 0, 0x16][..], 1));
    assert_eq!(frame[54..62], [58, 0, 5, 2, 0, 0, 1, 0], "router alert");
    let packet = Icmpv6Packet::new_checked(&frame[62..]).unwrap();
    let link_local: core::net::Ipv6Addr = "fe80::ff:fe00:2".parse().unwrap();
    assert_eq!(frame[22..38], link_local.octets());
    assert!(packet.verify_checksum(&link_local, &"ff02::16".parse().unwrap()));
    let MldRepr::Report { nr_mcast_addr_rcrds, data } = MldRepr::parse(&packet).unwrap() else {
        panic!("a report")
    };
    let record = MldAddressRecord::new_checked(data).unwrap();
    assert_eq!((nr_mcast_addr_rcrds, record.record_type()), (1, MldRecordType::ChangeToExclude));
    assert_eq!((IpAddress::Ipv6(record.mcast_addr()), record.num_srcs()), (group_v6(), 0));
}

#[test]
fn the_groups_of_our_addresses_are_reported_and_never_left() {
    let mut node = Node::new(2, Config::default());
    let sent = run(&mut node);
    // Both addresses end alike, so they share one solicited-node group.
    assert_eq!(sent.len(), 2);
    let group = IpAddress::v6(0xff02, 0, 0, 0, 0, 1, 0xff00, 2);
    assert!(node.stack.is_local(&group));
    assert_eq!(leave(&mut node, group), Err(GroupError::NotJoined));
    join(&mut node, group).unwrap();
    leave(&mut node, group).unwrap();
    assert!(node.stack.is_local(&group) && run(&mut node).is_empty());
}

#[test]
fn queries_are_answered_in_time_and_in_the_querier_s_version() {
    let mut node = reporting();
    for group in [group_v4(), group_v6()] {
        join(&mut node, group).unwrap();
    }
    run(&mut node);
    node.now += Duration::from_secs(10);
    let start = node.now;
    // Version 3 asks with 10 s, code 100: one answer, "is member".
    assert!(node.receive(&query_v4([0; 4], 100, true)).is_none());
    let sent = run(&mut node);
    assert_eq!((sent.len(), sent[0].1[14 + 24], sent[0].1[14 + 24 + 8]), (1, 0x22, 2));
    assert!(sent[0].0.since(start) <= Duration::from_secs(10));
    // A query for another group is none of ours; one for ours is.
    assert!(node.receive(&query_v4([239, 9, 9, 9], 100, true)).is_none());
    assert!(run(&mut node).is_empty());
    assert!(node.receive(&query_v4(GROUP, 100, true)).is_none());
    assert_eq!(run(&mut node).len(), 1);
    // Version 2: an answer of version 2, to the group; leaving says so to all routers.
    assert!(node.receive(&query_v4([0; 4], 50, false)).is_none());
    let sent = run(&mut node);
    let igmp = IgmpPacket::new_checked(&sent[0].1[14 + 24..]).unwrap();
    assert!(igmp.verify_checksum());
    assert_eq!((sent[0].1[14 + 24], igmp.group_addr()), (0x16, GROUP.into()));
    assert_eq!(sent[0].1[30..34], GROUP);
    leave(&mut node, group_v4()).unwrap();
    let sent = run(&mut node);
    assert_eq!((sent[0].1[14 + 24], &sent[0].1[30..34]), (0x17, &[224, 0, 0, 2][..]));
    // MLD, version 2 and then 1. Two groups: the one joined, and our addresses'.
    assert!(node.receive(&query_v6(1000, true, 1)).is_none());
    let sent = run(&mut node);
    assert!(sent.len() == 2 && sent.iter().all(|(_, frame)| frame[62] == 143 && frame[62 + 8] == 2));
    assert!(node.receive(&query_v6(1000, false, 1)).is_none());
    let sent = run(&mut node);
    assert!(sent.len() == 2 && sent.iter().all(|(_, frame)| frame[62] == 131 && frame.len() == 62 + 24));
    // The old querier has not been heard of for long.
    node.now += Duration::from_secs(300);
    assert!(node.receive(&query_v6(1000, true, 1)).is_none());
    assert!(run(&mut node).iter().all(|(_, frame)| frame[62] == 143));
    assert_eq!(node.ledger.drops().count(), 0);
}

#[test]
fn bad_queries_are_dropped() {
    let mut bad_sum = query_v4([0; 4], 100, true);
    bad_sum[14 + 24 + 1] ^= 1;
    let frames = [bad_sum, query_v4([10, 0, 0, 9], 100, true), query_v6(1000, true, 64)];
    let mut node = reporting();
    assert_drops(&mut node, &frames, &[(IpDrop::BadIcmp.into(), 3)]);
    assert_eq!(node.stack.next_deadline(), Instant::NEVER);
}

#[test]
fn packets_to_a_group_come_in_while_it_is_joined() {
    let mut node = Node::quiet(2);
    let payload = udp_bytes(v4(1), group_v4(), b"to all");
    let frame = edit_v4(packet_v4(17, 1, 0, &[], &payload), |packet| packet[16..20].copy_from_slice(&GROUP));
    let frame = [&[1, 0, 0x5e, 1, 2, 3], &frame[6..]].concat();
    assert!(node.receive(&frame).is_none());
    join(&mut node, group_v4()).unwrap();
    assert_eq!(node.receive_udp(&frame).unwrap().1.addr, group_v4());
    leave(&mut node, group_v4()).unwrap();
    assert!(node.receive(&frame).is_none());
    assert_eq!(node.ledger.input_drops(IpDrop::NotLocal), 2);
    assert!(node.sent().is_empty(), "this node reports nothing");
    node.check();
}

#[test]
fn groups_are_bounded_and_must_be_groups() {
    let mut node = Node::new(2, Config { groups: 2, report_groups: false, ..Config::default() });
    let group = |n| IpAddress::v4(239, 0, 0, n);
    assert_eq!(join(&mut node, v4(1)), Err(GroupError::NotMulticast));
    join(&mut node, group(1)).unwrap();
    join(&mut node, group(2)).unwrap();
    assert_eq!(join(&mut node, group(3)), Err(GroupError::Full));
    join(&mut node, group(2)).unwrap();
    join(&mut node, IpAddress::v4(224, 0, 0, 1)).unwrap();
    let absent = node.with(|stack, io| stack.join(group(1), InterfaceId(7), io));
    assert_eq!(absent, Err(GroupError::Interface));
}
