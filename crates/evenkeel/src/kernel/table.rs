//! One of the kernel's routing tables, with its routes to each prefix in the kernel's order.

use core::cmp::Reverse;
use core::ops::Range;
use std::collections::BTreeMap;

use evenkeel_core::wire::{IpAddress, IpCidr, Ipv4Address, Ipv6Address};
use evenkeel_link::{KernelRoute, KernelWay, Place};

/// A reading of the whole tables.
pub(super) type Round = u64;

/// A table. Routes are found by prefix; [`Table::covering`] finds those of shorter prefixes.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The routes to each prefix, in the order in which the kernel considers them.
    prefixes: BTreeMap<IpCidr, Vec<OneRoute>>,
    lengths: Lengths,
    /// The number of routes in the table.
    pub(super) count: u64,
}

/// One route to a prefix.
#[derive(Debug, Clone)]
pub(super) struct OneRoute {
    pub(super) route: KernelRoute,
    /// The number that distinguishes the next-hop objects which have had the route's object number.
    pub(super) epoch: u64,
    /// The reading in which the route was listed or announced last.
    pub(super) heard: Round,
}

impl OneRoute {
    /// Returns whether both routes ask for a source, or neither does.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.route.from_some == other.route.from_some
    }

    fn is(&self, other: &Self) -> bool {
        self.epoch == other.epoch && self.route == other.route
    }
}

/// An error: an announcement does not determine the change, so the tables must be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ambiguous(pub(super) bool);

impl Table {
    pub(super) fn at(&self, to: &IpCidr) -> &[OneRoute] {
        self.prefixes.get(to).map_or(&[], Vec::as_slice)
    }

    /// Returns the routes to the prefix and to those that cover it, the longest first.
    pub(super) fn covering(&self, to: IpCidr) -> impl Iterator<Item = (u8, &[OneRoute])> {
        self.lengths
            .down_from(to.prefix_len())
            .filter_map(move |length| Some((length, self.prefixes.get(&truncated(to, length))?.as_slice())))
    }

    /// Returns the next prefix after another one.
    pub(super) fn next(&self, range: (core::ops::Bound<IpCidr>, core::ops::Bound<IpCidr>)) -> Option<IpCidr> {
        self.prefixes.range(range).next().map(|(to, _)| *to)
    }

    pub(super) const fn prefixes(&self) -> &BTreeMap<IpCidr, Vec<OneRoute>> {
        &self.prefixes
    }

    /// Replaces all routes to a prefix. Returns the previous ones, unless they are equal.
    pub(super) fn set(&mut self, to: IpCidr, list: &[OneRoute]) -> Option<Vec<OneRoute>> {
        let before = self.prefixes.entry(to).or_default();
        let same = before.len() == list.len() && before.iter().zip(list).all(|(one, other)| one.is(other));
        let before = core::mem::replace(before, list.to_vec());
        if list.is_empty() {
            self.prefixes.remove(&to);
        }
        self.lengths.change(to.prefix_len(), i64::from(!list.is_empty()) - i64::from(!before.is_empty()));
        self.count = (self.count + list.len() as u64).saturating_sub(before.len() as u64);
        (!same).then_some(before)
    }
}

/// Inserts a route among those to its prefix, as the kernel does (`fib_table_insert` in net/ipv4/fib_trie.c,
/// `fib6_add_rt2node` in net/ipv6/ip6_fib.c).
pub(super) fn put(list: &mut Vec<OneRoute>, new: OneRoute, place: Place) -> Ambiguous {
    match new.route.to {
        IpCidr::Ipv4(_) => put_v4(list, new, place),
        IpCidr::Ipv6(_) => return put_v6(list, new, place),
    }
    Ambiguous(false)
}

fn put_v4(list: &mut Vec<OneRoute>, new: OneRoute, place: Place) {
    let group = group(list, &new.route, |route| (Reverse(route.tos), route.metric));
    let known = find(list, &group, |one| one.route.identity == new.route.identity);
    match (known, place) {
        // The kernel refuses a second route of this kind, so this one has changed, or was listed before it
        // was announced.
        (Some(at), _) => set(list, at, new),
        (None, Place::Replaces) if !group.is_empty() => set(list, group.start, new),
        (None, Place::Last | Place::Listed) => list.insert(group.end, new),
        (None, Place::First | Place::Replaces) => list.insert(group.start, new),
    }
}

fn put_v6(list: &mut Vec<OneRoute>, new: OneRoute, place: Place) -> Ambiguous {
    let group = group(list, &new.route, |route| route.metric);
    if new.route.from_some {
        // The kernel separates routes by source, and the source is not known here.
        let is_only = !list.iter().any(|one| one.route.from_some);
        list.insert(group.end, new);
        return Ambiguous(!is_only);
    }
    let find = |is: &dyn Fn(&OneRoute) -> bool| find(list, &group, |one| !one.route.from_some && is(one));
    // All next hops of a joined route are announced together.
    let joined = find(&|one| one.route.joins);
    let known = find(&|one| one.route.identity == new.route.identity && !one.route.joins);
    let replaced = find(&|one| one.route.joins == new.route.joins).or(find(&|_| true));
    match place {
        Place::Replaces => {
            let by_object = matches!(new.route.way, KernelWay::Nexthop(_));
            if by_object && known.is_some() && known != replaced {
                // The kernel announces a replacement in this way also if the object of this route has
                // changed.
                return Ambiguous(true);
            }
            match replaced {
                Some(at) => set(list, at, new),
                None => list.insert(group.end, new),
            }
        }
        Place::First | Place::Last | Place::Listed => match if new.route.joins { joined } else { known } {
            Some(at) => set(list, at, new),
            None => list.insert(group.end, new),
        },
    }
    Ambiguous(false)
}

/// Removes a route from those to its prefix.
pub(super) fn take(list: &mut Vec<OneRoute>, gone: &KernelRoute) -> Ambiguous {
    if gone.from_some {
        return take_by_source(list, gone);
    }
    let of_its_key =
        |one: &OneRoute| !one.route.from_some && (one.route.tos, one.route.metric) == (gone.tos, gone.metric);
    if gone.joins {
        // The kernel may remove one of several next hops.
        let joined = list.iter_mut().find(|one| of_its_key(one) && one.route.joins);
        if let (Some(one), KernelWay::Unicast(gone)) = (joined, &gone.way)
            && let KernelWay::Unicast(hops) = &mut one.route.way
        {
            let is_gone =
                |index, gateway| gone.iter().any(|hop| (hop.index, hop.gateway) == (index, gateway));
            hops.retain(|hop| !is_gone(hop.index, hop.gateway));
        }
        list.retain(|one| !(one.route.joins && one.route.way == KernelWay::Unicast(Vec::new())));
        return Ambiguous(false);
    }
    let at = list.iter().position(|one| of_its_key(one) && one.route.identity == gone.identity);
    at.into_iter().for_each(|at| drop(list.remove(at)));
    Ambiguous(false)
}

/// Removes a route for some sources, if it is the only one.
fn take_by_source(list: &mut Vec<OneRoute>, gone: &KernelRoute) -> Ambiguous {
    let is_only = list.iter().filter(|one| one.route.from_some).count() == 1;
    let is_gone = |one: &OneRoute| one.route.from_some && one.route.identity == gone.identity;
    match list.iter().position(is_gone).filter(|_| is_only && !gone.joins) {
        Some(at) => drop(list.remove(at)),
        None => return Ambiguous(true),
    }
    Ambiguous(false)
}

fn set(list: &mut [OneRoute], at: usize, new: OneRoute) {
    list.get_mut(at).into_iter().for_each(|one| *one = new.clone());
}

/// Returns the routes with the key of `new`.
fn group<K: Ord>(list: &[OneRoute], new: &KernelRoute, key: impl Fn(&KernelRoute) -> K) -> Range<usize> {
    let wanted = key(new);
    let start = list.partition_point(|one| key(&one.route) < wanted);
    start..list.partition_point(|one| key(&one.route) <= wanted)
}

fn find(list: &[OneRoute], group: &Range<usize>, is: impl Fn(&OneRoute) -> bool) -> Option<usize> {
    let at = list.get(group.clone())?.iter().position(is)?;
    Some(group.start + at)
}

/// The number of prefixes of each length.
#[derive(Debug, Default)]
pub(super) struct Lengths(BTreeMap<u8, i64>);

impl Lengths {
    pub(super) fn change(&mut self, length: u8, by: i64) {
        let count = self.0.entry(length).or_default();
        *count += by;
        if *count == 0 {
            self.0.remove(&length);
        }
    }

    pub(super) fn down_from(&self, length: u8) -> impl Iterator<Item = u8> {
        self.0.range(..=length).rev().map(|(length, _)| *length)
    }
}

/// Returns the prefix of this length that covers another one.
pub(super) fn truncated(to: IpCidr, length: u8) -> IpCidr {
    match to.address() {
        IpAddress::Ipv4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            IpCidr::new(Ipv4Address::from_bits(address.to_bits() & mask).into(), length.min(32))
        }
        IpAddress::Ipv6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            IpCidr::new(Ipv6Address::from_bits(address.to_bits() & mask).into(), length.min(128))
        }
    }
}

/// Returns the last address of a prefix.
fn last(of: IpCidr) -> IpAddress {
    let length = u32::from(of.prefix_len());
    match of.address() {
        IpAddress::Ipv4(address) => {
            let host = u32::MAX.checked_shr(length).unwrap_or(0);
            Ipv4Address::from_bits(address.to_bits() | host).into()
        }
        IpAddress::Ipv6(address) => {
            let host = u128::MAX.checked_shr(length).unwrap_or(0);
            Ipv6Address::from_bits(address.to_bits() | host).into()
        }
    }
}

pub(super) const fn is_six(to: &IpCidr) -> bool {
    matches!(to, IpCidr::Ipv6(_))
}

/// Returns all destinations of a family.
pub(super) fn everything(six: bool) -> IpCidr {
    if six {
        IpCidr::new(Ipv6Address::UNSPECIFIED.into(), 0)
    } else {
        IpCidr::new(Ipv4Address::UNSPECIFIED.into(), 0)
    }
}

/// Returns the last prefix below another one, in the order of prefixes.
pub(super) fn end(of: IpCidr) -> IpCidr {
    let longest = if is_six(&of) { 128 } else { 32 };
    IpCidr::new(last(of), longest)
}

/// Returns the range of all prefixes below one, and perhaps shorter ones.
pub(super) fn under(to: IpCidr) -> core::ops::RangeInclusive<IpCidr> {
    to..=end(to)
}
