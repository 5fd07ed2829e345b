//! No deadline is forgotten and no idle loop sleeps too long, in whatever order threads come.
//!
//! Loom runs the product's own files with its locks and atomics in place of std's, on a kernel whose time and
//! whose timer are modelled. A thread that would wait for ever is a deadlock, which it reports.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use loom::thread;
}

/// A substitute for the kernel services that the product uses.
mod kernel {
    use std::cell::RefCell;
    use std::sync::Arc;

    use loom::sync::{Condvar, Mutex};

    /// Between two looks at the clock.
    const TICKS: u64 = 100;

    pub(crate) struct Kernel {
        state: Mutex<State>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct State {
        now: u64,
        /// The time at which the timer goes off.
        set: Option<u64>,
        /// It has gone off, and nobody has read that.
        expired: bool,
    }

    std::thread_local! {
        /// Loom's threads are all on one of the system's.
        static KERNEL: RefCell<Option<Arc<Kernel>>> = const { RefCell::new(None) };
    }

    impl Kernel {
        pub(crate) fn start() {
            let kernel = Self { state: Mutex::new(State::default()), changed: Condvar::new() };
            KERNEL.set(Some(Arc::new(kernel)));
        }

        pub(crate) fn get() -> Arc<Self> {
            KERNEL.with_borrow(|kernel| kernel.clone()).unwrap()
        }

        pub(crate) fn now(&self) -> u64 {
            let mut state = self.state.lock().unwrap();
            let now = state.now + TICKS;
            state.advance(now);
            self.changed.notify_all();
            now
        }

        /// Setting it anew forgets that it has gone off.
        pub(crate) fn once(&self, after: u64) {
            let mut state = self.state.lock().unwrap();
            (state.set, state.expired) = (Some(state.now + after.max(1)), false);
            self.changed.notify_all();
        }

        pub(crate) fn take(&self, blocks: bool) -> bool {
            let mut state = self.state.lock().unwrap();
            while blocks && !state.expired {
                if let Some(at) = state.set {
                    // So much time passes while nobody looks. Others may come before it is read.
                    state.advance(at);
                    drop(state);
                    state = self.state.lock().unwrap();
                } else {
                    state = self.changed.wait(state).unwrap();
                }
            }
            core::mem::take(&mut state.expired)
        }
    }

    impl State {
        fn advance(&mut self, to: u64) {
            self.now = self.now.max(to);
            if self.set.take_if(|at| *at <= to).is_some() {
                self.expired = true;
            }
        }
    }
}

mod clock {
    use super::kernel::Kernel;
    use std::sync::Arc;

    pub(crate) struct Clock(Arc<Kernel>);

    impl Clock {
        pub(crate) fn start() -> Self {
            Self(Kernel::get())
        }

        pub(crate) fn now(&self) -> evenkeel_timers::Instant {
            evenkeel_timers::Instant::from_nanos(self.0.now())
        }
    }
}

mod interrupt {
    use super::kernel::Kernel;
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::sync::Arc;

    pub(crate) struct Interrupt {
        kernel: Arc<Kernel>,
        blocks: bool,
    }

    impl Interrupt {
        #[allow(clippy::unnecessary_wraps, reason = "as the product's")]
        pub(crate) fn new(blocks: bool) -> io::Result<Self> {
            Ok(Self { kernel: Kernel::get(), blocks })
        }

        pub(crate) fn once(&self, after: u64) {
            self.kernel.once(after);
        }

        pub(crate) fn every(&self, _period: u64) {
            unreachable!("models have deadlines")
        }

        pub(crate) fn take(&self) -> bool {
            self.kernel.take(self.blocks)
        }
    }

    impl AsFd for Interrupt {
        fn as_fd(&self) -> BorrowedFd<'_> {
            unreachable!("models have no descriptors")
        }
    }
}

#[path = "../src/idle.rs"]
mod idle;
#[path = "../src/soft_clock.rs"]
#[allow(dead_code, unreachable_pub, reason = "for programs")]
mod soft_clock;

use core::task::{Context, Waker};
use std::sync::Arc;
use std::task::Wake;

use idle::IdleLoop;
use kernel::Kernel;
use loom::sync::{Condvar, Mutex};
use loom::thread;
use soft_clock::{Call, Options, SoftClock, Waits};

/// One more takes most of a minute, and finds nothing else.
const PREEMPTIONS_MAX: usize = 2;

/// X is a thousand ticks, so ten looks at the clock.
fn in_all_orders(waits: Waits, model: impl Fn(SoftClock) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(move || {
        Kernel::start();
        let options = Options { waits, interrupt_clock_resolution: 1_000_000, ..Options::default() };
        model(SoftClock::start(options).unwrap());
    });
}

/// A count of occurrences that threads can wait for.
#[derive(Default)]
struct Count(Mutex<u32>, Condvar);

impl Count {
    fn up(&self) {
        *self.0.lock().unwrap() += 1;
        self.1.notify_all();
    }

    fn get(&self) -> u32 {
        *self.0.lock().unwrap()
    }

    /// Waits for so many.
    fn wait(&self, count: u32) {
        let mut guard = self.0.lock().unwrap();
        while *guard < count {
            guard = self.1.wait(guard).unwrap();
        }
    }
}

/// Returns a handler that counts its calls.
fn handler(count: &Arc<Count>) -> Call {
    let count = Arc::clone(count);
    Call::new(move |_| count.up())
}

#[test]
fn the_one_shot_is_aimed_at_the_earliest_deadline_whoever_schedules_meanwhile() {
    in_all_orders(Waits::Thread, |clock| {
        let called = Arc::new(Count::default());
        let (theirs, theirs_called) = (clock.clone(), handler(&called));
        let other = thread::spawn(move || {
            theirs.schedule_with_deadline(500, 600, theirs_called);
        });
        clock.schedule_soft_event(100, handler(&called));
        // Nobody comes by.
        called.wait(2);
        other.join().unwrap();
    });
}

#[test]
fn of_two_threads_that_come_by_and_the_backing_one_calls_each_handler() {
    in_all_orders(Waits::Thread, |clock| {
        let called = [0; 2].map(|_| Arc::new(Count::default()));
        let running = Arc::new(Mutex::new(()));
        let [first, second] = called.each_ref().map(|called| {
            let (called, running) = (Arc::clone(called), Arc::clone(&running));
            Call::new(move |_| {
                // One that panics does not count.
                let _runs = running.try_lock().expect("no other handler runs");
                called.up();
            })
        });
        clock.schedule_soft_event(0, first);
        let theirs = clock.clone();
        let other = thread::spawn(move || theirs.trigger());
        clock.schedule_with_deadline(0, 0, second);
        clock.trigger();
        called.iter().for_each(|called| called.wait(1));
        other.join().unwrap();
        // No handler is running when that returns.
        clock.clear();
        assert!(called.iter().all(|called| called.get() == 1));
    });
}

/// A thread that is to run.
#[derive(Default)]
struct Thread(Count);

impl Wake for Thread {
    fn wake(self: Arc<Self>) {
        self.0.up();
    }
}

/// Nobody waits for the kernel's timer: so only the idle loop is there for the event. It is asleep until an
/// event far away, or for ever.
fn somebody_schedules_while_the_idle_loop_falls_asleep(far_away: bool) {
    in_all_orders(Waits::Program, move |clock| {
        let called = Arc::new(Count::default());
        if far_away {
            clock.schedule_soft_event(1_000_000, handler(&Arc::default()));
        }
        let (theirs, theirs_called) = (clock.clone(), handler(&called));
        let other = thread::spawn(move || {
            theirs.schedule_soft_event(500, theirs_called);
        });
        let woken = Arc::new(Thread::default());
        let waker = Waker::from(Arc::clone(&woken));
        let (context, mut idle, mut turns) = (Context::from_waker(&waker), IdleLoop::new(&clock), 0);
        while called.get() == 0 {
            woken.0.wait(turns);
            turns = woken.0.get() + 1;
            clock.trigger();
            idle.come_again(&context);
        }
        drop(idle);
        other.join().unwrap();
        clock.clear();
    });
}

#[test]
fn whoever_has_the_idle_loop_hears_of_what_is_scheduled() {
    somebody_schedules_while_the_idle_loop_falls_asleep(false);
}

#[test]
fn whoever_has_the_idle_loop_hears_of_what_is_due_sooner() {
    somebody_schedules_while_the_idle_loop_falls_asleep(true);
}
