//! The initial sequence numbers and timestamp offsets of connections.

use super::secret::{Purpose, Secret};
use super::seq::SeqNumber;
use super::tuple::FourTuple;
use crate::time::Instant;

/// RFC 9293, 3.4.1: the clock behind initial sequence numbers ticks about every 4 µs.
const TICK_NANOS: u64 = 4_000;
const TIMESTAMP_TICK_NANOS: u64 = 1_000_000;

/// Gives initial sequence numbers: `ISN = M + F(local, remote, secret)` (RFC 6528, 3).
///
/// Two connections between the same sockets follow each other on the clock `M`; those between other sockets
/// say nothing about it.
#[derive(Debug, Clone, Copy)]
pub struct InitialSequence(Secret);

impl InitialSequence {
    /// Creates numbers that only the holder of `secret` can predict.
    #[must_use]
    pub const fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// Returns the initial sequence number of a connection that begins at `now`.
    ///
    /// `previous` is `SND.NXT` of an incarnation that is still in TIME-WAIT: the new one then begins behind
    /// it, even if the old one sent faster than the clock ticks (RFC 9293, 3.4.1 and 3.10.7.4; RFC 6191, 2).
    #[must_use]
    pub fn next(&self, tuple: &FourTuple, now: Instant, previous: Option<SeqNumber>) -> SeqNumber {
        let ticks = now.as_nanos() / TICK_NANOS;
        let offset = self.0.tuple_hash(Purpose::InitialSequence, tuple, 0);
        let number = SeqNumber::new(ticks.wrapping_add(offset) as u32);
        previous.map_or(number, |previous| number.max(previous + 1))
    }

    /// Returns TSval at `now`: a clock that ticks every millisecond (RFC 7323, 5.4: 1 ms to 1 s), ahead by
    /// [`timestamp_offset`](Self::timestamp_offset).
    #[must_use]
    pub fn timestamp(&self, tuple: &FourTuple, now: Instant) -> u32 {
        let ticks = now.as_nanos() / TIMESTAMP_TICK_NANOS;
        (ticks as u32).wrapping_add(self.timestamp_offset(tuple))
    }

    /// Returns the offset of these sockets' timestamp clock from the host's. Each incarnation of a
    /// connection has one offset, so the timestamps of a later incarnation are later (RFC 7323, 5.8; RFC
    /// 6191, 2). The offset does not reveal the number of our connections or the time since our start (RFC
    /// 7323, 7.1).
    #[must_use]
    pub fn timestamp_offset(&self, tuple: &FourTuple) -> u32 {
        self.0.tuple_hash(Purpose::TimestampOffset, tuple, 0) as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::Duration;
    use crate::tuple::tests::tuple;

    fn numbers() -> InitialSequence {
        InitialSequence::new(Secret::new([3; 16]))
    }

    #[test]
    fn the_clock_ticks_every_4_us() {
        let (t, start) = (tuple(1), Instant::from_millis(77));
        let first = numbers().next(&t, start, None);
        assert_eq!(numbers().next(&t, start + Duration::from_nanos(3_999), None), first);
        assert_eq!(numbers().next(&t, start + Duration::from_micros(4), None), first + 1);
        // After 4.77 hours the clock has gone round.
        assert_eq!(numbers().next(&t, start + Duration::from_micros(4 << 32), None), first);
    }

    #[test]
    fn other_sockets_or_another_secret_are_elsewhere() {
        let of = |secret: u8, n| {
            InitialSequence::new(Secret::new([secret; 16])).next(&tuple(n), Instant::ZERO, None)
        };
        let mut all: Vec<u32> = (0..100).flat_map(|n| [of(1, n), of(2, n)]).map(SeqNumber::to_u32).collect();
        all.sort_unstable();
        let closest = all.windows(2).map(|pair| pair[1] - pair[0]).min();
        assert!(closest > Some(1_000), "{closest:?}");
    }

    #[test]
    fn timestamps_tick_every_millisecond_from_anywhere() {
        let (t, start) = (tuple(1), Instant::from_millis(5));
        let first = numbers().timestamp(&t, start);
        assert_eq!(numbers().timestamp(&t, start + Duration::from_nanos(999_999)), first);
        assert_eq!(numbers().timestamp(&t, start + Duration::from_millis(1)), first.wrapping_add(1));
        assert!(numbers().timestamp(&tuple(2), start).abs_diff(first) > 1_000);
        assert_ne!(first.wrapping_sub(5), numbers().next(&t, Instant::ZERO, None).to_u32(), "another hash");
    }

    /// One bit of any of the four changes about half of the bits of the number.
    #[test]
    fn every_part_of_the_tuple_counts() {
        let base = tuple(5);
        let mut others = [base; 4];
        others[0].local.port ^= 1;
        others[1].remote.port ^= 1;
        others[2].local.addr = tuple(6).remote.addr;
        others[3].remote.addr = tuple(6).remote.addr;
        let of = |tuple: &FourTuple| numbers().next(tuple, Instant::ZERO, None).to_u32();
        for other in others {
            assert!((6..=26).contains(&(of(&base) ^ of(&other)).count_ones()), "{other}");
        }
    }

    proptest! {
        #[test]
        fn a_new_incarnation_begins_behind_the_old_one(n: u16, nanos: u64, previous: u32) {
            let previous = SeqNumber::new(previous);
            let next = numbers().next(&tuple(n), Instant::from_nanos(nanos), Some(previous));
            prop_assert!(next.after(previous));
        }
    }
}
