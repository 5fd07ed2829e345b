//! Random numbers from a seed. One seed gives one sequence on every machine.

use core::time::Duration;

/// The amount by which the state grows with each number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The generator SplitMix64 (Steele, Lea and Flood, 2014).
///
/// Small and fast; any two seeds give unrelated sequences. An attacker who sees a number can predict the
/// following ones.
///
/// ```
/// use evenkeel_base::SplitMix64;
///
/// let mut dice = SplitMix64::new(42);
/// assert!((0..1_000).all(|_| dice.remainder(6) < 6));
/// // Any number of the sequence is known without those before it.
/// let first = SplitMix64::new(7).next_u64();
/// assert_eq!(SplitMix64::new(7).nth(0), first);
/// ```
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Creates the generator of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Returns the number that comes after `n` others, without a step towards it.
    #[inline]
    #[must_use]
    pub const fn nth(&self, n: u64) -> u64 {
        mix(self.0.wrapping_add(n.wrapping_add(1).wrapping_mul(STEP)))
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0: the remainder of the next number, so low
    /// numbers are a little more frequent if `bound` is large.
    #[inline]
    pub const fn remainder(&mut self, bound: u64) -> u64 {
        let number = self.next_u64();
        if bound == 0 { 0 } else { number % bound }
    }

    /// Returns a time from zero to `longest`.
    pub fn up_to(&mut self, longest: Duration) -> Duration {
        let nanos = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.remainder(nanos.saturating_add(1)))
    }
}

/// Returns a number that depends on every bit of the state.
const fn mix(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the authors' generator with seed 0.
    #[test]
    fn numbers_are_those_of_the_authors() {
        let mut random = SplitMix64::new(0);
        let numbers = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        assert_eq!([0, 1, 2].map(|n| random.nth(n)), numbers);
        assert_eq!([(); 3].map(|()| random.next_u64()), numbers);
        let (mut remainders, nanos) = (SplitMix64::new(0), numbers[1] % 1_001);
        assert_eq!(
            (remainders.remainder(1_000), remainders.up_to(Duration::from_micros(1))),
            (numbers[0] % 1_000, Duration::from_nanos(nanos))
        );
        assert_eq!((remainders.remainder(0), remainders.up_to(Duration::ZERO)), (0, Duration::ZERO));
        // The widest range has no remainder to take but that of u64::MAX itself.
        assert_eq!(SplitMix64::new(0).up_to(Duration::MAX), Duration::from_nanos(numbers[0]));
    }
}
