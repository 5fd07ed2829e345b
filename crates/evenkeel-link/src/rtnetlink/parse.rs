//! A parser of rtnetlink's messages (rtnetlink(7)) about links, routes, rules and next-hop objects.
//!
//! The parser reads attribute by attribute, so that an unknown attribute does not spoil the message. It marks
//! the entry as one that cannot be followed, and the router then discards its packets.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use evenkeel_core::wire::{IpAddress, IpCidr, Ipv4Address, Ipv6Address};
use netlink_packet_core::NlasIterator;

use super::entry::{
    Entry, KernelHop, KernelNexthop, KernelRoute, KernelRule, KernelWay, NexthopKind, RuleAction,
};

const INET: u8 = libc::AF_INET as u8;
const INET6: u8 = libc::AF_INET6 as u8;

/// Flags of a next hop (`RTNH_F_*`). The kernel also reports one as dead if it has no carrier and its device
/// ignores such next hops.
const DEAD: u32 = 1;
const LINKDOWN: u32 = 16;

/// Returns type and value of each attribute. Stops at a malformed one.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(Result::ok).map(|nla| {
        let value = nla.into_inner();
        // The header's length counts itself, and the value ends with it.
        let len = value.first_chunk().map_or(0, |len: &[u8; 2]| usize::from(u16::from_ne_bytes(*len)));
        let kind = value.get(2..4).and_then(|kind| kind.try_into().ok()).map_or(0, u16::from_ne_bytes);
        (kind & 0x3fff, value.get(4..len).unwrap_or_default())
    })
}

fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*value.first_chunk()?))
}

fn address(value: &[u8]) -> Option<IpAddress> {
    match value.len() {
        4 => Some(Ipv4Address::from_octets(*value.first_chunk()?).into()),
        16 => Some(Ipv6Address::from_octets(*value.first_chunk()?).into()),
        _ => None,
    }
}

/// Returns a prefix of the family: the address in `value`, or the unspecified address if there is none.
fn prefix(family: u8, value: Option<&[u8]>, length: u8) -> Option<IpCidr> {
    let (all, longest) = match family {
        INET => (Ipv4Address::UNSPECIFIED.into(), 32),
        INET6 => (Ipv6Address::UNSPECIFIED.into(), 128),
        _ => return None,
    };
    let address = value.map_or(Some(all), address)?;
    (length <= longest).then(|| IpCidr::new(address, length))
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(value.get(..end).unwrap_or_default()).into_owned()
}

/// Parses a device (`struct ifinfomsg`). Also returns whether it is up and has carrier.
pub(super) fn link(body: &[u8]) -> Option<(Entry, bool)> {
    const IFLA_IFNAME: u16 = 3;
    const IFLA_LINKINFO: u16 = 18;
    const IFLA_INFO_SLAVE_KIND: u16 = 4;
    const HEADER: usize = 16;
    let (index, flags) = (number(body.get(4..)?)?, number(body.get(8..)?)?);
    let (mut name, mut in_vrf) = (String::new(), false);
    for (kind, value) in attributes(body.get(HEADER..)?) {
        match kind {
            IFLA_IFNAME => name = text(value),
            IFLA_LINKINFO => {
                in_vrf |= attributes(value)
                    .any(|(kind, value)| kind == IFLA_INFO_SLAVE_KIND && text(value) == "vrf");
            }
            _ => {}
        }
    }
    // The kernel sets the last flag only when it notifies its routes of the carrier.
    let usable = (libc::IFF_UP | libc::IFF_LOWER_UP | libc::IFF_RUNNING).unsigned_abs();
    Some((Entry::Link { index, name, in_vrf }, flags & usable == usable))
}

/// Parses a device's setting (`struct netconfmsg`); `None` if it does not matter here.
pub(super) fn setting(body: &[u8]) -> Option<Entry> {
    const NETCONFA_IFINDEX: u16 = 1;
    const NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN: u16 = 6;
    let six = match *body.first()? {
        INET => false,
        INET6 => true,
        _ => return None,
    };
    let of =
        |wanted| attributes(body.get(4..)?).find(|(kind, _)| *kind == wanted).and_then(|(_, v)| number(v));
    let index = of(NETCONFA_IFINDEX)?;
    Some(Entry::IgnoresLinkdown { six, index, ignores: of(NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN)? != 0 })
}

/// Parses a route (`struct rtmsg`). Returns an error if it cannot be read, and `None` for a cached route.
pub(super) fn route(body: &[u8]) -> Result<Option<Entry>, ()> {
    const HEADER: usize = 12;
    const RTM_F_CLONED: u32 = 0x200;
    let &[family, to_len, from_len, tos, table, protocol, scope, kind, ..] = body else { return Err(()) };
    let flags = number(body.get(8..).ok_or(())?).ok_or(())?;
    if flags & RTM_F_CLONED != 0 || !matches!(family, INET | INET6) {
        return Ok(None);
    }
    let mut found = Attributes::default();
    let mut hash = DefaultHasher::new();
    (from_len, protocol, scope, kind).hash(&mut hash);
    let mut table = u32::from(table);
    let (mut to, mut metric, mut preference) = (None, 0, 0);
    for (kind, value) in attributes(body.get(HEADER..).unwrap_or_default()) {
        match kind {
            libc::RTA_DST => to = Some(value),
            libc::RTA_TABLE => table = number(value).unwrap_or(table),
            libc::RTA_PRIORITY => metric = number(value).unwrap_or(0),
            RTA_PREF => preference = preference_of(value),
            _ => found.take(kind, value),
        }
    }
    found.hash(&mut hash, body.get(HEADER..).unwrap_or_default());
    let to = prefix(family, to, to_len).ok_or(())?;
    let way = found.way(kind, flags);
    let joins = family == INET6
        && protocol != RTPROT_RA
        && found.object.is_none()
        && found.hops.first().is_some_and(|(hop, _)| hop.gateway.is_some());
    let identity = hash.finish();
    let from_some = from_len != 0;
    Ok(Some(Entry::Route(KernelRoute {
        table,
        to,
        tos,
        from_some,
        metric,
        preference,
        way,
        joins,
        identity,
    })))
}

const RTA_VIA: u16 = 18;
const RTA_NEWDST: u16 = 19;
const RTA_PREF: u16 = 20;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
const RTA_EXPIRES: u16 = 23;
const RTA_NH_ID: u16 = 30;
const RTPROT_RA: u8 = 9;

/// Converts `ICMPV6_ROUTER_PREF_*` (0 is medium, 1 is high, 3 is low) to a preference of 0, 1 or -1.
fn preference_of(value: &[u8]) -> i8 {
    match value.first() {
        Some(1) => 1,
        Some(3) => -1,
        _ => 0,
    }
}

/// The attributes of a route that describe its next hops.
#[derive(Debug, Default)]
struct Attributes {
    index: Option<u32>,
    gateway: Option<IpAddress>,
    object: Option<u32>,
    /// Next hops and their flags.
    hops: Vec<(KernelHop, u32)>,
    /// Whether an attribute changes packets in a way that cannot be expressed here.
    odd: bool,
}

impl Attributes {
    fn take(&mut self, kind: u16, value: &[u8]) {
        match kind {
            libc::RTA_OIF => self.index = number(value),
            libc::RTA_GATEWAY => self.gateway = address(value),
            RTA_VIA => self.via(value),
            RTA_NH_ID => self.object = number(value),
            RTA_NEWDST | RTA_ENCAP => self.odd = true,
            RTA_ENCAP_TYPE => self.odd |= value.iter().any(|byte| *byte != 0),
            libc::RTA_MULTIPATH => self.several(value),
            _ => {}
        }
        if let (Some(index), true) = (self.index, kind != libc::RTA_MULTIPATH && self.hops.len() < 2) {
            self.hops = vec![(KernelHop { index, gateway: self.gateway, weight: 1 }, 0)];
        }
    }

    /// Reads a gateway of any family: `struct rtvia`.
    fn via(&mut self, value: &[u8]) {
        self.gateway = value.get(2..).and_then(address);
        self.odd |= self.gateway.is_none();
    }

    /// Reads several next hops: each is a `struct rtnexthop` with attributes.
    fn several(&mut self, mut rest: &[u8]) {
        const HEADER: usize = 8;
        self.hops.clear();
        while let Some(&[a, b, flags, hops]) = rest.first_chunk() {
            let len = usize::from(u16::from_ne_bytes([a, b]));
            let (Some(hop), Some(index)) = (rest.get(HEADER..len), rest.get(4..).and_then(number)) else {
                break;
            };
            let mut one = Self::default();
            attributes(hop).for_each(|(kind, value)| one.take(kind, value));
            self.odd |= one.odd;
            // The kernel's field is the weight less one.
            let weight = u16::from(hops) + 1;
            self.hops.push((KernelHop { index, gateway: one.gateway, weight }, flags.into()));
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
    }

    /// Returns the destination that a route of type `kind` leads to.
    fn way(&self, kind: u8, flags: u32) -> KernelWay {
        // A route by a discarding object has the type of a discarding route.
        if let (libc::RTN_UNICAST | libc::RTN_BLACKHOLE, Some(id)) = (kind, self.object) {
            return KernelWay::Nexthop(id);
        }
        match kind {
            libc::RTN_UNICAST => match self.object {
                Some(id) => KernelWay::Nexthop(id),
                None if self.odd => KernelWay::Unknown,
                None => {
                    // With one next hop the flags are in the route's header.
                    let of_all = if self.hops.len() == 1 { flags } else { 0 };
                    let alive = self.hops.iter().filter(|(_, flags)| (flags | of_all) & DEAD == 0);
                    KernelWay::Unicast(alive.map(|(hop, _)| *hop).collect())
                }
            },
            // The kernel also skips its own routes if the device is out of use: broadcasts without carrier.
            libc::RTN_LOCAL | libc::RTN_BROADCAST | libc::RTN_ANYCAST | libc::RTN_MULTICAST
                if flags & DEAD != 0 =>
            {
                KernelWay::Unicast(Vec::new())
            }
            libc::RTN_LOCAL | libc::RTN_BROADCAST | libc::RTN_ANYCAST | libc::RTN_MULTICAST => {
                KernelWay::Kernel
            }
            libc::RTN_BLACKHOLE => KernelWay::Blackhole,
            libc::RTN_UNREACHABLE => KernelWay::Unreachable,
            libc::RTN_PROHIBIT => KernelWay::Prohibit,
            libc::RTN_THROW => KernelWay::Throw,
            _ => KernelWay::Unknown,
        }
    }

    /// Hashes all attributes except those that are part of the key, that change by themselves, or that repeat
    /// the state of a next-hop object.
    fn hash(&self, hash: &mut DefaultHasher, bytes: &[u8]) {
        for (kind, value) in attributes(bytes) {
            let is_key = matches!(kind, libc::RTA_DST | libc::RTA_TABLE | libc::RTA_PRIORITY);
            let ages = matches!(kind, libc::RTA_CACHEINFO | RTA_EXPIRES | libc::RTA_MULTIPATH);
            let of_object =
                matches!(kind, libc::RTA_OIF | libc::RTA_GATEWAY | RTA_VIA | RTA_ENCAP | RTA_ENCAP_TYPE);
            if !(is_key || ages || of_object && self.object.is_some()) {
                (kind, value).hash(hash);
            }
        }
        if self.object.is_none() {
            let hops = self.hops.iter().map(|(hop, _)| (hop.index, hop.gateway, hop.weight));
            hops.for_each(|hop| hop.hash(hash));
        }
    }
}

/// Parses a next-hop object (`struct nhmsg`, linux/nexthop.h); `None` if it is not for routes.
pub(super) fn nexthop(body: &[u8]) -> Option<Entry> {
    const HEADER: usize = 8;
    const NHA_ID: u16 = 1;
    const NHA_GROUP: u16 = 2;
    const NHA_GROUP_TYPE: u16 = 3;
    const NHA_BLACKHOLE: u16 = 4;
    const NHA_OIF: u16 = 5;
    const NHA_GATEWAY: u16 = 6;
    const NHA_ENCAP_TYPE: u16 = 7;
    const NHA_ENCAP: u16 = 8;
    const NHA_FDB: u16 = 11;
    /// Group types: members by hash, and by buckets that keep their flows. The choice of a member for a flow
    /// is open.
    const GROUP_TYPES: [&[u8]; 2] = [&0_u16.to_ne_bytes(), &1_u16.to_ne_bytes()];
    let flags = number(body.get(4..)?)?;
    let (mut id, mut group, mut index, mut gateway) = (None, None, None, None);
    let (mut blackhole, mut odd) = (false, false);
    for (kind, value) in attributes(body.get(HEADER..)?) {
        match kind {
            NHA_ID => id = number(value),
            NHA_GROUP => group = Some(members(value)),
            NHA_GROUP_TYPE => odd |= !GROUP_TYPES.contains(&value),
            NHA_BLACKHOLE => blackhole = true,
            NHA_OIF => index = number(value),
            NHA_GATEWAY => {
                gateway = address(value);
                odd |= gateway.is_none();
            }
            NHA_ENCAP | NHA_FDB => odd = true,
            NHA_ENCAP_TYPE => odd |= value.iter().any(|byte| *byte != 0),
            _ => {}
        }
    }
    let kind = match (group, index) {
        _ if odd => NexthopKind::Unknown,
        _ if blackhole => NexthopKind::Blackhole,
        (Some(members), _) => NexthopKind::Group(members),
        (None, Some(index)) => NexthopKind::Hop {
            hop: KernelHop { index, gateway, weight: 1 },
            dead: flags & DEAD != 0,
            linkdown: flags & LINKDOWN != 0,
        },
        (None, None) => NexthopKind::Unknown,
    };
    Some(Entry::Nexthop(KernelNexthop { id: id?, kind }))
}

/// Returns the members of a group (`struct nexthop_grp`): numbers and weights.
fn members(value: &[u8]) -> Vec<(u32, u16)> {
    let (members, _) = value.as_chunks::<8>();
    let member = |&[a, b, c, d, low, high, _, _]: &[u8; 8]| {
        (u32::from_ne_bytes([a, b, c, d]), u16::from_le_bytes([low, high]).saturating_add(1))
    };
    members.iter().map(member).collect()
}

/// Parses a rule (`struct fib_rule_hdr`, linux/fib_rules.h). Returns an error if it cannot be read, and
/// `None` if it is for another family.
pub(super) fn rule(body: &[u8]) -> Result<Option<Entry>, ()> {
    const HEADER: usize = 12;
    const INVERT: u32 = 2;
    /// Flags of a rule whose devices, or whose target rule, do not exist at the moment.
    const DETACHED: u32 = 8 | 16 | 4;
    let &[family, to_len, from_len, tos, table, _, _, action, ..] = body else { return Err(()) };
    if !matches!(family, INET | INET6) {
        return Ok(None);
    }
    let flags = number(body.get(8..).ok_or(())?).ok_or(())?;
    let mut rule = KernelRule::table(family == INET6, 0, table.into());
    let mut hash = DefaultHasher::new();
    (body.get(..HEADER - 4), flags & !DETACHED).hash(&mut hash);
    rule.others = from_len != 0 || tos != 0;
    rule.inverted = flags & INVERT != 0;
    let mut conditions = Conditions { table: table.into(), ..Conditions::default() };
    for (kind, value) in attributes(body.get(HEADER..).unwrap_or_default()) {
        (kind, value).hash(&mut hash);
        conditions.take(kind, value, &mut rule);
    }
    if to_len != 0 {
        rule.to = Some(prefix(family, conditions.to, to_len).ok_or(())?);
    }
    // Packets have no mark here, as in `ip route get`.
    rule.never |= conditions.mark & conditions.mask.unwrap_or(u32::MAX) != 0;
    rule.action = match action {
        1 => RuleAction::Table(conditions.table),
        2 => conditions.goto.map_or(RuleAction::Nop, RuleAction::Goto),
        3 => RuleAction::Nop,
        6 => RuleAction::Blackhole,
        7 => RuleAction::Unreachable,
        8 => RuleAction::Prohibit,
        _ => RuleAction::Unknown,
    };
    rule.identity = hash.finish();
    Ok(Some(Entry::Rule(rule)))
}

#[derive(Debug, Default)]
struct Conditions<'a> {
    to: Option<&'a [u8]>,
    table: u32,
    goto: Option<u32>,
    mark: u32,
    mask: Option<u32>,
}

impl<'a> Conditions<'a> {
    fn take(&mut self, kind: u16, value: &'a [u8], rule: &mut KernelRule) {
        const FRA_DST: u16 = 1;
        const FRA_IIFNAME: u16 = 3;
        const FRA_GOTO: u16 = 4;
        const FRA_PRIORITY: u16 = 6;
        const FRA_FWMARK: u16 = 10;
        const FRA_FLOW: u16 = 11;
        const FRA_SUPPRESS_IFGROUP: u16 = 13;
        const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
        const FRA_TABLE: u16 = 15;
        const FRA_FWMASK: u16 = 16;
        const FRA_OIFNAME: u16 = 17;
        const FRA_PAD: u16 = 18;
        const FRA_L3MDEV: u16 = 19;
        const FRA_PROTOCOL: u16 = 21;
        /// The value of `suppress_prefixlength` and `suppress_ifgroup` that means none.
        const NONE: u32 = u32::MAX;
        match kind {
            FRA_DST => self.to = Some(value),
            FRA_IIFNAME => rule.iif = Some(text(value)),
            FRA_GOTO => self.goto = number(value),
            FRA_PRIORITY => rule.priority = number(value).unwrap_or(0),
            FRA_FWMARK => self.mark = number(value).unwrap_or(0),
            FRA_FWMASK => self.mask = number(value),
            FRA_SUPPRESS_IFGROUP => rule.suppresses_group |= number(value) != Some(NONE),
            FRA_SUPPRESS_PREFIXLEN => rule.suppresses_to = number(value).filter(|length| *length != NONE),
            FRA_TABLE => self.table = number(value).unwrap_or(self.table),
            // A forwarded packet has no output device yet.
            FRA_OIFNAME => rule.never = true,
            FRA_L3MDEV => rule.vrf |= value.first().is_some_and(|byte| *byte != 0),
            FRA_FLOW | FRA_PAD | FRA_PROTOCOL => {}
            // These are sources, ports, users, types of service, tunnels, and attributes newer than this
            // code.
            _ => rule.others = true,
        }
    }
}
