//! The loop of a driver: the host's units of work in turn with a look at everything outside of the host.

use std::io;
use std::ops::ControlFlow;
use std::thread::ThreadId;

use evenkeel_core::host::{AddInterfaceError, Host, Level, NotAttached, System};
use evenkeel_core::process::ProcessId;
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::time::Instant;
use evenkeel_link::{Device, Nap, Stop, Woken};

use super::idle::Idle;
use super::outside::Outside;
use super::rest::Rest;
use super::units::Units;
use crate::ended::Next;
use crate::observer::Observer;

/// A host and its surroundings, driven by the calling thread.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) units: Units,
    pub(crate) outside: Outside,
    pub(crate) idle: Idle,
    /// The request to end the process that the driver obeys.
    pub(crate) stop: Option<&'static Stop>,
    pub(crate) observer: Observer,
    /// The thread that the observer observes.
    observed: Option<ThreadId>,
}

/// A way to leave the loop of a driver.
pub(crate) trait Exit {
    /// The result of leaving.
    type Left;

    /// Returns the reason to leave before the driver looks outside of the host, if there is one. In the
    /// middle of a unit, which nothing outside may interrupt, this is called for every slice of the unit.
    fn before_look(&mut self, driver: &Driver, now: Instant) -> Option<Self::Left>;

    /// Spends the time in which no unit is pending: leaves, or returns the time after it.
    ///
    /// # Errors
    /// If polling the descriptors fails: the kernel is out of memory.
    fn when_idle(
        &mut self,
        driver: &mut Driver,
        now: Instant,
    ) -> io::Result<ControlFlow<Self::Left, Instant>>;

    /// Returns the reason to leave after a turn of the loop, if there is one.
    fn after_turn(&mut self) -> Option<Self::Left>;
}

impl Driver {
    pub(crate) fn new(units: Units) -> io::Result<Self> {
        let observer = Observer::default();
        let outside = Outside::new(observer.clone())?;
        Ok(Self { units, outside, idle: Idle::default(), stop: None, observer, observed: None })
    }

    /// Adds a device with `add`.
    pub(crate) fn add_device(
        &mut self,
        device: Box<dyn Device>,
        add: impl FnOnce(&mut Host, Box<dyn Device>, Instant) -> Result<InterfaceId, AddInterfaceError>,
    ) -> Result<InterfaceId, AddInterfaceError> {
        let (now, units) = (self.units.now(), &mut self.units);
        self.outside.add_device(device, |device| add(&mut units.host, device, now))
    }

    /// Makes calls as an attached process. If that gives the host work earlier than a resting event loop
    /// wakes by itself, wakes the event loop.
    pub(crate) fn enter<T>(
        &mut self,
        process: ProcessId,
        call: impl FnOnce(&mut System<'_>) -> T,
    ) -> Result<T, NotAttached> {
        let result = self.units.enter(process, call)?;
        self.pass_on_news();
        self.wake_early_sleeper();
        Ok(result)
    }

    /// Makes calls as an attached process, for one of several threads. Returns whether a helper has to watch
    /// the deadlines: the thread that drives sleeps for longer than the next one allows. The thread is woken
    /// only if the host has work now, or a deadline that must be met exactly.
    pub(crate) fn enter_aside<T>(
        &mut self,
        process: ProcessId,
        call: impl FnOnce(&mut System<'_>) -> T,
    ) -> Result<(T, bool), NotAttached> {
        let result = self.units.enter(process, call)?;
        self.pass_on_news();
        let Some(until) = self.outside.sleeper.rests_until() else { return Ok((result, false)) };
        let (now, host) = (self.units.now(), &self.units.host);
        if self.units.halt_until(now).is_none_or(|exact| exact < until) || host.peek(now).is_some() {
            self.outside.wake_sleeper();
            return Ok((result, false));
        }
        Ok((result, host.next_deadline() < until))
    }

    /// Makes calls as [`Driver::enter`] does. Does not wake a resting event loop, and returns whether that is
    /// to be done.
    #[cfg(feature = "tokio")]
    pub(crate) fn enter_quietly<T>(
        &mut self,
        process: ProcessId,
        call: impl FnOnce(&mut System<'_>) -> T,
    ) -> Result<(T, bool), NotAttached> {
        let result = self.units.enter(process, call)?;
        self.pass_on_news();
        let until = self.outside.sleeper.rests_until();
        Ok((result, until.is_some_and(|until| self.has_work_before(until))))
    }

    /// Passes on what the host has for other hosts of its group. A thread that drives does so before it
    /// sleeps, and a thread beside it after its calls, which may leave the sleeper asleep.
    fn pass_on_news(&mut self) {
        self.outside.callbacks.pass_on_news(&mut self.units.host);
    }

    /// Begins the rest of an event loop, after turns that have left nothing to do. The event loop wakes at
    /// `wakes_at` by itself. Returns the time at which it has to wake.
    #[cfg(feature = "tokio")]
    pub(crate) fn begin_rest(&mut self, wakes_at: Instant) -> Instant {
        self.outside.sleeper.rest();
        let until = self.outside.sleeper.rests_until().unwrap_or(Instant::ZERO);
        self.outside.sleeper.wake_at(wakes_at);
        until
    }

    /// Ends the rest of an event loop. `has_readable` is whether a descriptor has become readable.
    #[cfg(feature = "tokio")]
    pub(crate) fn end_rest(&mut self, has_readable: bool) {
        let now = self.units.now();
        self.outside.end_rest(has_readable, now);
    }

    /// Wakes the thread that drives, if it sleeps beyond `until` and beyond the host's next deadline.
    pub(crate) fn wake_sleeper_before(&mut self, until: Instant) {
        self.units.host.settle_deadlines();
        if self.units.host.next_deadline() <= until {
            self.wake_early_sleeper();
        }
    }

    /// Begins a sleep of the calling thread without the driver, after turns that have left nothing to do.
    /// Returns the time at which it ends at the latest.
    pub(crate) fn begin_nap(&mut self, nap: &mut Nap) -> Instant {
        self.outside.sleeper.rest();
        self.outside.halt.begin_nap(nap);
        self.outside.sleeper.rests_until().unwrap_or(Instant::ZERO)
    }

    /// Looks at everything outside of the host, without sleeping.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        let now = self.units.now();
        self.outside.look_at_all(&mut self.units, now)
    }

    /// Looks at everything outside for a thread beside the one that drives. Returns whether there is work.
    pub(crate) fn look_beside(&mut self) -> io::Result<bool> {
        self.look()?;
        Ok(self.has_work_before(self.units.now()))
    }

    /// Ends the sleep of the thread that drives the host.
    pub(crate) fn end_nap(&mut self, nap: &Nap) {
        let now = self.units.now();
        self.outside.end_nap(nap, &mut self.units.host, now);
    }

    /// Returns what a thread waits for that sleeps without the driver. Calls since the last unit count.
    pub(crate) fn rest(&mut self) -> Rest {
        self.outside.sleeper.rest();
        self.wake_early_sleeper();
        self.outside.rest()
    }

    /// Wakes a resting event loop if the host has work earlier than it wakes by itself.
    pub(crate) fn wake_early_sleeper(&mut self) {
        if let Some(until) = self.outside.sleeper.rests_until()
            && self.has_work_before(until)
        {
            self.outside.wake_sleeper();
        }
    }

    /// Returns whether the host has work now, or has to be awake again before `until`.
    fn has_work_before(&mut self, until: Instant) -> bool {
        let now = self.units.now();
        self.units.host.settle_deadlines();
        self.deadline(now) < until || self.units.host.peek(now).is_some()
    }

    /// Returns the action that an event loop takes when the host has halted.
    pub(super) fn next(&mut self, now: Instant) -> Next {
        self.pass_on_news();
        // A core that spins is awake, so no other thread has to write to a descriptor to wake it.
        if self.units.halt_until(now).is_none() || self.outside.callbacks.has_more() {
            return Next::Again;
        }
        // From here on a frame on a cable makes a descriptor readable; one that came before prevents the
        // wait.
        let deadline = self.deadline(now);
        if !self.outside.fall_asleep(deadline) {
            return Next::Again;
        }
        Next::Wait((deadline != Instant::NEVER).then(|| deadline.since(now)))
    }

    /// Runs the host in the calling thread until `exit` leaves the loop.
    pub(super) fn drive<E: Exit>(&mut self, exit: &mut E) -> io::Result<E::Left> {
        self.observer.observe_this_thread(&mut self.observed);
        self.drive_unobserved(exit)
    }

    /// Runs the host as [`Driver::drive`] does. The time of the thread is not measured.
    pub(super) fn drive_unobserved<E: Exit>(&mut self, exit: &mut E) -> io::Result<E::Left> {
        let mut now = self.units.now();
        let left = loop {
            now = self.units.trigger(now);
            if self.units.is_computing() || self.outside.is_look_due(now) {
                if let Some(left) = exit.before_look(self, now) {
                    break left;
                }
                // In the middle of a unit nothing else may use the host.
                if !self.units.is_computing() {
                    self.outside.look(&mut self.units, now)?;
                }
            }
            now = match self.turn(now) {
                Some(end) => end,
                None => match exit.when_idle(self, now)? {
                    ControlFlow::Break(left) => break left,
                    ControlFlow::Continue(now) => now,
                },
            };
            if let Some(left) = exit.after_turn() {
                break left;
            }
        };
        // The time of the next call is unknown, unless one follows soon.
        if !self.units.host.expects_calls() {
            self.units.host.start_output(now);
        }
        Ok(left)
    }

    /// Runs at most `units` units of the levels down to `lowest`, for a thread beside the one that drives. It
    /// leaves the sleep of that thread as it is, and wakes the thread if it has to go on.
    pub(crate) fn take_turns_aside(&mut self, units: usize, lowest: Level) {
        let driven_down_to = self.units.host.lowest();
        self.units.host.run_down_to(lowest);
        let mut now = self.units.now();
        let mut is_done = false;
        for _ in 0..units {
            now = match self.turn(now) {
                Some(end) => end,
                None if self.units.host.halt(now) => {
                    is_done = true;
                    break;
                }
                None => self.units.now(),
            };
        }
        self.units.host.start_output(now);
        self.pass_on_news();
        self.units.host.run_down_to(driven_down_to);
        if is_done { self.wake_early_sleeper() } else { self.outside.wake_sleeper() }
    }

    /// Processes segments that no call has come for, beside the thread that drives.
    pub(crate) fn stand_in(&mut self, process: ProcessId) {
        let now = self.units.now();
        self.units.host.stand_in(process, now);
        self.pass_on_news();
        self.wake_early_sleeper();
    }

    /// Ends a process, beside the thread that drives.
    pub(crate) fn end_process(&mut self, process: ProcessId) {
        let now = self.units.now();
        self.units.host.kill(process, now);
        self.wake_early_sleeper();
    }

    /// Runs one unit or one slice of a unit. Returns the time after it; `None` if no unit is pending.
    pub(super) fn turn(&mut self, now: Instant) -> Option<Instant> {
        let end = self.units.turn(now)?;
        self.idle.after_unit(end);
        Some(end)
    }

    /// Returns whether the process was asked to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(Stop::requested)
    }

    /// Returns whether no device will bring another frame and everything that has come is done.
    pub(super) fn have_devices_ended(&self) -> bool {
        self.outside.devices.have_ended() && !self.units.is_computing() && self.units.host.queued() == 0
    }

    /// Returns whether an idle core polls on instead of halting.
    pub(super) fn spins(&self, now: Instant) -> bool {
        self.idle.is_busy_polling(now) || self.units.halt_until(now).is_none()
    }

    /// Returns the time at which a core that halts now has to be awake again.
    pub(super) fn deadline(&self, now: Instant) -> Instant {
        self.units.host.next_deadline().min(self.units.halt_until(now).unwrap_or(now))
    }

    /// Halts the core until there is work, at most until `until`. If incremental work remains, does a piece
    /// of it instead. Returns the time after that.
    pub(super) fn sleep(&mut self, until: Instant, now: Instant) -> io::Result<Instant> {
        self.outside.settle(&mut self.units.host, now);
        if self.outside.callbacks.has_more() {
            self.outside.poll(&mut self.units)?;
            return Ok(self.outside.serve(&mut self.units, now));
        }
        let (clock, deadline) = (self.units.clock, self.deadline(now).min(until));
        if let Some(coalesced) = self.idle.coalesce_until(now) {
            self.outside.halt.rest(&clock, deadline.min(coalesced))?;
            return Ok(self.end_halt(now));
        }
        let woken = self.outside.halt.until(&clock, deadline)?;
        let end = self.end_halt(now);
        if woken == Woken::Readable {
            self.outside.record_readable(&mut self.units.host);
            return Ok(self.outside.serve(&mut self.units, end));
        }
        Ok(end)
    }

    /// Records that the core has halted since `begin`. Returns the time now.
    pub(super) fn end_halt(&self, begin: Instant) -> Instant {
        let end = self.units.now();
        self.observer.add_halted(end.since(begin));
        end
    }
}
