//! Sets of descriptors, as `select` takes and returns them: bitmaps, processed a word at a time.

use core::fmt;

use crate::tree::Tree;

/// The number of descriptors in a word.
const WORD: usize = 64;
/// The number of words that are compared at once, before the search for the one that differs.
const MANY: usize = 64;

/// A set of descriptors: a bitmap of 64-bit words that grows with the highest descriptor that is in it.
///
/// Words of a higher level show which words are not empty. So the cost to scan or clear a set follows the
/// descriptors in it; a set of few descriptors is cheap however high their numbers are. Programs with many
/// descriptors process a set by words ([`words`](Self::words)). Banga and Mogul (WRL 98/6, section 6.6)
/// found most of a proxy's user time in a loop over its connections before each call of `select`. It
/// vanished when they kept bitmaps and scanned them a word at a time.
///
/// ```
/// use evenkeel_ready::FdSet;
///
/// let open: FdSet = [3, 4, 70, 1_000_000].into_iter().collect();
/// let mut idle = open.clone();
/// idle.remove(70);
///
/// let mut busy = open.clone();
/// busy.subtract(&idle);
/// assert_eq!(busy.iter().collect::<Vec<_>>(), [70]);
/// // Of the 15 626 words of the map there are three to look at.
/// assert_eq!(open.words().collect::<Vec<_>>(), [(0, 0b11000), (64, 1 << 6), (1_000_000, 1)]);
/// ```
#[derive(Default)]
pub struct FdSet {
    tree: Tree<6>,
}

impl FdSet {
    /// Creates an empty set. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { tree: Tree::new() }
    }

    /// Adds a descriptor. Returns whether it was not in the set.
    ///
    /// Allocates if the set has never had a descriptor as high.
    #[inline]
    pub fn insert(&mut self, fd: u32) -> bool {
        let fd = fd as usize;
        if fd >= self.tree.room() {
            self.tree.grow(fd / WORD + 1, 0);
        }
        let is_new = !self.tree.contains(fd);
        self.tree.insert(fd);
        is_new
    }

    /// Removes a descriptor. Returns whether it was in the set.
    #[inline]
    pub fn remove(&mut self, fd: u32) -> bool {
        let was_in = self.contains(fd);
        if was_in {
            self.tree.remove(fd as usize);
        }
        was_in
    }

    /// Returns whether a descriptor is in the set.
    #[must_use]
    #[inline]
    pub fn contains(&self, fd: u32) -> bool {
        self.tree.contains(fd as usize)
    }

    /// Removes all descriptors. Only words that are not empty are touched. Memory is kept.
    pub fn clear(&mut self) {
        let mut from = 0;
        while let Some((index, _)) = self.tree.next_word(from) {
            self.tree.set_word(index, 0);
            from = index + 1;
        }
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tree.next_word(0).is_none()
    }

    /// Returns the number of descriptors in the set. They are counted, a word at a time.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words().map(|(_, word)| word.count_ones() as usize).sum()
    }

    /// Adds the descriptors of another set.
    pub fn union_with(&mut self, other: &Self) {
        self.tree.grow(other.tree.words().len(), 0);
        let mut from = 0;
        while let Some((index, word)) = other.tree.next_word(from) {
            self.tree.set_word(index, self.tree.word(index) | word);
            from = index + 1;
        }
    }

    /// Removes the descriptors that are not in another set.
    pub fn intersect_with(&mut self, other: &Self) {
        let mut from = 0;
        while let Some((index, word)) = self.tree.next_word(from) {
            self.tree.set_word(index, word & other.tree.word(index));
            from = index + 1;
        }
    }

    /// Removes the descriptors that are in another set.
    pub fn subtract(&mut self, other: &Self) {
        let mut from = 0;
        while let Some((index, word)) = self.tree.next_word(from) {
            self.tree.set_word(index, word & !other.tree.word(index));
            from = index + 1;
        }
    }

    /// Returns the words that are not empty, each with the descriptor of its lowest bit.
    pub fn words(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let mut from = 0;
        core::iter::from_fn(move || {
            let (index, word) = self.tree.next_word(from)?;
            from = index + 1;
            Some(((index * WORD) as u32, word))
        })
    }

    /// Returns the number of [words](Self::words) that are not empty, at the cost of a 64th of all words of
    /// the bitmap.
    #[must_use]
    pub fn words_in_use(&self) -> usize {
        self.tree.words_in_use()
    }

    /// Returns the descriptors of the set, from the lowest to the highest.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words().flat_map(|(base, word)| Bits(word).map(move |bit| base + bit))
    }

    /// Returns the word in which descriptor `64 * index` has the lowest bit.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> u64 {
        self.tree.word(index)
    }

    /// Returns the first word from `from` on with descriptors that are also in `other`: its index, and
    /// these descriptors.
    ///
    /// Visits no words where either set is empty, and many at a time where the sets have nothing in common.
    pub(crate) fn next_common(&self, other: &Self, from: usize) -> Option<(usize, u64)> {
        let (ours, theirs) = (self.tree.words(), other.tree.words());
        let mut from = from;
        loop {
            let (first, our) = self.tree.next_word(from)?;
            let (theirs_first, _) = other.tree.next_word(first)?;
            let common = our & theirs[first];
            if common != 0 {
                return Some((first, common));
            }
            from = theirs_first.max(first + 1);
            let end = (from | (MANY - 1)) + 1;
            let ours = ours.get(from..end.min(ours.len())).unwrap_or(&[]);
            let pairs = ours.iter().zip(theirs.get(from..).unwrap_or(&[]));
            if pairs.fold(0, |common, (our, their)| common | (our & their)) == 0 {
                from = end;
            }
        }
    }

    /// Returns the first word from `from` on with descriptors that are not in `other`: its index, and these
    /// descriptors.
    ///
    /// Compares many words at a time, which a processor does in parallel. Visits no words where the set is
    /// empty.
    pub(crate) fn next_not_in(&self, other: &Self, from: usize) -> Option<(usize, u64)> {
        let (ours, theirs) = (self.tree.words(), other.tree.words());
        let mut from = from;
        while let Some((first, _)) = self.tree.next_word(from) {
            let end = ((first | (MANY - 1)) + 1).min(ours.len());
            let known = theirs.get(first..end.min(theirs.len())).unwrap_or(&[]);
            let same = ours[first..end].iter().zip(known);
            let all_known = known.len() == end - first;
            if !all_known || same.fold(0, |news, (our, their)| news | (our & !their)) != 0 {
                let news = |index: usize| (index, ours[index] & !other.word(index));
                if let Some(news) = (first..end).map(news).find(|(_, news)| *news != 0) {
                    return Some(news);
                }
            }
            from = end;
        }
        None
    }
}

impl Clone for FdSet {
    fn clone(&self) -> Self {
        Self { tree: self.tree.clone() }
    }

    /// Copies `other` into the memory of this set.
    fn clone_from(&mut self, other: &Self) {
        self.tree.clone_from(&other.tree);
    }
}

impl FromIterator<u32> for FdSet {
    fn from_iter<I: IntoIterator<Item = u32>>(fds: I) -> Self {
        let mut set = Self::new();
        set.extend(fds);
        set
    }
}

impl Extend<u32> for FdSet {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, fds: I) {
        fds.into_iter().for_each(|fd| _ = self.insert(fd));
    }
}

/// Sets are equal if they have the same descriptors, whatever their capacity.
impl PartialEq for FdSet {
    fn eq(&self, other: &Self) -> bool {
        self.words().eq(other.words())
    }
}

impl Eq for FdSet {}

impl fmt::Debug for FdSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The three sets of `select`: the descriptors to test for each kind of event, or those that are ready for
/// it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FdSets {
    /// The descriptors to read from. One is ready if a call would not block, perhaps because it fails.
    pub read: FdSet,
    /// The descriptors to write to. One is ready if a call would not block, perhaps because it fails.
    pub write: FdSet,
    /// The descriptors for exceptional conditions ([`Kinds::EXCEPTIONAL`](crate::Kinds::EXCEPTIONAL)).
    pub exception: FdSet,
}

impl FdSets {
    /// Creates three empty sets. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { read: FdSet::new(), write: FdSet::new(), exception: FdSet::new() }
    }

    /// Removes all descriptors from the three sets.
    pub fn clear(&mut self) {
        self.read.clear();
        self.write.clear();
        self.exception.clear();
    }

    /// Removes a descriptor from the three sets, as a program does that has closed it.
    pub fn remove(&mut self, fd: u32) {
        self.read.remove(fd);
        self.write.remove(fd);
        self.exception.remove(fd);
    }

    /// Returns whether all three sets are empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read.is_empty() && self.write.is_empty() && self.exception.is_empty()
    }

    /// Returns the sum of the numbers of descriptors in the three sets, as `select` counts them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read.len() + self.write.len() + self.exception.len()
    }

    /// Returns the set with number `nth`: 0 to read, 1 to write, 2 for exceptional conditions.
    #[inline]
    pub(crate) const fn by_number(&self, nth: usize) -> &FdSet {
        match nth {
            0 => &self.read,
            1 => &self.write,
            _ => &self.exception,
        }
    }

    /// Returns the descriptors of a word that are in any of the three sets.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> u64 {
        self.read.word(index) | self.write.word(index) | self.exception.word(index)
    }
}

impl Clone for FdSets {
    fn clone(&self) -> Self {
        let (read, write) = (self.read.clone(), self.write.clone());
        Self { read, write, exception: self.exception.clone() }
    }

    /// Copies `other` into the memory of these sets.
    fn clone_from(&mut self, other: &Self) {
        self.read.clone_from(&other.read);
        self.write.clone_from(&other.write);
        self.exception.clone_from(&other.exception);
    }
}

/// The places of the bits that are set in a word, from the lowest.
pub(crate) struct Bits(pub(crate) u64);

impl Iterator for Bits {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn fds() -> impl Strategy<Value = BTreeSet<u32>> {
        let near = 0..400_u32;
        let dense = (0..9_000_u32, 1..300_u32).prop_map(|(first, len)| (first..first + len).collect());
        let sparse = prop::collection::btree_set(prop_oneof![9 => near, 1 => 0..20_000_u32], 0..40);
        prop_oneof![sparse, dense]
    }

    fn set(fds: &BTreeSet<u32>) -> FdSet {
        fds.iter().copied().collect()
    }

    fn is(set: &FdSet, model: &BTreeSet<u32>) {
        assert!(set.iter().eq(model.iter().copied()));
        assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
        set.tree.check();
    }

    proptest! {
        #[test]
        fn set_arithmetic_is_that_of_sorted_sets(a in fds(), b in fds(), out in fds()) {
            let mut union = set(&a);
            union.union_with(&set(&b));
            is(&union, &a.union(&b).copied().collect());

            let mut common = set(&a);
            common.intersect_with(&set(&b));
            is(&common, &a.intersection(&b).copied().collect());

            let mut rest = set(&a);
            rest.subtract(&set(&b));
            is(&rest, &a.difference(&b).copied().collect());
            prop_assert_eq!(rest == set(&a), a.is_disjoint(&b));

            let mut left = a.clone();
            let mut some = set(&a);
            for fd in out {
                prop_assert_eq!(some.contains(fd), left.contains(&fd));
                prop_assert_eq!(some.remove(fd), left.remove(&fd));
            }
            is(&some, &left);
            some.clear();
            is(&some, &BTreeSet::new());
        }

        #[test]
        fn what_is_new_and_what_is_common_is_found_word_by_word(
            a in fds(),
            other in fds(),
            out in fds(),
            nearly_all in any::<bool>(),
        ) {
            let b = if nearly_all { a.difference(&out).chain(&other).copied().collect() } else { other };
            let (ours, theirs) = (set(&a), set(&b));
            let (mut from, mut found) = (0, Vec::new());
            while let Some((index, news)) = ours.next_not_in(&theirs, from) {
                found.extend(Bits(news).map(|bit| (index * WORD) as u32 + bit));
                from = index + 1;
            }
            prop_assert_eq!(found, a.difference(&b).copied().collect::<Vec<_>>());

            let (mut from, mut found) = (0, Vec::new());
            while let Some((index, common)) = ours.next_common(&theirs, from) {
                found.extend(Bits(common).map(|bit| (index * WORD) as u32 + bit));
                from = index + 1;
            }
            prop_assert_eq!(found, a.intersection(&b).copied().collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_word_of_the_next_many_is_not_passed_over() {
        let first = (MANY * WORD) as u32;
        let (all, mut known) = ((0..2 * first).collect::<FdSet>(), (0..2 * first).collect::<FdSet>());
        known.remove(first);
        assert_eq!(all.next_not_in(&known, 0), Some((MANY, 1)));
        let (ours, theirs) = ([1, first].into_iter().collect::<FdSet>(), [2, first].into_iter().collect());
        assert_eq!(ours.next_common(&theirs, 0), Some((MANY, 1)));
    }

    #[test]
    fn bits_come_from_the_lowest_to_the_highest() {
        assert_eq!(Bits(1 << 63 | 0b101).collect::<Vec<_>>(), [0, 2, 63]);
        assert_eq!(Bits(0).next(), None);
    }
}
