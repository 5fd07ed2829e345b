//! Memory of buffers that are empty, for those that are to hold something: most hold little, and not for
//! long, and to ask the allocator each time would cost more than all else they do.
//!
//! One byte in a buffer takes all of its memory, for as long as the byte stays. So what others get is small.
//! Bulk data fills a large one again and again: the last waits for whose it was, until he needs it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::super::table::Id;

/// A buffer with more memory than that is large.
const SMALL: usize = 16 << 10;
/// The memory of so many small buffers is kept at most.
const BUFFERS_MAX: usize = 64;

/// Whose a buffer is: a connection's, to send or to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    Sender(Id),
    Receiver(Id),
}

/// The memory of empty buffers.
#[derive(Debug)]
pub(crate) struct Spares {
    /// The limit in bytes of the memory of all small buffers together, and of the large one by itself.
    most_bytes: usize,
    /// The last to come first.
    small: Vec<VecDeque<u8>>,
    small_bytes: usize,
    large: Option<(Whose, VecDeque<u8>)>,
    large_bytes: usize,
}

impl Spares {
    pub(crate) const fn new(most_bytes: usize) -> Self {
        Self { most_bytes, small: Vec::new(), small_bytes: 0, large: None, large_bytes: 0 }
    }

    /// Returns the number of bytes of memory that are kept.
    pub(crate) const fn bytes(&self) -> usize {
        self.small_bytes + self.large_bytes
    }

    /// A buffer is to hold `more` bytes: if it has no room for them it gets memory of another, as far as
    /// there is any for it.
    #[inline]
    pub(super) fn lend(&mut self, to: &mut VecDeque<u8>, more: usize, whose: Whose) {
        if to.capacity() - to.len() >= more {
            return;
        }
        if to.len() + more > SMALL / 2 {
            self.lend_own(to, whose);
        }
        if to.capacity() == 0 {
            if let Some(buffer) = self.small.pop() {
                self.small_bytes -= buffer.capacity();
                *to = buffer;
            }
        }
    }

    #[cold]
    fn lend_own(&mut self, to: &mut VecDeque<u8>, whose: Whose) {
        if let Some((_, mut buffer)) = self.large.take_if(|(last, _)| *last == whose) {
            self.large_bytes = 0;
            buffer.append(to);
            core::mem::swap(to, &mut buffer);
            self.take(&mut buffer, whose);
        }
    }

    /// Takes the memory of a buffer that is empty. What is more than may be kept the allocator has back.
    #[inline]
    pub(super) fn take(&mut self, from: &mut VecDeque<u8>, whose: Whose) {
        let capacity = from.capacity();
        if !from.is_empty() || capacity == 0 {
            return;
        }
        let buffer = core::mem::take(from);
        if capacity > SMALL {
            self.keep_large(buffer, whose);
        } else if self.small.len() < BUFFERS_MAX && self.small_bytes + capacity <= self.most_bytes {
            self.small.push(buffer);
            self.small_bytes += capacity;
        }
    }

    #[cold]
    fn keep_large(&mut self, buffer: VecDeque<u8>, whose: Whose) {
        self.large = Some((whose, buffer)).filter(|(_, buffer)| buffer.capacity() <= self.most_bytes);
        self.large_bytes = self.large.as_ref().map_or(0, |(_, buffer)| buffer.capacity());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whose(index: u32) -> Whose {
        Whose::Sender(Id::of_test(index))
    }

    /// Lends memory for `more` bytes to an empty buffer of `whose`. Returns the capacity that the buffer
    /// then has.
    fn lent(spares: &mut Spares, more: usize, whose: Whose) -> usize {
        let mut buffer = VecDeque::new();
        spares.lend(&mut buffer, more, whose);
        buffer.capacity()
    }

    fn take(spares: &mut Spares, capacity: usize, whose: Whose) {
        spares.take(&mut VecDeque::with_capacity(capacity), whose);
    }

    #[test]
    fn what_is_empty_is_kept_within_bounds_and_lent() {
        let mut spares = Spares::new(1_000);
        let mut full = VecDeque::from(vec![1; 10]);
        spares.take(&mut full, whose(1));
        assert_eq!((full.len(), spares.bytes()), (10, 0), "it is not empty");
        full.clear();
        spares.take(&mut full, whose(1));
        assert_eq!((full.capacity(), spares.bytes()), (0, 10));
        take(&mut spares, 991, whose(1));
        assert_eq!(spares.bytes(), 10, "more than may be kept goes back");
        (0..2 * BUFFERS_MAX).for_each(|_| take(&mut spares, 10, whose(1)));
        assert_eq!(spares.bytes(), 10 * BUFFERS_MAX);
        let mut other = VecDeque::from(vec![2]);
        spares.lend(&mut other, 1, whose(1));
        assert_eq!((&other, spares.bytes()), (&VecDeque::from([2]), 10 * BUFFERS_MAX), "it has some");
        assert_eq!((lent(&mut spares, 1, whose(1)), spares.bytes()), (10, 10 * (BUFFERS_MAX - 1)));
    }

    #[test]
    fn a_large_one_waits_until_whose_it_was_needs_it_and_keeps_no_small_one_out() {
        const LARGE: usize = SMALL + 1;
        let mut spares = Spares::new(LARGE);
        take(&mut spares, LARGE, whose(1));
        take(&mut spares, 1_000, whose(1));
        assert_eq!(spares.bytes(), LARGE + 1_000);
        assert_eq!([SMALL; 2].map(|more| lent(&mut spares, more, whose(2))), [1_000, 0], "another's");
        assert_eq!(lent(&mut spares, 1, whose(1)), 0, "it would be too much");
        let mut grown = VecDeque::from(vec![7; SMALL / 2]);
        spares.lend(&mut grown, 1, whose(1));
        assert_eq!((grown.len(), grown.capacity()), (SMALL / 2, LARGE));
        assert!(grown.iter().all(|&byte| byte == 7));
        assert_eq!(spares.bytes(), SMALL / 2, "what it had is there for others");
        lent(&mut spares, 1, whose(2));
        // The next makes it go, also one that is too large to be kept.
        (1..10).for_each(|n| take(&mut spares, LARGE, whose(n)));
        assert_eq!(spares.bytes(), LARGE);
        take(&mut spares, LARGE + 1, whose(1));
        assert_eq!(spares.bytes(), 0);
    }
}
