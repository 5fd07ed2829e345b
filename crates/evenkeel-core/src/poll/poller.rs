//! The polling thread: the order of sources, their quotas, and the inhibition of input.

use super::closed::Inhibitions;
use super::cycle::{Budget, CycleLimit};
use super::discards::Discards;
use super::feedback::{Gate, Inhibition, Resumes};
use super::gathering::Gathering;
use super::lengths::QueueShare;
use super::limit::Limit;
use super::order::{Order, TaskWeights, Tasks};
use super::quota::{Dynamic, Quota};
use super::sources::{SourceId, Sources};
use super::ticks::{Sampler, TickSampling};
use crate::time::{Duration, Instant};

/// Frames of a callback that takes no heed of a full queue: enough that the others' packets among them get
/// on, few enough that these find the time to read them.
const SLICE_PKTS: usize = 8;

/// A callback that has begun and may go on.
#[derive(Debug, Clone, Copy)]
struct Callback {
    source: SourceId,
    left_pkts: usize,
}

/// The polling thread: which source is served next, and how many frames of it.
///
/// `Q` names the queues that give feedback. The thread owns no frames; it decides.
#[derive(Debug)]
pub(crate) struct Poller<Q> {
    registered: u16,
    inputs: Sources,
    /// Those whose interrupt is enabled; of the others the thread is in charge.
    enabled: Sources,
    wants: Sources,
    quota_pkts: usize,
    dynamic: Option<Dynamic>,
    order: Order,
    callback: Option<Callback>,
    inhibition: Inhibition,
    /// Those whose next callback may finish though inhibited.
    granted: Sources,
    queues: Inhibitions<Q>,
    limits: Vec<Box<dyn Limit>>,
    discards: Discards,
    /// The sources that are paused because discarding takes too much of the core.
    discarding: Sources,
    gathering: Gathering,
    resumes: Resumes,
}

impl<Q: Copy + PartialEq> Poller<Q> {
    /// Creates a polling thread with no sources. `timeout` is the longest time for which feedback inhibits
    /// input.
    #[must_use]
    pub(crate) fn new(quota: Quota, timeout: Duration, cycle_limit: Option<CycleLimit>) -> Self {
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
            order: Order::ROUND_ROBIN,
            callback: None,
            inhibition: Inhibition::default(),
            granted: Sources::NONE,
            queues: Inhibitions::new(timeout),
            limits: cycle_limit
                .map(|limit| Box::new(Budget::new(limit)) as Box<dyn Limit>)
                .into_iter()
                .collect(),
            discards: Discards::new(100),
            discarding: Sources::NONE,
            gathering: Gathering::NONE,
            resumes: Resumes::default(),
        }
    }

    /// Returns the poller with a limit on discarding: it also pauses sources whose frames take more than
    /// `percent` of the core to be discarded.
    #[must_use]
    pub(crate) fn with_discards(self, percent: u8) -> Self {
        Self { discards: Discards::new(percent), ..self }
    }

    /// Returns the poller with inhibitions that take effect as `inhibition` says.
    #[must_use]
    pub(crate) fn with_inhibition(self, inhibition: Inhibition) -> Self {
        Self { inhibition, ..self }
    }

    /// Returns the poller with input also limited by sampling the core's activity at clock ticks.
    #[must_use]
    pub(crate) fn with_tick_sampling(mut self, sampling: TickSampling) -> Self {
        self.limits.push(Box::new(Sampler::new(sampling)));
        self
    }

    /// Returns the poller with input also limited by the length of queues, in periods of `period`
    /// ([`FeedbackBy::Length`](super::FeedbackBy::Length)).
    #[must_use]
    pub(crate) fn with_queue_lengths(mut self, period: Duration) -> Self {
        self.limits.push(Box::new(QueueShare::new(period)));
        self
    }

    /// Returns the poller with sources served by weight instead of round robin. Their interrupts stay
    /// enabled while the sources are served.
    #[must_use]
    pub(crate) fn with_tasks(self, weights: TaskWeights) -> Self {
        Self { order: Order::Weighted(Tasks::new(weights)), ..self }
    }

    /// Registers a source; its interrupt is enabled. Sources are numbered from 0. Returns `None` when there
    /// are [`Sources::MAX`] already.
    ///
    /// Feedback and the cycle limit inhibit `input` only. The transmit side goes on, or buffers would never
    /// come back.
    pub(crate) fn register(&mut self, input: bool) -> Option<SourceId> {
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

    /// Returns the sources that are receive rings. All others are transmit sides.
    #[must_use]
    pub(crate) const fn inputs(&self) -> Sources {
        self.inputs
    }

    /// Returns the sources that feedback or a limit inhibits at present.
    #[must_use]
    #[inline]
    pub(crate) fn throttled(&self) -> Sources {
        let limited = self.limits.iter().any(|limit| limit.is_reached());
        if limited {
            return self.inputs;
        }
        let discarding = self.discarding.union(self.gathering.sources());
        self.inputs.and(self.queues.sources().union(discarding))
    }

    /// Returns the sources that may interrupt.
    #[must_use]
    pub(crate) fn may_interrupt(&self) -> Sources {
        self.enabled.without(self.throttled())
    }

    /// Handles an interrupt: records that the source wants service, and disables its interrupt. It is
    /// called at most once per polling episode. The handlers of real-time tasks leave the interrupt
    /// enabled.
    pub(crate) fn interrupt(&mut self, source: SourceId) {
        if !matches!(self.order, Order::Weighted(_)) {
            self.enabled = self.enabled.without(Sources::one(source));
        }
        self.wants = self.wants.union(Sources::one(source));
    }

    /// Returns whether the thread has something to do: a source that wants service and is not inhibited.
    #[must_use]
    pub(crate) fn is_runnable(&self) -> bool {
        !self.servable().is_empty()
    }

    /// Returns whether the thread would have something to do on an idle core. Limits protect no other work
    /// there, so only full queues inhibit sources.
    #[must_use]
    pub(crate) fn is_runnable_when_idle(&self) -> bool {
        !self.wants.without(self.inputs.and(self.queues.sources())).is_empty() || self.is_runnable()
    }

    // Every selection of a work item asks this, and mostly nothing wants service.
    #[inline(always)]
    fn servable(&self) -> Sources {
        if self.wants.is_empty() && self.callback.is_none() { Sources::NONE } else { self.wanted() }
    }

    fn wanted(&self) -> Sources {
        let finishing = self.callback.filter(|callback| self.may_finish(callback.source));
        let finishing = finishing.map_or(Sources::NONE, |callback| Sources::one(callback.source));
        self.wants.without(self.throttled()).union(finishing)
    }

    fn may_finish(&self, source: SourceId) -> bool {
        self.inhibition == Inhibition::AfterCallback || self.granted.contains(source)
    }

    /// Returns whether a callback of the source must stop now, before its quota is used.
    #[must_use]
    #[inline]
    pub(crate) fn stops(&self, source: SourceId) -> bool {
        !self.may_finish(source) && self.throttled().contains(source)
    }

    /// Lets the next callback of each of `sources` finish, of eight frames at most, whatever it fills: what
    /// came behind packets for a hung consumer gets its turn, and not one frame of all traffic for each
    /// timeout.
    pub(crate) fn grant(&mut self, sources: Sources) {
        self.granted = self.granted.union(sources);
        // One that an inhibition stopped does not go on: the next one begins.
        self.callback = self.callback.filter(|callback| !sources.contains(callback.source));
    }

    /// Ends a callback of the source, and with it the permission to finish although inhibited.
    pub(crate) fn callback_over(&mut self, source: SourceId) {
        self.granted = self.granted.without(Sources::one(source));
    }

    /// Returns the source to serve now, the number of frames that it may still give in this callback, and
    /// whether the callback begins here.
    pub(crate) fn turn(&mut self, now: Instant) -> Option<(SourceId, usize, bool)> {
        self.roll(now);
        let servable = self.servable();
        if let Some(Callback { source, left_pkts }) = self.callback.filter(|c| servable.contains(c.source)) {
            return Some((source, left_pkts, false));
        }
        let source = self.order.next(self.inputs, servable)?;
        // Where callbacks finish anyway, there is nothing to grant.
        let granted = self.inhibition == Inhibition::AtOnce && self.granted.contains(source);
        let left_pkts = if granted { self.quota_pkts.min(SLICE_PKTS) } else { self.quota_pkts };
        self.callback = Some(Callback { source, left_pkts });
        Some((source, left_pkts, true))
    }

    /// Records that the callback took `pkts` frames, and whether the source has `more`. A source with no
    /// more gets its interrupt back.
    pub(crate) fn served(&mut self, source: SourceId, pkts: usize, more: bool, now: Instant) {
        let left_pkts = self.callback.map_or(0, |callback| callback.left_pkts.saturating_sub(pkts));
        if !more {
            self.enabled = self.enabled.union(Sources::one(source));
            self.wants = self.wants.without(Sources::one(source));
        } else if left_pkts > 0 {
            self.callback = Some(Callback { source, left_pkts });
            return;
        } else if let (true, Some(dynamic)) = (self.inputs.contains(source), &mut self.dynamic) {
            dynamic.used_up();
            self.quota_pkts = dynamic.quota_pkts();
        }
        self.queues.slice_over(self.slice(), now);
        self.callback = None;
        self.callback_over(source);
    }

    /// Records that a frame which this thread took in was dropped on its way out. A dynamic quota adapts to
    /// such losses.
    pub(crate) fn wasted(&mut self) {
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.wasted();
            self.quota_pkts = dynamic.quota_pkts();
        }
    }

    /// Returns the number of frames that a callback may take at present; `usize::MAX` without a quota.
    #[must_use]
    pub(crate) const fn quota_pkts(&self) -> usize {
        self.quota_pkts
    }

    /// Records that a frame from `sources` was put into a queue, or found no room in it. Returns whether
    /// more sources may be inhibited than before.
    #[inline(always)]
    pub(crate) fn enqueued(
        &mut self,
        queue: Q,
        gate: &mut Gate,
        occupancy_pkts: usize,
        sources: Sources,
        now: Instant,
    ) -> bool {
        if sources.is_empty() {
            return false;
        }
        // Most hosts have no limit: then the division is not worth its cycles.
        if !self.limits.is_empty() {
            self.filled(gate.filled_percent(occupancy_pkts));
        }
        let inhibited = gate.on_enqueue(occupancy_pkts, sources);
        if let Some(sources) = inhibited {
            self.inhibit(queue, sources, now);
        }
        inhibited.is_some() || !self.limits.is_empty()
    }

    /// Returns whether the poller must be notified of every enqueue, not only of those at a high mark.
    #[inline]
    pub(crate) const fn uses_lengths(&self) -> bool {
        !self.limits.is_empty()
    }

    fn filled(&mut self, percent: u8) {
        self.limits.iter_mut().for_each(|limit| limit.filled(percent));
    }

    /// Inhibits `sources` on behalf of a queue that reached its high mark.
    pub(crate) fn inhibit(&mut self, queue: Q, sources: Sources, now: Instant) {
        self.queues.begin(queue, sources, now);
    }

    /// Lifts the inhibition on behalf of a queue that fell to its low mark.
    pub(crate) fn resume(&mut self, queue: Q) {
        self.queues.end(queue);
        self.resumes.low_mark += 1;
    }

    /// Forgets a queue that no longer exists.
    pub(crate) fn forget(&mut self, queue: Q) {
        self.queues.end(queue);
    }

    /// Ends the inhibitions whose timeout has passed, one call each, and the cycle limit's period. Returns a
    /// queue whose gate to reopen, and the sources that were inhibited for it.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<(Q, Sources)> {
        self.roll(now);
        let expired = self.queues.expire(self.slice(), now);
        self.resumes.timeout += u64::from(expired.is_some());
        expired
    }

    /// Returns the source of a granted callback that is under way.
    fn slice(&self) -> Sources {
        let callback = self.callback.filter(|_| self.inhibition == Inhibition::AtOnce);
        let source = callback.map_or(Sources::NONE, |callback| Sources::one(callback.source));
        source.and(self.granted).and(self.inputs)
    }

    /// Begins a new period of a limit, if the last one is over: before any work that is charged to it.
    #[inline]
    pub(crate) fn roll(&mut self, now: Instant) {
        for limit in &mut self.limits {
            self.resumes.period += u64::from(limit.roll(now));
        }
        if self.discards.roll(now) {
            self.discarding = Sources::NONE;
        }
        self.gathering.roll(now);
    }

    /// Returns when [`Poller::expire`] has something to do.
    #[cfg(test)]
    fn next_deadline(&self) -> Instant {
        self.feedback_deadline().min(self.limit_deadline())
    }

    /// Returns when the next inhibition on behalf of a full queue reaches its timeout.
    #[must_use]
    #[inline]
    pub(crate) fn feedback_deadline(&self) -> Instant {
        if self.queues.is_empty() { Instant::NEVER } else { self.queues.next_deadline(self.slice()) }
    }

    /// Returns when the next period of a reached limit begins, when too costly discarding has been paid for,
    /// or when a pause to gather frames ends.
    #[must_use]
    #[inline]
    pub(crate) fn limit_deadline(&self) -> Instant {
        let discards =
            if self.discarding.is_empty() { Instant::NEVER } else { self.discards.next_deadline() };
        let discards = discards.min(self.gathering.next_deadline());
        self.limits.iter().map(|limit| limit.next_deadline()).fold(discards, Instant::min)
    }

    /// Charges time that has passed; `takes_in` says whether packets were taken in meanwhile. Past a limit,
    /// input is inhibited at once.
    pub(crate) fn charge(&mut self, elapsed: Duration, takes_in: bool) {
        for limit in &mut self.limits {
            limit.charge(elapsed, takes_in);
        }
    }

    /// Charges time that was spent on frames of a source that were discarded. If it was too much, no more is
    /// taken from there for a while. `fair_percent`: the share of the core that the process may have for
    /// which the frames were. Returns how much of that time is on its bill.
    pub(crate) fn charge_discards(
        &mut self,
        source: SourceId,
        elapsed: Duration,
        fair_percent: u8,
    ) -> Duration {
        let pays = self.discards.charge(source, elapsed, fair_percent);
        self.discarding = self.discards.throttled();
        pays
    }

    /// Looks at a source again only after a pause: frames of a full channel were found there, and more are to
    /// gather until the next look.
    pub(crate) fn gather(&mut self, source: SourceId, now: Instant) {
        self.gathering.begin(source, now);
    }

    /// Returns whether discarding may take more than its share now.
    #[inline]
    pub(crate) fn takes_extra(&self) -> bool {
        self.discards.takes_extra()
    }

    /// Keeps discarding to its share for a while: it does not keep up with what comes.
    pub(crate) fn keep_to_share(&mut self) {
        self.discards.keep_to_share();
    }

    /// Charges time that the callback under way has used.
    pub(crate) fn charge_callback(&mut self, elapsed: Duration) {
        if let Some(Callback { source, .. }) = self.callback {
            self.order.charge(source, self.inputs.contains(source), elapsed);
        }
    }

    /// Records that the core is idle, so that limits have no other work to protect.
    pub(crate) fn idle(&mut self) {
        for limit in &mut self.limits {
            self.resumes.idle += u64::from(limit.idle());
        }
        self.discards.idle();
        self.discarding = Sources::NONE;
        self.gathering = Gathering::NONE;
    }

    /// Returns how often input resumed, by reason.
    #[must_use]
    pub(crate) const fn resumes(&self) -> Resumes {
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
    fn an_idle_core_does_not_wait_for_frames_to_gather() {
        let mut poller = poller(2);
        let ring = poller.register(true).unwrap();
        poller.gather(ring, Instant::ZERO);
        assert_eq!(poller.throttled(), Sources::one(ring));
        assert!(poller.next_deadline() < Instant::NEVER);
        poller.idle();
        assert_eq!((poller.throttled(), poller.next_deadline()), (Sources::NONE, Instant::NEVER));
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
        poller.charge(Duration::from_millis(5), true);
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
        poller.charge(Duration::from_millis(5), true);
        assert!(poller.is_runnable());
        poller.charge(Duration::from_nanos(1), true);
        assert!(!poller.is_runnable());
        assert_eq!(poller.next_deadline(), Instant::from_millis(10));
        poller.expire(Instant::from_millis(10));
        assert!(poller.is_runnable());
        poller.charge(Duration::from_millis(6), true);
        poller.idle();
        assert!(poller.is_runnable());
        assert_eq!(poller.resumes(), Resumes { period: 1, idle: 1, ..Resumes::default() });
    }

    #[test]
    fn on_an_idle_core_only_queues_hold_input_back() {
        let limit = CycleLimit { period: Duration::from_millis(10), percent: 50 };
        let mut poller: Poller<u8> = Poller::new(Quota::Fixed(8), Duration::from_millis(1), Some(limit));
        let a = poller.register(true).unwrap();
        assert!(!poller.is_runnable_when_idle(), "nothing to do");
        poller.interrupt(a);
        poller.charge(Duration::from_millis(6), true);
        assert!(!poller.is_runnable() && poller.is_runnable_when_idle());
        poller.inhibit(7, Sources::ALL, Instant::ZERO);
        assert!(!poller.is_runnable_when_idle());
    }

    #[test]
    fn a_queue_that_is_no_more_holds_nothing_back() {
        let mut poller = poller(8);
        let a = poller.register(true).unwrap();
        poller.interrupt(a);
        poller.inhibit(7, Sources::ALL, Instant::ZERO);
        poller.forget(7);
        assert_eq!(poller.turn(Instant::ZERO).unwrap().0, a);
        assert_eq!((poller.resumes(), poller.next_deadline()), (Resumes::default(), Instant::NEVER));
    }

    #[test]
    fn a_source_is_charged_for_the_time_of_its_callbacks() {
        let mut poller = poller(1).with_tasks(TaskWeights { receive: 1, transmit: 1 });
        let (a, b) = (poller.register(true).unwrap(), poller.register(false).unwrap());
        poller.interrupt(a);
        poller.interrupt(b);
        let mut turns = [0, 0];
        for _ in 0..100 {
            let (source, _, _) = poller.turn(Instant::ZERO).unwrap();
            let (n, micros) = if source == a { (0, 40) } else { (1, 10) };
            turns[n] += 1;
            poller.charge_callback(Duration::from_micros(micros));
            poller.served(source, 1, true, Instant::ZERO);
        }
        assert_eq!(turns, [20, 80], "both have had as much time");
    }
}
