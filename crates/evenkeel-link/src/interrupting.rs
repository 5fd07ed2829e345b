//! The kernel's timers, whose events are interrupts: for comparison with soft timers.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::{fmt, ptr};

use evenkeel_core::time::Duration;
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::clock::Clock;
use crate::stamped::StampedFrame;
use crate::sys;

/// A timerfd (timerfd_create(2)) that expires at regular intervals.
#[derive(Debug)]
pub struct TimerFd {
    event: OwnedFd,
}

impl TimerFd {
    /// Creates a timer that expires after `interval`, and then again after each further one.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn every(interval: Duration) -> io::Result<Self> {
        let event = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        let interval = sys::timespec(interval);
        let setting = Itimerspec { it_interval: interval, it_value: interval };
        timerfd_settime(&event, TimerfdTimerFlags::empty(), &setting)?;
        Ok(Self { event })
    }

    /// Sleeps until the timer has expired; returns the number of expirations since the last call.
    ///
    /// # Errors
    /// If a signal arrives.
    pub fn wait(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        rustix::io::read(&self.event, &mut count)?;
        Ok(u64::from_ne_bytes(count))
    }
}

/// A POSIX timer (timer_create(2)) whose signal interrupts the thread that created it, at regular intervals.
///
/// Its handler records its lateness, and may send a frame. A process can have one such timer at a time. The
/// handler stays when the timer is dropped, because a signal may still arrive.
pub struct SignalTimer {
    timer: libc::timer_t,
    calls: &'static Calls,
}

/// The data of the signal handler: its schedule, its frame, and its counters.
struct Calls {
    clock: Clock,
    /// The start, in nanoseconds of that clock.
    started: AtomicU64,
    interval: u64,
    /// The number of expirations, including those that shared a signal with another.
    expired: AtomicU64,
    called: AtomicU64,
    /// The frame that the handler sends, if any. Null while one user has taken it.
    sends: AtomicPtr<StampedFrame>,
    /// Calls by lateness in nanoseconds, in steps of an eighth of a power of two.
    lateness: [AtomicU64; BUCKETS],
}

/// Eight buckets for each power of two.
const BUCKETS: usize = 64 * 8;

static IN_USE: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicPtr<Calls> = AtomicPtr::new(ptr::null_mut());

impl SignalTimer {
    /// Creates a timer that expires after `interval`, and then again after each further one. Its handler
    /// sends a frame if it has one.
    ///
    /// # Errors
    /// If there is a timer already, or the kernel has no room for another.
    pub fn every(interval: Duration, clock: Clock, sends: Option<StampedFrame>) -> io::Result<Self> {
        if IN_USE.swap(true, Ordering::AcqRel) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "there is one signal timer at a time"));
        }
        // A signal may arrive after the timer was dropped, so the handler's data is never freed.
        let calls: &'static Calls = Box::leak(Box::new(Calls {
            clock,
            started: AtomicU64::new(clock.now().as_nanos()),
            interval: u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1),
            expired: AtomicU64::new(0),
            called: AtomicU64::new(0),
            sends: AtomicPtr::new(sends.map_or(ptr::null_mut(), |frame| Box::into_raw(Box::new(frame)))),
            lateness: [const { AtomicU64::new(0) }; BUCKETS],
        }));
        CALLS.store(ptr::from_ref(calls).cast_mut(), Ordering::Release);
        let started = sys::start_signal_timer(interval, on_expiration);
        let timer = started.inspect_err(|_| {
            drop(calls.take());
            IN_USE.store(false, Ordering::Release);
        })?;
        Ok(Self { timer, calls })
    }

    /// Stops the timer, until [`resume`](Self::resume).
    pub fn pause(&self) {
        self.set(Duration::ZERO);
    }

    /// Starts the timer again. It expires first after the interval.
    pub fn resume(&self) {
        self.calls.expired.store(0, Ordering::Relaxed);
        self.calls.started.store(self.calls.clock.now().as_nanos(), Ordering::Relaxed);
        self.set(Duration::from_nanos(self.calls.interval));
    }

    fn set(&self, interval: Duration) {
        let set = sys::set_signal_timer(self.timer, interval);
        debug_assert!(set.is_ok(), "only a wrong time fails: {set:?}");
    }

    /// Returns the number of calls of the handler.
    #[must_use]
    pub fn called(&self) -> u64 {
        self.calls.called.load(Ordering::Relaxed)
    }

    /// Returns the calls so far by their least lateness: lateness, and number of calls.
    pub fn lateness(&self) -> impl Iterator<Item = (Duration, u64)> {
        let buckets = self.calls.lateness.iter().enumerate();
        buckets.map(|(bucket, calls)| (floor(bucket), calls.load(Ordering::Relaxed)))
    }
}

impl Calls {
    /// Takes the frame that the handler sends; `None` if there is no such frame or another user has taken
    /// it.
    fn take(&self) -> Option<Box<StampedFrame>> {
        let frame = self.sends.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: only boxes are stored there, and the swap gives the box to this caller alone.
        (!frame.is_null()).then(|| unsafe { Box::from_raw(frame) })
    }

    fn give_back(&self, frame: Box<StampedFrame>) {
        self.sends.store(Box::into_raw(frame), Ordering::Release);
    }
}

impl Drop for SignalTimer {
    fn drop(&mut self) {
        sys::delete_timer(self.timer);
        // A later signal finds nothing to send.
        drop(self.calls.take());
        IN_USE.store(false, Ordering::Release);
    }
}

impl fmt::Debug for SignalTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalTimer").field("called", &self.called()).finish_non_exhaustive()
    }
}

/// Runs in a signal handler. It reads a clock, counts, and puts a frame into a ring in memory that has no
/// other producer. It does not allocate or lock (signal-safety(7)).
extern "C" fn on_expiration(_signal: libc::c_int) {
    // SAFETY: the stored value was leaked, and only its atomics are written to.
    let Some(calls) = (unsafe { CALLS.load(Ordering::Acquire).as_ref() }) else { return };
    let at = calls.clock.now();
    let now = at.as_nanos().saturating_sub(calls.started.load(Ordering::Relaxed));
    // This is the first due time since the last call: if one signal reports several expirations, the first
    // one counts.
    let due = (calls.expired.load(Ordering::Relaxed) + 1).saturating_mul(calls.interval);
    let late = now.saturating_sub(due);
    calls.expired.store(now / calls.interval, Ordering::Relaxed);
    calls.called.fetch_add(1, Ordering::Relaxed);
    if let Some(bucket) = calls.lateness.get(bucket(late)) {
        bucket.fetch_add(1, Ordering::Relaxed);
    }
    if let Some(mut frame) = calls.take() {
        frame.send(at);
        calls.give_back(frame);
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
    use std::sync::{Mutex, PoisonError};

    use super::*;
    use crate::stamped::Stamp;
    use evenkeel_core::cable::{self, Options};
    use evenkeel_core::frame::Pool;
    use evenkeel_core::interface::Interface as _;

    const EVERY: Duration = Duration::from_micros(200);

    /// A process has one signal timer at a time, so the tests take turns.
    static TURN: Mutex<()> = Mutex::new(());

    #[test]
    fn a_timerfd_expires_as_often_as_time_has_passed() {
        let (clock, timer) = (Clock::start(), TimerFd::every(EVERY).unwrap());
        let begin = clock.now();
        let expired: u64 = (0..10).map(|_| timer.wait().unwrap()).sum();
        assert!(expired >= 10 && clock.now().since(begin) + EVERY >= EVERY * expired as u32);
    }

    #[test]
    fn a_signal_timer_interrupts_who_made_it_until_it_goes() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let clock = Clock::start();
        let timer = SignalTimer::every(EVERY, clock, None).unwrap();
        assert!(SignalTimer::every(EVERY, clock, None).is_err(), "one at a time");
        while timer.called() < 10 {
            clock.spin(EVERY);
        }
        timer.pause();
        let called = timer.called();
        clock.spin(EVERY * 5);
        assert_eq!(timer.called(), called);
        timer.resume();
        while timer.called() < called + 5 {
            clock.spin(EVERY);
        }
        let calls = timer.calls;
        drop(timer);
        let all: u64 = calls.lateness.iter().map(|calls| calls.load(Ordering::Relaxed)).sum();
        assert_eq!(all, calls.called.load(Ordering::Relaxed));
        clock.spin(EVERY * 5);
        assert_eq!(all, calls.called.load(Ordering::Relaxed));
        drop(SignalTimer::every(EVERY, clock, None).unwrap());
    }

    #[test]
    fn a_signal_timer_sends_a_frame_at_each_call_and_gives_its_end_back() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (near, mut far) = cable::pair(Options::new("near", 1), Options::new("far", 2));
        let mut pool = Pool::with_limit(512);
        far.attach(&mut pool).unwrap();
        let clock = Clock::start();
        let frame = StampedFrame::new(near, vec![0; 60]);
        let timer = SignalTimer::every(EVERY, clock, frame).unwrap();
        while timer.called() < 10 {
            clock.spin(EVERY);
        }
        let calls = timer.calls;
        drop(timer);
        let mut stamps = Vec::new();
        while let Some(frame) = far.queue_mut(0).take(&mut pool) {
            stamps.extend(Stamp::of(frame.bytes()));
            pool.recycle(frame);
        }
        assert_eq!(stamps.len() as u64, 1 + calls.called.load(Ordering::Relaxed));
        assert!(
            stamps.windows(2).all(|pair| pair[1].number == pair[0].number + 1 && pair[1].at > pair[0].at)
        );
        assert!(calls.take().is_none(), "it went with the timer");
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
