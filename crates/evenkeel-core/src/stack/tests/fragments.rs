//! Reassembly, of both families.

use super::echo::{fragments_v4, fragments_v6};
use super::*;
use crate::drop::IpDrop;
use crate::time::Duration;

/// Makes a datagram with this identification and payload, as frames of its fragments.
type Fragments = fn(u32, &[u8]) -> Vec<Vec<u8>>;

fn both() -> [Fragments; 2] {
    [
        |id, payload| fragments_v4(17, id as u16, &udp_bytes(v4(1), v4(2), payload), 256),
        |id, payload| fragments_v6(17, id, &udp_bytes(v6(1), v6(2), payload), 256),
    ]
}

fn permutations(items: usize) -> Vec<Vec<usize>> {
    if items == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(items - 1);
    let insert = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, items - 1);
        order
    };
    shorter.iter().flat_map(|order| (0..items).map(move |at| insert(order, at))).collect()
}

#[test]
fn four_fragments_in_every_order_of_two_datagrams_interleaved() {
    let (first, second) = (pattern(1000), pattern(990).into_iter().rev().collect::<Vec<_>>());
    assert_eq!(permutations(4).len(), 24);
    for fragments in both() {
        let (a, b) = (fragments(1, &first), fragments(2, &second));
        assert_eq!((a.len(), b.len()), (4, 4));
        for order in permutations(4) {
            let mut node = Node::quiet(2);
            let mut got = Vec::new();
            for at in order {
                got.extend(node.receive_udp(&a[at]));
                got.extend(node.receive_udp(&b[3 - at]));
                node.check();
            }
            let payloads: Vec<_> = got.into_iter().map(|(_, _, payload)| payload).collect();
            assert_eq!(payloads, [first.clone(), second.clone()]);
            assert_eq!((node.stack.reassembling(), node.ledger.delivered), (0, 8));
        }
    }
}

#[test]
fn a_duplicate_is_ignored_and_an_overlap_condemns_the_whole() {
    for fragments in both() {
        let frames = fragments(1, &pattern(1000));
        let mut node = Node::quiet(2);
        for frame in [&frames[0], &frames[0], &frames[1], &frames[2], &frames[1]] {
            assert!(node.receive(frame).is_none());
        }
        assert_eq!(node.ledger.input_drops(IpDrop::FragmentOverlap), 2);
        assert_eq!(node.receive_udp(&frames[3]).unwrap().2, pattern(1000));
        // The same place, other bytes.
        let mut forged = frames[1].clone();
        *forged.last_mut().unwrap() ^= 1;
        let mut node = Node::quiet(2);
        for frame in [&frames[0], &frames[1], &forged, &frames[2], &frames[3], &frames[0], &frames[1]] {
            assert!(node.receive(frame).is_none());
            node.check();
        }
        assert_eq!(node.ledger.input_drops(IpDrop::FragmentOverlap), 7);
        assert_eq!(node.stack.reassembling(), 0);
        // Remembered until its time is over; then the identification is free again.
        node.tick_at(Instant::from_millis(61_000));
        for frame in &frames[..3] {
            assert!(node.receive(frame).is_none());
        }
        assert!(node.receive_udp(&frames[3]).is_some());
        node.check();
    }
}

#[test]
fn overlaps_of_every_kind_are_discarded() {
    let field = |offset: u16, more: bool| (offset / 8) | (u16::from(more) << 13);
    let part = |offset, more, len| packet_v4(17, 5, field(offset, more), &[], &pattern(len));
    let cases: [&[(u16, bool, usize)]; 8] = [
        &[(0, true, 64), (32, true, 64)],
        &[(32, true, 64), (0, true, 64)],
        &[(0, true, 128), (32, false, 8)],
        &[(32, true, 8), (0, true, 128)],
        &[(64, false, 8), (128, true, 8)],
        &[(64, false, 8), (128, false, 8)],
        &[(128, false, 8), (64, false, 8)],
        &[(128, true, 8), (64, false, 8)],
    ];
    for case in cases {
        let mut node = Node::quiet(2);
        for (offset, more, len) in case {
            assert!(node.receive(&part(*offset, *more, *len)).is_none());
            node.check();
        }
        assert_eq!(node.ledger.input_drops(IpDrop::FragmentOverlap), 2, "{case:?}");
    }
}

#[test]
fn fragments_that_break_the_rules_are_dropped_at_once() {
    let frames = [
        packet_v4(17, 5, 1 << 13, &[], &pattern(12)),
        packet_v4(17, 5, 1, &[], &[]),
        packet_v4(17, 5, 8191, &[], &pattern(9)),
        packet_v4(17, 5, 8189 | 1 << 13, &[], &pattern(1400)),
    ];
    let mut node = Node::quiet(2);
    let expected = [(IpDrop::Malformed.into(), 2), (IpDrop::FragmentTooBig.into(), 2)];
    assert_drops(&mut node, &frames, &expected);
    assert!(node.stack.next_deadline() == Instant::NEVER);
}

#[test]
fn fragments_that_break_the_rules_of_ipv6_are_reported() {
    let (mut peer, mut node) = (Node::quiet(1), Node::quiet(2));
    introduce(&mut peer, &mut node);
    let fragment = |next: u8, field: u16, payload: &[u8]| {
        let [x, y] = field.to_be_bytes();
        packet_v6(44, 64, &[&[next, 0, x, y, 0, 0, 0, 1], payload].concat())
    };
    let odd = fragment(17, 1, &pattern(13));
    let too_big = fragment(17, 0xfff8, &pattern(16));
    let reported = [(odd, [4, 0], 4), (too_big, [4, 0], 42)];
    for (frame, code, pointer) in reported {
        assert!(node.receive(&frame).is_none());
        let sent = node.sent();
        assert_eq!(sent[0][54..56], code);
        assert_eq!(sent[0][58..62], u32::to_be_bytes(pointer));
    }
    assert_eq!(node.ledger.input_drops(IpDrop::Malformed), 1);
    assert_eq!(node.ledger.input_drops(IpDrop::FragmentTooBig), 1);
    node.check();
}

/// RFC 8200 4.5, RFC 7112 5: such a packet is discarded and reported with a pointer of zero, whatever its
/// upper layer is.
#[test]
fn a_first_fragment_without_all_its_headers_is_reported() {
    const OPTIONS: [u8; 8] = [0, 0, 1, 4, 0, 0, 0, 0];
    let behind_options = |next: u8, rest: &[u8]| [&[next], &OPTIONS[1..], rest].concat();
    let first =
        |next: u8, payload: &[u8]| packet_v6(44, 64, &[&[next, 0, 0, 1, 0, 0, 0, 1], payload].concat());
    // A TCP header with three words of options.
    let mut tcp = [0; 32];
    tcp[12] = 8 << 4;
    let incomplete = [
        // No UDP header behind the options.
        first(60, &behind_options(17, &[])),
        // Options that reach beyond the fragment.
        first(60, &[17, 1, 1, 12, 0, 0, 0, 0]),
        // TCP: without its sequence number, without what ends its fixed part, without some of its options.
        first(6, &tcp[..8]),
        first(6, &tcp[..16]),
        first(6, &tcp[..24]),
        // Nothing of ICMPv6.
        first(60, &behind_options(58, &[])),
        // A protocol that we do not know.
        first(60, &behind_options(200, &[])),
    ];
    for frame in &incomplete {
        let (mut peer, mut node) = (Node::quiet(1), Node::quiet(2));
        introduce(&mut peer, &mut node);
        assert!(node.receive(frame).is_none());
        let sent = node.sent();
        assert_eq!(sent.len(), 1, "{frame:02x?}");
        assert_eq!((&sent[0][54..56], &sent[0][58..62]), (&[4, 3][..], &[0; 4][..]), "{frame:02x?}");
        assert_eq!(&sent[0][62..], &frame[14..]);
        assert_eq!(node.ledger.input_drops(IpDrop::Malformed), 1);
        assert_eq!(node.stack.reassembling(), 0);
        node.check();
    }
    let complete = [
        first(6, &tcp),
        first(60, &behind_options(6, &tcp)),
        first(60, &behind_options(17, &[0; 8])),
        first(60, &behind_options(59, &[])),
        first(200, &[0; 8]),
    ];
    for frame in &complete {
        let mut node = Node::quiet(2);
        assert!(node.receive(frame).is_none());
        assert_eq!((node.sent().len(), node.stack.reassembling()), (0, 1), "{frame:02x?}");
    }
}

/// RFC 3168 5.3: congestion that a fragment met is told of the packet, and none is invented for who does not
/// know ECN.
#[test]
fn what_fragments_say_of_congestion_is_not_lost_nor_made_up() {
    const NOT: u8 = 0;
    const ECT1: u8 = 1;
    const ECT0: u8 = 2;
    const CE: u8 = 3;
    let cases = [
        ([NOT, NOT, NOT], Some(NOT)),
        ([ECT0, ECT0, ECT0], Some(ECT0)),
        ([ECT1, ECT1, ECT1], Some(ECT1)),
        ([ECT0, ECT1, ECT1], Some(ECT0)),
        ([CE, CE, CE], Some(CE)),
        ([CE, ECT0, ECT0], Some(CE)),
        ([ECT0, CE, ECT1], Some(CE)),
        ([ECT1, ECT1, CE], Some(CE)),
        ([NOT, CE, CE], None),
        ([CE, CE, NOT], None),
        ([ECT0, NOT, CE], None),
        ([NOT, ECT0, ECT0], None),
        ([ECT1, ECT1, NOT], None),
    ];
    let payload = pattern(600);
    let v4_parts = fragments_v4(6, 5, &payload, 256);
    let v6_parts = fragments_v6(6, 5, &payload, 256);
    for (marks, expected) in cases {
        for order in permutations(3) {
            let mark_v4 = |n: usize| edit_v4(v4_parts[n].clone(), |packet| packet[1] = 0xb8 | marks[n]);
            let mark_v6 = |n: usize| {
                let mut frame = v6_parts[n].clone();
                frame[14 + 1] = marks[n] << 4;
                frame
            };
            let both: [Vec<_>; 2] =
                [order.iter().map(|n| mark_v4(*n)).collect(), order.iter().map(|n| mark_v6(*n)).collect()];
            for frames in both {
                let mut node = Node::quiet(2);
                let got: Vec<_> = frames.iter().filter_map(|frame| node.receive_ecn(frame)).collect();
                let expected: Vec<_> = expected.into_iter().map(Ecn::from_bits).collect();
                assert_eq!(got, expected, "{marks:?} {order:?}");
                let dropped = if expected.is_empty() { 3 } else { 0 };
                assert_eq!(node.ledger.input_drops(IpDrop::FragmentEcn), dropped, "{marks:?} {order:?}");
                assert_eq!(node.stack.reassembling(), 0);
                node.check();
            }
        }
    }
}

#[test]
fn an_atomic_fragment_is_a_packet_of_its_own() {
    let mut node = Node::quiet(2);
    let held = fragments_v6(17, 3, &udp_bytes(v6(1), v6(2), &pattern(600)), 256);
    assert!(node.receive(&held[0]).is_none());
    let atomic = fragments_v6(17, 3, &udp_bytes(v6(1), v6(2), b"whole"), 256);
    assert_eq!(node.receive_udp(&atomic[0]).unwrap().2, b"whole");
    assert!(node.receive(&held[1]).is_none());
    assert_eq!(node.receive_udp(&held[2]).unwrap().2, pattern(600));
    node.check();
}

#[test]
fn what_is_missing_times_out_and_is_reported_if_the_first_came() {
    for (fragments, message, code) in [(both()[0], 34, [11, 1]), (both()[1], 54, [3, 1])] {
        let seconds = 60;
        let (mut peer, mut node) = (Node::quiet(1), Node::quiet(2));
        introduce(&mut peer, &mut node);
        let (with_first, without) = (fragments(1, &pattern(1000)), fragments(2, &pattern(1000)));
        for frame in [&with_first[0], &with_first[2], &without[1]] {
            assert!(node.receive(frame).is_none());
        }
        let due = node.now + Duration::from_secs(seconds);
        assert_eq!((node.stack.next_deadline(), node.stack.reassembling()), (due, 3));
        let almost = node.now + Duration::from_millis(seconds * 1000 - 1);
        assert!(node.tick_at(almost).is_empty());
        let sent = node.tick_at(due);
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0][message..message + 2], code);
        assert_eq!(node.ledger.input_drops(IpDrop::FragmentTimeout), 3);
        assert_eq!(node.stack.reassembling(), 0);
        node.check();
    }
}

#[test]
fn a_flood_of_first_fragments_stays_bounded_and_locks_nobody_out() {
    let limits =
        Config { report_groups: false, reassembly_packets: 8, fragment_pkts: 20, ..Config::default() };
    for fragments in both() {
        let mut node = Node::new(2, limits.clone());
        for id in 0..500 {
            assert!(node.receive(&fragments(id, &pattern(1000))[0]).is_none());
            assert!(node.stack.reassembling() <= 8);
            node.check();
        }
        let frames = fragments(1000, &pattern(1000));
        let got: Vec<_> = frames.iter().filter_map(|frame| node.receive_udp(frame)).collect();
        assert_eq!(got[0].2, pattern(1000));
        assert_eq!(node.ledger.input_drops(IpDrop::FragmentLimit), 493);
        // Many fragments of few packets: the total is what binds.
        for id in 0..50 {
            for frame in &fragments(id, &pattern(4000))[..9] {
                assert!(node.receive(frame).is_none());
            }
            assert!(node.stack.reassembling() <= 20);
            node.check();
        }
        node.with(|stack, io| stack.drain(io));
        assert_eq!(node.stack.reassembling(), 0);
        node.check();
    }
}

#[test]
fn as_many_fragments_are_held_as_the_limit_says() {
    for fragments in both() {
        let limits = Config { report_groups: false, fragment_pkts: 3, ..Config::default() };
        let mut node = Node::new(2, limits);
        let frames = fragments(1, &pattern(1000));
        for (held, frame) in (1..).zip(&frames[..3]) {
            assert!(node.receive(frame).is_none());
            assert_eq!(node.stack.reassembling(), held);
        }
        assert_eq!(node.receive_udp(&frames[3]).unwrap().2, pattern(1000));
        node.check();
    }
}

#[test]
fn a_packet_of_too_many_fragments_is_given_up() {
    let limits = Config { report_groups: false, fragments_per_packet: 3, ..Config::default() };
    let mut node = Node::new(2, limits);
    let frames = both()[0](1, &pattern(1200));
    assert_eq!(frames.len(), 5);
    assert_drops(
        &mut node,
        &frames,
        &[(IpDrop::FragmentOverlap.into(), 1), (IpDrop::FragmentLimit.into(), 4)],
    );
}

#[test]
fn fragments_of_different_sources_and_protocols_do_not_mix() {
    let mut node = Node::quiet(2);
    let frames = both()[0](1, &pattern(500));
    let other_source = edit_v4(frames[1].clone(), |packet| packet[15] = 9);
    let other_protocol = edit_v4(frames[1].clone(), |packet| packet[9] = 200);
    for frame in [&frames[0], &other_source, &other_protocol] {
        assert!(node.receive(frame).is_none());
    }
    assert!(node.receive_udp(&frames[1]).is_some());
    assert_eq!(node.stack.reassembling(), 2);
    node.check();
}
