//! UDP over both families, and what IP input refuses.

use super::*;
use crate::drop::{IpDrop, LinkDrop, UdpDrop};
use crate::stack::address::kinds::{link_local_of, solicited_node};
use crate::tcp::Secret;

#[test]
fn datagrams_of_every_size_cross_over_both_families() {
    let (mut a, mut b) = (Node::quiet(1), Node::quiet(2));
    for address in [v4, v6] {
        for len in [0, 1, 100, 1452, 1453, 1472, 1473, 3000, 65_000, 65_507] {
            a.send(address(2), &pattern(len)).unwrap();
            assert_eq!(exchange(&mut a, &mut b), [pattern(len)], "{len} bytes to {}", address(2));
            b.send(address(1), &pattern(len)).unwrap();
            assert_eq!(exchange(&mut a, &mut b), [pattern(len)], "{len} bytes back");
        }
        assert_eq!(a.send(address(2), &pattern(65_528)), Err(OutputError::TooBig));
    }
    assert_eq!(b.ledger.drops().count(), 0, "{:?}", b.ledger.drops().collect::<Vec<_>>());
}

#[test]
fn frames_sent_are_what_smoltcp_reads() {
    use crate::wire::{IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, UdpPacket};
    let (mut a, mut b) = (Node::quiet(1), Node::quiet(2));
    introduce(&mut a, &mut b);
    a.send(v4(2), b"payload").unwrap();
    a.send(v6(2), b"payload").unwrap();
    let sent = a.sent();
    let frame = EthernetFrame::new_checked(&sent[0][..]).unwrap();
    assert_eq!((frame.dst_addr(), frame.src_addr()), (mac(2), mac(1)));
    let packet = Ipv4Packet::new_checked(frame.payload()).unwrap();
    assert!(packet.verify_checksum());
    let header = Ipv4Repr::parse(&packet, &Default::default()).unwrap();
    assert_eq!((header.next_header, header.hop_limit), (IpProtocol::Udp, 64));
    let udp = UdpPacket::new_checked(packet.payload()).unwrap();
    assert!(udp.verify_checksum(&v4(1), &v4(2)));
    assert_eq!((udp.src_port(), udp.dst_port(), udp.payload()), (1000, 2000, &b"payload"[..]));
    let packet = Ipv6Packet::new_checked(&sent[1][14..]).unwrap();
    assert_eq!(Ipv6Repr::parse(&packet).unwrap().hop_limit, 64);
    assert!(UdpPacket::new_checked(packet.payload()).unwrap().verify_checksum(&v6(1), &v6(2)));
}

/// Returns the identification, and the field of flags and offset, of an IPv4 packet in a frame.
fn identification_v4(frame: &[u8]) -> (u16, u16) {
    (u16::from_be_bytes([frame[18], frame[19]]), u16::from_be_bytes([frame[20], frame[21]]))
}

fn identification_v6(frame: &[u8]) -> u32 {
    assert_eq!(frame[20], 44, "a fragment header");
    u32::from_be_bytes([frame[58], frame[59], frame[60], frame[61]])
}

/// RFC 6864 4: a busy flow cannot use up identifications, as whole datagrams need none; fragments of several
/// datagrams are told apart.
#[test]
fn whole_datagrams_are_not_to_be_cut_and_need_no_identification() {
    const DONT_FRAGMENT: u16 = 0x4000;
    let (mut a, mut b) = (Node::quiet(1), Node::quiet(2));
    introduce(&mut a, &mut b);
    for len in [0, 100, 1472] {
        b.send(v4(1), &pattern(len)).unwrap();
        assert_eq!(
            b.sent().iter().map(|frame| identification_v4(frame)).collect::<Vec<_>>(),
            [(0, DONT_FRAGMENT)]
        );
    }
    let mut last = None;
    for _ in 0..3 {
        b.send(v4(1), &pattern(4000)).unwrap();
        let sent = b.sent();
        let (ids, fields): (Vec<_>, Vec<_>) = sent.iter().map(|frame| identification_v4(frame)).unzip();
        assert_eq!(fields, [0x2000, 0x2000 | 185, 370], "further cut as needed");
        assert!(ids.iter().all(|id| *id == ids[0]) && last != Some(ids[0]), "{ids:?}");
        last = Some(ids[0]);
    }
    // What routers may cut has one, though it is whole.
    let echo = || packet_v4(1, 1, 0, &[], &icmp_bytes(None, v4(1), vec![8, 0, 0, 0, 1, 2, 3, 4]));
    let mut answered = || {
        assert!(b.receive(&echo()).is_none());
        identification_v4(&b.sent()[0])
    };
    let (first, second) = (answered(), answered());
    assert_eq!((first.1, second), (0, (first.0.wrapping_add(1), 0)));
}

/// RFC 7739 3: who sees identifications sent to him learns nothing of those sent to others.
#[test]
fn identifications_to_others_cannot_be_foretold_and_differ_by_secret() {
    let ids = |secret: Option<u8>| {
        let mut node = Node::quiet(2);
        secret.into_iter().for_each(|bits| node.stack.set_secret(Secret::new([bits; 16])));
        let mut ids = Vec::new();
        for n in [1, 3, 4, 1, 3, 4] {
            for address in [v4(n), v6(n)] {
                node.with(|stack, io| stack.set_neighbor(LAN, address, mac(n), io)).unwrap();
            }
            node.send(v4(n), &pattern(2000)).unwrap();
            ids.push(u32::from(identification_v4(&node.sent()[0]).0));
            node.send(v6(n), &pattern(2000)).unwrap();
            ids.push(identification_v6(&node.sent()[0]));
        }
        (ids, node.stack.routing.flows())
    };
    let (of_seed, one, two) = (ids(None), ids(Some(1)), ids(Some(2)));
    assert_eq!(one, ids(Some(1)));
    for (all, _) in [&of_seed, &one, &two] {
        for nth in 0..6 {
            let modulus = if nth % 2 == 0 { 0xffff } else { u32::MAX };
            assert_eq!(all[nth + 6], all[nth].wrapping_add(1) & modulus, "in the order of one destination");
        }
        let mut sixes = [all[1], all[3], all[5]];
        sixes.sort_unstable();
        assert!(sixes.windows(2).all(|pair| pair[1] - pair[0] > 10_000), "{sixes:?}");
        assert!(all[0].abs_diff(all[2]) > 10 && all[2].abs_diff(all[4]) > 10, "{all:?}");
    }
    for (a, b) in [(&of_seed, &one), (&one, &two), (&of_seed, &two)] {
        assert!(a.0.iter().zip(&b.0).all(|(a, b)| a != b), "{a:?} {b:?}");
        assert_ne!(a.1, b.1, "and so does the choice among several next hops");
    }
}

/// RFC 1191 for datagrams: a router that may not cut one says what fits, and the next comes in fragments that
/// do.
#[test]
fn datagrams_that_their_way_does_not_take_come_in_fragments_from_then_on() {
    let (mut a, mut b) = (Node::quiet(1), Node::quiet(2));
    introduce(&mut a, &mut b);
    b.send(v4(1), &pattern(1400)).unwrap();
    let sent = b.sent();
    assert_eq!((sent.len(), identification_v4(&sent[0]).1), (1, 0x4000));
    let quote = [&[3, 4, 0, 0, 0, 0, 5, 20], &sent[0][14..42]].concat();
    assert!(b.receive(&packet_v4(1, 1, 0, &[], &icmp_bytes(None, v4(1), quote))).is_none());
    b.send(v4(1), &pattern(1400)).unwrap();
    let sent = b.sent();
    assert!(sent.iter().all(|frame| frame.len() <= 14 + 1300 && identification_v4(frame).1 & 0x4000 == 0));
    let got: Vec<_> =
        sent.iter().filter_map(|frame| a.receive_udp(frame)).map(|(_, _, payload)| payload).collect();
    assert_eq!(got, [pattern(1400)]);
}

#[test]
fn a_datagram_is_read_in_every_way() {
    let mut node = Node::quiet(2);
    let payload = udp_bytes(v4(1), v4(2), b"0123456789");
    let datagram = node.receive(&packet_v4(17, 1, 0, &[], &payload)).unwrap();
    assert_eq!(
        (datagram.source(), datagram.destination()),
        (IpEndpoint::new(v4(1), 7), IpEndpoint::new(v4(2), 9))
    );
    assert_eq!((datagram.len(), datagram.frames(), datagram.is_empty()), (10, 1, false));
    assert_eq!(datagram.as_slice(), Some(&b"0123456789"[..]));
    let mut small = [0; 4];
    assert_eq!(datagram.copy_to(&mut small), 4);
    assert_eq!(&small, b"0123");
    let copy = datagram.duplicate(&mut node.pool).unwrap();
    assert_eq!(copy.as_slice(), datagram.as_slice());
    node.ledger.delivered += 1;
    copy.recycle(&mut node.pool);
    datagram.recycle(&mut node.pool);
    node.check();
    assert!(size_of::<Datagram>() <= 96, "moved often: {}", size_of::<Datagram>());
}

#[test]
fn padding_options_and_trailing_bytes_are_passed_over() {
    let mut node = Node::quiet(2);
    let payload = udp_bytes(v4(1), v4(2), b"data");
    let mut padded = packet_v4(17, 1, 0, &[], &payload);
    padded.resize(60, 0xee);
    // Record route of no slots, a no-op, end of options with anything behind it.
    let options = packet_v4(17, 1, 0, &[7, 3, 4, 1, 0, 131, 200, 0], &payload);
    let longer = packet_v4(17, 1, 0, &[], &[&payload[..], b"trailer"].concat());
    for frame in [padded, options, longer] {
        assert_eq!(node.receive_udp(&frame).unwrap().2, b"data");
    }
    node.check();
}

#[test]
fn malformed_packets_end_as_the_drop_that_names_their_fault() {
    let good = packet_v4(17, 1, 0, &[], &udp_bytes(v4(1), v4(2), b"data"));
    let checksum = {
        let mut frame = good.clone();
        frame[14 + 10] ^= 1;
        frame
    };
    let version = edit_v4(good.clone(), |packet| packet[0] = 0x55);
    let short_ihl = edit_v4(good.clone(), |packet| packet[0] = 0x44);
    let long = edit_v4(good.clone(), |packet| packet[2..4].copy_from_slice(&1000_u16.to_be_bytes()));
    let source_route = packet_v4(17, 1, 0, &[131, 7, 4, 10, 0, 0, 9, 0], &udp_bytes(v4(1), v4(2), b"data"));
    let bad_option = packet_v4(17, 1, 0, &[7, 1, 0, 0], b"");
    let option_beyond = packet_v4(17, 1, 0, &[7, 9, 0, 0], b"");
    let mut node = Node::quiet(2);
    let frames =
        [version, short_ihl, long, source_route, bad_option, option_beyond, good[..20].to_vec(), checksum];
    let expected = [(IpDrop::Malformed.into(), 7), (IpDrop::Checksum.into(), 1)];
    assert_drops(&mut node, &frames, &expected);
}

#[test]
fn frames_and_packets_that_are_not_for_us_end_early() {
    let good = packet_v4(17, 1, 0, &[], &udp_bytes(v4(1), v4(2), b"data"));
    let other = [&mac(9).0[..], &good[6..]].concat();
    let unicast_in_broadcast = [&[0xff; 6][..], &good[6..]].concat();
    let elsewhere = edit_v4(good.clone(), |packet| packet[19] = 77);
    let group = edit_v4(good.clone(), |packet| packet[16..20].copy_from_slice(&[224, 1, 2, 3]));
    let vlan = [&good[..12], &[0x81, 0, 0, 1], &good[12..]].concat();
    let mut node = Node::quiet(2);
    let frames = [good[..13].to_vec(), Vec::new(), other, vlan, unicast_in_broadcast, elsewhere, group];
    let expected = [
        (LinkDrop::Truncated.into(), 2),
        (LinkDrop::NotForUs.into(), 1),
        (LinkDrop::UnknownEtherType.into(), 1),
        (IpDrop::NotLocal.into(), 3),
    ];
    assert_drops(&mut node, &frames, &expected);
}

#[test]
fn sources_that_nobody_can_have_are_martians() {
    let good = packet_v4(17, 1, 0, &[], &udp_bytes(v4(1), v4(2), b"data"));
    let from = |source: [u8; 4]| edit_v4(good.clone(), |packet| packet[12..16].copy_from_slice(&source));
    let sources = [
        [127, 0, 0, 1],
        [0, 0, 0, 0],
        [0, 1, 2, 3],
        [224, 0, 0, 1],
        [255, 255, 255, 255],
        [10, 0, 0, 255],
        [10, 0, 0, 2],
    ];
    let mut frames: Vec<_> = sources.into_iter().map(from).collect();
    for source in ["::", "::1", "ff02::1", "::ffff:10.0.0.1", "fd00::2"] {
        let source: core::net::Ipv6Addr = source.parse().unwrap();
        let mut frame = packet_v6(17, 64, &udp_bytes(source.into(), v6(2), b"data"));
        frame[22..38].copy_from_slice(&source.octets());
        frames.push(frame);
    }
    let mut node = Node::quiet(2);
    assert_drops(&mut node, &frames, &[(IpDrop::Martian.into(), 12)]);
    assert!(node.sent().is_empty());
}

#[test]
fn udp_lengths_and_checksums_are_checked() {
    let good = udp_bytes(v4(1), v4(2), b"data");
    let with_len = |len: u16| [&good[..4], &len.to_be_bytes(), &good[6..]].concat();
    let mut corrupt = good.clone();
    corrupt[9] ^= 4;
    let v6_unsummed = {
        let mut bytes = udp_bytes(v6(1), v6(2), b"data");
        bytes[6..8].fill(0);
        packet_v6(17, 64, &bytes)
    };
    let mut node = Node::quiet(2);
    let bad_len = [with_len(7), with_len(13), with_len(0), good[..7].to_vec()];
    let mut frames: Vec<_> = bad_len.iter().map(|bytes| packet_v4(17, 1, 0, &[], bytes)).collect();
    frames.extend([packet_v4(17, 1, 0, &[], &corrupt), v6_unsummed]);
    assert_drops(&mut node, &frames, &[(UdpDrop::Malformed.into(), 4), (UdpDrop::Checksum.into(), 2)]);
    // Over IPv4 a checksum of zero means that there is none.
    corrupt[6..8].fill(0);
    assert!(node.receive_udp(&packet_v4(17, 1, 0, &[], &corrupt)).is_some());
}

#[test]
fn a_sum_of_zero_is_sent_as_all_ones() {
    let (mut a, mut b) = (Node::quiet(1), Node::quiet(2));
    introduce(&mut a, &mut b);
    for word in 0..=u16::MAX {
        let head = IpEndpoint::new(v4(2), 2000);
        let payload = word.to_be_bytes();
        if crate::tcp::Checksum::pseudo(v4(1), v4(2), 17, 10)
            .add(&[0x03, 0xe8, 0x07, 0xd0, 0, 10, 0, 0])
            .add(&payload)
            .finish()
            == 0
        {
            a.send(head.addr, &payload).unwrap();
            let sent = a.sent();
            assert_eq!(sent[0][14 + 20 + 6..14 + 28], [0xff, 0xff]);
            assert_eq!(b.receive_udp(&sent[0]).unwrap().2, payload);
            return;
        }
    }
    panic!("some payload sums to zero");
}

#[test]
fn ports_without_sockets_are_reported_within_the_limit() {
    let mut node = Node::quiet(2);
    let mut peer = Node::quiet(1);
    introduce(&mut peer, &mut node);
    let frames = [
        packet_v4(17, 1, 0, &[], &udp_bytes(v4(1), v4(2), &pattern(1400))),
        packet_v6(17, 64, &udp_bytes(v6(1), v6(2), &pattern(1400))),
    ];
    for frame in &frames {
        for _ in 0..10 {
            let datagram = node.receive(frame).unwrap();
            node.with(|stack, io| stack.port_unreachable(&datagram, io));
            node.ledger.drop_input(UdpDrop::NoSocket, datagram.frames());
            datagram.recycle(&mut node.pool);
            node.check();
        }
    }
    let sent = node.sent();
    assert!((6..=16).contains(&sent.len()), "{}: a burst of about ten", sent.len());
    assert_eq!(node.ledger.output_drops(IpDrop::RateLimited), 20 - sent.len() as u64);
    assert_eq!(sent[0][14 + 20..14 + 22], [3, 3]);
    assert_eq!(sent[0].len(), 14 + 576);
    assert_eq!(sent[0][14 + 28..], frames[0][14..14 + 548], "quotes the packet");
    node.now += crate::time::Duration::from_secs(1);
    let datagram = node.receive(&frames[1]).unwrap();
    node.with(|stack, io| stack.port_unreachable(&datagram, io));
    node.ledger.drop_input(UdpDrop::NoSocket, 1);
    datagram.recycle(&mut node.pool);
    let sent = node.sent();
    assert_eq!((sent[0].len(), &sent[0][14 + 40..14 + 42]), (14 + 1280, &[1, 4][..]));
    for frame in sent {
        assert!(peer.receive(&frame).is_none());
    }
    assert_eq!(peer.ledger.drops().count(), 0, "its checksum is right");
}

#[test]
fn while_one_floods_ports_without_sockets_others_are_told_at_once() {
    let mut node = Node::quiet(2);
    let mut peer = Node::quiet(1);
    introduce(&mut peer, &mut node);
    let from_v4 = packet_v4(17, 1, 0, &[], &udp_bytes(v4(1), v4(2), b"?"));
    let from_v6 = packet_v6(17, 64, &udp_bytes(v6(1), v6(2), b"?"));
    let mut told = [0; 2];
    for n in 1..=1_000 {
        for (frame, told) in
            [&from_v4, &from_v6].into_iter().zip(&mut told).take(1 + usize::from(n % 100 == 0))
        {
            let datagram = node.receive(frame).unwrap();
            node.with(|stack, io| stack.port_unreachable(&datagram, io));
            node.ledger.drop_input(UdpDrop::NoSocket, datagram.frames());
            datagram.recycle(&mut node.pool);
            *told += node.sent().len();
        }
        node.now += crate::time::Duration::from_millis(1);
    }
    assert!((20..=50).contains(&told[0]) && told[1] == 10, "a quarter of the rate, and all ten: {told:?}");
}

#[test]
fn broadcasts_groups_and_errors_are_never_reported() {
    let mut node = Node::quiet(2);
    let good = packet_v4(17, 1, 0, &[], &udp_bytes(v4(1), v4(255), b"data"));
    let mut broadcast = edit_v4(good, |packet| packet[19] = 255);
    broadcast[..6].fill(0xff);
    let datagram = node.receive(&broadcast).unwrap();
    assert_eq!(datagram.destination().addr, v4(255));
    node.with(|stack, io| stack.port_unreachable(&datagram, io));
    node.ledger.drop_input(UdpDrop::NoSocket, 1);
    datagram.recycle(&mut node.pool);
    // An unknown protocol is reported (once here), but not by a fragment, and not about an error.
    let frames = [
        packet_v4(200, 1, 0, &[], b"x"),
        packet_v4(1, 1, 0, &[], &icmp_bytes(None, v4(1), vec![3, 3, 0, 0, 0, 0, 0, 0])),
    ];
    for frame in &frames {
        assert!(node.receive(frame).is_none());
    }
    let sent: Vec<_> = node.sent().into_iter().filter(|frame| frame[12..14] == [8, 0]).collect();
    assert_eq!(sent.len() as u64 + node.stack.held(), 1);
    node.check();
}

#[test]
fn sending_names_what_is_in_the_way() {
    let mut node = Node::quiet(1);
    let elsewhere = IpAddress::v4(192, 0, 2, 1);
    assert_eq!(node.send(elsewhere, b""), Err(OutputError::NoRoute));
    assert_eq!(node.send(v4(1), b""), Err(OutputError::Loopback));
    assert_eq!(node.send(v6(1), b""), Err(OutputError::Loopback));
    assert_eq!(node.send(IpAddress::v4(0, 0, 0, 0), b""), Err(OutputError::NoRoute));
    let origin = Origin { address: Some(v4(9)), interface: None };
    let source = Source { origin, ..Source::default() };
    let sent = node.with(|stack, io| {
        stack.send_udp(source, IpEndpoint::new(v4(2), 1), b"", &mut RouteHandle::default(), io)
    });
    assert_eq!(sent, Err(OutputError::NoAddress));
    node.stack.add_route(IpCidr::new(IpAddress::v4(0, 0, 0, 0), 0), v4(200), LAN).unwrap();
    assert_eq!(node.send(elsewhere, b""), Ok(()));
    let question = node.sent();
    assert_eq!(question[0][14 + 24..14 + 28], [10, 0, 0, 200], "asks for the gateway");
    let frames: Vec<_> = std::iter::from_fn(|| node.pool.take()).collect();
    assert_eq!(node.send(v4(255), b""), Err(OutputError::NoBuffer));
    frames.into_iter().for_each(|frame| node.pool.recycle(frame));
    node.check();
}

/// RFC 6724 5, rules 2 and 8; RFC 1122 3.3.4.3.
#[test]
fn a_source_has_the_scope_of_its_destination_and_the_longest_prefix_in_common() {
    let address = |text: &str| IpAddress::from(text.parse::<core::net::IpAddr>().expect("an address"));
    let mut node = Node::quiet(2);
    for (text, length) in [("2001:db8:1::2", 64), ("2001:db8:2::2", 64), ("192.0.2.2", 24)] {
        node.with(|stack, io| stack.add_address(LAN, IpCidr::new(address(text), length), io));
    }
    let gateway = address("192.0.2.1");
    node.stack.add_route(IpCidr::new(address("198.51.100.0"), 24), gateway, LAN).unwrap();
    let cases = [
        ("fe80::9", "fe80::ff:fe00:2"),
        ("ff02::9", "fe80::ff:fe00:2"),
        ("fd00::9", "fd00::2"),
        ("2001:db8:1::9", "2001:db8:1::2"),
        ("2001:db8:2::9", "2001:db8:2::2"),
        ("192.0.2.9", "192.0.2.2"),
        ("10.0.0.9", "10.0.0.2"),
        // By way of a gateway: the address that is on its network.
        ("198.51.100.9", "192.0.2.2"),
    ];
    node.with(|stack, io| stack.set_neighbor(LAN, gateway, mac(9), io)).unwrap();
    for (to, expected) in cases {
        let to = address(to);
        if !to.is_multicast() {
            node.with(|stack, io| stack.set_neighbor(LAN, to, mac(9), io)).unwrap();
        }
        node.send(to, b"x").unwrap();
        let frame = &node.sent()[0];
        let source = match to {
            IpAddress::Ipv4(_) => Ipv4Address::from_octets(frame[26..30].try_into().unwrap()).into(),
            IpAddress::Ipv6(_) => {
                crate::wire::Ipv6Address::from_octets(frame[22..38].try_into().unwrap()).into()
            }
        };
        assert_eq!(address(expected), source, "to {to}");
    }
}

#[test]
fn local_addresses_are_ours() {
    let node = Node::quiet(2);
    let link_local = IpAddress::v6(0xfe80, 0, 0, 0, 0x0000, 0x00ff, 0xfe00, 2);
    for address in
        [v4(2), v6(2), v4(255), link_local, IpAddress::v4(255, 255, 255, 255), IpAddress::v4(224, 0, 0, 1)]
    {
        assert!(node.stack.is_local(&address), "{address}");
        assert!(node.stack.local_addresses().any(|local| local == address), "{address}");
    }
    assert!(node.stack.local_addresses().all(|address| node.stack.is_local(&address)));
    assert!(!node.stack.is_local(&v4(3)) && !node.stack.is_local(&v6(3)));
}

#[test]
fn an_address_that_is_taken_away_is_no_longer_ours_and_its_prefix_no_longer_on_link() {
    let mut node = Node::quiet(2);
    let second = IpCidr::new(v4(3), 24);
    node.with(|stack, io| stack.add_address(LAN, second, io));
    assert!(node.stack.is_local(&v4(2)) && node.stack.is_local(&v4(3)));
    assert!(node.stack.remove_address(LAN, IpCidr::new(v4(2), 24)));
    assert!(!node.stack.is_local(&v4(2)) && node.stack.is_local(&v4(3)));
    node.send(v4(9), b"its prefix is still the other's").unwrap();
    assert!(node.stack.remove_address(LAN, second) && !node.stack.remove_address(LAN, second));
    assert_eq!(node.send(v4(9), b"x"), Err(OutputError::NoRoute));
    let IpAddress::Ipv6(address) = v6(2) else { unreachable!("an IPv6 address") };
    let group = IpAddress::Ipv6(solicited_node(address));
    // The link-local address has the same last three bytes, and hence the same group.
    assert!(node.stack.remove_address(LAN, IpCidr::new(v6(2), 64)) && node.stack.is_local(&group));
    assert!(
        node.stack.remove_address(LAN, IpCidr::Ipv6(link_local_of(mac(2)))) && !node.stack.is_local(&group)
    );
    let rest: Vec<_> = node.stack.routes().collect();
    assert_eq!(rest, []);
}
