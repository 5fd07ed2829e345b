//! Tail loss probes (RFC 8985, 7): when acknowledgments stay away, one segment asks for one.

use super::scoreboard::Position;
use crate::time::{Duration, Instant, nanos};

/// The state of section 7.
#[derive(Debug)]
pub(super) struct TailLoss {
    /// The time at which the probe leaves: `PTO`.
    pub(super) at: Instant,
    /// The timer expired, and the probe has not left yet.
    pub(super) due: bool,
    /// `TLP.end_seq` and `TLP.is_retrans`.
    episode: Option<(Position, bool)>,
    /// A probe has left, and no round trip was measured since.
    unmeasured: bool,
}

/// The result of a probe, as an acknowledgment shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing yet, or there is no probe.
    Open,
    /// Nothing was lost, or what was lost shows by other signs.
    NoLoss,
    /// The probe replaced what was lost: that was congestion (section 7.4).
    Repaired,
}

impl TailLoss {
    /// The least there is to two round trips (Linux, `TCP_TIMEOUT_MIN`): on a path of microseconds a host
    /// that was busy for a while is not a loss.
    const PTO_MIN_NANOS: u64 = nanos(Duration::from_millis(2));

    pub(super) fn new() -> Self {
        Self { at: Instant::NEVER, due: false, episode: None, unmeasured: false }
    }

    /// Schedules the probe (section 7.2). `srtt` is smoothed, in nanoseconds; `alone` if a single segment
    /// is in flight, whose acknowledgment may be delayed by `ack_delay`.
    pub(super) fn schedule(
        &mut self,
        now: Instant,
        srtt: Option<u64>,
        alone: bool,
        ack_delay: Duration,
        rto_at: Instant,
    ) {
        let timeout = match srtt.map(|srtt| srtt.saturating_mul(2)) {
            Some(twice) if alone => twice.saturating_add(nanos(ack_delay)),
            Some(twice) => twice.max(Self::PTO_MIN_NANOS),
            None => nanos(Duration::from_secs(1)),
        };
        self.at = now.plus_nanos(timeout).min(rto_at);
    }

    pub(super) fn cancel(&mut self) {
        self.at = Instant::NEVER;
    }

    pub(super) const fn in_episode(&self) -> bool {
        self.episode.is_some()
    }

    /// Returns whether a probe may be sent (section 7.3): none is in flight, and a round trip was measured
    /// since the last. If not, the retransmission timer is to be used, which backs off.
    pub(super) fn may_probe(&self) -> bool {
        self.episode.is_none() && !self.unmeasured
    }

    /// Records that a round trip was measured.
    pub(super) fn on_sample(&mut self) {
        self.unmeasured = false;
    }

    /// Returns whether the probe was a retransmission that ended at `end`.
    pub(super) fn ends_at(&self, end: Position) -> bool {
        self.episode == Some((end, true))
    }

    /// Records that the probe has left (section 7.3). `nxt` is the next position after it.
    pub(super) fn on_probe(&mut self, nxt: Position, retransmission: bool) {
        self.due = false;
        self.cancel();
        self.episode = Some((nxt, retransmission));
        self.unmeasured = true;
    }

    /// Forgets the probe, because the retransmission timer expired or a recovery began. Both judge losses
    /// themselves.
    pub(super) fn forget(&mut self) {
        *self = Self { unmeasured: self.unmeasured, ..Self::new() };
    }

    /// Section 7.4.2. `una` is what is acknowledged now, `dsack` the end of the range that arrived twice,
    /// `bare` if the acknowledgment repeats the last one, with nothing else in it; that nothing is
    /// outstanding any more makes no difference here.
    pub(super) fn on_ack(&mut self, una: Position, dsack: Option<Position>, bare: bool) -> Verdict {
        let Some((end, retransmission)) = self.episode else { return Verdict::Open };
        if una < end {
            return Verdict::Open;
        }
        let verdict = if !retransmission || dsack == Some(end) {
            Verdict::NoLoss
        } else if una > end {
            Verdict::Repaired
        } else if bare {
            Verdict::NoLoss
        } else {
            return Verdict::Open;
        };
        self.episode = None;
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 7.3: a sender "MUST skip sending a loss probe" unless it has measured a round trip since the
    /// last one.
    #[test]
    fn after_a_probe_the_next_waits_for_a_round_trip_to_be_measured_whatever_ends_the_episode() {
        let mut tail = TailLoss::new();
        assert!(tail.may_probe());
        tail.on_probe(Position::default(), true);
        tail.forget();
        assert!(!tail.in_episode() && !tail.may_probe());
        tail.on_sample();
        assert!(tail.may_probe());
    }

    #[test]
    fn on_a_path_of_microseconds_a_probe_waits_for_milliseconds() {
        let (mut tail, now) = (TailLoss::new(), Instant::from_millis(5));
        for (srtt, wait) in [(0, 2_000), (50, 2_000), (999, 2_000), (1_500, 3_000)] {
            let rto_at = now + Duration::from_millis(200);
            tail.schedule(now, Some(srtt * 1_000), false, Duration::ZERO, rto_at);
            assert_eq!(tail.at, now + Duration::from_micros(wait), "{srtt} us");
        }
    }
}
