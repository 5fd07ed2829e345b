//! The polling thread's policies: round robin with quota, feedback from full queues, the cycle limit.
//!
//! Source: Mogul and Ramakrishnan, *Eliminating receive livelock*, TOCS 1997, sections 6.4 to 7.

use crate::time::{Duration, Instant};

/// What a polling thread serves: the receive ring of one queue of one interface, or the transmit side of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u16);

/// A set of sources. A host has at most [`Sources::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sources(u64);

impl Sources {
    /// Most sources a set can hold.
    pub const MAX: usize = 64;
    /// None.
    pub const NONE: Self = Self(0);
    /// All there can be.
    pub const ALL: Self = Self(u64::MAX);

    /// The set of one source.
    #[must_use]
    pub const fn one(source: SourceId) -> Self {
        Self(1 << (source.0 as u64 % Self::MAX as u64))
    }

    /// Whether the source is in the set.
    #[must_use]
    pub const fn contains(self, source: SourceId) -> bool {
        self.0 & Self::one(source).0 != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Which sources a full queue inhibits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FeedbackScope {
    /// Every source, as in the paper: right when the queue's consumer is what the host is for.
    All,
    /// The sources whose frames filled the queue: right when traffic is separated, and receive rings separate flows.
    #[default]
    Feeding,
}

/// Settings of feedback from a bounded queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feedback {
    /// Input is inhibited when the queue reaches this share of its limit, in percent. Default 75.
    pub high_percent: u8,
    /// Input resumes when the queue has fallen to this share of its limit, in percent. Default 25.
    pub low_percent: u8,
    /// Input resumes after this time even so, lest a hung consumer block others for good. Default one tick of 1024 Hz.
    pub timeout: Duration,
    /// What is inhibited.
    pub scope: FeedbackScope,
}

impl Default for Feedback {
    fn default() -> Self {
        Self {
            high_percent: 75,
            low_percent: 25,
            timeout: Duration::from_nanos(976_562),
            scope: FeedbackScope::default(),
        }
    }
}

/// Watches the occupancy of one bounded queue, with hysteresis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    high_pkts: usize,
    low_pkts: usize,
    /// The sources inhibited on behalf of this queue.
    closed: Sources,
}

impl Gate {
    /// A gate that never closes.
    #[must_use]
    pub const fn open() -> Self {
        Self { high_pkts: usize::MAX, low_pkts: 0, closed: Sources::NONE }
    }

    /// The gate of a queue that holds at most `limit_pkts`.
    #[must_use]
    pub fn new(feedback: &Feedback, limit_pkts: usize) -> Self {
        let share = |percent: u8| limit_pkts * usize::from(percent) / 100;
        Self {
            high_pkts: share(feedback.high_percent).max(1),
            low_pkts: share(feedback.low_percent),
            closed: Sources::NONE,
        }
    }

    /// After an enqueue (or the attempt): the sources to inhibit besides those inhibited already, if the high mark is reached.
    pub fn on_enqueue(&mut self, occupancy_pkts: usize, fed_by: Sources) -> Option<Sources> {
        if occupancy_pkts < self.high_pkts || self.closed.union(fed_by) == self.closed {
            return None;
        }
        self.closed = self.closed.union(fed_by);
        Some(self.closed)
    }

    /// After a dequeue: whether the low mark is reached and input may resume.
    pub fn on_dequeue(&mut self, occupancy_pkts: usize) -> bool {
        let resume = !self.closed.is_empty() && occupancy_pkts <= self.low_pkts;
        if resume {
            self.closed = Sources::NONE;
        }
        resume
    }

    /// The timeout opened the gate. It closes again at the next enqueue at or above the high mark.
    pub fn reopen(&mut self) {
        self.closed = Sources::NONE;
    }
}

/// Why input resumed.
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

/// Limits the share of the core that the polling thread takes for input (TOCS 1997 section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CycleLimit {
    /// Accounting period. Default 10 ms.
    pub period: Duration,
    /// Share of the period, in percent, after which input is inhibited until the period ends or the core is idle.
    pub percent: u8,
}

#[derive(Debug)]
struct CycleBudget {
    limit: CycleLimit,
    used: Duration,
    period_ends: Instant,
    spent: bool,
}

/// A queue whose gate is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Closed<Q> {
    queue: Q,
    sources: Sources,
    until: Instant,
}

#[derive(Debug, Clone, Copy, Default)]
struct Source {
    /// A receive ring; otherwise a transmit side.
    input: bool,
    /// Whether it may interrupt; if not, the polling thread is in charge of it.
    interrupts: bool,
    wants: bool,
}

/// The polling thread: which source is served next, and how many frames of it.
///
/// `Q` names the queues that give feedback. The thread owns no frames; it decides.
#[derive(Debug)]
pub struct Poller<Q> {
    sources: Vec<Source>,
    quota_pkts: usize,
    current: usize,
    left_pkts: usize,
    timeout: Duration,
    closed: Vec<Closed<Q>>,
    inhibited: Sources,
    budget: Option<CycleBudget>,
    resumes: Resumes,
    interrupts: u64,
}

impl<Q: Copy + PartialEq> Poller<Q> {
    /// A polling thread with no sources. `quota_pkts` is what one callback may take; `usize::MAX` for no quota.
    #[must_use]
    pub fn new(quota_pkts: usize, timeout: Duration, cycle_limit: Option<CycleLimit>) -> Self {
        Self {
            sources: Vec::new(),
            quota_pkts: quota_pkts.max(1),
            current: 0,
            left_pkts: quota_pkts.max(1),
            timeout,
            closed: Vec::new(),
            inhibited: Sources::NONE,
            budget: cycle_limit.map(|limit| CycleBudget {
                limit,
                used: Duration::ZERO,
                period_ends: Instant::ZERO + limit.period,
                spent: false,
            }),
            resumes: Resumes::default(),
            interrupts: 0,
        }
    }

    /// Registers a source; its interrupt is enabled. `None` when there are [`Sources::MAX`] already.
    ///
    /// Feedback and the cycle limit hold back `input` only: the transmit side goes on, or buffers would never come back.
    pub fn register(&mut self, input: bool) -> Option<SourceId> {
        if self.sources.len() >= Sources::MAX {
            return None;
        }
        self.sources.push(Source { input, interrupts: true, wants: false });
        u16::try_from(self.sources.len() - 1).ok().map(SourceId)
    }

    /// Whether the source may interrupt.
    #[must_use]
    pub fn may_interrupt(&self, source: SourceId) -> bool {
        self.sources.get(usize::from(source.0)).is_some_and(|s| s.interrupts)
    }

    /// The interrupt handler: notes that the source wants service and disables its interrupt. At most once per polling episode.
    pub fn interrupt(&mut self, source: SourceId) {
        if let Some(s) = self.sources.get_mut(usize::from(source.0)) {
            *s = Source { interrupts: false, wants: true, ..*s };
            self.interrupts += 1;
        }
    }

    /// Whether the thread has something to do: a source that wants service and is not inhibited.
    #[must_use]
    pub fn is_runnable(&self) -> bool {
        (0..self.sources.len()).any(|index| self.may_serve(index))
    }

    fn may_serve(&self, index: usize) -> bool {
        let inhibited = self.is_spent() || self.inhibited.contains(SourceId(index as u16));
        self.sources.get(index).is_some_and(|s| s.wants && !(s.input && inhibited))
    }

    fn is_spent(&self) -> bool {
        self.budget.as_ref().is_some_and(|b| b.spent)
    }

    /// The source to serve now, how many frames it may still give in this callback, and whether the callback begins here.
    pub fn turn(&mut self) -> Option<(SourceId, usize, bool)> {
        for _ in 0..=self.sources.len() {
            if self.may_serve(self.current) && self.left_pkts > 0 {
                let source = SourceId(self.current as u16);
                return Some((source, self.left_pkts, self.left_pkts == self.quota_pkts));
            }
            self.current = if self.current + 1 < self.sources.len() { self.current + 1 } else { 0 };
            self.left_pkts = self.quota_pkts;
        }
        None
    }

    /// The callback took `pkts` frames, and says whether the source has `more`. A source with no more gets its interrupt back.
    pub fn served(&mut self, source: SourceId, pkts: usize, more: bool) {
        self.left_pkts = self.left_pkts.saturating_sub(pkts);
        if !more {
            self.left_pkts = 0;
            if let Some(s) = self.sources.get_mut(usize::from(source.0)) {
                *s = Source { interrupts: true, wants: false, ..*s };
            }
        }
    }

    /// Inhibits `sources` on behalf of a queue that reached its high mark.
    pub fn inhibit(&mut self, queue: Q, sources: Sources, now: Instant) {
        match self.closed.iter_mut().find(|c| c.queue == queue) {
            Some(closed) => closed.sources = sources,
            None => self.closed.push(Closed { queue, sources, until: now + self.timeout }),
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

    /// Ends the inhibitions whose timeout has passed, one call each, and the cycle limit's period. Returns a queue whose gate to reopen.
    pub fn expire(&mut self, now: Instant) -> Option<Q> {
        if let Some(budget) = &mut self.budget
            && now >= budget.period_ends
        {
            budget.used = Duration::ZERO;
            budget.period_ends = now + budget.limit.period;
            self.resumes.period += u64::from(core::mem::take(&mut budget.spent));
        }
        let place = self.closed.iter().position(|c| now >= c.until)?;
        let closed = self.closed.swap_remove(place);
        self.resumes.timeout += 1;
        self.update();
        Some(closed.queue)
    }

    /// When [`Poller::expire`] has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        let timeout = self.closed.iter().map(|c| c.until).min().unwrap_or(Instant::NEVER);
        let period = self.budget.as_ref().filter(|b| b.spent).map_or(Instant::NEVER, |b| b.period_ends);
        timeout.min(period)
    }

    /// Charges time the thread has used. Past the cycle limit, input is inhibited at once.
    pub fn charge(&mut self, elapsed: Duration) {
        if let Some(budget) = &mut self.budget {
            budget.used += elapsed;
            budget.spent |= budget.used > budget.limit.period * u32::from(budget.limit.percent) / 100;
        }
    }

    /// The core is idle: the cycle limit has nobody to protect.
    pub fn idle(&mut self) {
        if let Some(budget) = &mut self.budget {
            budget.used = Duration::ZERO;
            self.resumes.idle += u64::from(core::mem::take(&mut budget.spent));
        }
    }

    /// How often input resumed, by reason.
    #[must_use]
    pub const fn resumes(&self) -> Resumes {
        self.resumes
    }

    /// Device interrupts taken.
    #[must_use]
    pub const fn interrupts(&self) -> u64 {
        self.interrupts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poller(quota: usize) -> Poller<u8> {
        Poller::new(quota, Duration::from_millis(1), None)
    }

    #[test]
    fn round_robin_gives_each_source_its_quota() {
        let mut poller = poller(2);
        let (a, b) = (poller.register(true).unwrap(), poller.register(true).unwrap());
        poller.interrupt(a);
        poller.interrupt(b);
        let mut order = Vec::new();
        for _ in 0..6 {
            let (source, left, _) = poller.turn().unwrap();
            assert!(left <= 2);
            poller.served(source, 1, true);
            order.push(source);
        }
        assert_eq!(order, [a, a, b, b, a, a]);
    }

    #[test]
    fn an_empty_source_gets_its_interrupt_back() {
        let mut poller = poller(8);
        let a = poller.register(true).unwrap();
        assert!(poller.may_interrupt(a));
        poller.interrupt(a);
        assert!(!poller.may_interrupt(a) && poller.is_runnable());
        let (source, _, first) = poller.turn().unwrap();
        assert!(first);
        poller.served(source, 3, false);
        assert!(poller.may_interrupt(a) && !poller.is_runnable());
        assert_eq!(poller.turn(), None);
    }

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
    fn an_inhibited_source_stays_marked_but_does_not_keep_the_thread_awake() {
        let mut poller = poller(8);
        let (a, b) = (poller.register(true).unwrap(), poller.register(true).unwrap());
        poller.interrupt(a);
        poller.interrupt(b);
        poller.inhibit(7, Sources::one(a), Instant::ZERO);
        assert_eq!(poller.turn().unwrap().0, b);
        poller.served(b, 0, false);
        assert!(!poller.is_runnable());
        poller.resume(7);
        assert_eq!(poller.turn().unwrap().0, a);
    }

    #[test]
    fn neither_feedback_nor_the_cycle_limit_holds_back_the_transmit_side() {
        let limit = CycleLimit { period: Duration::from_millis(10), percent: 1 };
        let mut poller: Poller<u8> = Poller::new(8, Duration::from_millis(1), Some(limit));
        let (receive, transmit) = (poller.register(true).unwrap(), poller.register(false).unwrap());
        poller.interrupt(receive);
        poller.interrupt(transmit);
        poller.inhibit(7, Sources::ALL, Instant::ZERO);
        poller.charge(Duration::from_millis(5));
        assert_eq!(poller.turn().unwrap().0, transmit);
        poller.served(transmit, 1, false);
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
        assert_eq!(poller.expire(Instant::from_millis(1)), Some(1));
        assert!(poller.is_runnable());
        assert_eq!(poller.resumes().timeout, 1);
    }

    #[test]
    fn the_cycle_limit_inhibits_input_until_the_period_ends_or_the_core_idles() {
        let limit = CycleLimit { period: Duration::from_millis(10), percent: 50 };
        let mut poller: Poller<u8> = Poller::new(8, Duration::from_millis(1), Some(limit));
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
