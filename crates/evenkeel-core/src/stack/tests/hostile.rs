//! Bytes from an enemy: nothing panics, nothing leaks, everything is accounted for and bounded.

use proptest::prelude::*;

use super::echo::{fragments_v4, fragments_v6};
use super::*;
use crate::stack::random::Random;
use crate::time::Duration;

/// Returns valid frames of every kind that input knows.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![
        packet_v4(17, 1, 0, &[], &udp_bytes(v4(1), v4(2), b"payload")),
        packet_v4(17, 1, 0, &[7, 3, 4, 1], &udp_bytes(v4(1), v4(2), b"payload")),
        packet_v4(1, 1, 0, &[], &icmp_bytes(None, v4(1), vec![8, 0, 0, 0, 1, 2, 3, 4, 5])),
        packet_v4(1, 1, 0, &[], &icmp_bytes(None, v4(1), vec![3, 4, 0, 0, 0, 0, 2, 0, 0x45, 0, 0, 40])),
        packet_v4(2, 1, 0, &[0x94, 4, 0, 0], &icmp_bytes(None, v4(1), vec![0x11, 100, 0, 0, 0, 0, 0, 0])),
        packet_v6(17, 64, &udp_bytes(v6(1), v6(2), b"payload")),
        packet_v6(58, 64, &icmp_bytes(Some(v6(2)), v6(1), vec![128, 0, 0, 0, 1, 2, 3, 4, 5])),
        packet_v6(
            58,
            255,
            &icmp_bytes(Some(v6(2)), v6(1), {
                let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
                message.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 1, 2, 0, 0, 0, 0, 1]);
                message
            }),
        ),
        packet_v6(
            0,
            64,
            &[
                &[60, 0, 1, 4, 0, 0, 0, 0, 43, 0, 5, 2, 0, 0, 1, 0, 17, 0, 0, 0, 0, 0, 0, 0][..],
                &udp_bytes(v6(1), v6(2), b"payload"),
            ]
            .concat(),
        ),
        packet_v6(
            60,
            64,
            &[&[17, 0, 0xc2, 4, 0, 1, 0, 0][..], &udp_bytes(v6(1), v6(2), b"payload")].concat(),
        ),
        ethernet(
            EthernetAddress::BROADCAST,
            mac(1),
            0x0806,
            &[0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2],
        ),
    ];
    seeds.extend(fragments_v4(17, 3, &udp_bytes(v4(1), v4(2), &pattern(100)), 32));
    seeds.extend(fragments_v6(17, 3, &udp_bytes(v6(1), v6(2), &pattern(100)), 32));
    seeds
}

/// Returns a frame made from a valid one: bytes changed, cut, lengthened, checksums repaired or not.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let seeds = seeds();
    let changes = proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4);
    let resize = prop_oneof![4 => Just(None), 1 => (0..200_usize).prop_map(Some)];
    (0..seeds.len(), changes, resize, any::<bool>()).prop_map(move |(seed, changes, resize, repair)| {
        let mut frame = seeds[seed].clone();
        for (at, value) in changes {
            // Mostly headers: that is where the decisions are.
            let at = 12 + usize::from(at) % (frame.len() - 12);
            frame[at] = value;
        }
        if let Some(len) = resize {
            frame.resize(len, 0);
        }
        if repair && frame.len() >= 34 && frame[12..14] == [8, 0] {
            sum_v4(&mut frame[14..]);
        }
        frame
    })
}

fn run(frames: &[Vec<u8>]) -> Node {
    let limits = Config {
        neighbors: 8,
        pending_pkts: 8,
        reassembly_packets: 4,
        fragment_pkts: 12,
        ..Config::default()
    };
    let mut node = Node::new(2, limits);
    for frame in frames {
        node.now += Duration::from_millis(170);
        node.receive_udp(frame);
        node.with(|stack, io| stack.tick(io));
        node.check();
        node.sent();
    }
    node.check();
    node.with(|stack, io| stack.drain(io));
    node.sent();
    node.check();
    assert_eq!((node.stack.reassembling(), node.stack.held()), (0, 0));
    assert_eq!(node.pool.available(), node.pool.capacity());
    node
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_accounted_for(
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..8),
    ) {
        run(&frames);
    }

    #[test]
    fn mutated_frames_are_accounted_for(frames in proptest::collection::vec(mutated(), 1..40)) {
        run(&frames);
    }

    #[test]
    fn equal_runs_of_equal_seeds_send_equal_frames(frames in proptest::collection::vec(mutated(), 1..10)) {
        let trace = || {
            let mut node = Node::new(2, Config::default());
            let mut trace = Vec::new();
            for frame in &frames {
                node.now += Duration::from_millis(170);
                node.receive_udp(frame);
                trace.extend(node.sent());
            }
            trace
        };
        prop_assert_eq!(trace(), trace());
    }

    #[test]
    fn a_reassembled_datagram_is_the_one_that_was_sent(
        len in 1..2000_usize, step in 1..40_usize, order in any::<u64>(), duplicates in any::<u64>(),
    ) {
        for family in 0..2 {
            let mut frames = if family == 0 {
                fragments_v4(17, 1, &udp_bytes(v4(1), v4(2), &pattern(len)), step.max(5) * 8)
            } else {
                fragments_v6(17, 1, &udp_bytes(v6(1), v6(2), &pattern(len)), step.max(5) * 8)
            };
            let mut random = Random::new(order);
            for last in (1..frames.len()).rev() {
                frames.swap(last, random.next() as usize % (last + 1));
            }
            let mut node = Node::quiet(2);
            let mut got = Vec::new();
            for (n, frame) in frames.iter().enumerate() {
                let is_last = n + 1 == frames.len();
                for _ in 0..=u64::from(!is_last && duplicates >> (n % 64) & 1 == 1) {
                    got.extend(node.receive_udp(frame));
                }
            }
            node.check();
            prop_assert_eq!(got.len(), 1);
            prop_assert_eq!(&got[0].2, &pattern(len));
        }
    }
}

#[test]
fn the_seeds_reach_their_goal() {
    let node = run(&seeds());
    // All but the one with an unknown option are good: five are delivered whole, two in fragments.
    assert_eq!(node.ledger.drops().map(|(_, input, _)| input).sum::<u64>(), 1, "{:?}", node.ledger);
    assert_eq!((node.ledger.delivered, node.ledger.consumed), (4 + 8, 6));
}

#[test]
fn unknown_options_of_ipv6_are_treated_by_their_top_bits() {
    let (mut peer, mut node) = (Node::quiet(1), Node::quiet(2));
    introduce(&mut peer, &mut node);
    let with = |next: u8, option: u8| {
        packet_v6(next, 64, &[&[17, 0, option, 4, 0, 0, 0, 0][..], &udp_bytes(v6(1), v6(2), b"x")].concat())
    };
    for header in [0, 60] {
        assert!(node.receive_udp(&with(header, 0x1e)).is_some(), "skip");
        assert!(node.receive_udp(&with(header, 0x5e)).is_none(), "discard");
        assert!(node.sent().is_empty());
        for option in [0x9e, 0xde] {
            assert!(node.receive(&with(header, option)).is_none());
            let sent = node.sent();
            assert_eq!((&sent[0][54..56], &sent[0][58..62]), (&[4, 2][..], &[0, 0, 0, 42][..]));
        }
    }
    // An unknown next header, a source route, a hop-by-hop header that is not the first.
    let udp = udp_bytes(v6(1), v6(2), b"x");
    let routed = |kind, left| packet_v6(43, 64, &[&[17, 0, kind, left, 0, 0, 0, 0][..], &udp].concat());
    assert!(node.receive_udp(&routed(0, 0)).is_some(), "nothing left of it");
    let late_hop_by_hop =
        packet_v6(60, 64, &[&[0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0][..], &udp].concat());
    for (frame, expected) in [
        (routed(0, 1), [0, 42]),
        (routed(4, 1), [0, 42]),
        (packet_v6(200, 64, b"x"), [1, 6]),
        (late_hop_by_hop, [1, 40]),
    ] {
        assert!(node.receive(&frame).is_none());
        let sent = node.sent();
        assert_eq!([sent[0][55], sent[0][61]], expected);
    }
    assert!(node.receive(&packet_v6(59, 64, b"x")).is_none());
    assert!(node.sent().is_empty(), "no next header, nothing to say");
    node.check();
}
