//! The kernel's timers, each of whose events is an interrupt: to compare soft timers with.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::{fmt, ptr};

use evenkeel_core::time::{Duration, Instant};
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::clock::Clock;
use crate::sys;

/// A timerfd (timerfd_create(2)) that expires at even distances.
#[derive(Debug)]
pub struct TimerFd {
    event: OwnedFd,
}

impl TimerFd {
    /// One that expires first after `interval`, and then each time.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn every(interval: Duration) -> io::Result<Self> {
        let event = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        let interval = Timespec {
            tv_sec: interval.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: interval.subsec_nanos().into(),
        };
        let setting = Itimerspec { it_interval: interval, it_value: interval };
        timerfd_settime(&event, TimerfdTimerFlags::empty(), &setting)?;
        Ok(Self { event })
    }

    /// Sleeps until it has expired; how often it has since the last call.
    ///
    /// # Errors
    /// If a signal comes.
    pub fn wait(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        rustix::io::read(&self.event, &mut count)?;
        Ok(u64::from_ne_bytes(count))
    }
}

/// A POSIX timer (timer_create(2)) that interrupts the thread that made it by a signal at even distances.
///
/// Its handler does nothing but note how late it was called. There can be one at a time in a process.
pub struct SignalTimer {
    timer: libc::timer_t,
    calls: &'static Calls,
}

/// What the handler goes by and notes.
struct Calls {
    clock: Clock,
    started: Instant,
    interval: u64,
    /// Expirations, those that were told by one signal together with another too.
    expired: AtomicU64,
    called: AtomicU64,
    /// Calls by how late they were: of so many nanoseconds, in steps of an eighth of a power of two.
    lateness: [AtomicU64; BUCKETS],
}

/// Eight for each power of two.
const BUCKETS: usize = 64 * 8;

static IN_USE: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicPtr<Calls> = AtomicPtr::new(ptr::null_mut());

impl SignalTimer {
    /// One that expires first after `interval`, and then each time.
    ///
    /// # Errors
    /// If there is one already, or the kernel has no room for another.
    pub fn every(interval: Duration, clock: Clock) -> io::Result<Self> {
        if IN_USE.swap(true, Ordering::AcqRel) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "there is one signal timer at a time"));
        }
        // A signal may come after the timer has gone: what its handler goes by stays.
        let calls: &'static Calls = Box::leak(Box::new(Calls {
            clock,
            started: clock.now(),
            interval: u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1),
            expired: AtomicU64::new(0),
            called: AtomicU64::new(0),
            lateness: [const { AtomicU64::new(0) }; BUCKETS],
        }));
        CALLS.store(ptr::from_ref(calls).cast_mut(), Ordering::Release);
        let started = sys::start_signal_timer(interval, on_expiration);
        let timer = started.inspect_err(|_| IN_USE.store(false, Ordering::Release))?;
        Ok(Self { timer, calls })
    }

    /// How often the handler was called.
    #[must_use]
    pub fn called(&self) -> u64 {
        self.calls.called.load(Ordering::Relaxed)
    }

    /// Calls so far by how late they were at least: lateness, and calls.
    pub fn lateness(&self) -> impl Iterator<Item = (Duration, u64)> {
        let buckets = self.calls.lateness.iter().enumerate();
        buckets.map(|(bucket, calls)| (floor(bucket), calls.load(Ordering::Relaxed)))
    }
}

impl Drop for SignalTimer {
    fn drop(&mut self) {
        sys::delete_timer(self.timer);
        IN_USE.store(false, Ordering::Release);
    }
}

impl fmt::Debug for SignalTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalTimer").field("called", &self.called()).finish_non_exhaustive()
    }
}

/// Runs in a signal handler: reads a clock and counts (signal-safety(7)).
extern "C" fn on_expiration(_signal: libc::c_int) {
    // SAFETY: whatever was stored there was leaked, and nothing of it is ever written to but atomics.
    let Some(calls) = (unsafe { CALLS.load(Ordering::Acquire).as_ref() }) else { return };
    let now = calls.clock.now().nanos_since(calls.started);
    // The last time at which it was due; of several that one signal tells, it is for the first.
    let due = (calls.expired.load(Ordering::Relaxed) + 1).saturating_mul(calls.interval);
    let late = now.saturating_sub(due);
    calls.expired.store(now / calls.interval, Ordering::Relaxed);
    calls.called.fetch_add(1, Ordering::Relaxed);
    if let Some(bucket) = calls.lateness.get(bucket(late)) {
        bucket.fetch_add(1, Ordering::Relaxed);
    }
}

fn bucket(nanos: u64) -> usize {
    let log = nanos.max(8).ilog2();
    let eighth = (nanos.max(8) >> (log - 3)) & 7;
    log as usize * 8 + eighth as usize
}

fn floor(bucket: usize) -> Duration {
    let (log, eighth) = (bucket / 8, (bucket % 8) as u64);
    Duration::from_nanos(if log < 3 { 0 } else { (8 + eighth) << (log - 3) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_micros(200);

    #[test]
    fn a_timerfd_expires_as_often_as_time_has_passed() {
        let (clock, timer) = (Clock::start(), TimerFd::every(EVERY).unwrap());
        let begin = clock.now();
        let expired: u64 = (0..10).map(|_| timer.wait().unwrap()).sum();
        assert!(expired >= 10 && clock.now().since(begin) + EVERY >= EVERY * expired as u32);
    }

    #[test]
    fn a_signal_timer_interrupts_who_made_it_until_it_goes() {
        let clock = Clock::start();
        let timer = SignalTimer::every(EVERY, clock).unwrap();
        assert!(SignalTimer::every(EVERY, clock).is_err(), "one at a time");
        while timer.called() < 10 {
            clock.spin(EVERY);
        }
        let calls = timer.calls;
        drop(timer);
        let all: u64 = calls.lateness.iter().map(|calls| calls.load(Ordering::Relaxed)).sum();
        assert_eq!(all, calls.called.load(Ordering::Relaxed));
        clock.spin(EVERY * 5);
        assert_eq!(all, calls.called.load(Ordering::Relaxed));
        drop(SignalTimer::every(EVERY, clock).unwrap());
    }

    #[test]
    fn a_lateness_is_in_the_bucket_that_begins_before_it() {
        for nanos in (0..5_000).chain([1 << 20, u64::MAX / 2]) {
            let (begin, next) = (floor(bucket(nanos)), floor(bucket(nanos) + 1));
            assert!(begin.as_nanos() <= nanos.into() || nanos < 8);
            assert!(next.as_nanos() > nanos.into(), "{nanos}: {next:?}");
        }
    }
}
