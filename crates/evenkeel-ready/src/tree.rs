//! A set of small numbers: a bit for each, and above the words, level by level, a bit for each word that is
//! not empty.
//!
//! ```text
//!   level 2                 1                        one word: some word of level 1 is not empty
//!   level 1             0 1 0 1                      a bit for each word of level 0
//!   level 0   0000 0110  ·  0001  ·                  a bit for each number
//! ```
//!
//! Adding a number, removing it and finding the next one take at most as many steps as there are levels,
//! and mostly one. Source: Banga and Mogul, WRL 98/6, section 4.2, generalised to any depth.

use alloc::vec::Vec;

/// A set of numbers whose words have `1 << LOG` bits, of the 64 that would fit: tests have deep trees of
/// few numbers.
#[derive(Debug, Default)]
pub(crate) struct Tree<const LOG: u32> {
    /// The levels, from the numbers up. The last level has one word; an empty tree has no levels.
    levels: Vec<Vec<u64>>,
}

impl<const LOG: u32> Tree<LOG> {
    const WIDTH: usize = 1 << LOG;
    /// A word in which every bit is set.
    #[cfg(test)]
    const FULL: u64 = u64::MAX >> (64 - Self::WIDTH);

    pub(crate) const fn new() -> Self {
        Self { levels: Vec::new() }
    }

    /// Returns the words that hold the numbers.
    #[inline]
    pub(crate) fn words(&self) -> &[u64] {
        self.levels.first().map_or(&[], Vec::as_slice)
    }

    /// Returns a word of numbers; words beyond the end are empty.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> u64 {
        self.words().get(index).copied().unwrap_or(0)
    }

    /// Returns the number of bits in the lowest level: all numbers below it have room.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.words().len() << LOG
    }

    #[inline]
    pub(crate) fn contains(&self, number: usize) -> bool {
        self.word(number >> LOG) & Self::bit(number) != 0
    }

    /// Makes room for at least `words` words. New ones are `fill`.
    pub(crate) fn grow(&mut self, words: usize, fill: u64) {
        let before = self.words().len();
        if words <= before {
            return;
        }
        if self.levels.is_empty() {
            self.levels.push(Vec::new());
        }
        self.levels[0].resize(words, fill);
        self.grow_level(1, before);
    }

    /// Updates a level for the words below it from `first_new` on, which are new.
    fn grow_level(&mut self, height: usize, first_new: usize) {
        let below = self.levels[height - 1].len();
        if below <= 1 {
            return;
        }
        let first_new = if height < self.levels.len() {
            first_new
        } else {
            self.levels.push(Vec::new());
            0
        };
        self.levels[height].resize(below.div_ceil(Self::WIDTH), 0);
        for index in first_new..below {
            if self.levels[height - 1][index] != 0 {
                self.levels[height][index >> LOG] |= Self::bit(index);
            }
        }
        // The first of them may be in a word that was there, and empty.
        self.grow_level(height + 1, first_new >> LOG);
    }

    /// Adds a number for which there is room. Returns how many words were visited.
    #[inline]
    pub(crate) fn insert(&mut self, number: usize) -> u64 {
        self.set(0, number)
    }

    /// Removes a number for which there is room. Returns how many words were visited.
    #[inline]
    pub(crate) fn remove(&mut self, number: usize) -> u64 {
        self.clear(0, number)
    }

    /// Replaces a word for which there is room.
    pub(crate) fn set_word(&mut self, index: usize, word: u64) {
        let old = core::mem::replace(&mut self.levels[0][index], word);
        if old == 0 && word != 0 {
            self.set(1, index);
        } else if old != 0 && word == 0 {
            self.clear(1, index);
        }
    }

    /// Returns the lowest number from `from` on. Adds the number of words that it visits to `looks`.
    #[inline]
    pub(crate) fn next(&self, from: usize, looks: &mut u64) -> Option<usize> {
        self.search(0, from, looks)
    }

    /// Returns the first word from `from` on that is not empty: its index, and the word.
    #[inline]
    pub(crate) fn next_word(&self, from: usize) -> Option<(usize, u64)> {
        let words = self.words();
        let word = *words.get(from)?;
        if word != 0 {
            return Some((from, word));
        }
        let index = self.search(1, from + 1, &mut 0)?;
        Some((index, words[index]))
    }

    /// Returns the number of words that are not empty. They are counted one level up.
    pub(crate) fn words_in_use(&self) -> usize {
        match self.levels.as_slice() {
            [] => 0,
            [words] => words.iter().filter(|&&word| word != 0).count(),
            [_, above, ..] => above.iter().map(|word| word.count_ones() as usize).sum(),
        }
    }

    #[inline]
    const fn bit(index: usize) -> u64 {
        1 << (index & (Self::WIDTH - 1))
    }

    #[inline]
    fn set(&mut self, height: usize, mut index: usize) -> u64 {
        let mut looks = 0;
        for level in self.levels.iter_mut().skip(height) {
            looks += 1;
            let word = &mut level[index >> LOG];
            let before = core::mem::replace(word, *word | Self::bit(index));
            if before != 0 {
                break;
            }
            index >>= LOG;
        }
        looks
    }

    #[inline]
    fn clear(&mut self, height: usize, mut index: usize) -> u64 {
        let mut looks = 0;
        for level in self.levels.iter_mut().skip(height) {
            looks += 1;
            let word = &mut level[index >> LOG];
            *word &= !Self::bit(index);
            if *word != 0 {
                break;
            }
            index >>= LOG;
        }
        looks
    }

    /// Returns the first bit from `index` on that is set in a level: goes up until there is one, then down
    /// to the first below it.
    fn search(&self, height: usize, mut index: usize, looks: &mut u64) -> Option<usize> {
        for (above, level) in self.levels.iter().enumerate().skip(height) {
            *looks += 1;
            let rest = level.get(index >> LOG)? >> (index & (Self::WIDTH - 1));
            if rest != 0 {
                index += rest.trailing_zeros() as usize;
                for level in self.levels[height..above].iter().rev() {
                    *looks += 1;
                    index = index << LOG | level[index].trailing_zeros() as usize;
                }
                return Some(index);
            }
            index = (index >> LOG) + 1;
        }
        None
    }

    /// Asserts the invariants of a tree.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        for (below, above) in self.levels.iter().zip(self.levels.iter().skip(1)) {
            assert_eq!(above.len(), below.len().div_ceil(Self::WIDTH));
            for (index, &word) in below.iter().enumerate() {
                assert_eq!(above[index >> LOG] & Self::bit(index) != 0, word != 0, "word {index}");
            }
        }
        let top = self.levels.last();
        assert!(top.is_none_or(|top| top.len() == 1 && top[0] & !Self::FULL == 0));
    }
}

impl<const LOG: u32> Clone for Tree<LOG> {
    fn clone(&self) -> Self {
        Self { levels: self.levels.clone() }
    }

    /// Into the same memory.
    fn clone_from(&mut self, other: &Self) {
        self.levels.clone_from(&other.levels);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Figure 2 of the paper, whose words have 4 bits: 0, 1 and 4 to 7 are taken, 2 and 3 are free. The tree
    /// holds those that are free, so each bit is the opposite of the paper's.
    #[test]
    fn figure_2_of_the_paper() {
        let mut free = Tree::<2>::new();
        free.grow(4, Tree::<2>::FULL);
        for number in [0, 1, 4, 5, 6, 7] {
            free.remove(number);
        }
        let paper: Vec<Vec<u64>> =
            free.levels.iter().map(|level| level.iter().map(|word| !word & 0b1111).collect()).collect();
        assert_eq!(paper, [vec![0b0011, 0b1111, 0, 0], vec![0b0010]]);
        let mut allocate = || {
            let number = free.next(0, &mut 0).unwrap();
            free.remove(number);
            free.check();
            number
        };
        assert_eq!([allocate(), allocate(), allocate()], [2, 3, 8]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(usize),
        Remove(usize),
        SetWord(usize, u64),
        Grow(usize, bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..300_usize).prop_map(Step::Insert),
            4 => (0..300_usize).prop_map(Step::Remove),
            1 => (0..100_usize, any::<u64>()).prop_map(|(index, word)| Step::SetWord(index, word)),
            1 => (0..140_usize, any::<bool>()).prop_map(|(words, full)| Step::Grow(words, full)),
        ]
    }

    fn does_what_a_sorted_set_does<const LOG: u32>(steps: &[Step]) {
        let (mut tree, mut model) = (Tree::<LOG>::new(), BTreeSet::new());
        for step in steps {
            let room = tree.room();
            match *step {
                Step::Insert(number) if number < room => {
                    tree.insert(number);
                    model.insert(number);
                }
                Step::Remove(number) if number < room => {
                    tree.remove(number);
                    model.remove(&number);
                }
                Step::SetWord(index, word) if index < tree.words().len() => {
                    let word = word & Tree::<LOG>::FULL;
                    tree.set_word(index, word);
                    for bit in 0..1 << LOG {
                        let number = (index << LOG) + bit;
                        if word >> bit & 1 == 1 {
                            model.insert(number)
                        } else {
                            model.remove(&number)
                        };
                    }
                }
                Step::Grow(words, full) => {
                    tree.grow(words, if full { Tree::<LOG>::FULL } else { 0 });
                    assert!(tree.room() >= room);
                    model.extend((room..tree.room()).filter(|_| full));
                }
                _ => {}
            }
            tree.check();
            for number in 0..tree.room() + 2 {
                assert_eq!(tree.contains(number), model.contains(&number));
                assert_eq!(tree.next(number, &mut 0), model.range(number..).next().copied());
            }
            for index in 0..tree.words().len() + 2 {
                let next = model.range(index << LOG..).next().map(|number| number >> LOG);
                assert_eq!(tree.next_word(index).map(|(index, _)| index), next);
            }
            assert_eq!(tree.words_in_use(), tree.words().iter().filter(|&&word| word != 0).count());
        }
    }

    proptest! {
        /// With words so small that some hundred numbers make a deep tree, and with those that are used.
        #[test]
        fn a_tree_does_what_a_sorted_set_does(steps in prop::collection::vec(step(), 1..30)) {
            does_what_a_sorted_set_does::<1>(&steps);
            does_what_a_sorted_set_does::<2>(&steps);
            does_what_a_sorted_set_does::<6>(&steps);
        }
    }
}
