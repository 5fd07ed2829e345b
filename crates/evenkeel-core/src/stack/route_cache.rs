//! The route cache: first hops found before, so that the next packet to the same host need not look for its
//! own.
//!
//! What a lookup says depends on addresses and routes only. Whoever changes those calls
//! [`RouteCache::forget`]; nothing here grows old by itself.

use super::output::Path;
use super::{SendError, Stack};
use crate::wire::IpAddress;

/// A power of two. Hosts that talk with more peers at a time look some of them up in the table.
const SLOTS: usize = 64;

/// A table of as many paths as fit, each in the one slot of its destination.
#[derive(Debug)]
pub(super) struct RouteCache {
    slots: Box<[Option<(IpAddress, Path)>; SLOTS]>,
}

impl Default for RouteCache {
    fn default() -> Self {
        Self { slots: Box::new([None; SLOTS]) }
    }
}

impl RouteCache {
    fn get(&self, destination: &IpAddress) -> Option<Path> {
        self.slots[slot_of(destination)].filter(|(known, _)| known == destination).map(|(_, path)| path)
    }

    fn put(&mut self, destination: &IpAddress, path: Path) {
        self.slots[slot_of(destination)] = Some((*destination, path));
    }

    /// An address or a route has changed.
    pub(super) fn forget(&mut self) {
        self.slots.fill(None);
    }
}

/// Who wants to choose addresses that share a slot may: they only cost each other a lookup.
fn slot_of(destination: &IpAddress) -> usize {
    let bits = match destination {
        IpAddress::Ipv4(address) => address.to_bits(),
        IpAddress::Ipv6(address) => {
            let bits = address.to_bits();
            (bits ^ bits >> 32 ^ bits >> 64 ^ bits >> 96) as u32
        }
    };
    (bits ^ bits >> 8 ^ bits >> 16) as usize % SLOTS
}

impl Stack {
    /// The same as [`Stack::path_to`] by any interface.
    pub(super) fn cached_path_to(&mut self, destination: &IpAddress) -> Result<Path, SendError> {
        if let Some(path) = self.route_cache.get(destination) {
            return Ok(path);
        }
        let path = self.path_to(destination, None)?;
        self.route_cache.put(destination, path);
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::InterfaceId;
    use crate::stack::tests::{LAN, Node, mac};
    use crate::stack::{Route, Via};
    use crate::wire::IpCidr;

    const WAN: InterfaceId = InterfaceId(1);

    /// Few addresses, so that destinations, prefixes, gateways and addresses of ours meet.
    fn any_address() -> impl Strategy<Value = IpAddress> {
        prop_oneof![
            (0..4_u8, 0..4_u8).prop_map(|(net, host)| IpAddress::v4(10, 0, net, host)),
            (0..4_u8, 0..4_u8).prop_map(|(net, host)| IpAddress::v6(
                0xfd00,
                0,
                0,
                net.into(),
                0,
                0,
                0,
                host.into()
            )),
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
        Nothing,
    }

    fn any_change() -> impl Strategy<Value = Change> {
        let prefix = (any_address(), prop_oneof![Just(0_u8), Just(23), Just(24), Just(32)])
            .prop_map(|(address, length)| IpCidr::new(address, length));
        let interface = prop_oneof![Just(LAN), Just(WAN)];
        (any::<bool>(), interface, prefix, any_address(), 0..5_usize).prop_map(
            |(add, interface, prefix, gateway, kind)| match kind {
                0 if add => Change::Address(interface, prefix),
                0 => Change::Remove(usize::from(prefix.prefix_len()) % 3),
                1 => {
                    Change::Route(add, Route { to: prefix, via: Via::Gateway(interface, gateway), metric: 0 })
                }
                2 => Change::Route(add, Route { to: prefix, via: Via::Blackhole, metric: 0 }),
                _ => Change::Nothing,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_cached_is_what_would_be_found_now(
            steps in proptest::collection::vec((any_change(), any_address()), 1..80),
        ) {
            let mut node = Node::quiet(1);
            node.stack.add_interface(mac(9), 1500);
            let mut added = Vec::new();
            for (change, destination) in steps {
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
                    Change::Remove(_) | Change::Nothing => {}
                }
                let now = node.stack.path_to(&destination, None);
                prop_assert_eq!(node.stack.cached_path_to(&destination), now);
                prop_assert_eq!(node.stack.cached_path_to(&destination), now);
            }
        }
    }
}
