//! A clock by which a host looks after its XDP program, where no frame would show that it is detached: the
//! kernel has frames of its own to the same hardware address, or another host has the witness.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use evenkeel_core::time::Duration;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::sys;

/// The time between two looks, and so the longest for which a detached program goes unnoticed.
const PERIOD: Duration = Duration::from_secs(1);

/// A descriptor that is readable when the program is to be looked after.
#[derive(Debug)]
pub(super) struct Inspection(Arc<OwnedFd>);

impl Inspection {
    pub(super) fn open() -> io::Result<Self> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let period = sys::timespec(PERIOD);
        let periods = Itimerspec { it_interval: period, it_value: period };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &periods)?;
        Ok(Self(Arc::new(timer)))
    }

    pub(super) const fn timer(&self) -> &Arc<OwnedFd> {
        &self.0
    }

    /// Records that the descriptor is readable. Returns whether a period is over.
    pub(super) fn is_due(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]).is_ok()
    }
}
