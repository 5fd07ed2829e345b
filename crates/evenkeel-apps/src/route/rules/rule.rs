//! What a rule says, and how it is written.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::names;
use super::table::Table;

/// Rules as they were read, with the tables they refer to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleSet {
    /// In the order they were defined.
    pub tables: Vec<Table>,
    /// In the order they are looked at.
    pub rules: Vec<Rule>,
}

/// One rule: which packets it is about, and what becomes of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What becomes of them.
    pub action: Action,
    /// Whether they are logged.
    pub log: bool,
    /// Whether no later rule is looked at.
    pub quick: bool,
    /// Links they came in on; any if there is none.
    pub on: Vec<On>,
    /// IPv4 or IPv6 only.
    pub family: Option<Family>,
    /// Protocol numbers above IP; any if there is none.
    pub protocols: Vec<u8>,
    /// Where they come from.
    pub from: Side,
    /// Where they go.
    pub to: Side,
    /// TCP flags.
    pub flags: Option<Flags>,
    /// ICMP or ICMPv6 types; any if there is none.
    pub icmp: Vec<Icmp>,
    /// Fragments only.
    pub fragment: bool,
    /// Bytes of the IP packet at most.
    pub less: Option<u16>,
    /// Bytes of the IP packet at least.
    pub greater: Option<u16>,
    /// A name for reports.
    pub label: Option<String>,
    /// Where it is written.
    pub line: Line,
}

/// The line that a rule begins in, counted from 1. Two rules are the same wherever they stand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Line(pub usize);

impl PartialEq for Line {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}
impl Eq for Line {}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is forwarded.
    Pass,
    /// It is dropped, and nobody is told.
    Drop,
    /// It is dropped, and its sender is told by ICMP.
    Return,
}

/// A link by name, and by number once the set is [bound](RuleSet::bind).
#[derive(Debug, Clone)]
pub struct On {
    /// As in the rules.
    pub name: String,
    /// The interface that has this name.
    pub(super) interface: Option<u8>,
    /// Where it stands in the file.
    pub(super) at: usize,
}

/// Two are the same if they are written the same.
impl PartialEq for On {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for On {}

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// `inet`
    V4,
    /// `inet6`
    V6,
}

/// One end of a packet's way: hosts and ports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Side {
    /// Addresses.
    pub hosts: Hosts,
    /// Ports of TCP and UDP; any if there is none.
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
    /// Those of one, or all others of its family.
    One {
        /// All others.
        not: bool,
        /// The one.
        host: HostSet,
    },
    /// Those of any of several.
    List(Vec<HostSet>),
}

/// What can be a list's element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostSet {
    /// The addresses of a prefix.
    Prefix(Prefix),
    /// From one address to another.
    Range(Range),
    /// The table with this place in [`RuleSet::tables`].
    Table(usize),
}

/// An address prefix. The bits after its length are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// Of what.
    pub family: Family,
    /// From 0 to 32, or to 128.
    pub length: u8,
    /// Right-aligned for IPv4.
    pub(super) bits: u128,
}

/// Addresses from one to another of the same family, both included: `10.0.0.1 - 10.0.0.9`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub(super) family: Family,
    /// Not above `last`.
    pub(super) first: u128,
    pub(super) last: u128,
}

impl Range {
    /// `None` if they are of two families, or the last one is below the first.
    pub(super) fn new(first: Address, last: Address) -> Option<Self> {
        let fits = first.family == last.family && first.bits <= last.bits;
        fits.then_some(Self { family: first.family, first: first.bits, last: last.bits })
    }

    pub(super) fn contains(&self, address: Address) -> bool {
        self.family == address.family && (self.first..=self.last).contains(&address.bits)
    }

    /// The fewest prefixes that are the same addresses, in their order: two for each bit at most.
    pub(super) fn prefixes(self) -> impl Iterator<Item = Prefix> {
        let Self { family, last, .. } = self;
        let mut next = Some(self.first);
        core::iter::from_fn(move || {
            let bits = next?;
            let prefix = |length| Prefix { family, length, bits };
            let end = |prefix: Prefix| bits | !family.mask(prefix.length);
            // The shortest one that begins here and does not go on behind the end.
            let fitting = |prefix: &Prefix| bits & family.mask(prefix.length) == bits && end(*prefix) <= last;
            let prefix = (0..=family.bits()).map(prefix).find(fitting)?;
            next = end(prefix).checked_add(1).filter(|next| *next <= last);
            Some(prefix)
        })
    }
}

/// An address as a number: that of IPv4 is right-aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) family: Family,
    pub(super) bits: u128,
}

impl Family {
    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// The bits of an address that belong to a prefix of this length.
    pub(super) fn mask(self, length: u8) -> u128 {
        let host_bits = u32::from(self.bits().saturating_sub(length));
        u128::MAX.checked_shl(host_bits).unwrap_or(0)
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self { family: Family::V4, bits: u32::from(v4).into() },
            IpAddr::V6(v6) => Self { family: Family::V6, bits: v6.into() },
        }
    }
}

impl Prefix {
    /// The prefix of an address with this length; `None` if that is longer than the address.
    pub(super) fn new(address: IpAddr, length: u8) -> Option<Self> {
        let Address { family, bits } = address.into();
        (length <= family.bits()).then(|| Self { family, length, bits: bits & family.mask(length) })
    }

    /// The only address in it, if it has but one.
    pub(super) fn address(&self) -> Option<Address> {
        let Self { family, length, bits } = *self;
        (length == family.bits()).then_some(Address { family, bits })
    }

    pub(super) fn contains(&self, address: Address) -> bool {
        self.family == address.family && address.bits & self.family.mask(self.length) == self.bits
    }

    /// `10.0.0.0/8`, or a whole address.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.parse().ok()?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            // No sign, no empty number.
            Some(digits) => digits.parse().ok().filter(|_| digits.bytes().all(|d| d.is_ascii_digit()))?,
            None => longest,
        };
        Self::new(address, length)
    }
}

/// Ports that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// This one.
    Equal(u16),
    /// All but this one.
    NotEqual(u16),
    /// Those below.
    Less(u16),
    /// It and those below.
    LessOrEqual(u16),
    /// Those above.
    Greater(u16),
    /// It and those above.
    GreaterOrEqual(u16),
    /// From one to the other, both included: `1000:2000`.
    Range(u16, u16),
    /// Between the two, neither included: `1000 >< 2000`.
    Between(u16, u16),
    /// Neither the two nor any between them: `1000 <> 2000`.
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

/// TCP flags: those of `mask` must be just those of `set`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags {
    /// Which are set.
    pub set: u8,
    /// Which are looked at.
    pub mask: u8,
}

/// An ICMP or ICMPv6 message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Icmp {
    /// Its type.
    pub kind: u8,
    /// Its code; any if not given.
    pub code: Option<u8>,
}

impl fmt::Display for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.tables {
            writeln!(f, "{table}")?;
        }
        self.rules.iter().try_for_each(|rule| writeln!(f, "{}", Shown(rule, &self.tables)))
    }
}

impl RuleSet {
    /// The rule with this number, counted from 0, as it is written.
    #[must_use]
    pub fn text(&self, rule: usize) -> Option<String> {
        Some(Shown(self.rules.get(rule)?, &self.tables).to_string())
    }
}

/// A rule, and the tables that it names.
struct Shown<'a>(&'a Rule, &'a [Table]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(rule, tables) = self;
        f.write_str(match rule.action {
            Action::Pass => "pass in",
            Action::Drop => "block drop in",
            Action::Return => "block return in",
        })?;
        if rule.log {
            f.write_str(" log")?;
        }
        if rule.quick {
            f.write_str(" quick")?;
        }
        list(f, " on ", &rule.on, |on| on.name.clone())?;
        match rule.family {
            Some(Family::V4) => f.write_str(" inet")?,
            Some(Family::V6) => f.write_str(" inet6")?,
            None => {}
        }
        list(f, " proto ", &rule.protocols, |&protocol| names::protocol(protocol))?;
        if rule.from.is_any() && rule.to.is_any() {
            f.write_str(" all")?;
        } else {
            side(f, " from ", &rule.from, tables)?;
            side(f, " to ", &rule.to, tables)?;
        }
        options(f, rule)
    }
}

fn options(f: &mut fmt::Formatter<'_>, rule: &Rule) -> fmt::Result {
    if let Some(Flags { set, mask }) = rule.flags {
        write!(f, " flags {}/{}", names::flags(set), names::flags(mask))?;
    }
    let word = if names::is_icmpv6(&rule.protocols) { " icmp6-type " } else { " icmp-type " };
    list(f, word, &rule.icmp, |icmp| match icmp.code {
        Some(code) => format!("{} code {code}", icmp.kind),
        None => icmp.kind.to_string(),
    })?;
    if rule.fragment {
        f.write_str(" fragment")?;
    }
    if let Some(bytes) = rule.less {
        write!(f, " less {bytes}")?;
    }
    if let Some(bytes) = rule.greater {
        write!(f, " greater {bytes}")?;
    }
    rule.label.as_ref().map_or(Ok(()), |label| write!(f, " label \"{label}\""))
}

fn side(f: &mut fmt::Formatter<'_>, word: &str, side: &Side, tables: &[Table]) -> fmt::Result {
    let shown = |host: &HostSet| match host {
        HostSet::Prefix(prefix) => prefix.to_string(),
        HostSet::Range(range) => range.to_string(),
        HostSet::Table(index) => {
            tables.get(*index).map_or_else(String::new, |table| format!("<{}>", table.name))
        }
    };
    match &side.hosts {
        Hosts::Any => write!(f, "{word}any")?,
        Hosts::One { not, host } => write!(f, "{word}{}{}", if *not { "!" } else { "" }, shown(host))?,
        Hosts::List(hosts) => {
            write!(f, "{word}{{ {} }}", hosts.iter().map(shown).collect::<Vec<_>>().join(", "))?;
        }
    }
    list(f, " port ", &side.ports, ToString::to_string)
}

/// Nothing for none, the one for one, and braces for more.
fn list<T>(f: &mut fmt::Formatter<'_>, word: &str, all: &[T], shown: impl Fn(&T) -> String) -> fmt::Result {
    match all {
        [] => Ok(()),
        [one] => write!(f, "{word}{}", shown(one)),
        several => write!(f, "{word}{{ {} }}", several.iter().map(shown).collect::<Vec<_>>().join(", ")),
    }
}

impl fmt::Display for Prefix {
    #[expect(clippy::cast_possible_truncation, reason = "an IPv4 address has 32 bits")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address: IpAddr = match self.family {
            Family::V4 => Ipv4Addr::from(self.bits as u32).into(),
            Family::V6 => Ipv6Addr::from(self.bits).into(),
        };
        if self.length == self.family.bits() {
            write!(f, "{address}")
        } else {
            write!(f, "{address}/{}", self.length)
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |bits| Prefix { family: self.family, length: self.family.bits(), bits };
        write!(f, "{} - {}", one(self.first), one(self.last))
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equal(p) => write!(f, "{p}"),
            Self::NotEqual(p) => write!(f, "!= {p}"),
            Self::Less(p) => write!(f, "< {p}"),
            Self::LessOrEqual(p) => write!(f, "<= {p}"),
            Self::Greater(p) => write!(f, "> {p}"),
            Self::GreaterOrEqual(p) => write!(f, ">= {p}"),
            Self::Range(a, b) => write!(f, "{a}:{b}"),
            Self::Between(a, b) => write!(f, "{a} >< {b}"),
            Self::Outside(a, b) => write!(f, "{a} <> {b}"),
        }
    }
}
