//! ARP, NDP and the neighbour cache.

use super::*;
use crate::drop::{IpDrop, LinkDrop};
use crate::time::Duration;
use crate::wire::{ArpOperation, ArpPacket, ArpRepr, Ipv4Address};

pub(super) fn arp(operation: ArpOperation, from: u8, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let packet = ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: mac(from),
        source_protocol_addr: Ipv4Address::from(sender),
        target_hardware_addr: EthernetAddress::default(),
        target_protocol_addr: Ipv4Address::from(target),
    };
    let mut bytes = vec![0; packet.buffer_len()];
    packet.emit(&mut ArpPacket::new_unchecked(&mut bytes));
    let to = if operation == ArpOperation::Request { EthernetAddress::BROADCAST } else { mac(2) };
    ethernet(to, mac(from), 0x0806, &bytes)
}

fn request(from: u8) -> Vec<u8> {
    arp(ArpOperation::Request, from, [10, 0, 0, from], [10, 0, 0, 2])
}

/// Returns an NDP message from node 1 to node 2 with this hop limit.
fn ndp(hop_limit: u8, message: &[u8]) -> Vec<u8> {
    packet_v6(58, hop_limit, &icmp_bytes(Some(v6(2)), v6(1), message.to_vec()))
}

pub(super) fn bytes(address: IpAddress) -> [u8; 16] {
    let IpAddress::Ipv6(address) = address else { unreachable!("an IPv6 address") };
    address.octets()
}

fn solicitation(target: IpAddress, options: &[u8]) -> Vec<u8> {
    [&[135, 0, 0, 0, 0, 0, 0, 0], &bytes(target)[..], options].concat()
}

#[test]
fn an_arp_request_is_answered_and_its_sender_remembered() {
    let mut node = Node::quiet(2);
    assert!(node.receive(&request(1)).is_none());
    let sent = node.sent();
    let ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr,
        source_protocol_addr,
        target_hardware_addr,
        ..
    } = ArpRepr::parse(&ArpPacket::new_checked(&sent[0][14..]).unwrap()).unwrap()
    else {
        panic!("ARP of Ethernet and IPv4");
    };
    assert_eq!(
        (operation, source_hardware_addr, target_hardware_addr),
        (ArpOperation::Reply, mac(2), mac(1))
    );
    assert_eq!(source_protocol_addr, Ipv4Address::new(10, 0, 0, 2));
    node.send(v4(1), b"x").unwrap();
    assert_eq!(node.sent()[0][..6], mac(1).0, "no question needed");
    // A probe (RFC 5227) is answered and not remembered.
    assert!(node.receive(&arp(ArpOperation::Request, 7, [0; 4], [10, 0, 0, 2])).is_none());
    assert_eq!((node.sent().len(), node.stack.neighbors.len()), (1, 1));
    node.check();
}

#[test]
fn arp_that_is_bad_or_for_others_is_counted() {
    let mut short = request(1);
    short.truncate(14 + 20);
    let mut odd_lengths = request(1);
    odd_lengths[14 + 4] = 255;
    let frames = [
        short,
        odd_lengths,
        arp(ArpOperation::Request, 1, [10, 0, 0, 1], [10, 0, 0, 3]),
        arp(ArpOperation::Request, 1, [192, 0, 2, 1], [10, 0, 0, 2]),
        arp(ArpOperation::Request, 1, [10, 0, 0, 2], [10, 0, 0, 2]),
        arp(ArpOperation::Request, 1, [10, 0, 0, 255], [10, 0, 0, 2]),
        arp(ArpOperation::Request, 3, [10, 0, 0, 3], [10, 0, 0, 3]),
    ];
    let mut node = Node::quiet(2);
    assert_drops(&mut node, &frames, &[(LinkDrop::BadArp.into(), 7)]);
    assert_eq!((node.stack.neighbors.len(), node.sent().len()), (0, 0));
}

#[test]
fn a_neighbor_is_asked_for_three_times_and_then_given_up() {
    for address in [v4(1), v6(1)] {
        let mut node = Node::quiet(2);
        for _ in 0..5 {
            node.send(address, b"waits").unwrap();
        }
        assert_eq!((node.sent().len(), node.stack.held()), (1, 5));
        for second in 1..3 {
            assert_eq!(node.stack.next_deadline(), Instant::from_millis(second * 1000));
            assert_eq!(node.tick_at(Instant::from_millis(second * 1000)).len(), 1);
            node.check();
        }
        assert_eq!(node.tick_at(Instant::from_millis(3000)).len(), 0);
        assert_eq!((node.stack.held(), node.ledger.output_drops(IpDrop::Unresolved)), (0, 5));
        assert_eq!((node.stack.neighbors.len(), node.stack.next_deadline()), (0, Instant::NEVER));
        node.check();
    }
}

/// A SYN is repeated after one and three seconds, the second time just before those that wait are given up.
#[test]
fn for_what_came_after_the_last_question_a_neighbor_is_asked_for_anew() {
    for address in [v4(1), v6(1)] {
        let mut node = Node::quiet(2);
        let drops = |node: &Node| node.ledger.output_drops(IpDrop::Unresolved);
        node.send(address, b"first").unwrap();
        node.send(address, b"second").unwrap();
        node.sent();
        for second in 1..3 {
            assert_eq!(node.tick_at(Instant::from_millis(second * 1000)).len(), 1);
        }
        node.send(address, b"late").unwrap();
        for second in 3..6 {
            assert_eq!(node.tick_at(Instant::from_millis(second * 1000)).len(), 1, "{second}");
            assert_eq!((node.stack.held(), drops(&node)), (1, 2));
            node.check();
        }
        assert_eq!(node.tick_at(Instant::from_millis(6000)).len(), 0);
        assert_eq!((node.stack.held(), drops(&node), node.stack.neighbors.len()), (0, 3, 0));
        node.check();
    }
}

#[test]
fn too_many_waiting_frames_drop_the_oldest() {
    let limits =
        Config { report_groups: false, pending_per_neighbor_pkts: 3, pending_pkts: 4, ..Config::default() };
    let (mut a, mut b) = (Node::new(2, limits), Node::quiet(1));
    for n in 0..5 {
        a.send(v4(1), &[n]).unwrap();
        a.check();
    }
    assert_eq!((a.stack.held(), a.ledger.output_drops(IpDrop::Unresolved)), (3, 2));
    for n in 10..14 {
        a.send(v4(n), &[n]).unwrap();
        a.check();
        assert!(a.stack.held() <= 4);
    }
    for n in 5..7 {
        a.send(v4(1), &[n]).unwrap();
        a.check();
    }
    assert_eq!(exchange(&mut a, &mut b), [[5], [6]], "the latest got through");
}

#[test]
fn an_entry_in_use_is_probed_when_old_and_forgotten_without_an_answer() {
    for address in [v4, v6] {
        let (mut a, mut b) = (Node::quiet(1), Node::quiet(2));
        introduce(&mut a, &mut b);
        // Node 1 asked, and had its answer, at once.
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        a.now = at(15);
        a.send(address(2), b"x").unwrap();
        assert_eq!((a.sent().len(), a.stack.next_deadline()), (1, Instant::NEVER), "still fresh");
        a.now = at(46);
        a.send(address(2), b"x").unwrap();
        assert_eq!((a.sent().len(), a.stack.next_deadline()), (1, at(51)), "used, but doubted");
        let probe = a.tick_at(at(51));
        assert_eq!(probe[0][..6], mac(2).0, "asks the one who had it");
        assert!(b.receive(&probe[0]).is_none());
        let answer = b.sent();
        assert!(a.receive(&answer[0]).is_none());
        assert_eq!(a.stack.next_deadline(), Instant::NEVER, "confirmed");
        a.now = at(97);
        a.send(address(2), b"x").unwrap();
        for second in 102..106 {
            a.tick_at(at(second));
        }
        a.send(address(2), b"x").unwrap();
        assert_eq!(a.stack.held(), 1, "forgotten, so asked for anew");
        a.check();
    }
}

#[test]
fn an_answer_to_a_probe_need_not_repeat_the_hardware_address() {
    let (mut a, mut b) = (Node::quiet(1), Node::quiet(2));
    introduce(&mut a, &mut b);
    b.now += Duration::from_secs(46);
    b.send(v6(1), b"x").unwrap();
    b.sent();
    let due = b.stack.next_deadline();
    assert_eq!(b.tick_at(due).len(), 1, "a probe");
    // As Linux answers it (RFC 4861 4.4 allows the option to be left out).
    let answer = ndp(255, &[&[136, 0, 0, 0, 0x40, 0, 0, 0], &bytes(v6(1))[..]].concat());
    assert!(b.receive(&answer).is_none());
    assert_eq!(b.stack.next_deadline(), Instant::NEVER);
    b.send(v6(1), b"x").unwrap();
    assert_eq!(b.sent()[0][..6], mac(1).0);
    b.check();
}

#[test]
fn unsolicited_news_changes_entries_but_makes_none() {
    let (mut a, mut b) = (Node::quiet(1), Node::quiet(2));
    let gratuitous = |hardware| arp(ArpOperation::Request, hardware, [10, 0, 0, 1], [10, 0, 0, 1]);
    let advert = |flags, hardware| {
        ndp(255, &[&[136, 0, 0, 0, flags, 0, 0, 0], &bytes(v6(1))[..], &[2, 1], &mac(hardware).0].concat())
    };
    assert!(b.receive(&gratuitous(7)).is_none());
    assert!(b.receive(&arp(ArpOperation::Reply, 7, [10, 0, 0, 1], [10, 0, 0, 2])).is_none());
    assert!(b.receive(&advert(0x60, 7)).is_none());
    assert_eq!(b.stack.neighbors.len(), 0);
    introduce(&mut a, &mut b);
    assert!(b.receive(&gratuitous(7)).is_none());
    assert!(b.receive(&advert(0x00, 8)).is_none());
    let sent_to = |b: &mut Node, address| {
        b.send(address, b"x").unwrap();
        b.sent()[0][..6].to_vec()
    };
    assert_eq!(sent_to(&mut b, v4(1)), mac(7).0);
    assert_eq!(sent_to(&mut b, v6(1)), mac(1).0, "no right to override");
    assert!(b.receive(&advert(0x20, 8)).is_none());
    assert_eq!(sent_to(&mut b, v6(1)), mac(8).0);
    b.check();
}

/// Returns an advertisement of node 1 with these flags, and optionally a hardware address.
fn advertisement(flags: u8, hardware: Option<u8>) -> Vec<u8> {
    let option = hardware.map_or(Vec::new(), |hardware| [&[2, 1], &mac(hardware).0[..]].concat());
    ndp(255, &[&[136, 0, 0, 0, flags, 0, 0, 0], &bytes(v6(1))[..], &option].concat())
}

const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// Returns the hardware address and the state of node 1 in a node's cache.
fn known(node: &Node) -> (Option<EthernetAddress>, NeighborState) {
    let mut neighbors = node.stack.neighbors(node.now).filter(|n| n.address == v6(1));
    let neighbor = neighbors.next().expect("a neighbour");
    (neighbor.hardware, neighbor.state)
}

/// Creates a node in which the entry of node 1, with hardware address 1, is in this state.
fn node_in(state: NeighborState) -> Node {
    let (mut peer, mut node) = (Node::quiet(1), Node::quiet(2));
    node.send(v6(1), b"x").unwrap();
    if state == NeighborState::Incomplete {
        node.sent();
    } else {
        exchange(&mut node, &mut peer);
    }
    if matches!(state, NeighborState::Stale | NeighborState::Delay | NeighborState::Probe) {
        node.now += Duration::from_secs(46);
    }
    if matches!(state, NeighborState::Delay | NeighborState::Probe) {
        node.send(v6(1), b"x").unwrap();
        node.sent();
    }
    if state == NeighborState::Probe {
        let due = node.stack.next_deadline();
        assert_eq!(node.tick_at(due).len(), 1);
    }
    assert_eq!(known(&node).1, state);
    node
}

/// RFC 4861 7.2.5, every state with every kind of advertisement.
#[test]
fn an_advertisement_does_what_its_flags_and_the_state_of_the_entry_say() {
    use NeighborState::{Delay, Incomplete, Probe, Reachable, Stale};
    let (one, eight) = (Some(1), Some(8));
    for state in [Incomplete, Reachable, Stale, Delay, Probe] {
        for flags in [0, SOLICITED, OVERRIDE, SOLICITED | OVERRIDE] {
            for hardware in [None, one, eight] {
                let mut node = node_in(state);
                assert!(node.receive(&advertisement(flags, hardware)).is_none());
                let solicited = flags & SOLICITED != 0;
                let mut expected = match (state, hardware) {
                    (Incomplete, None) => (None, Incomplete),
                    // What waited is sent, and so an entry that is in doubt is about to be probed (7.3.3).
                    (Incomplete, _) => (hardware, if solicited { Reachable } else { Delay }),
                    // Without the right to override, another address changes nothing but makes doubtful what
                    // was sure.
                    (_, Some(8)) if flags & OVERRIDE == 0 => {
                        (one, if state == Reachable { Stale } else { state })
                    }
                    (_, Some(8)) if !solicited => (eight, Stale),
                    (_, _) => (hardware.or(one), if solicited { Reachable } else { state }),
                };
                let found = known(&node);
                let case = format!("{state:?}, flags {flags:x}, {hardware:?}");
                assert_eq!(found, (expected.0.take().map(mac), expected.1), "{case}");
                // Only those which are asked for, or about to be, have a timer.
                let has_timer = node.stack.next_deadline() != Instant::NEVER;
                assert_eq!(has_timer, matches!(found.1, Incomplete | Delay | Probe), "{case}");
                let went = usize::from(state == Incomplete && hardware.is_some());
                assert_eq!(
                    (node.sent().len(), node.stack.held() + went as u64),
                    (went, u64::from(state == Incomplete))
                );
                node.check();
            }
        }
    }
}

/// RFC 4861 7.3.3: the first packet sent to a neighbour in doubt starts the delay, be it one that has waited.
#[test]
fn a_neighbor_in_doubt_that_packets_have_waited_for_is_probed() {
    let heard: [(IpAddress, Vec<u8>); 2] =
        [(v6(1), ndp(255, &solicitation(v6(2), &[&[1, 1], &mac(1).0[..]].concat()))), (v4(1), request(1))];
    for (address, question) in heard {
        let mut node = Node::quiet(2);
        node.send(address, b"waits").unwrap();
        assert_eq!(node.sent().len(), 1);
        node.now += Duration::from_millis(300);
        assert!(node.receive(&question).is_none());
        assert_eq!((node.sent().len(), node.stack.held()), (2, 0), "an answer, and what waited");
        let due = node.now + Duration::from_secs(5);
        assert_eq!(node.stack.next_deadline(), due);
        let probe = node.tick_at(due);
        assert_eq!((probe.len(), &probe[0][..6]), (1, &mac(1).0[..]), "asked whether it is still there");
        for _ in 0..3 {
            let due = node.stack.next_deadline();
            node.tick_at(due);
        }
        assert_eq!(node.stack.neighbors.len(), 0, "and forgotten, as it does not answer");
        node.check();
    }
    // Nothing waited, nothing is asked.
    let mut node = Node::quiet(2);
    assert!(node.receive(&request(1)).is_none());
    assert_eq!(node.stack.next_deadline(), Instant::NEVER);
}

/// RFC 4861 6.3.2: from 15 to 45 s, so that hosts which learnt of each other at once do not ask at once.
#[test]
fn how_long_a_neighbor_is_believed_differs() {
    let mut node = node_in(NeighborState::Reachable);
    let mut times = Vec::new();
    for _ in 0..50 {
        assert!(node.receive(&advertisement(SOLICITED, Some(1))).is_none());
        let start = node.now;
        while known(&node).1 == NeighborState::Reachable {
            node.now += Duration::from_millis(100);
        }
        times.push(node.now.since(start));
    }
    let (shortest, longest) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    assert!(*shortest >= Duration::from_secs(15) && *shortest < Duration::from_secs(19), "{shortest:?}");
    assert!(*longest <= Duration::from_millis(45_100) && *longest > Duration::from_secs(41), "{longest:?}");
}

#[test]
fn a_solicitation_is_answered_as_smoltcp_reads_it() {
    use crate::wire::{Icmpv6Packet, NdiscNeighborFlags, NdiscRepr};
    let mut node = Node::quiet(2);
    // As Linux sends it, with a nonce behind the address (RFC 7527).
    let options = [&[1, 1], &mac(1).0[..], &[14, 1, 1, 2, 3, 4, 5, 6]].concat();
    assert!(node.receive(&ndp(255, &solicitation(v6(2), &options))).is_none());
    let sent = node.sent();
    assert_eq!((&sent[0][..6], sent[0][14 + 7]), (&mac(1).0[..], 255));
    let packet = Icmpv6Packet::new_checked(&sent[0][54..]).unwrap();
    let (IpAddress::Ipv6(ours), IpAddress::Ipv6(theirs)) = (v6(2), v6(1)) else { unreachable!() };
    assert!(packet.verify_checksum(&ours, &theirs));
    let NdiscRepr::NeighborAdvert { flags, target_addr, lladdr } = NdiscRepr::parse(&packet).unwrap() else {
        panic!("an advertisement");
    };
    assert_eq!(flags, NdiscNeighborFlags::SOLICITED | NdiscNeighborFlags::OVERRIDE);
    assert_eq!((target_addr, lladdr), (ours, Some(mac(2).into())));
    assert_eq!(node.ledger.consumed, 1);
}

#[test]
fn duplicate_detection_is_answered_to_all_nodes() {
    let mut node = Node::quiet(2);
    let group: core::net::Ipv6Addr = "ff02::1:ff00:2".parse().unwrap();
    let unspecified = IpAddress::v6(0, 0, 0, 0, 0, 0, 0, 0);
    let message =
        icmp_bytes(Some(group.into()), unspecified, solicitation(v6(2), &[14, 1, 1, 2, 3, 4, 5, 6]));
    let mut frame = packet_v6(58, 255, &message);
    frame[..6].copy_from_slice(&[0x33, 0x33, 0xff, 0, 0, 2]);
    frame[22..38].fill(0);
    frame[38..54].copy_from_slice(&group.octets());
    assert!(node.receive(&frame).is_none());
    let sent = node.sent();
    assert_eq!((&sent[0][..6], sent[0][54], sent[0][58]), (&[0x33, 0x33, 0, 0, 0, 1][..], 136, 0x20));
    assert_eq!(node.stack.neighbors.len(), 0);
    node.check();
}

#[test]
fn discovery_that_breaks_the_rules_is_dropped() {
    let hardware = [&[1, 1], &mac(1).0[..]].concat();
    let message = solicitation(v6(2), &hardware);
    let mut code = message.clone();
    code[1] = 1;
    let group_target = solicitation("ff02::1".parse::<core::net::Ipv6Addr>().unwrap().into(), &hardware);
    let frames = [
        ndp(64, &message),
        ndp(255, &code),
        ndp(255, &message[..20]),
        ndp(255, &group_target),
        ndp(255, &solicitation(v6(2), &[1, 0, 0, 0, 0, 0, 0, 0])),
        ndp(255, &solicitation(v6(2), &[1, 2, 0, 0, 0, 0, 0, 0])),
        ndp(255, &solicitation(v6(2), &[1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])),
        ndp(255, &solicitation(v6(2), &[9])),
    ];
    let mut node = Node::quiet(2);
    assert_drops(&mut node, &frames, &[(IpDrop::BadIcmp.into(), 8)]);
    assert_eq!(node.stack.neighbors.len(), 0);
}

/// RFC 6980 5: behind a fragment header no message of discovery is believed or answered, in an atomic
/// fragment as little as in two.
#[test]
fn discovery_behind_a_fragment_header_is_ignored() {
    let option = |kind| [&[kind, 1], &mac(8).0[..]].concat();
    let advertisement = [&[136, 0, 0, 0, 0x60, 0, 0, 0], &bytes(v6(1))[..], &option(2)].concat();
    let redirect = [&[137, 0, 0, 0, 0, 0, 0, 0], &bytes(v6(9))[..], &bytes(v6(9)), &option(2)].concat();
    let messages = [
        advertisement,
        solicitation(v6(2), &option(1)),
        redirect,
        [&[133, 0, 0, 0, 0, 0, 0, 0], &option(1)[..]].concat(),
        [&[134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0], &option(1)[..]].concat(),
    ];
    let hardware = |node: &Node| node.stack.neighbors.hardware((LAN, v6(1)));
    for message in messages {
        let payload = icmp_bytes(Some(v6(2)), v6(1), message);
        for (step, pieces) in [(payload.len(), 1), (8, payload.len().div_ceil(8))] {
            let (mut peer, mut node) = (Node::quiet(1), Node::quiet(2));
            introduce(&mut peer, &mut node);
            let mut frames = echo::fragments_v6(58, 1, &payload, step);
            frames.iter_mut().for_each(|frame| frame[14 + 7] = 255);
            assert_eq!(frames.len(), pieces);
            assert_drops(&mut node, &frames, &[(IpDrop::BadIcmp.into(), pieces as u64)]);
            assert_eq!((hardware(&node), node.sent().len()), (Some(mac(1)), 0), "{payload:?}");
            assert_eq!(node.stack.reassembling(), 0);
        }
    }
}

#[test]
fn what_linux_says_on_a_link_is_consumed_or_counted() {
    let all_routers: core::net::Ipv6Addr = "ff02::2".parse().unwrap();
    let rs = [&[133, 0, 0, 0, 0, 0, 0, 0, 1, 1], &mac(1).0[..]].concat();
    let ra = [&[134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1], &mac(1).0[..]].concat();
    let mut to_routers = packet_v6(58, 255, &icmp_bytes(Some(all_routers.into()), v6(1), rs.clone()));
    to_routers[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 2]);
    to_routers[38..54].copy_from_slice(&all_routers.octets());
    let mut node = Node::quiet(2);
    for frame in [to_routers, ndp(255, &rs), ndp(255, &ra)] {
        assert!(node.receive(&frame).is_none());
    }
    assert_eq!((node.ledger.consumed, node.ledger.input_drops(IpDrop::NotLocal)), (2, 1));
    node.check();
}

#[test]
fn a_flood_does_not_wash_out_entries_that_are_in_use() {
    let limits = Config { report_groups: false, neighbors: 16, ..Config::default() };
    let (mut a, mut b) = (Node::new(2, limits), Node::quiet(1));
    introduce_by(&mut a, &mut b);
    for n in 0..10_000_u32 {
        a.now += Duration::from_micros(100);
        let [.., x, y] = n.to_be_bytes();
        let mut frame = arp(ArpOperation::Request, 99, [10, 0, 0, 3 + y % 200], [10, 0, 0, 2]);
        frame[22..28].copy_from_slice(&[2, 9, 9, 9, x, y]);
        assert!(a.receive(&frame).is_none());
        if n % 500 == 0 {
            a.send(v4(3 + y % 200), b"to one of them").unwrap();
            a.check();
        }
        a.sent();
    }
    assert!(a.stack.neighbors.len() <= 16);
    a.send(v4(1), b"x").unwrap();
    assert_eq!(a.sent()[0][..6], mac(1).0, "still known");
}

/// Makes the first node resolve the second, over IPv4.
fn introduce_by(a: &mut Node, b: &mut Node) {
    a.send(v4(1), b"hello").unwrap();
    assert_eq!(exchange(a, b), [b"hello"]);
}

#[test]
fn a_flood_of_spoofed_requests_holds_no_more_than_it_may() {
    let mut node = Node::quiet(2);
    for n in 0..5_000_u32 {
        let [.., x, y] = n.to_be_bytes();
        let mut source = bytes(v6(1));
        source[14..].copy_from_slice(&[x, y.max(3)]);
        let source = IpAddress::Ipv6(core::net::Ipv6Addr::from(source));
        let message = icmp_bytes(Some(v6(2)), source, vec![128, 0, 0, 0, 0, 0, 0, 0]);
        let mut frame = packet_v6(58, 64, &message);
        frame[22..38].copy_from_slice(&bytes(source));
        assert!(node.receive(&frame).is_none());
        node.sent();
    }
    assert_eq!(node.stack.neighbors.len(), 512);
    assert!(node.stack.held() <= 256);
    node.check();
    node.with(|stack, io| stack.drain(io));
    assert_eq!((node.stack.held(), node.stack.neighbors.len()), (0, 0));
    node.check();
}

#[test]
fn a_neighbor_that_is_set_stays_as_it_is() {
    let mut node = Node::new(2, Config { neighbors: 2, report_groups: false, ..Config::default() });
    node.send(v4(7), b"waits").unwrap();
    assert_eq!((node.sent().len(), node.stack.held()), (1, 1));
    node.with(|stack, io| stack.set_neighbor(LAN, v4(7), mac(7), io)).unwrap();
    assert_eq!((&node.sent()[0][..6], node.stack.held()), (&mac(7).0[..], 0));
    // Neither what it says, nor others, nor time change it.
    node.receive(&arp(ArpOperation::Request, 9, [10, 0, 0, 7], [10, 0, 0, 2]));
    node.receive(&arp(ArpOperation::Reply, 9, [10, 0, 0, 7], [10, 0, 0, 2]));
    (20..30).for_each(|n| drop(node.receive(&request(n))));
    node.with(|stack, io| stack.set_neighbor(LAN, v4(6), mac(6), io)).unwrap();
    node.sent();
    for hours in 1..4 {
        node.tick_at(Instant::from_millis(hours * 3_600_000));
        node.send(v4(7), b"still there").unwrap();
        assert_eq!(node.sent()[0][..6], mac(7).0);
        assert_eq!(node.stack.next_deadline(), Instant::NEVER, "it is not asked");
    }
    let known: Vec<_> = node.stack.neighbors(node.now).map(|n| (n.address, n.hardware, n.state)).collect();
    assert_eq!(known.len(), 4, "it takes no room from the others");
    assert!(known.contains(&(v4(7), Some(mac(7)), NeighborState::Permanent)));
    // Another address takes its place; removed, it is asked for again.
    node.with(|stack, io| stack.set_neighbor(LAN, v4(7), mac(8), io)).unwrap();
    node.send(v4(7), b"moved").unwrap();
    assert_eq!(node.sent()[0][..6], mac(8).0);
    assert!(node.with(|stack, io| stack.remove_neighbor(LAN, v4(7), io)));
    assert!(!node.with(|stack, io| stack.remove_neighbor(LAN, v4(7), io)));
    node.send(v4(7), b"?").unwrap();
    assert_eq!(node.sent()[0][12..14], [8, 6]);
    assert!(node.with(|stack, io| stack.remove_neighbor(LAN, v4(7), io)), "what waits goes with it");
    assert_eq!(node.ledger.output_drops(IpDrop::Unresolved), 1);
    node.check();
}

#[test]
fn neighbors_show_how_well_they_are_known() {
    let (mut a, mut b) = (Node::quiet(1), Node::quiet(2));
    let state =
        |node: &Node| node.stack.neighbors(node.now).map(|n| (n.address, n.state)).collect::<Vec<_>>();
    a.send(v4(2), b"?").unwrap();
    assert_eq!(state(&a), [(v4(2), NeighborState::Incomplete)]);
    exchange(&mut a, &mut b);
    assert_eq!(state(&a), [(v4(2), NeighborState::Reachable)]);
    assert_eq!(state(&b), [(v4(1), NeighborState::Stale)]);
    a.now += Duration::from_secs(46);
    assert_eq!(state(&a), [(v4(2), NeighborState::Stale)]);
    a.send(v4(2), b"again").unwrap();
    assert_eq!(state(&a), [(v4(2), NeighborState::Delay)]);
    let due = a.stack.next_deadline();
    a.tick_at(due);
    assert_eq!(state(&a), [(v4(2), NeighborState::Probe)]);
}

#[test]
fn neighbors_are_set_on_interfaces_that_are_there_and_by_unicast_addresses() {
    let mut node = Node::quiet(2);
    let mut set = |interface, address, hardware| {
        node.with(|stack, io| stack.set_neighbor(interface, address, hardware, io))
    };
    assert_eq!(set(InterfaceId(9), v4(1), mac(1)), Err(NeighborError::Interface));
    assert_eq!(set(LAN, IpAddress::v4(224, 0, 0, 1), mac(1)), Err(NeighborError::NotUnicast));
    assert_eq!(set(LAN, v4(1), EthernetAddress::BROADCAST), Err(NeighborError::NotUnicast));
    assert_eq!(node.stack.neighbors(node.now).count(), 0);
}
