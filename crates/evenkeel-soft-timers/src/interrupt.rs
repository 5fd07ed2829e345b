//! The kernel timer behind the soft ones.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// A timer descriptor: readable once the timer has gone off.
pub(crate) struct Interrupt(OwnedFd);

impl Interrupt {
    /// Creates a timer that is not set.
    pub(crate) fn new(blocks: bool) -> io::Result<Self> {
        let flags = if blocks { TimerfdFlags::empty() } else { TimerfdFlags::NONBLOCK };
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | flags)?))
    }

    /// Sets the timer to go off once, in `after` nanoseconds.
    pub(crate) fn once(&self, after: u64) {
        // Zero would mean never.
        self.set(after.max(1), 0);
    }

    /// Sets the timer to go off every `period` nanoseconds.
    pub(crate) fn every(&self, period: u64) {
        self.set(period.max(1), period.max(1));
    }

    fn set(&self, first: u64, then: u64) {
        let time = Itimerspec { it_value: timespec(first), it_interval: timespec(then) };
        let set = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &time);
        debug_assert!(set.is_ok(), "only a wrong time fails: {set:?}");
    }

    /// Waits until it goes off, if it was made so that it does. Whether it has.
    pub(crate) fn take(&self) -> bool {
        loop {
            match rustix::io::read(&self.0, &mut [0_u8; 8]) {
                Ok(read) => return read > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn timespec(nanos: u64) -> Timespec {
    let (tv_sec, tv_nsec) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    Timespec { tv_sec: i64::try_from(tv_sec).unwrap_or(i64::MAX), tv_nsec: tv_nsec as _ }
}
