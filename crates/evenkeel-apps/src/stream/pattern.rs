//! Bytes that are made up, and known to who receives them.

/// Bytes after which the pattern begins anew: a prime, so that no segment, buffer or page is a multiple of
/// it, and nothing that is lost, doubled or moved by such a length goes unnoticed.
const PERIOD: usize = 65_521;
/// What is given at a time at least.
const RUN: usize = 16 << 10;

/// An endless row of bytes that look random, and that a seed tells.
#[derive(Debug, Clone)]
pub struct Pattern {
    bytes: Box<[u8]>,
}

impl Pattern {
    /// The pattern of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // SplitMix64 (Steele, Lea and Flood, 2014).
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut bits = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            bits ^ (bits >> 31)
        };
        let mut bytes: Vec<u8> =
            core::iter::repeat_with(|| next().to_le_bytes()).flatten().take(PERIOD).collect();
        // So that a run may begin anywhere.
        bytes.extend_from_within(..RUN);
        Self { bytes: bytes.into_boxed_slice() }
    }

    /// The bytes from a place on: 16 KiB at least.
    #[must_use]
    pub fn from(&self, place: u64) -> &[u8] {
        let place = (place % PERIOD as u64) as usize;
        self.bytes.get(place..).unwrap_or_default()
    }

    /// Whether `bytes` are those from a place on.
    #[must_use]
    pub fn is(&self, mut place: u64, bytes: &[u8]) -> bool {
        bytes.chunks(RUN).all(|run| {
            let expected = self.from(place).get(..run.len());
            place += run.len() as u64;
            expected == Some(run)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_same_wherever_it_is_begun_to_be_read() {
        let pattern = Pattern::new(7);
        let all: Vec<u8> = (0..200_000).map(|place| pattern.from(place)[0]).collect();
        for begin in [0, 1, 40_000, 65_520, 65_521, 131_041, 150_000] {
            assert!(pattern.is(begin as u64, &all[begin..begin + 50_000]));
            assert!(!pattern.is(begin as u64 + 1, &all[begin..begin + 50_000]));
        }
        assert_ne!(all[..99], Pattern::new(8).from(0)[..99]);
    }
}
