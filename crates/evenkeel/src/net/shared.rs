//! A host that several threads share: one lock, and what happens when it is released.

use std::io;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use evenkeel_core::host::{Host, Level, NotAttached, System};
use evenkeel_core::process::ProcessId;
use evenkeel_core::time::Instant;
use evenkeel_link::{Clock, EventFd, Nap, Notifier};

use super::roles::Roles;
use super::seat::{Rousing, Seat, Succession};
use crate::driver::Driver;
use crate::ended::Next;
use crate::error::Error;

/// Work items of one turn of a driver. The lock is released between turns.
const UNITS_PER_TURN: usize = 16;

/// A host that several threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// The number of threads that wait for the lock.
    contenders: AtomicUsize,
    rousing: Arc<Rousing>,
    pub(super) clock: Clock,
    /// Ends the sleep of the driver.
    notifier: Arc<Notifier>,
    /// Ends the sleep of the helper, when it drives.
    pub(super) kick: EventFd,
    /// Ends the sleep of a thread that a task has replaced as the driver.
    pub(super) oust: EventFd,
    /// The place where the helper sleeps when it does not drive.
    pub(super) helper: Arc<Seat>,
    /// Whether no handle of the host is left.
    pub(super) closing: AtomicBool,
}

/// The parts of a shared host that need its lock.
#[derive(Debug)]
pub(crate) struct Core {
    pub(super) driver: Driver,
    rousing: Arc<Rousing>,
    pub(crate) roles: Roles,
    /// The list of what a driving thread sleeps on, for the next one.
    pub(super) nap: Option<Box<Nap>>,
    /// Whether the driver sleeps on the devices.
    pub(super) is_napping: bool,
    /// The processes whose calls process their segments.
    pub(super) callers: Vec<ProcessId>,
    /// Whether the helper has work of the host's own to do.
    pub(super) is_helper_due: bool,
    /// The number of turns of tasks that drive.
    pub(super) task_turns: u64,
}

impl Core {
    /// Makes calls on the host as a process of its own. A process that has ended makes none.
    pub(crate) fn enter<T>(
        &mut self,
        process: ProcessId,
        call: impl FnOnce(&mut System<'_>) -> T,
    ) -> Option<T> {
        let calls_follow = self.rousing.has_called();
        self.host().expect_calls(calls_follow);
        let (result, watch_deadlines) = self.driver.enter_aside(process, call).ok()?;
        if watch_deadlines {
            let succession = self.roles.call_helper();
            self.rousing.settle(succession);
        }
        Some(result)
    }

    pub(crate) fn host(&mut self) -> &mut Host {
        &mut self.driver.units.host
    }

    /// Registers a process whose calls process its segments.
    pub(crate) fn attach_callers(&mut self, name: &str, now: Instant) -> ProcessId {
        let process = self.host().attach_callers(name, now);
        self.callers.push(process);
        process
    }

    /// Ends a process, and closes what it has open.
    pub(crate) fn end(&mut self, process: ProcessId) {
        self.callers.retain(|&other| other != process);
        self.driver.end_process(process);
    }

    /// Runs a bounded part of the work of devices and of demultiplexing, as the driver, or because nobody
    /// drives. Ends early when `done` holds.
    pub(crate) fn take_turn(&mut self, done: impl Fn() -> bool) -> io::Result<Next> {
        let calls_follow = self.rousing.has_called();
        self.host().expect_calls(calls_follow);
        self.driver.take_turns(UNITS_PER_TURN, Level::PollingThread, done)
    }

    /// Runs a bounded part of all work of the host but that of idle time, as the driver.
    pub(super) fn take_turn_of_all(&mut self) -> io::Result<Next> {
        self.driver.take_turns(UNITS_PER_TURN, Level::Process, || false)
    }

    /// Runs a bounded part of all work of the host but that of idle time, whoever drives.
    pub(super) fn take_turn_aside(&mut self) {
        self.driver.take_turns_aside(UNITS_PER_TURN, Level::Process);
    }

    /// Returns whether calls of other threads may go on once the lock is free.
    pub(crate) fn has_called_others(&self) -> bool {
        self.rousing.has_called()
    }

    /// Has the thread woken that a change of roles concerns, once the lock is free.
    pub(crate) fn settle(&self, succession: Succession) {
        self.rousing.settle(succession);
    }

    /// Has the tasks woken, once the lock is free.
    pub(super) fn rouse_tasks(&self) {
        self.roles.tasks().iter().for_each(|task| self.rousing.add(Arc::clone(task)));
    }

    /// Parks the driver, if others that it has woken are likely to drive soon. Returns whether it is parked.
    pub(crate) fn retire(&mut self, seat: &Arc<Seat>) -> bool {
        let (is_parked, succession) = self.roles.retire(seat);
        self.settle(succession);
        is_parked
    }

    /// Looks at the devices and takes a turn, if nobody drives.
    pub(crate) fn look_if_nobody_drives(&mut self) -> io::Result<()> {
        if !self.roles.is_vacant() {
            return Ok(());
        }
        self.driver.look()?;
        self.take_turn(|| false).map(drop)
    }

    /// Returns whether a connection is not over yet.
    pub(super) fn has_open_connections(&mut self) -> bool {
        !self.host().tcp().is_empty()
    }

    /// Returns whether there were devices and all are gone: nothing will come any more.
    pub(crate) fn has_no_device(&self) -> bool {
        self.driver.outside.devices.have_ended()
    }

    /// Returns whether work waits that the driver leaves to the helper: that of a daemon at once, that of
    /// calls if they do not come soon.
    fn has_work_for_helper(&mut self) -> (bool, bool) {
        let host = &mut self.driver.units.host;
        let uncalled = self.callers.iter().any(|&process| host.uncalled(process).is_some());
        (host.has_runnable(), uncalled)
    }
}

impl Shared {
    pub(super) fn new(driver: Driver) -> io::Result<Arc<Self>> {
        let rousing = Arc::new(Rousing::default());
        let helper = Seat::new(&rousing);
        let (clock, notifier) = (driver.units.clock, driver.outside.halt.notifier());
        let core = Core {
            driver,
            rousing: Arc::clone(&rousing),
            roles: Roles::new(Arc::clone(&helper)),
            nap: None,
            is_napping: false,
            callers: Vec::new(),
            is_helper_due: false,
            task_turns: 0,
        };
        Ok(Arc::new(Self {
            core: Mutex::new(core),
            contenders: AtomicUsize::new(0),
            helper,
            rousing,
            clock,
            notifier,
            kick: EventFd::new()?,
            oust: EventFd::new()?,
            closing: AtomicBool::new(false),
        }))
    }

    /// Locks the host, for the calling thread alone.
    pub(crate) fn lock(&self) -> Held<'_> {
        if let Some(held) = self.try_lock() {
            return held;
        }
        self.contenders.fetch_add(1, Ordering::Relaxed);
        // A panic in a call leaves the host as it was between two work items, or as a bug left it.
        let core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        self.contenders.fetch_sub(1, Ordering::Relaxed);
        Held { core: Some(core), shared: self }
    }

    /// Locks the host, unless a thread has locked it.
    pub(crate) fn try_lock(&self) -> Option<Held<'_>> {
        let core = match self.core.try_lock() {
            Ok(core) => core,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Held { core: Some(core), shared: self })
    }

    /// Releases the lock for those who wait for it, and locks the host again.
    pub(crate) fn relock<'a>(&'a self, held: Held<'a>) -> Held<'a> {
        drop(held);
        // The lock is not fair: whoever releases it would mostly get it back.
        if self.contenders.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        self.lock()
    }

    /// Returns a place for a call that waits.
    pub(crate) fn seat(&self) -> Arc<Seat> {
        Seat::new(&self.rousing)
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Sleeps as the driver, with the host unlocked, until there is work, `until`, or a wake-up. `drives`
    /// says whether the thread still drives when it has woken.
    pub(crate) fn nap<'a>(
        &'a self,
        mut held: Held<'a>,
        nap: &mut Nap,
        until: Instant,
        drives: impl FnOnce(&Roles) -> bool,
    ) -> io::Result<Held<'a>> {
        let until = held.driver.begin_nap(nap).min(until);
        held.is_napping = true;
        drop(held);
        let slept = nap.sleep((until != Instant::NEVER).then(|| until.since(self.now())));
        let mut held = self.lock();
        if drives(&held.roles) {
            held.is_napping = false;
            held.driver.end_nap(nap);
        }
        slept.map(|()| held)
    }
}

/// A locked host. When it is released, the threads are woken whose calls may go on.
pub(crate) struct Held<'a> {
    /// `None` once it is released.
    core: Option<MutexGuard<'a, Core>>,
    shared: &'a Shared,
}

impl Held<'_> {
    /// Makes calls on the host for a task. If the driver is a task of a runtime, too, it is woken without a
    /// system call.
    pub(super) fn enter_as_task<T>(
        &mut self,
        process: ProcessId,
        call: impl FnOnce(&mut System<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        #[cfg(feature = "tokio")]
        if self.roles.task_drives() {
            return self.enter_quietly(process, call);
        }
        self.enter(process, call).unwrap_or_else(|| Err(NotAttached.into()))
    }

    #[cfg(feature = "tokio")]
    fn enter_quietly<T>(
        &mut self,
        process: ProcessId,
        call: impl FnOnce(&mut System<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let calls_follow = self.rousing.has_called();
        self.host().expect_calls(calls_follow);
        let (result, is_early) = self.driver.enter_quietly(process, call)?;
        if is_early && let Some(task) = self.roles.driving_task() {
            self.rousing.add(Arc::clone(task));
        }
        result
    }

    /// Has the helper process segments for which no call comes soon.
    #[cfg(feature = "tokio")]
    pub(super) fn call_helper_if_uncalled(&mut self) {
        if self.has_work_for_helper().1 {
            let succession = self.roles.call_helper();
            self.settle(succession);
        }
    }

    /// Has the helper do what the driver leaves to it.
    pub(crate) fn call_helper_if_due(&mut self) {
        let (runnable, uncalled) = self.has_work_for_helper();
        if runnable && !mem::replace(&mut self.is_helper_due, true) {
            self.shared.rousing.add(Arc::clone(&self.shared.helper));
        } else if uncalled {
            let succession = self.roles.call_helper();
            self.rousing.settle(succession);
        }
    }
}

impl Deref for Held<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        self.core.as_deref().expect("a host is held until it is released")
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        self.core.as_deref_mut().expect("a host is held until it is released")
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let roused = self.shared.rousing.take();
        let Some(core) = self.core.take() else { return };
        let asleep = core.is_napping.then(|| core.roles.driving_seat().map(Arc::as_ptr)).flatten();
        drop(core);
        for seat in roused {
            if asleep == Some(Arc::as_ptr(&seat)) {
                self.shared.notifier.notify();
            } else {
                seat.rouse();
            }
        }
    }
}
