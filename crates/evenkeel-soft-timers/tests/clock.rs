//! The facility on the machine's clock. Another program may have the core at any time, so what is asked of
//! lateness here is little; that nothing is early is asked of every event.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use core::future::Future;
use core::ops::ControlFlow;
use core::task::{Context, Waker};
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use evenkeel_soft_timers::{Backing, Call, Handler, Idle, Options, SoftClock, Waits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::timerfd_gettime;

const MS: u64 = 1_000_000;

fn start(backing: Backing, waits: Waits) -> SoftClock {
    SoftClock::start(Options { backing, waits, ..Options::default() }).unwrap()
}

fn nap(time: Duration) {
    thread::park_timeout(time);
}

/// Waits until `what` holds, for ten seconds at most, without a trigger state.
fn wait_until(what: impl Fn() -> bool) {
    assert!((0..10_000).any(|_| what() || (nap(Duration::from_millis(1)), false).1), "it never came");
}

/// Counts calls, and says on which threads they were.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<ThreadId>>>);

impl Calls {
    fn handler(&self) -> Call {
        let calls = Arc::clone(&self.0);
        Call::new(move |_| calls.lock().unwrap().push(thread::current().id()))
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[test]
fn the_four_calls_of_the_paper() {
    let options = Options { interrupt_clock_resolution: 500, ..Options::default() };
    let clock = SoftClock::<Call>::start(options).unwrap();
    assert_eq!((clock.measure_resolution(), clock.interrupt_clock_resolution()), (1_000_000_000, 500));
    let (before, calls) = (clock.measure_time(), Calls::default());
    let event = clock.schedule_soft_event(1_000, calls.handler());
    assert!(clock.is_pending(event) && clock.next_due().is_some_and(|due| due > before + 1_000));
    while clock.is_pending(event) {
        clock.trigger();
    }
    assert!(clock.measure_time() > before + 1_000);
    wait_until(|| calls.count() == 1);
    assert_eq!((clock.trigger(), clock.pending(), clock.next_due()), (0, 0, None));
}

/// An event with the time at which it was scheduled, its delay, and the shared count of events that
/// happened.
struct Timed {
    at: u64,
    ticks: u64,
    happened: Arc<AtomicUsize>,
}

impl Handler for Timed {
    fn call(self, clock: &SoftClock<Self>) {
        let actual = clock.measure_time() - self.at;
        // What was measured before it was scheduled is earlier than that.
        assert!(actual > self.ticks, "{actual} for {}", self.ticks);
        self.happened.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn of_ten_thousand_events_none_is_early_whoever_takes_care_of_it() {
    for backing in [Backing::Deadline, Backing::Periodic] {
        let clock = SoftClock::start(Options { backing, ..Options::default() }).unwrap();
        let happened = Arc::new(AtomicUsize::new(0));
        for n in 0..10_000_u64 {
            let ticks = n * 7_919 % (5 * MS);
            let event = Timed { at: clock.measure_time(), ticks, happened: Arc::clone(&happened) };
            clock.schedule_with_deadline(ticks, ticks + n % 50_000, event);
            if n % 16 == 0 {
                clock.trigger();
            }
        }
        wait_until(|| happened.load(Ordering::Relaxed) == 10_000);
        let counts = clock.counts();
        assert_eq!(counts.triggered + counts.overdue, 10_000, "{counts:?}");
        assert!(counts.overdue > 0, "{counts:?}");
    }
}

#[test]
fn while_the_program_computes_the_backing_calls_handlers_on_its_own_thread() {
    for backing in [Backing::Deadline, Backing::Periodic] {
        let (clock, calls) = (start(backing, Waits::Thread), Calls::default());
        (0..3).for_each(|n| _ = clock.schedule_soft_event(n * MS, calls.handler()));
        assert_eq!(clock.interrupt(), 0, "that is not the program's to do");
        wait_until(|| calls.count() == 3);
        let me = thread::current().id();
        assert!(calls.0.lock().unwrap().iter().all(|thread| *thread != me));
        assert_eq!(clock.counts().overdue, 3);
    }
}

#[test]
fn a_program_that_waits_itself_finds_the_descriptor_readable() {
    for backing in [Backing::Deadline, Backing::Periodic] {
        let (clock, calls) = (start(backing, Waits::Program), Calls::default());
        clock.schedule_soft_event(3 * MS, calls.handler());
        while calls.count() == 0 {
            wait_for_interrupt(&clock).unwrap();
        }
        assert_eq!(clock.interrupt(), 0, "and is not readable any more");
        let counts = clock.counts();
        assert_eq!((counts.triggered, counts.overdue), (0, 1));
        assert!(counts.interrupts >= 1 && (backing == Backing::Periodic || counts.interrupts == 1));
    }
}

#[test]
fn a_deadline_before_all_others_moves_the_one_shot() {
    let options = Options { interrupt_clock_resolution: 1, ..Options::default() };
    let clock = SoftClock::start(options).unwrap();
    let calls = [0; 2].map(|_| Calls::default());
    // Without deadline it may be a second late.
    clock.schedule_soft_event(3_600_000 * MS, calls[0].handler());
    clock.schedule_with_deadline(MS, 2 * MS, calls[1].handler());
    let began = clock.measure_time();
    wait_until(|| calls[1].count() == 1);
    assert!(clock.measure_time() - began < 900 * MS);
    assert_eq!((calls[0].count(), clock.pending(), clock.counts().interrupts), (0, 1, 1));
    // A later one leaves it where it is, and is taken care of when its own time has come.
    clock.schedule_with_deadline(20 * MS, 20 * MS, calls[1].handler());
    clock.schedule_with_deadline(40 * MS, 40 * MS, calls[1].handler());
    wait_until(|| calls[1].count() == 3);
}

#[test]
fn for_what_is_far_away_the_kernel_is_asked_too_early_as_its_clock_is_another() {
    let (clock, calls) = (start(Backing::Deadline, Waits::Program), Calls::default());
    clock.schedule_soft_event(3_600_000 * MS, calls.handler());
    let set = timerfd_gettime(&clock).unwrap().it_value.tv_sec;
    assert!((3_000..3_598).contains(&set), "{set} s");
}

#[test]
fn events_that_trigger_states_take_care_of_cost_two_interrupts_a_millisecond_at_most() {
    let clock = start(Backing::Deadline, Waits::Thread);
    let called = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&called);
    let handler = Call::again(move |clock: &SoftClock, again| {
        count.fetch_add(1, Ordering::Relaxed);
        clock.schedule_soft_event(5_000, again);
    });
    let began = clock.measure_time();
    clock.schedule_soft_event(0, handler);
    while clock.measure_time() < began + 50 * MS {
        clock.trigger();
    }
    let elapsed = (clock.measure_time() - began) / MS;
    clock.clear();
    let (counts, called) = (clock.counts(), called.load(Ordering::Relaxed));
    // Mostly one: it is aimed a millisecond after what is due then, which may be late already if the program
    // was not running, but not the next time.
    assert!(counts.interrupts <= 2 * elapsed + counts.overdue + 2, "{counts:?} in {elapsed} ms");
    assert!(counts.aimed <= counts.interrupts + 2, "it is not moved with each event: {counts:?}");
    assert_eq!(counts.triggered + counts.overdue, called);
    assert!(called > 500, "{called}");
}

#[test]
fn where_nothing_is_pending_nobody_is_woken() {
    let (clock, calls) = (start(Backing::Deadline, Waits::Thread), Calls::default());
    nap(Duration::from_millis(20));
    assert_eq!((clock.counts().interrupts, clock.idle(false)), (0, Idle::Halt { until: None }));
    let event = clock.schedule_soft_event(MS, calls.handler());
    assert_eq!(clock.idle(false), Idle::Spin);
    assert!(matches!(clock.idle(true), Idle::Halt { until: Some(_) }), "another one checks");
    assert!(clock.cancel(event).is_some() && clock.cancel(event).is_none());
    // For what was cancelled it goes off once.
    nap(Duration::from_millis(20));
    assert!(clock.counts().interrupts <= 1, "{:?}", clock.counts());
    assert_eq!((calls.count(), clock.trigger()), (0, 0));
}

#[test]
fn handlers_never_run_at_the_same_time() {
    let clock = start(Backing::Deadline, Waits::Thread);
    let (running, called) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&called);
    let handler = Call::again(move |clock: &SoftClock, again| {
        assert!(!running.swap(true, Ordering::SeqCst), "another one runs");
        assert_eq!(clock.trigger(), 0, "within a handler it does nothing");
        (0..200).for_each(|_| core::hint::spin_loop());
        running.store(false, Ordering::SeqCst);
        if count.fetch_add(1, Ordering::SeqCst) < 2_000 {
            clock.schedule_with_deadline(1_000, 3_000, again);
        }
    });
    (0..4).for_each(|_| _ = clock.schedule_soft_event(0, handler.clone()));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while clock.pending() > 0 {
                    clock.trigger();
                }
            });
        }
    });
    wait_until(|| called.load(Ordering::SeqCst) > 2_000);
}

/// Waits until the kernel's timer has gone off. Returns the result of `interrupt`.
fn wait_for_interrupt(clock: &SoftClock) -> thread::Result<usize> {
    let mut fds = [PollFd::new(clock, PollFlags::IN)];
    let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
    assert_eq!(poll(&mut fds, Some(&limit)), Ok(1), "the timer goes off");
    catch_unwind(AssertUnwindSafe(|| clock.interrupt()))
}

#[test]
fn a_handler_that_panics_does_not_end_the_backing() {
    let (clock, calls) = (start(Backing::Deadline, Waits::Thread), Calls::default());
    clock.schedule_soft_event(MS, Call::new(|_| panic!("this is expected")));
    clock.schedule_soft_event(2 * MS, calls.handler());
    wait_until(|| calls.count() == 1);
    clock.schedule_soft_event(MS, calls.handler());
    wait_until(|| calls.count() == 2);
}

#[test]
fn a_handler_that_panics_leaves_the_timer_aimed_for_a_program_that_goes_on() {
    let (clock, calls) = (start(Backing::Deadline, Waits::Program), Calls::default());
    clock.schedule_soft_event(MS, Call::new(|_| panic!("this is expected")));
    clock.schedule_soft_event(2 * MS, calls.handler());
    assert!(wait_for_interrupt(&clock).is_err(), "the program hears of it");
    while calls.count() == 0 {
        wait_for_interrupt(&clock).unwrap();
    }
}

#[test]
fn a_sleep_is_not_over_before_its_time_although_all_events_were_forgotten() {
    let clock = start(Backing::Deadline, Waits::Thread);
    let mut sleep = Box::pin(clock.sleep(Duration::from_secs(3_600)));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..2 {
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        assert_eq!(clock.pending(), 1);
        clock.clear();
    }
}

#[test]
fn what_is_cleared_is_not_called_and_not_kept() {
    let (clock, calls) = (start(Backing::Deadline, Waits::Thread), Calls::default());
    let old: Vec<_> = (0..100).map(|n| clock.schedule_soft_event(n * 10_000, calls.handler())).collect();
    clock.clear();
    let count = calls.count();
    assert_eq!((clock.pending(), clock.next_due()), (0, None));
    let new = clock.schedule_soft_event(3_600_000 * MS, calls.handler());
    assert!(old.iter().all(|old| clock.cancel(*old).is_none()), "they name nothing");
    nap(Duration::from_millis(10));
    assert_eq!((calls.count(), clock.is_pending(new)), (count, true));
    drop(clock);
    // The backing's thread may have it a moment longer.
    wait_until(|| Arc::strong_count(&calls.0) == 1);
}

/// Each call takes a good part of the interval: were the next one due an interval after that, calls would be
/// later and later. A machine that gives its core to others makes calls late, too, so it is tried again.
#[test]
fn calls_at_an_interval_do_not_drift_and_none_is_early() {
    let clock = start(Backing::Deadline, Waits::Thread);
    let give_up = clock.measure_time() + 10_000 * MS;
    while !later_calls_are_on_time(&clock) {
        assert!(clock.measure_time() < give_up, "calls are later and later");
    }
    assert_eq!((clock.trigger(), clock.pending()), (0, 0), "it broke");
}

/// Returns whether, of calls at an interval that take two fifths of it, the later half was on time.
fn later_calls_are_on_time(clock: &SoftClock) -> bool {
    const EVERY: u64 = 100_000;
    const CALLS: u64 = 20;
    let begin = clock.measure_time();
    let (calls, on_time) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counts, counts_on_time) = (Arc::clone(&calls), Arc::clone(&on_time));
    clock.every(EVERY, move |clock| {
        let (now, nth) = (clock.measure_time(), 1 + counts.load(Ordering::Relaxed));
        let due = begin + nth * EVERY;
        assert!(now >= due, "call {nth} was early");
        while clock.measure_time() < now + EVERY * 2 / 5 {}
        counts_on_time.fetch_add(u64::from(nth > CALLS / 2 && now < due + EVERY / 2), Ordering::Relaxed);
        // The last: whoever has seen it reads the other count.
        counts.store(nth, Ordering::Release);
        if nth == CALLS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    while calls.load(Ordering::Acquire) < CALLS {
        clock.trigger();
    }
    on_time.load(Ordering::Relaxed) == CALLS / 2
}
