//! Tests that no wake-up is lost between threads, in any interleaving, and with any order of writes that the
//! memory model allows.
//!
//! Loom runs the product's own files with its atomics in place of std's. It reports a thread that would sleep
//! for ever as a deadlock.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

    /// An atomic flag whose stores are swaps. Loom leaves open whether a store comes before or after another
    /// thread's swap that has not seen it, even if the swap read an older value and so stands next to it in
    /// C++20's modification order ([atomics.order]). A swap has its place at once.
    #[derive(Debug, Default)]
    pub(crate) struct AtomicBool(loom::sync::atomic::AtomicBool);

    impl AtomicBool {
        pub(crate) fn new(value: bool) -> Self {
            Self(loom::sync::atomic::AtomicBool::new(value))
        }

        pub(crate) fn load(&self, ordering: Ordering) -> bool {
            self.0.load(ordering)
        }

        pub(crate) fn store(&self, value: bool, ordering: Ordering) {
            self.0.swap(value, ordering);
        }

        pub(crate) fn swap(&self, value: bool, ordering: Ordering) -> bool {
            self.0.swap(value, ordering)
        }
    }
}
#[path = "../../evenkeel-core/src/cable/armed.rs"]
#[allow(dead_code, reason = "for other tests")]
mod armed;
#[path = "../src/wakeup.rs"]
#[allow(dead_code, reason = "for other tests")]
mod wakeup;

use armed::Armed;
use atomic::{AtomicBool, AtomicU64, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use wakeup::{Counter, Notified, Sleeper};

/// The most preemptions in a run. More would take minutes, and find nothing else.
const PREEMPTIONS_MAX: usize = 4;

/// An eventfd: readable while it is not 0.
#[derive(Debug)]
struct Event {
    count: Mutex<u64>,
    readable: Condvar,
}

impl Event {
    fn new() -> Self {
        Self { count: Mutex::new(0), readable: Condvar::new() }
    }

    /// Waits like poll(2) without a timeout.
    fn poll(&self) {
        let mut count = self.count.lock().unwrap();
        while *count == 0 {
            count = self.readable.wait(count).unwrap();
        }
    }

    fn is_readable(&self) -> bool {
        *self.count.lock().unwrap() > 0
    }
}

impl Counter for Event {
    fn increment(&self) {
        *self.count.lock().unwrap() += 1;
        self.readable.notify_one();
    }

    fn reset(&self) -> u64 {
        core::mem::take(&mut *self.count.lock().unwrap())
    }
}

/// Runs `model` in all orders in which threads are preempted at most [`PREEMPTIONS_MAX`] times.
fn in_all_orders(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(model);
}

/// Sleeps once, as `Halt::until` does. Returns whether a wake-up has come.
fn sleep(sleeper: &Sleeper<Event>) -> bool {
    if sleeper.fall_asleep() {
        sleeper.counter.poll();
    }
    sleeper.rise()
}

#[test]
fn whoever_is_woken_sees_what_was_done_before() {
    in_all_orders(|| {
        let sleeper = Arc::new(Sleeper::new(Event::new()));
        let done = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        let wakers = [0, 1].map(|nth| {
            let (sleeper, done) = (Arc::clone(&sleeper), Arc::clone(&done));
            thread::spawn(move || {
                done[nth].store(true, Ordering::Relaxed);
                sleeper.wake();
            })
        });
        while !done.iter().all(|done| done.load(Ordering::Relaxed)) {
            sleep(&sleeper);
        }
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
        // A late increment by a waker ends one more sleep, and no other.
        for _ in 0..2 {
            let _ = sleeper.fall_asleep();
            sleeper.rise();
        }
        assert!(!sleeper.counter.is_readable());
        assert!(sleeper.fall_asleep(), "nobody has woken it");
    });
}

#[test]
fn a_wake_up_prevents_the_next_sleep_once() {
    in_all_orders(|| {
        let sleeper = Arc::new(Sleeper::new(Event::new()));
        let waker = Arc::clone(&sleeper);
        let other = thread::spawn(move || waker.wake());
        // This is a query, which does not wait.
        let mut woken = u32::from({
            let _ = sleeper.fall_asleep();
            sleeper.rise()
        });
        other.join().unwrap();
        let _ = sleeper.fall_asleep();
        woken += u32::from(sleeper.rise());
        assert_eq!(woken, 1);
        // An increment after the first sleep was over does not end another.
        assert!(!sleeper.counter.is_readable());
    });
}

/// Notifies three times while a taker takes. With `looks` the taker first reads the flag; without, it waits
/// at once.
fn take_all(looks: bool) {
    const TURNS: u64 = 3;
    in_all_orders(move || {
        let (event, done) = (Arc::new(Notified::new(Event::new())), Arc::new(AtomicU64::new(0)));
        let (notified, work) = (Arc::clone(&event), Arc::clone(&done));
        let notifier = thread::spawn(move || {
            for turn in 1..=TURNS {
                work.store(turn, Ordering::Relaxed);
                notified.notify();
            }
        });
        while done.load(Ordering::Relaxed) < TURNS {
            if !(looks && event.is_notified()) {
                event.counter.poll();
            }
            assert!(event.take(), "there was a notification");
        }
        notifier.join().unwrap();
        // The event is taken at most once more, for a late increment.
        let _ = event.take();
        assert!(!event.is_notified() && !event.counter.is_readable());
    });
}

#[test]
fn whoever_takes_a_notification_sees_what_was_done_before() {
    take_all(false);
}

#[test]
fn whoever_looks_before_it_waits_takes_no_less() {
    take_all(true);
}

#[test]
fn an_armed_ring_wakes_its_host_or_has_been_seen_not_to_be_empty() {
    const FRAMES: u64 = 2;
    in_all_orders(|| {
        let sleeper = Arc::new(Sleeper::new(Event::new()));
        let ring = Arc::new((AtomicU64::new(0), Armed::default()));
        let (theirs, waker) = (Arc::clone(&ring), Arc::clone(&sleeper));
        let sender = thread::spawn(move || {
            let (tail, armed) = &*theirs;
            for frame in 1..=FRAMES {
                tail.store(frame, Ordering::Release);
                Armed::published();
                if armed.interrupt() {
                    waker.wake();
                }
            }
        });
        let (tail, armed) = &*ring;
        let mut head = 0;
        while head < FRAMES {
            head = tail.load(Ordering::Acquire);
            if head < FRAMES && !armed.arm(|| tail.load(Ordering::Acquire) != head) {
                sleep(&sleeper);
            }
        }
        sender.join().unwrap();
    });
}

/// The sender also announces that frames have left (`Adaptor::complete`), which takes the interrupt of an
/// empty ring. The host checks both after it has armed the ring.
#[test]
fn a_frame_that_has_left_wakes_a_host_too() {
    in_all_orders(|| {
        let sleeper = Arc::new(Sleeper::new(Event::new()));
        let rings = Arc::new((AtomicU64::new(0), AtomicU64::new(0), Armed::default()));
        let (theirs, waker) = (Arc::clone(&rings), Arc::clone(&sleeper));
        let sender = thread::spawn(move || {
            let (tail, left, armed) = &*theirs;
            left.fetch_add(1, Ordering::Release);
            Armed::published();
            if armed.interrupt() {
                waker.wake();
            }
            tail.store(1, Ordering::Release);
            Armed::published();
            if armed.interrupt() {
                waker.wake();
            }
        });
        let (tail, left, armed) = &*rings;
        let (mut head, mut reclaimed) = (0, 0);
        while head + reclaimed < 2 {
            head = tail.load(Ordering::Acquire);
            reclaimed = left.load(Ordering::Acquire);
            let waiting = armed.arm(|| tail.load(Ordering::Acquire) != head);
            if head + reclaimed < 2 && !waiting && left.load(Ordering::Acquire) == reclaimed {
                sleep(&sleeper);
            }
        }
        sender.join().unwrap();
    });
}
