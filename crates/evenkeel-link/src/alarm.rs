//! A descriptor that becomes readable at a time.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use evenkeel_core::time::{Duration, Instant};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::clock::Clock;
use crate::sys;

/// A timerfd (timerfd_create(2)) for the deadlines of an event loop.
///
/// A later deadline leaves the timer as it is, and so costs no system call. The descriptor then becomes
/// readable too early, once.
#[derive(Debug)]
pub struct Alarm {
    timer: OwnedFd,
    /// The time at which the descriptor becomes readable.
    due: Instant,
}

impl Alarm {
    /// Creates a timer that is not set.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Monotonic, flags)?, due: Instant::NEVER })
    }

    /// Returns the time at which the descriptor becomes readable.
    #[must_use]
    pub const fn due(&self) -> Instant {
        self.due
    }

    /// Makes the descriptor readable at `until` on `clock`, or before.
    ///
    /// # Errors
    /// None that a caller can expect.
    pub fn ring_by(&mut self, until: Instant, clock: &Clock) -> io::Result<()> {
        if until >= self.due {
            return Ok(());
        }
        // Zero would stop the timer.
        let rest = until.since(clock.now()).max(Duration::from_nanos(1));
        let once = Itimerspec { it_interval: sys::timespec(Duration::ZERO), it_value: sys::timespec(rest) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        self.due = until;
        Ok(())
    }

    /// Records that the descriptor has become readable, and makes it unreadable.
    pub fn silence(&mut self) {
        let mut count = [0; 8];
        // Without an expiration there is nothing to read, and the timer is still set.
        if rustix::io::read(&self.timer, &mut count).is_ok() {
            self.due = Instant::NEVER;
        }
    }
}

impl AsRawFd for Alarm {
    fn as_raw_fd(&self) -> RawFd {
        self.timer.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn is_readable(alarm: &Alarm) -> bool {
        poll(&mut [PollFd::new(&alarm.timer, PollFlags::IN)], Some(&sys::timespec(Duration::ZERO))).unwrap()
            > 0
    }

    #[test]
    fn it_rings_at_the_earliest_deadline_and_can_be_set_again() {
        let (mut alarm, clock) = (Alarm::new().unwrap(), Clock::start());
        for _ in 0..2 {
            let due = clock.now() + Duration::from_millis(3);
            alarm.ring_by(due, &clock).unwrap();
            alarm.ring_by(due + Duration::from_secs(3_600), &clock).unwrap();
            alarm.silence();
            assert_eq!(alarm.due, due, "nothing to silence");
            while !is_readable(&alarm) {
                assert!(clock.now() < due + Duration::from_secs(30));
            }
            assert!(clock.now() >= due);
            alarm.silence();
            assert!(!is_readable(&alarm) && alarm.due == Instant::NEVER);
        }
    }
}
