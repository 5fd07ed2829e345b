//! Sequence numbers (RFC 9293, 3.4): 32 bits that wrap, so that a number is before another if less than half
//! the circle lies between them.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// The number of a byte in a stream, or of the SYN or FIN.
///
/// There is no `Ord`, because numbers on a circle have none. All arithmetic wraps, whatever a peer sends.
///
/// ```
/// use evenkeel_tcp::SeqNumber;
///
/// let last = SeqNumber::new(u32::MAX);
/// let next = last + 1;
/// assert_eq!(next, SeqNumber::new(0));
/// assert!(last.before(next));
/// assert_eq!((next + 9).since(last), 10);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SeqNumber(u32);

impl SeqNumber {
    /// Creates a number from that of a segment.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number for a segment.
    #[must_use]
    pub const fn to_u32(self) -> u32 {
        self.0
    }

    /// Returns whether `self < other`: less than half the circle lies from `self` up to `other`.
    #[must_use]
    pub const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Returns whether `self > other` on the circle of sequence numbers.
    #[must_use]
    pub const fn after(self, other: Self) -> bool {
        other.before(self)
    }

    /// Returns whether `self <= other` on the circle of sequence numbers.
    #[must_use]
    pub const fn at_or_before(self, other: Self) -> bool {
        self.0 == other.0 || self.before(other)
    }

    /// Returns whether `self >= other` on the circle of sequence numbers.
    #[must_use]
    pub const fn at_or_after(self, other: Self) -> bool {
        other.at_or_before(self)
    }

    /// Returns the later of the two.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }

    /// Returns the earlier of the two.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if other.before(self) { other } else { self }
    }

    /// Returns the number of sequence numbers from `earlier` to `self`; zero if `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        if self.before(earlier) { 0 } else { self.0.wrapping_sub(earlier.0) }
    }

    /// Returns whether `self` is in the window of `size` numbers that begins at `start`: `start <= self <
    /// start + size`.
    #[must_use]
    pub const fn within(self, start: Self, size: u32) -> bool {
        self.0.wrapping_sub(start.0) < size
    }
}

impl Add<u32> for SeqNumber {
    type Output = Self;
    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for SeqNumber {
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

/// Subtracts bytes from a number. [`SeqNumber::since`] returns the distance of two numbers.
impl Sub<u32> for SeqNumber {
    type Output = Self;
    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

impl fmt::Debug for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Sequence numbers from `start` up to `end`, which is not one of them. As in a SACK block (RFC 2018, 3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SeqRange {
    /// The first number.
    pub start: SeqNumber,
    /// The number after the last.
    pub end: SeqNumber,
}

impl SeqRange {
    /// Creates the range from `start` up to `end`.
    #[must_use]
    pub const fn new(start: SeqNumber, end: SeqNumber) -> Self {
        Self { start, end }
    }

    /// Returns the `len` numbers from `start` on.
    #[must_use]
    pub const fn at(start: SeqNumber, len: u32) -> Self {
        Self { start, end: SeqNumber(start.0.wrapping_add(len)) }
    }

    /// Returns the number of sequence numbers in the range; zero if it ends before it starts.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.end.since(self.start)
    }

    /// Returns whether the range has no sequence numbers.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns whether `number` is in the range.
    #[must_use]
    pub const fn contains(self, number: SeqNumber) -> bool {
        number.within(self.start, self.len())
    }

    /// Returns whether all numbers of `other` are in `self`.
    #[must_use]
    pub const fn covers(self, other: Self) -> bool {
        self.start.at_or_before(other.start) && other.end.at_or_before(self.end)
    }

    /// Returns whether the two ranges have a number in common.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        !self.intersection(other).is_empty()
    }

    /// Returns the numbers that are in both; empty if there is none.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self { start: self.start.max(other.start), end: self.end.min(other.end) }
    }
}

impl fmt::Debug for SeqRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}..{:?}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn seq(number: u32) -> SeqNumber {
        SeqNumber::new(number)
    }

    #[test]
    fn the_order_goes_round() {
        assert!(seq(u32::MAX).before(seq(0)));
        assert!(seq(0).after(seq(u32::MAX)));
        assert!(seq(5).at_or_before(seq(5)) && seq(5).at_or_after(seq(5)));
        assert_eq!(seq(u32::MAX).max(seq(3)), seq(3));
        assert_eq!(seq(u32::MAX).min(seq(3)), seq(u32::MAX));
        assert_eq!(seq(3).since(seq(u32::MAX)), 4);
        assert_eq!(seq(u32::MAX).since(seq(3)), 0, "never negative");
    }

    #[test]
    fn a_range_across_zero_has_its_numbers() {
        let range = SeqRange::new(seq(u32::MAX - 1), seq(2));
        assert_eq!(range.len(), 4);
        assert!(range.contains(seq(u32::MAX)) && range.contains(seq(1)));
        assert!(!range.contains(seq(2)) && !range.contains(seq(u32::MAX - 2)));
        assert!(range.covers(SeqRange::at(seq(0), 2)) && !range.covers(SeqRange::at(seq(0), 3)));
    }

    #[test]
    fn ranges_that_touch_do_not_overlap() {
        let range = SeqRange::at(seq(10), 10);
        assert!(!range.overlaps(SeqRange::at(seq(20), 5)) && !range.overlaps(SeqRange::at(seq(5), 5)));
        assert_eq!(range.intersection(SeqRange::at(seq(15), 10)), SeqRange::new(seq(15), seq(20)));
    }

    proptest! {
        #[test]
        fn within_half_the_circle_the_order_is_that_of_the_distances(
            base: u32,
            a in 0u32..1 << 30,
            b in 0u32..1 << 30,
        ) {
            let (x, y) = (seq(base) + a, seq(base) + b);
            prop_assert_eq!(x.before(y), a < b);
            prop_assert_eq!(x.at_or_after(y), a >= b);
            prop_assert_eq!(x.since(y), a.saturating_sub(b));
            prop_assert_eq!(x.within(seq(base), b), a < b);
            prop_assert_eq!(SeqRange::new(x, y).len(), b.saturating_sub(a));
        }

        #[test]
        fn any_two_numbers_compare_without_panic(a: u32, b: u32, len: u32) {
            let range = SeqRange::new(seq(a), seq(b));
            let _ = (range.len(), range.contains(seq(len)), range.overlaps(SeqRange::at(seq(len), len)));
            if a.wrapping_sub(b) != 1 << 31 {
                prop_assert_eq!(seq(a).before(seq(b)), seq(b).after(seq(a)) && a != b);
            }
        }
    }
}
