//! Timers and user events: descriptors that no network stands behind.

use super::state::Sockets;
use crate::error::TooManyOpen;
use crate::id::{ProcessId, SocketId};
use crate::ready::Kinds;
use crate::socket::{Descriptor, TimerSocket, UserEventSocket};
use crate::time::{Duration, Instant, nanos};
use crate::work::WorkLog;

impl Sockets {
    pub(crate) fn open_timer(
        &mut self,
        owner: ProcessId,
        work: &mut WorkLog,
    ) -> Result<SocketId, TooManyOpen> {
        let timer = TimerSocket { owner, timer: None, due: Instant::NEVER, interval: None, expirations: 0 };
        self.install(Descriptor::Timer(Box::new(timer)), work)
    }

    /// Sets a timer, or stops it if `at` is [`Instant::NEVER`]. Expirations that have not been read are
    /// forgotten.
    pub(crate) fn set_timer(&mut self, id: SocketId, at: Instant, interval: Option<Duration>) {
        let Self { descriptors, timers, .. } = self;
        let Some(Descriptor::Timer(timer)) = descriptors.get_mut(id) else { return };
        timer.expirations = 0;
        timer.interval = interval.filter(|interval| !interval.is_zero());
        timer.due = at;
        let handle = timer.timer.take().unwrap_or_else(|| timers.register(id));
        timers.set(&handle, at);
        timer.timer = Some(handle);
    }

    /// Returns how often a timer has expired since it was set or last read, and resets the count.
    pub(crate) fn take_expirations(&mut self, id: SocketId) -> u64 {
        match self.descriptors.get_mut(id) {
            Some(Descriptor::Timer(timer)) => core::mem::take(&mut timer.expirations),
            _ => 0,
        }
    }

    /// Has every timer expire whose time has come.
    pub(crate) fn expire_timers(&mut self, now: Instant) {
        while let Some(id) = self.timers.poll_expired(now) {
            let Self { descriptors, timers, ready, .. } = self;
            let Some(Descriptor::Timer(timer)) = descriptors.get_mut(id) else { continue };
            timer.expirations += 1;
            if let (Some(interval), Some(handle)) = (timer.interval, &timer.timer) {
                // What was missed while nobody looked at the clock counts, and does not come one by one.
                let missed = nanos(now.since(timer.due)) / nanos(interval);
                timer.expirations = timer.expirations.saturating_add(missed);
                timer.due = timer.due.plus_nanos(nanos(interval).saturating_mul(missed + 1));
                timers.set(handle, timer.due);
            }
            ready.raise(id, Kinds::READABLE);
        }
    }

    pub(crate) fn open_user_event(
        &mut self,
        owner: ProcessId,
        work: &mut WorkLog,
    ) -> Result<SocketId, TooManyOpen> {
        self.install(Descriptor::UserEvent(Box::new(UserEventSocket { owner, posted: 0 })), work)
    }

    /// Releases the timer of a descriptor that was closed.
    pub(crate) fn release_timer(&mut self, timer: TimerSocket) {
        if let Some(timer) = timer.timer {
            self.timers.release(timer);
        }
    }

    /// Adds to what was posted to a user event.
    pub(crate) fn post(&mut self, id: SocketId, times: u64) {
        let Some(Descriptor::UserEvent(event)) = self.descriptors.get_mut(id) else { return };
        event.posted = event.posted.saturating_add(times);
        if times > 0 {
            self.ready.raise(id, Kinds::READABLE);
        }
    }

    /// Returns the count that was posted to a user event since the last read, and resets it.
    pub(crate) fn take_posted(&mut self, id: SocketId) -> u64 {
        match self.descriptors.get_mut(id) {
            Some(Descriptor::UserEvent(event)) => core::mem::take(&mut event.posted),
            _ => 0,
        }
    }
}
