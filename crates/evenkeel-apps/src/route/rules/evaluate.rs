//! The evaluation of rules for a packet, one rule after the other.
//!
//! This code defines the meaning of rules. [`Compiled`](super::Compiled) makes equal decisions faster.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use evenkeel::raw::screen::Verdict;

use super::address::{Address, Family, Prefix};
use super::headers::{Headers, Transport};
use super::names::TCP;
use super::rule::{Action, Changes, Host, HostSet, Hosts, LinkPart, Part, Rule, RuleSet, Side};
use super::table::Table;
use super::tally::Counters;
use crate::route::text_error::TextError;
use crate::text::alternatives;

/// A decision about a packet, and the rule that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The fate of the packet.
    pub action: Action,
    /// The rule that decided, counted from 0; `None` if no rule matched, or the headers were malformed.
    pub rule: Option<usize>,
    /// The rule that requests a log entry: the one that decided, or else the last `match` rule with `log`.
    pub log: Option<usize>,
    /// Changes to the packet's header if it passes.
    pub changes: Changes,
    /// The packet's family and whether it is TCP, which determine the answer to its sender.
    kind: (Family, bool),
}

impl Decision {
    /// The decision about malformed headers.
    pub(super) const MALFORMED: Self = Self {
        action: Action::Drop,
        rule: None,
        log: None,
        changes: Changes { max_mss: None, no_df: false, min_ttl: None, tos: None },
        kind: (Family::V4, false),
    };

    /// Returns the decision as long as no rule has matched.
    pub(super) fn pass(headers: &Headers) -> Self {
        let kind = (headers.family, headers.protocol == TCP);
        Self { action: Action::Pass, rule: None, log: None, changes: Changes::default(), kind }
    }

    /// Returns what the host is to do with the packet.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        match (self.action, self.kind) {
            (Action::Pass | Action::Match, _) => Verdict::Pass,
            (Action::Return, (_, true)) | (Action::ReturnRst, (_, true)) => Verdict::Reset,
            (Action::Drop | Action::ReturnRst, _) => Verdict::Drop,
            (Action::Return, _) => Verdict::Reject,
            (Action::ReturnIcmp { v4, .. }, (Family::V4, _)) => Verdict::Unreachable(v4),
            (Action::ReturnIcmp { v6, .. }, (Family::V6, _)) => Verdict::Unreachable(v6),
        }
    }

    /// Records the decision of a rule that is not `match`. A later rule may override it.
    pub(super) fn by(&mut self, index: usize, action: Action) {
        self.action = action;
        self.rule = Some(index);
    }

    /// Adds what the deciding rule wants besides.
    pub(super) fn finish(&mut self, effect: Option<Effect>) {
        if let Some(effect) = effect {
            self.changes.add(&effect.changes);
            if effect.log {
                self.log = self.rule;
            }
        }
    }
}

/// The effect of a rule on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Effect {
    pub(super) action: Action,
    log: bool,
    changes: Changes,
}

impl Effect {
    pub(super) const fn of(rule: &Rule) -> Self {
        Self { action: rule.action, log: rule.log, changes: rule.changes }
    }
}

/// The information that rules use beyond the packet itself.
pub trait Surroundings {
    /// Returns whether a route leads to an address.
    fn is_routed(&self, address: IpAddr) -> bool;
    /// Returns whether packets to `source` would leave by the link that the packet came in on.
    fn leads_back(&self, source: IpAddr) -> bool;
    /// Returns how many links there are.
    fn interfaces(&self) -> u8;
    /// Returns the router's addresses on a link, with the lengths of their prefixes.
    fn addresses(&self, interface: u8) -> impl Iterator<Item = (IpAddr, u8)>;
    /// Returns a random number, for `probability`.
    fn random(&mut self) -> u32;
}

/// The evaluation of the rules for one packet, as far as it depends on the order of rules.
#[derive(Debug)]
pub(super) struct Course<'a, S> {
    pub(super) surroundings: &'a mut S,
    /// The packet's tag.
    tag: Option<u16>,
    pub(super) decision: Decision,
}

impl<'a, S: Surroundings> Course<'a, S> {
    pub(super) fn new(headers: &Headers, surroundings: &'a mut S) -> Self {
        Self { surroundings, tag: None, decision: Decision::pass(headers) }
    }

    /// Checks the conditions after those on the packet's headers: tags, and finally chance.
    pub(super) fn takes_part(&mut self, rule: &Rule) -> bool {
        rule.tagged.is_none_or(|tagged| (self.tag == Some(tagged.tag)) != tagged.not)
            && rule.probability.is_none_or(|probability| probability.holds(self.surroundings.random()))
    }

    /// Records the effect of a matching rule.
    pub(super) fn matched(&mut self, index: usize, rule: &Rule) {
        self.tag = rule.tag.or(self.tag);
        if rule.action != Action::Match {
            return self.decision.by(index, rule.action);
        }
        self.decision.changes.add(&rule.changes);
        if rule.log {
            self.decision.log = Some(index);
        }
    }
}

impl RuleSet {
    /// Binds the rules to interfaces. `links` are the names of the interfaces in the order of their numbers.
    ///
    /// # Errors
    /// The first rule that names another link.
    pub fn bind(&mut self, links: &[&str]) -> Result<(), TextError> {
        let sources = &self.sources;
        let number = |name: &str, at: usize, remark: &str| {
            let index = links.iter().position(|link| *link == name);
            index.and_then(|index| u8::try_from(index).ok()).ok_or_else(|| {
                let there = alternatives(links.iter().copied());
                sources.error_at(at, format!("no link is called `{name}`: there is {there}{remark}"))
            })
        };
        let on = self.rules.iter_mut().flat_map(|rule| rule.on.iter_mut().chain(&mut rule.received));
        for on in on.filter(|on| !on.name.is_empty()) {
            on.interface = Some(number(&on.name, on.at, "")?);
        }
        // Forwarded packets never use loopback.
        self.skip.retain(|on| links.contains(&on.name.as_str()) || !matches!(&*on.name, "lo" | "lo0"));
        for on in &mut self.skip {
            on.interface = Some(number(&on.name, on.at, "")?);
        }
        for link in &mut self.links {
            let remark = " (names of hosts are not looked up: write their addresses)";
            let remark = if link.name.contains('.') { remark } else { "" };
            link.interface = Some(number(&link.name, link.at, remark)?);
        }
        self.sources.forget();
        Ok(())
    }

    /// Decides about a packet, from its IP header on, that arrived on an interface, by comparing it with each
    /// rule in turn. The last rule that matches decides, or the first one with `quick`; without any it
    /// passes.
    pub fn decide(
        &self,
        packet: &[u8],
        interface: u8,
        surroundings: &mut impl Surroundings,
        tally: &Counters,
    ) -> Decision {
        let Ok(headers) = Headers::read(packet) else {
            tally.count_malformed();
            return Decision::MALFORMED;
        };
        if self.skips(interface) {
            tally.count_skipped();
            return Decision::pass(&headers);
        }
        let mut course = Course::new(&headers, surroundings);
        for (index, rule) in self.rules.iter().enumerate() {
            if rule.matches(&headers, interface, self, course.surroundings) && course.takes_part(rule) {
                course.matched(index, rule);
                if rule.action == Action::Match {
                    tally.count_match(index, headers.length);
                }
                if rule.quick {
                    break;
                }
            }
        }
        let decided = course.decision.rule.and_then(|index| self.rules.get(index));
        course.decision.finish(decided.map(Effect::of));
        tally.count_packet(course.decision.rule, headers.length);
        course.decision
    }

    pub(in crate::route) fn skips(&self, interface: u8) -> bool {
        self.skip.iter().any(|on| on.is(interface))
    }
}

impl Rule {
    /// Returns whether the rule is about packets with these headers from this interface.
    pub(super) fn matches(
        &self,
        headers: &Headers,
        interface: u8,
        set: &RuleSet,
        surroundings: &impl Surroundings,
    ) -> bool {
        self.is_on(interface)
            && self.family.is_none_or(|family| family == headers.family)
            && (self.protocols.is_empty() || self.protocols.contains(&headers.protocol))
            && (!self.fragment || headers.fragment)
            && self.tos.is_none_or(|tos| tos.is(headers.tos))
            && self.less.is_none_or(|bytes| headers.length <= bytes)
            && self.greater.is_none_or(|bytes| headers.length >= bytes)
            && self.matches_transport(headers)
            && self.from.hosts.contains(headers.source, set, surroundings)
            && self.to.hosts.contains(headers.destination, set, surroundings)
    }

    pub(super) fn is_on(&self, interface: u8) -> bool {
        (self.on.is_empty() || self.on.iter().any(|on| on.is(interface)))
            && self.received.as_ref().is_none_or(|on| on.is(interface))
    }

    /// Returns whether the fields above IP match. A fragment that is not the first has no ports, no flags and
    /// no type, so a rule with such conditions does not match it, as in pf.
    fn matches_transport(&self, headers: &Headers) -> bool {
        let Upper { source, destination, flags, icmp } = headers.upper();
        let has_port = |side: &Side, port: Option<u16>| {
            side.ports.is_empty()
                || port.is_some_and(|port| side.ports.iter().any(|ports| ports.contains(port)))
        };
        has_port(&self.from, source)
            && has_port(&self.to, destination)
            && self.flags.is_none_or(|wanted| flags.is_some_and(|flags| wanted.are(flags)))
            && (self.icmp.is_empty()
                || icmp.is_some_and(|(kind, code)| {
                    self.icmp.iter().any(|icmp| icmp.kind == kind && icmp.code.is_none_or(|c| c == code))
                }))
    }
}

/// The fields above IP that rules compare; `None` for a field that the packet does not have.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Upper {
    pub(super) source: Option<u16>,
    pub(super) destination: Option<u16>,
    /// The flags of TCP.
    pub(super) flags: Option<u8>,
    /// The type and code of ICMP.
    pub(super) icmp: Option<(u8, u8)>,
}

impl Headers {
    /// Returns what rules look at above IP.
    pub(super) fn upper(&self) -> Upper {
        match self.transport {
            Some(Transport::Ports { source, destination, flags }) => {
                let flags = (self.protocol == TCP).then_some(flags);
                Upper { source: Some(source), destination: Some(destination), flags, icmp: None }
            }
            Some(Transport::Icmp { kind, code }) => Upper { icmp: Some((kind, code)), ..Upper::default() },
            Some(Transport::Other) | None => Upper::default(),
        }
    }
}

impl Hosts {
    fn contains(&self, address: Address, set: &RuleSet, surroundings: &impl Surroundings) -> bool {
        match self {
            Self::Any => true,
            Self::One(host) => host.contains(address, set, surroundings),
            Self::List(all) => all.iter().any(|host| host.contains(address, set, surroundings)),
        }
    }
}

impl Host {
    fn contains(&self, address: Address, set: &RuleSet, surroundings: &impl Surroundings) -> bool {
        let family = match self.set {
            HostSet::Prefix(prefix) => prefix.family,
            HostSet::Range(range) => range.family,
            _ => address.family,
        };
        // "Not 10.0.0.0/8" matches only IPv4, as in pf.
        family == address.family && self.set.contains(address, set, surroundings) != self.not
    }
}

impl HostSet {
    pub(super) fn contains(self, address: Address, set: &RuleSet, surroundings: &impl Surroundings) -> bool {
        match self {
            Self::Prefix(prefix) => prefix.contains(address),
            Self::Range(range) => range.contains(address),
            Self::Table(index) => set.tables.get(index).is_some_and(|table: &Table| table.contains(address)),
            Self::Link(part) => part.contains(address.into(), set, surroundings),
            Self::NoRoute => !surroundings.is_routed(address.into()),
            Self::UrpfFailed => !surroundings.leads_back(address.into()),
        }
    }
}

impl LinkPart {
    fn contains(&self, address: IpAddr, set: &RuleSet, surroundings: &impl Surroundings) -> bool {
        let on = |interface: u8| {
            let of_family = |own: &(IpAddr, u8)| own.0.is_ipv4() == address.is_ipv4();
            let own = surroundings.addresses(interface).filter(of_family);
            let count = if self.first { 1 } else { usize::MAX };
            own.take(count).any(|(own, length)| self.part.contains(own, length, address))
        };
        match self.link {
            None => (0..surroundings.interfaces()).any(on),
            Some(link) => set.links.get(link).and_then(|link| link.interface).is_some_and(on),
        }
    }
}

impl Part {
    /// Returns whether `address` belongs to this part of a network with prefix length `length`, in which
    /// the router has the address `own`.
    fn contains(self, own: IpAddr, length: u8, address: IpAddr) -> bool {
        match (self, own, address) {
            (Self::Own, own, address) => own == address,
            (Self::Network, own, address) => {
                let prefix = Prefix::new(own, length);
                prefix.is_some_and(|prefix| prefix.contains(address.into()))
            }
            (Self::Broadcast, IpAddr::V4(own), IpAddr::V4(address)) => {
                let hosts = u32::MAX.checked_shr(length.into()).unwrap_or(0);
                // Networks of one or two addresses have no broadcast address (RFC 3021).
                length < 31 && address == Ipv4Addr::from(u32::from(own) | hosts)
            }
            (Self::Broadcast, ..) => false,
        }
    }
}

impl From<Address> for IpAddr {
    #[expect(clippy::cast_possible_truncation, reason = "an IPv4 address has 32 bits")]
    fn from(address: Address) -> Self {
        match address.family {
            Family::V4 => Ipv4Addr::from(address.bits as u32).into(),
            Family::V6 => Ipv6Addr::from(address.bits).into(),
        }
    }
}
