//! The machine's clock, which also has the time of day.

use core::fmt;
use std::hint;
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_core::time::{Duration, Instant};

/// The clock that gives the core its time.
///
/// A copy of a clock counts from the same start, on every thread. [`evenkeel_soft_timers::Clock`], which it
/// wraps, describes what it reads and how far it agrees between threads.
#[derive(Clone, Copy)]
pub struct Clock {
    clock: evenkeel_soft_timers::Clock,
    /// Nanoseconds since 1970 when this clock started.
    wall_start: u64,
}

impl Clock {
    /// Starts a clock at zero. The first one in a process measures the counter's rate, which takes 20 ms.
    #[must_use]
    pub fn start() -> Self {
        Self { clock: evenkeel_soft_timers::Clock::start(), wall_start: wall() }
    }

    /// Starts a clock at zero that asks the kernel at every read.
    #[must_use]
    pub fn start_monotonic() -> Self {
        Self { clock: evenkeel_soft_timers::Clock::start_monotonic(), wall_start: wall() }
    }

    /// Returns the current time.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Uses the CPU until `deadline`, as the work of a simulated program. Returns the time at which it
    /// stopped, never before `deadline`.
    pub fn spin_until(&self, deadline: Instant) -> Instant {
        loop {
            let now = self.now();
            if now >= deadline {
                return now;
            }
            hint::spin_loop();
        }
    }

    /// Uses the CPU for `work`, in elapsed time: it does not make up for time that other threads take.
    pub fn spin(&self, work: Duration) -> Instant {
        self.spin_until(self.now() + work)
    }

    /// Returns the nanoseconds since 1970 at `at`, for captures and logs. Ignores steps of the system's clock
    /// after the start.
    #[must_use]
    pub const fn wall_nanos(&self, at: Instant) -> u64 {
        self.wall_start.saturating_add(at.as_nanos())
    }

    /// Returns the nanoseconds since 1970 by the system's clock, steps included, and the time at which it was
    /// read or later.
    #[must_use]
    pub fn wall_now(&self) -> (u64, Instant) {
        let nanos = wall();
        (nanos, self.now())
    }

    /// Returns the name of the time source that the clock reads: `tsc` or `monotonic`.
    #[must_use]
    pub const fn source(&self) -> &'static str {
        self.clock.source()
    }
}

/// Returns the nanoseconds of the kernel's monotonic clock, which BPF programs and service managers read,
/// too.
#[must_use]
pub fn monotonic_nanos() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Returns whether that clock is this process's, too: a time namespace may have another one. A kernel without
/// time namespaces has one clock.
pub(crate) fn has_machine_clock() -> bool {
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let is_zero = |line: &str| line.split_whitespace().skip(1).all(|offset| offset == "0");
    offsets.lines().filter(|line| line.starts_with("monotonic")).all(is_zero)
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({}, {:?})", self.source(), self.now())
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads wall-clock time")]
fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_ends_at_the_deadline_not_before() {
        let clock = Clock::start();
        let begin = clock.now();
        let end = clock.spin(Duration::from_micros(500));
        assert!(end.since(begin) >= Duration::from_micros(500));
        assert!(clock.spin_until(begin) >= end, "a deadline in the past returns at once, with the time");
    }

    #[test]
    fn copies_count_from_the_same_start() {
        let clock = Clock::start();
        let copy = clock;
        let theirs = std::thread::spawn(move || copy.now()).join().unwrap();
        assert!(clock.now().since(theirs) < Duration::from_secs(10));
        assert!(clock.wall_nanos(Instant::ZERO) > 1_500_000_000_000_000_000);
    }
}
