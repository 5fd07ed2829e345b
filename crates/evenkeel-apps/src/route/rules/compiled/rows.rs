//! Sets of rules as rows of bits. Each different row is stored once and in short form, with a summary of its
//! words.

use std::collections::BTreeMap;

use evenkeel_base::SplitMix64;

const WORD: usize = u64::BITS as usize;
/// The number of words of a summary.
const GROUPS: usize = 4;
/// The number of words of the longest row: a summary has a bit for each.
pub(super) const WORDS_MAX: usize = GROUPS * WORD;
/// The most rules of a block.
pub(super) const RULES_MAX: usize = WORDS_MAX * WORD;
/// The most stored words of a short row.
const SHORT: usize = 7;

/// A bit for each word of a row, which is set unless the word is zero.
pub(super) type Summary = [u64; GROUPS];

/// Room for a row that is assembled for a packet.
pub(super) type Scratch = [u64; WORDS_MAX];

/// A set of the rules of a block, under construction. A bit stands for a rule, by its place in the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    words: Vec<u64>,
    /// A key that is equal for equal sets, and hardly ever for different ones.
    key: u64,
}

impl Row {
    pub(super) fn new(rules: usize) -> Self {
        Self { words: vec![0; rules.div_ceil(WORD)], key: 0 }
    }

    /// Returns the set of the rules for which `holds`.
    pub(super) fn of(rules: usize, holds: impl Fn(usize) -> bool) -> Self {
        let mut row = Self::new(rules);
        (0..rules).filter(|rule| holds(*rule)).for_each(|rule| row.toggle(rule));
        row
    }

    pub(super) fn toggle(&mut self, rule: usize) {
        if let Some(word) = self.words.get_mut(rule / WORD) {
            *word ^= 1 << (rule % WORD);
            // This is Zobrist's hashing: the key of a set combines those of its rules.
            self.key ^= mixed(rule as u64);
        }
    }

    pub(super) fn set(&mut self, rule: usize) {
        if self.words.get(rule / WORD).is_some_and(|word| word >> (rule % WORD) & 1 == 0) {
            self.toggle(rule);
        }
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn summary(&self) -> Summary {
        let mut summary = [0; GROUPS];
        for (group, words) in summary.iter_mut().zip(self.words.chunks(WORD)) {
            *group = words.iter().rev().fold(0, |bits, word| bits << 1 | u64::from(*word != 0));
        }
        summary
    }
}

/// Returns a number that depends on every bit of `number`.
const fn mixed(number: u64) -> u64 {
    SplitMix64::new(number).next_u64()
}

/// The rows of a field.
///
/// Rows in one array. A row begins with a word whose lowest byte is the number of its stored words. The other
/// bytes give the places of these words, which follow. A long row begins with zero and its summary, and all
/// of its words follow. A row that fits into a cache line costs one miss.
#[derive(Debug)]
pub(super) struct Rows {
    /// The rules that accept every value: they are in each row, and a short row does not repeat them.
    base: Vec<u64>,
    base_summary: Summary,
    words: Vec<u64>,
}

impl Rows {
    /// The place of a value without a row, which matches only the rules that accept every value.
    pub(super) const BASE: u32 = u32::MAX;

    /// Returns the row at a place, with its summary.
    #[inline]
    pub(super) fn get(&self, at: u32) -> (Summary, Fit<'_>) {
        let mut summary = self.base_summary;
        let Some((head, words)) = self.words.get(at as usize..).and_then(<[u64]>::split_first) else {
            return (summary, Fit { head: 0, words: &self.base, base: &[] });
        };
        if *head == 0 {
            let (own, words) = words.split_first_chunk().unwrap_or((&[0; GROUPS], &[]));
            return (*own, Fit { head: 0, words, base: &[] });
        }
        let mut places = head >> 8;
        for _ in 0..head & 0xff {
            let place = (places & 0xff) as usize;
            summary[place / WORD] |= 1 << (place % WORD);
            places >>= 8;
        }
        (summary, Fit { head: *head, words, base: &self.base })
    }
}

/// The rules that match a value of a field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fit<'a> {
    /// The head of a short row, with the places of its stored words.
    head: u64,
    words: &'a [u64],
    base: &'a [u64],
}

impl<'a> Fit<'a> {
    /// Returns the rules of these words.
    pub(super) const fn of(words: &'a [u64]) -> Self {
        Self { head: 0, words, base: &[] }
    }

    #[inline]
    pub(super) fn word(&self, at: usize) -> u64 {
        if self.head == 0 {
            return self.words.get(at).copied().unwrap_or(0);
        }
        let mut word = self.base.get(at).copied().unwrap_or(0);
        let mut places = self.head >> 8;
        for own in self.words.iter().take((self.head & 0xff) as usize) {
            word |= if places & 0xff == at as u64 { *own } else { 0 };
            places >>= 8;
        }
        word
    }
}

/// An error: a field takes more memory than a block's rules may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

/// The rows of a field under construction.
#[derive(Debug)]
pub(super) struct Collecting {
    rows: Rows,
    /// For each key, the place of the row that has it.
    known: BTreeMap<u64, u32>,
    words_max: usize,
}

impl Collecting {
    /// Begins with the rules that accept every value.
    pub(super) fn new(base: &Row, words_max: usize) -> Self {
        let rows = Rows { base: base.words.clone(), base_summary: base.summary(), words: Vec::new() };
        Self { rows, known: BTreeMap::new(), words_max }
    }

    /// Returns the place of a row, which is added unless it is there. It has all rules of the base.
    pub(super) fn add(&mut self, row: &Row) -> Result<u32, TooLarge> {
        let next = self.rows.words.len() as u32;
        // If two sets have one key, the second is stored each time.
        let found = *self.known.entry(row.key).or_insert(next);
        if found != next && self.is(found, row) {
            return Ok(found);
        }
        let Rows { base, words, .. } = &mut self.rows;
        let pairs = row.words.iter().zip(&*base).enumerate();
        let own =
            pairs.filter_map(|(at, (word, base))| Some((at, word & !base)).filter(|(_, own)| *own != 0));
        let short: Vec<(usize, u64)> = own.take(SHORT + 1).collect();
        if short.is_empty() {
            self.known.insert(row.key, Rows::BASE);
            return Ok(Rows::BASE);
        }
        if short.len() <= SHORT {
            let places = short.iter().rev().fold(0, |places, (at, _)| places << 8 | *at as u64);
            words.push(places << 8 | short.len() as u64);
            words.extend(short.iter().map(|(_, word)| word));
        } else {
            words.push(0);
            words.extend(row.summary());
            words.extend_from_slice(&row.words);
        }
        if words.len() > self.words_max { Err(TooLarge) } else { Ok(next) }
    }

    fn is(&self, known: u32, row: &Row) -> bool {
        let (_, known) = self.rows.get(known);
        row.words.iter().enumerate().all(|(at, word)| known.word(at) == *word)
    }

    pub(super) fn done(self) -> Rows {
        let mut rows = self.rows;
        rows.words.shrink_to_fit();
        rows
    }
}

/// The most fields of a packet.
const FIELDS: usize = 12;

/// The rules of a block that match each field of a packet so far.
#[derive(Debug)]
pub(super) struct Matching<'a> {
    /// Words that may have such rules.
    summary: Summary,
    fits: [Fit<'a>; FIELDS],
    count: usize,
}

impl<'a> Matching<'a> {
    /// Begins a packet without any rules.
    #[inline]
    pub(super) const fn new() -> Self {
        Self { summary: [0; GROUPS], fits: [Fit::of(&[]); FIELDS], count: 0 }
    }

    /// Begins again, with rules in these words.
    #[inline]
    pub(super) const fn begin(&mut self, summary: Summary) {
        self.summary = summary;
        self.count = 0;
    }

    /// Keeps the rules that are also in this row; all if there is no row. Returns whether any may be left.
    #[inline]
    pub(super) fn keep(&mut self, row: Option<(Summary, Fit<'a>)>) -> bool {
        let Some((summary, fit)) = row else { return true };
        if let Some(free) = self.fits.get_mut(self.count) {
            *free = fit;
            self.count += 1;
        }
        self.summary.iter_mut().zip(summary).for_each(|(word, with)| *word &= with);
        self.summary.iter().fold(0, |all, word| all | word) != 0
    }

    /// Removes all rules, so that none matches.
    pub(super) fn clear(&mut self) {
        self.summary = [0; GROUPS];
    }

    /// Returns whether rules of a row with this summary may be among the matching rules.
    pub(super) fn overlaps(&self, summary: &Summary) -> bool {
        self.summary.iter().zip(summary).any(|(one, other)| one & other != 0)
    }

    /// Returns the rules of this word that fit all fields.
    #[inline]
    pub(super) fn word(&self, at: usize) -> u64 {
        let mut bits = u64::MAX;
        for fit in self.fits.iter().take(self.count) {
            bits &= fit.word(at);
            if bits == 0 {
                break;
            }
        }
        bits
    }

    /// Returns the first word in which there may be rules, at or behind `from`.
    #[inline]
    pub(super) fn next_word(&self, from: usize) -> Option<usize> {
        let mut mask = u64::MAX << (from % WORD);
        for (group, word) in self.summary.iter().enumerate().skip(from / WORD) {
            let left = word & mask;
            if left != 0 {
                return Some(group * WORD + left.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_are_kept_once_and_read_back() {
        let base = Row::of(1000, |rule| (300..600).contains(&rule));
        let of = |n: usize| Row::of(1000, |rule| rule % n == 0 || (300..600).contains(&rule));
        let mut rows = Collecting::new(&base, usize::MAX);
        let places = [2, 3, 2, 900, 3].map(|n| rows.add(&of(n)).unwrap());
        assert_eq!((rows.add(&base), rows.add(&base)), (Ok(Rows::BASE), Ok(Rows::BASE)));
        assert_eq!(places, [0, 21, 0, 42, 21]);
        let rows = rows.done();
        assert_eq!(rows.words.len(), 21 + 21 + 3, "few words of its own, and these alone");
        for (place, row) in [(0, of(2)), (21, of(3)), (42, of(900)), (Rows::BASE, base)] {
            let (summary, fit) = rows.get(place);
            assert_eq!(summary, row.summary());
            assert_eq!((0..16).map(|at| fit.word(at)).collect::<Vec<_>>(), row.words());
        }
    }

    #[test]
    fn what_takes_too_much_memory_is_not_collected() {
        let mut rows = Collecting::new(&Row::new(640), 20);
        let all = |from: usize| Row::of(640, |rule| rule >= from);
        assert_eq!([0, 0, 1].map(|from| rows.add(&all(from))), [Ok(0), Ok(0), Err(TooLarge)]);
    }

    #[test]
    fn words_are_found_by_their_summary() {
        let [one, other] = [5, 7].map(|n| Row::of(RULES_MAX, |rule| rule % (64 * n) == 3));
        let mut matching = Matching::new();
        assert_eq!(matching.next_word(0), None);
        matching.begin(one.summary());
        assert!(matching.keep(Some((one.summary(), Fit::of(one.words())))));
        assert!(matching.keep(None) && matching.keep(Some((other.summary(), Fit::of(other.words())))));
        let mut at = 0;
        let mut found = Vec::new();
        while let Some(next) = matching.next_word(at) {
            assert_eq!(matching.word(next), 1 << 3);
            found.push(next);
            at = next + 1;
        }
        assert_eq!(found, [0, 35, 70, 105, 140, 175, 210, 245]);
        let none = Row::new(RULES_MAX);
        assert!(!matching.keep(Some((none.summary(), Fit::of(none.words())))));
    }
}
