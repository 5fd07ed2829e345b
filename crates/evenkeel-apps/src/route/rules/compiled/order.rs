//! The order in which rules win.

use crate::route::rules::rule::Rule;

/// Ranks of the rules of a set: of those that match a packet, the one with the lowest rank decides.
///
/// Rules with `quick` come first, as they were written, and then the others, the last one first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    rules: u32,
}

impl Order {
    pub(super) fn of(rules: &[Rule]) -> Self {
        Self { rules: rules.len() as u32 }
    }

    /// Returns the rank of a rule.
    pub(super) const fn rank(self, rule: u32, is_quick: bool) -> u32 {
        if is_quick { rule } else { 2 * self.rules - rule }
    }

    /// Whether the rule with this rank is quick.
    pub(super) const fn is_quick(self, rank: u32) -> bool {
        rank < self.rules
    }

    /// Returns the rule with this rank.
    pub(super) const fn rule(self, rank: u32) -> usize {
        (if self.is_quick(rank) { rank } else { 2 * self.rules - rank }) as usize
    }

    /// Returns the lowest rank of rules before this one that are not quick.
    pub(super) const fn before(self, rule: usize) -> u32 {
        2 * self.rules - rule as u32 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_rules_win_as_they_are_written_and_of_the_others_the_last() {
        let order = Order::of(&vec![Rule::default(); 4]);
        let mut ranks = vec![];
        for (rule, is_quick) in [(1, true), (3, true), (2, false), (0, false)] {
            let rank = order.rank(rule, is_quick);
            assert_eq!((order.rule(rank), order.is_quick(rank)), (rule as usize, is_quick));
            ranks.push(rank);
        }
        assert!(ranks.is_sorted());
        assert_eq!([3, 2].map(|rule| order.rank(2, false) >= order.before(rule)), [true, false]);
    }
}
