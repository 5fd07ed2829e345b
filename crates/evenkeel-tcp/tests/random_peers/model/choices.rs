//! Choices of a run: drawn from a seed, or taken from the bytes of a fuzzer.
//!
//! Zero is always the plainest choice, so that a short input of a fuzzer is a plain connection.

use evenkeel_base::SplitMix64;
use evenkeel_tcp::time::Duration;

/// The source of all random choices in a run.
#[derive(Debug)]
pub(crate) enum Choices<'a> {
    /// The numbers of a seed.
    Seed(SplitMix64),
    /// The bytes that are left. After the last one all choices are zero.
    Bytes(&'a [u8]),
}

impl Choices<'_> {
    /// Returns the choices of a seed.
    pub(crate) const fn of_seed(seed: u64) -> Self {
        Self::Seed(SplitMix64::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)))
    }

    /// Returns a number from 0 to `n` - 1.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.number(n) % n.max(1)
    }

    fn number(&mut self, n: u64) -> u64 {
        match self {
            Self::Seed(random) => random.next_u64(),
            Self::Bytes(rest) => {
                let bytes = if n <= 0x100 { 1 } else { 4 };
                let (taken, left) = rest.split_at(rest.len().min(bytes));
                *rest = left;
                taken.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
            }
        }
    }

    /// Returns true with this probability in percent.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        percent > 0 && self.below(100) + percent >= 100
    }

    /// Returns one of `items`; the first is the plainest.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    /// Returns a number from `low` to `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns a number from `low` to `high`, each order of magnitude as likely as another.
    pub(crate) fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let low = low.max(1);
        let doublings = u64::from((high / low).max(1).ilog2());
        let step = low << self.below(doublings + 1);
        self.between(step, (step * 2).min(high).max(step))
    }

    /// Returns a time from `low` to `high` microseconds, each order of magnitude as likely as another.
    pub(crate) fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.magnitude(low, high))
    }
}
