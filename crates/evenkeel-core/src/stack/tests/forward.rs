//! A router between a LAN (10.0.0.0/24, fd00::/64) and a WAN (198.51.100.0/24, 2001:db8:1::/64).

use proptest::prelude::*;

use super::*;
use crate::drop::{IpDrop, LinkDrop};
use crate::stack::address::kinds::{ALL_ROUTERS, link_local_of};
use crate::time::Duration;
use crate::wire::Ipv6Address;

pub(super) const WAN: InterfaceId = InterfaceId(1);
pub(super) const ROUTER: u8 = 2;
const WAN_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 1, ROUTER]);
/// Hosts beyond the WAN's link, by way of its gateway.
pub(super) const FAR: IpAddress = IpAddress::v4(203, 0, 113, 9);
pub(super) const FAR_V6: IpAddress = IpAddress::v6(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9);

pub(super) fn wan_v4(n: u8) -> IpAddress {
    IpAddress::v4(198, 51, 100, n)
}

pub(super) fn wan_v6(n: u8) -> IpAddress {
    IpAddress::v6(0x2001, 0xdb8, 1, 0, 0, 0, 0, n.into())
}

fn far_mac(n: u8) -> EthernetAddress {
    EthernetAddress([2, 0, 0, 0, 1, n])
}

/// Creates a router that has met node 1 of the LAN and the WAN's gateway, which is also node 1.
pub(super) fn router(config: Config) -> Node {
    let mut node = Node::new(ROUTER, Config { forwarding: true, report_groups: false, ..config });
    node.stack.add_interface(WAN_MAC, 1500);
    node.with(|stack, io| {
        stack.add_address(WAN, IpCidr::new(wan_v4(ROUTER), 24), io);
        stack.add_address(WAN, IpCidr::new(wan_v6(ROUTER), 64), io);
    });
    node.stack.add_route(IpCidr::new(IpAddress::v4(0, 0, 0, 0), 0), wan_v4(1), WAN).unwrap();
    node.stack.add_route(IpCidr::new(Ipv6Address::UNSPECIFIED.into(), 0), wan_v6(1), WAN).unwrap();
    for (interface, address, hardware) in [
        (LAN, v4(1), mac(1)),
        (LAN, v6(1), mac(1)),
        (WAN, wan_v4(1), far_mac(1)),
        (WAN, wan_v6(1), far_mac(1)),
    ] {
        node.with(|stack, io| stack.neighbors.on_solicitation((interface, address), hardware, io));
    }
    assert_eq!(node.sent().len(), 0);
    node
}

/// Creates a router without the default routes.
pub(super) fn router_without_routes() -> Node {
    let mut node = router(Config::default());
    let defaults: Vec<_> = node.stack.routes().filter(|route| route.to.prefix_len() == 0).collect();
    assert_eq!(defaults.len(), 2);
    assert!(defaults.iter().all(|route| node.stack.remove_route(route)));
    node
}

/// Passes a frame to the router and forwards its packets; returns the sent frames by interface.
fn through(node: &mut Node, interface: InterfaceId, bytes: &[u8]) -> Vec<(InterfaceId, Vec<u8>)> {
    let frame = node.pool.take_copy(bytes).expect("a test's pool is large enough");
    node.ledger.received += 1;
    match node.with(|stack, io| stack.input(interface, frame, io)) {
        Some(Received::Transit(transit)) => {
            assert_eq!(transit.interface(), interface);
            node.with(|stack, io| stack.forward(transit, io));
        }
        Some(other @ (Received::Datagram(_) | Received::Segment(_) | Received::IcmpError(_))) => {
            panic!("for somebody else: {other:?}")
        }
        Some(Received::Control) | None => {}
    }
    sent_by(node)
}

pub(super) fn sent_by(node: &mut Node) -> Vec<(InterfaceId, Vec<u8>)> {
    let mut sent = Vec::new();
    while let Some((interface, frame)) = node.out.pop_front() {
        node.ledger.transmitted += 1;
        sent.push((interface, frame.bytes().to_vec()));
        node.pool.recycle(frame);
    }
    node.check();
    sent
}

/// An ICMP error as its receiver sees it.
#[derive(Debug, PartialEq)]
pub(super) struct Told {
    pub(super) by: IpAddress,
    pub(super) to: IpAddress,
    pub(super) kind: u8,
    pub(super) code: u8,
    pub(super) word: u32,
    pub(super) quote: Vec<u8>,
}

/// Reads the one ICMP message that was sent, by the LAN, to node 1.
pub(super) fn told(sent: &[(InterfaceId, Vec<u8>)]) -> Told {
    let [(LAN, frame)] = sent else { panic!("one message on the LAN: {sent:02x?}") };
    assert_eq!((&frame[..6], &frame[6..12]), (&mac(1).0[..], &mac(ROUTER).0[..]));
    let packet = &frame[14..];
    let (by, to, message) = if packet[0] >> 4 == 4 {
        assert_eq!(packet[9], 1);
        assert_eq!(crate::tcp::Checksum::default().add(&packet[..20]).finish(), 0);
        assert_eq!(crate::tcp::Checksum::default().add(&packet[20..]).finish(), 0);
        let address = |at: usize| IpAddress::v4(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
        (address(12), address(16), &packet[20..])
    } else {
        assert_eq!(packet[6], 58);
        let address = |at: usize| {
            IpAddress::Ipv6(Ipv6Address::from(<[u8; 16]>::try_from(&packet[at..at + 16]).unwrap()))
        };
        let (by, to) = (address(8), address(24));
        let pseudo = crate::tcp::Checksum::pseudo(by, to, 58, packet.len() - 40);
        assert_eq!(pseudo.add(&packet[40..]).finish(), 0);
        (by, to, &packet[40..])
    };
    let word = u32::from_be_bytes(message[4..8].try_into().unwrap());
    Told { by, to, kind: message[0], code: message[1], word, quote: message[8..].to_vec() }
}

/// Lets the router tell node 1 something about the packet in `frame`, which it then drops for `reason`.
fn assert_told(node: &mut Node, frame: &[u8], (kind, code, word): (u8, u8, u32), reason: IpDrop) {
    let before = node.ledger.input_drops(reason);
    let told = told(&through(node, LAN, frame));
    let packet = &frame[14..];
    let (by, to, most) =
        if packet[0] >> 4 == 4 { (v4(ROUTER), v4(1), 576 - 28) } else { (v6(ROUTER), v6(1), 1280 - 48) };
    let quote = packet[..packet.len().min(most)].to_vec();
    assert_eq!(told, Told { by, to, kind, code, word, quote });
    assert_eq!(node.ledger.input_drops(reason), before + 1);
}

fn with_hop_limit(frame: Vec<u8>, hop_limit: u8) -> Vec<u8> {
    if frame[14] >> 4 == 4 {
        return edit_v4(frame, |packet| packet[8] = hop_limit);
    }
    let mut frame = frame;
    frame[21] = hop_limit;
    frame
}

/// Returns a UDP datagram in a frame to the router's LAN interface.
pub(super) fn udp_frame(from: IpAddress, to: IpAddress, payload: &[u8]) -> Vec<u8> {
    let segment = udp_bytes(from, to, payload);
    match (from, to) {
        (IpAddress::Ipv4(from), IpAddress::Ipv4(to)) => {
            edit_v4(packet_v4(17, 7, 0, &[], &segment), |packet| {
                packet[12..16].copy_from_slice(&from.octets());
                packet[16..20].copy_from_slice(&to.octets());
            })
        }
        (IpAddress::Ipv6(from), IpAddress::Ipv6(to)) => {
            let mut frame = packet_v6(17, 64, &segment);
            frame[22..38].copy_from_slice(&from.octets());
            frame[38..54].copy_from_slice(&to.octets());
            frame
        }
        _ => unreachable!("one family"),
    }
}

#[test]
fn a_packet_goes_on_one_hop_older_and_otherwise_unchanged() {
    let mut node = router(Config::default());
    for (from, to, kind) in [(v4(1), FAR, 0x0800), (v6(1), FAR_V6, 0x86dd)] {
        let mut frame = udp_frame(from, to, b"onwards");
        let expected = with_hop_limit(frame.clone(), 63);
        // An Ethernet trailer that pads the frame is not part of the packet.
        frame.resize(frame.len() + 20, 0xaa);
        let sent = through(&mut node, LAN, &frame);
        assert_eq!(sent, [(WAN, ethernet(far_mac(1), WAN_MAC, kind, &expected[14..]))]);
    }
    assert_eq!((node.ledger.forwarded, node.ledger.originated), (2, 0));
}

#[test]
fn a_host_does_not_forward() {
    let mut node = Node::quiet(ROUTER);
    let frames = [udp_frame(v4(1), FAR, b"no"), udp_frame(v6(1), FAR_V6, b"no")];
    assert_drops(&mut node, &frames, &[(IpDrop::NotLocal.into(), 2)]);
}

#[test]
fn options_type_of_service_and_flow_label_are_left_as_they_are() {
    let mut node = router(Config::default());
    let segment = udp_bytes(v4(1), FAR, b"x");
    // Record route with room for one address, router alert.
    let options = [7, 7, 4, 0, 0, 0, 0, 0x94, 4, 0, 0, 1];
    let frame = edit_v4(packet_v4(17, 7, 0x4000, &options, &segment), |packet| {
        packet[1] = 0xb8 | 3;
        packet[16..20].copy_from_slice(&[203, 0, 113, 9]);
    });
    assert_eq!(through(&mut node, LAN, &frame)[0].1[14..], with_hop_limit(frame, 63)[14..]);
    // Hop-by-hop options that no host would pass over: a router that was not told to look does not (RFC 8200
    // 4).
    let mut frame = udp_frame(v6(1), FAR_V6, b"x");
    frame.splice(54..54, [17, 0, 0xc2, 4, 1, 2, 3, 4]);
    frame[14..18].copy_from_slice(&[0x6b, 0x81, 0x23, 0x45]);
    let len = frame.len() - 54;
    frame[19] = len as u8;
    frame[20] = 0;
    assert_eq!(through(&mut node, LAN, &frame)[0].1[14..], with_hop_limit(frame, 63)[14..]);
}

#[test]
fn a_packet_that_has_gone_far_enough_is_returned_to_its_sender() {
    let mut node = router(Config::default());
    for used_up in [1, 0] {
        let frame = with_hop_limit(udp_frame(v4(1), FAR, b"old"), used_up);
        assert_told(&mut node, &frame, (11, 0, 0), IpDrop::HopLimit);
        let frame = with_hop_limit(udp_frame(v6(1), FAR_V6, b"old"), used_up);
        assert_told(&mut node, &frame, (3, 0, 0), IpDrop::HopLimit);
    }
    let frame = with_hop_limit(udp_frame(v4(1), FAR, b"just"), 2);
    assert_eq!(through(&mut node, LAN, &frame)[0].1[14 + 8], 1);
    assert_eq!(node.ledger.forwarded, 1);
}

#[test]
fn without_a_route_the_network_is_unreachable() {
    let mut node = router_without_routes();
    assert_told(&mut node, &udp_frame(v4(1), FAR, b"?"), (3, 0, 0), IpDrop::NoRoute);
    assert_told(&mut node, &udp_frame(v6(1), FAR_V6, b"?"), (1, 0, 0), IpDrop::NoRoute);
    // As much is quoted as there may be.
    assert_told(&mut node, &udp_frame(v4(1), FAR, &[7; 1400]), (3, 0, 0), IpDrop::NoRoute);
    assert_told(&mut node, &udp_frame(v6(1), FAR_V6, &[7; 1400]), (1, 0, 0), IpDrop::NoRoute);
}

#[test]
fn routes_may_lead_nowhere_each_in_its_way_and_change_for_the_next_packet() {
    let mut node = router(Config::default());
    let frames = [udp_frame(v4(1), FAR, b"?"), udp_frame(v6(1), FAR_V6, b"?")];
    let prefixes = [IpCidr::new(FAR, 24), IpCidr::new(FAR_V6, 48)];
    let kinds = [
        (Via::Unreachable, Some([(3, 1, 0), (1, 6, 0)])),
        (Via::Prohibit, Some([(3, 13, 0), (1, 1, 0)])),
        (Via::Blackhole, None),
    ];
    for (via, telling) in kinds {
        for (place, frame) in frames.iter().enumerate() {
            let route = Route { to: prefixes[place], via: via.clone(), metric: 0 };
            assert_eq!(through(&mut node, LAN, frame).len(), 1, "the default route");
            node.stack.set_route(route.clone()).unwrap();
            match telling {
                Some(telling) => assert_told(&mut node, frame, telling[place], IpDrop::RouteDiscards),
                None => assert_eq!(through(&mut node, LAN, frame), []),
            }
            assert!(node.stack.remove_route(&route));
        }
    }
    assert_eq!((node.ledger.forwarded, node.ledger.input_drops(IpDrop::RouteDiscards)), (6, 6));
}

#[test]
fn routes_that_cannot_be_used_are_refused() {
    let mut node = router(Config { routes: 9, ..Config::default() });
    let mut set = |gateway, interface| {
        let to = IpCidr::new(IpAddress::v4(203, 0, 113, 0), 24);
        node.stack.set_route(Route { to, via: Via::Gateway(interface, gateway), metric: 0 })
    };
    assert_eq!(set(wan_v4(1), InterfaceId(7)), Err(RouteError::Interface));
    assert_eq!(set(v6(ROUTER), WAN), Err(RouteError::Gateway), "of the other family, but ours");
    for gateway in [wan_v4(ROUTER), v4(ROUTER), IpAddress::v4(224, 0, 0, 5), IpAddress::v4(0, 0, 0, 0)] {
        assert_eq!(set(gateway, WAN), Err(RouteError::Gateway), "{gateway}");
    }
    assert_eq!((set(wan_v4(1), WAN), set(wan_v4(2), LAN)), (Ok(()), Err(RouteError::Gateway)));
    assert_eq!(set(wan_v4(9), LAN), Err(RouteError::Full));
}

#[test]
fn a_route_of_ipv6_has_no_gateway_of_ipv4() {
    let mut node = router(Config::default());
    let route = Route { to: IpCidr::new(FAR_V6, 48), via: Via::Gateway(WAN, wan_v4(1)), metric: 0 };
    assert_eq!(node.stack.set_route(route), Err(RouteError::Family));
}

/// RFC 8950: the gateway is found by neighbour discovery, and gets IPv4.
#[test]
fn ipv4_goes_by_an_ipv6_gateway() {
    let mut node = router_without_routes();
    let frame = udp_frame(v4(1), FAR, b"by six");
    for (gateway, known) in [(wan_v6(1), true), (wan_v6(9), false)] {
        node.stack
            .set_route(Route { to: IpCidr::new(FAR, 24), via: Via::Gateway(WAN, gateway), metric: 0 })
            .unwrap();
        let mut sent = through(&mut node, LAN, &frame);
        if !known {
            let is_icmpv6 = |frame: &[u8]| frame[12..14] == [0x86, 0xdd] && frame[20] == 58;
            assert!(matches!(&sent[..], [(WAN, question)] if is_icmpv6(question)));
            node.with(|stack, io| stack.set_neighbor(WAN, gateway, far_mac(9), io)).unwrap();
            sent = sent_by(&mut node);
        }
        let [(WAN, sent)] = &sent[..] else { panic!("one packet to the WAN: {sent:02x?}") };
        let hardware = if known { far_mac(1) } else { far_mac(9) };
        assert_eq!((&sent[..6], &sent[12..14], sent[22]), (&hardware.0[..], &[8, 0][..], frame[22] - 1));
        assert_eq!((&sent[26..34], &sent[34..]), (&frame[26..34], &frame[34..]));
    }
}

/// Each flow keeps to one of the next hops, and the flows are theirs as the weights say.
#[test]
fn flows_are_spread_over_next_hops_by_weight() {
    let mut node = router(Config::default());
    let third = node.stack.add_interface(EthernetAddress([2, 0, 0, 0, 2, ROUTER]), 1500);
    node.with(|stack, io| stack.add_address(third, IpCidr::new(IpAddress::v4(192, 0, 2, ROUTER), 24), io));
    let gateways = [(WAN, wan_v4(1), 3), (third, IpAddress::v4(192, 0, 2, 1), 1), (WAN, wan_v6(1), 4)];
    let hops =
        gateways.map(|(interface, gateway, weight)| NextHop { interface, gateway: Some(gateway), weight });
    for (number, (interface, gateway, _)) in gateways.into_iter().enumerate() {
        node.with(|stack, io| stack.set_neighbor(interface, gateway, far_mac(50 + number as u8), io))
            .unwrap();
    }
    let route =
        Route { to: IpCidr::new(FAR, 24), via: Via::Multipath(Multipath::new(&hops).unwrap()), metric: 0 };
    node.stack.set_route(route.clone()).unwrap();
    let mut taken = [0; 3];
    for host in 0..200 {
        let frame = udp_frame(v4(1), IpAddress::v4(203, 0, 113, host), b"flow");
        let ways: Vec<_> = (0..3).map(|_| through(&mut node, LAN, &frame).remove(0)).collect();
        assert!(
            ways.iter().all(|(by, sent)| (*by, &sent[..6]) == (ways[0].0, &ways[0].1[..6])),
            "a flow keeps its path"
        );
        let number = usize::from(ways[0].1[5] - 50);
        assert_eq!(ways[0].0, gateways[number].0);
        taken[number] += 1;
    }
    // Of 200 flows 75, 25 and 100; the seed decides, so it is always the same.
    assert!(
        (55..95).contains(&taken[0]) && (12..40).contains(&taken[1]) && (80..120).contains(&taken[2]),
        "{taken:?}"
    );
    assert!(node.stack.remove_route(&route));
    node.stack.set_route(Route { metric: 7, ..route }).unwrap();
    assert_eq!(node.stack.routes().filter(|route| route.metric == 7).count(), 1);
}

/// Strict reverse-path checks let in what may come by any of the next hops (RFC 3704 2.2).
#[test]
fn packets_may_come_back_by_any_of_several_next_hops() {
    let mut node = router(Config { reverse_path: true, ..Config::default() });
    let by = |interface, gateway| NextHop { interface, gateway: Some(gateway), weight: 1 };
    let both = Multipath::new(&[by(WAN, wan_v4(1)), by(LAN, v4(1))]).unwrap();
    node.stack.set_route(Route { to: IpCidr::new(FAR, 24), via: Via::Multipath(both), metric: 0 }).unwrap();
    let far = |last| IpAddress::v4(203, 0, 113, last);
    for last in 0..20 {
        let mut frame = udp_frame(far(last), v4(1), b"from the WAN");
        frame[..6].copy_from_slice(&WAN_MAC.0);
        assert_eq!(through(&mut node, WAN, &frame).len(), 1);
        assert_eq!(through(&mut node, LAN, &udp_frame(far(last), wan_v4(1), b"from the LAN")).len(), 1);
    }
    assert_eq!(node.ledger.input_drops(IpDrop::ReversePath), 0);
}

#[test]
fn addresses_that_must_not_be_forwarded_are_not() {
    use IpDrop::{Martian, NotLocal, Scope};
    let mut node = router(Config::default());
    let v4_of = IpAddress::v4;
    let six = |first: u16| IpAddress::v6(first, 0, 0, 0, 0, 0, 0, 9);
    let mapped = IpAddress::v6(0, 0, 0, 0, 0, 0xffff, 0xcb00, 0x7109);
    let unspecified = IpAddress::Ipv6(Ipv6Address::UNSPECIFIED);
    let cases = [
        // Destinations.
        (v4(1), v4_of(0, 1, 2, 3), Martian),
        (v4(1), v4_of(0, 0, 0, 0), Martian),
        (v4(1), v4_of(127, 0, 0, 1), Martian),
        (v4(1), v4_of(240, 0, 0, 1), Martian),
        (v4(1), v4_of(169, 254, 1, 1), Scope),
        (v4(1), v4_of(224, 0, 1, 1), NotLocal),
        (v4(1), v4_of(239, 1, 1, 1), NotLocal),
        // Broadcast to the WAN, in the new form and the old.
        (v4(1), v4_of(198, 51, 100, 255), NotLocal),
        (v4(1), v4_of(198, 51, 100, 0), NotLocal),
        (v4(1), v4_of(10, 0, 0, 0), NotLocal),
        (v6(1), unspecified, Martian),
        (v6(1), IpAddress::Ipv6(Ipv6Address::LOCALHOST), Martian),
        (v6(1), mapped, Martian),
        (v6(1), six(0xfe80), Scope),
        (v6(1), six(0xff0e), NotLocal),
        // Sources.
        (v4_of(0, 0, 0, 0), FAR, Martian),
        (v4_of(0, 0, 0, 1), FAR, Martian),
        (v4_of(127, 0, 0, 1), FAR, Martian),
        (v4_of(224, 0, 0, 9), FAR, Martian),
        (v4_of(240, 0, 0, 1), FAR, Martian),
        (v4_of(255, 255, 255, 255), FAR, Martian),
        (v4_of(169, 254, 1, 1), FAR, Scope),
        (v4_of(198, 51, 100, 255), FAR, Martian),
        (wan_v4(ROUTER), FAR, Martian),
        (unspecified, FAR_V6, Martian),
        (IpAddress::Ipv6(Ipv6Address::LOCALHOST), FAR_V6, Martian),
        (mapped, FAR_V6, Martian),
        (six(0xff02), FAR_V6, Martian),
        (wan_v6(ROUTER), FAR_V6, Martian),
    ];
    for (from, to, reason) in cases {
        let before = node.ledger.input_drops(reason);
        assert_eq!(through(&mut node, LAN, &udp_frame(from, to, b"x")), [], "{from} to {to}");
        assert_eq!(node.ledger.input_drops(reason), before + 1, "{from} to {to}");
    }
    assert_eq!(node.ledger.forwarded, 0);
}

#[test]
fn what_came_by_link_layer_broadcast_or_multicast_is_not_forwarded() {
    let mut node = router(Config::default());
    for hardware in [EthernetAddress::BROADCAST, EthernetAddress([1, 0, 0x5e, 0, 0, 1])] {
        let mut frame = udp_frame(v4(1), FAR, b"x");
        frame[..6].copy_from_slice(&hardware.0);
        assert_eq!(through(&mut node, LAN, &frame), []);
        let mut frame = udp_frame(v6(1), FAR_V6, b"x");
        frame[..6].copy_from_slice(&hardware.0);
        assert_eq!(through(&mut node, LAN, &frame), []);
    }
    assert_eq!(node.ledger.input_drops(IpDrop::NotLocal), 4);
}

#[test]
fn a_link_local_source_is_told_that_it_cannot_leave_its_link() {
    let mut node = router(Config::default());
    let source = IpAddress::v6(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    node.with(|stack, io| stack.neighbors.on_solicitation((LAN, source), mac(1), io));
    let frame = udp_frame(source, FAR_V6, b"x");
    let told = told(&through(&mut node, LAN, &frame));
    assert_eq!((told.kind, told.code, told.to), (1, 2, source));
    let own = link_local_of(mac(ROUTER)).address();
    assert_eq!((told.by, node.ledger.input_drops(IpDrop::Scope)), (own.into(), 1));
}

#[test]
fn a_packet_too_large_for_the_next_link_is_returned_with_what_fits() {
    let mut node = router(Config::default());
    node.stack.set_mtu(WAN, 1300);
    let dont_fragment = |payload: &[u8]| {
        edit_v4(udp_frame(v4(1), FAR, payload), |packet| packet[6..8].copy_from_slice(&[0x40, 0]))
    };
    assert_told(&mut node, &dont_fragment(&[7; 1273]), (3, 4, 1300), IpDrop::TooBig);
    assert_told(&mut node, &udp_frame(v6(1), FAR_V6, &[7; 1253]), (2, 0, 1300), IpDrop::TooBig);
    assert_eq!(through(&mut node, LAN, &dont_fragment(&[7; 1272])).len(), 1);
    assert_eq!(through(&mut node, LAN, &udp_frame(v6(1), FAR_V6, &[7; 1252])).len(), 1);
    assert_eq!(node.ledger.forwarded, 2);
}

#[test]
fn a_packet_that_may_be_fragmented_arrives_whole() {
    let mut node = router(Config::default());
    let mut far = Node::quiet(9);
    let IpAddress::Ipv4(address) = v4(9) else { unreachable!("an IPv4 address") };
    node.stack.set_mtu(WAN, 600);
    node.stack
        .set_route(Route { to: IpCidr::new(v4(9), 32), via: Via::Gateway(WAN, wan_v4(1)), metric: 0 })
        .unwrap();
    let payload = pattern(1472);
    let frame = udp_frame(wan_v4(7), address.into(), &payload);
    let fragments = through(&mut node, LAN, &frame);
    assert_eq!(fragments.iter().map(|(_, bytes)| bytes.len() - 14).collect::<Vec<_>>(), [596, 596, 348]);
    let mut got = Vec::new();
    for (interface, bytes) in fragments.iter().rev() {
        assert_eq!((*interface, bytes[14 + 8]), (WAN, 63));
        got.extend(far.receive_udp(&[&mac(9).0, &bytes[6..]].concat()));
    }
    assert_eq!(got.iter().map(|(_, _, payload)| payload).collect::<Vec<_>>(), [&payload]);
    assert_eq!((node.ledger.received, node.ledger.forwarded, node.ledger.originated), (1, 1, 2));
}

#[test]
fn a_packet_that_cannot_be_fragmented_now_or_ever_is_dropped() {
    let mut node = router(Config::default());
    node.stack.set_mtu(WAN, 600);
    // A fragment that would end beyond any packet.
    let beyond =
        edit_v4(udp_frame(v4(1), FAR, &[7; 1400]), |packet| packet[6..8].copy_from_slice(&[0x1f, 0xff]));
    assert_eq!(through(&mut node, LAN, &beyond), []);
    assert_eq!(node.ledger.input_drops(IpDrop::FragmentTooBig), 1);
    let frame = udp_frame(v4(1), FAR, &[7; 1400]);
    let received = node.pool.take_copy(&frame).unwrap();
    let taken: Vec<_> = core::iter::from_fn(|| node.pool.take()).collect();
    node.ledger.received += 1;
    let Some(Received::Transit(transit)) = node.with(|stack, io| stack.input(LAN, received, io)) else {
        panic!()
    };
    node.with(|stack, io| stack.forward(transit, io));
    taken.into_iter().for_each(|frame| node.pool.recycle(frame));
    assert_eq!((sent_by(&mut node), node.ledger.input_drops(LinkDrop::NoBuffer)), (vec![], 1));
}

#[test]
fn senders_hear_of_a_neighbour_that_does_not_answer_but_we_do_not() {
    // As many errors as are due, and at most two more.
    let mut node = router(Config { icmp_error_burst: 4, ..Config::default() });
    // On the link itself, and by a gateway: neither answers.
    let silent = Route { to: IpCidr::new(FAR, 24), via: Via::Gateway(WAN, wan_v4(77)), metric: 0 };
    node.stack.set_route(silent).unwrap();
    let frames = [udp_frame(v4(1), FAR, b"?"), udp_frame(v6(1), wan_v6(88), b"?")];
    for frame in &frames {
        let asked = through(&mut node, LAN, frame);
        assert_eq!(asked.iter().map(|(interface, _)| *interface).collect::<Vec<_>>(), [WAN]);
    }
    node.send(FAR, b"of our own").unwrap();
    // A later fragment, of which no error may be sent over IPv4.
    let later = edit_v4(udp_frame(v4(1), FAR, b"later"), |packet| packet[6..8].copy_from_slice(&[0, 3]));
    assert_eq!(through(&mut node, LAN, &later), []);
    assert_eq!((node.stack.held(), node.ledger.forwarded), (4, 3));
    let mut errors = Vec::new();
    while node.stack.held() > 0 {
        node.now = node.stack.next_deadline();
        node.with(|stack, io| stack.tick(io));
        errors.extend(sent_by(&mut node).into_iter().filter(|(interface, _)| *interface == LAN));
    }
    let told: Vec<_> = errors.chunks(1).map(told).collect();
    let expected: Vec<_> = [(v4(ROUTER), v4(1), 3, 1), (v6(ROUTER), v6(1), 1, 3)]
        .into_iter()
        .zip(&frames)
        .map(|((by, to, kind, code), frame)| {
            let quote = with_hop_limit(frame.clone(), 63)[14..].to_vec();
            Told { by, to, kind, code, word: 0, quote }
        })
        .collect();
    assert_eq!(told, expected);
    assert_eq!(node.ledger.output_drops(IpDrop::Unresolved), 4);
}

#[test]
fn a_packet_that_waits_for_its_neighbour_goes_on_when_it_answers() {
    let mut node = router(Config::default());
    through(&mut node, LAN, &udp_frame(v4(1), wan_v4(5), b"wait"));
    assert_eq!((node.stack.held(), node.ledger.forwarded), (1, 1));
    node.with(|stack, io| stack.set_neighbor(WAN, wan_v4(5), far_mac(5), io)).unwrap();
    let sent = sent_by(&mut node);
    assert_eq!((sent.len(), &sent[0].1[..6], node.stack.held()), (1, &far_mac(5).0[..], 0));
}

// --- Redirects ---

/// Creates a router next to node 7 of the LAN, a gateway to a prefix of each family, with known addresses.
fn router_beside_another() -> Node {
    let mut node = router(Config::default());
    let other = IpAddress::v6(0xfe80, 0, 0, 0, 0, 0, 0, 7);
    for (to, gateway) in [(IpCidr::new(FAR, 24), v4(7)), (IpCidr::new(FAR_V6, 48), other)] {
        node.stack.set_route(Route { to, via: Via::Gateway(LAN, gateway), metric: 0 }).unwrap();
        node.with(|stack, io| stack.set_neighbor(LAN, gateway, mac(7), io)).unwrap();
    }
    node
}

#[test]
fn who_could_send_to_another_router_is_told_and_the_packet_goes_on() {
    let mut node = router_beside_another();
    let frame = udp_frame(v4(1), FAR, b"that way");
    let mut sent = through(&mut node, LAN, &frame);
    let (out, forwarded) = sent.pop().unwrap();
    assert_eq!(
        (out, &forwarded[..6], &forwarded[14..]),
        (LAN, &mac(7).0[..], &with_hop_limit(frame.clone(), 63)[14..])
    );
    let gateway = u32::from_be_bytes([10, 0, 0, 7]);
    let quote = frame[14..].to_vec();
    assert_eq!(told(&sent), Told { by: v4(ROUTER), to: v4(1), kind: 5, code: 1, word: gateway, quote });

    let frame = udp_frame(v6(1), FAR_V6, &[7; 21]);
    let mut sent = through(&mut node, LAN, &frame);
    assert_eq!(sent.pop().unwrap().1[14..], with_hop_limit(frame.clone(), 63)[14..]);
    assert_eq!(sent[0].1[14 + 7], 255, "as all of neighbour discovery");
    let told = told(&sent);
    assert_eq!((told.by, told.to), (link_local_of(mac(ROUTER)).address().into(), v6(1)));
    assert_eq!((told.kind, told.code, told.word), (137, 0, 0));
    let bytes = |address: IpAddress| {
        let IpAddress::Ipv6(address) = address else { unreachable!("an IPv6 address") };
        address.octets()
    };
    let target = bytes(IpAddress::v6(0xfe80, 0, 0, 0, 0, 0, 0, 7));
    let options = [&[2, 1][..], &mac(7).0, &[4, 9, 0, 0, 0, 0, 0, 0]].concat();
    // Sixty-nine bytes, of which the option holds eight times eight.
    assert_eq!(told.quote, [&target[..], &bytes(FAR_V6), &options, &frame[14..14 + 64]].concat());
}

#[test]
fn a_neighbour_is_redirected_to_the_destination_itself_on_its_link() {
    let mut node = router(Config::default());
    for (address, from, to) in [(v4(1), v4(1), v4(9)), (v6(1), v6(1), v6(9))] {
        node.with(|stack, io| stack.neighbors.on_solicitation((LAN, to), mac(9), io));
        let sent = through(&mut node, LAN, &udp_frame(from, to, b"beside you"));
        let told = told(&sent[..1]);
        assert_eq!((told.to, sent.len()), (address, 2));
        assert_eq!(told.kind, if matches!(address, IpAddress::Ipv4(_)) { 5 } else { 137 });
    }
}

#[test]
fn nobody_is_redirected_who_should_not_be() {
    let mut node = router_beside_another();
    // Sources that are not on that link, or not in the gateway's network.
    for frame in [udp_frame(wan_v4(9), FAR, b"x"), udp_frame(wan_v6(9), FAR_V6, b"x")] {
        assert_eq!(through(&mut node, LAN, &frame).len(), 1);
    }
    // Another logical network on the same link, whose hosts cannot reach the gateway by themselves.
    let beside = IpAddress::v4(10, 9, 0, 5);
    node.with(|stack, io| {
        stack.add_address(LAN, IpCidr::new(IpAddress::v4(10, 9, 0, 2), 24), io);
        stack.neighbors.on_solicitation((LAN, beside), mac(5), io);
    });
    assert_eq!(through(&mut node, LAN, &udp_frame(beside, FAR, b"x")).len(), 1);
    // A gateway that is not known by its link-local address cannot be named.
    let by_global = Route { to: IpCidr::new(FAR_V6, 48), via: Via::Gateway(LAN, v6(7)), metric: 0 };
    node.stack.set_route(by_global).unwrap();
    node.with(|stack, io| stack.set_neighbor(LAN, v6(7), mac(7), io)).unwrap();
    assert_eq!(through(&mut node, LAN, &udp_frame(v6(1), FAR_V6, b"x")).len(), 1);
    // An ICMP error, a later fragment, another interface.
    let error = edit_v4(udp_frame(v4(1), FAR, &[3; 30]), |packet| {
        packet[9] = 1;
        packet[20] = 3;
    });
    let later = edit_v4(udp_frame(v4(1), FAR, b"later"), |packet| packet[6..8].copy_from_slice(&[0, 3]));
    for frame in [error, later] {
        assert_eq!(through(&mut node, LAN, &frame).len(), 1);
    }
    assert_eq!(through(&mut node, LAN, &udp_frame(v4(1), IpAddress::v4(8, 8, 8, 8), b"x")).len(), 1);
    // As many as there may be.
    let redirected =
        (0..30).filter(|_| through(&mut node, LAN, &udp_frame(v4(1), FAR, b"x")).len() == 2).count();
    assert!((4..=16).contains(&redirected), "{redirected}: not all of a burst of ten is for one");
    assert_eq!(node.ledger.output_drops(IpDrop::RateLimited), 30 - redirected as u64);
    node.stack.config.redirects = false;
    node.now += Duration::from_secs(9);
    assert_eq!(through(&mut node, LAN, &udp_frame(v4(1), FAR, b"x")).len(), 1);
}

// --- Switches, limits, screening ---

#[test]
fn with_reverse_path_checks_a_packet_comes_by_the_way_back() {
    let mut node = router(Config { reverse_path: true, ..Config::default() });
    assert_eq!(through(&mut node, LAN, &udp_frame(v4(1), FAR, b"x")).len(), 1);
    assert_eq!(through(&mut node, LAN, &udp_frame(v6(1), FAR_V6, b"x")).len(), 1);
    // From the WAN's link, from far away, and from nowhere, by the LAN; silently, even if the TTL is used up.
    for from in [wan_v4(9), IpAddress::v4(8, 8, 8, 8)] {
        assert_eq!(through(&mut node, LAN, &with_hop_limit(udp_frame(from, FAR, b"x"), 1)), []);
    }
    assert_eq!(through(&mut node, LAN, &udp_frame(wan_v6(9), FAR_V6, b"x")), []);
    assert_eq!((node.ledger.forwarded, node.ledger.input_drops(IpDrop::ReversePath)), (2, 3));
    // From far away by the WAN.
    let mut frame = udp_frame(IpAddress::v4(8, 8, 8, 8), v4(1), b"x");
    frame[..6].copy_from_slice(&WAN_MAC.0);
    assert_eq!(through(&mut node, WAN, &frame).len(), 1);
}

#[test]
fn errors_about_forwarded_packets_are_limited_and_never_about_errors() {
    let mut node = router_without_routes();
    let icmp = |from: IpAddress, to, protocol, kind| {
        let frame = udp_frame(from, to, &[0; 40]);
        if frame[14] >> 4 == 4 {
            return edit_v4(frame, |packet| {
                packet[9] = protocol;
                packet[20] = kind;
            });
        }
        let mut frame = frame;
        (frame[20], frame[54]) = (protocol, kind);
        frame
    };
    for frame in [
        icmp(v4(1), FAR, 1, 3),
        icmp(v4(1), FAR, 1, 5),
        icmp(v4(1), FAR, 1, 11),
        icmp(v4(1), FAR, 1, 12),
        icmp(v6(1), FAR_V6, 58, 1),
        icmp(v6(1), FAR_V6, 58, 3),
        icmp(v6(1), FAR_V6, 58, 137),
        edit_v4(udp_frame(v4(1), FAR, b"later"), |packet| packet[6..8].copy_from_slice(&[0, 3])),
    ] {
        assert_eq!(through(&mut node, LAN, &frame), [], "{frame:02x?}");
    }
    assert_eq!(through(&mut node, LAN, &icmp(v4(1), FAR, 1, 8)).len(), 1, "an echo request is no error");
    let told =
        (0..50).filter(|_| !through(&mut node, LAN, &udp_frame(v6(1), FAR_V6, b"x")).is_empty()).count();
    assert!((4..=16).contains(&told), "{told}: not all of a burst of ten is for one");
    assert_eq!(node.ledger.output_drops(IpDrop::RateLimited), 50 - told as u64);
    assert_eq!(node.ledger.input_drops(IpDrop::NoRoute), 8 + 1 + 50);
}

#[test]
fn an_error_bears_an_address_that_means_something_where_it_goes() {
    // The LAN has no address of its own left but the link-local one: then one of the WAN's.
    let mut node = router(Config::default());
    for cidr in [IpCidr::new(v4(ROUTER), 24), IpCidr::new(v6(ROUTER), 64)] {
        assert!(node.stack.remove_address(LAN, cidr));
        node.stack.set_route(Route { to: cidr, via: Via::Link(LAN), metric: 5 }).unwrap();
    }
    for (from, to, by) in [(v4(1), FAR, wan_v4(ROUTER)), (v6(1), FAR_V6, wan_v6(ROUTER))] {
        let frame = with_hop_limit(udp_frame(from, to, b"x"), 1);
        let told = told(&through(&mut node, LAN, &frame));
        assert_eq!((told.by, told.to), (by, from));
    }
}

#[test]
fn a_router_says_that_it_is_one() {
    let mut node = router(Config::default());
    assert!(node.stack.groups.is_member(ALL_ROUTERS.into(), LAN));
    assert!(node.stack.groups.is_member(ALL_ROUTERS.into(), WAN));
    let IpAddress::Ipv6(target) = v6(ROUTER) else { unreachable!("an IPv6 address") };
    let solicitation = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target.octets()].concat();
    let frame = packet_v6(58, 255, &icmp_bytes(Some(v6(ROUTER)), v6(1), solicitation));
    assert!(node.receive(&frame).is_none());
    let sent = sent_by(&mut node);
    assert_eq!((sent[0].1[54], sent[0].1[58]), (136, 0xe0), "router, solicited, override");
}

// --- Properties ---

proptest! {
    #[test]
    fn the_incremental_checksum_is_the_whole_one(
        header in proptest::collection::vec(any::<u8>(), 20), ttl in 2..=255_u8,
    ) {
        let mut packet = header;
        packet[0] = 0x45;
        packet[8] = ttl;
        sum_v4(&mut packet);
        let mut expected = packet.clone();
        expected[8] -= 1;
        sum_v4(&mut expected);
        crate::stack::forward::count_hop(&mut packet);
        prop_assert_eq!(packet, expected);
    }

    /// Whatever comes by either interface: the counters add up after each packet, and what is forwarded has
    /// right checksums and a hop less.
    #[test]
    fn a_router_accounts_for_every_frame(
        steps in proptest::collection::vec(
            (0..9_usize, 0..9_usize, any::<bool>(), 0..4_u8, 0..1600_usize, any::<u16>(), any::<u8>()), 1..60,
        ),
        mtu in 576..1500_usize,
    ) {
        let loopback = IpAddress::v4(127, 0, 0, 1);
        let v4s = [v4(1), v4(3), v4(ROUTER), FAR, wan_v4(1), wan_v4(9), v4(255), loopback, wan_v4(0)];
        let link_local = IpAddress::v6(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let all_nodes = IpAddress::v6(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let unspecified = IpAddress::Ipv6(Ipv6Address::UNSPECIFIED);
        let v6s =
            [v6(1), v6(3), v6(ROUTER), FAR_V6, wan_v6(1), wan_v6(9), link_local, all_nodes, unspecified];
        let mut node = router(Config { pending_pkts: 4, pending_per_neighbor_pkts: 3, ..Config::default() });
        node.stack.set_mtu(WAN, mtu);
        for (from, to, six, hop_limit, len, field, seconds) in steps {
            let payload = pattern(len.min(1452));
            let addresses = if six { &v6s } else { &v4s };
            let frame = udp_frame(addresses[from], addresses[to], &payload);
            let mut frame = with_hop_limit(frame, hop_limit * 60);
            if !six {
                frame = edit_v4(frame, |packet| packet[6..8].copy_from_slice(&field.to_be_bytes()));
            }
            let (interface, hardware) = if seconds & 1 == 0 { (LAN, mac(ROUTER)) } else { (WAN, WAN_MAC) };
            frame[..6].copy_from_slice(&hardware.0);
            let received = node.pool.take_copy(&frame).unwrap();
            node.ledger.received += 1;
            match node.with(|stack, io| stack.input(interface, received, io)) {
                Some(Received::Transit(transit)) => node.with(|stack, io| stack.forward(transit, io)),
                Some(Received::Datagram(datagram)) => {
                    node.ledger.delivered += datagram.frames();
                    datagram.recycle(&mut node.pool);
                }
                Some(Received::Segment(packet)) => packet.consume(&mut node.ledger, &mut node.pool),
                Some(Received::IcmpError(_) | Received::Control) | None => {}
            }
            for (_, bytes) in sent_by(&mut node) {
                if bytes[12..14] == [8, 0] {
                    let header = &bytes[14..14 + usize::from(bytes[14] & 0xf) * 4];
                    prop_assert_eq!(crate::tcp::Checksum::default().add(header).finish(), 0);
                    prop_assert!(header[8] > 0);
                }
            }
            if seconds > 128 {
                node.now += Duration::from_millis(u64::from(seconds) * 10);
                node.with(|stack, io| stack.tick(io));
                sent_by(&mut node);
            }
        }
        node.now += Duration::from_secs(100);
        while node.stack.held() + node.stack.reassembling() > 0 {
            node.now = node.now.max(node.stack.next_deadline());
            node.with(|stack, io| stack.tick(io));
            sent_by(&mut node);
        }
    }
}
