//! RACK: a segment is lost when one that was sent later has arrived, and the time for reordering is over (RFC
//! 8985, 6).

use super::scoreboard::{Position, Scoreboard, Segment};
use crate::time::{Duration, Instant, nanos};

/// The state of RFC 8985, 5.2.
#[derive(Debug)]
pub(super) struct Rack {
    /// `RACK.xmit_ts` and `RACK.end_seq`: of all segments that arrived, the one sent last.
    /// At the beginning of time if none has.
    newest: (Instant, Position),
    /// `RACK.rtt`: of the segment that arrived last.
    rtt_nanos: u64,
    /// `RACK.fack`: the end of the highest segment that arrived.
    fack: Position,
    reordering_seen: bool,
    /// `RACK.reo_wnd_mult`: in quarters of the shortest round trip.
    window_mult: u8,
    /// `RACK.reo_wnd_persist`: for how many recoveries more it stays.
    window_persist: u8,
    /// `RACK.dsack_round`: until this is acknowledged a further DSACK does not count.
    /// Zero if none came.
    dsack_round: Position,
    /// The time at which the next segment counts as lost (6.3); [`Instant::NEVER`] if none is overdue.
    pub(super) reordering_at: Instant,
}

/// The round-trip times on which step 4 depends in addition to RACK's state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    pub(super) min_rtt: Option<Duration>,
    pub(super) srtt: Option<Duration>,
}

impl Rack {
    /// `DupThresh` of RFC 5681.
    const DUP_THRESH: u32 = 3;
    /// Recoveries after which a widened window shrinks again (section 3.3.2).
    const PERSISTENCE: u8 = 16;
    /// Longer than any path needs: four round trips.
    const MULT_MAX: u8 = 16;

    pub(super) fn new() -> Self {
        Self {
            newest: (Instant::ZERO, 0),
            rtt_nanos: 0,
            fack: 0,
            reordering_seen: false,
            window_mult: 1,
            window_persist: 0,
            dsack_round: 0,
            reordering_at: Instant::NEVER,
        }
    }

    /// Steps 2 and 3: a segment has arrived, after `rtt` nanoseconds. `echoed` is when the segment was sent
    /// that the acknowledgment's timestamp tells of.
    pub(super) fn on_delivered(
        &mut self,
        segment: &Segment,
        rtt: u64,
        min_rtt: Option<u64>,
        echoed: Option<Instant>,
    ) {
        if segment.end() > self.fack {
            self.fack = segment.end();
        } else if segment.end() < self.fack && !segment.retransmitted {
            self.reordering_seen = true;
        }
        if segment.retransmitted {
            // The acknowledgment may be for an earlier transmission: the timestamp says so, or it came too
            // soon.
            let for_earlier = echoed.is_some_and(|echoed| echoed < segment.sent_at);
            if for_earlier || min_rtt.is_some_and(|min| rtt < min) {
                return;
            }
        }
        self.rtt_nanos = rtt;
        let sent = (segment.sent_at, segment.end());
        self.newest = self.newest.max(sent);
    }

    /// Step 4, DSACK: something was sent again in vain, so more patience is due. `una` and `nxt` as they are
    /// now.
    pub(super) fn on_dsack(&mut self, una: Position, nxt: Position) {
        if una >= self.dsack_round {
            self.dsack_round = nxt;
            self.window_mult = (self.window_mult + 1).min(Self::MULT_MAX);
            self.window_persist = Self::PERSISTENCE;
        }
    }

    /// Records that a fast or timeout recovery is over (step 4).
    pub(super) fn on_recovered(&mut self) {
        self.window_persist = self.window_persist.saturating_sub(1);
        if self.window_persist == 0 {
            self.window_mult = 1;
        }
    }

    /// Returns the time and the end of the most recently sent segment known to have arrived:
    /// `RACK.segment`.
    pub(super) fn newest(&self) -> Option<(Instant, Position)> {
        (self.newest.1 > 0).then_some(self.newest)
    }

    /// Marks segments as lost by their times (6.2, step 5), and sets the timer. Returns the number of bytes
    /// newly lost.
    pub(super) fn detect(
        &mut self,
        board: &mut Scoreboard,
        path: Path,
        in_recovery: bool,
        now: Instant,
    ) -> u32 {
        self.reordering_at = Instant::NEVER;
        let Some(newest) = self.newest().filter(|newest| !board.is_sent_since(*newest)) else {
            return 0;
        };
        let patience = self.patience(path, in_recovery, board.sacked_segments());
        let (lost, next) = board.detect_overdue(newest, patience, now);
        self.reordering_at = next.unwrap_or(Instant::NEVER);
        lost
    }

    /// Returns how long after its transmission a segment counts as lost: a round trip and the reordering
    /// window (step 4, step 5).
    pub(super) fn patience(&self, path: Path, in_recovery: bool, sacked_segments: u32) -> Duration {
        let window = self.reordering_window(path, in_recovery, sacked_segments);
        Duration::from_nanos(self.rtt_nanos.saturating_add(window))
    }

    /// Returns the reordering window in nanoseconds.
    fn reordering_window(&self, path: Path, in_recovery: bool, sacked_segments: u32) -> u64 {
        if !self.reordering_seen && (in_recovery || sacked_segments >= Self::DUP_THRESH) {
            return 0;
        }
        let quarter = nanos(path.min_rtt.unwrap_or_default()) / 4;
        let window = quarter.saturating_mul(u64::from(self.window_mult));
        path.srtt.map_or(window, |srtt| window.min(nanos(srtt)))
    }

    pub(super) fn reordering_seen(&self) -> bool {
        self.reordering_seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_patience_stays_for_sixteen_recoveries() {
        let mut rack = Rack::new();
        rack.on_dsack(0, 10);
        rack.on_dsack(5, 20);
        assert_eq!(rack.window_mult, 2, "once a round trip");
        for _ in 1..Rack::PERSISTENCE {
            rack.on_recovered();
            assert_eq!(rack.window_mult, 2);
        }
        rack.on_recovered();
        assert_eq!(rack.window_mult, 1);
    }
}
