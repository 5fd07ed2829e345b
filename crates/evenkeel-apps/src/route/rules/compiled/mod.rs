//! Rules in a form in which the time for a packet hardly grows with their number.

mod block;
mod field;
mod order;
mod rows;
mod side;

use block::{Block, Fields, Limits, Placed};
use order::Order;
use rows::{Matching, Scratch};
use side::{Answers, FamilyAddress, LookedUp};

use super::address::Family;
use super::evaluate::{Course, Decision, Effect, Surroundings};
use super::headers::Headers;
use super::rule::{Action, Rule, RuleSet};
use super::tally::Tally;

/// A set of rules, ready to decide about packets as [`RuleSet::decide`] does.
///
/// Most rules stand in the order in which they win: those with `quick` as they were written, and then the
/// others, the last one first. The first of them that matches decides. Rules that depend on other rules, or
/// have an effect on them (`match`, `tag`, `tagged`, `probability`), stand aside in the order in which they
/// were written; those that match, and come before the end of the evaluation, are taken one by one.
///
/// A packet is looked up by field, among all rules at once; rules that are very many, or would take too much
/// memory together, are cut into blocks. Memory and the time to compile grow in proportion to the rules.
#[derive(Debug)]
pub struct Compiled {
    set: RuleSet,
    effects: Effects,
    order: Order,
    looked_up: LookedUp,
    v4: Vec<Block<u32>>,
    v6: Vec<Block<u128>>,
}

/// Makes the blocks of a family's rules.
fn blocks<K: FamilyAddress>(
    set: &RuleSet,
    order: Order,
    looked_up: &LookedUp,
    limits: &Limits,
) -> Vec<Block<K>> {
    let placed = |(index, rule): (u32, _)| {
        let rank = if is_special(rule) { index } else { order.rank(index, rule.quick) };
        Placed::new((is_special(rule), rank), rule, set, looked_up)
    };
    let mut all: Vec<_> = (0..).zip(&set.rules).filter_map(placed).collect();
    all.sort_unstable_by_key(|placed| (!placed.is_special, placed.rank));
    Block::of(&all, limits)
}

fn is_special(rule: &Rule) -> bool {
    rule.action == Action::Match || rule.tag.is_some() || rule.tagged.is_some() || rule.probability.is_some()
}

impl Compiled {
    /// Compiles rules, which have been bound to their links.
    #[must_use]
    pub fn new(set: RuleSet) -> Self {
        Self::within(set, &Limits::USUAL)
    }

    fn within(set: RuleSet, limits: &Limits) -> Self {
        let (looked_up, order) = (LookedUp::of(&set), Order::of(&set.rules));
        let v4 = blocks(&set, order, &looked_up, limits);
        let v6 = blocks(&set, order, &looked_up, limits);
        let effects = Effects::of(&set.rules);
        Self { set, effects, order, looked_up, v4, v6 }
    }

    /// Returns the rules.
    #[must_use]
    pub const fn set(&self) -> &RuleSet {
        &self.set
    }

    /// Decides about a packet, from its IP header on, that came in on an interface. The last rule that
    /// matches decides, or the first one with `quick`; without any it passes.
    ///
    /// A packet whose headers are malformed, or cut off before what rules may look at, is dropped. Nothing
    /// here allocates.
    pub fn decide(
        &self,
        packet: &[u8],
        interface: u8,
        surroundings: &mut impl Surroundings,
        tally: &Tally,
    ) -> Decision {
        let Ok(headers) = Headers::read(packet) else {
            tally.count_malformed();
            return Decision::MALFORMED;
        };
        if !self.set.skip.is_empty() && self.set.skips(interface) {
            tally.count_skipped();
            return Decision::pass(&headers);
        }
        let mut course = Course::new(&headers, surroundings);
        let ended = match headers.family {
            Family::V4 => self.evaluate(&self.v4, &headers, interface, &mut course, tally),
            Family::V6 => self.evaluate(&self.v6, &headers, interface, &mut course, tally),
        };
        course.decision.finish(|rule| self.effects.get(rule));
        tally.count_packet(course.decision.rule, ended, headers.length);
        course.decision
    }

    /// Finds the rule that decides; returns the one at which `quick` ended the evaluation.
    fn evaluate<K: FamilyAddress, S: Surroundings>(
        &self,
        blocks: &[Block<K>],
        headers: &Headers,
        interface: u8,
        course: &mut Course<'_, S>,
        tally: &Tally,
    ) -> Option<usize> {
        // Nearly always there is one block.
        let (first, others) = blocks.split_first()?;
        let mut asked = Asked {
            rules: self,
            fields: Fields::of(headers, interface),
            from: Answers::new(headers.source),
            to: Answers::new(headers.destination),
        };
        let (mut from, mut to, mut matching) = (None, None, Matching::new());
        asked.find(first, &mut matching, (&mut from, &mut to), course.surroundings);
        let lowest = |asked: &mut Asked<'_, K>, least: u32, around: &S| {
            first.lowest(&matching, least).or_else(|| asked.lowest(others, least, around))
        };
        let plain = lowest(&mut asked, 0, course.surroundings);
        let end = plain.filter(|rank| self.order.is_quick(*rank)).map(|rank| self.order.rule(rank));
        if !first.has_special() {
            self.decide_last(plain, None, course);
            return end;
        }
        let mut taken = Taken { decided: None, ended: None, end };
        first.each_special(&matching, |rank| taken.take(self, rank, headers, course, tally));
        for block in others.iter().take_while(|block| block.has_special()) {
            if taken.ended.is_some() {
                break;
            }
            let (mut from, mut to, mut matching) = (None, None, Matching::new());
            asked.find(block, &mut matching, (&mut from, &mut to), course.surroundings);
            block.each_special(&matching, |rank| taken.take(self, rank, headers, course, tally));
        }
        // Of the others only those before the end matter, of which none is quick.
        let plain = match taken.ended {
            Some(end) => lowest(&mut asked, self.order.before(end), course.surroundings),
            None => plain,
        };
        self.decide_last(plain, taken.decided, course);
        taken.ended.or(end)
    }

    /// Has the rule with this rank decide, if it comes behind `decided`.
    fn decide_last<S: Surroundings>(
        &self,
        rank: Option<u32>,
        decided: Option<usize>,
        course: &mut Course<'_, S>,
    ) {
        let last = rank.map(|rank| self.order.rule(rank)).filter(|last| decided < Some(*last));
        if let Some((rule, effect)) = last.and_then(|rule| Some((rule, self.effects.get(rule)?))) {
            course.decision.by(rule, effect.action);
        }
    }
}

/// What has come of the rules that depend on each other.
struct Taken {
    /// The last one that decided.
    decided: Option<usize>,
    /// The one at which `quick` ended the evaluation.
    ended: Option<usize>,
    /// The rule of the others that ends it.
    end: Option<usize>,
}

impl Taken {
    /// Lets a rule decide, whose headers a packet has. Returns whether the evaluation goes on.
    fn take<S: Surroundings>(
        &mut self,
        rules: &Compiled,
        rank: u32,
        headers: &Headers,
        course: &mut Course<'_, S>,
        tally: &Tally,
    ) -> bool {
        let index = rank as usize;
        let Some(rule) = rules.set.rules.get(index).filter(|_| self.end.is_none_or(|end| index < end)) else {
            return false;
        };
        if !course.takes_part(rule) {
            return true;
        }
        course.matched(index, rule);
        if rule.action == Action::Match {
            tally.count_match(index, headers.length);
        } else {
            self.decided = Some(index);
        }
        self.ended = rule.quick.then_some(index);
        !rule.quick
    }
}

/// What becomes of packets, by rule. Few rules differ in that.
#[derive(Debug)]
struct Effects {
    different: Vec<Effect>,
    /// Of each rule.
    places: Vec<u32>,
}

/// Effects among which one is searched for that is already known.
const RECENT: usize = 32;

impl Effects {
    fn of(rules: &[Rule]) -> Self {
        let mut different: Vec<Effect> = Vec::new();
        let mut place = |rule: &Rule| {
            let effect = Effect::of(rule);
            let known = different.iter().enumerate().rev().take(RECENT).find(|(_, known)| **known == effect);
            known.map(|(place, _)| place).unwrap_or_else(|| {
                different.push(effect);
                different.len() - 1
            }) as u32
        };
        let places = rules.iter().map(&mut place).collect();
        Self { different, places }
    }

    #[inline]
    fn get(&self, rule: usize) -> Option<Effect> {
        self.different.get(*self.places.get(rule)? as usize).copied()
    }
}

/// A packet that rules are asked about.
struct Asked<'a, K> {
    rules: &'a Compiled,
    fields: Fields<K>,
    from: Answers,
    to: Answers,
}

impl<K: FamilyAddress> Asked<'_, K> {
    /// Finds the rules of a block that match.
    #[inline]
    fn find<'b>(
        &mut self,
        block: &'b Block<K>,
        matching: &mut Matching<'b>,
        scratch: (&'b mut Option<Scratch>, &'b mut Option<Scratch>),
        around: &impl Surroundings,
    ) {
        let Self { rules, fields, from, to } = self;
        let Compiled { set, looked_up, .. } = rules;
        let from = |place| from.is_in(place, looked_up, set, around);
        let to = |place| to.is_in(place, looked_up, set, around);
        block.find(fields, matching, scratch, from, to);
    }

    /// Returns the lowest rank of rules that match and depend on no others, of those not below `least`.
    fn lowest(&mut self, blocks: &[Block<K>], least: u32, around: &impl Surroundings) -> Option<u32> {
        blocks.iter().find_map(|block| {
            let (mut from, mut to, mut matching) = (None, None, Matching::new());
            self.find(block, &mut matching, (&mut from, &mut to), around);
            block.lowest(&matching, least)
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Compiles into small blocks, of which some are cut; and into larger ones of many parts.
    pub(crate) fn cut(set: &RuleSet) -> [Compiled; 2] {
        let small = Limits { rules: 24, places: 64, words_per_rule: 3, least: 4, shaped: 8 };
        let parts = Limits { rules: 640, places: 4096, words_per_rule: 64, least: 1, shaped: 1 };
        [small, parts].map(|limits| Compiled::within(set.clone(), &limits))
    }
}
