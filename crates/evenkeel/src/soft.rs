//! Soft timers on a real core: handlers that are called in trigger states, without an interrupt for each.
//!
//! Source: Aron and Druschel, "Soft timers: efficient microsecond software timer support for network
//! processing", ACM TOCS 18(3), 2000. The facility is [`evenkeel_timers::SoftTimers`]; here is where it is
//! looked at. Trigger states of an engine are the end of every unit, and so of every vector of frames and of
//! every step of a program; the end of every call of a thread outside ([`Engine::enter`]); the idle loop; and
//! whatever the user calls one ([`Engine::trigger`]).

use std::fmt;

use evenkeel_core::host::Host;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_timers::{SoftEvent, SoftTimers};

use crate::engine::Engine;

/// The clock counts nanoseconds.
const MEASURE_RESOLUTION: u64 = 1_000_000_000;
/// How often the core is sure to come by while its programs give it back: a program that computes has done so
/// by then, and a core that halts is woken in time.
const INTERRUPT_CLOCK_RESOLUTION: u64 = 1_000;

/// A core halts only if nothing is due for longer than this; it is woken so long before, and spins for the
/// rest. To be woken takes some 50 µs, sometimes twice that.
const SPIN_BEFORE: Duration = Duration::from_micros(100);

/// What is called when an event has come. Says after how long it is to be called again, if at all.
type Handler = Box<dyn FnMut(&mut Host, Instant) -> Option<Duration> + Send>;

/// A handler that events can be scheduled for, any number of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoftHandler(usize);

/// Soft events of an engine, and their handlers.
pub struct SoftEvents {
    timers: SoftTimers<SoftHandler>,
    handlers: Vec<Handler>,
    called: u64,
}

impl SoftEvents {
    pub(crate) fn new() -> Self {
        let timers = SoftTimers::new(MEASURE_RESOLUTION, INTERRUPT_CLOCK_RESOLUTION);
        Self { timers, handlers: Vec::new(), called: 0 }
    }

    /// Adds a handler, which stays as long as the engine. It is called with the host and the time, and says
    /// after how long it is to be called again, if at all: that is an event like another.
    pub fn add_handler(
        &mut self,
        handler: impl FnMut(&mut Host, Instant) -> Option<Duration> + Send + 'static,
    ) -> SoftHandler {
        self.handlers.push(Box::new(handler));
        SoftHandler(self.handlers.len() - 1)
    }

    /// Has a handler called in the first trigger state that comes `after` has passed since `now`, never
    /// before. Allocates nothing once as many were pending.
    pub fn schedule(&mut self, now: Instant, after: Duration, handler: SoftHandler) -> SoftEvent {
        let ticks = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self.timers.schedule_soft_event(now.as_nanos(), ticks, handler)
    }

    /// Cancels an event; says whether it was pending.
    pub fn cancel(&mut self, event: SoftEvent) -> bool {
        self.timers.cancel(event).is_some()
    }

    /// How many events are pending.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.timers.len()
    }

    /// No event is pending.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    /// Handlers called so far.
    #[must_use]
    pub const fn called(&self) -> u64 {
        self.called
    }

    /// What a trigger state costs if nothing is due: a comparison.
    #[inline]
    pub(crate) const fn is_due(&self, now: Instant) -> bool {
        self.timers.is_due(now.as_nanos())
    }

    /// Calls the handlers of all that is due.
    pub(crate) fn call_due(&mut self, host: &mut Host, now: Instant) {
        while let Some(SoftHandler(number)) = self.timers.poll_event(now.as_nanos()) {
            let Some(handler) = self.handlers.get_mut(number) else { continue };
            self.called += 1;
            if let Some(after) = handler(host, now) {
                self.schedule(now, after, SoftHandler(number));
            }
        }
    }

    /// Until when an idle core may halt; `None` if it is to spin.
    pub(crate) fn halt_until(&self, now: Instant) -> Option<Instant> {
        let Some(due) = self.timers.next_due() else { return Some(Instant::NEVER) };
        let until = Instant::from_nanos(due.saturating_sub(SPIN_BEFORE.as_nanos() as u64));
        (until > now).then_some(until)
    }
}

impl fmt::Debug for SoftEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoftEvents").field("timers", &self.timers).field("called", &self.called).finish()
    }
}

impl Engine {
    /// Events in microseconds: handlers that the engine calls when it comes by anyway.
    ///
    /// They come on time as long as programs give the core back: one that computes for a millisecond delays
    /// them as long. A core that is idle spins for the last 100 µs before an event is due, as it cannot be
    /// woken exactly enough.
    ///
    /// ```
    /// # use evenkeel::{Engine, core::host::{Config, Host}, core::time::Duration, link::Clock};
    /// let mut engine = Engine::new(Host::new(Config::default())?, Clock::start())?;
    /// let handler = engine.soft_events().add_handler(|_host, _now| {
    ///     // ... send a packet ...
    ///     Some(Duration::from_micros(20))
    /// });
    /// let now = engine.clock().now();
    /// engine.soft_events().schedule(now, Duration::ZERO, handler);
    ///
    /// engine.run(now + Duration::from_millis(5), |_| false)?;
    /// assert!(engine.soft_events().called() > 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn soft_events(&mut self) -> &mut SoftEvents {
        &mut self.soft
    }

    /// A trigger state of the caller's own: handlers of what is due are called.
    pub fn trigger(&mut self) {
        self.trigger_at(self.clock().now());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use evenkeel_core::host::{Config, System};
    use evenkeel_core::process::{Program, Step};
    use evenkeel_link::Clock;

    use super::*;

    const EVERY: Duration = Duration::from_micros(50);
    const RUN: Duration = Duration::from_millis(20);

    fn engine() -> Engine {
        Engine::new(Host::new(Config::default()).unwrap(), Clock::start()).unwrap()
    }

    /// Has an event every [`EVERY`]; when the handler was called.
    fn tick(engine: &mut Engine) -> Arc<Mutex<Vec<Instant>>> {
        let calls = Arc::<Mutex<Vec<Instant>>>::default();
        let noted = Arc::clone(&calls);
        let handler = engine.soft_events().add_handler(move |_, now| {
            noted.lock().unwrap().push(now);
            Some(EVERY)
        });
        let now = engine.clock().now();
        engine.soft_events().schedule(now, EVERY, handler);
        calls
    }

    /// Has something to do for as long as it is run.
    #[derive(Debug)]
    struct Busy;

    impl Program for Busy {
        fn step(&mut self, system: &mut System<'_>) -> Step {
            system.compute(Duration::from_micros(3));
            Step::Again
        }
    }

    fn run(engine: &mut Engine) {
        let until = engine.clock().now() + RUN;
        engine.run(until, |_| false).unwrap();
    }

    #[test]
    fn events_come_while_the_core_is_busy_and_while_it_is_idle_and_never_early() {
        for busy in [false, true] {
            let mut engine = engine();
            if busy {
                engine.host_mut().spawn("busy", 0, Box::new(Busy));
            }
            let (begin, calls) = (engine.clock().now(), tick(&mut engine));
            run(&mut engine);
            let calls = calls.lock().unwrap();
            assert!(calls.len() > 1 && engine.soft_events().called() == calls.len() as u64);
            assert_eq!(engine.soft_events().len(), 1, "one pending at a time");
            let starts = std::iter::once(&begin).chain(calls.iter());
            assert!(starts.zip(calls.iter()).all(|(last, call)| call.since(*last) > EVERY), "busy: {busy}");
        }
    }

    #[test]
    fn an_idle_core_halts_before_an_event_that_is_far_away() {
        let mut engine = engine();
        let handler = engine.soft_events().add_handler(|_, _| None);
        let now = engine.clock().now();
        assert_eq!(engine.soft.halt_until(now), Some(Instant::NEVER));
        let event = engine.soft_events().schedule(now, RUN, handler);
        // One tick of the clock more than what was asked for.
        let due = now + RUN + Duration::from_nanos(1);
        let until = now + due.since(now + SPIN_BEFORE);
        assert_eq!(engine.soft.halt_until(now), Some(until));
        assert_eq!(engine.soft.halt_until(until), None, "it spins for the rest");
        assert!(engine.soft_events().cancel(event) && !engine.soft_events().cancel(event));
        engine.soft_events().schedule(now, RUN, handler);
        run(&mut engine);
        run(&mut engine);
        assert!(engine.soft_events().called() == 1 && engine.soft_events().is_empty());
        let halted = engine.observer().core().halted;
        assert!(halted > Duration::from_millis(1), "{halted:?}");
    }

    #[test]
    fn the_end_of_a_call_is_a_trigger_state_and_so_is_what_the_user_says() {
        let mut engine = engine();
        let me = engine.attach("me");
        let handler = engine.soft_events().add_handler(|_, _| Some(Duration::ZERO));
        let now = engine.clock().now();
        engine.soft_events().schedule(now, Duration::ZERO, handler);
        for called in 1..5 {
            engine.clock().spin(Duration::from_micros(1));
            if called % 2 == 0 {
                engine.trigger();
            } else {
                engine.enter(me, |_| ()).unwrap();
            }
            assert_eq!(engine.soft_events().called(), called);
        }
    }
}
