//! Random choices for generated requests. One seed always gives one sequence.

use evenkeel_base::SplitMix64;

/// The random choices of a seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(SplitMix64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a random number below `bound`, or 0 if `bound` is 0. The bias of the remainder does not
    /// matter here.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.remainder(bound as u64) as usize
    }

    /// Returns the random gap before the next event, for events that come at a mean rate of one per unit of
    /// time.
    pub(crate) fn exponential(&mut self) -> f64 {
        // The share has 53 bits, as an `f64` has, and is never 0.
        let share = ((self.roll() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -share.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_at_random_have_the_mean_and_the_deviation_of_one() {
        let mut dice = Dice::new(3);
        let gaps: Vec<f64> = (0..100_000).map(|_| dice.exponential()).collect();
        let mean = gaps.iter().sum::<f64>() / 1e5;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.02 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
        assert!(gaps.iter().all(|gap| *gap >= 0.0 && gap.is_finite()));
        assert!((0..1_000).all(|_| dice.below(7) < 7));
        assert_eq!(dice.below(0), 0);
    }
}
