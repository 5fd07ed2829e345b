//! Whether sockets are flooded: the decision to give an interface's threads less of the core.

use evenkeel::raw::time::{Duration, Instant};

/// The time between two looks.
const PERIOD: Duration = Duration::from_millis(100);
/// A flood counts as over so long after the last period in which sockets were full. Then the threads get
/// their whole weight, and the next look says whether they flood again: threads of little weight leave most
/// of a flood to the device, where nobody sees it.
const HOLD: Duration = Duration::from_secs(1);
/// The part of its datagrams that sockets cannot take at least in a period of a flood: one in ten.
const PART: u64 = 10;
/// The number of datagrams that they cannot take at least, which is 1000 a second.
const LEAST: u64 = 100;

/// The account of floods.
#[derive(Debug)]
pub(super) struct Flood {
    /// The datagrams that had passed and were dropped, at the last look.
    seen: [u64; 2],
    looked: Instant,
    until: Instant,
    seconds: f64,
}

impl Flood {
    pub(super) fn new(now: Instant) -> Self {
        Self { seen: [0; 2], looked: now, until: now, seconds: 0.0 }
    }

    /// Returns when to look next.
    pub(super) fn next(&self) -> Instant {
        self.looked + PERIOD
    }

    /// Returns for how long there have been floods, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Looks at how many datagrams have passed and were dropped since the beginning. Returns whether sockets
    /// are flooded.
    pub(super) fn look(&mut self, now: Instant, counts: [u64; 2]) -> bool {
        if self.looked < self.until {
            self.seconds += now.since(self.looked).as_secs_f64();
        }
        let [passed, dropped] = counts;
        let [passed_before, dropped_before] = self.seen;
        let (passed, dropped) = (passed - passed_before, dropped - dropped_before);
        if dropped >= LEAST && PART * dropped >= passed + dropped {
            self.until = now + HOLD;
        }
        (self.seen, self.looked) = (counts, now);
        now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at the times and counts of a table, with whether a flood is on then.
    fn follow(flood: &mut Flood, table: &[(u64, [u64; 2], bool)]) {
        for &(ms, counts, is_on) in table {
            let now = Instant::ZERO + Duration::from_millis(ms);
            assert_eq!(flood.look(now, counts), is_on, "{ms} ms: {flood:?}");
        }
    }

    #[test]
    fn a_flood_lasts_for_a_second_after_the_last_full_socket() {
        let mut flood = Flood::new(Instant::ZERO);
        assert_eq!(flood.next(), Instant::ZERO + PERIOD);
        follow(
            &mut flood,
            &[
                (100, [50_000, 0], false),
                (200, [60_000, 20_000], true),
                (300, [90_000, 20_000], true),
                (1_199, [90_000, 20_000], true),
                (1_200, [90_000, 20_000], false),
                (1_300, [90_000, 20_100], true),
            ],
        );
        assert!((flood.seconds() - 1.0).abs() < 1e-9, "{}", flood.seconds());
    }

    #[test]
    fn few_drops_are_no_flood() {
        let mut flood = Flood::new(Instant::ZERO);
        // Ninety-nine of a hundred, fewer than one in ten, and a hundred of a hundred.
        follow(
            &mut flood,
            &[(100, [1, 99], false), (200, [10_000, 1_099], false), (300, [10_000, 1_199], true)],
        );
    }
}
