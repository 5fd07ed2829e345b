//! Feedback from full queues (TOCS 1997, section 6.6.1).

use super::sources::Sources;
use crate::time::Duration;

/// Which sources a full queue inhibits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FeedbackScope {
    /// Every source, as in the paper: right when the queue's consumer is what the host is for.
    All,
    /// The sources whose frames filled the queue: right when traffic is separated, and receive rings separate
    /// flows.
    #[default]
    Feeding,
}

/// The time at which an inhibition of input takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Inhibition {
    /// At once, in the middle of a callback: nothing more is taken from the ring, and what comes dies there,
    /// for free.
    #[default]
    AtOnce,
    /// After the callback in progress has used its quota, as in the paper's packet monitor and cycle limit.
    /// With a quota above the room that the high mark leaves, frames die in the full queue.
    AfterCallback,
}

/// The way in which a queue's length acts on input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FeedbackBy {
    /// At the high mark input stops until the low mark or the timeout, as in the paper.
    #[default]
    Marks,
    /// Scheduling by queue length, as in Synthesis: the taking in of packets gets that share of each
    /// `timeout` that the fullest queue leaves, and a process is charged the less for its time the fuller the
    /// queue that it reads: up to four times the share at the same charge. Marks and scope do not matter.
    Length,
}

/// Settings of feedback from a bounded queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feedback {
    /// Input is inhibited when the queue reaches this share of its limit, in percent. Default 75.
    pub high_percent: u8,
    /// Input resumes when the queue has fallen to this share of its limit, in percent. Default 25.
    pub low_percent: u8,
    /// Input resumes after this time even so, lest a hung consumer block others for good. Default one tick of
    /// 1024 Hz.
    pub timeout: Duration,
    /// Whether input also resumes at the low mark. The paper's packet monitor has only the timeout (its
    /// section 9).
    pub resume_on_space: bool,
    /// The sources of input that a full queue inhibits.
    ///
    /// Under the lazy architectures, discarding a frame for a full channel costs little. So
    /// [`FeedbackScope::Feeding`] pauses a ring there only if all its frames of the last second were for
    /// the full channel: then the ring sheds the excess, at no cost. If others receive from the ring, too,
    /// the excess is discarded, up to [`discard_percent`](Self::discard_percent). If the ring is emptied
    /// within 10 ms and has not overflowed while it was paused, its frames were a burst and no excess: the
    /// ring keeps them. Where interrupts do the device work there is no such bound, and a full channel
    /// always pauses its ring.
    pub scope: FeedbackScope,
    /// Share of the core, in percent, for taking frames from a ring that are then discarded. Default 25.
    /// Discarding may take up to three times as much beyond that, as long as the ring is then read as fast
    /// as it fills. The process whose frames are discarded pays for it, with up to 15/16 of its own share
    /// of the core. If more is needed, the ring is paused for all its receivers. While the core is idle
    /// there is no limit, and at 100 there is none.
    pub discard_percent: u8,
    /// The choice whether a queue acts at its marks, or by its length all the time. Default
    /// [`FeedbackBy::Marks`].
    pub by: FeedbackBy,
}

impl Default for Feedback {
    fn default() -> Self {
        Self {
            high_percent: 75,
            low_percent: 25,
            timeout: Duration::from_nanos(976_562),
            resume_on_space: true,
            scope: FeedbackScope::default(),
            discard_percent: 25,
            by: FeedbackBy::default(),
        }
    }
}

/// Watches the occupancy of one bounded queue, with hysteresis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    limit_pkts: usize,
    high_pkts: usize,
    /// `None`: only the timeout reopens it.
    low_pkts: Option<usize>,
    /// The sources inhibited on behalf of this queue.
    closed: Sources,
    /// Whether anything was taken from the queue since the gate closed: its consumer lives.
    taken: bool,
}

impl Gate {
    /// Returns a gate that never closes.
    #[must_use]
    pub const fn open() -> Self {
        let closed = Sources::NONE;
        Self { limit_pkts: usize::MAX, high_pkts: usize::MAX, low_pkts: None, closed, taken: false }
    }

    /// Creates the gate of a queue that holds at most `limit_pkts`.
    #[must_use]
    pub fn new(feedback: &Feedback, limit_pkts: usize) -> Self {
        let share = |percent: u8| limit_pkts * usize::from(percent) / 100;
        if feedback.by == FeedbackBy::Length {
            return Self { limit_pkts: limit_pkts.max(1), ..Self::open() };
        }
        Self {
            limit_pkts: limit_pkts.max(1),
            high_pkts: share(feedback.high_percent).max(1),
            low_pkts: feedback.resume_on_space.then(|| share(feedback.low_percent)),
            ..Self::open()
        }
    }

    /// Returns the fill level of a queue with `occupancy_pkts` frames, in percent of the limit, at most
    /// 100.
    #[must_use]
    pub const fn filled_percent(&self, occupancy_pkts: usize) -> u8 {
        let percent = occupancy_pkts.saturating_mul(100) / self.limit_pkts;
        if percent > 100 { 100 } else { percent as u8 }
    }

    /// Returns the number of frames, at least one, for which the queue has room once it has but one frame
    /// less than makes it pause its sources.
    pub(crate) const fn headroom_pkts(&self) -> usize {
        self.limit_pkts.saturating_sub(self.high_pkts) + 1
    }

    /// Returns the queue length, in frames, below which [`Gate::on_enqueue`] returns `None`.
    #[inline]
    pub(crate) fn watermark_pkts(&self, sources: Sources) -> usize {
        if self.closed.union(sources) == self.closed { usize::MAX } else { self.high_pkts }
    }

    /// Returns the sources to inhibit on behalf of the queue, if the high mark is reached and any of
    /// `sources` is not inhibited for it yet. To be called after an enqueue or the attempt.
    #[inline]
    pub fn on_enqueue(&mut self, occupancy_pkts: usize, sources: Sources) -> Option<Sources> {
        if occupancy_pkts < self.high_pkts || self.closed.union(sources) == self.closed {
            return None;
        }
        self.taken &= !self.closed.is_empty();
        self.closed = self.closed.union(sources);
        Some(self.closed)
    }

    /// Returns whether the low mark is reached and input may resume. To be called after a dequeue.
    #[inline]
    pub fn on_dequeue(&mut self, occupancy_pkts: usize) -> bool {
        self.taken = true;
        let resume = !self.closed.is_empty() && self.low_pkts.is_some_and(|low| occupancy_pkts <= low);
        if resume {
            self.closed = Sources::NONE;
        }
        resume
    }

    /// Opens the gate after its timeout. It closes again at the next enqueue at or above the high mark.
    /// Returns whether the consumer hangs: the queue is still at the high mark, and nothing was dequeued
    /// meanwhile. A consumer that is only slow needs no help.
    pub fn reopen(&mut self, occupancy_pkts: usize) -> bool {
        self.closed = Sources::NONE;
        occupancy_pkts >= self.high_pkts && !self.taken
    }
}

/// The number of times that input resumed, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resumes {
    /// A queue fell to its low mark.
    pub low_mark: u64,
    /// The feedback timeout passed.
    pub timeout: u64,
    /// The cycle limit's period ended.
    pub period: u64,
    /// The core was idle.
    pub idle: u64,
}

#[cfg(test)]
mod tests {
    use super::super::sources::SourceId;
    use super::*;

    #[test]
    fn feedback_inhibits_at_the_high_mark_and_resumes_at_the_low() {
        let mut gate = Gate::new(&Feedback::default(), 32);
        let source = Sources::one(SourceId(0));
        assert_eq!(gate.on_enqueue(23, source), None);
        assert_eq!(gate.on_enqueue(24, source), Some(source));
        assert_eq!(gate.on_enqueue(25, source), None, "already inhibited");
        assert!(!gate.on_dequeue(9));
        assert!(gate.on_dequeue(8));
        assert!(!gate.on_dequeue(7), "only once");
    }

    #[test]
    fn feedback_by_length_knows_no_marks() {
        let mut gate = Gate::new(&Feedback { by: FeedbackBy::Length, ..Feedback::default() }, 32);
        assert_eq!(gate.on_enqueue(32, Sources::ALL), None);
        assert_eq!([0, 8, 31, 32, 40].map(|pkts| gate.filled_percent(pkts)), [0, 25, 96, 100, 100]);
        assert_eq!(Gate::open().filled_percent(1_000_000), 0, "a queue without feedback counts as empty");
    }

    #[test]
    fn without_resuming_on_space_only_the_timeout_reopens() {
        let mut gate = Gate::new(&Feedback { resume_on_space: false, ..Feedback::default() }, 32);
        let source = Sources::one(SourceId(0));
        assert_eq!(gate.on_enqueue(24, source), Some(source));
        assert!(!gate.on_dequeue(0));
        assert!(!gate.reopen(23));
        assert_eq!(gate.on_enqueue(24, source), Some(source));
    }

    #[test]
    fn a_consumer_hangs_if_it_took_nothing_while_the_gate_was_closed() {
        let mut gate = Gate::new(&Feedback::default(), 32);
        let source = Sources::one(SourceId(0));
        assert_eq!(gate.on_enqueue(24, source), Some(source));
        assert!(gate.reopen(24), "nothing was taken");
        // A callback that was let finish has filled the queue; the consumer takes five and is far from the
        // low mark.
        assert_eq!(gate.on_enqueue(32, source), Some(source));
        (27..32).rev().for_each(|left| assert!(!gate.on_dequeue(left)));
        assert!(!gate.reopen(27), "slow is not hung");
        assert_eq!(gate.on_enqueue(28, source), Some(source));
        assert!(gate.reopen(28), "what was taken before the gate closed does not count");
    }
}
