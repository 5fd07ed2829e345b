//! Packets that screening is shown, and what it may do with them.

use super::forward::*;
use super::*;
use crate::drop::IpDrop;
use crate::stack::{Reply, Transit};

/// Returns a frame from the LAN as the packet to be screened.
fn transit_of(node: &mut Node, frame: &[u8]) -> Transit {
    let received = node.pool.take_copy(frame).unwrap();
    node.ledger.received += 1;
    match node.with(|stack, io| stack.input(LAN, received, io)) {
        Some(Received::Transit(transit)) => transit,
        other => panic!("to be forwarded: {other:?}"),
    }
}

/// Returns the frame of a TCP segment with these flags and this data, from port 7 to port 9, with sequence
/// number 1000 and acknowledgment number 2000.
fn tcp_frame(from: IpAddress, to: IpAddress, flags: u8, data: &[u8]) -> Vec<u8> {
    let mut segment = vec![0, 7, 0, 9, 0, 0, 3, 0xe8, 0, 0, 7, 0xd0, 0x50, flags, 0x10, 0, 0, 0, 0, 0];
    segment.extend(data);
    let sum = crate::tcp::Checksum::pseudo(from, to, 6, segment.len()).add(&segment).finish();
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut frame = udp_frame(from, to, &vec![0; segment.len() - 8]);
    let at = frame.len() - segment.len();
    frame[at..].copy_from_slice(&segment);
    match from {
        IpAddress::Ipv4(_) => edit_v4(frame, |packet| packet[9] = 6),
        IpAddress::Ipv6(_) => {
            frame[20] = 6;
            frame
        }
    }
}

/// RFC 9293 3.10.7.1: as a host without the port answers.
#[test]
fn a_refused_segment_may_be_answered_by_a_reset() {
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    const FIN: u8 = 1;
    let mut node = router(Config::default());
    for (from, to) in [(v4(1), FAR), (v6(1), FAR_V6)] {
        for (flags, data, seq, ack, answer) in
            [(SYN, &b""[..], 0, 1001, 0x14), (ACK, b"data", 2000, 0, 4), (FIN, b"data", 0, 1005, 0x14)]
        {
            let transit = transit_of(&mut node, &tcp_frame(from, to, flags, data));
            node.with(|stack, io| stack.refuse_transit(transit, Reply::Reset, io));
            let [(LAN, frame)] = &sent_by(&mut node)[..] else { panic!("one reset") };
            let (head, reset) = frame.split_at(frame.len() - 20);
            assert_eq!(reset[..4], [0, 9, 0, 7]);
            let field = |at: usize| u32::from_be_bytes(reset[at..at + 4].try_into().unwrap());
            assert_eq!((field(4), field(8), reset[13]), (seq, ack, answer));
            let sum = crate::tcp::Checksum::pseudo(to, from, 6, 20).add(reset).finish();
            assert_eq!(sum, 0);
            match (to, from) {
                (IpAddress::Ipv4(to), IpAddress::Ipv4(from)) => {
                    assert_eq!(head[26..], [to.octets(), from.octets()].concat());
                }
                (IpAddress::Ipv6(to), IpAddress::Ipv6(from)) => {
                    assert_eq!(head[22..], [to.octets(), from.octets()].concat());
                }
                _ => unreachable!(),
            }
        }
    }
    let mut wrong = tcp_frame(v4(1), FAR, SYN, b"");
    wrong[50] ^= 1;
    let later = edit_v4(tcp_frame(v4(1), FAR, SYN, b""), |packet| packet[6..8].copy_from_slice(&[0, 3]));
    for frame in [tcp_frame(v4(1), FAR, 4, b""), wrong, later] {
        let transit = transit_of(&mut node, &frame);
        node.with(|stack, io| stack.refuse_transit(transit, Reply::Reset, io));
        assert_eq!(sent_by(&mut node), [], "a reset, a broken segment, a later fragment: {frame:02x?}");
    }
}

#[test]
fn what_screening_may_ask_about_a_packet() {
    let mut node = router_without_routes();
    let mut transit = transit_of(&mut node, &udp_frame(v4(1), FAR, b"x"));
    let mut screened = node.stack.screened(&mut transit, false);
    assert!(screened.is_routed(&v4(7)) && screened.is_routed(&wan_v6(7)) && !screened.is_routed(&FAR));
    assert!(screened.leads_back(&v4(7)) && !screened.leads_back(&wan_v4(7)));
    assert_eq!(screened.addresses(WAN).next(), Some(IpCidr::new(wan_v4(ROUTER), 24)));
    assert_eq!((screened.interfaces(), screened.addresses(InterfaceId(7)).count()), (2, 0));
    screened.packet_mut()[8] = 9;
    assert_eq!(transit.packet()[8], 9);
    node.with(|stack, io| stack.refuse_transit(transit, Reply::Silence, io));
}

#[test]
fn screening_sees_the_packet_and_may_refuse_it_with_or_without_a_word() {
    let mut node = router(Config::default());
    for (frame, reply, expected) in [
        (udp_frame(v4(1), FAR, b"secret"), Reply::Prohibited, Some((3, 13))),
        (udp_frame(v6(1), FAR_V6, b"secret"), Reply::Prohibited, Some((1, 1))),
        (udp_frame(v4(1), FAR, b"secret"), Reply::Unreachable(3), Some((3, 3))),
        (udp_frame(v6(1), FAR_V6, b"secret"), Reply::Unreachable(4), Some((1, 4))),
        (udp_frame(v4(1), FAR, b"secret"), Reply::Reset, Some((3, 13))),
        (udp_frame(v4(1), FAR, b"secret"), Reply::Silence, None),
    ] {
        let padded = [&frame[..], &[0xaa; 9]].concat();
        let transit = transit_of(&mut node, &padded);
        assert_eq!(transit.packet(), &frame[14..]);
        node.with(|stack, io| stack.refuse_transit(transit, reply, io));
        let sent = sent_by(&mut node);
        match expected {
            Some(expected) => {
                let told = told(&sent);
                assert_eq!((told.kind, told.code), expected);
            }
            None => assert_eq!(sent, []),
        }
    }
    assert_eq!((node.ledger.input_drops(IpDrop::Refused), node.ledger.forwarded), (6, 0));
}
