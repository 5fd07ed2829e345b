//! Echo requests, and ICMP errors that come in.

use super::*;
use crate::drop::IpDrop;

fn request_v4(payload: &[u8]) -> Vec<u8> {
    icmp_bytes(None, v4(1), [&[8, 0, 0, 0, 0x12, 0x34, 0, 1], payload].concat())
}

fn request_v6(payload: &[u8]) -> Vec<u8> {
    icmp_bytes(Some(v6(2)), v6(1), [&[128, 0, 0, 0, 0x12, 0x34, 0, 1], payload].concat())
}

/// Returns the IPv4 payload as fragments of `step` bytes.
pub(super) fn fragments_v4(protocol: u8, id: u16, payload: &[u8], step: usize) -> Vec<Vec<u8>> {
    let part = |(n, part): (usize, &[u8])| {
        let offset = n * step;
        let more = offset + part.len() < payload.len();
        let field = (offset / 8) as u16 | u16::from(more) << 13;
        packet_v4(protocol, id, field, &[], part)
    };
    payload.chunks(step).enumerate().map(part).collect()
}

/// Returns the IPv6 payload as fragments of `step` bytes.
pub(super) fn fragments_v6(next: u8, id: u32, payload: &[u8], step: usize) -> Vec<Vec<u8>> {
    let part = |(n, part): (usize, &[u8])| {
        let offset = n * step;
        let more = offset + part.len() < payload.len();
        let field = (offset as u16 | u16::from(more)).to_be_bytes();
        packet_v6(44, 64, &[&[next, 0, field[0], field[1]], &id.to_be_bytes()[..], part].concat())
    };
    payload.chunks(step).enumerate().map(part).collect()
}

/// Puts the fragments a node sent together, without its help.
fn join(frames: &[Vec<u8>], header: usize) -> Vec<u8> {
    let mut whole = Vec::new();
    for frame in frames {
        whole.extend(&frame[header..]);
    }
    whole
}

#[test]
fn pings_of_every_size_are_answered_over_ipv4() {
    for len in [0, 1, 56, 1472, 1473, 65_000, 65_507] {
        let (mut a, mut b) = (Node::quiet(1), Node::quiet(2));
        introduce(&mut a, &mut b);
        let request = request_v4(&pattern(len));
        for frame in fragments_v4(1, 77, &request, 1480) {
            assert!(b.receive(&frame).is_none());
        }
        b.check();
        let answer = b.sent();
        assert_eq!(answer.len(), (len + 8).div_ceil(1480));
        assert!(answer.iter().all(|frame| frame.len() <= 1514));
        let answer = join(&answer, 34);
        assert_eq!(answer[..2], [0, 0], "echo reply");
        assert_eq!(answer[4..], request[4..], "the rest as it was");
        assert_eq!(crate::tcp::Checksum::default().add(&answer).finish(), 0);
    }
}

#[test]
fn pings_of_every_size_are_answered_over_ipv6() {
    for len in [0, 56, 1452, 1453, 65_000, 65_511] {
        let (mut a, mut b) = (Node::quiet(1), Node::quiet(2));
        introduce(&mut a, &mut b);
        let request = request_v6(&pattern(len));
        let whole = len + 8 <= 1460;
        let frames =
            if whole { vec![packet_v6(58, 64, &request)] } else { fragments_v6(58, 9, &request, 1448) };
        for frame in frames {
            assert!(b.receive(&frame).is_none());
        }
        b.check();
        let answer = join(&b.sent(), if whole { 54 } else { 62 });
        assert_eq!((answer[0], answer.len()), (129, len + 8));
        assert_eq!(answer[4..], request[4..]);
        let sum = crate::tcp::Checksum::pseudo(v6(2), v6(1), 58, answer.len()).add(&answer).finish();
        assert_eq!(sum, 0);
    }
}

#[test]
fn no_answer_to_broadcast_bad_checksum_or_when_turned_off() {
    let mut node = Node::quiet(2);
    let mut broadcast = edit_v4(packet_v4(1, 1, 0, &[], &request_v4(b"x")), |packet| packet[19] = 255);
    broadcast[..6].fill(0xff);
    assert!(node.receive(&broadcast).is_none());
    let mut bad = request_v4(b"x");
    bad[8] ^= 1;
    assert!(node.receive(&packet_v4(1, 1, 0, &[], &bad)).is_none());
    assert!(node.receive(&packet_v6(58, 64, &bad)).is_none());
    assert!(node.receive(&packet_v4(1, 1, 0, &[], &[8, 0, 0xf7])).is_none());
    assert_eq!(node.ledger.input_drops(IpDrop::BadIcmp), 3);
    let mut silent = Node::new(2, Config { echo_reply: false, report_groups: false, ..Config::default() });
    assert!(silent.receive(&packet_v4(1, 1, 0, &[], &request_v4(b"x"))).is_none());
    assert_eq!((silent.ledger.consumed, silent.ledger.originated), (1, 0));
    assert_eq!((node.ledger.consumed, node.ledger.originated), (1, 0));
    node.check();
    silent.check();
}

/// Its code means nothing (RFC 792, RFC 4443 4.1), and hosts answer whatever it is.
#[test]
fn a_ping_with_a_code_is_answered() {
    let (mut a, mut b) = (Node::quiet(1), Node::quiet(2));
    introduce(&mut a, &mut b);
    for code in [0, 1, 255] {
        let request = icmp_bytes(None, v4(1), vec![8, code, 0, 0, 1, 2, 3, 4, 9]);
        assert!(b.receive(&packet_v4(1, 1, 0, &[], &request)).is_none());
        let sent = b.sent();
        assert_eq!((sent.len(), &sent[0][34..36], &sent[0][38..43]), (1, &[0, 0][..], &[1, 2, 3, 4, 9][..]));
        let request = icmp_bytes(Some(v6(2)), v6(1), vec![128, code, 0, 0, 1, 2, 3, 4, 9]);
        assert!(b.receive(&packet_v6(58, 64, &request)).is_none());
        let sent = b.sent();
        assert_eq!(
            (sent.len(), &sent[0][54..56], &sent[0][58..63]),
            (1, &[129, 0][..], &[1, 2, 3, 4, 9][..])
        );
    }
}

#[test]
fn a_ping_to_all_nodes_is_answered_from_our_own_address() {
    let (mut a, mut b) = (Node::quiet(1), Node::quiet(2));
    introduce(&mut a, &mut b);
    let all: core::net::Ipv6Addr = "ff02::1".parse().unwrap();
    let request = icmp_bytes(Some(all.into()), v6(1), vec![128, 0, 0, 0, 0, 1, 0, 1]);
    let mut frame = packet_v6(58, 64, &request);
    frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
    frame[38..54].copy_from_slice(&all.octets());
    assert!(b.receive(&frame).is_none());
    let answer = b.sent();
    assert_eq!(answer.len(), 1);
    let IpAddress::Ipv6(ours) = v6(2) else { unreachable!() };
    assert_eq!((&answer[0][22..38], answer[0][54]), (&ours.octets()[..], 129));
}

#[test]
fn path_mtus_are_learnt_from_errors_about_our_packets_only() {
    let (mut a, mut b) = (Node::quiet(1), Node::quiet(2));
    introduce(&mut a, &mut b);
    let largest = |node: &mut Node, to| {
        node.send(to, &pattern(4000)).unwrap();
        node.sent().iter().map(|frame| frame.len() - 14).max().unwrap()
    };
    assert_eq!((largest(&mut b, v4(1)), largest(&mut b, v6(1))), (1500, 1496));
    // From node 1 to node 2: "your packet to me was too big for 1300 octets".
    let quote = |frame: Vec<u8>| frame[14..].to_vec();
    b.send(v4(1), b"x").unwrap();
    b.send(v6(1), b"x").unwrap();
    let mut sent = b.sent().into_iter();
    let (four, six) = (quote(sent.next().unwrap()), quote(sent.next().unwrap()));
    let forged = quote(packet_v4(17, 1, 0, &[], b"12345678"));
    let too_big = |quoted: &[u8], mtu: u16| {
        let [x, y] = mtu.to_be_bytes();
        icmp_bytes(None, v4(1), [&[3, 4, 0, 0, 0, 0, x, y], quoted].concat())
    };
    assert!(b.receive(&packet_v4(1, 1, 0, &[], &too_big(&forged, 600))).is_none());
    assert_eq!(largest(&mut b, v4(1)), 1500, "not about a packet of ours");
    assert!(b.receive(&packet_v4(1, 1, 0, &[], &too_big(&four, 1300))).is_none());
    assert_eq!(largest(&mut b, v4(1)), 1300);
    assert!(b.receive(&packet_v4(1, 1, 0, &[], &too_big(&four, 68))).is_none());
    assert_eq!(largest(&mut b, v4(1)), 572, "not below 576, in steps of eight");
    // Over IPv6 there are no links that take less than 1280, so whoever says so is not believed at all (RFC
    // 8201 4).
    for (mtu, expected) in [(0, 1496), (1279, 1496), (1280, 1280)] {
        let head = [&[2, 0, 0, 0, 0, 0][..], &u16::to_be_bytes(mtu)].concat();
        let message = icmp_bytes(Some(v6(2)), v6(1), [&head, &six[..]].concat());
        assert!(b.receive(&packet_v6(58, 64, &message)).is_none());
        assert_eq!(largest(&mut b, v6(1)), expected);
    }
    b.check();
}
