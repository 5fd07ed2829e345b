//! Interrupt moderation: what the papers name beside interrupts that are taken as soon as there is work,
//! receive and transmit sides in turn. Interfaces are looked at by the clock instead, at even intervals, or
//! by a soft event at those that suit the load.
//!
//! A host for which nothing of this is configured has none of it, and does not look at it.

use crate::config::{Config, TransmitService};
use crate::poll::{NetworkPolling, PollInterval, SourceId, Sources};
use crate::time::{Duration, Instant};

/// Which interrupts are taken, when and in which order.
#[derive(Debug)]
pub(super) struct Moderation {
    pub(super) service: TransmitService,
    pub(super) clocked: Option<Clocked>,
    pub(super) flags: Option<Flags>,
}

impl Moderation {
    /// Returns the moderation that `config` asks for, or `None` if there is nothing to moderate.
    pub(super) fn of(config: &Config) -> Option<Box<Self>> {
        let moderation = Self {
            service: config.paper_policies.transmit_service,
            clocked: Period::of(config).map(Clocked::new),
            flags: config.paper_policies.real_time_tasks.map(|_| Flags::default()),
        };
        let is_needed = moderation.service != TransmitService::InTurn
            || moderation.clocked.is_some()
            || moderation.flags.is_some();
        is_needed.then(|| Box::new(moderation))
    }

    pub(super) fn may_interrupt(&self) -> Sources {
        self.clocked.as_ref().map_or(Sources::ALL, Clocked::may_interrupt)
    }
}

/// The interval between two ticks: fixed, or adapted by network polling.
#[derive(Debug)]
enum Period {
    Fixed(Duration),
    Adaptive(Adaptive),
}

impl Period {
    fn of(config: &Config) -> Option<Self> {
        let polling =
            config.paper_policies.network_polling.map(|polling| Self::Adaptive(Adaptive::new(polling)));
        polling.or(config.paper_policies.clocked_interrupts.map(Self::Fixed))
    }
}

/// Network polling: each tick is a poll. While the core idles there is none.
#[derive(Debug)]
struct Adaptive {
    interval: PollInterval,
    idle: bool,
    /// No poll yet since the core was idle: what was taken was not found by one.
    first: bool,
    /// Packets that were taken since.
    found: usize,
}

impl Adaptive {
    fn new(NetworkPolling { aggregation_quota, shortest, longest }: NetworkPolling) -> Self {
        let interval = PollInterval::new(aggregation_quota, [shortest, longest]);
        Self { interval, idle: true, first: true, found: 0 }
    }

    /// Begins to poll after an idle time. Frames that are taken before the first poll were brought by
    /// interrupts and do not adapt the interval.
    const fn begin(&mut self) {
        self.interval.restart();
        (self.idle, self.first, self.found) = (false, true, 0);
    }

    /// Ends a poll interval. Returns the interval to the next poll, adapted to the number of packets that
    /// this one found.
    fn polled(&mut self) -> Duration {
        let found = core::mem::take(&mut self.found);
        let first = core::mem::take(&mut self.first);
        if first { self.interval.interval() } else { self.interval.polled(found) }
    }
}

/// Clocked interrupts: at each tick every source that has something may interrupt until it is found empty.
/// Frames that come to the others wait for the next tick.
#[derive(Debug)]
pub(super) struct Clocked {
    period: Period,
    next_tick: Instant,
    /// Sources that the last tick found not empty, and that have not been found empty since.
    ticked: Sources,
    /// Of these, the ones that have interrupted since.
    entered: Sources,
    /// The source whose handler runs.
    serving: Option<SourceId>,
}

impl Clocked {
    const fn new(period: Period) -> Self {
        Self {
            period,
            next_tick: Instant::ZERO,
            ticked: Sources::NONE,
            entered: Sources::NONE,
            serving: None,
        }
    }

    pub(super) const fn next_tick(&self) -> Instant {
        if self.is_off() { Instant::NEVER } else { self.next_tick }
    }

    /// Returns whether clocked interrupts are off: network polling is configured and the core is idle.
    pub(super) const fn is_off(&self) -> bool {
        matches!(self.period, Period::Adaptive(Adaptive { idle: true, .. }))
    }

    /// Returns whether clocked interrupts are off while the core is idle, which is so with network polling.
    pub(super) const fn is_off_when_idle(&self) -> bool {
        matches!(self.period, Period::Adaptive(_))
    }

    /// Records that the core is idle.
    pub(super) const fn enter_idle(&mut self) {
        if let Period::Adaptive(adaptive) = &mut self.period {
            adaptive.idle = true;
        }
    }

    /// Records that the core has work again. The sources `asking` may still interrupt, until they are found
    /// empty.
    pub(super) fn leave_idle(&mut self, asking: Sources, now: Instant) {
        if let Period::Adaptive(adaptive) = &mut self.period {
            adaptive.begin();
            self.next_tick = now + adaptive.interval.interval();
            self.allow(asking);
        }
    }

    fn may_interrupt(&self) -> Sources {
        if self.is_off() { Sources::ALL } else { self.ticked }
    }

    /// Ticks the clock: the sources `asking` may interrupt.
    pub(super) fn tick(&mut self, asking: Sources, now: Instant) {
        let period = match &mut self.period {
            Period::Fixed(period) => *period,
            Period::Adaptive(adaptive) => adaptive.polled(),
        };
        self.next_tick = now + period;
        self.allow(asking);
    }

    const fn allow(&mut self, asking: Sources) {
        self.ticked = asking;
        self.entered = Sources::NONE;
    }

    /// Counts packets that were taken since the last poll. The count adapts the interval of network
    /// polling.
    pub(super) const fn taken(&mut self, pkts: usize) {
        if let Period::Adaptive(adaptive) = &mut self.period {
            adaptive.found += pkts;
        }
    }

    /// Records that a source interrupts. Returns whether that is a new interrupt: a handler that goes on
    /// with its ring is still the previous one.
    pub(super) fn enter(&mut self, source: SourceId) -> bool {
        let is_new = !self.entered.contains(source);
        self.entered = self.entered.union(Sources::one(source));
        is_new
    }

    /// Records the source whose handler does the device work itself.
    pub(super) const fn serve(&mut self, source: SourceId) {
        self.serving = Some(source);
    }

    /// Returns the source whose handler ends now, if one was running.
    pub(super) const fn leave(&mut self) -> Option<SourceId> {
        self.serving.take()
    }

    /// Records that a source has nothing left of what the tick found, or that the polling thread serves it.
    /// Later arrivals wait for the next tick.
    pub(super) fn settle(&mut self, source: SourceId) {
        self.ticked = self.ticked.without(Sources::one(source));
    }
}

/// Handlers that only set a flag, their interrupts always enabled: of what has come to each source, how much
/// its handler counted last.
#[derive(Debug, Default)]
pub(super) struct Flags {
    last_counts: Vec<u64>,
}

impl Flags {
    pub(super) fn add(&mut self) {
        self.last_counts.push(0);
    }

    pub(super) fn last_count(&self, source: SourceId) -> u64 {
        self.last_counts.get(usize::from(source.0)).copied().unwrap_or(0)
    }

    pub(super) fn note(&mut self, source: SourceId, come: u64) {
        if let Some(last) = self.last_counts.get_mut(usize::from(source.0)) {
            *last = come;
        }
    }

    /// Subtracts `pkts` taken frames from the count that the source's handler saw last.
    pub(super) fn taken(&mut self, source: SourceId, pkts: usize) {
        self.note(source, self.last_count(source).saturating_sub(pkts as u64));
    }
}
