//! Tests that threads which share a host do not wait for ever: whoever has something to receive receives it,
//! in any interleaving of the threads.
//!
//! Loom runs the product's own files with its atomics in place of std's. It reports a thread that would sleep
//! for ever as a deadlock.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod primitives {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use core::time::Duration;
    use loom::sync::{Condvar, Mutex};

    /// The sleep of a thread, without a time-out.
    #[derive(Debug)]
    pub(crate) struct Parking {
        woken: Mutex<bool>,
        wake: Condvar,
    }

    impl Default for Parking {
        fn default() -> Self {
            Self { woken: Mutex::new(true), wake: Condvar::new() }
        }
    }

    impl Parking {
        pub(crate) fn prepare(&self) {
            *self.woken.lock().unwrap() = false;
        }

        pub(crate) fn sleep(&self, _timeout: Option<Duration>) {
            let mut woken = self.woken.lock().unwrap();
            while !*woken {
                woken = self.wake.wait(woken).unwrap();
            }
        }

        pub(crate) fn wake(&self) {
            *self.woken.lock().unwrap() = true;
            self.wake.notify_one();
        }
    }
}

#[path = "../src/net/roles.rs"]
#[allow(dead_code, reason = "for other tests")]
mod roles;
#[path = "../src/net/seat.rs"]
#[allow(dead_code, reason = "for other tests")]
mod seat;

use std::sync::Arc;
use std::task::Waker;

use loom::sync::{Condvar, Mutex, MutexGuard};
use loom::thread;
use roles::{Helper, Role, Roles};
use seat::{Rousing, Seat};

/// The most preemptions in a run. More would take minutes.
const PREEMPTIONS_MAX: usize = 2;

/// The devices of the host: frames for its threads, and what a driver sleeps on.
#[derive(Default)]
struct Device {
    frames: Mutex<(Vec<usize>, bool)>,
    readable: Condvar,
}

impl Device {
    fn deliver(&self, to: usize) {
        self.frames.lock().unwrap().0.push(to);
        self.readable.notify_all();
    }

    /// Ends a sleep of whoever drives.
    fn kick(&self) {
        self.frames.lock().unwrap().1 = true;
        self.readable.notify_all();
    }

    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut self.frames.lock().unwrap().0)
    }

    fn poll(&self) {
        let mut frames = self.frames.lock().unwrap();
        while frames.0.is_empty() && !frames.1 {
            frames = self.readable.wait(frames).unwrap();
        }
        frames.1 = false;
    }
}

/// A host of two threads and a helper.
struct Host {
    inner: Mutex<Inner>,
    device: Device,
    rousing: Arc<Rousing>,
    helper: Arc<Seat>,
}

struct Inner {
    roles: Roles,
    received: [bool; 2],
    waiting: [Option<Waker>; 2],
    is_napping: bool,
    over: usize,
}

impl Host {
    fn new() -> Self {
        let rousing = Arc::new(Rousing::default());
        let helper = Seat::new(&rousing);
        let roles = Roles::new(Arc::clone(&helper));
        let inner = Inner { roles, received: [false; 2], waiting: [None, None], is_napping: false, over: 0 };
        Self { inner: Mutex::new(inner), device: Device::default(), rousing, helper }
    }

    fn release(&self, inner: MutexGuard<'_, Inner>) {
        let roused = self.rousing.take();
        let asleep = if inner.is_napping { inner.roles.driving_seat().cloned() } else { None };
        drop(inner);
        for seat in roused {
            match &asleep {
                Some(asleep) if Arc::ptr_eq(asleep, &seat) => self.device.kick(),
                _ => seat.rouse(),
            }
        }
    }

    /// Finds out whose the frames are, and wakes those who wait for them.
    fn turn(&self, inner: &mut Inner) {
        for to in self.device.take() {
            inner.received[to] = true;
            inner.waiting[to].take().into_iter().for_each(Waker::wake);
        }
    }

    fn nap<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        inner.is_napping = true;
        self.release(inner);
        self.device.poll();
        self.inner.lock().unwrap()
    }

    /// Receives, as thread `nth`.
    fn receive(&self, nth: usize) {
        let seat = Seat::new(&self.rousing);
        let mut inner = self.inner.lock().unwrap();
        while !std::mem::take(&mut inner.received[nth]) {
            seat.resume();
            inner.waiting[nth] = Some(Waker::from(Arc::clone(&seat)));
            while !seat.is_called() {
                let role = inner.roles.take_or_park(&seat);
                if role == Role::Replaces {
                    inner.is_napping = false;
                    self.device.kick();
                }
                if role != Role::Parked {
                    self.turn(&mut inner);
                    if seat.is_called() {
                        break;
                    }
                    let retires = self.rousing.has_called() && {
                        let (is_parked, succession) = inner.roles.retire(&seat);
                        self.rousing.settle(succession);
                        is_parked
                    };
                    if !retires {
                        inner = self.nap(inner);
                        if inner.roles.is_driver(&seat) {
                            inner.is_napping = false;
                        }
                        continue;
                    }
                }
                seat.prepare_to_sleep();
                self.release(inner);
                seat.sleep(None);
                inner = self.inner.lock().unwrap();
            }
        }
        seat.resume();
        let succession = inner.roles.leave(&seat);
        self.rousing.settle(succession);
        inner.over += 1;
        if inner.over == 2 {
            self.rousing.add(Arc::clone(&self.helper));
            self.device.kick();
        }
        self.release(inner);
    }

    /// Watches until both threads have received.
    fn help(&self) {
        let mut inner = self.inner.lock().unwrap();
        while inner.over < 2 {
            if inner.roles.helper_drives() {
                self.turn(&mut inner);
                inner = self.nap(inner);
                if inner.roles.helper_drives() {
                    inner.is_napping = false;
                }
            } else if inner.roles.is_vacant() && inner.roles.helper == Helper::Watches {
                let succession = inner.roles.fill_vacancy();
                self.rousing.settle(succession);
            } else {
                inner.roles.helper = Helper::Sleeps;
                self.helper.prepare_to_sleep();
                self.release(inner);
                self.helper.sleep(None);
                inner = self.inner.lock().unwrap();
                inner.roles.helper = Helper::Watches;
            }
        }
        self.release(inner);
    }
}

#[test]
fn whoever_has_something_to_receive_receives_it() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS_MAX);
    model.check(|| {
        let host = Arc::new(Host::new());
        let threads = [0, 1].map(|nth| {
            let host = Arc::clone(&host);
            thread::spawn(move || host.receive(nth))
        });
        let helping = Arc::clone(&host);
        let helper = thread::spawn(move || helping.help());
        host.device.deliver(1);
        host.device.deliver(0);
        for thread in threads {
            thread.join().unwrap();
        }
        helper.join().unwrap();
    });
}
