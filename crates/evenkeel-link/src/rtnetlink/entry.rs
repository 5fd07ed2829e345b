//! Entries of the kernel's tables, in our own terms.

use std::collections::BTreeSet;

use evenkeel_core::wire::{EthernetAddress, IpAddress, IpCidr};

/// An entry of one of the kernel's tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A network device.
    Link {
        /// The kernel's number for it.
        index: u32,
        /// Its name.
        name: String,
        /// Whether it belongs to a VRF, whose routes are in a table of its own.
        in_vrf: bool,
    },
    /// The setting that takes next hops of a device without carrier out of use
    /// (`ignore_routes_with_linkdown`).
    IgnoresLinkdown {
        /// Whether this is the setting for IPv6.
        six: bool,
        /// The device; [`ALL_LINKS`] for all of them.
        index: u32,
        /// The setting.
        ignores: bool,
    },
    /// An address of the kernel's on a device.
    Address {
        /// The device.
        index: u32,
        /// The address and the prefix that is on its link.
        address: IpCidr,
    },
    /// A next-hop object (`ip nexthop`), to which routes refer by number.
    Nexthop(KernelNexthop),
    /// A rule that selects a table (`ip rule`).
    Rule(KernelRule),
    /// A route of any table.
    Route(KernelRoute),
    /// A neighbour.
    Neighbor {
        /// The device.
        index: u32,
        /// Its address.
        address: IpAddress,
        /// Its hardware address, if the kernel is sure of it: entered by hand, or confirmed.
        hardware: Option<EthernetAddress>,
    },
}

/// The number that stands for all devices in [`Entry::IgnoresLinkdown`] (`NETCONFA_IFINDEX_ALL`).
pub const ALL_LINKS: u32 = u32::MAX;

/// A route of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelRoute {
    /// The table it is in.
    pub table: u32,
    /// Destinations.
    pub to: IpCidr,
    /// The type of service that it is for; 0 for all. Among IPv4 routes to the same prefix the highest comes
    /// first.
    pub tos: u8,
    /// Whether it is for some sources only (source-specific routes of IPv6).
    pub from_some: bool,
    /// The metric. The lowest comes first.
    pub metric: u32,
    /// The preference of a router (RFC 4191 2.1): 0, or 1 if high, or -1 if low. Of IPv6 only.
    pub preference: i8,
    /// The destination that the route leads to.
    pub way: KernelWay,
    /// Whether the kernel joins it with others of its prefix and metric, as next hops of one route (IPv6).
    pub joins: bool,
    /// A hash of everything that distinguishes it from others of its prefix, type of service and metric, but
    /// not of what changes by itself (flags, ages).
    pub identity: u64,
}

/// The destination that a route of the kernel leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelWay {
    /// To neighbours or gateways, through any of several devices. Next hops that the kernel does not use
    /// now are left out.
    Unicast(Vec<KernelHop>),
    /// To the next-hop object with this number.
    Nexthop(u32),
    /// To the kernel itself: local, broadcast, anycast and multicast addresses.
    Kernel,
    /// Nowhere. Packets are discarded without an ICMP error.
    Blackhole,
    /// Nowhere. Senders get an ICMP error: unreachable.
    Unreachable,
    /// Nowhere. Senders get an ICMP error: prohibited.
    Prohibit,
    /// To the rule behind the one that selected this table.
    Throw,
    /// To a place that cannot be expressed here: tunnels that routes describe, types that are newer.
    Unknown,
}

/// A next hop of a kernel route or next-hop object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelHop {
    /// The device.
    pub index: u32,
    /// The gateway; `None` if destinations are on the link. That of an IPv4 route may be of IPv6.
    pub gateway: Option<IpAddress>,
    /// The share of flows for this next hop, in proportion to the weights of the others.
    pub weight: u16,
}

/// A next-hop object of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelNexthop {
    /// Its number.
    pub id: u32,
    /// The destination that the object leads to.
    pub kind: NexthopKind,
}

/// The destination that a next-hop object leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NexthopKind {
    /// To a neighbour or gateway.
    Hop {
        /// The device and gateway.
        hop: KernelHop,
        /// Whether the kernel does not use it.
        dead: bool,
        /// Whether its device had no carrier when it was made.
        linkdown: bool,
    },
    /// To any of these objects, by weight.
    Group(Vec<(u32, u16)>),
    /// Nowhere.
    Blackhole,
    /// To a place that cannot be expressed here.
    Unknown,
}

/// A rule of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelRule {
    /// Whether it is for IPv6.
    pub six: bool,
    /// Its place; of equal ones the older comes first.
    pub priority: u32,
    /// The destinations it is for, if not all.
    pub to: Option<IpCidr>,
    /// The device that packets came by; by [`KernelRule::others`] if it has other conditions.
    pub iif: Option<String>,
    /// Whether it is only for packets of devices that belong to a VRF.
    pub vrf: bool,
    /// Whether it cannot match a packet that is forwarded and has no mark.
    pub never: bool,
    /// Whether it has conditions that a lookup by destination cannot decide: sources, ports, types of
    /// service.
    pub others: bool,
    /// Whether it is for what does *not* match.
    pub inverted: bool,
    /// The action on packets that match.
    pub action: RuleAction,
    /// A route to a prefix of at most this length does not count.
    pub suppresses_to: Option<u32>,
    /// Whether routes by devices of a group do not count.
    pub suppresses_group: bool,
    /// A hash of all of it.
    pub identity: u64,
}

/// The action of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleAction {
    /// Looks into a table.
    Table(u32),
    /// Goes on with the first rule of this priority.
    Goto(u32),
    /// No action: the lookup goes on with the next rule.
    Nop,
    /// Discards the packet without an ICMP error.
    Blackhole,
    /// Discards the packet and tells its sender that the destination is unreachable.
    Unreachable,
    /// Discards the packet and tells its sender that it is prohibited.
    Prohibit,
    /// Something that cannot be expressed here.
    Unknown,
}

impl KernelRule {
    /// Creates a rule that has all packets looked up in a table.
    #[must_use]
    pub const fn table(six: bool, priority: u32, table: u32) -> Self {
        Self {
            six,
            priority,
            to: None,
            iif: None,
            vrf: false,
            never: false,
            others: false,
            inverted: false,
            action: RuleAction::Table(table),
            suppresses_to: None,
            suppresses_group: false,
            identity: 0,
        }
    }

    /// Returns whether the rule itself decides about a packet, without a route from any table.
    #[must_use]
    pub const fn discards(&self) -> bool {
        !matches!(self.action, RuleAction::Table(_) | RuleAction::Goto(_) | RuleAction::Nop)
    }

    /// Returns whether the rule's only effect is to look up every packet in a table.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let plain = Self { action: self.action, ..Self::table(self.six, self.priority, 0) };
        matches!(self.action, RuleAction::Table(_)) && Self { identity: 0, ..self.clone() } == plain
    }
}

/// A message of the kernel's tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A listing of all tables begins.
    Begins,
    /// The listing is complete. Entries not listed since [`News::Begins`] do not exist any more.
    Complete,
    /// An entry is there.
    Is {
        /// The entry.
        entry: Entry,
        /// Its relation to others with the same key.
        place: Place,
    },
    /// An entry is gone.
    Gone(Entry),
    /// A message that could not be read.
    Unreadable,
}

/// The relation of an entry to others with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The entry was listed, behind those of its key that were listed before it.
    Listed,
    /// The entry is new, and stands before the others.
    First,
    /// The entry is new, and stands behind the others.
    Last,
    /// The entry takes the place of the first one.
    Replaces,
}

/// Devices that were announced with a carrier.
pub(super) type Up = BTreeSet<u32>;
