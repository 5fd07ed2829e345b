//! A trace of a run as one number, which is equal for two runs with one seed.

use evenkeel_core::time::Instant;

/// A running hash over all observable events, in order (64-bit FNV-1a), and the last events in words for a
/// failure report.
#[derive(Debug, Clone)]
pub struct Trace {
    hash: u64,
    events: u64,
    recent: std::collections::VecDeque<(Instant, &'static str, [u64; 3])>,
}

/// The number of events kept in words.
const RECENT: usize = 64;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

impl Default for Trace {
    fn default() -> Self {
        Self { hash: FNV_OFFSET, events: 0, recent: std::collections::VecDeque::with_capacity(RECENT) }
    }
}

impl Trace {
    /// Creates an empty trace.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that `what` happened, with up to three numbers that distinguish it from others of its kind.
    pub fn record(&mut self, now: Instant, what: &'static str, numbers: [u64; 3]) {
        self.mix(&now.as_nanos().to_le_bytes());
        self.mix(what.as_bytes());
        for number in numbers {
            self.mix(&number.to_le_bytes());
        }
        self.events += 1;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((now, what, numbers));
    }

    /// Records the contents of a frame.
    pub fn record_bytes(&mut self, now: Instant, what: &'static str, bytes: &[u8]) {
        self.mix(bytes);
        self.record(now, what, [bytes.len() as u64, 0, 0]);
    }

    fn mix(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
    }

    /// Returns the hash of everything recorded so far.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the number of recorded events.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Returns the last events, oldest first, one line each.
    #[must_use]
    pub fn recent(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        for (at, what, [a, b, c]) in &self.recent {
            let _ = writeln!(text, "{at:?} {what} {a} {b} {c}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_time_and_contents_all_count() {
        let hash = |events: &[(u64, &'static str, u64)]| {
            let mut trace = Trace::new();
            for &(at, what, n) in events {
                trace.record(Instant::from_nanos(at), what, [n, 0, 0]);
            }
            trace.hash()
        };
        let one = hash(&[(1, "a", 1), (2, "b", 2)]);
        assert_eq!(one, hash(&[(1, "a", 1), (2, "b", 2)]));
        for other in [
            hash(&[(2, "b", 2), (1, "a", 1)]),
            hash(&[(1, "a", 1), (3, "b", 2)]),
            hash(&[(1, "a", 1), (2, "b", 3)]),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn keeps_the_last_events_in_words() {
        let mut trace = Trace::new();
        for n in 0..100 {
            trace.record(Instant::from_nanos(n), "tick", [n, 0, 0]);
        }
        let recent = trace.recent();
        assert_eq!(recent.lines().count(), RECENT);
        assert!(recent.ends_with("tick 99 0 0\n"));
    }
}
