//! Compiled rules, with which the time for a packet hardly grows with their number.

mod block;
mod brief;
mod field;
mod finder;
mod rows;
mod shortlist;
mod side;

use block::{Block, Fields, Limits, Placed};
use brief::Probe;
use finder::{Effects, Finder, Lists};
use rows::{Matching, Scratch};
use side::{Answers, FamilyAddress, LookedUp};

use super::address::Family;
use super::evaluate::{Course, Decision, Effect, Surroundings};
use super::headers::Headers;
use super::rule::{Action, Rule, RuleSet};
use super::tally::Counters;

/// A set of rules, ready to decide about packets as [`RuleSet::decide`] does.
///
/// Most rules are in the order of precedence: first those with `quick` in their written order, then the
/// others in reverse order. The first of them that matches decides. Rules that depend on other rules, or
/// affect them (`match`, `tag`, `tagged`, `probability`), are kept apart in their written order. Those that
/// match before the end of the evaluation are applied one by one.
///
/// Memory and the time to compile grow in proportion to the rules.
#[derive(Debug)]
pub struct Compiled {
    set: RuleSet,
    effects: Effects,
    looked_up: LookedUp,
    v4: Finder<u32>,
    v6: Finder<u128>,
}

/// Creates the finder of a family's rules.
fn finder<K: FamilyAddress>(
    set: &RuleSet,
    looked_up: &LookedUp,
    effects: &mut Effects,
    limits: &Limits,
) -> Finder<K> {
    let all = (0..).zip(&set.rules);
    let all = all.filter_map(|(index, rule)| Placed::new(index, rule, set, looked_up));
    let (special, mut plain): (Vec<_>, Vec<_>) = all.partition(|placed| is_special(placed.rule));
    plain.sort_by_key(|placed| match placed.rule.quick {
        true => (0, placed.index),
        false => (1, u32::MAX - placed.index),
    });
    Finder::new(special, plain, effects, limits)
}

fn is_special(rule: &Rule) -> bool {
    rule.action == Action::Match || rule.tag.is_some() || rule.tagged.is_some() || rule.probability.is_some()
}

impl Compiled {
    /// Compiles rules that have been bound to their links.
    #[must_use]
    pub fn new(set: RuleSet) -> Self {
        Self::within(set, &Limits::USUAL)
    }

    fn within(set: RuleSet, limits: &Limits) -> Self {
        let (looked_up, mut effects) = (LookedUp::of(&set), Effects::default());
        let v4 = finder(&set, &looked_up, &mut effects, limits);
        let v6 = finder(&set, &looked_up, &mut effects, limits);
        Self { set, effects, looked_up, v4, v6 }
    }

    /// Returns the rules that were compiled.
    #[must_use]
    pub const fn set(&self) -> &RuleSet {
        &self.set
    }

    /// Decides about a packet, from its IP header on, that arrived on an interface. The last rule that
    /// matches decides, or the first one with `quick`; without any it passes.
    ///
    /// A packet is dropped if its headers are malformed, or cut off before fields that rules may compare. The
    /// decision allocates nothing.
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
        if !self.set.skip.is_empty() && self.set.skips(interface) {
            tally.count_skipped();
            return Decision::pass(&headers);
        }
        let mut course = Course::new(&headers, surroundings);
        match headers.family {
            Family::V4 => self.evaluate(&self.v4, &headers, interface, &mut course, tally),
            Family::V6 => self.evaluate(&self.v6, &headers, interface, &mut course, tally),
        }
        tally.count_packet(course.decision.rule, headers.length);
        course.decision
    }

    /// Evaluates the rules of a family.
    fn evaluate<K: FamilyAddress, S: Surroundings>(
        &self,
        finder: &Finder<K>,
        headers: &Headers,
        interface: u8,
        course: &mut Course<'_, S>,
        tally: &Counters,
    ) {
        let probe = Probe::new(headers, interface);
        let asked = Asked { rules: self, finder, headers, interface, lists: finder.lists(&probe), probe };
        let mut last = asked.lowest(0, course.surroundings);
        let mut taken = Taken { decided: None, ended: None, end: None };
        if finder.has_special() {
            taken.end = last.filter(|rank| finder.is_quick(*rank)).and_then(|rank| finder.rule(rank));
            asked.each_special(course, |rule, course| taken.take(self, rule, headers, course, tally));
            // Only the other rules before the end matter, and none of them is quick.
            if let Some(end) = taken.ended {
                last = asked.lowest(finder.before(end), course.surroundings);
            }
        }
        let last = last.and_then(|rank| finder.outcome(rank));
        let effect = match last.filter(|last| taken.decided < Some(last.rule as usize)) {
            Some(last) => self.effects.get(last).inspect(|effect| {
                course.decision.by(last.rule as usize, effect.action);
            }),
            None => taken.decided.and_then(|rule| self.set.rules.get(rule)).map(Effect::of),
        };
        course.decision.finish(effect);
    }
}

/// The outcome of the rules that depend on each other.
struct Taken {
    /// The last one that decided.
    decided: Option<usize>,
    /// The rule at which `quick` ended the evaluation.
    ended: Option<usize>,
    /// The place among the other rules at which the evaluation ends.
    end: Option<usize>,
}

impl Taken {
    /// Applies a rule whose header conditions match the packet. Returns whether the evaluation continues.
    fn take<S: Surroundings>(
        &mut self,
        rules: &Compiled,
        index: usize,
        headers: &Headers,
        course: &mut Course<'_, S>,
        tally: &Counters,
    ) -> bool {
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

/// A packet under evaluation by the rules of its family.
struct Asked<'a, K: Copy> {
    rules: &'a Compiled,
    finder: &'a Finder<K>,
    headers: &'a Headers,
    interface: u8,
    probe: Probe<K>,
    lists: Lists<'a>,
}

impl<K: FamilyAddress> Asked<'_, K> {
    /// Returns whether a rule matches, by comparing it as a whole.
    fn is_match(&self, rank: u32, around: &impl Surroundings) -> bool {
        let rule = self.finder.rule(rank).and_then(|rule| self.rules.set.rules.get(rule));
        rule.is_some_and(|rule| rule.matches(self.headers, self.interface, &self.rules.set, around))
    }

    /// Returns the lowest rank of rules that match and depend on no others, of those not below `least`.
    #[inline]
    fn lowest<S: Surroundings>(&self, least: u32, around: &S) -> Option<u32> {
        let Self { finder, lists, probe, .. } = self;
        let listed = finder.lowest(lists, probe, least, |rank| self.is_match(rank, around));
        let is_asked =
            |block: &&Block<K>| listed.is_none_or(|listed| block.first() < listed) && block.may_match(probe);
        let mut blocks = finder.blocks().iter().filter(is_asked).peekable();
        if blocks.peek().is_none() {
            return listed;
        }
        let mut looked = Looked::new(self);
        let in_block = blocks.find_map(|block| {
            let (mut from, mut to, mut matching) = (None, None, Matching::new());
            looked.find(block, &mut matching, (&mut from, &mut to), around);
            block.lowest(&matching, least)
        });
        [listed, in_block].into_iter().flatten().min()
    }

    /// Passes all matching rules that depend on others to `take`, in their order, until it returns false.
    fn each_special<S: Surroundings>(
        &self,
        course: &mut Course<'_, S>,
        mut take: impl FnMut(usize, &mut Course<'_, S>) -> bool,
    ) {
        let (finder, mut lists) = (self.finder, self.lists);
        let mut take = |rank, course: &mut _| finder.rule(rank).is_some_and(|rule| take(rule, course));
        loop {
            let more = |rank| self.is_match(rank, course.surroundings);
            let Some(rank) = finder.next_special(&mut lists, &self.probe, more) else { break };
            if !take(rank, course) {
                return;
            }
        }
        if finder.special_blocks().is_empty() {
            return;
        }
        let mut looked = Looked::new(self);
        for block in finder.special_blocks().iter().filter(|block| block.may_match(&self.probe)) {
            let (mut from, mut to, mut matching) = (None, None, Matching::new());
            looked.find(block, &mut matching, (&mut from, &mut to), course.surroundings);
            if !block.each(&matching, |rank| take(rank, course)) {
                return;
            }
        }
    }
}

/// A packet that is looked up in blocks.
struct Looked<'a, K> {
    rules: &'a Compiled,
    fields: Fields<K>,
    from: Answers,
    to: Answers,
}

impl<'a, K: FamilyAddress> Looked<'a, K> {
    fn new(asked: &Asked<'a, K>) -> Self {
        let Asked { rules, headers, interface, .. } = asked;
        Self {
            rules,
            fields: Fields::of(headers, *interface),
            from: Answers::new(headers.source),
            to: Answers::new(headers.destination),
        }
    }

    /// Finds the matching rules of a block.
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
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Compiles rules into small blocks, of which some are cut; into larger ones of many groups; and into
    /// short lists, with few rules in blocks.
    pub(crate) fn cut(set: &RuleSet) -> [Compiled; 3] {
        let small = Limits { rules: 24, places: 64, words_per_rule: 3, least: 4, shaped: 8, ..NO_LISTS };
        let parts = Limits { rules: 640, places: 4096, words_per_rule: 64, least: 1, shaped: 1, ..NO_LISTS };
        let lists = Limits { few: 0, depth: 3, one_by_one: 2, ..Limits::USUAL };
        [small, parts, lists].map(|limits| Compiled::within(set.clone(), &limits))
    }

    const NO_LISTS: Limits = Limits { few: usize::MAX, one_by_one: 0, ..Limits::USUAL };
}
