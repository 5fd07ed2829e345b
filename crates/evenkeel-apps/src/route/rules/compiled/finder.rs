//! A finder of rules of one family. A packet is compared only with the few rules that one of their fields
//! leaves.

use super::block::{Block, Limits, Placed};
use super::brief::{Brief, Probe, ports, protocols};
use super::shortlist::{Shortlists, WHOLE, Wishes};
use super::side::FamilyAddress;
use crate::route::rules::evaluate::Effect;
use crate::route::rules::rule::Rule;
use crate::route::rules::spans::Number;

/// The number of fields with shortlists.
const FIELDS: usize = 5;
/// The shortlists of a packet.
pub(super) type Lists<'a> = [&'a [u32]; FIELDS + 1];
/// The breadth up to which a rule is in the address's shortlists, whatever its breadth in other fields.
const NARROW: u32 = WHOLE / 512;
/// The number of addresses among these fields. They come first.
const ADDRESSES: usize = 2;
/// The number of comparisons that take as long as a look-up in a field's shortlists.
const LOOK_UP: u64 = 16;
/// The breadth in every field above which a rule is in no shortlist.
const WIDE: u32 = WHOLE / 8;

/// Rules of one family, by their ranks.
///
/// Rules that depend on other rules, or affect them, have the lowest ranks, in their written order. The
/// finder looks for all of them that match. Among the other rules it looks for the first match.
///
/// A rule is in the shortlists of a field in which it is narrow: an address, a port or the protocol. The
/// finder looks up a packet in each of these fields, and compares it with the rules of the lists that it
/// finds (a partition by small fields, as in CutSplit by Li and others, INFOCOM 2018). A few broad rules are
/// compared one by one. If there are more broad rules, the rest are in blocks.
#[derive(Debug)]
pub(super) struct Finder<K: Copy> {
    briefs: Vec<Brief<K>>,
    outcomes: Vec<Outcome>,
    /// The number of rules that depend on others.
    special: u32,
    /// The number of rules that do not depend on others, and have `quick`.
    quick: u32,
    to: Option<Shortlists<K>>,
    from: Option<Shortlists<K>>,
    destination: Option<Shortlists<u16>>,
    source: Option<Shortlists<u16>>,
    protocol: Option<Shortlists<u16>>,
    /// Rules that are compared with every packet.
    wide: Vec<u32>,
    special_blocks: Vec<Block<K>>,
    blocks: Vec<Block<K>>,
}

/// The rule of a rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    /// The rule's place in the set.
    pub(super) rule: u32,
    /// The place of the rule's effect among different effects.
    effect: u32,
}

impl<K: FamilyAddress> Finder<K> {
    /// Creates the finder of rules that depend on others, and of rules that do not, each in their order.
    pub(super) fn new(
        special: Vec<Placed<'_, K>>,
        plain: Vec<Placed<'_, K>>,
        effects: &mut Effects,
        limits: &Limits,
    ) -> Self {
        let count = special.len();
        let mut rules = special;
        rules.extend(plain);
        (0..).zip(&mut rules).for_each(|(rank, placed)| placed.rank = rank);
        let outcome =
            |placed: &Placed<'_, K>| Outcome { rule: placed.index, effect: effects.place(placed.rule) };
        let mut finder = Self {
            briefs: rules.iter().map(Placed::brief).collect(),
            outcomes: rules.iter().map(outcome).collect(),
            special: count as u32,
            quick: rules.iter().skip(count).filter(|placed| placed.rule.quick).count() as u32,
            to: None,
            from: None,
            destination: None,
            source: None,
            protocol: None,
            wide: Vec::new(),
            special_blocks: Vec::new(),
            blocks: Vec::new(),
        };
        finder.enlist(&rules, count, limits);
        finder
    }

    /// Puts rules into lists and blocks. The first `special` ones depend on others.
    fn enlist(&mut self, rules: &[Placed<'_, K>], special: usize, limits: &Limits) {
        let mut wide = self.shorten(rules, 0, limits);
        if wide.partition_point(|rank| (*rank as usize) < special) > limits.one_by_one {
            wide = self.shorten(rules, special, limits);
            // The rules keep their order from block to block.
            let limits = Limits { shaped: usize::MAX, ..*limits };
            self.special_blocks = Block::of(&rules.iter().take(special).collect::<Vec<_>>(), &limits);
        }
        let many = wide.split_off(wide.len().min(limits.one_by_one));
        let many: Vec<_> = many.iter().filter_map(|rank| rules.get(*rank as usize)).collect();
        self.wide = wide;
        self.blocks = Block::of(&many, limits);
    }

    /// Creates the shortlists of rules from a rank on. Returns the rules that are in none.
    fn shorten(&mut self, rules: &[Placed<'_, K>], least: usize, limits: &Limits) -> Vec<u32> {
        let destinations: Vec<_> = rules.iter().map(|placed| ports(&placed.rule.to.ports)).collect();
        let sources: Vec<_> = rules.iter().map(|placed| ports(&placed.rule.from.ports)).collect();
        let to = Wishes::new(rules.iter().map(|placed| placed.to.spans()).collect());
        let from = Wishes::new(rules.iter().map(|placed| placed.from.spans()).collect());
        let destination = Wishes::new(destinations.iter().map(Option::as_ref).collect());
        let source = Wishes::new(sources.iter().map(Option::as_ref).collect());
        let all: Vec<_> = rules.iter().map(|placed| protocols(placed.rule)).collect();
        let protocol = Wishes::new(all.iter().map(Option::as_ref).collect());
        let breadths = |rule| {
            let addresses = [to.breadth(rule), from.breadth(rule)];
            let others = [destination.breadth(rule), source.breadth(rule), protocol.breadth(rule)];
            [addresses[0], addresses[1], others[0], others[1], others[2]]
        };
        let mut choices = Choices::new(rules.len(), least, limits, &breadths);
        self.to = choices.shortlists(0, &to);
        self.from = choices.shortlists(1, &from);
        self.destination = choices.shortlists(2, &destination);
        self.source = choices.shortlists(3, &source);
        self.protocol = choices.shortlists(4, &protocol);
        choices.others()
    }

    /// Returns the lists of rules that a packet is to be compared with.
    #[inline]
    pub(super) fn lists(&self, packet: &Probe<K>) -> Lists<'_> {
        #[inline]
        fn get<N: Number>(lists: &Option<Shortlists<N>>, value: Option<N>) -> &[u32] {
            lists.as_ref().zip(value).map_or(&[], |(lists, value)| lists.get(value))
        }
        [
            get(&self.to, Some(packet.to)),
            get(&self.from, Some(packet.from)),
            get(&self.destination, packet.destination()),
            get(&self.source, packet.source()),
            get(&self.protocol, Some(packet.protocol())),
            &self.wide,
        ]
    }

    /// Returns the lowest rank of rules that match a packet and depend on no others, of those that are not
    /// below `least` and in no block. `more` says whether a rule matches that has conditions beyond its
    /// brief.
    #[inline]
    pub(super) fn lowest(
        &self,
        lists: &Lists<'_>,
        packet: &Probe<K>,
        least: u32,
        more: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let (mut lowest, least) = (u32::MAX, least.max(self.special));
        for list in lists {
            for rank in *list {
                let Some(brief) = self.briefs.get(*rank as usize) else { break };
                let fits = brief.fits(packet) & (*rank >= least);
                // There is one branch, which is mispredicted once for each list.
                if fits | (*rank >= lowest) {
                    if *rank >= lowest {
                        break;
                    }
                    if !brief.has_more() || more(*rank) {
                        lowest = *rank;
                        break;
                    }
                }
            }
        }
        (lowest < u32::MAX).then_some(lowest)
    }

    /// Takes the next rule that depends on others and matches a packet from its lists.
    #[inline]
    pub(super) fn next_special(
        &self,
        lists: &mut Lists<'_>,
        packet: &Probe<K>,
        more: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let matches = |rank: &u32| {
            let brief = self.briefs.get(*rank as usize);
            brief.is_some_and(|brief| brief.fits(packet) && (!brief.has_more() || more(*rank)))
        };
        core::iter::from_fn(|| next(lists, self.special)).find(matches)
    }

    /// Returns whether rules depend on others.
    pub(super) const fn has_special(&self) -> bool {
        self.special > 0
    }

    /// Returns the rule that has a rank.
    #[inline]
    pub(super) fn outcome(&self, rank: u32) -> Option<Outcome> {
        self.outcomes.get(rank as usize).copied()
    }

    /// Returns the place in the set of the rule that has a rank.
    #[inline]
    pub(super) fn rule(&self, rank: u32) -> Option<usize> {
        self.outcome(rank).map(|outcome| outcome.rule as usize)
    }

    /// Returns whether the rule that has a rank is quick. It depends on no others.
    pub(super) const fn is_quick(&self, rank: u32) -> bool {
        rank < self.special + self.quick
    }

    /// Returns the lowest rank of rules that come before this one in the set, depend on no others and are not
    /// quick.
    pub(super) fn before(&self, rule: usize) -> u32 {
        // The last one comes first.
        let first = self.special + self.quick;
        let others = self.outcomes.get(first as usize..).unwrap_or_default();
        first + others.partition_point(|outcome| outcome.rule as usize >= rule) as u32
    }

    /// Returns the blocks of rules that depend on others and are in no list.
    pub(super) fn special_blocks(&self) -> &[Block<K>] {
        &self.special_blocks
    }

    /// Returns the blocks of the other rules that are in no list.
    pub(super) fn blocks(&self) -> &[Block<K>] {
        &self.blocks
    }
}

/// Takes the lowest rank below `end` from lists of different rules.
#[inline]
fn next(lists: &mut [&[u32]], end: u32) -> Option<u32> {
    let first = |list: &&[u32]| list.first().copied().unwrap_or(u32::MAX);
    let lowest = lists.iter().map(first).min().filter(|lowest| *lowest < end)?;
    let list = lists.iter_mut().find(|list| list.first() == Some(&lowest))?;
    *list = list.get(1..).unwrap_or_default();
    Some(lowest)
}

/// The choice of a field for each rule's shortlists.
struct Choices<'a> {
    /// [`FIELDS`] for a rule that is in none.
    fields: Vec<usize>,
    /// Ranks below this one are left out.
    least: usize,
    /// Whether each field is looked up.
    worth: [bool; FIELDS],
    limits: &'a Limits,
    breadths: &'a dyn Fn(usize) -> [u32; FIELDS],
}

impl<'a> Choices<'a> {
    fn new(
        rules: usize,
        least: usize,
        limits: &'a Limits,
        breadths: &'a dyn Fn(usize) -> [u32; FIELDS],
    ) -> Self {
        let mut choices =
            Self { fields: vec![FIELDS; rules], least, worth: [true; FIELDS], limits, breadths };
        if rules > limits.few {
            choices.worth = choices.worth(least..rules);
            let chosen: Vec<_> = (least..rules).map(|rule| choices.choose(rule, 0)).collect();
            choices.fields.iter_mut().skip(least).zip(chosen).for_each(|(field, chosen)| *field = chosen);
        }
        choices
    }

    /// Returns the fields whose shortlists save more comparisons than a look-up costs.
    fn worth(&self, rules: core::ops::Range<usize>) -> [bool; FIELDS] {
        let mut saved = [0_u64; FIELDS];
        for rule in rules {
            let breadths = (self.breadths)(rule);
            let address =
                breadths.iter().take(ADDRESSES).min().map_or(WHOLE, |breadth| (*breadth).min(WHOLE));
            if let Some((saved, breadth)) = saved.iter_mut().zip(breadths).nth(self.choose(rule, 0)) {
                *saved += u64::from(address.saturating_sub(breadth));
            }
        }
        let is_worth = |field| field < ADDRESSES || saved[field] > LOOK_UP * u64::from(WHOLE);
        core::array::from_fn(is_worth)
    }

    /// Returns the field, from `least` on, for a rule's shortlists: the first address in which the rule is
    /// narrow, or else its narrowest field. Returns [`FIELDS`] if it is broad in all.
    fn choose(&self, rule: usize, least: usize) -> usize {
        let breadths = (self.breadths)(rule);
        let fields =
            || breadths.iter().zip(self.worth).enumerate().skip(least).filter(|(_, (_, worth))| *worth);
        let narrow = fields().find(|(field, (breadth, _))| *field < ADDRESSES && **breadth <= NARROW);
        let least = || fields().min_by_key(|(_, (breadth, _))| **breadth).filter(|(_, (b, _))| **b <= WIDE);
        narrow.or_else(least).map_or(FIELDS, |(field, _)| field)
    }

    /// Creates the shortlists of a field. Rules without room move to a later field.
    fn shortlists<N: Number>(&mut self, field: usize, wishes: &Wishes<'_, N>) -> Option<Shortlists<N>> {
        let is_chosen = |rule: usize| self.fields.get(rule) == Some(&field);
        let has_another = |rule: usize| self.choose(rule, field + 1) < FIELDS;
        let (lists, out) = wishes.shortlists(is_chosen, has_another, self.limits.depth);
        for rule in out {
            let next = self.choose(rule, field + 1);
            self.fields.get_mut(rule).into_iter().for_each(|field| *field = next);
        }
        lists
    }

    /// Returns the rules that are in no shortlist.
    fn others(self) -> Vec<u32> {
        let others = (0..).zip(self.fields).skip(self.least).filter(|(_, field)| *field == FIELDS);
        others.map(|(rule, _)| rule).collect()
    }
}

/// The different effects of rules. There are few of them.
#[derive(Debug, Default)]
pub(super) struct Effects(Vec<Effect>);

/// The number of recent effects that are searched for an equal one.
const RECENT: usize = 32;

impl Effects {
    fn place(&mut self, rule: &Rule) -> u32 {
        let Self(all) = self;
        let effect = Effect::of(rule);
        let known = all.iter().enumerate().rev().take(RECENT).find(|(_, known)| **known == effect);
        let place = known.map(|(place, _)| place).unwrap_or_else(|| {
            all.push(effect);
            all.len() - 1
        });
        place as u32
    }

    #[inline]
    pub(super) fn get(&self, outcome: Outcome) -> Option<Effect> {
        self.0.get(outcome.effect as usize).copied()
    }
}
