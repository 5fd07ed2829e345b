//! Random numbers of a seed, with integer arithmetic only, so that a run is equal on every machine.

use evenkeel_base::SplitMix64;
use evenkeel_timers::Duration;

/// A generator of random numbers over [`SplitMix64`]. Any two seeds give unrelated sequences.
///
/// ```
/// use evenkeel_timers::Duration;
/// use evenkeel_wan::{Ratio, Rng};
///
/// let mut rng = Rng::new(7);
/// let heads = (0..1_000).filter(|_| rng.chance(Ratio::new(1, 2))).count();
/// assert!((400..600).contains(&heads));
/// assert!(rng.exponential(Duration::from_millis(10)) < Duration::from_secs(1));
/// ```
#[derive(Debug, Clone)]
pub struct Rng {
    bits: SplitMix64,
}

/// A probability, or another small number, as a fraction. Unlike a float it is exact, and equal on every
/// machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    numerator: u32,
    denominator: u32,
}

impl Ratio {
    /// The probability of an event that never happens.
    pub const ZERO: Self = Self::new(0, 1);

    /// Creates the ratio `numerator` out of `denominator`. A denominator of 0 counts as 1.
    #[must_use]
    pub const fn new(numerator: u32, denominator: u32) -> Self {
        Self { numerator, denominator: if denominator == 0 { 1 } else { denominator } }
    }

    /// Returns the number above the line.
    #[must_use]
    pub const fn numerator(self) -> u32 {
        self.numerator
    }

    /// Returns the number below the line.
    #[must_use]
    pub const fn denominator(self) -> u32 {
        self.denominator
    }

    /// Creates the ratio `percent` out of a hundred.
    #[must_use]
    pub const fn percent(percent: u32) -> Self {
        Self::new(percent, 100)
    }
}

impl Rng {
    /// Creates the generator of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { bits: SplitMix64::new(seed) }
    }

    /// Returns a new generator for one part of a simulation. A change in that part does not change the random
    /// numbers of the others.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.bits.next_u64()
    }

    /// Returns a number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Returns a number from `low` to `high`, each order of magnitude about as likely as any other.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let low = low.max(1);
        let doublings = (high / low).max(1).ilog2();
        let base = low << self.between(0, u64::from(doublings));
        self.between(base, (base * 2).min(high).max(base))
    }

    /// Returns true with probability `ratio`.
    pub fn chance(&mut self, ratio: Ratio) -> bool {
        ratio.numerator > 0 && self.below(u64::from(ratio.denominator)) < u64::from(ratio.numerator)
    }

    /// Returns one of the items, or `None` if there are none.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }

    /// Returns a duration in `0..=most`, each nanosecond as likely as any other.
    pub fn duration(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.between(0, most.as_nanos() as u64))
    }

    /// Returns an exponentially distributed duration: the gap between two events of a Poisson process with
    /// that mean gap.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        let nats = minus_ln(self.next_u64() | 1);
        Duration::from_nanos(((mean.as_nanos() * nats) >> FRACTION_BITS) as u64)
    }

    /// Returns a geometrically distributed count, at least 1, with mean `denominator / numerator` of
    /// `stop`.
    pub fn geometric(&mut self, stop: Ratio) -> u32 {
        let mut count = 1;
        while count < GEOMETRIC_MAX && !self.chance(stop) {
            count += 1;
        }
        count
    }
}

/// A bound, should somebody ask for a stop probability of zero.
const GEOMETRIC_MAX: u32 = 1 << 16;

const FRACTION_BITS: u32 = 32;
/// ln 2 in units of 2^-32.
const LN_2: u128 = 2_977_044_472;

/// Returns `-ln(u / 2^64)` in units of 2^-32, for `u > 0`, with integers only: libm's logarithm may differ
/// from machine to machine.
fn minus_ln(u: u64) -> u128 {
    let whole = u128::from(63 - u.leading_zeros());
    // The mantissa in [1, 2), with 63 fraction bits; each squaring yields one more bit of its binary
    // logarithm.
    let mut mantissa = u << u.leading_zeros();
    let mut fraction = 0_u128;
    for _ in 0..FRACTION_BITS {
        let square = u128::from(mantissa) * u128::from(mantissa);
        let at_least_two = square >> 127 != 0;
        mantissa = (square >> if at_least_two { 64 } else { 63 }) as u64;
        fraction = fraction << 1 | u128::from(at_least_two);
    }
    let log2 = (whole << FRACTION_BITS) | fraction;
    (((64 << FRACTION_BITS) - log2) * LN_2) >> FRACTION_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_numbers() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            let mut fork = rng.fork();
            (rng.next_u64(), fork.next_u64(), fork.below(10))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn logarithm_agrees_with_the_real_one() {
        for u in [1, 2, 3, 1 << 20, u64::MAX / 3, u64::MAX / 2, u64::MAX] {
            let expected = -(u as f64 / 2_f64.powi(64)).ln();
            let got = minus_ln(u) as f64 / 2_f64.powi(32);
            assert!((got - expected).abs() < 1e-8, "{u}: {got} instead of {expected}");
        }
    }

    #[test]
    fn exponential_gaps_have_their_mean_and_variance() {
        let mut rng = Rng::new(1);
        let draws: Vec<f64> =
            (0..100_000).map(|_| rng.exponential(Duration::from_micros(100)).as_nanos() as f64).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!((mean - 1e5).abs() < 1e3, "{mean}");
        assert!((variance.sqrt() - 1e5).abs() < 2e3, "{}", variance.sqrt());
    }

    #[test]
    fn ratios_hold() {
        let mut rng = Rng::new(2);
        let hits = (0..100_000).filter(|_| rng.chance(Ratio::percent(25))).count();
        assert!((24_500..25_500).contains(&hits), "{hits}");
        assert!(!rng.chance(Ratio::ZERO));
        let mean = (0..10_000).map(|_| f64::from(rng.geometric(Ratio::new(1, 4)))).sum::<f64>() / 1e4;
        assert!((mean - 4.0).abs() < 0.2, "{mean}");
        assert!((0..1000).all(|_| (5..=7).contains(&rng.between(5, 7))));
    }
}
