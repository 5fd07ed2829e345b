//! The polling thread's policies: round robin with quota, feedback from full queues, the cycle limit.
//!
//! Source: Mogul and Ramakrishnan, *Eliminating receive livelock*, TOCS 1997, sections 6.4 to 7.

mod cycle;
mod feedback;
mod quota;
mod sources;

use crate::time::{Duration, Instant};

pub use cycle::CycleLimit;
pub use feedback::{Feedback, FeedbackScope, Gate, Inhibition, Resumes};
pub use quota::Quota;
pub use sources::{SourceId, Sources};

use cycle::Budget;
use quota::Dynamic;

/// Frames of a callback that takes no heed of a full queue: enough that the others' packets among them get on, few enough that these find the
/// time to read them.
const SLICE_PKTS: usize = 8;

/// A queue whose gate is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Closed<Q> {
    queue: Q,
    sources: Sources,
    until: Instant,
}

/// The polling thread: which source is served next, and how many frames of it.
///
/// `Q` names the queues that give feedback. The thread owns no frames; it decides.
#[derive(Debug)]
pub struct Poller<Q> {
    registered: u16,
    inputs: Sources,
    /// Those whose interrupt is enabled; of the others the thread is in charge.
    enabled: Sources,
    /// Those that want service.
    wants: Sources,
    quota_pkts: usize,
    dynamic: Option<Dynamic>,
    current: SourceId,
    /// The last one served of the receive side, and of the transmit side.
    last: [SourceId; 2],
    left_pkts: usize,
    /// No frame has been taken yet in the callback that is due.
    begins: bool,
    inhibition: Inhibition,
    /// Those whose next callback may finish though inhibited.
    granted: Sources,
    timeout: Duration,
    closed: Vec<Closed<Q>>,
    inhibited: Sources,
    budget: Option<Budget>,
    resumes: Resumes,
}

impl<Q: Copy + PartialEq> Poller<Q> {
    /// A polling thread with no sources. `timeout` is the longest that feedback inhibits input.
    #[must_use]
    pub fn new(quota: Quota, timeout: Duration, cycle_limit: Option<CycleLimit>) -> Self {
        let (quota_pkts, dynamic) = match quota {
            Quota::Fixed(pkts) => (pkts.max(1), None),
            Quota::Unlimited => (usize::MAX, None),
            Quota::Dynamic => (Dynamic::new().quota_pkts(), Some(Dynamic::new())),
        };
        Self {
            registered: 0,
            inputs: Sources::NONE,
            enabled: Sources::NONE,
            wants: Sources::NONE,
            quota_pkts,
            dynamic,
            current: SourceId(0),
            last: [SourceId(Sources::MAX as u16 - 1); 2],
            left_pkts: 0,
            begins: true,
            inhibition: Inhibition::default(),
            granted: Sources::NONE,
            timeout,
            closed: Vec::new(),
            inhibited: Sources::NONE,
            budget: cycle_limit.map(Budget::new),
            resumes: Resumes::default(),
        }
    }

    /// The same with inhibitions that take effect as `inhibition` says.
    #[must_use]
    pub fn with_inhibition(self, inhibition: Inhibition) -> Self {
        Self { inhibition, ..self }
    }

    /// Registers a source; its interrupt is enabled. Sources are numbered from 0. `None` when there are [`Sources::MAX`] already.
    ///
    /// Feedback and the cycle limit hold back `input` only: the transmit side goes on, or buffers would never come back.
    pub fn register(&mut self, input: bool) -> Option<SourceId> {
        if usize::from(self.registered) >= Sources::MAX {
            return None;
        }
        let source = SourceId(self.registered);
        self.registered += 1;
        self.enabled = self.enabled.union(Sources::one(source));
        if input {
            self.inputs = self.inputs.union(Sources::one(source));
        }
        Some(source)
    }

    /// The sources that are receive rings; all others are transmit sides.
    #[must_use]
    pub const fn inputs(&self) -> Sources {
        self.inputs
    }

    /// The sources held back at present, by feedback or the cycle limit.
    #[must_use]
    pub fn held_back(&self) -> Sources {
        if self.budget.as_ref().is_some_and(Budget::is_spent) {
            self.inputs
        } else {
            self.inputs.and(self.inhibited)
        }
    }

    /// The sources that may interrupt.
    #[must_use]
    pub fn may_interrupt(&self) -> Sources {
        self.enabled.without(self.held_back())
    }

    /// The interrupt handler: notes that the source wants service and disables its interrupt. At most once per polling episode.
    pub fn interrupt(&mut self, source: SourceId) {
        self.enabled = self.enabled.without(Sources::one(source));
        self.wants = self.wants.union(Sources::one(source));
    }

    /// Whether the thread has something to do: a source that wants service and is not inhibited.
    #[must_use]
    pub fn is_runnable(&self) -> bool {
        !self.servable().is_empty()
    }

    fn servable(&self) -> Sources {
        let begun = !self.begins && self.left_pkts > 0 && self.may_finish(self.current);
        let current = if begun { self.wants.and(Sources::one(self.current)) } else { Sources::NONE };
        self.wants.without(self.held_back()).union(current)
    }

    fn may_finish(&self, source: SourceId) -> bool {
        self.inhibition == Inhibition::AfterCallback || self.granted.contains(source)
    }

    /// Whether a callback of the source is to take nothing more, in the middle of it.
    #[must_use]
    pub fn stops(&self, source: SourceId) -> bool {
        !self.may_finish(source) && self.held_back().contains(source)
    }

    /// Lets the next callback of each of `sources` finish, of eight frames at most, whatever it fills: what came behind packets for a
    /// hung consumer gets its turn, and not one frame of all traffic for each timeout.
    pub fn grant(&mut self, sources: Sources) {
        self.granted = self.granted.union(sources);
        if sources.contains(self.current) {
            self.left_pkts = 0;
        }
    }

    /// A callback of the source is over.
    pub fn callback_over(&mut self, source: SourceId) {
        self.granted = self.granted.without(Sources::one(source));
    }

    /// The source to serve now, how many frames it may still give in this callback, and whether the callback begins here.
    pub fn turn(&mut self, now: Instant) -> Option<(SourceId, usize, bool)> {
        self.roll(now);
        let servable = self.servable();
        if !(servable.contains(self.current) && self.left_pkts > 0) {
            self.current = self.next_source(servable)?;
            // Where callbacks finish anyway, there is nothing to grant.
            let granted = self.inhibition == Inhibition::AtOnce && self.granted.contains(self.current);
            self.left_pkts = if granted { self.quota_pkts.min(SLICE_PKTS) } else { self.quota_pkts };
            self.begins = true;
        }
        Some((self.current, self.left_pkts, core::mem::take(&mut self.begins)))
    }

    /// Receive and transmit sides take turns, and so do the sources of each side among themselves. Where the one side has got to does not depend
    /// on the other: else, of two rings that an inhibition stops, the one behind the transmit side that went on would always be next.
    fn next_source(&mut self, servable: Sources) -> Option<SourceId> {
        let sides = [servable.and(self.inputs), servable.without(self.inputs)];
        let other = usize::from(self.inputs.contains(self.current));
        let turn = |side: usize| sides[side].next(self.last[side].0 + 1).map(|source| (side, source));
        let (side, source) = turn(other).or_else(|| turn(1 - other))?;
        self.last[side] = source;
        Some(source)
    }

    /// The callback took `pkts` frames, and says whether the source has `more`. A source with no more gets its interrupt back.
    pub fn served(&mut self, source: SourceId, pkts: usize, more: bool, now: Instant) {
        let slice = self.slice();
        self.left_pkts = self.left_pkts.saturating_sub(pkts);
        if !more {
            self.left_pkts = 0;
            self.enabled = self.enabled.union(Sources::one(source));
            self.wants = self.wants.without(Sources::one(source));
        } else if let (true, 0, Some(dynamic)) =
            (self.inputs.contains(source), self.left_pkts, &mut self.dynamic)
        {
            dynamic.used_up();
            self.quota_pkts = dynamic.quota_pkts();
        }
        if self.left_pkts == 0 {
            let until = now + self.timeout;
            let waited = |c: &&mut Closed<Q>| !c.sources.and(slice).is_empty();
            self.closed.iter_mut().filter(waited).for_each(|c| c.until = until);
            self.callback_over(source);
        }
    }

    /// A frame that this thread took in died on its way out, all its work for nothing: what a dynamic quota goes by.
    pub fn wasted(&mut self) {
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.wasted();
            self.quota_pkts = dynamic.quota_pkts();
        }
    }

    /// What a callback may take at present; `usize::MAX` without a quota.
    #[must_use]
    pub const fn quota_pkts(&self) -> usize {
        self.quota_pkts
    }

    /// Inhibits `sources` on behalf of a queue that reached its high mark.
    pub fn inhibit(&mut self, queue: Q, sources: Sources, now: Instant) {
        let waits = !sources.and(self.slice()).is_empty();
        let until = if waits { Instant::NEVER } else { now + self.timeout };
        match self.closed.iter_mut().find(|c| c.queue == queue) {
            Some(closed) => closed.sources = sources,
            None => self.closed.push(Closed { queue, sources, until }),
        }
        self.update();
    }

    /// The queue fell to its low mark.
    pub fn resume(&mut self, queue: Q) {
        self.closed.retain(|c| c.queue != queue);
        self.resumes.low_mark += 1;
        self.update();
    }

    /// The queue is no more.
    pub fn forget(&mut self, queue: Q) {
        self.closed.retain(|c| c.queue != queue);
        self.update();
    }

    fn update(&mut self) {
        self.inhibited = self.closed.iter().fold(Sources::NONE, |all, c| all.union(c.sources));
    }

    /// Ends the inhibitions whose timeout has passed, one call each, and the cycle limit's period. Returns a queue whose gate to reopen,
    /// and the sources that were inhibited for it.
    pub fn expire(&mut self, now: Instant) -> Option<(Q, Sources)> {
        self.roll(now);
        let slice = self.slice();
        let due = self.closed.iter_mut().filter(|c| now >= c.until);
        due.filter(|c| !c.sources.and(slice).is_empty()).for_each(|c| c.until = Instant::NEVER);
        let place = self.closed.iter().position(|c| now >= c.until)?;
        let closed = self.closed.swap_remove(place);
        self.resumes.timeout += 1;
        self.update();
        Some((closed.queue, closed.sources))
    }

    /// The source of a granted callback that is under way. What is inhibited meanwhile on behalf of a queue is inhibited from its end on, and
    /// the timeout begins then: until then the consumer has no time of the core to show that it is not hung.
    fn slice(&self) -> Sources {
        let under_way = !self.begins && self.left_pkts > 0 && self.inhibition == Inhibition::AtOnce;
        if under_way {
            self.granted.and(self.wants).and(self.inputs).and(Sources::one(self.current))
        } else {
            Sources::NONE
        }
    }

    /// Begins a new period of the cycle limit, if the last one is over: before any work that is charged to it.
    pub fn roll(&mut self, now: Instant) {
        let resumed = self.budget.as_mut().is_some_and(|budget| budget.roll(now));
        self.resumes.period += u64::from(resumed);
    }

    /// When [`Poller::expire`] has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        let timeout = self.closed.iter().map(|c| c.until).min().unwrap_or(Instant::NEVER);
        timeout.min(self.budget.as_ref().map_or(Instant::NEVER, Budget::next_deadline))
    }

    /// Charges time the thread has used. Past the cycle limit, input is inhibited at once.
    pub fn charge(&mut self, elapsed: Duration) {
        if let Some(budget) = &mut self.budget {
            budget.charge(elapsed);
        }
    }

    /// The core is idle: the cycle limit has nobody to protect.
    pub fn idle(&mut self) {
        let resumed = self.budget.as_mut().is_some_and(Budget::idle);
        self.resumes.idle += u64::from(resumed);
    }

    /// How often input resumed, by reason.
    #[must_use]
    pub const fn resumes(&self) -> Resumes {
        self.resumes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poller(quota: usize) -> Poller<u8> {
        Poller::new(Quota::Fixed(quota), Duration::from_millis(1), None)
    }

    #[test]
    fn round_robin_gives_each_source_its_quota() {
        let mut poller = poller(2);
        let (a, b) = (poller.register(true).unwrap(), poller.register(true).unwrap());
        poller.interrupt(a);
        poller.interrupt(b);
        let mut order = Vec::new();
        for _ in 0..6 {
            let (source, left, _) = poller.turn(Instant::ZERO).unwrap();
            assert!(left <= 2);
            poller.served(source, 1, true, Instant::ZERO);
            order.push(source);
        }
        assert_eq!(order, [a, a, b, b, a, a]);
    }

    #[test]
    fn of_two_rings_that_inhibitions_stop_each_has_its_turn() {
        let mut poller = poller(4);
        let (a, sent_a) = (poller.register(true).unwrap(), poller.register(false).unwrap());
        let (b, sent_b) = (poller.register(true).unwrap(), poller.register(false).unwrap());
        let mut taken = Vec::new();
        for tick in 0..6 {
            for source in [a, b, sent_a, sent_b] {
                poller.interrupt(source);
            }
            while let Some((source, _, _)) = poller.turn(Instant::from_millis(tick)) {
                if poller.inputs().contains(source) {
                    taken.push(source);
                    poller.served(source, 1, true, Instant::ZERO);
                    poller.inhibit(7, Sources::ALL, Instant::from_millis(tick));
                } else {
                    poller.served(source, 1, false, Instant::ZERO);
                }
            }
            poller.expire(Instant::from_millis(tick + 1));
        }
        assert_eq!(taken, [a, b, a, b, a, b]);
    }

    #[test]
    fn an_empty_source_gets_its_interrupt_back() {
        let mut poller = poller(8);
        let a = poller.register(true).unwrap();
        assert!(poller.may_interrupt().contains(a));
        poller.interrupt(a);
        assert!(!poller.may_interrupt().contains(a) && poller.is_runnable());
        let (source, _, first) = poller.turn(Instant::ZERO).unwrap();
        assert!(first);
        poller.served(source, 3, false, Instant::ZERO);
        assert!(poller.may_interrupt().contains(a) && !poller.is_runnable());
        assert_eq!(poller.turn(Instant::ZERO), None);
    }

    #[test]
    fn an_inhibited_source_stays_marked_but_does_not_keep_the_thread_awake() {
        let mut poller = poller(8);
        let (a, b) = (poller.register(true).unwrap(), poller.register(true).unwrap());
        poller.interrupt(a);
        poller.interrupt(b);
        poller.inhibit(7, Sources::one(a), Instant::ZERO);
        assert_eq!(poller.turn(Instant::ZERO).unwrap().0, b);
        poller.served(b, 0, false, Instant::ZERO);
        assert!(!poller.is_runnable());
        poller.resume(7);
        assert_eq!(poller.turn(Instant::ZERO).unwrap().0, a);
    }

    #[test]
    fn an_inhibition_can_let_the_callback_finish() {
        for (inhibition, taken) in [(Inhibition::AtOnce, 1), (Inhibition::AfterCallback, 4)] {
            let mut poller = poller(4).with_inhibition(inhibition);
            let a = poller.register(true).unwrap();
            poller.interrupt(a);
            let mut count = 0;
            while let Some((source, _, _)) = poller.turn(Instant::ZERO) {
                count += 1;
                poller.served(source, 1, true, Instant::ZERO);
                poller.inhibit(7, Sources::one(a), Instant::ZERO);
            }
            assert_eq!(count, taken, "{inhibition:?}");
            poller.resume(7);
            assert!(poller.is_runnable());
        }
    }

    #[test]
    fn a_consumer_gets_its_time_after_a_callback_that_was_let_finish() {
        let mut poller = poller(4);
        let a = poller.register(true).unwrap();
        poller.interrupt(a);
        poller.inhibit(7, Sources::ALL, Instant::ZERO);
        assert!(poller.expire(Instant::from_millis(1)).is_some());
        poller.grant(Sources::ALL);
        assert!(poller.turn(Instant::from_millis(1)).is_some());
        poller.inhibit(7, Sources::ALL, Instant::from_millis(1));
        // The callback takes longer than the timeout.
        assert_eq!(poller.expire(Instant::from_millis(2)), None);
        assert_eq!(poller.next_deadline(), Instant::NEVER);
        poller.served(a, 4, true, Instant::from_micros(2_500));
        assert!(!poller.is_runnable(), "now it is the consumer's turn");
        assert_eq!(
            poller.expire(Instant::from_millis(3)),
            None,
            "the timeout began when the callback was over"
        );
        assert!(poller.expire(Instant::from_micros(3_500)).is_some());
    }

    #[test]
    fn neither_feedback_nor_the_cycle_limit_holds_back_the_transmit_side() {
        let limit = CycleLimit { period: Duration::from_millis(10), percent: 1 };
        let mut poller: Poller<u8> = Poller::new(Quota::Fixed(8), Duration::from_millis(1), Some(limit));
        let (receive, transmit) = (poller.register(true).unwrap(), poller.register(false).unwrap());
        poller.interrupt(receive);
        poller.interrupt(transmit);
        poller.inhibit(7, Sources::ALL, Instant::ZERO);
        poller.charge(Duration::from_millis(5));
        assert_eq!(poller.turn(Instant::ZERO).unwrap().0, transmit);
        poller.served(transmit, 1, false, Instant::ZERO);
        assert!(!poller.is_runnable());
    }

    #[test]
    fn no_inhibition_outlasts_its_timeout() {
        let mut poller = poller(8);
        let a = poller.register(true).unwrap();
        poller.interrupt(a);
        poller.inhibit(1, Sources::ALL, Instant::ZERO);
        assert_eq!(poller.next_deadline(), Instant::from_millis(1));
        assert_eq!(poller.expire(Instant::from_micros(999)), None);
        assert_eq!(poller.expire(Instant::from_millis(1)), Some((1, Sources::ALL)));
        assert!(poller.is_runnable());
        assert_eq!(poller.resumes().timeout, 1);
    }

    #[test]
    fn the_cycle_limit_inhibits_input_until_the_period_ends_or_the_core_idles() {
        let limit = CycleLimit { period: Duration::from_millis(10), percent: 50 };
        let mut poller: Poller<u8> = Poller::new(Quota::Fixed(8), Duration::from_millis(1), Some(limit));
        let a = poller.register(true).unwrap();
        poller.interrupt(a);
        poller.charge(Duration::from_millis(5));
        assert!(poller.is_runnable());
        poller.charge(Duration::from_nanos(1));
        assert!(!poller.is_runnable());
        assert_eq!(poller.next_deadline(), Instant::from_millis(10));
        poller.expire(Instant::from_millis(10));
        assert!(poller.is_runnable());
        poller.charge(Duration::from_millis(6));
        poller.idle();
        assert!(poller.is_runnable());
        assert_eq!(poller.resumes(), Resumes { period: 1, idle: 1, ..Resumes::default() });
    }
}
