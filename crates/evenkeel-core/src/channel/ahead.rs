//! The bound on the messages that a host processes ahead of frames that arrived after them.
//!
//! Frames in different channels have no order. Yet a neighbour that changes its hardware address may send a
//! packet right behind the announcement, and the answer must not go to the old address (RFC 4861 7.2.3,
//! 7.2.5, RFC 826). A router that reports a smaller path MTU has the same need. So before a frame is
//! dequeued, the messages that wait in these channels are processed, and the process that dequeues the
//! frame is charged for it. A flood of such messages cannot exploit this: of each kind one message is
//! allowed for each frame that the host passes on, plus one a millisecond, in bursts of at most 64. Further
//! messages wait for their daemon, as all control traffic does.

use crate::interface::Arrived;
use crate::time::{Duration, Instant};

/// Messages that can be processed ahead at once: a router that takes over many addresses announces each.
const BURST: u64 = 64;
/// So often one more may be, even if nothing else is received.
const INTERVAL: Duration = Duration::from_millis(1);

/// Counters of the messages that were processed ahead of other frames, and of the frames that overtook one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AheadCounters {
    /// Messages that change how to send, processed before a frame that came after them.
    pub processed: u64,
    /// Frames, or bursts of them, that were dequeued before such a message because its budget was used up.
    pub overtook: u64,
}

/// Messages that may still be processed ahead, of one kind.
#[derive(Debug, Clone, Copy)]
struct Budget(u64);

/// The state that decides whether neighbour and path MTU messages are processed ahead of other frames.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// The flag that such a message may wait. Interfaces that fill channels set it, too.
    may_wait: Arrived,
    /// Of neighbours, and of path MTUs: those from far away take nothing from those on the link.
    budgets: [Budget; 2],
    /// Until when time has been turned into messages.
    earned_until: Instant,
    /// Frames that had gone their way when that was last asked.
    passed: u64,
    pub(crate) counters: AheadCounters,
}

impl Ahead {
    pub(crate) fn new() -> Self {
        Self {
            may_wait: Arrived::default(),
            budgets: [Budget(BURST); 2],
            earned_until: Instant::ZERO,
            passed: 0,
            counters: AheadCounters { processed: 0, overtook: 0 },
        }
    }

    /// Returns whether a neighbour or path MTU message may wait in its channel.
    #[inline(always)]
    pub(crate) fn may_wait(&self) -> bool {
        self.may_wait.is_set()
    }

    /// Returns the flag that an interface sets when it puts such a message into its channel.
    pub(crate) fn flag(&self) -> Arrived {
        self.may_wait.clone()
    }

    /// Records that a message may wait.
    pub(crate) fn expect(&self) {
        self.may_wait.set();
    }

    /// Records that no message waits but for those that the caller finds now.
    pub(crate) fn settle(&self) {
        self.may_wait.clear();
    }

    /// Adds to the budgets before a frame is dequeued: one message, one for each frame passed on since the
    /// last call, and one for each millisecond. `passed` is the number of frames passed on since the
    /// beginning.
    pub(crate) fn begin(&mut self, passed: u64, now: Instant) {
        let interval = INTERVAL.as_nanos() as u64;
        let intervals = now.nanos_since(self.earned_until) / interval;
        self.earned_until += Duration::from_nanos(intervals * interval);
        let earned = intervals + passed.saturating_sub(self.passed) + 1;
        self.passed = passed;
        for budget in &mut self.budgets {
            budget.0 = budget.0.saturating_add(earned).min(BURST);
        }
    }

    /// Takes one message of `kind` from its budget and counts it. Returns whether the budget allowed it.
    pub(crate) fn spend(&mut self, kind: usize) -> bool {
        let Some(budget) = self.budgets.get_mut(kind) else { return false };
        let left = budget.0.checked_sub(1);
        budget.0 = left.unwrap_or(0);
        self.counters.processed += u64::from(left.is_some());
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(ahead: &mut Ahead) -> u64 {
        (0..).take_while(|_| ahead.spend(0)).count() as u64
    }

    #[test]
    fn a_flood_gets_a_burst_then_one_a_frame_and_one_a_millisecond() {
        let mut ahead = Ahead::new();
        ahead.begin(0, Instant::ZERO);
        assert_eq!(spent(&mut ahead), BURST);
        ahead.begin(0, Instant::ZERO);
        assert_eq!(spent(&mut ahead), 1);
        ahead.begin(16, Instant::from_micros(999));
        assert_eq!(spent(&mut ahead), 17, "sixteen have passed meanwhile");
        ahead.begin(16, Instant::from_micros(2_500));
        assert_eq!(spent(&mut ahead), 3);
        ahead.begin(16, Instant::from_micros(3_000));
        assert_eq!(spent(&mut ahead), 2, "half a millisecond was kept");
        ahead.begin(1_000_000, Instant::from_millis(1_000_000));
        assert_eq!(spent(&mut ahead), BURST);
        assert_eq!(ahead.counters.processed, 2 * BURST + 23);
    }

    #[test]
    fn kinds_take_nothing_from_each_other() {
        let mut ahead = Ahead::new();
        ahead.begin(0, Instant::ZERO);
        spent(&mut ahead);
        assert!(ahead.spend(1) && !ahead.spend(0));
    }
}
