//! Which rule decides about a packet. Nothing here allocates.

use super::headers::{Headers, Malformed, Transport};
use super::rule::{Action, Address, HostSet, Hosts, Rule, RuleSet, Side};
use super::table::Table;
use super::tally::Tally;
use crate::route::text_error::{TextError, alternatives};

/// What was decided about a packet, and by which rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// What becomes of it.
    pub action: Action,
    /// The rule that decided, counted from 0; `None` if no rule matched, or none could be asked because of
    /// malformed headers.
    pub rule: Option<usize>,
    /// Whether it is to be logged.
    pub log: bool,
}

impl Decision {
    /// No rule matched.
    const PASS: Self = Self { action: Action::Pass, rule: None, log: false };
    /// Headers that no rule can be asked about.
    const MALFORMED: Self = Self { action: Action::Drop, rule: None, log: false };
}

impl RuleSet {
    /// Says which interfaces the rules' links are: their names, in the order of their numbers.
    ///
    /// # Errors
    /// The first rule that names another one.
    pub fn bind(&mut self, links: &[&str], file: &str, text: &str) -> Result<(), TextError> {
        for on in self.rules.iter_mut().flat_map(|rule| &mut rule.on) {
            let index =
                links.iter().position(|link| *link == on.name).and_then(|index| u8::try_from(index).ok());
            if index.is_none() {
                let what = format!(
                    "no link is called `{}`: there is {}",
                    on.name,
                    alternatives(links.iter().copied())
                );
                return Err(TextError::at(file, text, on.at, what));
            }
            on.interface = index;
        }
        Ok(())
    }

    /// Decides about a packet, from its IP header on, that came in on an interface. The last rule that
    /// matches decides, or the first one with `quick`; without any it passes.
    ///
    /// A packet whose headers are malformed, or cut off before what rules may look at, is dropped.
    pub fn decide(&self, packet: &[u8], interface: u8, tally: &Tally) -> Decision {
        let headers = match Headers::read(packet) {
            Ok(headers) => headers,
            Err(Malformed) => {
                tally.count_malformed();
                return Decision::MALFORMED;
            }
        };
        let mut decision = Decision::PASS;
        for (index, rule) in self.rules.iter().enumerate() {
            tally.count_evaluation(index);
            if rule.matches(&headers, interface, &self.tables) {
                decision = Decision { action: rule.action, rule: Some(index), log: rule.log };
                if rule.quick {
                    break;
                }
            }
        }
        tally.count_packet(decision.rule, headers.length);
        decision
    }
}

impl Rule {
    fn matches(&self, headers: &Headers, interface: u8, tables: &[Table]) -> bool {
        (self.on.is_empty() || self.on.iter().any(|on| on.interface == Some(interface)))
            && self.family.is_none_or(|family| family == headers.family)
            && (self.protocols.is_empty() || self.protocols.contains(&headers.protocol))
            && (!self.fragment || headers.fragment)
            && self.less.is_none_or(|bytes| headers.length <= bytes)
            && self.greater.is_none_or(|bytes| headers.length >= bytes)
            && self.from.hosts.contains(headers.source, tables)
            && self.to.hosts.contains(headers.destination, tables)
            && self.matches_transport(headers)
    }

    /// A fragment that is not the first has no ports, no flags and no type: a rule that asks for them is not
    /// about it, as in pf.
    fn matches_transport(&self, headers: &Headers) -> bool {
        let wanted = !self.from.ports.is_empty()
            || !self.to.ports.is_empty()
            || self.flags.is_some()
            || !self.icmp.is_empty();
        match headers.transport {
            _ if !wanted => true,
            Some(Transport::Ports { source, destination, flags }) => {
                self.from.has_port(source)
                    && self.to.has_port(destination)
                    && self.flags.is_none_or(|wanted| flags & wanted.mask == wanted.set)
            }
            Some(Transport::Icmp { kind, code }) => {
                self.icmp.iter().any(|icmp| icmp.kind == kind && icmp.code.is_none_or(|c| c == code))
            }
            Some(Transport::Other) | None => false,
        }
    }
}

impl Side {
    fn has_port(&self, port: u16) -> bool {
        self.ports.is_empty() || self.ports.iter().any(|ports| ports.contains(port))
    }
}

impl Hosts {
    fn contains(&self, address: Address, tables: &[Table]) -> bool {
        match self {
            Self::Any => true,
            // "Not 10.0.0.0/8" is about IPv4, as in pf.
            Self::One { not: true, host: HostSet::Prefix(prefix) } => {
                prefix.family == address.family && !prefix.contains(address)
            }
            Self::One { not: true, host: HostSet::Range(range) } => {
                range.family == address.family && !range.contains(address)
            }
            Self::One { not, host } => host.contains(address, tables) != *not,
            Self::List(all) => all.iter().any(|host| host.contains(address, tables)),
        }
    }
}

impl HostSet {
    fn contains(&self, address: Address, tables: &[Table]) -> bool {
        match self {
            Self::Prefix(prefix) => prefix.contains(address),
            Self::Range(range) => range.contains(address),
            Self::Table(index) => tables.get(*index).is_some_and(|table| table.contains(address)),
        }
    }
}
