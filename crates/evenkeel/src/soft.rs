//! Soft timers on a real core: handlers that run in trigger states, without an interrupt for each.
//!
//! Source: Aron and Druschel, "Soft timers: efficient microsecond software timer support for network
//! processing", ACM TOCS 18(3), 2000. The facility is [`evenkeel_timers::SoftTimers`]; the engine polls it.
//! Trigger states of an engine are the end of every unit, and so of every vector of frames and of every
//! step of a program. Within a step, or a call of [`Engine::enter`], they are the end of every call on a
//! stream and of every eighth other call. The idle loop is a trigger state, and so is each point that the
//! user marks ([`Engine::trigger`], [`System::trigger`](evenkeel_core::host::System::trigger)). While a
//! program computes with [`System::compute`](evenkeel_core::host::System::compute), the engine interrupts
//! it for events.
//!
//! [`Engine::enter`]: crate::Engine::enter
//! [`Engine::trigger`]: crate::Engine::trigger

use std::fmt;
use std::ops::ControlFlow;

use evenkeel_core::host::{Trigger, TriggerState};
use evenkeel_core::time::{Duration, Instant, nanos};
use evenkeel_link::Clock;
use evenkeel_timers::soft::ticks_before;
use evenkeel_timers::{Every, SoftEvent, SoftTimers};

/// The clock ticks per second: the clock counts nanoseconds.
const MEASURE_RESOLUTION: u64 = 1_000_000_000;
/// The number of times a second that the core is sure to poll the events while its programs make calls or
/// yield. A core that halts is woken in time.
const INTERRUPT_CLOCK_RESOLUTION: u64 = 1_000;

/// The time before the next event at which a halted core is woken; it spins for the rest. A core halts only
/// if nothing is due for longer than this. A wake-up takes about 50 µs, sometimes twice that.
pub(crate) const SPIN_BEFORE: Duration = Duration::from_micros(100);

/// The callback for an event. It returns the time after which the engine calls it again, if at all.
type Handler = Box<dyn FnMut(&mut TriggerState<'_>, Instant) -> Option<Duration> + Send>;

/// A handler for which any number of events can be scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoftHandler(usize);

/// Soft events of an engine, and their handlers.
pub struct SoftEvents {
    clock: Clock,
    timers: SoftTimers<SoftHandler>,
    handlers: Vec<Handler>,
    called: u64,
}

impl SoftEvents {
    pub(crate) fn new(clock: Clock) -> Self {
        let timers = SoftTimers::new(MEASURE_RESOLUTION, INTERRUPT_CLOCK_RESOLUTION);
        Self { clock, timers, handlers: Vec::new(), called: 0 }
    }

    /// Adds a handler, which stays as long as the engine. The engine calls it with the time, and with the
    /// host, on which it makes calls as [attached](crate::Engine::attach) processes. The handler returns the
    /// time after which it is called again, if at all; that call is a new event.
    ///
    /// The handler may run in the middle of a program's step, and delays that step as an interrupt does.
    pub fn add_handler(
        &mut self,
        handler: impl FnMut(&mut TriggerState<'_>, Instant) -> Option<Duration> + Send + 'static,
    ) -> SoftHandler {
        self.handlers.push(Box::new(handler));
        SoftHandler(self.handlers.len() - 1)
    }

    /// Calls `handler` every `interval` until it breaks. The first call is due one interval after `now`.
    ///
    /// The interval does not drift: each call is due when it would be if no call had been late. After a
    /// call that was late by more than half an interval, the next follows after half an interval, until the
    /// delay is made up for ([`Every`]).
    pub fn every(
        &mut self,
        now: Instant,
        interval: Duration,
        mut handler: impl FnMut(&mut TriggerState<'_>, Instant) -> ControlFlow<()> + Send + 'static,
    ) -> SoftHandler {
        let mut every = Every::new(interval, now);
        let after = until(now, every.due());
        let number = self.add_handler(move |state, now| {
            handler(state, now).is_continue().then(|| until(now, every.next(now)))
        });
        self.schedule(now, after, number);
        number
    }

    /// Schedules a call of `handler` in the first trigger state that comes `after` has passed since `now`,
    /// never before. Allocates nothing if as many events were pending earlier.
    pub fn schedule(&mut self, now: Instant, after: Duration, handler: SoftHandler) -> SoftEvent {
        self.timers.schedule_soft_event(now.as_nanos(), nanos(after), handler)
    }

    /// Cancels an event and returns whether it was pending.
    pub fn cancel(&mut self, event: SoftEvent) -> bool {
        self.timers.cancel(event).is_some()
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

    /// Returns the number of handler calls so far.
    #[must_use]
    pub const fn called(&self) -> u64 {
        self.called
    }

    /// Returns whether an event is due. This comparison is all that a trigger state costs if none is.
    #[inline]
    pub(crate) const fn is_due(&self, now: Instant) -> bool {
        self.timers.is_due(now.as_nanos())
    }
}

/// Returns the delay with which to schedule an event at `now` that is to be due at `due`.
fn until(now: Instant, due: Instant) -> Duration {
    Duration::from_nanos(ticks_before(now.as_nanos(), due.as_nanos()))
}

impl Trigger for SoftEvents {
    fn time(&self) -> Instant {
        self.clock.now()
    }

    fn next_due(&self) -> Instant {
        self.timers.next_due().map_or(Instant::NEVER, Instant::from_nanos)
    }

    fn call_due(&mut self, state: &mut TriggerState<'_>) {
        let now = state.now();
        while let Some(SoftHandler(number)) = self.timers.poll_event(now.as_nanos()) {
            let Some(handler) = self.handlers.get_mut(number) else { continue };
            self.called += 1;
            if let Some(after) = handler(state, now) {
                self.schedule(now, after, SoftHandler(number));
            }
        }
    }
}

impl fmt::Debug for SoftEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoftEvents").field("timers", &self.timers).field("called", &self.called).finish()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::system::{TcpListener, TcpStream, UserEvent};
    use std::sync::{Arc, Mutex};

    use evenkeel_core::cable::{End, Options, pair};
    use evenkeel_core::host::{Config, Host, System};
    use evenkeel_core::process::{ProcessId, Program, Step};
    use evenkeel_core::stack::IpEndpoint;
    use evenkeel_core::tcp::recovery::{RecoveryConfig, Start};
    use evenkeel_core::tcp::{self, EndpointConfig, ListenerConfig, Rate};
    use evenkeel_core::wire::{IpAddress, IpCidr};
    use evenkeel_link::Clock;

    use super::*;
    use crate::Engine;

    const EVERY: Duration = Duration::from_micros(50);
    const RUN: Duration = Duration::from_millis(20);

    fn engine() -> Engine {
        Engine::new(Host::new(Config::default()).unwrap(), Clock::start()).unwrap()
    }

    /// Schedules an event every [`EVERY`]. Returns the list to which the handler adds the time of each
    /// call.
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

    /// A program that has work for as long as it is run.
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

    /// A handler takes nearly half of the interval each time; some calls still come as if it took no time.
    #[test]
    fn calls_at_an_interval_do_not_drift_and_none_is_early() {
        const CALLS: u32 = 10;
        let mut engine = engine();
        let (clock, begin) = (*engine.clock(), engine.clock().now());
        let calls = Arc::<Mutex<[u32; 2]>>::default();
        let noted = Arc::clone(&calls);
        engine.soft_events().every(begin, EVERY, move |_, now| {
            let [nth, on_time] = &mut *noted.lock().unwrap();
            *nth += 1;
            let due = begin + EVERY * *nth;
            assert!(now >= due, "call {nth} was early");
            clock.spin(EVERY * 2 / 5);
            *on_time += u32::from(*nth > CALLS && now < due + EVERY / 2);
            if *on_time < CALLS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        while calls.lock().unwrap()[1] < CALLS && clock.now() < begin + Duration::from_secs(10) {
            run(&mut engine);
        }
        assert_eq!((calls.lock().unwrap()[1], engine.soft_events().len()), (CALLS, 0));
    }

    #[test]
    fn an_idle_core_halts_before_an_event_that_is_far_away() {
        let mut engine = engine();
        let handler = engine.soft_events().add_handler(|_, _| None);
        let now = engine.clock().now();
        assert_eq!(engine.driver.units.halt_until(now), Some(Instant::NEVER));
        let event = engine.soft_events().schedule(now, RUN, handler);
        // One tick of the clock more than what was asked for.
        let due = now + RUN + Duration::from_nanos(1);
        let until = now + due.since(now + SPIN_BEFORE);
        assert_eq!(engine.driver.units.halt_until(now), Some(until));
        assert_eq!(engine.driver.units.halt_until(until), None, "it spins for the rest");
        assert!(engine.soft_events().cancel(event) && !engine.soft_events().cancel(event));
        engine.soft_events().schedule(now, RUN, handler);
        run(&mut engine);
        run(&mut engine);
        assert!(engine.soft_events().called() == 1 && engine.soft_events().is_empty());
        let halted = engine.observer().core().halted;
        assert!(halted > Duration::from_millis(1), "{halted:?}");
    }

    /// A program that does not end its step before a handler has been called three times. It gives up after
    /// 10 s.
    #[derive(Debug)]
    struct Patient {
        calls: Arc<Mutex<Vec<Instant>>>,
        clock: Clock,
        /// The call that the program repeats meanwhile.
        meanwhile: fn(&mut System<'_>),
    }

    fn calls_out(system: &mut System<'_>) {
        let event = UserEvent::open(system).unwrap();
        system.close(event);
    }

    impl Program for Patient {
        fn step(&mut self, system: &mut System<'_>) -> Step {
            let give_up = self.clock.now() + Duration::from_secs(10);
            while self.calls.lock().unwrap().len() < 3 && self.clock.now() < give_up {
                (self.meanwhile)(system);
            }
            assert!(self.calls.lock().unwrap().len() >= 3, "in the middle of a step");
            Step::Exit
        }
    }

    #[test]
    fn events_come_in_the_middle_of_a_step_that_makes_calls_or_says_where_they_may() {
        for meanwhile in [calls_out, |system: &mut System<'_>| system.trigger()] {
            let mut engine = engine();
            let calls = tick(&mut engine);
            let program = Patient { calls: Arc::clone(&calls), clock: *engine.clock(), meanwhile };
            engine.host_mut().spawn("patient", 0, Box::new(program));
            run(&mut engine);
            assert!(calls.lock().unwrap().len() >= 3);
        }
    }

    #[test]
    fn a_thread_outside_has_events_between_its_calls_too() {
        let mut engine = engine();
        let (me, calls) = (engine.attach("me"), tick(&mut engine));
        let clock = *engine.clock();
        let mut program = Patient { calls, clock, meanwhile: calls_out };
        engine.enter(me, |system| program.step(system)).unwrap();
    }

    /// An engine at one end of a cable, with a thread outside, and its number.
    fn beside(end: End, number: u8, config: Config) -> (Engine, ProcessId) {
        let mut engine = Engine::new(Host::new(config).unwrap(), Clock::start()).unwrap();
        engine.add_cable(end, &[IpCidr::new(IpAddress::v4(10, 77, 0, number), 24)]).unwrap();
        let me = engine.attach("me");
        (engine, me)
    }

    /// A segment every 3 ms or so: the core halts in between, and not when one is about to leave.
    #[test]
    fn an_idle_core_halts_between_paced_segments_and_spins_before_each() {
        let start = Start::At(Rate::bits_per_s(4_000_000));
        let recovery = Arc::new(RecoveryConfig { start, ..RecoveryConfig::default() });
        let connection = Arc::new(tcp::Config { recovery, ..tcp::Config::default() });
        let tcp = EndpointConfig { connection, ..EndpointConfig::default() };
        let (near, far) = pair(Options::new("near", 1), Options::new("far", 2));
        let (mut a, me) = beside(near, 1, Config { tcp, ..Config::default() });
        let (mut b, peer) = beside(far, 2, Config::default());
        b.enter(peer, |system| TcpListener::listen(system, None, 7, &ListenerConfig::default()))
            .unwrap()
            .unwrap();
        let to = IpEndpoint::new(IpAddress::v4(10, 77, 0, 2), 7);
        let stream = a.enter(me, |system| TcpStream::connect(system, to)).unwrap().unwrap();
        let mut turns = |engine: &mut Engine| {
            for _ in 0..10 {
                engine.run(engine.clock().now() + Duration::from_micros(200), |_| false).unwrap();
                b.run(b.clock().now() + Duration::from_micros(200), |_| false).unwrap();
            }
        };
        turns(&mut a);
        let written = a.enter(me, |system| stream.write(system, &[7; 30_000])).unwrap();
        assert_eq!(written, Ok(30_000));
        let now = a.clock().now();
        assert!(a.host_mut().exact_deadline() > now, "the next waits");
        let exact = a.host().exact_deadline();
        let before = exact.since(Instant::ZERO + SPIN_BEFORE);
        assert_eq!(a.driver.units.halt_until(now), Some(Instant::ZERO + before));
        assert_eq!(a.driver.units.halt_until(Instant::ZERO + before), None, "it spins for the rest");
        let halted = a.halted();
        (0..5).for_each(|_| turns(&mut a));
        assert!(a.halted() > halted && a.host().exact_deadline() > exact, "others have left");
    }

    /// Computes for longer than the run, in one step.
    #[derive(Debug)]
    struct Thinker(Duration);

    impl Program for Thinker {
        fn step(&mut self, system: &mut System<'_>) -> Step {
            system.compute(self.0);
            Step::Exit
        }
    }

    #[test]
    fn events_come_while_a_program_computes_and_take_none_of_its_time() {
        for thinks in [Duration::from_secs(3_600), RUN] {
            let mut engine = engine();
            let clock = *engine.clock();
            let handler = engine.soft_events().add_handler(move |_, _| {
                clock.spin(EVERY);
                Some(EVERY)
            });
            let begin = engine.clock().now();
            engine.soft_events().schedule(begin, EVERY, handler);
            let thinker = engine.host_mut().spawn("thinker", 0, Box::new(Thinker(thinks)));
            if thinks > RUN {
                run(&mut engine);
                assert!(engine.soft_events().called() > 1);
                continue;
            }
            let until = begin + Duration::from_secs(30);
            engine.run(until, |host| host.bill(thinker).is_none()).unwrap();
            let spun = EVERY * engine.soft_events().called() as u32;
            let took = engine.clock().now().since(begin);
            assert!(engine.soft_events().called() > 1 && took >= RUN + spun, "{took:?} with {spun:?}");
        }
    }

    #[test]
    fn a_handler_sends_as_a_process_that_is_attached() {
        let mut engine = engine();
        let me = engine.attach("me");
        let event = engine.enter(me, UserEvent::open).unwrap().unwrap();
        let handler = engine.soft_events().add_handler(move |state, _| {
            state.enter(me, |system| event.post(system, 1)).unwrap().unwrap();
            None
        });
        let now = engine.clock().now();
        engine.soft_events().schedule(now, Duration::ZERO, handler);
        let until = now + Duration::from_secs(10);
        assert_eq!(engine.wait(me, event, until).unwrap(), crate::Ended::Done);
        assert_eq!(engine.enter(me, |system| event.posted(system)).unwrap(), Ok(1));
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
