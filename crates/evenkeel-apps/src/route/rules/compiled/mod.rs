//! Rules in a form in which the time for a packet hardly grows with their number.

mod block;
mod field;
mod order;
mod rows;
mod side;

use block::{Block, Fields, Limits, Placed};
use order::Order;
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
/// Both are cut into blocks, in which a packet is looked up by field. Memory and the time to compile grow in
/// proportion to the rules.
#[derive(Debug)]
pub struct Compiled {
    set: RuleSet,
    /// Of each rule.
    effects: Vec<Effect>,
    order: Order,
    looked_up: LookedUp,
    v4: Blocks<u32>,
    v6: Blocks<u128>,
}

/// The rules of a family.
#[derive(Debug)]
struct Blocks<K> {
    plain: Vec<Block<K>>,
    /// Rules that depend on others.
    special: Vec<Block<K>>,
}

impl<K: FamilyAddress> Blocks<K> {
    fn of(set: &RuleSet, order: Order, looked_up: &LookedUp, limits: &Limits) -> Self {
        let (mut plain, mut special) = (Vec::new(), Vec::new());
        for (index, rule) in (0..).zip(&set.rules) {
            let (rank, to) =
                if is_special(rule) { (index, &mut special) } else { (order.rank(index, rule.quick), &mut plain) };
            to.extend(Placed::new(rank, rule, set, looked_up));
        }
        plain.sort_unstable_by_key(|placed| placed.rank);
        let in_order = Limits { shaped: usize::MAX, ..*limits };
        Self { plain: Block::of(&plain, limits), special: Block::of(&special, &in_order) }
    }
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
        let (v4, v6) =
            (Blocks::of(&set, order, &looked_up, limits), Blocks::of(&set, order, &looked_up, limits));
        let effects = set.rules.iter().map(Effect::of).collect();
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
        course.decision.finish(|rule| self.effects.get(rule).copied());
        tally.count_packet(course.decision.rule, ended, headers.length);
        course.decision
    }

    /// Finds the rule that decides; returns the one at which `quick` ended the evaluation.
    fn evaluate<K: FamilyAddress, S: Surroundings>(
        &self,
        blocks: &Blocks<K>,
        headers: &Headers,
        interface: u8,
        course: &mut Course<'_, S>,
        tally: &Tally,
    ) -> Option<usize> {
        let mut asked = Asked {
            rules: self,
            fields: Fields::of(headers, interface),
            from: Answers::new(headers.source),
            to: Answers::new(headers.destination),
        };
        let mut plain = asked.first(&blocks.plain, 0, course.surroundings);
        let mut ended = plain.filter(|rank| self.order.is_quick(*rank)).map(|rank| self.order.rule(rank));
        let mut decided = None;
        if !blocks.special.is_empty() {
            let special = self.take(&blocks.special, &mut asked, headers, course, tally, ended);
            decided = special.decided;
            if let Some(end) = special.ended {
                ended = special.ended;
                // Of the others only those before it matter, of which none is quick.
                plain = asked.first(&blocks.plain, self.order.before(end), course.surroundings);
            }
        }
        // The last one, if it comes behind those.
        let last = plain.map(|rank| self.order.rule(rank)).filter(|last| decided < Some(*last));
        if let Some((rule, effect)) = last.and_then(|rule| Some((rule, self.effects.get(rule)?))) {
            course.decision.by(rule, effect.action);
        }
        ended
    }

    /// Lets those rules decide that depend on each other, up to the end of the evaluation.
    #[inline(never)]
    fn take<K: FamilyAddress, S: Surroundings>(
        &self,
        special: &[Block<K>],
        asked: &mut Asked<'_, K>,
        headers: &Headers,
        course: &mut Course<'_, S>,
        tally: &Tally,
        end: Option<usize>,
    ) -> Taken {
        let mut taken = Taken { decided: None, ended: None };
        for block in special {
            let mut scratch = [None; 2];
            let Some(matching) = asked.matching(block, &mut scratch, course.surroundings) else { continue };
            let mut goes_on = true;
            block.each(&matching, |rank| {
                let index = rank as usize;
                goes_on = end.is_none_or(|end| index < end);
                let Some(rule) = self.set.rules.get(index).filter(|_| goes_on) else { return false };
                if !course.takes_part(rule) {
                    return true;
                }
                course.matched(index, rule);
                if rule.action == Action::Match {
                    tally.count_match(index, headers.length);
                } else {
                    taken.decided = Some(index);
                }
                goes_on = !rule.quick;
                taken.ended = rule.quick.then_some(index);
                goes_on
            });
            if !goes_on {
                break;
            }
        }
        taken
    }
}

/// What came of the rules that depend on each other.
struct Taken {
    /// The last one that decided.
    decided: Option<usize>,
    /// The one at which `quick` ended the evaluation.
    ended: Option<usize>,
}

/// A packet that rules are asked about.
struct Asked<'a, K> {
    rules: &'a Compiled,
    fields: Fields<K>,
    from: Answers,
    to: Answers,
}

impl<K: FamilyAddress> Asked<'_, K> {
    /// Returns the rules of a block that match; `None` if there are none for sure.
    #[inline]
    fn matching<'b>(
        &mut self,
        block: &'b Block<K>,
        scratch: &'b mut [Option<rows::Scratch>; 2],
        around: &impl Surroundings,
    ) -> Option<rows::Matching<'b>> {
        let Self { rules, fields, from, to } = self;
        let Compiled { set, looked_up, .. } = rules;
        block.matching(
            fields,
            scratch,
            |place| from.is_in(place, looked_up, set, around),
            |place| to.is_in(place, looked_up, set, around),
        )
    }

    /// Returns the lowest rank of rules that match, of those that are not below `least`.
    fn first(&mut self, blocks: &[Block<K>], least: u32, around: &impl Surroundings) -> Option<u32> {
        blocks.iter().find_map(|block| {
            let mut scratch = [None; 2];
            let matching = self.matching(block, &mut scratch, around)?;
            block.lowest(&matching, least)
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Compiles into many small blocks, of which each has parts, and some are cut.
    pub(crate) fn cut(set: RuleSet) -> Compiled {
        let limits = Limits { rules: 24, places: 64, words_per_rule: 3, least: 4, shaped: 8 };
        Compiled::within(set, &limits)
    }
}
