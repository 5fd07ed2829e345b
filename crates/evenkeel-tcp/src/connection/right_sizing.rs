//! The size of the receive buffer ("dynamic right-sizing", Fisk and Feng, 2001).

use crate::time::{Duration, Instant, nanos};

/// The limit on the receive buffer, and the user's reads from which it follows.
#[derive(Debug)]
pub(super) struct RightSizing {
    /// The bytes that the receive buffer may hold.
    pub(super) limit: u32,
    /// The bytes read since `since`.
    read: u32,
    since: Instant,
}

impl RightSizing {
    /// The assumed round-trip time before one is measured, in nanoseconds.
    const ROUND_TRIP_NANOS: u64 = nanos(Duration::from_millis(1));

    pub(super) const fn new(limit: u32, now: Instant) -> Self {
        Self { limit, read: 0, since: now }
    }

    /// Begins to measure: the connection is established.
    pub(super) const fn start(&mut self, now: Instant) {
        self.since = now;
    }

    /// Records that the user has read `len` bytes. Grows the buffer to twice the bytes that the user reads
    /// in a round trip, so that it never limits the sender, and to at most `most` bytes; `None` if it is not
    /// to grow.
    pub(super) fn on_read(&mut self, len: usize, srtt_nanos: Option<u64>, most: Option<u32>, now: Instant) {
        let round_trip = srtt_nanos.unwrap_or(Self::ROUND_TRIP_NANOS);
        self.read = self.read.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
        let passed = now.nanos_since(self.since);
        if let Some(most) = most.filter(|_| passed <= round_trip.saturating_mul(2)) {
            self.limit = self.limit.max(self.read.saturating_mul(2).min(most));
        }
        if passed >= round_trip {
            self.read = 0;
            self.since = now;
        }
    }
}
