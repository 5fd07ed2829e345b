//! Soft timers: events in microseconds, without an interrupt for each.
//!
//! Source: Aron and Druschel, "Soft timers: efficient microsecond software timer support for network
//! processing", ACM TOCS 18(3), 2000.

use alloc::vec::Vec;
use core::fmt;

use crate::time::Instant;
use crate::timers::{Timer, Timers};
use crate::wheel::Wheel;

/// Events that the program takes wherever it passes by, backed by an infrequent interrupt.
///
/// A program often reaches states in which calling a handler costs nothing extra: the end of a system call,
/// of a request or of a batch, or its idle loop. In such a **trigger state** it reads its clock and compares
/// ([`is_due`](Self::is_due)). If an event is due, it takes the event ([`poll_event`](Self::poll_event)) and
/// calls its handler as a plain function. So events are as precise as trigger states are frequent. An
/// interrupt, the **backing**, comes seldom and handles overdue events.
///
/// The names are the paper's. Time is a number of *ticks* of the program's clock, whose start does not
/// matter. `measure_time` is the present reading of the clock. An event that is scheduled for `T` ticks
/// happens when the clock has advanced by at least `T + 1`, because it may be scheduled just before a tick.
/// With a backing every `X` ticks, the time that really passes is, in ticks,
///
/// ```text
///   T  <  actual  <  T + X + 1
/// ```
///
/// never less, and close to `T` where trigger states are frequent.
///
/// The backing can also be a one-shot timer, set to [`next_deadline`](Self::next_deadline). Each event has a
/// latest time: `X` after it is due, or the one given to
/// [`schedule_with_deadline`](Self::schedule_with_deadline). The one-shot fires only for events that no
/// trigger state has handled by then.
///
/// An event exists from being scheduled until it happens or is cancelled. Each is a timer of [`Timers`] in a
/// [`Wheel`]. So scheduling, cancelling and taking an event cost the same however many are pending, and
/// allocate nothing once as many were pending before. A handler that measures the distance of trigger states
/// schedules itself anew with `T` = 0: it is due as soon as the clock has ticked.
///
/// ```
/// use evenkeel_timers::SoftTimers;
///
/// // A clock that ticks every microsecond, an interrupt every millisecond.
/// let mut events = SoftTimers::new(1_000_000, 1_000);
///
/// // The clock reads 7 000 µs. A packet is to leave in 20 µs.
/// events.schedule_soft_event(7_000, 20, "send a packet");
///
/// // Trigger states, as they come.
/// let mut called = Vec::new();
/// for measure_time in [7_004, 7_020, 7_023, 7_040] {
///     while let Some(handler) = events.poll_event(measure_time) {
///         called.push((measure_time, handler));
///     }
/// }
/// assert_eq!(called, [(7_023, "send a packet")]);
///
/// // An event that waits no longer than 50 µs, and one of the backing. The first is cancelled.
/// let event = events.schedule_with_deadline(7_040, 20, 50, "acknowledge");
/// events.schedule_soft_event(7_040, 500, "poll the network");
/// assert_eq!(events.next_deadline(), Some(7_091));
/// assert_eq!(events.cancel(event), Some("acknowledge"));
/// assert_eq!(events.next_deadline(), Some(7_541 + 1_000));
/// ```
pub struct SoftTimers<W> {
    /// By when they are due.
    timers: Timers<Pending<W>>,
    /// By their deadlines, those that have one of their own.
    deadlines: Wheel,
    measure_resolution: u64,
    interrupt_clock_resolution: u64,
    /// The paper's X.
    interrupt_interval: u64,
    scheduled: u64,
}

struct Pending<W> {
    who: W,
    number: u64,
}

/// The name of a scheduled event, with which it can be cancelled. After the event has happened, the name
/// refers to nothing: it is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SoftEvent {
    key: u32,
    number: u64,
}

impl SoftEvent {
    /// Returns the place and the number of the event, for a caller that keeps it in another language.
    #[must_use]
    pub const fn into_parts(self) -> (u32, u64) {
        (self.key, self.number)
    }

    /// Creates the event of a place and a number. An event that was never scheduled names nothing.
    #[must_use]
    pub const fn from_parts(key: u32, number: u64) -> Self {
        Self { key, number }
    }
}

/// The activity of a core that has nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// The core checks for events: its loop is a trigger state.
    Spin,
    /// The core halts.
    Halt {
        /// The time at which it continues, in ticks. [`None`] if no event is pending and no interrupt comes.
        until: Option<u64>,
    },
}

impl<W> SoftTimers<W> {
    /// Creates an empty set of events. The clock has `measure_resolution` ticks a second. The backing comes
    /// `interrupt_clock_resolution` times a second: at least once, and at most once a tick.
    #[must_use]
    pub fn new(measure_resolution: u64, interrupt_clock_resolution: u64) -> Self {
        let measure_resolution = measure_resolution.max(1);
        let interrupt_clock_resolution = interrupt_clock_resolution.clamp(1, measure_resolution);
        Self {
            timers: Timers::new(),
            deadlines: Wheel::new(),
            measure_resolution,
            interrupt_clock_resolution,
            interrupt_interval: measure_resolution.div_ceil(interrupt_clock_resolution),
            scheduled: 0,
        }
    }

    /// Returns the clock's resolution in Hz: ticks in a second.
    #[must_use]
    pub const fn measure_resolution(&self) -> u64 {
        self.measure_resolution
    }

    /// Converts an instant to ticks of the measurement clock: whole ticks since the start of time.
    #[must_use]
    pub fn measure_time(&self, at: Instant) -> u64 {
        scale(at.as_nanos(), self.measure_resolution, NANOS_PER_S, false)
    }

    /// Returns the first instant at which the clock reads `ticks`.
    #[must_use]
    pub fn instant(&self, ticks: u64) -> Instant {
        Instant::from_nanos(scale(ticks, NANOS_PER_S, self.measure_resolution, true))
    }

    /// Returns the frequency of the backing in Hz: the lowest resolution at which events can be expected.
    #[must_use]
    pub const fn interrupt_clock_resolution(&self) -> u64 {
        self.interrupt_clock_resolution
    }

    /// Returns the paper's X: the ticks of the clock from one interrupt of the backing to the next, rounded
    /// up.
    #[must_use]
    pub const fn interrupt_interval(&self) -> u64 {
        self.interrupt_interval
    }

    /// Schedules an event: at least `ticks` after now, when the clock reads `measure_time`.
    pub fn schedule_soft_event(&mut self, measure_time: u64, ticks: u64, who: W) -> SoftEvent {
        self.scheduled += 1;
        let number = self.scheduled;
        let timer = self.timers.register(Pending { who, number });
        self.timers.set(&timer, at(due(measure_time, ticks)));
        SoftEvent { key: timer.0, number }
    }

    /// Schedules an event with a latest time, in ticks from now. The latest time is not before the event is
    /// due, and not more than the [`interrupt_interval`](Self::interrupt_interval) after that, when the
    /// backing handles all events.
    pub fn schedule_with_deadline(
        &mut self,
        measure_time: u64,
        ticks: u64,
        latest: u64,
        who: W,
    ) -> SoftEvent {
        let event = self.schedule_soft_event(measure_time, ticks, who);
        let slack = latest.saturating_sub(ticks);
        if slack < self.interrupt_interval {
            let deadline = due(measure_time, ticks.saturating_add(slack));
            self.deadlines.set(event.key, at(deadline));
        }
        event
    }

    /// Cancels an event and returns its owner, or [`None`] if it has happened or was cancelled before.
    pub fn cancel(&mut self, event: SoftEvent) -> Option<W> {
        if !self.is_pending(event) {
            return None;
        }
        self.deadlines.cancel(event.key);
        Some(self.timers.release(Timer(event.key))?.who)
    }

    /// Cancels all events and returns their owners.
    pub fn clear(&mut self) -> Vec<W> {
        self.deadlines = Wheel::new();
        core::mem::take(&mut self.timers).into_whose().map(|pending| pending.who).collect()
    }

    /// Returns whether an event has neither happened nor been cancelled.
    #[must_use]
    pub fn is_pending(&self, event: SoftEvent) -> bool {
        self.timers.who(&Timer(event.key)).is_some_and(|pending| pending.number == event.number)
    }

    /// Returns whether an event is due. Every trigger state calls it; it costs one comparison.
    #[inline]
    #[must_use]
    pub const fn is_due(&self, measure_time: u64) -> bool {
        measure_time >= self.timers.next_deadline().as_nanos()
    }

    /// Takes an event that is due and returns its owner. Call it in each trigger state and when a periodic
    /// backing comes, until it returns [`None`]. Events come in the order in which they are due.
    ///
    /// An event that a handler schedules is not due before the clock's next tick, so the loop ends.
    #[inline]
    pub fn poll_event(&mut self, measure_time: u64) -> Option<W> {
        if self.is_due(measure_time) { self.take_due(measure_time) } else { None }
    }

    /// Takes an event whose deadline has passed and returns its owner. Call it after a one-shot has fired,
    /// until it returns [`None`]. Other due events wait for a trigger state until their own deadlines.
    pub fn poll_overdue(&mut self, measure_time: u64) -> Option<W> {
        if let Some(key) = self.deadlines.poll_expired(at(measure_time)) {
            return Some(self.timers.release(Timer(key))?.who);
        }
        let overdue = self.take_due(measure_time.checked_sub(self.interrupt_interval)?);
        if overdue.is_none() {
            self.timers.turn(at(measure_time));
        }
        overdue
    }

    /// Returns the time at which the next event is due, in ticks.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        ticks(self.timers.next_deadline())
    }

    /// Returns the earliest deadline of all events. A one-shot backing is set to it, and set anew when it
    /// changes.
    pub fn next_deadline(&mut self) -> Option<u64> {
        let own = self.deadlines.next_deadline().unwrap_or(Instant::NEVER);
        // No deadline is later than this: so those that have it need not be looked for.
        ticks(own.min(self.timers.next_deadline().plus_nanos(self.interrupt_interval)))
    }

    /// Returns the action of an idle core when the clock reads `measure_time`. The core halts if no event is
    /// due before the backing comes, or if another idle core checks for events.
    ///
    /// A periodic backing comes at `next_interrupt`. Without one, the one-shot comes at
    /// [`next_deadline`](Self::next_deadline). Then the core wakes an
    /// [`interrupt_interval`](Self::interrupt_interval) before the next event is due, not at each interrupt.
    pub fn idle(&mut self, measure_time: u64, next_interrupt: Option<u64>, another_checks: bool) -> Idle {
        let backed = next_interrupt.into_iter().chain(self.next_deadline()).min();
        let due = self.next_due().filter(|due| backed.is_none_or(|backed| *due < backed));
        let Some(due) = due.filter(|_| !another_checks) else { return Idle::Halt { until: backed } };
        let check_from =
            if next_interrupt.is_some() { 0 } else { due.saturating_sub(self.interrupt_interval) };
        if measure_time >= check_from { Idle::Spin } else { Idle::Halt { until: Some(check_from) } }
    }

    /// Returns the number of pending events.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.timers.len()
    }

    /// Returns whether no event is pending.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    fn take_due(&mut self, measure_time: u64) -> Option<W> {
        let (key, pending) = self.timers.release_expired(at(measure_time))?;
        self.deadlines.cancel(key);
        Some(pending.who)
    }
}

impl<W> fmt::Debug for SoftTimers<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoftTimers")
            .field("pending", &self.len())
            .field("next_due", &self.next_due())
            .field("measure_resolution", &self.measure_resolution)
            .field("interrupt_clock_resolution", &self.interrupt_clock_resolution)
            .finish()
    }
}

const NANOS_PER_S: u64 = 1_000_000_000;

/// The wheel counts, what it counts is its user's business: here a tick is what elsewhere is a nanosecond.
const fn at(ticks: u64) -> Instant {
    Instant::from_nanos(ticks)
}

fn ticks(at: Instant) -> Option<u64> {
    (at != Instant::NEVER).then_some(at.as_nanos())
}

/// Returns the `ticks` with which an event is due when the clock reads `until`. That is one less than the
/// difference, because an event is due a tick after its time.
///
/// ```
/// use evenkeel_timers::{SoftTimers, soft::ticks_before};
///
/// let mut events = SoftTimers::new(1_000_000, 1_000);
/// events.schedule_soft_event(7_000, ticks_before(7_000, 7_020), "send a packet");
/// assert_eq!(events.next_due(), Some(7_020));
/// ```
#[must_use]
pub const fn ticks_before(measure_time: u64, until: u64) -> u64 {
    until.saturating_sub(measure_time).saturating_sub(1)
}

/// Returns the reading of the clock at which `ticks` have certainly passed. It is at most `u64::MAX - 1`,
/// because `u64::MAX` is the time of no event.
fn due(measure_time: u64, ticks: u64) -> u64 {
    measure_time.saturating_add(ticks).saturating_add(1).min(u64::MAX - 1)
}

fn scale(count: u64, to: u64, from: u64, round_up: bool) -> u64 {
    let product = u128::from(count) * u128::from(to);
    let from = u128::from(from);
    let scaled = if round_up { product.div_ceil(from) } else { product / from };
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
