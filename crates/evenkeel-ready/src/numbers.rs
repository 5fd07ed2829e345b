//! The numbers of a process's descriptors: which are open, and which is the lowest free one.

use alloc::vec::Vec;
use core::fmt;

use crate::set::Bits;
use crate::tree::Tree;

/// The number of descriptors in a word.
const WORD: usize = 64;

/// The error of a process that has no free number below its limit: `EMFILE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyOpen;

impl fmt::Display for TooManyOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many open descriptors")
    }
}

impl core::error::Error for TooManyOpen {}

/// The numbers of one process's descriptors.
///
/// UNIX gives a new descriptor the lowest free number, and programs rely on it. That rules out a simple
/// list of free ones. [`BitmapNumbers`] and [`LinearNumbers`] find the same number at different cost.
pub trait Numbers {
    /// Opens the lowest free number.
    ///
    /// # Errors
    /// If all numbers below the [`limit`](Self::limit) are open.
    fn allocate(&mut self) -> Result<u32, TooManyOpen> {
        self.allocate_from(0)
    }

    /// Opens the lowest free number that is not below `lowest`, as `F_DUPFD` needs it.
    ///
    /// # Errors
    /// If all numbers from `lowest` to the [`limit`](Self::limit) are open.
    fn allocate_from(&mut self, lowest: u32) -> Result<u32, TooManyOpen>;

    /// Opens a certain number, as `dup2` needs it. Returns whether it was free.
    ///
    /// # Errors
    /// If the number is not below the [`limit`](Self::limit), and not open.
    fn claim(&mut self, number: u32) -> Result<bool, TooManyOpen>;

    /// Closes a number. Returns whether it was open.
    fn free(&mut self, number: u32) -> bool;

    /// Returns whether a number is open.
    fn is_open(&self, number: u32) -> bool;

    /// Returns the limit, below which new numbers are (`RLIMIT_NOFILE`).
    fn limit(&self) -> u32;

    /// Sets the limit. Numbers that are open at or above it stay open.
    fn set_limit(&mut self, limit: u32);

    /// Returns the open numbers, 64 at a time: the words that are not empty, each with the number of its
    /// lowest bit.
    fn open_words(&self) -> impl Iterator<Item = (u32, u64)>;

    /// Returns how many words of the bitmap, or entries of the table, were visited so far: a measure of
    /// cost that does not depend on the machine.
    fn looks(&self) -> u64;

    /// Returns the open numbers, from the lowest to the highest.
    fn open(&self) -> impl Iterator<Item = u32> {
        self.open_words().flat_map(|(base, word)| Bits(word).map(move |bit| base + bit))
    }
}

/// A tree of bitmaps that finds the lowest free number, in as many steps as the tree has levels.
///
/// A word of 64 bits says which of 64 numbers are free, a bit above it whether any of them is, and so on:
/// two levels for 4096 descriptors, as in the paper, four for sixteen million. The paper's words have a bit
/// set for what is *not* free, and above them for what is full; these have the opposite, so that the tree is
/// the one that every set here is. It grows with the highest number that is in use, a bit each, and not
/// with the limit: a number beyond its end is free.
///
/// Source: Banga and Mogul, WRL 98/6, section 4.2.
///
/// ```
/// use evenkeel_ready::{BitmapNumbers, Numbers, TooManyOpen};
///
/// let mut numbers = BitmapNumbers::new(5);
/// assert_eq!([(); 4].map(|()| numbers.allocate()), [Ok(0), Ok(1), Ok(2), Ok(3)]);
/// assert!(numbers.free(1) && numbers.free(2));
/// assert_eq!(numbers.allocate(), Ok(1));
/// assert_eq!(numbers.allocate_from(3), Ok(4));
/// assert_eq!(numbers.allocate_from(3), Err(TooManyOpen));
/// ```
#[derive(Debug, Clone)]
pub struct BitmapNumbers {
    free: Tree<6>,
    limit: u32,
    looks: u64,
}

impl BitmapNumbers {
    /// Creates numbers that are all free, for a process that may have those below `limit`.
    #[must_use]
    pub const fn new(limit: u32) -> Self {
        Self { free: Tree::new(), limit, looks: 0 }
    }

    fn take(&mut self, number: usize) {
        if number >= self.free.room() {
            self.free.grow(number / WORD + 1, u64::MAX);
        }
        self.looks += self.free.remove(number);
    }

    fn is_known_open(&self, number: usize) -> bool {
        number < self.free.room() && !self.free.contains(number)
    }
}

impl Numbers for BitmapNumbers {
    #[inline]
    fn allocate_from(&mut self, lowest: u32) -> Result<u32, TooManyOpen> {
        let beyond = self.free.room().max(lowest as usize);
        let number = self.free.next(lowest as usize, &mut self.looks).unwrap_or(beyond);
        if number >= self.limit as usize {
            return Err(TooManyOpen);
        }
        self.take(number);
        Ok(number as u32)
    }

    fn claim(&mut self, number: u32) -> Result<bool, TooManyOpen> {
        self.looks += 1;
        if self.is_known_open(number as usize) {
            return Ok(false);
        }
        if number >= self.limit {
            return Err(TooManyOpen);
        }
        self.take(number as usize);
        Ok(true)
    }

    #[inline]
    fn free(&mut self, number: u32) -> bool {
        self.looks += 1;
        let was_open = self.is_known_open(number as usize);
        if was_open {
            self.looks += self.free.insert(number as usize);
        }
        was_open
    }

    fn is_open(&self, number: u32) -> bool {
        self.is_known_open(number as usize)
    }

    fn limit(&self) -> u32 {
        self.limit
    }

    fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    fn open_words(&self) -> impl Iterator<Item = (u32, u64)> {
        let words = self.free.words().iter().enumerate();
        words.filter(|(_, free)| **free != u64::MAX).map(|(index, free)| ((index * WORD) as u32, !free))
    }

    fn looks(&self) -> u64 {
        self.looks
    }
}

/// A table that finds the lowest free number by linear search: the baseline.
///
/// That is `ufalloc` of Digital UNIX: through the table of descriptors from 0 to the first empty entry.
/// (4.4BSD starts where it knows that all below are open, which helps until one of those is closed.)
///
/// Source: Banga and Mogul, WRL 98/6, section 2.3.
#[derive(Debug, Clone)]
pub struct LinearNumbers {
    is_open: Vec<bool>,
    limit: u32,
    looks: u64,
}

impl LinearNumbers {
    /// Creates numbers that are all free, for a process that may have those below `limit`.
    #[must_use]
    pub const fn new(limit: u32) -> Self {
        Self { is_open: Vec::new(), limit, looks: 0 }
    }

    fn take(&mut self, number: usize) {
        if number >= self.is_open.len() {
            self.is_open.resize(number + 1, false);
        }
        self.is_open[number] = true;
    }
}

impl Numbers for LinearNumbers {
    fn allocate_from(&mut self, lowest: u32) -> Result<u32, TooManyOpen> {
        let mut number = lowest as usize;
        self.looks += 1;
        while self.is_open.get(number) == Some(&true) {
            number += 1;
            self.looks += 1;
        }
        if number >= self.limit as usize {
            return Err(TooManyOpen);
        }
        self.take(number);
        Ok(number as u32)
    }

    fn claim(&mut self, number: u32) -> Result<bool, TooManyOpen> {
        self.looks += 1;
        if self.is_open(number) {
            return Ok(false);
        }
        if number >= self.limit {
            return Err(TooManyOpen);
        }
        self.take(number as usize);
        Ok(true)
    }

    fn free(&mut self, number: u32) -> bool {
        self.looks += 1;
        self.is_open.get_mut(number as usize).is_some_and(core::mem::take)
    }

    fn is_open(&self, number: u32) -> bool {
        self.is_open.get(number as usize) == Some(&true)
    }

    fn limit(&self) -> u32 {
        self.limit
    }

    fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    fn open_words(&self) -> impl Iterator<Item = (u32, u64)> {
        let words = self.is_open.chunks(WORD).enumerate().map(|(index, entries)| {
            let bits = entries.iter().enumerate().map(|(bit, is_open)| u64::from(*is_open) << bit);
            ((index * WORD) as u32, bits.sum())
        });
        words.filter(|(_, word)| *word != 0)
    }

    fn looks(&self) -> u64 {
        self.looks
    }
}

/// The way in which the lowest free number of a process is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Allocation {
    /// A tree of bitmaps ([`BitmapNumbers`]).
    #[default]
    Bitmap,
    /// A linear search ([`LinearNumbers`]): the baseline.
    Linear,
}

/// Numbers of either kind, for programs that choose it when they run.
#[derive(Debug, Clone)]
pub enum AnyNumbers {
    /// Found by a tree of bitmaps.
    Bitmap(BitmapNumbers),
    /// Found one after the other.
    Linear(LinearNumbers),
}

impl AnyNumbers {
    /// Creates numbers that are all free, for a process that may have those below `limit`.
    #[must_use]
    pub const fn new(allocation: Allocation, limit: u32) -> Self {
        match allocation {
            Allocation::Bitmap => Self::Bitmap(BitmapNumbers::new(limit)),
            Allocation::Linear => Self::Linear(LinearNumbers::new(limit)),
        }
    }
}

/// Applies an expression to numbers of either kind.
macro_rules! either {
    ($self:ident, $numbers:ident => $does:expr) => {
        match $self {
            Self::Bitmap($numbers) => $does,
            Self::Linear($numbers) => $does,
        }
    };
}

impl Numbers for AnyNumbers {
    #[inline]
    fn allocate_from(&mut self, lowest: u32) -> Result<u32, TooManyOpen> {
        either!(self, numbers => numbers.allocate_from(lowest))
    }

    fn claim(&mut self, number: u32) -> Result<bool, TooManyOpen> {
        either!(self, numbers => numbers.claim(number))
    }

    #[inline]
    fn free(&mut self, number: u32) -> bool {
        either!(self, numbers => numbers.free(number))
    }

    fn is_open(&self, number: u32) -> bool {
        either!(self, numbers => numbers.is_open(number))
    }

    fn limit(&self) -> u32 {
        either!(self, numbers => numbers.limit())
    }

    fn set_limit(&mut self, limit: u32) {
        either!(self, numbers => numbers.set_limit(limit));
    }

    fn open_words(&self) -> impl Iterator<Item = (u32, u64)> {
        let (bitmap, linear) = match self {
            Self::Bitmap(numbers) => (Some(numbers), None),
            Self::Linear(numbers) => (None, Some(numbers)),
        };
        let bitmap = bitmap.into_iter().flat_map(Numbers::open_words);
        bitmap.chain(linear.into_iter().flat_map(Numbers::open_words))
    }

    fn looks(&self) -> u64 {
        either!(self, numbers => numbers.looks())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Allocate,
        AllocateMany(u32),
        AllocateFrom(u32),
        Claim(u32),
        Free(u32),
        FreeRange(u32, u32),
        SetLimit(u32),
    }

    /// Near word borders, some words on, and beyond 4096, where the third level begins.
    fn number() -> impl Strategy<Value = u32> {
        prop_oneof![6 => 0..140_u32, 2 => 0..5_000_u32, 1 => 4_090..4_100_u32]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => Just(Step::Allocate),
            1 => prop_oneof![20 => 1..70_u32, 1 => 4_000..4_200_u32].prop_map(Step::AllocateMany),
            2 => number().prop_map(Step::AllocateFrom),
            2 => number().prop_map(Step::Claim),
            4 => number().prop_map(Step::Free),
            1 => (number(), 1..200_u32).prop_map(|(first, len)| Step::FreeRange(first, len)),
            1 => prop_oneof![number(), Just(6_000)].prop_map(Step::SetLimit),
        ]
    }

    /// Performs a step and returns all its results.
    fn take(numbers: &mut impl Numbers, step: &Step) -> Vec<Result<u32, TooManyOpen>> {
        match *step {
            Step::Allocate => vec![numbers.allocate()],
            Step::AllocateMany(count) => (0..count).map(|_| numbers.allocate()).collect(),
            Step::AllocateFrom(lowest) => vec![numbers.allocate_from(lowest)],
            Step::Claim(number) => vec![numbers.claim(number).map(u32::from)],
            Step::Free(number) => vec![Ok(numbers.free(number).into())],
            Step::FreeRange(first, len) => {
                (first..first + len).map(|number| Ok(numbers.free(number).into())).collect()
            }
            Step::SetLimit(limit) => {
                numbers.set_limit(limit);
                vec![Ok(numbers.limit())]
            }
        }
    }

    proptest! {
        /// And what was opened is what is open, however far the limit was lowered below it.
        #[test]
        fn both_ways_give_the_same_numbers(steps in prop::collection::vec(step(), 1..80)) {
            let (mut bitmap, mut linear) = (BitmapNumbers::new(5_000), LinearNumbers::new(5_000));
            for step in &steps {
                let open: BTreeSet<u32> = linear.open().collect();
                let said = take(&mut bitmap, step);
                prop_assert_eq!(&said, &take(&mut linear, step));
                if let (Step::Allocate, Ok(number)) = (step, said[0]) {
                    prop_assert!(number < bitmap.limit());
                    prop_assert!((0..number).all(|lower| open.contains(&lower)), "there is a lower one");
                    prop_assert!(!open.contains(&number));
                }
                bitmap.free.check();
                prop_assert!(bitmap.open_words().eq(linear.open_words()));
                let open: BTreeSet<u32> = linear.open().collect();
                prop_assert!((0..200).chain(4_000..4_200).all(|n| bitmap.is_open(n) == open.contains(&n)));
            }
        }
    }

    /// Words, or entries, that it looks at to allocate one of so many and to free it.
    fn cost(numbers: &mut impl Numbers, open: u32) -> u64 {
        (0..open).for_each(|number| assert_eq!(numbers.claim(number), Ok(true)));
        let before = numbers.looks();
        assert_eq!(numbers.allocate(), Ok(open));
        assert!(numbers.free(open));
        numbers.looks() - before
    }

    #[test]
    fn a_tree_is_as_cheap_at_a_million_as_at_ten() {
        let tree = [10, 1_000, 100_000, 1_000_000].map(|open| cost(&mut BitmapNumbers::new(2_000_000), open));
        assert!(tree.iter().all(|looks| *looks <= 12), "{tree:?}");
        let linear = [10, 1_000, 100_000].map(|open| cost(&mut LinearNumbers::new(2_000_000), open));
        assert_eq!(linear, [12, 1_002, 100_002]);
    }

    #[test]
    fn memory_grows_with_the_highest_number_and_not_with_the_limit() {
        let mut numbers = BitmapNumbers::new(u32::MAX);
        assert_eq!(numbers.allocate(), Ok(0));
        assert_eq!(numbers.free.room(), 64);
        assert_eq!(numbers.claim(1_000_000), Ok(true));
        assert_eq!(numbers.free.room(), 1_000_064);
    }
}
