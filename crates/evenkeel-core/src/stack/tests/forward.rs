//! A router between a LAN (10.0.0.0/24, fd00::/64) and a WAN (198.51.100.0/24, 2001:db8:1::/64).

use super::*;
use crate::drop::IpDrop;
use crate::wire::Ipv6Address;

const WAN: InterfaceId = InterfaceId(1);
const ROUTER: u8 = 2;
const WAN_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 1, ROUTER]);
/// Hosts beyond the WAN's link, by way of its gateway.
const FAR: IpAddress = IpAddress::v4(203, 0, 113, 9);
const FAR_V6: IpAddress = IpAddress::v6(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9);

fn wan_v4(n: u8) -> IpAddress {
    IpAddress::v4(198, 51, 100, n)
}

fn wan_v6(n: u8) -> IpAddress {
    IpAddress::v6(0x2001, 0xdb8, 1, 0, 0, 0, 0, n.into())
}

fn far_mac(n: u8) -> EthernetAddress {
    EthernetAddress([2, 0, 0, 0, 1, n])
}

/// A router that has met node 1 of the LAN and the WAN's gateway, node 1 too.
fn router(config: Config) -> Node {
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
        node.with(|stack, io| stack.neighbors.heard((interface, address), hardware, io));
    }
    assert_eq!(node.sent().len(), 0);
    node
}

/// The router takes a frame in and forwards what comes of it; gives what it sent, by interface.
fn through(node: &mut Node, interface: InterfaceId, bytes: &[u8]) -> Vec<(InterfaceId, Vec<u8>)> {
    let frame = node.pool.take_copy(bytes).expect("a test's pool is large enough");
    node.ledger.received += 1;
    match node.with(|stack, io| stack.input(interface, frame, io)) {
        Some(Received::Transit(transit)) => node.with(|stack, io| stack.forward(transit, io)),
        Some(Received::Datagram(datagram)) => panic!("for somebody else: {datagram:?}"),
        None => {}
    }
    let mut sent = Vec::new();
    while let Some((interface, frame)) = node.out.pop_front() {
        node.ledger.transmitted += 1;
        sent.push((interface, frame.bytes().to_vec()));
        node.pool.recycle(frame);
    }
    node.check();
    sent
}

/// A UDP datagram in a frame to the router's LAN interface.
fn udp_frame(from: IpAddress, to: IpAddress, payload: &[u8]) -> Vec<u8> {
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
        let expected = match from {
            IpAddress::Ipv4(_) => edit_v4(frame.clone(), |packet| packet[8] = 63),
            IpAddress::Ipv6(_) => {
                let mut frame = frame.clone();
                frame[21] = 63;
                frame
            }
        };
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
