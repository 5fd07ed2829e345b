//! The kernel's routing tables, rules and next-hop objects, and the routes through our links that follow
//! from them.
//!
//! Only decisions by destination alone can be put into the host's table. If the kernel decides by more
//! (sources, types of service, tunnels, devices that are not ours), the prefix is closed there: no packet
//! is forwarded by another route than the kernel's.

use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::stack::InterfaceId;
use evenkeel_core::wire::IpCidr;
use evenkeel_link::{
    Entry, KernelNexthop, KernelRoute, KernelRule, KernelWay, NexthopKind, Place, RuleAction,
};

use super::decision::{Decision, Found, Kind, LOCAL};
use super::table::{
    self, Ambiguous, Lengths, OneRoute, Round, Table, end, everything, is_six, truncated, under,
};

/// The routing state taken over from the kernel, the decisions that follow from it, and the prefixes that
/// are still to be decided anew.
#[derive(Debug, Default)]
pub(super) struct Fib {
    /// The interfaces on the kernel's devices.
    interfaces: BTreeMap<u32, InterfaceId>,
    /// Names of the kernel's devices, and whether each belongs to a VRF.
    links: BTreeMap<u32, (String, bool)>,
    /// Devices that are out of use without carrier, by family.
    ignores: BTreeSet<(bool, u32)>,
    objects: BTreeMap<u32, Object>,
    epoch: u64,
    /// The number of routes that refer to each object.
    users: BTreeMap<u32, u64>,
    families: [Family; 2],
    /// The list that the kernel is sending, until it is complete.
    listing: Option<Listing>,
    /// The decision for each prefix, unless a shorter prefix has an equal one.
    decided: BTreeMap<IpCidr, Decision>,
    lengths: [Lengths; 2],
    closed: u64,
    /// Prefixes whose decision comes from a shorter one.
    inherit: BTreeSet<IpCidr>,
    /// Prefixes to decide again.
    dirty: BTreeSet<IpCidr>,
    /// Prefixes whose longer prefixes are all to be decided again.
    walks: Vec<Walk>,
}

/// A family of addresses.
#[derive(Debug, Default)]
struct Family {
    rules: Vec<KernelRule>,
    rules_heard: Round,
    tables: BTreeMap<u32, Table>,
}

#[derive(Debug)]
struct Object {
    kind: NexthopKind,
    epoch: u64,
    heard: Round,
}

#[derive(Debug)]
enum Listing {
    Routes { table: u32, to: IpCidr, list: Vec<OneRoute> },
    Rules { six: bool, list: Vec<KernelRule> },
}

/// A walk through all longer prefixes of one prefix.
#[derive(Debug)]
struct Walk {
    root: IpCidr,
    behind: Option<IpCidr>,
    /// If set, the walk covers only prefixes with routes that refer to these objects.
    objects: Option<BTreeSet<u32>>,
}

/// The most waiting walks; more are combined into one through everything.
const WALKS_MAX: usize = 16;

impl Fib {
    pub(super) fn interface(&self, index: u32) -> Option<InterfaceId> {
        self.interfaces.get(&index).copied()
    }

    pub(super) fn rules(&self, six: bool) -> &[KernelRule] {
        &self.family(six).rules
    }

    pub(super) fn table(&self, six: bool, table: u32) -> Option<&Table> {
        self.family(six).tables.get(&table)
    }

    /// Returns the object with this number.
    pub(super) fn object(&self, id: u32) -> Option<&NexthopKind> {
        self.objects.get(&id).map(|object| &object.kind)
    }

    /// Returns the object with this number, if it is the one that a route refers to.
    pub(super) fn nexthop(&self, id: u32, epoch: u64) -> Option<&NexthopKind> {
        self.objects.get(&id).filter(|object| object.epoch == epoch).map(|object| &object.kind)
    }

    pub(super) fn ignores(&self, six: bool, index: u32) -> bool {
        self.ignores.contains(&(six, index))
    }

    /// Returns whether one of our links has this name.
    pub(super) fn has_link(&self, name: &str) -> bool {
        self.interfaces.keys().any(|index| self.links.get(index).is_some_and(|(known, _)| known == name))
    }

    pub(super) fn is_in_vrf(&self) -> bool {
        self.interfaces.keys().any(|index| self.links.get(index).is_some_and(|(_, in_vrf)| *in_vrf))
    }

    const fn family(&self, six: bool) -> &Family {
        let [v4, v6] = &self.families;
        if six { v6 } else { v4 }
    }

    const fn family_mut(&mut self, six: bool) -> &mut Family {
        let [v4, v6] = &mut self.families;
        if six { v6 } else { v4 }
    }

    /// Returns the number of routes, except those to the kernel's own addresses.
    pub(super) fn routes(&self) -> u64 {
        let tables = self.families.iter().flat_map(|family| &family.tables);
        tables.filter(|(number, _)| **number != LOCAL).map(|(_, table)| table.count).sum()
    }

    /// Returns the number of prefixes that are closed because the kernel's decision cannot be followed.
    pub(super) const fn closed(&self) -> u64 {
        self.closed
    }

    /// Sets the device of an interface.
    pub(super) fn moved(&mut self, index: u32, interface: InterfaceId) {
        self.interfaces.retain(|_, known| *known != interface);
        self.interfaces.insert(index, interface);
        self.walk_all(None);
    }

    /// Takes over an existing entry. Returns whether the tables have to be read again.
    pub(super) fn is(&mut self, entry: Entry, place: Place, round: Round) -> Ambiguous {
        self.end_listing(&entry, place, round);
        match entry {
            Entry::Link { index, name, in_vrf } => {
                let known = self.links.insert(index, (name.clone(), in_vrf));
                if self.interfaces.contains_key(&index) && known != Some((name, in_vrf)) {
                    self.links_changed();
                }
            }
            Entry::IgnoresLinkdown { six, index, ignores } => {
                let changes = if ignores {
                    self.ignores.insert((six, index))
                } else {
                    self.ignores.remove(&(six, index))
                };
                if changes && !self.objects.is_empty() {
                    self.walk_all(Some(self.objects.keys().copied().collect()));
                }
            }
            Entry::Nexthop(nexthop) => self.nexthop_is(nexthop, round),
            Entry::Rule(rule) => return self.rule_is(rule, place),
            Entry::Route(route) => return self.route_is(route, place, round),
            Entry::Address { .. } | Entry::Neighbor { .. } => {}
        }
        Ambiguous(false)
    }

    /// Takes over the removal of an entry. Returns whether the tables have to be read again.
    pub(super) fn gone(&mut self, entry: Entry, round: Round) -> Ambiguous {
        self.end_listing(&entry, Place::First, round);
        match entry {
            Entry::Link { index, .. } => drop(self.links.remove(&index)),
            Entry::Nexthop(KernelNexthop { id, .. }) => {
                if self.objects.remove(&id).is_some() {
                    self.object_changed(id);
                }
            }
            Entry::Rule(rule) => {
                let rules = &mut self.family_mut(rule.six).rules;
                let same =
                    |known: &KernelRule| known.priority == rule.priority && known.identity == rule.identity;
                let Some(at) = rules.iter().position(same) else { return Ambiguous(true) };
                let mut rules = rules.clone();
                rules.remove(at);
                return self.set_rules(rule.six, rules);
            }
            Entry::Route(route) => {
                let (number, to) = (route.table, route.to);
                let Some(table) = self.family(is_six(&to)).tables.get(&number) else {
                    return Ambiguous(false);
                };
                let mut list = table.at(&to).to_vec();
                let ambiguous = table::take(&mut list, &route);
                self.set_routes(number, to, &list);
                return ambiguous;
            }
            Entry::Address { .. } | Entry::Neighbor { .. } | Entry::IgnoresLinkdown { .. } => {}
        }
        Ambiguous(false)
    }

    /// Ends a listing at the next entry with another key. Routes and rules are listed one by one.
    fn end_listing(&mut self, next: &Entry, place: Place, round: Round) {
        let goes_on = match (&self.listing, next) {
            _ if place != Place::Listed => false,
            (Some(Listing::Routes { table, to, .. }), Entry::Route(next)) => {
                (*table, *to) == (next.table, next.to)
            }
            (Some(Listing::Rules { six, .. }), Entry::Rule(next)) => *six == next.six,
            _ => false,
        };
        if !goes_on {
            self.listed(round);
        }
    }

    /// Takes over the listed entries.
    pub(super) fn listed(&mut self, round: Round) {
        match self.listing.take() {
            None => {}
            Some(Listing::Routes { table, to, mut list }) => {
                // IPv6 routes for some sources are listed apart from the other routes to their prefix.
                let tables = &self.family(is_six(&to)).tables;
                let known = tables.get(&table).map_or(&[][..], |table| table.at(&to));
                let is_listed = |one: &OneRoute| list.iter().any(|other| other.is_alike(one));
                let apart: Vec<_> =
                    known.iter().filter(|one| one.heard == round && !is_listed(one)).cloned().collect();
                if !apart.is_empty() {
                    list.extend(apart);
                    list.sort_by_key(|one| one.route.metric);
                }
                self.set_routes(table, to, &list);
            }
            Some(Listing::Rules { six, list }) => {
                self.family_mut(six).rules_heard = round;
                let known = self.rules(six).iter().map(|rule| (rule.priority, rule.identity));
                if known.ne(list.iter().map(|rule| (rule.priority, rule.identity))) {
                    // The routes come behind them.
                    let _ = self.set_rules(six, list);
                }
            }
        }
    }

    fn rule_is(&mut self, rule: KernelRule, place: Place) -> Ambiguous {
        if place == Place::Listed {
            match &mut self.listing {
                Some(Listing::Rules { list, .. }) => list.push(rule),
                _ => self.listing = Some(Listing::Rules { six: rule.six, list: vec![rule] }),
            }
            return Ambiguous(false);
        }
        let mut rules = self.rules(rule.six).to_vec();
        let at = rules.partition_point(|known| known.priority <= rule.priority);
        let same = |known: &KernelRule| (known.priority, known.identity) == (rule.priority, rule.identity);
        if rules.iter().any(same) {
            return Ambiguous(true);
        }
        let six = rule.six;
        rules.insert(at, rule);
        self.set_rules(six, rules)
    }

    /// Sets the rules, and keeps the tables that they name. Returns whether one of these tables is not known
    /// yet.
    fn set_rules(&mut self, six: bool, rules: Vec<KernelRule>) -> Ambiguous {
        let named: BTreeSet<u32> = rules
            .iter()
            .filter_map(|rule| match rule.action {
                RuleAction::Table(table) => Some(table),
                _ => None,
            })
            .collect();
        let family = self.family_mut(six);
        let prefixes = rules.iter().chain(&family.rules).filter_map(|rule| rule.to);
        let prefixes: Vec<IpCidr> = prefixes.map(|to| truncated(to, to.prefix_len())).collect();
        family.rules = rules;
        family.tables.retain(|number, _| named.contains(number));
        let is_new = |number: &u32| !family.tables.contains_key(number);
        let ambiguous = Ambiguous(named.iter().any(is_new));
        for number in named {
            family.tables.entry(number).or_default();
        }
        self.count_users();
        self.dirty.extend(prefixes);
        self.dirty.insert(everything(six));
        self.walk(Walk { root: everything(six), behind: None, objects: None });
        ambiguous
    }

    fn links_changed(&mut self) {
        let mut rules = self.families.iter().flat_map(|family| &family.rules);
        if rules.any(|rule| rule.iif.is_some() || rule.vrf) {
            self.walk_all(None);
        }
    }

    fn nexthop_is(&mut self, KernelNexthop { id, kind }: KernelNexthop, round: Round) {
        match self.objects.get_mut(&id) {
            Some(known) => {
                known.heard = round;
                if known.kind == kind {
                    return;
                }
                known.kind = kind;
            }
            None => {
                self.epoch += 1;
                self.objects.insert(id, Object { kind, epoch: self.epoch, heard: round });
            }
        }
        self.object_changed(id);
    }

    /// Marks the routes to decide again that refer to an object, or to a group with it.
    fn object_changed(&mut self, id: u32) {
        let has = |object: &Object| match &object.kind {
            NexthopKind::Group(members) => members.iter().any(|(member, _)| *member == id),
            _ => false,
        };
        let groups = self.objects.iter().filter(|(_, object)| has(object)).map(|(id, _)| *id);
        let objects: BTreeSet<u32> = groups.chain([id]).filter(|id| self.users.contains_key(id)).collect();
        if !objects.is_empty() {
            self.walk_all(Some(objects));
        }
    }

    fn route_is(&mut self, route: KernelRoute, place: Place, heard: Round) -> Ambiguous {
        let (number, to) = (route.table, route.to);
        let Some(table) = self.family(is_six(&to)).tables.get(&number) else { return Ambiguous(false) };
        let epoch = match route.way {
            KernelWay::Nexthop(id) => self.objects.get(&id).map_or(0, |object| object.epoch),
            _ => 0,
        };
        let new = OneRoute { route, epoch, heard };
        if place == Place::Listed {
            match &mut self.listing {
                Some(Listing::Routes { list, .. }) => list.push(new),
                _ => self.listing = Some(Listing::Routes { table: number, to, list: vec![new] }),
            }
            return Ambiguous(false);
        }
        let mut list = table.at(&to).to_vec();
        let ambiguous = table::put(&mut list, new, place);
        self.set_routes(number, to, &list);
        ambiguous
    }

    fn set_routes(&mut self, number: u32, to: IpCidr, list: &[OneRoute]) {
        let Some(table) = self.family_mut(is_six(&to)).tables.get_mut(&number) else { return };
        let Some(before) = table.set(to, list) else { return };
        let (before, after) = (objects_of(&before), objects_of(list));
        if before != after {
            after.into_iter().for_each(|id| *self.users.entry(id).or_default() += 1);
            for id in before {
                if let Some(users) = self.users.get_mut(&id) {
                    *users = users.saturating_sub(1);
                    if *users == 0 {
                        self.users.remove(&id);
                    }
                }
            }
        }
        self.dirty.insert(to);
        self.dirty.extend(self.inherit.range(under(to)).filter(|other| to.contains_subnet(other)));
        if self.is_followed_by_others(number, is_six(&to)) {
            self.walk(Walk { root: to, behind: None, objects: None });
        }
    }

    fn count_users(&mut self) {
        self.users.clear();
        for table in self.families.iter().flat_map(|family| family.tables.values()) {
            for id in table.prefixes().values().flat_map(|list| objects_of(list)) {
                *self.users.entry(id).or_default() += 1;
            }
        }
    }

    /// Returns whether another table with routes is consulted after this one.
    fn is_followed_by_others(&self, number: u32, six: bool) -> bool {
        let family = self.family(six);
        let tables = family.rules.iter().filter_map(|rule| match rule.action {
            RuleAction::Table(table) => Some(table),
            _ => None,
        });
        let mut behind = tables.skip_while(|table| *table != number);
        let jumps = family.rules.iter().any(|rule| matches!(rule.action, RuleAction::Goto(_)));
        jumps
            || behind.any(|other| {
                other != number && family.tables.get(&other).is_some_and(|table| table.count > 0)
            })
    }

    fn walk_all(&mut self, objects: Option<BTreeSet<u32>>) {
        for six in [false, true] {
            self.walk(Walk { root: everything(six), behind: None, objects: objects.clone() });
        }
    }

    fn walk(&mut self, new: Walk) {
        let like = |walk: &&mut Walk| walk.root == new.root && walk.behind.is_none();
        match self.walks.iter_mut().find(like) {
            Some(walk) => match (&mut walk.objects, new.objects) {
                (Some(objects), Some(more)) => objects.extend(more),
                _ => walk.objects = None,
            },
            None => self.walks.push(new),
        }
        if self.walks.len() > WALKS_MAX {
            self.walks.clear();
            for six in [false, true] {
                self.walks.push(Walk { root: everything(six), behind: None, objects: None });
            }
        }
    }

    /// Returns whether prefixes are still to be decided anew.
    pub(super) fn has_work(&self) -> bool {
        !self.dirty.is_empty() || !self.walks.is_empty()
    }

    /// Checks some of the prefixes that may have to be decided anew.
    pub(super) fn walk_piece(&mut self, piece: usize) {
        for _ in 0..piece {
            let Some(walk) = self.walks.first_mut() else { return };
            let from = walk.behind.map_or(Bound::Included(walk.root), Bound::Excluded);
            let range = (from, Bound::Included(end(walk.root)));
            let [v4, v6] = &self.families;
            let family = if is_six(&walk.root) { v6 } else { v4 };
            let tables = family.tables.values().filter_map(|table| table.next(range));
            let decided = self.decided.range(range).next().map(|(to, _)| *to);
            let Some(to) = tables.chain(decided).min() else {
                self.walks.remove(0);
                continue;
            };
            walk.behind = Some(to);
            if !walk.root.contains_subnet(&to) {
                continue;
            }
            let Some(objects) = walk.objects.clone() else {
                self.dirty.insert(to);
                continue;
            };
            self.look_for_objects(to, &objects);
        }
    }

    /// Removes routes that refer to removed objects, as the kernel does. Marks routes to decide again that
    /// refer to changed objects.
    fn look_for_objects(&mut self, to: IpCidr, changed: &BTreeSet<u32>) {
        let tables = &self.family(is_six(&to)).tables;
        let is_concerned = |table: &Table| {
            let objects = table.at(&to).iter().filter_map(|one| object_of(&one.route));
            objects.into_iter().any(|id| changed.contains(&id))
        };
        let numbers: Vec<u32> =
            tables.iter().filter(|(_, table)| is_concerned(table)).map(|(number, _)| *number).collect();
        for number in numbers {
            let Some(table) = self.table(is_six(&to), number) else { continue };
            let is_there = |one: &&OneRoute| {
                object_of(&one.route).is_none_or(|id| self.nexthop(id, one.epoch).is_some())
            };
            let list: Vec<_> = table.at(&to).iter().filter(is_there).cloned().collect();
            self.set_routes(number, to, &list);
            self.dirty.insert(to);
        }
    }

    /// Marks a prefix to decide again.
    pub(super) fn decide_again(&mut self, to: IpCidr) {
        self.dirty.insert(to);
    }

    /// Returns the next prefix to decide again.
    pub(super) fn next_dirty(&mut self) -> Option<IpCidr> {
        self.dirty.pop_first()
    }

    /// Decides about a prefix. Returns the host's present decision and the new one, if they differ.
    pub(super) fn decide_anew(&mut self, to: IpCidr) -> Option<(Option<Decision>, Option<Decision>)> {
        let found = self.decide(to);
        let is_named = self.is_named(&to);
        let inherits = is_named && found.as_ref().is_none_or(|found| found.length < to.prefix_len());
        if inherits {
            self.inherit.insert(to);
        } else {
            self.inherit.remove(&to);
        }
        let decision = found.map(|Found { decision, .. }| decision);
        let wanted = if !is_named {
            None
        } else if !inherits {
            decision
        } else {
            let shorter = self.decided_before(to);
            match (decision, shorter) {
                (Some(one), Some(other)) if one.via == other.via && one.kind == other.kind => None,
                (None, Some(_)) => Some(Decision::none()),
                (decision, _) => decision,
            }
        };
        let before = self.decided.get(&to).cloned();
        if before == wanted {
            return None;
        }
        self.record(to, before.as_ref(), wanted.clone());
        Some((before, wanted))
    }

    /// Records that nothing is forwarded to a prefix, as the host did not take what was decided.
    pub(super) fn close(&mut self, to: IpCidr) -> Decision {
        let before = self.decided.get(&to).cloned();
        self.record(to, before.as_ref(), Some(Decision::closed()));
        Decision::closed()
    }

    /// Records that the host has no room for a prefix.
    pub(super) fn forget(&mut self, to: IpCidr) {
        let before = self.decided.get(&to).cloned();
        self.record(to, before.as_ref(), None);
    }

    fn record(&mut self, to: IpCidr, before: Option<&Decision>, now: Option<Decision>) {
        let is_closed = |decision: Option<&Decision>| {
            u64::from(decision.is_some_and(|decision| decision.kind == Kind::Closed))
        };
        self.closed = (self.closed + is_closed(now.as_ref())).saturating_sub(is_closed(before));
        let [v4, v6] = &mut self.lengths;
        let lengths = if is_six(&to) { v6 } else { v4 };
        lengths.change(to.prefix_len(), i64::from(now.is_some()) - i64::from(before.is_some()));
        match now {
            Some(now) => drop(self.decided.insert(to, now)),
            None => drop(self.decided.remove(&to)),
        }
        let others = self.inherit.range(under(to)).filter(|other| **other != to && to.contains_subnet(other));
        self.dirty.extend(others);
    }

    /// Returns the decision that the host has for a prefix.
    pub(super) fn decided(&self, to: &IpCidr) -> Option<&Decision> {
        self.decided.get(to)
    }

    /// Returns the nearest shorter prefix that the host has.
    pub(super) fn shorter(&self, to: IpCidr) -> Option<IpCidr> {
        let [v4, v6] = &self.lengths;
        let lengths = if is_six(&to) { v6 } else { v4 };
        let longest = to.prefix_len().checked_sub(1)?;
        lengths
            .down_from(longest)
            .map(|length| truncated(to, length))
            .find(|to| self.decided.contains_key(to))
    }

    fn decided_before(&self, to: IpCidr) -> Option<&Decision> {
        self.decided.get(&self.shorter(to)?)
    }

    /// Returns whether a table or a rule has the prefix. The prefix of all addresses also counts if some
    /// rule discards, since that needs no route to any prefix.
    fn is_named(&self, to: &IpCidr) -> bool {
        let family = self.family(is_six(to));
        family.tables.values().any(|table| !table.at(to).is_empty())
            || family.rules.iter().any(|rule| rule.to == Some(*to))
            || (*to == everything(is_six(to)) && family.rules.iter().any(KernelRule::discards))
    }

    /// Ends a reading of the whole tables: entries that were not in it are removed. Prefixes are swept in
    /// pieces.
    pub(super) fn sweep_objects(&mut self, round: Round) {
        let gone = self.objects.iter().filter(|(_, object)| object.heard != round);
        for id in gone.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.objects.remove(&id);
            self.object_changed(id);
        }
        for six in [false, true] {
            if self.family(six).rules_heard != round && !self.rules(six).is_empty() {
                let _ = self.set_rules(six, Vec::new());
            }
        }
    }

    /// Checks some prefixes after one, and removes those without a route in the last reading. Returns the
    /// last of them; `None` at the end.
    pub(super) fn sweep_piece(&mut self, behind: Swept, piece: usize, round: Round) -> Option<Swept> {
        let Swept { six, table: number, to } = behind;
        let family = self.family(six);
        let Some((&number, table)) = family.tables.range(number..).next() else {
            return (!six).then_some(Swept { six: true, table: 0, to: None });
        };
        let to = to.filter(|_| number == behind.table);
        let from = to.map_or(Bound::Unbounded, Bound::Excluded);
        let range = table.prefixes().range((from, Bound::Unbounded)).take(piece);
        let Some(last) = range.clone().last().map(|(to, _)| *to) else {
            return Some(match number.checked_add(1) {
                Some(table) => Swept { six, table, to: None },
                None if six => return None,
                None => Swept { six: true, table: 0, to: None },
            });
        };
        let left = |(to, list): (&IpCidr, &Vec<OneRoute>)| {
            let left: Vec<_> = list.iter().filter(|one| one.heard == round).cloned().collect();
            (left.len() < list.len()).then_some((*to, left))
        };
        let old: Vec<_> = range.filter_map(left).collect();
        old.into_iter().for_each(|(to, left)| self.set_routes(number, to, &left));
        Some(Swept { six, table: number, to: Some(last) })
    }
}

/// The position up to which outdated routes have been removed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Swept {
    six: bool,
    table: u32,
    to: Option<IpCidr>,
}

fn object_of(route: &KernelRoute) -> Option<u32> {
    match route.way {
        KernelWay::Nexthop(id) => Some(id),
        _ => None,
    }
}

fn objects_of(list: &[OneRoute]) -> Vec<u32> {
    list.iter().filter_map(|one| object_of(&one.route)).collect()
}
