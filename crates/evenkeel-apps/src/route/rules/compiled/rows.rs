//! Sets of rules as rows of bits, each kept once.

use std::collections::BTreeMap;

/// Rules of a block, at most.
pub(super) const RULES_MAX: usize = 2048;
const WORD: usize = u64::BITS as usize;
/// Words of the longest row.
const WORDS_MAX: usize = RULES_MAX / WORD;

/// A set of the rules of a block, while a packet is looked up.
pub(super) type Candidates = [u64; WORDS_MAX];

/// The set before anything is known.
pub(super) const NONE: Candidates = [0; WORDS_MAX];

/// A set of the rules of a block. A bit is a rule, by its place in the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row(Vec<u64>);

impl Row {
    pub(super) fn new(rules: usize) -> Self {
        Self(vec![0; rules.div_ceil(WORD)])
    }

    /// Returns the set of the rules for which `holds`.
    pub(super) fn of(rules: usize, holds: impl Fn(usize) -> bool) -> Self {
        let mut row = Self::new(rules);
        (0..rules).filter(|rule| holds(*rule)).for_each(|rule| row.toggle(rule));
        row
    }

    pub(super) fn toggle(&mut self, rule: usize) {
        if let Some(word) = self.0.get_mut(rule / WORD) {
            *word ^= 1 << (rule % WORD);
        }
    }

    pub(super) fn set(&mut self, rule: usize) {
        if let Some(word) = self.0.get_mut(rule / WORD) {
            *word |= 1 << (rule % WORD);
        }
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// A number that equal sets have in common, and different ones hardly.
    fn key(&self) -> u64 {
        self.0.iter().fold(0, |key, word| mixed(key ^ word))
    }
}

/// The finalizer of SplitMix64.
const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Rows of a field, one after the other.
#[derive(Debug, Default)]
pub(super) struct Rows {
    words: usize,
    bits: Vec<u64>,
}

impl Rows {
    #[inline]
    pub(super) fn get(&self, row: u32) -> &[u64] {
        self.bits.get(row as usize * self.words..).and_then(|rest| rest.get(..self.words)).unwrap_or_default()
    }
}

/// Rows while they are collected.
#[derive(Debug)]
pub(super) struct Collecting {
    rows: Rows,
    /// For each key, the row that has it. Of two sets with one key, the second is kept as often as it comes.
    known: BTreeMap<u64, u32>,
}

impl Collecting {
    pub(super) fn new(rules: usize) -> Self {
        Self { rows: Rows { words: rules.div_ceil(WORD), bits: Vec::new() }, known: BTreeMap::new() }
    }

    /// Returns the number of a row, which is added unless it is there.
    pub(super) fn add(&mut self, row: &Row) -> u32 {
        let Self { rows, known } = self;
        let next = (rows.bits.len() / rows.words.max(1)) as u32;
        let found = *known.entry(row.key()).or_insert(next);
        if found != next && rows.get(found) == row.words() {
            return found;
        }
        rows.bits.extend_from_slice(row.words());
        next
    }

    pub(super) fn done(self) -> Rows {
        let mut rows = self.rows;
        rows.bits.shrink_to_fit();
        rows
    }
}

/// Keeps the rules that are in `row`, too. Returns whether any are left.
#[inline]
pub(super) fn keep(candidates: &mut [u64], row: &[u64]) -> bool {
    let mut any = 0;
    for (word, with) in candidates.iter_mut().zip(row) {
        *word &= with;
        any |= *word;
    }
    any != 0
}

/// Returns the first rule that is in both sets, at or behind `from`.
#[inline]
pub(super) fn first(candidates: &[u64], with: &[u64], from: usize) -> Option<usize> {
    let skipped = from / WORD;
    let mut mask = u64::MAX << (from % WORD);
    for (at, (word, with)) in candidates.iter().zip(with).enumerate().skip(skipped) {
        let both = word & with & mask;
        if both != 0 {
            return Some(at * WORD + both.trailing_zeros() as usize);
        }
        mask = u64::MAX;
    }
    None
}

/// Returns the last rule that is in the one set and not in the other, before `end`.
#[inline]
pub(super) fn last(candidates: &[u64], without: &[u64], end: usize) -> Option<usize> {
    for (at, (word, without)) in candidates.iter().zip(without).enumerate().rev() {
        let below = match end.saturating_sub(at * WORD) {
            0 => 0,
            left if left >= WORD => u64::MAX,
            left => (1 << left) - 1,
        };
        let found = word & !without & below;
        if found != 0 {
            return Some(at * WORD + found.ilog2() as usize);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_of_sets() {
        let one = Row::of(200, |rule| [3, 64, 130, 199].contains(&rule));
        let (all, none) = (Row::of(200, |_| true), Row::new(200));
        let firsts = [0, 3, 4, 65, 131, 200].map(|from| first(one.words(), all.words(), from));
        assert_eq!(firsts, [Some(3), Some(3), Some(64), Some(130), Some(199), None]);
        let lasts = [200, 199, 130, 64, 3].map(|end| last(one.words(), none.words(), end));
        assert_eq!(lasts, [Some(199), Some(130), Some(64), Some(3), None]);
        assert_eq!((first(one.words(), none.words(), 0), last(one.words(), all.words(), 200)), (None, None));
    }

    #[test]
    fn equal_rows_are_kept_once() {
        let mut rows = Collecting::new(100);
        let of = |n: usize| Row::of(100, |rule| rule % n == 0);
        let numbers = [2, 3, 2, 5, 3].map(|n| rows.add(&of(n)));
        assert_eq!(numbers, [0, 1, 0, 2, 1]);
        let rows = rows.done();
        assert_eq!((rows.get(1), rows.bits.len()), (of(3).words(), 6));
    }
}
