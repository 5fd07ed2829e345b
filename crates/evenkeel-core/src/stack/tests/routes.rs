//! Comparison of cached routes with the result of a fresh look-up.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::tcp::FourTuple;
use crate::tcp::endpoint::Routes;
use crate::wire::IpEndpoint;

const WAN: InterfaceId = InterfaceId(1);

/// Draws from few addresses, so that destinations, prefixes, gateways and addresses of ours coincide.
fn any_address() -> impl Strategy<Value = IpAddress> {
    prop_oneof![
        (0..4_u8, 0..4_u8).prop_map(|(net, host)| IpAddress::v4(10, 0, net, host)),
        (0..4_u16, 0..4_u16).prop_map(|(net, host)| IpAddress::v6(0xfd00, 0, 0, net, 0, 0, 0, host)),
        Just(IpAddress::v6(0xfe80, 0, 0, 0, 0, 0, 0, 3)),
        Just(IpAddress::v4(10, 0, 1, 255)),
        Just(IpAddress::v4(224, 0, 0, 9)),
        Just(IpAddress::v4(255, 255, 255, 255)),
    ]
}

#[derive(Debug, Clone)]
enum Change {
    Address(InterfaceId, IpCidr),
    /// One of those added goes.
    Remove(usize),
    Route(bool, Route),
    Hardware(InterfaceId, u8),
    Interface,
    Nothing,
}

fn any_change() -> impl Strategy<Value = Change> {
    let prefix = || {
        let length = prop_oneof![Just(0_u8), Just(23), Just(24), Just(32)];
        (any_address(), length).prop_map(|(address, length)| IpCidr::new(address, length))
    };
    let interface = || prop_oneof![Just(LAN), Just(WAN)];
    let via = prop_oneof![
        3 => (interface(), any_address()).prop_map(|(interface, gateway)| Via::Gateway(interface, gateway)),
        1 => Just(Via::Blackhole),
    ];
    prop_oneof![
        2 => (interface(), prefix()).prop_map(|(interface, prefix)| Change::Address(interface, prefix)),
        2 => (0..3_usize).prop_map(Change::Remove),
        4 => (any::<bool>(), prefix(), via)
            .prop_map(|(add, to, via)| Change::Route(add, Route { to, via, metric: 0 })),
        1 => (interface(), 1..5_u8).prop_map(|(interface, n)| Change::Hardware(interface, n)),
        1 => Just(Change::Interface),
        6 => Just(Change::Nothing),
    ]
}

fn apply(change: Change, node: &mut Node, added: &mut Vec<(InterfaceId, IpCidr)>) {
    match change {
        Change::Address(interface, prefix) => {
            added.push((interface, prefix));
            node.with(|stack, io| stack.add_address(interface, prefix, io));
        }
        Change::Remove(which) if which < added.len() => {
            let (interface, prefix) = added.swap_remove(which);
            node.stack.remove_address(interface, prefix);
        }
        Change::Route(true, route) => _ = node.stack.set_route(route),
        Change::Route(false, route) => _ = node.stack.remove_route(&route),
        Change::Hardware(interface, n) => {
            node.with(|stack, io| stack.set_hardware(interface, mac(n), io));
        }
        Change::Interface => _ = node.stack.add_interface(mac(8), 1500),
        Change::Remove(_) | Change::Nothing => {}
    }
}

proptest! {
    /// A datagram leaves where a fresh lookup would send it, however long its socket has had its handle; and
    /// a connection's route is the one that it would find now as long as the generation is the same.
    #[test]
    fn packets_leave_where_a_fresh_lookup_would_send_them(
        steps in proptest::collection::vec((any_change(), any_address(), 0..2_usize), 1..80),
    ) {
        let mut node = Node::quiet(1);
        node.stack.add_interface(mac(9), 1500);
        let (mut added, mut handles, mut known) = (Vec::new(), [RouteHandle::default(); 2], BTreeMap::new());
        let source = Source { port: 1000, ..Source::default() };
        for (change, destination, socket) in steps {
            apply(change, &mut node, &mut added);
            node.sent();
            let to = IpEndpoint::new(destination, 2000);
            let handle = &mut handles[socket];
            let sent = node.with(|stack, io| stack.send_udp(source, to, b"", handle, io));
            let fresh = node.stack.routing.path_to(&destination, None);
            match fresh {
                // What was sent, or the question for the neighbour before it.
                Ok(path) => prop_assert!(node.out.iter().all(|(interface, _)| *interface == path.interface)),
                Err(error) => prop_assert_eq!((sent, node.out.len()), (Err(error), 0)),
            }
            let path = node.stack.routing.sourced_path(handle, &Origin::default(), &destination);
            prop_assert_eq!(path.map(|sourced| sourced.path), fresh);
            let end = (destination, 80);
            let now = (node.stack.generation(), node.stack.lookup(&FourTuple::new(end, end)));
            match known.insert(destination, now) {
                Some((generation, route)) if generation == now.0 => prop_assert_eq!(route, now.1),
                _ => {}
            }
        }
    }
}
