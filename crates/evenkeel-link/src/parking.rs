//! Sleep of a thread until another wakes it, without a descriptor: one word in memory, on which the kernel
//! has the thread wait.

use std::sync::atomic::{AtomicU32, Ordering};

use evenkeel_core::time::Duration;
use rustix::thread::futex;

use crate::sys;

/// The place where one thread sleeps until another wakes it. A wake-up before the sleep prevents it.
///
/// A program may use [`std::thread::park`] meanwhile: neither takes wake-ups of the other.
#[derive(Debug)]
pub struct Parking(AtomicU32);

impl Default for Parking {
    fn default() -> Self {
        Self(AtomicU32::new(WOKEN))
    }
}

const SLEEPS: u32 = 0;
const WOKEN: u32 = 1;

impl Parking {
    /// Forgets an earlier wake-up: the next [`Parking::sleep`] waits for one that comes after this.
    pub fn prepare(&self) {
        self.0.store(SLEEPS, Ordering::Release);
    }

    /// Sleeps until a wake-up has come since [`Parking::prepare`], or `timeout` has passed (`None`: no
    /// limit). A signal may end the sleep early.
    pub fn sleep(&self, timeout: Option<Duration>) {
        let timeout = timeout.map(sys::timespec);
        // The kernel compares the word once more before the thread sleeps. Whatever ends the sleep, the
        // caller looks whether it has what it waits for.
        let _ = futex::wait(&self.0, futex::Flags::PRIVATE, SLEEPS, timeout.as_ref());
    }

    /// Ends the sleep, or prevents the next one.
    pub fn wake(&self) {
        // Release: the woken thread sees everything that the waker wrote before.
        if self.0.swap(WOKEN, Ordering::Release) == SLEEPS {
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use evenkeel_core::time::Instant;

    use super::*;
    use crate::Clock;

    #[test]
    fn a_wake_up_before_the_sleep_prevents_it_and_is_forgotten_when_the_next_is_prepared() {
        let (parking, clock) = (Parking::default(), Clock::start());
        parking.prepare();
        parking.wake();
        parking.sleep(None);
        parking.prepare();
        let until = clock.now() + Duration::from_millis(5);
        while clock.now() < until {
            parking.sleep(Some(until.since(clock.now())));
        }
    }

    #[test]
    fn another_thread_ends_the_sleep() {
        let (parking, clock) = (Arc::new(Parking::default()), Clock::start());
        for _ in 0..200 {
            parking.prepare();
            let other = Arc::clone(&parking);
            let waker = thread::spawn(move || other.wake());
            parking.sleep(Some(Duration::from_secs(60)));
            waker.join().unwrap();
        }
        assert!(clock.now() < Instant::ZERO + Duration::from_secs(30));
    }
}
