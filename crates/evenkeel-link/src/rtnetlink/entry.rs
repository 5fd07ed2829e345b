//! Entries of the kernel's tables, in our own terms.

use std::collections::BTreeSet;

use evenkeel_core::wire::{EthernetAddress, IpAddress, IpCidr};

/// An entry of one of the kernel's tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A network device.
    Link {
        /// The kernel's index of the device.
        index: u32,
        /// The name of the device.
        name: String,
        /// Whether the device belongs to a VRF, whose routes are in a table of its own.
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
    /// An address of the kernel on a device.
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
        /// The address of the neighbour.
        address: IpAddress,
        /// The hardware address, if the kernel is sure of it: entered by hand, or confirmed.
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
    /// The destinations of the route.
    pub to: IpCidr,
    /// The type of service of the route; 0 for all. Among IPv4 routes to the same prefix the highest comes
    /// first.
    pub tos: u8,
    /// Whether the route is for some sources only (source-specific routes of IPv6).
    pub from_some: bool,
    /// The metric. The lowest comes first.
    pub metric: u32,
    /// The preference of a router (RFC 4191 2.1): 0, or 1 if high, or -1 if low. IPv6 only.
    pub preference: i8,
    /// The destination that the route leads to.
    pub way: KernelWay,
    /// Whether the kernel joins the route with others of its prefix and metric, as next hops of one route
    /// (IPv6).
    pub joins: bool,
    /// A hash of everything that distinguishes the route from others of its prefix, type of service and
    /// metric, except values that change by themselves (flags, ages).
    pub identity: u64,
}

/// The destination that a route of the kernel leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelWay {
    /// Neighbours or gateways, through one of several devices. Next hops that the kernel does not use now are
    /// left out.
    Unicast(Vec<KernelHop>),
    /// The next-hop object with this number.
    Nexthop(u32),
    /// The kernel itself: local, broadcast, anycast and multicast addresses.
    Kernel,
    /// No destination. Packets are discarded without an ICMP error.
    Blackhole,
    /// No destination. Senders get an ICMP error: unreachable.
    Unreachable,
    /// No destination. Senders get an ICMP error: prohibited.
    Prohibit,
    /// The next rule after the one that selected this table.
    Throw,
    /// A destination that cannot be expressed here: tunnels that routes describe, and newer types.
    Unknown,
}

/// A next hop of a kernel route or next-hop object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelHop {
    /// The device.
    pub index: u32,
    /// The gateway; `None` if destinations are on the link. An IPv4 route may have an IPv6 gateway.
    pub gateway: Option<IpAddress>,
    /// The share of flows for this next hop, in proportion to the weights of the others.
    pub weight: u16,
}

/// A next-hop object of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelNexthop {
    /// The number of the object.
    pub id: u32,
    /// The destination that the object leads to.
    pub kind: NexthopKind,
}

/// The destination that a next-hop object leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NexthopKind {
    /// A neighbour or gateway.
    Hop {
        /// The device and gateway.
        hop: KernelHop,
        /// Whether the kernel does not use the next hop.
        dead: bool,
        /// Whether its device had no carrier when the object was made.
        linkdown: bool,
    },
    /// Any of these objects, by weight.
    Group(Vec<(u32, u16)>),
    /// No destination: packets are discarded.
    Blackhole,
    /// A destination that cannot be expressed here.
    Unknown,
}

/// A rule of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelRule {
    /// Whether the rule is for IPv6.
    pub six: bool,
    /// The place of the rule; of equal ones the older comes first.
    pub priority: u32,
    /// The destinations of the rule, if not all.
    pub to: Option<IpCidr>,
    /// The device that packets came by; [`KernelRule::others`] is set if the rule has other conditions.
    pub iif: Option<String>,
    /// Whether the rule is only for packets of devices that belong to a VRF.
    pub vrf: bool,
    /// Whether the rule cannot match a forwarded packet without a mark.
    pub never: bool,
    /// Whether the rule has conditions that a lookup by destination cannot decide: sources, ports, types of
    /// service.
    pub others: bool,
    /// Whether the rule is for packets that do *not* match.
    pub inverted: bool,
    /// The action on packets that match.
    pub action: RuleAction,
    /// The rule ignores a route to a prefix of at most this length.
    pub suppresses_to: Option<u32>,
    /// Whether the rule ignores routes by devices of a group.
    pub suppresses_group: bool,
    /// A hash of the whole rule.
    pub identity: u64,
}

/// The action of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleAction {
    /// Looks up the packet in a table.
    Table(u32),
    /// Continues with the first rule of this priority.
    Goto(u32),
    /// No action: the lookup continues with the next rule.
    Nop,
    /// Discards the packet without an ICMP error.
    Blackhole,
    /// Discards the packet and sends an ICMP error: unreachable.
    Unreachable,
    /// Discards the packet and sends an ICMP error: prohibited.
    Prohibit,
    /// An action that cannot be expressed here.
    Unknown,
}

impl KernelRule {
    /// Creates a rule that looks up all packets in a table.
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
    /// An entry exists.
    Is {
        /// The entry.
        entry: Entry,
        /// Its relation to others with the same key.
        place: Place,
    },
    /// An entry was removed.
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
