//! A check that a host sends only well-formed frames, whatever it received.

use evenkeel_core::wire::{
    ArpPacket, EthernetFrame, EthernetProtocol, Icmpv4Packet, Icmpv6Packet, IgmpPacket, IpProtocol,
    Ipv4Packet, Ipv6Packet, UdpPacket,
};

/// Panics unless a receiver would accept the frame: lengths, header checksum, transport checksum.
pub fn check(bytes: &[u8]) {
    let frame = EthernetFrame::new_checked(bytes).expect("an Ethernet frame");
    match frame.ethertype() {
        EthernetProtocol::Arp => {
            ArpPacket::new_checked(frame.payload()).expect("an ARP packet");
        }
        EthernetProtocol::Ipv4 => check_v4(frame.payload()),
        EthernetProtocol::Ipv6 => check_v6(frame.payload()),
        EthernetProtocol::Unknown(ethertype) => panic!("EtherType {ethertype:04x}"),
    }
}

fn check_v4(bytes: &[u8]) {
    let packet = Ipv4Packet::new_checked(bytes).expect("an IPv4 packet");
    assert!(packet.verify_checksum(), "IPv4 header checksum");
    assert!(!packet.dst_addr().is_unspecified() && packet.hop_limit() > 0);
    if packet.more_frags() || packet.frag_offset() > 0 {
        return;
    }
    let (from, to) = (packet.src_addr().into(), packet.dst_addr().into());
    match packet.next_header() {
        IpProtocol::Udp => {
            let datagram = UdpPacket::new_checked(packet.payload()).expect("a UDP datagram");
            assert!(datagram.verify_checksum(&from, &to), "UDP checksum");
        }
        IpProtocol::Icmp => {
            let message = Icmpv4Packet::new_checked(packet.payload()).expect("an ICMP message");
            assert!(message.verify_checksum(), "ICMP checksum");
        }
        IpProtocol::Igmp => {
            // Version 3 reports have their own length, which smoltcp does not support.
            if packet.payload().first() != Some(&0x22) {
                let message = IgmpPacket::new_checked(packet.payload()).expect("an IGMP message");
                assert!(message.verify_checksum(), "IGMP checksum");
            }
        }
        other => panic!("a host that sends {other}"),
    }
}

fn check_v6(bytes: &[u8]) {
    let packet = Ipv6Packet::new_checked(bytes).expect("an IPv6 packet");
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    assert!(!to.is_unspecified() && packet.hop_limit() > 0);
    let (next, payload) = match packet.next_header() {
        // This is the router alert before an MLD message.
        IpProtocol::HopByHop => {
            (IpProtocol::from(packet.payload()[0]), packet.payload().get(8..).expect("eight bytes"))
        }
        next => (next, packet.payload()),
    };
    match next {
        IpProtocol::Ipv6Frag => assert!(payload.len() > 8),
        IpProtocol::Udp => {
            let datagram = UdpPacket::new_checked(payload).expect("a UDP datagram");
            assert!(datagram.verify_checksum(&from.into(), &to.into()), "UDP checksum");
        }
        IpProtocol::Icmpv6 => {
            // This is version 1 of MLD, which smoltcp does not support.
            if matches!(payload.first(), Some(131 | 132)) {
                assert_eq!(payload.len(), 24, "an MLD message");
            } else {
                Icmpv6Packet::new_checked(payload)
                    .unwrap_or_else(|_| panic!("an ICMPv6 message: {payload:02x?}"));
            }
            let message = Icmpv6Packet::new_unchecked(payload);
            assert!(message.verify_checksum(&from, &to), "ICMPv6 checksum");
        }
        other => panic!("a host that sends {other}"),
    }
}
