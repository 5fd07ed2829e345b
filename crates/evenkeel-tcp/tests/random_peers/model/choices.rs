//! Choices of a run: drawn from a seed, or taken from the bytes of a fuzzer.
//!
//! Zero is always the plainest choice, so that a short input of a fuzzer is a plain connection.

use evenkeel_tcp::time::Duration;

/// The source of all random choices in a run.
#[derive(Debug)]
pub(crate) enum Choices<'a> {
    /// `SplitMix64`, with its state.
    Seed(u64),
    /// The bytes that are left. After the last one all choices are zero.
    Bytes(&'a [u8]),
}

impl Choices<'_> {
    /// Returns the choices of a seed.
    pub(crate) const fn of_seed(seed: u64) -> Self {
        Self::Seed(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    /// Returns a number from 0 to `n` - 1.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.number(n) % n.max(1)
    }

    fn number(&mut self, n: u64) -> u64 {
        match self {
            Self::Seed(state) => {
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                mixed ^ (mixed >> 31)
            }
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
