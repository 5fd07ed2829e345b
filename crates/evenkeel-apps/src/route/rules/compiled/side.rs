//! The addresses of one end: those that rules contain, and those of tables and links, which are looked up
//! once for all rules.

use super::field::Field;
use super::rows::{Fit, Matching, Row, Scratch, Summary, TooLarge, WORDS_MAX};
use crate::route::rules::address::{Address, Family};
use crate::route::rules::evaluate::Surroundings;
use crate::route::rules::rule::{Host, HostSet, Hosts, RuleSet};
use crate::route::rules::spans::{Number, Spans};
use crate::route::rules::table::Table;

/// The most spans that a table may add to the rules that name it, over all rules. A larger table is looked
/// up.
const SPELLED_OUT: usize = 4096;

/// The addresses of a family.
pub(super) trait FamilyAddress: Number {
    const FAMILY: Family;
    fn of_table(table: &Table) -> &Spans<Self>;
}

impl FamilyAddress for u32 {
    const FAMILY: Family = Family::V4;
    fn of_table(table: &Table) -> &Spans<Self> {
        &table.v4
    }
}

impl FamilyAddress for u128 {
    const FAMILY: Family = Family::V6;
    fn of_table(table: &Table) -> &Spans<Self> {
        &table.v6
    }
}

/// Sets of addresses that are looked up for a packet: large tables, addresses of links, and routes.
#[derive(Debug, Default)]
pub(super) struct LookedUp {
    pub(super) sets: Vec<HostSet>,
    /// For each table, whether its addresses are copied into the rules.
    spelled_out: Vec<bool>,
}

impl LookedUp {
    pub(super) fn of(set: &RuleSet) -> Self {
        let mut uses = vec![0_usize; set.tables.len()];
        let mut named = Vec::new();
        for host in set.rules.iter().flat_map(|rule| [&rule.from.hosts, &rule.to.hosts]).flat_map(Hosts::iter)
        {
            match host.set {
                HostSet::Prefix(_) | HostSet::Range(_) => {}
                HostSet::Table(table) => {
                    if let Some(uses) = uses.get_mut(table) {
                        *uses += 1;
                    }
                }
                other => named.push(other),
            }
        }
        let size = |table: &Table| table.v4.len() + table.v6.len();
        let spelled_out: Vec<bool> =
            set.tables.iter().zip(&uses).map(|(table, uses)| size(table) * uses <= SPELLED_OUT).collect();
        let large = spelled_out.iter().enumerate().filter(|(_, is)| !**is);
        let mut sets: Vec<HostSet> = large.map(|(table, _)| HostSet::Table(table)).collect();
        named.sort_unstable();
        named.dedup();
        sets.extend(named);
        Self { sets, spelled_out }
    }

    fn place(&self, set: HostSet) -> Option<usize> {
        match set {
            HostSet::Prefix(_) | HostSet::Range(_) => None,
            HostSet::Table(table) if self.spelled_out.get(table) == Some(&true) => None,
            // Tables come first in their order, and then the others in theirs.
            set => self.sets.binary_search(&set).ok(),
        }
    }
}

/// The conditions of a rule on one end, in one family.
#[derive(Debug)]
pub(super) struct Wanted<K> {
    /// The accepted addresses; `None` if the rule accepts all.
    spelled_out: Option<Spans<K>>,
    /// Sets that are looked up, and whether the address must not be in them.
    looked_up: Vec<(usize, bool)>,
}

impl<K: FamilyAddress> Wanted<K> {
    /// Returns `None` if the rule accepts no address of the family.
    pub(super) fn of(hosts: &Hosts, set: &RuleSet, looked_up: &LookedUp) -> Option<Self> {
        if *hosts == Hosts::Any {
            return Some(Self { spelled_out: None, looked_up: Vec::new() });
        }
        let (mut spans, mut sets) = (Vec::new(), Vec::new());
        for &Host { not, set: hosts } in hosts.iter() {
            let span = match hosts {
                HostSet::Prefix(prefix) if prefix.family == K::FAMILY => {
                    Spans::of(vec![(K::narrow(prefix.bits), K::narrow(prefix.last()))])
                }
                HostSet::Range(range) if range.family == K::FAMILY => {
                    Spans::of(vec![(K::narrow(range.first), K::narrow(range.last))])
                }
                HostSet::Prefix(_) | HostSet::Range(_) => continue,
                other => match (looked_up.place(other), other) {
                    (Some(place), _) => {
                        sets.push((place, not));
                        continue;
                    }
                    (None, HostSet::Table(table)) => {
                        set.tables.get(table).map(K::of_table).cloned().unwrap_or_default()
                    }
                    (None, _) => continue,
                },
            };
            spans.extend(if not { span.complement() } else { span }.iter());
        }
        let spelled_out = Spans::of(spans);
        (!spelled_out.is_empty() || !sets.is_empty())
            .then_some(Self { spelled_out: Some(spelled_out), looked_up: sets })
    }

    /// Returns whether the rule takes all addresses.
    pub(super) fn is_any(&self) -> bool {
        self.spelled_out.is_none()
    }

    /// Returns the addresses that it takes; `None` if it takes all, or if some are looked up.
    pub(super) fn spans(&self) -> Option<&Spans<K>> {
        self.spelled_out.as_ref().filter(|_| self.looked_up.is_empty())
    }

    /// Returns the number of places where the copied addresses begin and end.
    pub(super) fn places(&self) -> usize {
        self.spelled_out.as_ref().map_or(0, |spans| 2 * spans.len())
    }
}

/// The addresses of one end, for the rules of a block.
#[derive(Debug)]
pub(super) struct Side<K> {
    /// The copied addresses; `None` if every rule accepts all.
    spelled_out: Option<Field<K>>,
    /// Sets, and the rules that name them.
    looked_up: Vec<Named>,
}

/// A set that is looked up.
#[derive(Debug)]
struct Named {
    place: usize,
    /// Whether the address must not be in the set.
    not: bool,
    /// The rules that have this condition.
    rules: Row,
    summary: Summary,
}

impl<K: FamilyAddress> Side<K> {
    /// Creates the side of rules with these conditions; a place without a rule is `None`.
    pub(super) fn new<'a>(
        wanted: impl ExactSizeIterator<Item = Option<&'a Wanted<K>>> + Clone,
        words_max: usize,
    ) -> Result<Self, TooLarge>
    where
        K: 'a,
    {
        let rules = wanted.len();
        let mut named: Vec<(usize, bool, usize)> = Vec::new();
        for (rule, wanted) in wanted.clone().enumerate() {
            let sets = wanted.into_iter().flat_map(|wanted| &wanted.looked_up);
            named.extend(sets.map(|&(place, not)| (place, not, rule)));
        }
        named.sort_unstable();
        let mut looked_up: Vec<Named> = Vec::new();
        for one in named.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
            let Some(&(place, not, _)) = one.first() else { continue };
            let mut row = Row::new(rules);
            one.iter().for_each(|(.., rule)| row.set(*rule));
            looked_up.push(Named { place, not, summary: row.summary(), rules: row });
        }
        let spans = |wanted: Option<&'a Wanted<K>>| wanted.and_then(|wanted| wanted.spelled_out.as_ref());
        Ok(Self { spelled_out: Field::new(wanted.map(spans), words_max)?, looked_up })
    }

    /// Returns whether rules look up sets.
    pub(super) fn looks_up(&self) -> bool {
        !self.looked_up.is_empty()
    }

    /// Returns the rules that take an address by what they spell out; `None` if all take every address.
    #[inline]
    pub(super) fn get(&self, value: K) -> Option<(Summary, Fit<'_>)> {
        self.spelled_out.as_ref().map(|field| field.get(Some(value)))
    }

    /// Keeps the rules that accept an address, after looking it up in their sets. Returns whether any may be
    /// left.
    pub(super) fn keep<'a>(
        &'a self,
        matching: &mut Matching<'a>,
        value: K,
        mut is_in: impl FnMut(usize) -> bool,
        scratch: &'a mut Option<Scratch>,
    ) -> bool {
        let Some((mut summary, spelled_out)) = self.get(value) else { return true };
        let words = scratch.insert([0; WORDS_MAX]);
        words.iter_mut().enumerate().for_each(|(at, word)| *word = spelled_out.word(at));
        for Named { place, not, rules, summary: with } in &self.looked_up {
            // The look-up is skipped for rules that other fields exclude.
            if matching.overlaps(with) && is_in(*place) != *not {
                words.iter_mut().zip(rules.words()).for_each(|(to, from)| *to |= from);
                summary.iter_mut().zip(with).for_each(|(to, from)| *to |= from);
            }
        }
        matching.keep(Some((summary, Fit::of(words))))
    }
}

/// The results for one end's address, each looked up once for a packet.
#[derive(Debug)]
pub(super) struct Answers {
    address: Address,
    known: [u64; Self::WORDS],
    yes: [u64; Self::WORDS],
}

impl Answers {
    const WORDS: usize = 4;

    pub(super) const fn new(address: Address) -> Self {
        Self { address, known: [0; Self::WORDS], yes: [0; Self::WORDS] }
    }

    /// Returns whether the address is in the set at this place. The set is looked up at most once for a
    /// packet, if there is room for its answer.
    pub(super) fn is_in(
        &mut self,
        place: usize,
        looked_up: &LookedUp,
        set: &RuleSet,
        surroundings: &impl Surroundings,
    ) -> bool {
        let look = || {
            let hosts = looked_up.sets.get(place);
            hosts.is_some_and(|hosts| hosts.contains(self.address, set, surroundings))
        };
        let bit = 1_u64 << (place % 64);
        let (Some(known), Some(yes)) = (self.known.get_mut(place / 64), self.yes.get_mut(place / 64)) else {
            // There are more sets than room for results.
            return look();
        };
        if *known & bit == 0 {
            *known |= bit;
            *yes |= if look() { bit } else { 0 };
        }
        *yes & bit != 0
    }
}
