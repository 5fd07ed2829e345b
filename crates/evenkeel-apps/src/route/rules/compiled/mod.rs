//! Rules in a form in which the time for a packet hardly grows with their number.

mod block;
mod field;
mod rows;
mod side;

use block::{Block, Fields};
use side::{Answers, FamilyAddress, LookedUp};

use super::address::Family;
use super::evaluate::{Course, Decision, Surroundings};
use super::headers::Headers;
use super::rule::{Action, RuleSet};
use super::tally::Tally;

/// A set of rules, ready to decide about packets as [`RuleSet::decide`] does.
///
/// Rules of each family are cut into blocks of at most 2048. In a block a packet is looked up by field; the
/// rules found are in their order, so that the first one with `quick` and the last one are where they were
/// written. Memory and the time to compile grow in proportion to the rules.
#[derive(Debug)]
pub struct Compiled {
    set: RuleSet,
    looked_up: LookedUp,
    v4: Vec<Block<u32>>,
    v6: Vec<Block<u128>>,
}

impl Compiled {
    /// Compiles rules, which have been bound to their links.
    #[must_use]
    pub fn new(set: RuleSet) -> Self {
        let looked_up = LookedUp::of(&set);
        let (v4, v6) = (Block::of(&set, &looked_up), Block::of(&set, &looked_up));
        Self { set, looked_up, v4, v6 }
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
            Family::V4 => self.walk(&self.v4, &headers, interface, &mut course, tally),
            Family::V6 => self.walk(&self.v6, &headers, interface, &mut course, tally),
        };
        course.decision.finish(&self.set.rules);
        tally.count_packet(course.decision.rule, ended, headers.length);
        course.decision
    }

    /// Goes through the blocks; returns the rule at which `quick` ended that.
    fn walk<K: FamilyAddress, S: Surroundings>(
        &self,
        blocks: &[Block<K>],
        headers: &Headers,
        interface: u8,
        course: &mut Course<'_, S>,
        tally: &Tally,
    ) -> Option<usize> {
        let fields = Fields::of(headers, interface);
        let (mut from, mut to) = (Answers::new(headers.source), Answers::new(headers.destination));
        let mut candidates = rows::NONE;
        for block in blocks {
            let around = &*course.surroundings;
            let found = block.find(
                &fields,
                &mut candidates,
                |place| from.is_in(place, &self.looked_up, &self.set, around),
                |place| to.is_in(place, &self.looked_up, &self.set, around),
            );
            if found && let Some(ended) = self.take(block, &candidates, headers, course, tally) {
                return Some(ended);
            }
        }
        None
    }

    /// Lets the rules decide that a packet meets in a block; returns the one at which `quick` ended that.
    fn take<K: FamilyAddress, S: Surroundings>(
        &self,
        block: &Block<K>,
        candidates: &[u64],
        headers: &Headers,
        course: &mut Course<'_, S>,
        tally: &Tally,
    ) -> Option<usize> {
        let rule = |place: usize| {
            let index = block.rules.get(place).map_or(usize::MAX, |index| *index as usize);
            Some((index, self.set.rules.get(index)?))
        };
        let special = block.special.words();
        // The first rule that ends the evaluation whatever else there is.
        let mut end = rows::first(candidates, block.ends.words(), 0);
        // Those before it that depend on each other, one by one.
        let mut decided = None;
        let mut at = 0;
        while let Some(place) = rows::first(candidates, special, at)
            && end.is_none_or(|end| place < end)
        {
            at = place + 1;
            let Some((index, rule)) = rule(place) else { continue };
            if !course.takes_part(rule) {
                continue;
            }
            course.matched(index, rule);
            if rule.action == Action::Match {
                tally.count_match(index, headers.length);
            } else {
                decided = Some(place);
            }
            if rule.quick {
                end = Some(place);
                break;
            }
        }
        // The last one, if it comes behind those.
        let last = rows::last(candidates, special, end.map_or(usize::MAX, |end| end + 1));
        if let Some((index, rule)) = last.filter(|last| decided < Some(*last)).and_then(rule) {
            course.decision.by(index, rule);
        }
        end.and_then(rule).map(|(index, _)| index)
    }
}
