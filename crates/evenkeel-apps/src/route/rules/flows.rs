//! Decisions about flows: about all packets of TCP or UDP between two ends, whatever else their headers say.

use core::fmt;

use evenkeel::raw::screen::{Depth, FlowScope};

use super::address::Family;
use super::compiled::Compiled;
use super::evaluate::Surroundings;
use super::rule::{Action, Changes, HostSet, Hosts, Rule, RuleSet, Side};
use super::table::Table;
use super::tally::Counters;

/// The rules about flows that follow from a set of rules: they say about which flows the set decides as it does
/// about one packet.
///
/// Each rule has the conditions of its original that all packets of a flow fulfil or none. It drops if the
/// original has other conditions, or does more than decide: then the decision of the original holds for a packet
/// alone. Otherwise it passes. So the last match says whether the decision that the set makes is about the flow.
pub struct Flows {
    doubts: Compiled,
    /// The counters of the rules about flows, which nobody reads.
    tally: Counters,
    scope: FlowScope,
}

impl fmt::Debug for Flows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flows").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl Flows {
    /// Creates the rules about flows of rules that have been bound to their links.
    #[must_use]
    pub fn new(set: &RuleSet) -> Self {
        let rules = set.rules.iter().filter_map(about_flows).collect();
        let doubts = Compiled::new(RuleSet { rules, ..set.clone() });
        Self { tally: Counters::new(doubts.set()), doubts, scope: scope(set) }
    }

    /// Returns the fields of flows that the rules distinguish.
    #[must_use]
    pub const fn scope(&self) -> FlowScope {
        self.scope
    }

    /// Returns whether the decision about a packet, of a flow within the scope, holds for all packets of the flow
    /// that arrive on the interface. The tables that the surroundings show must not change.
    pub fn holds(&self, packet: &[u8], interface: u8, surroundings: &mut impl Surroundings) -> bool {
        self.doubts.decide(packet, interface, surroundings, &self.tally).action == Action::Pass
    }
}

/// Returns the rule about flows that follows from a rule; `None` if that matches no packet of a flow.
fn about_flows(rule: &Rule) -> Option<Rule> {
    if rule.fragment || !rule.icmp.is_empty() {
        return None;
    }
    // Later rules depend on it, or do not override it.
    let has_effects = rule.action == Action::Match || rule.tag.is_some() || rule.tagged.is_some();
    let is_of_packet = rule.flags.is_some()
        || rule.tos.is_some()
        || rule.less.is_some()
        || rule.greater.is_some()
        || rule.probability.is_some();
    let does_more = rule.log || !rule.changes.is_none();
    Some(Rule {
        action: if has_effects || is_of_packet || does_more { Action::Drop } else { Action::Pass },
        quick: rule.quick || has_effects,
        log: false,
        flags: None,
        tos: None,
        less: None,
        greater: None,
        probability: None,
        tag: None,
        tagged: None,
        changes: Changes::default(),
        ..rule.clone()
    })
}

fn scope(set: &RuleSet) -> FlowScope {
    let depth = |side: fn(&Rule) -> &Side| {
        let hosts = || set.rules.iter().map(|rule| &side(rule).hosts);
        let bits = |family| hosts().map(|hosts| hosts.bits(family, &set.tables)).max().unwrap_or(0);
        Depth { v4: bits(Family::V4), v6: bits(Family::V6) }
    };
    FlowScope {
        source: depth(|rule| &rule.from),
        destination: depth(|rule| &rule.to),
        source_port: set.rules.iter().any(|rule| !rule.from.ports.is_empty()),
        destination_port: set.rules.iter().any(|rule| !rule.to.ports.is_empty()),
    }
}

impl Hosts {
    /// Returns how many of the first bits of an address say whether it is one of these.
    fn bits(&self, family: Family, tables: &[Table]) -> u8 {
        let bits = |set: HostSet| match set {
            HostSet::Prefix(prefix) if prefix.family == family => prefix.length,
            HostSet::Range(range) if range.family == family => family.bits(),
            HostSet::Prefix(_) | HostSet::Range(_) => 0,
            HostSet::Table(index) => tables.get(index).map_or(0, |table| table.bits(family)),
            HostSet::Link(_) | HostSet::NoRoute | HostSet::UrpfFailed => family.bits(),
        };
        self.iter().map(|host| bits(host.set)).max().unwrap_or(0)
    }
}
