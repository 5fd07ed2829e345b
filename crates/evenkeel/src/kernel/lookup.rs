//! The kernel's decision about packets to a prefix, as far as it follows from the destination alone.

use evenkeel_core::stack::{InterfaceId, Multipath, NextHop, Via};
use evenkeel_core::wire::IpCidr;
use evenkeel_link::{ALL_LINKS, KernelHop, KernelRule, KernelWay, NexthopKind, RuleAction};

use super::decision::{DEFAULT, Decision, Found, Kind, LOCAL, MAIN};
use super::fib::Fib;
use super::table::{OneRoute, is_six};

/// The result of a look-up in a table.
enum Said {
    /// The table has no route; the next rule decides.
    Nothing,
    /// A throw route to a prefix of this length passes the decision to the next rule.
    Thrown(u8),
    Found(Found),
}

/// The extent to which a rule applies to packets to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matches {
    No,
    Yes,
    /// The rule applies to some packets to this destination.
    Some,
}

impl Fib {
    /// Returns the kernel's decision for all addresses of `to` for which it has no longer prefix.
    pub(super) fn decide(&self, to: IpCidr) -> Option<Found> {
        let rules = self.rules(is_six(&to));
        let found = self.by_rules(rules, 0, to);
        // If IPv4 has never had other rules than these, the kernel looks into the first two tables at once,
        // and into the last one even if a route discards. Whether IPv4 ever had others cannot be seen.
        let is_default = !is_six(&to)
            && rules.iter().map(|rule| rule.action).eq([LOCAL, MAIN, DEFAULT].map(RuleAction::Table))
            && rules.iter().all(KernelRule::is_plain);
        if !is_default {
            return found;
        }
        let at_once = self.at_once(to);
        if found == at_once { found } else { closed(found.or(at_once).map_or(0, |found| found.length)) }
    }

    fn by_rules(&self, rules: &[KernelRule], from: usize, to: IpCidr) -> Option<Found> {
        for (place, rule) in rules.iter().enumerate().skip(from) {
            let matches = self.matches(rule, to);
            if matches == Matches::No {
                continue;
            }
            let found = match rule.action {
                RuleAction::Nop => None,
                RuleAction::Goto(priority) => {
                    let target = rules.iter().position(|rule| rule.priority == priority);
                    let Some(target) = target.filter(|target| *target > place) else { continue };
                    let found = self.by_rules(rules, target, to);
                    if matches == Matches::Yes {
                        return found;
                    }
                    let other = self.by_rules(rules, place + 1, to);
                    return either(found, other);
                }
                RuleAction::Table(table) => match self.by_table(table, to) {
                    Said::Found(found) if !suppressed(rule, &found) => Some(found),
                    Said::Found(_) | Said::Thrown(_) | Said::Nothing => None,
                },
                RuleAction::Blackhole => discards(rule, Via::Blackhole),
                RuleAction::Unreachable => discards(rule, Via::Unreachable),
                RuleAction::Prohibit => discards(rule, Via::Prohibit),
                RuleAction::Unknown => closed(0),
            };
            let Some(found) = found else { continue };
            let found = if rule.suppresses_group { closed(found.length) } else { Some(found) };
            if matches == Matches::Yes {
                return found;
            }
            return either(found, self.by_rules(rules, place + 1, to));
        }
        None
    }

    /// Returns the decision that the kernel makes without rules.
    fn at_once(&self, to: IpCidr) -> Option<Found> {
        let length = |said: &Said| match said {
            Said::Nothing => None,
            Said::Thrown(length) => Some(*length),
            Said::Found(found) => Some(found.length),
        };
        let (local, main, last) =
            (self.by_table(LOCAL, to), self.by_table(MAIN, to), self.by_table(DEFAULT, to));
        let first = if length(&local) >= length(&main) { local } else { main };
        match (first, last) {
            (Said::Found(found), Said::Found(_)) if found.decision.kind == Kind::Discards => {
                closed(found.length)
            }
            (Said::Found(found), _) | (_, Said::Found(found)) => Some(found),
            _ => None,
        }
    }

    fn matches(&self, rule: &KernelRule, to: IpCidr) -> Matches {
        let lies_outside = rule.to.is_some_and(|prefix| !prefix.contains_subnet(&to));
        let by_none = rule.iif.as_ref().is_some_and(|name| !self.has_link(name));
        let matches = if rule.never || lies_outside || by_none || (rule.vrf && !self.is_in_vrf()) {
            Matches::No
        } else if rule.others || rule.iif.is_some() || rule.vrf {
            Matches::Some
        } else {
            Matches::Yes
        };
        match matches {
            Matches::No if rule.inverted => Matches::Yes,
            Matches::Yes if rule.inverted => Matches::No,
            matches => matches,
        }
    }

    fn by_table(&self, number: u32, to: IpCidr) -> Said {
        let Some(table) = self.table(is_six(&to), number) else { return Said::Nothing };
        for (length, list) in table.covering(to) {
            let chosen = if is_six(&to) { self.choose_v6(list) } else { self.choose_v4(list) };
            match chosen {
                Chosen::None => {}
                Chosen::Throw => return Said::Thrown(length),
                Chosen::Route(decision) => return Said::Found(Found { decision, length }),
            }
        }
        Said::Nothing
    }

    /// Chooses the first usable route. A route for a type of service applies to some packets only.
    fn choose_v4(&self, list: &[OneRoute]) -> Chosen {
        let mut chosen = list.iter().map(|one| {
            let chosen = self.of_route(one);
            if one.route.tos == 0 { chosen } else { chosen.close() }
        });
        chosen.find(|chosen| *chosen != Chosen::None).unwrap_or(Chosen::None)
    }

    /// Chooses among the usable routes of the lowest metric the first with the highest preference.
    fn choose_v6(&self, list: &[OneRoute]) -> Chosen {
        if list.iter().any(|one| one.route.from_some && self.of_route(one) != Chosen::None) {
            return Chosen::Route(Decision::closed());
        }
        let mut best: Option<(&OneRoute, Chosen)> = None;
        for one in list {
            if best.as_ref().is_some_and(|(best, _)| best.route.metric < one.route.metric) {
                break;
            }
            if best.as_ref().is_some_and(|(best, _)| best.route.preference >= one.route.preference) {
                continue;
            }
            match self.of_route(one) {
                Chosen::None => {}
                chosen => best = Some((one, chosen)),
            }
        }
        best.map_or(Chosen::None, |(_, chosen)| chosen)
    }

    fn of_route(&self, one: &OneRoute) -> Chosen {
        let six = is_six(&one.route.to);
        let decision = match &one.route.way {
            KernelWay::Throw => return Chosen::Throw,
            KernelWay::Unknown => Decision::closed(),
            // The kernel answers by itself.
            KernelWay::Kernel => Decision { kind: Kind::Kernels, ..Decision::of(Via::Blackhole) },
            KernelWay::Blackhole => Decision::of(Via::Blackhole),
            KernelWay::Unreachable => Decision::of(Via::Unreachable),
            KernelWay::Prohibit => Decision::of(Via::Prohibit),
            KernelWay::Unicast(hops) if hops.is_empty() => return Chosen::None,
            KernelWay::Unicast(hops) => self.by_hops(hops),
            KernelWay::Nexthop(id) => match self.nexthop(*id, one.epoch) {
                None => return Chosen::None,
                Some(NexthopKind::Unknown) => Decision::closed(),
                Some(NexthopKind::Blackhole) => Decision::of(Via::Blackhole),
                Some(NexthopKind::Hop { .. }) if !self.is_usable(*id, six) => return Chosen::None,
                Some(NexthopKind::Hop { hop, .. }) => self.by_hops(&[*hop]),
                Some(NexthopKind::Group(members)) => match self.by_members(members, six) {
                    Some(decision) => decision,
                    None => return Chosen::None,
                },
            },
        };
        Chosen::Route(Decision { metric: decision.metric.max(one.route.metric), ..decision })
    }

    /// Decides about a group. A group is usable if one of its members is, and the kernel may then use any
    /// member.
    fn by_members(&self, members: &[(u32, u16)], six: bool) -> Option<Decision> {
        let mut hops = Vec::new();
        for (id, weight) in members {
            match self.object(*id) {
                Some(NexthopKind::Hop { hop, .. }) => hops.push(KernelHop { weight: *weight, ..*hop }),
                Some(NexthopKind::Blackhole) => return Some(Decision::of(Via::Blackhole)),
                Some(NexthopKind::Unknown | NexthopKind::Group(_)) => return Some(Decision::closed()),
                // The object was removed from the group before.
                None => {}
            }
        }
        members.iter().any(|(id, _)| self.is_usable(*id, six)).then(|| self.by_hops(&hops))
    }

    /// Returns whether the kernel uses an object that is one next hop.
    fn is_usable(&self, id: u32, six: bool) -> bool {
        match self.object(id) {
            Some(NexthopKind::Hop { hop, dead, linkdown }) => {
                !(*dead || *linkdown && self.ignores_linkdown(six, hop.index))
            }
            _ => false,
        }
    }

    fn ignores_linkdown(&self, six: bool, index: u32) -> bool {
        self.ignores(six, index) || (!six && self.ignores(six, ALL_LINKS))
    }

    /// Returns the decision to use all next hops that are on our links. If none is, packets would leave by
    /// a device that is not ours, so the prefix is closed.
    fn by_hops(&self, hops: &[KernelHop]) -> Decision {
        let ours = |hop: &KernelHop| {
            let interface: InterfaceId = self.interface(hop.index)?;
            Some(NextHop { interface, gateway: hop.gateway, weight: hop.weight })
        };
        let hops: Vec<_> = hops.iter().filter_map(ours).collect();
        let via = match *hops {
            [NextHop { interface, gateway: None, .. }] => Some(Via::Link(interface)),
            [NextHop { interface, gateway: Some(gateway), .. }] => Some(Via::Gateway(interface, gateway)),
            _ => Multipath::new(&hops).map(Via::Multipath),
        };
        via.map_or(Decision::closed(), Decision::of)
    }
}

/// The result of the routes to one prefix.
#[derive(Debug, PartialEq, Eq)]
enum Chosen {
    /// None of the routes is usable.
    None,
    Throw,
    Route(Decision),
}

impl Chosen {
    fn close(self) -> Self {
        if self == Self::None { self } else { Self::Route(Decision::closed()) }
    }
}

const fn closed(length: u8) -> Option<Found> {
    Some(Found { decision: Decision::closed(), length })
}

/// Returns the decision of a rule that discards, with the length of the rule's prefix.
fn discards(rule: &KernelRule, via: Via) -> Option<Found> {
    let length = rule.to.map_or(0, |to| to.prefix_len());
    Some(Found { decision: Decision::of(via), length })
}

/// Returns whether a rule suppresses a route because its prefix is too short. A route that discards is not
/// suppressed.
fn suppressed(rule: &KernelRule, found: &Found) -> bool {
    let short = rule.suppresses_to.is_some_and(|length| u32::from(found.length) <= length);
    short && found.decision.kind != Kind::Discards
}

/// Combines the decisions for different packets to the same destination. If they differ, the prefix is
/// closed.
fn either(one: Option<Found>, other: Option<Found>) -> Option<Found> {
    match (one, other) {
        (Some(one), Some(other)) if one.decision == other.decision => {
            Some(Found { length: one.length.max(other.length), ..one })
        }
        (None, None) => None,
        (one, other) => {
            let length = |found: &Option<Found>| found.as_ref().map_or(0, |found| found.length);
            closed(length(&one).max(length(&other)))
        }
    }
}
