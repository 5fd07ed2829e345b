//! The contents of a rule.

use super::address::{Family, Prefix, Range};
use super::source::Sources;
use super::table::Table;

/// A set of rules, with the tables they refer to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleSet {
    /// The tables, in the order of their definition.
    pub tables: Vec<Table>,
    /// The rules, in the order of their evaluation.
    pub rules: Vec<Rule>,
    /// Links whose packets are not evaluated (`set skip on`).
    pub skip: Vec<On>,
    /// Links whose addresses rules name.
    pub links: Vec<LinkName>,
    /// Names of tags.
    pub tags: Vec<String>,
    /// Remarks about text that is accepted, but probably does not do what the user intended.
    pub notes: Notes,
    /// The texts that the rules come from.
    pub(super) sources: Sources,
}

/// Remarks, each with its place. They do not count when two sets of rules are compared.
#[derive(Debug, Clone, Default)]
pub struct Notes(pub Vec<String>);

impl PartialEq for Notes {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}
impl Eq for Notes {}

/// One rule: the packets it matches, and its effect on them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The fate of the packets.
    pub action: Action,
    /// Whether they are logged.
    pub log: bool,
    /// Whether no later rule is evaluated.
    pub quick: bool,
    /// The links that the packets arrived on, any of these; every link if empty.
    pub on: Vec<On>,
    /// The link that the packets arrived on (`received-on`).
    pub received: Option<On>,
    /// IPv4 or IPv6 only.
    pub family: Option<Family>,
    /// Protocol numbers above IP; any if empty.
    pub protocols: Vec<u8>,
    /// The source addresses and ports of the packets.
    pub from: Side,
    /// The destination addresses and ports of the packets.
    pub to: Side,
    /// TCP flags.
    pub flags: Option<Flags>,
    /// ICMP or ICMPv6 types; any if empty.
    pub icmp: Vec<Icmp>,
    /// Whether the rule matches only fragments.
    pub fragment: bool,
    /// The byte of the IP header that was called type of service.
    pub tos: Option<Tos>,
    /// The most bytes of the IP packet.
    pub less: Option<u16>,
    /// The least bytes of the IP packet.
    pub greater: Option<u16>,
    /// The tag that a packet must have, or must not have.
    pub tagged: Option<Tagged>,
    /// The chance that the rule matches.
    pub probability: Option<Probability>,
    /// The tag that the rule gives to a matching packet, by its place in [`RuleSet::tags`].
    pub tag: Option<u16>,
    /// Changes to the header of a packet that passes.
    pub changes: Changes,
    /// A name for reports.
    pub label: Option<String>,
    /// The line in which the rule begins.
    pub line: Line,
}

/// The line that a rule begins in. Lines do not count when two rules are compared.
#[derive(Debug, Clone, Copy, Default)]
pub struct Line {
    /// The file, by its place in the order of their reading.
    pub(super) file: usize,
    /// The line, counted from 1.
    pub number: usize,
}

impl PartialEq for Line {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}
impl Eq for Line {}

/// The fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Action {
    /// The packet is forwarded.
    #[default]
    Pass,
    /// The rule changes tags, logging and headers only; other rules decide about the packet.
    Match,
    /// The packet is dropped silently.
    Drop,
    /// The packet is dropped. The sender gets a TCP reset, or an ICMP message that it is prohibited.
    Return,
    /// The packet is dropped. The sender of a TCP segment gets a reset.
    ReturnRst,
    /// The packet is dropped. Its sender gets an ICMP message that the destination is unreachable, with
    /// these codes.
    ReturnIcmp {
        /// The code of ICMP.
        v4: u8,
        /// The code of ICMPv6.
        v6: u8,
    },
}

/// A link by name, and by number once the set is [bound](RuleSet::bind).
#[derive(Debug, Clone)]
pub struct On {
    /// The name as in the rules; empty for `any`.
    pub name: String,
    /// Whether all other links are meant.
    pub not: bool,
    /// The interface that has this name.
    pub(super) interface: Option<u8>,
    /// The position of the name in the texts, in bytes.
    pub(super) at: usize,
}

/// Two values are equal if their texts are.
impl PartialEq for On {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.not) == (&other.name, other.not)
    }
}
impl Eq for On {}

impl On {
    /// Returns whether this condition holds for a packet that came in on an interface.
    pub(super) fn is(&self, interface: u8) -> bool {
        match (self.name.as_str(), self.interface) {
            ("", _) => !self.not,
            // The link is not bound, so nothing is known about it.
            (_, None) => false,
            (_, Some(own)) => (own == interface) != self.not,
        }
    }
}

/// A link whose addresses rules name.
#[derive(Debug, Clone)]
pub struct LinkName {
    /// The name as in the rules.
    pub name: String,
    /// The interface that has this name, once the set is [bound](RuleSet::bind).
    pub(super) interface: Option<u8>,
    /// The position of its first use in the texts, in bytes.
    pub(super) at: usize,
}

impl PartialEq for LinkName {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for LinkName {}

/// The source or the destination of packets: hosts and ports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Side {
    /// Addresses.
    pub hosts: Hosts,
    /// Ports of TCP and UDP; any if empty.
    pub ports: Vec<Ports>,
}

impl Side {
    pub(super) fn is_any(&self) -> bool {
        self.hosts == Hosts::Any && self.ports.is_empty()
    }
}

/// A set of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Hosts {
    /// Every address.
    #[default]
    Any,
    /// The addresses of one set, or all others of its family.
    One(Host),
    /// The addresses that are in any of several sets.
    List(Vec<Host>),
}

/// A set of addresses, or all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Host {
    /// Whether all other addresses are meant.
    pub not: bool,
    /// The set.
    pub set: HostSet,
}

/// A set of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostSet {
    /// The addresses of a prefix.
    Prefix(Prefix),
    /// A range of addresses.
    Range(Range),
    /// The table with this place in [`RuleSet::tables`].
    Table(usize),
    /// The current addresses of the router's links.
    Link(LinkPart),
    /// Addresses to which no route leads.
    NoRoute,
    /// Sources whose packets would not leave by the link that they arrived on.
    UrpfFailed,
}

/// A part of the addresses of a link: `wan`, `wan:network`, `self`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkPart {
    /// The link, by its place in [`RuleSet::links`]; `None` for all links (`self`).
    pub link: Option<usize>,
    /// The part of the link's addresses.
    pub part: Part,
    /// Whether only the link's first address of each family counts (`:0`).
    pub first: bool,
}

/// The part of a link's addresses that a rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The router's own addresses.
    Own,
    /// The addresses of the networks on the link (`:network`).
    Network,
    /// The directed broadcast addresses of these (`:broadcast`).
    Broadcast,
}

/// A type of service that a packet must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tos(pub u8);

impl Tos {
    /// Returns whether `byte` of a packet has this value. The two bits of ECN count only if the rule asks
    /// for them (RFC 3168 5).
    pub(super) const fn is(self, byte: u8) -> bool {
        let mask = if self.0 & 3 == 0 { !3 } else { 0xff };
        byte & mask == self.0
    }
}

/// A tag that a packet must have, or must not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tagged {
    /// Whether the packet must not have the tag.
    pub not: bool,
    /// The place in [`RuleSet::tags`].
    pub tag: u16,
}

/// A probability, in parts of a thousand million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Probability(pub u32);

impl Probability {
    /// The probability of a rule that always applies.
    pub const ONE: u32 = 1_000_000_000;

    /// Returns whether the rule applies for this random number.
    pub(super) fn holds(self, random: u32) -> bool {
        (u64::from(random) * u64::from(Self::ONE)) >> 32 < u64::from(self.0)
    }
}

/// Changes to the headers of a packet (`scrub`, `set tos`). A later rule overrides the changes of an earlier
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Changes {
    /// The largest segment that a TCP SYN may offer.
    pub max_mss: Option<u16>,
    /// Whether the bit that forbids fragmentation is cleared (IPv4).
    pub no_df: bool,
    /// The least time to live.
    pub min_ttl: Option<u8>,
    /// The type of service.
    pub tos: Option<u8>,
}

impl Changes {
    /// Adds those of a later rule.
    pub(super) fn add(&mut self, later: &Self) {
        self.max_mss = later.max_mss.or(self.max_mss);
        self.no_df |= later.no_df;
        self.min_ttl = later.min_ttl.or(self.min_ttl);
        self.tos = later.tos.or(self.tos);
    }
}

/// A condition on a port number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// This port.
    Equal(u16),
    /// All ports except this one.
    NotEqual(u16),
    /// The ports below this one.
    Less(u16),
    /// This port and those below.
    LessOrEqual(u16),
    /// The ports above this one.
    Greater(u16),
    /// This port and those above.
    GreaterOrEqual(u16),
    /// The ports from the first to the second, both included: `1000:2000`.
    Range(u16, u16),
    /// The ports between the two, neither included: `1000 >< 2000`.
    Between(u16, u16),
    /// All ports except the two and those between them: `1000 <> 2000`.
    Outside(u16, u16),
}

impl Ports {
    pub(super) fn contains(self, port: u16) -> bool {
        match self {
            Self::Equal(p) => port == p,
            Self::NotEqual(p) => port != p,
            Self::Less(p) => port < p,
            Self::LessOrEqual(p) => port <= p,
            Self::Greater(p) => port > p,
            Self::GreaterOrEqual(p) => port >= p,
            Self::Range(a, b) => (a..=b).contains(&port),
            Self::Between(a, b) => a < port && port < b,
            Self::Outside(a, b) => port < a || port > b,
        }
    }
}

/// A condition on TCP flags: within `mask`, exactly the flags of `set` are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flags {
    /// The flags of the mask that are set; the others of the mask are not.
    pub set: u8,
    /// The flags that the rule compares.
    pub mask: u8,
}

/// An ICMP or ICMPv6 message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Icmp {
    /// The type of the message.
    pub kind: u8,
    /// The code of the message; any if not given.
    pub code: Option<u8>,
}

impl Flags {
    /// Returns whether a segment with `flags` fulfils the condition; only the bits of the mask count.
    pub(super) const fn are(self, flags: u8) -> bool {
        flags & self.mask == self.set
    }
}

impl Hosts {
    /// Returns the sets that it is the union of; none for `any`.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Host> {
        match self {
            Self::Any => &[],
            Self::One(host) => core::slice::from_ref(host),
            Self::List(all) => &all[..],
        }
        .iter()
    }
}

impl Ports {
    /// Returns the ports that match.
    pub(super) fn spans(self) -> impl Iterator<Item = (u16, u16)> {
        let below = |port: u16| port.checked_sub(1).map(|last| (0, last));
        let above = |port: u16| port.checked_add(1).map(|first| (first, u16::MAX));
        let between = |first: u16, last: u16| (first <= last).then_some((first, last));
        let spans = match self {
            Self::Equal(p) => [Some((p, p)), None],
            Self::NotEqual(p) => [below(p), above(p)],
            Self::Less(p) => [below(p), None],
            Self::LessOrEqual(p) => [Some((0, p)), None],
            Self::Greater(p) => [above(p), None],
            Self::GreaterOrEqual(p) => [Some((p, u16::MAX)), None],
            Self::Range(a, b) => [between(a, b), None],
            Self::Between(a, b) => {
                [a.checked_add(1).zip(b.checked_sub(1)).and_then(|(a, b)| between(a, b)), None]
            }
            Self::Outside(a, b) => [below(a), above(b)],
        };
        spans.into_iter().flatten()
    }
}
