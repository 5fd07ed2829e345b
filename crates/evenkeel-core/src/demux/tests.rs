//! Every class that the demultiplexing function knows, on frames made by hand.

use super::*;

const OURS: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);
const UDP_ANY: ChannelId = ChannelId(1);
const UDP_ONE: ChannelId = ChannelId(2);
const GROUP: ChannelId = ChannelId(3);
const OPENING: ChannelId = ChannelId(4);
const OTHER: ChannelId = ChannelId(5);
const CONNECTION: ChannelId = ChannelId(6);
const NEIGHBOR: ChannelId = ChannelId(7);
const CONTROL: ChannelId = ChannelId(8);
const FRAGMENT: ChannelId = ChannelId(9);
const FORWARD: ChannelId = ChannelId(10);

const MALFORMED: Class = Class::Discard(Reason::Ip(IpDrop::Malformed));
const NOT_LOCAL: Class = Class::Discard(Reason::Ip(IpDrop::NotLocal));

/// Destination options that say nothing.
const OPTIONS: u8 = 60;
const FRAGMENT_HEADER: u8 = 44;

fn v4(n: u8) -> Ipv4Address {
    Ipv4Address::new(10, 0, 0, n)
}

fn v6(n: u16) -> Ipv6Address {
    Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, n)
}

fn group_v6() -> Ipv6Address {
    Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 0x99)
}

/// Returns the table of a host with the addresses 2 and 3 of both families and two groups. To port 9 leads
/// everything that can; to port 10 datagrams to address 2 only.
fn table() -> DemuxTable {
    let mut table = DemuxTable::new(1);
    let addresses: [IpAddress; 6] = [
        v4(2).into(),
        v4(3).into(),
        v6(2).into(),
        v6(3).into(),
        Ipv4Address::new(224, 0, 0, 9).into(),
        group_v6().into(),
    ];
    addresses.into_iter().for_each(|address| table.apply(Change::AddAddress(address)));
    table.apply(Change::Hardware(OURS));
    let bindings = [
        (Binding::Udp { address: None, port: 9 }, UDP_ANY),
        (Binding::Udp { address: Some(v4(3).into()), port: 9 }, UDP_ONE),
        (Binding::Udp { address: Some(v6(3).into()), port: 9 }, UDP_ONE),
        (Binding::Udp { address: Some(v4(2).into()), port: 10 }, UDP_ONE),
        (Binding::Udp { address: Some(group_v6().into()), port: 11 }, GROUP),
        (Binding::Tcp { address: None, port: 9, opens: true }, OPENING),
        (Binding::Tcp { address: None, port: 9, opens: false }, OTHER),
        (Binding::Connection(tuple(2)), CONNECTION),
        (Binding::Neighbor, NEIGHBOR),
        (Binding::Control, CONTROL),
        (Binding::Fragment, FRAGMENT),
        (Binding::Forward, FORWARD),
    ];
    bindings.into_iter().for_each(|(binding, channel)| table.apply(Change::Bind(binding, channel)));
    // Datagrams are from port 7.
    for (port, from) in [(14, 7), (15, 8)] {
        table.apply(Change::Bind(Binding::Udp { address: None, port }, UDP_ONE));
        table.apply(Change::Connect(UDP_ONE, port, IpEndpoint::new(v4(1).into(), from)));
    }
    table
}

/// Returns the tuple of the segments that [`tcp`] creates.
fn tuple(local: u8) -> FourTuple {
    FourTuple::new((v4(local), 9), (v4(1), 7))
}

fn ethernet(to: EthernetAddress, kind: u16, packet: &[u8]) -> Vec<u8> {
    [&to.0[..], &[2, 0, 0, 0, 0, 1], &kind.to_be_bytes(), packet].concat()
}

/// Returns an IPv4 packet from address 1 with this field of flags and offset.
fn ipv4(to: Ipv4Address, protocol: u8, id: u16, field: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([id.to_be_bytes(), field.to_be_bytes()].concat());
    packet.extend([64, protocol, 0, 0]);
    packet.extend([v4(1).octets(), to.octets()].concat());
    packet.extend(payload);
    ethernet(OURS, 0x0800, &packet)
}

fn ipv6(to: Ipv6Address, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend([v6(1).octets(), to.octets()].concat());
    packet.extend(payload);
    ethernet(OURS, 0x86dd, &packet)
}

/// Returns a UDP header from port 7, and some payload.
fn udp(port: u16) -> Vec<u8> {
    [&[0, 7], &port.to_be_bytes()[..], &[0, 12, 0, 0, 1, 2, 3, 4]].concat()
}

/// Returns a TCP header from port 7 to port 9.
fn tcp(flags: u8) -> Vec<u8> {
    let mut header = [0; 20];
    header[1] = 7;
    header[3] = 9;
    header[12] = 0x50;
    header[13] = flags;
    header.to_vec()
}

/// Returns an extension header with `units` further units of eight bytes, and its next header.
fn extension(next: u8, units: u8, rest: &[u8]) -> Vec<u8> {
    let mut header = vec![0; (usize::from(units) + 1) * 8];
    [header[0], header[1]] = [next, units];
    [header, rest.to_vec()].concat()
}

/// Returns a fragment header with this field of offset and flags, and the bytes after it.
fn fragment_header(next: u8, field: u16, id: u32, rest: &[u8]) -> Vec<u8> {
    [&[next, 0], &field.to_be_bytes()[..], &id.to_be_bytes(), rest].concat()
}

fn channel_of(frame: &[u8]) -> ChannelId {
    match table().classify(frame) {
        Class::Channel(channel) => channel,
        other => panic!("{other:?}, of {frame:02x?}"),
    }
}

#[test]
fn frames_are_told_apart_by_their_link_layer() {
    let table = table();
    let arp = ethernet(OURS, 0x0806, &[0; 28]);
    assert_eq!(table.classify(&arp), Class::Channel(NEIGHBOR));
    assert_eq!(table.classify(&arp[..14]), Class::Channel(NEIGHBOR));
    assert_eq!(table.classify(&arp[..13]), Class::Discard(LinkDrop::Truncated.into()));
    for kind in [0x8100, 0x0801, 0] {
        let class = table.classify(&ethernet(OURS, kind, &[0; 28]));
        assert_eq!(class, Class::Discard(LinkDrop::UnknownEtherType.into()));
    }
    let stranger = ethernet(EthernetAddress([2, 0, 0, 0, 0, 9]), 0x0806, &[0; 28]);
    assert_eq!(table.classify(&stranger), Class::Discard(LinkDrop::NotForUs.into()));
    for to_all in [EthernetAddress::BROADCAST, EthernetAddress([0x33, 0x33, 0, 0, 0, 1])] {
        assert_eq!(table.classify(&ethernet(to_all, 0x0806, &[0; 28])), Class::Channel(NEIGHBOR));
    }
}

#[test]
fn datagrams_go_to_the_socket_of_their_address_before_that_of_any() {
    assert_eq!(channel_of(&ipv4(v4(2), 17, 0, 0, &udp(9))), UDP_ANY);
    assert_eq!(channel_of(&ipv4(v4(3), 17, 0, 0, &udp(9))), UDP_ONE);
    assert_eq!(channel_of(&ipv4(v4(2), 17, 0, 0, &udp(10))), UDP_ONE);
    assert_eq!(channel_of(&ipv4(v4(3), 17, 0, 0, &udp(10))), CONTROL, "bound at another address");
    assert_eq!(channel_of(&ipv4(v4(2), 17, 0, 0, &udp(12))), CONTROL, "bound by nobody");
    assert_eq!(channel_of(&ipv6(v6(2), 17, &udp(9))), UDP_ANY);
    assert_eq!(channel_of(&ipv6(v6(3), 17, &udp(9))), UDP_ONE);
    assert_eq!(channel_of(&ipv6(v6(2), 17, &udp(10))), CONTROL);
    // Groups are got by those who have joined them.
    assert_eq!(channel_of(&ipv6(group_v6(), 17, &udp(11))), GROUP);
    assert_eq!(channel_of(&ipv6(group_v6(), 17, &udp(9))), CONTROL);
    assert_eq!(channel_of(&ipv4(Ipv4Address::new(224, 0, 0, 9), 17, 0, 0, &udp(9))), CONTROL);
    assert_eq!(table().udp(&v4(3).into(), 9), Some(UDP_ONE));
    assert_eq!(table().udp(&v4(3).into(), 10), None);
}

#[test]
fn what_is_unbound_leads_nowhere() {
    let mut table = table();
    table.apply(Change::Unbind(Binding::Udp { address: Some(v4(3).into()), port: 9 }));
    assert_eq!(table.classify(&ipv4(v4(3), 17, 0, 0, &udp(9))), Class::Channel(UDP_ANY));
    table.apply(Change::Unbind(Binding::Udp { address: None, port: 9 }));
    assert_eq!(table.classify(&ipv4(v4(3), 17, 0, 0, &udp(9))), Class::Channel(CONTROL));
    table.apply(Change::Unbind(Binding::Control));
    let nowhere = Class::Discard(IpDrop::UnknownProtocol.into());
    assert_eq!(table.classify(&ipv4(v4(3), 17, 0, 0, &udp(9))), nowhere);
    table.apply(Change::Unbind(Binding::Neighbor));
    assert_eq!(table.classify(&ethernet(OURS, 0x0806, &[])), nowhere);
    table.apply(Change::Unbind(Binding::Fragment));
    assert_eq!(table.classify(&ipv4(v4(3), 17, 0, 5, &udp(9))), nowhere);
    table.apply(Change::RemoveAddress(v4(2).into()));
    assert_eq!(table.classify(&ipv4(v4(2), 1, 0, 0, &[8, 0])), Class::Channel(FORWARD));
}

#[test]
fn segments_are_for_a_connection_or_for_those_who_listen() {
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    let classify = |to: u8, flags: u8| table().classify(&ipv4(v4(to), 6, 0, 0, &tcp(flags)));
    for flags in [SYN, ACK, SYN | ACK, FIN | ACK, 0] {
        let opens = flags == SYN;
        let of = |tuple, channel| Class::Segment { tuple, opens, channel: Some(channel) };
        assert_eq!(classify(2, flags), of(tuple(2), CONNECTION));
        assert_eq!(classify(3, flags), of(tuple(3), if opens { OPENING } else { OTHER }));
    }
    let mut table = table();
    table.apply(Change::Unbind(Binding::Connection(tuple(2))));
    table.apply(Change::Unbind(Binding::Tcp { address: None, port: 9, opens: true }));
    let channel_of = |table: &DemuxTable, flags| match table.classify(&ipv4(v4(2), 6, 0, 0, &tcp(flags))) {
        Class::Segment { channel, .. } => channel,
        other => panic!("{other:?}"),
    };
    assert_eq!(channel_of(&table, SYN), Some(CONTROL), "to be refused");
    assert_eq!(channel_of(&table, ACK), Some(OTHER));
    table.apply(Change::Unbind(Binding::Control));
    assert_eq!(channel_of(&table, SYN), None);
    // Over IPv6, behind options; and what is no whole header.
    let frame = ipv6(v6(2), OPTIONS, &extension(6, 1, &tcp(SYN)));
    let expected = FourTuple::new((v6(2), 9), (v6(1), 7));
    assert!(matches!(table.classify(&frame), Class::Segment { tuple, opens: true, .. } if tuple == expected));
    assert_eq!(self::channel_of(&ipv4(v4(2), 6, 0, 0, &tcp(SYN)[..13])), CONTROL);
}

#[test]
fn what_has_no_socket_is_control_and_discovery_is_kept_apart() {
    for protocol in [1, 2, 4, 47, 50, 132, 200] {
        assert_eq!(channel_of(&ipv4(v4(2), protocol, 0, 0, &[8; 24])), CONTROL, "{protocol}");
    }
    for kind in 0..=255 {
        let expected = if (133..=137).contains(&kind) { NEIGHBOR } else { CONTROL };
        let message = [kind, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(channel_of(&ipv6(v6(2), 58, &message)), expected, "{kind}");
        assert_eq!(channel_of(&ipv6(v6(2), 0, &extension(58, 0, &message))), expected, "{kind}");
        // ICMPv6 over IPv4 is an unknown protocol; behind a fragment header discovery is ignored (RFC 6980).
        assert_eq!(channel_of(&ipv6(v6(2), 44, &fragment_header(58, 0, 1, &message))), CONTROL, "{kind}");
        let first = ipv6(v6(2), 44, &fragment_header(58, 1, 1, &message));
        assert!(matches!(table().classify(&first), Class::FirstFragment(CONTROL, _)), "{kind}");
    }
    // No header, or too little of one.
    assert_eq!(channel_of(&ipv6(v6(2), 59, &[])), CONTROL);
    assert_eq!(channel_of(&ipv6(v6(2), 58, &[])), CONTROL);
    assert_eq!(channel_of(&ipv6(v6(2), 17, &udp(9)[..3])), CONTROL);
    assert_eq!(channel_of(&ipv4(v4(2), 17, 0, 0, &udp(9)[..3])), CONTROL);
}

/// Bytes that follow the packet in its frame are padding.
#[test]
fn padding_is_not_looked_at() {
    let padded = |frame: Vec<u8>| [&frame[..], &udp(9), &[0; 40]].concat();
    assert_eq!(channel_of(&padded(ipv4(v4(2), 17, 0, 0, &[]))), CONTROL);
    assert_eq!(channel_of(&padded(ipv6(v6(2), 17, &[]))), CONTROL);
    assert_eq!(channel_of(&padded(ipv4(v4(2), 17, 0, 0, &udp(9)))), UDP_ANY);
    // Options of IPv4 are passed over.
    let mut options = ipv4(v4(2), 17, 0, 0, &[&[1; 8][..], &udp(9)].concat());
    options[14] = 0x47;
    assert_eq!(channel_of(&options), UDP_ANY);
}

#[test]
fn headers_that_no_packet_has_are_malformed() {
    let table = table();
    let broken = |frame: &[u8], at: usize, value: u8| {
        let mut frame = frame.to_vec();
        frame[14 + at] = value;
        table.classify(&frame)
    };
    let (four, six) = (ipv4(v4(2), 17, 0, 0, &udp(9)), ipv6(v6(2), 17, &udp(9)));
    assert_eq!(broken(&four, 0, 0x65), MALFORMED, "version");
    assert_eq!(broken(&four, 0, 0x44), MALFORMED, "header shorter than the fixed part");
    assert_eq!(broken(&four, 0, 0x4f), MALFORMED, "header longer than the packet");
    assert_eq!(broken(&four, 3, 19), MALFORMED, "packet shorter than its header");
    assert_eq!(broken(&four, 3, 33), MALFORMED, "packet longer than the frame");
    assert_eq!(broken(&six, 0, 0x40), MALFORMED, "version");
    assert_eq!(broken(&six, 5, 13), MALFORMED, "packet longer than the frame");
    assert_eq!(table.classify(&four[..33]), MALFORMED);
    assert_eq!(table.classify(&six[..53]), MALFORMED);
}

#[test]
fn extension_headers_are_followed_as_far_as_protocol_input_may_look() {
    let behind = |headers: usize| {
        let chain = (0..headers)
            .fold((17, udp(9)), |(next, rest), n| (OPTIONS, extension(next, (n % 3) as u8, &rest)));
        ipv6(v6(2), chain.0, &chain.1)
    };
    for headers in 0..HEADERS_MAX {
        assert_eq!(channel_of(&behind(headers)), UDP_ANY, "{headers}");
    }
    assert_eq!(channel_of(&behind(HEADERS_MAX)), CONTROL);
    for kind in [0, 43, OPTIONS] {
        assert_eq!(channel_of(&ipv6(v6(2), kind, &extension(17, 2, &udp(9)))), UDP_ANY, "{kind}");
    }
    assert_eq!(channel_of(&ipv6(v6(2), 51, &extension(17, 2, &udp(9)))), CONTROL, "an unknown header");
}

/// Protocol input may have to report them.
#[test]
fn headers_that_are_not_there_whole_are_left_to_protocol_input() {
    let whole = extension(17, 1, &[]);
    for kind in [0, 43, OPTIONS] {
        for len in 0..whole.len() {
            assert_eq!(channel_of(&ipv6(v6(2), kind, &whole[..len])), CONTROL, "{kind} {len}");
            // In a first fragment, so that the others follow it there.
            let first = ipv6(v6(2), 44, &fragment_header(kind, 1, 3, &whole[..len]));
            assert!(matches!(table().classify(&first), Class::FirstFragment(CONTROL, _)), "{kind} {len}");
        }
    }
    let header = fragment_header(17, 1, 3, &[]);
    for len in 0..header.len() {
        assert_eq!(channel_of(&ipv6(v6(2), 44, &header[..len])), CONTROL, "{len}");
    }
    // A fragment in a fragment.
    let nested = fragment_header(44, 0, 3, &fragment_header(17, 0, 4, &udp(9)));
    assert_eq!(channel_of(&ipv6(v6(2), 44, &nested)), CONTROL);
}

#[test]
fn later_fragments_go_where_the_first_one_went() {
    const MORE: u16 = 0x2000;
    let mut table = table();
    let first = |port, id| ipv4(v4(2), 17, id, MORE, &udp(port));
    for (port, id, channel) in [(9, 1, UDP_ANY), (10, 2, UDP_ONE), (12, 3, CONTROL)] {
        let Class::FirstFragment(found, key) = table.classify(&first(port, id)) else {
            panic!("no first fragment")
        };
        assert_eq!(found, channel);
        assert_eq!(table.classify(&ipv4(v4(2), 17, id, 2, &[0; 8])), Class::Channel(FRAGMENT), "not yet");
        table.record_fragment(key, found);
    }
    for (id, channel) in [(1, UDP_ANY), (2, UDP_ONE), (3, CONTROL), (4, FRAGMENT)] {
        for field in [1, 2, 0x1fff, MORE | 1, MORE | 0x1fff] {
            // They have no header of UDP, whatever they begin with.
            for payload in [udp(9), udp(10), vec![0; 8], vec![]] {
                let class = table.classify(&ipv4(v4(2), 17, id, field, &payload));
                assert_eq!(class, Class::Channel(channel), "{id} {field}");
            }
        }
    }
    // Of another datagram: by destination, by protocol, by source.
    assert_eq!(table.classify(&ipv4(v4(3), 17, 1, 2, &[0; 8])), Class::Channel(FRAGMENT));
    assert_eq!(table.classify(&ipv4(v4(2), 18, 1, 2, &[0; 8])), Class::Channel(FRAGMENT));
    let mut other = ipv4(v4(2), 17, 1, 2, &[0; 8]);
    other[14 + 15] = 77;
    assert_eq!(table.classify(&other), Class::Channel(FRAGMENT));
    // TCP in fragments is nobody's connection yet.
    let class = table.classify(&ipv4(v4(2), 6, 9, MORE, &tcp(2)));
    assert!(matches!(class, Class::FirstFragment(CONTROL, _)), "{class:?}");
    // "Do not fragment" makes no fragment.
    assert_eq!(table.classify(&ipv4(v4(2), 17, 9, 0x4000, &udp(9))), Class::Channel(UDP_ANY));
}

#[test]
fn later_fragments_of_ipv6_go_where_the_first_one_went() {
    let mut table = table();
    let fragment = |next, field, id, rest: &[u8]| ipv6(v6(2), 44, &fragment_header(next, field, id, rest));
    // With options in front of the fragment header, and behind it.
    let in_front = ipv6(v6(2), OPTIONS, &extension(FRAGMENT_HEADER, 1, &fragment_header(17, 1, 1, &udp(9))));
    let behind = fragment(OPTIONS, 1, 2, &extension(17, 1, &udp(12)));
    for (frame, channel) in [(in_front, UDP_ANY), (behind, CONTROL)] {
        let Class::FirstFragment(found, key) = table.classify(&frame) else { panic!("no first fragment") };
        assert_eq!(found, channel);
        table.record_fragment(key, found);
    }
    // What the fragment header names of a later fragment need not be what it names of the first (RFC 8200
    // 4.5).
    for next in [17, OPTIONS, 6, 44] {
        for field in [8, 9, 0xfff8, 0xfff9] {
            assert_eq!(table.classify(&fragment(next, field, 1, &[0; 8])), Class::Channel(UDP_ANY));
            assert_eq!(table.classify(&fragment(next, field, 2, &udp(9))), Class::Channel(CONTROL));
            assert_eq!(table.classify(&fragment(next, field, 1 << 16 | 1, &[])), Class::Channel(FRAGMENT));
        }
    }
    let to_another = ipv6(v6(3), 44, &fragment_header(17, 8, 1, &[0; 8]));
    assert_eq!(table.classify(&to_another), Class::Channel(FRAGMENT));
    // An atomic fragment is a packet of its own, though its reserved bits be set.
    for field in [0, 2, 6] {
        assert_eq!(table.classify(&fragment(17, field, 2, &udp(9))), Class::Channel(UDP_ANY));
    }
}

#[test]
fn a_datagram_that_is_forgotten_takes_the_channel_of_fragments() {
    let mut table = table();
    let note = |table: &mut DemuxTable, id| {
        let class = table.classify(&ipv4(v4(2), 17, id, 0x2000, &udp(9)));
        let Class::FirstFragment(channel, key) = class else { panic!("{class:?}") };
        table.record_fragment(key, channel);
    };
    let followed = |table: &DemuxTable, id| match table.classify(&ipv4(v4(2), 17, id, 1, &[])) {
        Class::Channel(UDP_ANY) => true,
        Class::Channel(FRAGMENT) => false,
        other => panic!("{other:?}"),
    };
    (0..200).for_each(|id| note(&mut table, id));
    // Some fall into the same slot, few of so many slots.
    assert!((0..200).filter(|&id| followed(&table, id)).count() > 160);
    (200..20_000).for_each(|id| note(&mut table, id));
    assert_eq!((0..200).filter(|&id| followed(&table, id)).count(), 0);
    let held = (0..20_000).filter(|&id| followed(&table, id)).count();
    assert!((FRAGMENT_SLOTS - 8..=FRAGMENT_SLOTS).contains(&held), "{held}");
}

/// Which datagrams push each other out is not for those to choose who do not know the secret.
#[test]
fn the_secret_says_who_shares_a_place_with_whom() {
    let class = |table: &DemuxTable, id| table.classify(&ipv4(v4(2), 17, id, 0x2000, &udp(9)));
    let note = |table: &mut DemuxTable, id| {
        let Class::FirstFragment(channel, key) = class(table, id) else { panic!("no first fragment") };
        table.record_fragment(key, channel);
    };
    let followed =
        |table: &DemuxTable, id| table.classify(&ipv4(v4(2), 17, id, 1, &[])) == Class::Channel(UDP_ANY);
    let pushes_out_0 = |secret: u8| {
        let mut table = table();
        note(&mut table, 0);
        table.set_secret(Secret::new([secret; 16]));
        assert!(!followed(&table, 0), "forgotten");
        let pushes = |id: &u16| {
            note(&mut table, 0);
            note(&mut table, *id);
            !followed(&table, 0)
        };
        (1..20_000).filter(pushes).collect::<Vec<_>>()
    };
    let (one, two) = (pushes_out_0(1), pushes_out_0(2));
    assert!((5..50).contains(&one.len()) && (5..50).contains(&two.len()), "{one:?} {two:?}");
    assert!(one.iter().filter(|id| two.contains(id)).count() <= 2, "{one:?} {two:?}");
}

#[test]
fn packets_for_others_are_forwarded_or_nobody_s() {
    let table = table();
    let v4_to = |to| table.classify(&ipv4(to, 17, 0, 0, &udp(9)));
    assert_eq!(v4_to(v4(77)), Class::Channel(FORWARD));
    assert_eq!(v4_to(Ipv4Address::new(224, 0, 0, 77)), NOT_LOCAL);
    assert_eq!(v4_to(Ipv4Address::BROADCAST), NOT_LOCAL);
    assert_eq!(table.classify(&ipv6(v6(77), 17, &udp(9))), Class::Channel(FORWARD));
    // What is behind its fixed header is no business of ours, be it a fragment or broken.
    assert_eq!(table.classify(&ipv6(v6(77), OPTIONS, &[17])), Class::Channel(FORWARD));
    assert_eq!(table.classify(&ipv4(v4(77), 17, 0, 1, &[])), Class::Channel(FORWARD));
    let other_group = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 0x98);
    assert_eq!(table.classify(&ipv6(other_group, 17, &udp(11))), NOT_LOCAL);
    let mut host = table.clone();
    host.apply(Change::Unbind(Binding::Forward));
    assert_eq!(host.classify(&ipv4(v4(77), 17, 0, 0, &udp(9))), NOT_LOCAL);
    assert_eq!(host.classify(&ipv6(v6(77), 17, &udp(9))), NOT_LOCAL);
}

#[test]
fn a_table_made_of_the_contents_of_another_is_like_it() {
    let original = table();
    let mut copy = DemuxTable::new(7);
    copy.apply(Change::Hardware(OURS));
    original.contents().into_iter().for_each(|change| copy.apply(change));
    let mut frames = vec![ethernet(OURS, 0x0806, &[]), ipv4(v4(77), 17, 0, 0, &udp(9))];
    for n in 1..4 {
        frames.extend((8..16).map(|port| ipv4(v4(n), 17, 0, 0, &udp(port))));
        frames.extend((8..16).map(|port| ipv6(v6(n.into()), 17, &udp(port))));
        frames.extend([2, 16, 18].map(|flags| ipv4(v4(n), 6, 0, 0, &tcp(flags))));
        frames.push(ipv4(v4(n), 17, 0, 2, &[]));
    }
    frames.push(ipv6(group_v6(), 17, &udp(11)));
    for frame in frames {
        assert_eq!(copy.classify(&frame), original.classify(&frame), "{frame:02x?}");
    }
}

#[test]
fn a_port_of_a_connected_socket_is_closed_for_all_but_its_peer() {
    let mut table = table();
    let classes = |table: &DemuxTable, port| {
        let frames = [ipv4(v4(2), 17, 0, 0, &udp(port)), ipv6(v6(2), 17, &udp(port))];
        frames.map(|frame| {
            let plain = Plain::of(&frame).unwrap();
            let found = table.classify_plain(&frame, plain);
            let class = table.classify(&frame);
            assert_eq!(class, Class::Channel(found.unwrap_or(CONTROL)));
            // The next datagram may be from somebody else.
            let keeps = |id| table.last_class(&frame, plain, id).is_some();
            assert!(found.is_none_or(|id| !keeps(id)), "port {port}");
            class
        })
    };
    let [ours, refused] = [UDP_ONE, CONTROL].map(Class::Channel);
    assert_eq!(classes(&table, 14), [ours, refused], "from the peer; its port, of the other family");
    assert_eq!(classes(&table, 15), [refused; 2], "from another port");
    table.apply(Change::Connect(UDP_ONE, 15, IpEndpoint::new(v4(1).into(), 7)));
    assert_eq!(classes(&table, 15), [ours, refused], "connected to another peer");
    // The next socket at the port, with the same channel, is not connected.
    table.apply(Change::Unbind(Binding::Udp { address: None, port: 15 }));
    table.apply(Change::Bind(Binding::Udp { address: None, port: 15 }, UDP_ONE));
    assert_eq!(table.classify(&ipv6(v6(2), 17, &udp(15))), ours);
}

#[test]
fn an_unspecified_address_is_all_of_its_family() {
    let mut table = DemuxTable::new(1);
    table.apply(Change::Hardware(OURS));
    let ours: [IpAddress; 2] = [v4(2).into(), v6(2).into()];
    ours.into_iter().for_each(|address| table.apply(Change::AddAddress(address)));
    table.apply(Change::Bind(Binding::Control, CONTROL));
    let all = |address: IpAddress| Binding::Udp { address: Some(address), port: 9 };
    let [all_v4, all_v6] = [all(Ipv4Address::UNSPECIFIED.into()), all(Ipv6Address::UNSPECIFIED.into())];
    let channels = |table: &DemuxTable| {
        [ipv4(v4(2), 17, 0, 0, &udp(9)), ipv6(v6(2), 17, &udp(9))].map(|frame| table.classify(&frame))
    };
    let [one, other, none] = [UDP_ONE, UDP_ANY, CONTROL].map(Class::Channel);
    table.apply(Change::Bind(all_v4, UDP_ONE));
    assert_eq!(channels(&table), [one, none]);
    table.apply(Change::Bind(all_v6, UDP_ANY));
    assert_eq!(channels(&table), [one, other]);
    let mut copy = DemuxTable::new(7);
    copy.apply(Change::Hardware(OURS));
    table.contents().into_iter().for_each(|change| copy.apply(change));
    assert_eq!(channels(&copy), [one, other]);
    table.apply(Change::Unbind(all_v4));
    assert_eq!(channels(&table), [none, other]);
}

#[test]
fn bindings_that_share_an_address_conflict() {
    let all_v4 = Some(IpAddress::from(Ipv4Address::UNSPECIFIED));
    let all_v6 = Some(IpAddress::from(Ipv6Address::UNSPECIFIED));
    let (one_v4, one_v6) = (Some(v4(2).into()), Some(v6(2).into()));
    let places = [None, all_v4, all_v6, one_v4, one_v6, Some(v4(3).into())];
    let conflicts_with = |bound| {
        let mut table = DemuxTable::new(1);
        table.apply(Change::Bind(Binding::Udp { address: bound, port: 9 }, UDP_ONE));
        assert!(places.iter().all(|&place| !table.conflicts(place, 10)), "another port");
        places.map(|place| u8::from(table.conflicts(place, 9)))
    };
    assert_eq!(conflicts_with(None), [1, 1, 1, 1, 1, 1]);
    assert_eq!(conflicts_with(all_v4), [1, 1, 0, 1, 0, 1]);
    assert_eq!(conflicts_with(all_v6), [1, 0, 1, 0, 1, 0]);
    assert_eq!(conflicts_with(one_v4), [1, 1, 0, 1, 0, 0]);
    assert_eq!(conflicts_with(one_v6), [1, 0, 1, 0, 1, 0]);
    // Any number of sockets receive from a group.
    assert_eq!(conflicts_with(Some(group_v6().into())), [0; 6]);
}

/// A flow stays in its ring; fragments have no ports to go by, and what is in whole packets does not change
/// that.
#[test]
fn rings_are_chosen_by_destination_or_by_flow() {
    let frames = |port: u16| [ipv4(v4(2), 17, 1, 0, &udp(port)), ipv6(v6(2), 17, &udp(port))];
    for (a, b) in frames(9).into_iter().zip(frames(10)) {
        assert_ne!(steering_hash(&a), steering_hash(&b));
        assert_ne!(flow_hash(&a), flow_hash(&b));
        // Another source, and another source port: the same destination, another flow.
        for at in [a.len() - 11, if a[12] == 8 { 29 } else { 37 }] {
            let mut other = a.clone();
            other[at] ^= 1;
            assert_eq!(steering_hash(&a), steering_hash(&other));
            assert_ne!(flow_hash(&a), flow_hash(&other));
        }
    }
    let fragment = |id, field, port| ipv4(v4(2), 17, id, field, &udp(port));
    assert_eq!(steering_hash(&fragment(1, 0x2000, 9)), steering_hash(&fragment(1, 1, 10)));
    assert_eq!(flow_hash(&fragment(1, 0x2000, 9)), flow_hash(&fragment(1, 1, 10)));
    assert_eq!((steering_hash(&ethernet(OURS, 0x0806, &[])), flow_hash(&[])), (0, 0));
}

/// Whatever two flows differ in, they may come in different rings.
#[test]
fn every_bit_of_addresses_and_ports_counts_in_hashes() {
    let v4 = (ipv4(v4(2), 17, 1, 0, &udp(9)), [26..30, 34..36], [30..34, 36..38]);
    let v6 = (ipv6(v6(2), 17, &udp(9)), [22..38, 54..56], [38..54, 56..58]);
    for (frame, source, destination) in [v4, v6] {
        let sources = source.into_iter().flatten().map(|at| (at, false));
        let destinations = destination.into_iter().flatten().map(|at| (at, true));
        for (at, steers) in sources.chain(destinations) {
            for bit in 0..8 {
                let mut other = frame.clone();
                other[at] ^= 1 << bit;
                assert_ne!(flow_hash(&frame), flow_hash(&other), "bit {bit} of {at}");
                assert_eq!(steering_hash(&frame) != steering_hash(&other), steers, "bit {bit} of {at}");
            }
        }
    }
}

/// Rings get equal shares, whichever bits of a hash choose them.
#[test]
fn each_bit_of_a_hash_is_set_half_of_the_time() {
    let frames: Vec<_> = (0..1_000).map(|port| ipv4(v4(2), 17, 1, 0, &udp(port))).collect();
    for hash in [steering_hash, flow_hash] {
        for bit in 0..32 {
            let set = frames.iter().filter(|frame| hash(frame) >> bit & 1 == 1).count();
            assert!((420..580).contains(&set), "bit {bit} in {set} of 1000");
        }
    }
}

/// Whatever bits of a frame change: what is taken for another one to the same place is one.
#[test]
fn what_leads_where_the_last_one_did_is_found_to_by_its_first_bytes() {
    let table = table();
    let first = [ipv4(v4(2), 17, 1, 0, &udp(9)), vec![0; 6]].concat();
    let plain = Plain::of(&first).unwrap();
    let last = table.last_class(&first, plain, table.classify_plain(&first, plain).unwrap()).unwrap();
    assert_eq!((last.next(&first), last.channel()), (Some(plain), UDP_ANY));
    let bits = first.len() * 8;
    let mut same = 0;
    for pair in 0..bits * bits {
        let mut frame = first.clone();
        let (one, other) = (pair / bits, pair % bits);
        frame[one / 8] ^= 1 << (one % 8);
        if other > one {
            frame[other / 8] ^= 1 << (other % 8);
        }
        if let Some(plain) = last.next(&frame) {
            same += 1;
            assert_eq!(Plain::of(&frame), Some(plain), "bits {one} and {other}");
            assert_eq!(table.classify(&frame), Class::Channel(UDP_ANY), "bits {one} and {other}");
        }
    }
    // Those of the source, of sums, of the payload and the like do not matter.
    assert!(same > bits * bits / 10, "{same} of {}", bits * bits);
    assert!((0..first.len() - 6).all(|len| last.next(&first[..len]).is_none()), "cut off");
}

/// A copy of the table offers cookies as the original does, until no SYN leads to the channel any more.
#[test]
fn offers_of_cookies_are_contents_as_long_as_syns_lead_to_their_channel() {
    let offer = CookieOffer {
        secret: Secret::of_seed(1),
        mss_max: 1_460,
        window: 65_535,
        window_scale: None,
        sack_permitted: true,
        timestamps: true,
        ecn: false,
        hop_limit: 64,
    };
    let syns = Binding::Tcp { address: None, port: 80, opens: true };
    let answer = Change::AnswerSyns(ChannelId(3), offer);
    let mut table = DemuxTable::new(1);
    for change in [Change::Bind(syns, ChannelId(3)), answer, Change::AddBroadcast(v4(255).into())] {
        table.apply(change);
    }
    let contents = table.contents();
    assert!([answer, Change::AddBroadcast(v4(255).into())].iter().all(|change| contents.contains(change)));
    table.apply(Change::Unbind(Binding::Tcp { address: None, port: 81, opens: true }));
    assert!(table.contents().contains(&answer));
    table.apply(Change::Unbind(syns));
    table.apply(Change::RemoveAddress(v4(255).into()));
    assert_eq!(table.contents(), []);
}
