//! Several next hops for one route, and which of them a flow takes: hash threshold (RFC 2992), weighted as
//! Linux does it.
//!
//! The hashes are divided into regions, one for each next hop and as large as its weight says. All packets of
//! a flow have the same hash, so a flow keeps its path and its order (RFC 2991); and when a next hop goes,
//! the flows of the others mostly stay where they were.

use std::sync::Arc;

use super::hop::Hop;
use crate::id::InterfaceId;
use crate::wire::IpAddress;

/// One of several next hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// The interface it is reached by.
    pub interface: InterfaceId,
    /// The gateway; `None` if destinations are on the link.
    pub gateway: Option<IpAddress>,
    /// Its share of the flows, in proportion to the others'; zero is taken as one.
    pub weight: u16,
}

/// The next hops of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multipath(Arc<[Region]>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Region {
    hop: NextHop,
    /// The last hash that is its own.
    last: u32,
}

impl NextHop {
    pub(crate) fn hop(&self, destination: &IpAddress) -> Hop {
        Hop {
            interface: self.interface,
            neighbor: self.gateway.unwrap_or(*destination),
            on_link: self.gateway.is_none(),
        }
    }
}

impl Multipath {
    /// Creates a route over several next hops, in this order, of which the first 256 count. `None` if there
    /// are none.
    #[must_use]
    pub fn new(hops: &[NextHop]) -> Option<Self> {
        const HOPS_MAX: usize = 256;
        let hops = hops.get(..HOPS_MAX).unwrap_or(hops);
        let weight = |hop: &NextHop| u64::from(hop.weight.max(1));
        let total: u64 = hops.iter().map(weight).sum();
        let regions = hops.iter().scan(0, |sum, hop| {
            *sum += weight(hop);
            let end = (*sum << 32).checked_div(total)?;
            Some(Region { hop: *hop, last: u32::try_from(end.saturating_sub(1)).unwrap_or(u32::MAX) })
        });
        Some(Self(regions.collect())).filter(|all| !all.0.is_empty())
    }

    /// Returns the next hops among which the flows are divided.
    pub fn hops(&self) -> impl Iterator<Item = NextHop> {
        self.0.iter().map(|region| region.hop)
    }

    /// Returns the next hop of a flow, by `interface` if that is given.
    pub(crate) fn of_flow(&self, hash: u32, interface: Option<InterfaceId>) -> Option<NextHop> {
        let Some(interface) = interface else {
            let place = self.0.partition_point(|region| region.last < hash);
            return self.0.get(place).map(|region| region.hop);
        };
        let by = |hop: &NextHop| hop.interface == interface;
        let hops = self.hops().filter(by).count();
        self.hops().filter(by).nth(hash as usize % hops.max(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hops(weights: &[u16]) -> Vec<NextHop> {
        let hop = |(index, &weight): (usize, &u16)| NextHop {
            interface: InterfaceId(index as u8 % 3),
            gateway: Some(IpAddress::v4(10, 0, 0, index as u8)),
            weight,
        };
        weights.iter().enumerate().map(hop).collect()
    }

    #[test]
    fn without_next_hops_there_is_no_way() {
        assert_eq!(Multipath::new(&[]), None);
        let one = Multipath::new(&hops(&[0])).unwrap();
        assert_eq!([0, u32::MAX].map(|hash| one.of_flow(hash, None)), [one.hops().next(); 2]);
        assert_eq!(one.of_flow(7, Some(InterfaceId(1))), None);
    }

    proptest! {
        /// Regions follow one another without a gap, and are as large as the weights say.
        #[test]
        fn each_next_hop_has_its_share_of_the_flows(
            weights in proptest::collection::vec(0..=u16::MAX, 1..300),
            hash: u32,
        ) {
            let all = Multipath::new(&hops(&weights)).unwrap();
            let weights = &weights[..weights.len().min(256)];
            let total: u64 = weights.iter().map(|weight| u64::from((*weight).max(1))).sum();
            let mut first = 0;
            for (region, weight) in all.0.iter().zip(weights) {
                let share = (u64::from((*weight).max(1)) << 32) / total;
                let size = u64::from(region.last) + 1 - first;
                prop_assert!(size.abs_diff(share) <= 1, "{} of {}", size, share);
                prop_assert_eq!(all.of_flow(region.last, None), Some(region.hop));
                prop_assert_eq!(all.of_flow(first as u32, None), Some(region.hop));
                first += size;
            }
            prop_assert_eq!(first, 1 << 32);
            for interface in (0..3).map(InterfaceId) {
                let there = all.hops().any(|hop| hop.interface == interface);
                let found = all.of_flow(hash, Some(interface));
                prop_assert_eq!(found.map(|hop| hop.interface), there.then_some(interface));
            }
        }

        /// RFC 2992 4: of two equal ones half of the flows move when a third comes, and of n at most that.
        #[test]
        fn when_a_next_hop_goes_most_flows_stay(count in 2..20_usize, seed: u32) {
            let all = hops(&vec![1; count]);
            let (before, after) = (Multipath::new(&all).unwrap(), Multipath::new(&all[..count - 1]).unwrap());
            let hashes = (0..1000_u32).map(|n| n.wrapping_mul(4_294_967).wrapping_add(seed));
            let moves = |hash: &u32| before.of_flow(*hash, None) != after.of_flow(*hash, None);
            let moved = hashes.filter(moves).count();
            prop_assert!(moved <= 510, "{} of 1000", moved);
        }
    }
}
