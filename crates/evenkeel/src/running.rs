//! Ways to run a host. A thread runs it until a time or a condition, or makes calls and runs the host while
//! it waits. Alternatively, an event loop runs the host, a bounded number of work items at a time.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use evenkeel_core::host::{Host, NotAttached, System};
use evenkeel_core::process::ProcessId;
use evenkeel_core::socket::{Fd, Kinds};
use evenkeel_core::time::Instant;

use crate::driver::Rest;
use crate::ended::{Ended, Next};
use crate::engine::Engine;
use crate::error::Error;

/// Work items that run between two calls of a thread that never has to wait.
const UNITS_BETWEEN: usize = 16;

/// A flag that a waker sets when the call that a thread waits for can continue.
#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Engine {
    /// Runs the host until `until`, until `done` returns true, or until another reason to end ([`Ended`]).
    ///
    /// `done` is called whenever the core is about to halt or to poll its devices. This is at least every 20
    /// µs, or every 1 ms while a program computes. A work item in which a program computes beyond the end is
    /// interrupted, and continues in the next call.
    ///
    /// # Errors
    /// [`io::Error`] if halting fails because the kernel is out of memory.
    pub fn run(&mut self, until: Instant, done: impl FnMut(&Host) -> bool) -> io::Result<Ended> {
        let ended = self.driver.run(until, done);
        // The kernel forgets the time of this thread once it has ended.
        self.driver.observer.read_thread();
        ended
    }

    /// Registers the calling thread, or another thread, as a process of the host ([`Host::attach`]).
    pub fn attach(&mut self, name: &str) -> ProcessId {
        let now = self.clock().now();
        self.host_mut().attach(name, 0, now)
    }

    /// Makes calls as an attached process, and charges their time to that process ([`Host::enter`]).
    ///
    /// # Errors
    /// [`NotAttached`] if the process is not attached; `call` has then not been called.
    pub fn enter<T>(
        &mut self,
        process: ProcessId,
        call: impl FnOnce(&mut System<'_>) -> T,
    ) -> Result<T, NotAttached> {
        self.driver.enter(process, call)
    }

    /// Runs the host in the calling thread until a descriptor of `process` can be read, has a connection to
    /// accept, or has ended ([`Ended::Done`]). Another condition may end the wait earlier ([`Ended`]).
    ///
    /// To wait for several descriptors, wait for the event queue of the process
    /// ([`EventQueue::of_all`](evenkeel_core::system::EventQueue::of_all)).
    ///
    /// # Errors
    /// [`Error`] if `process` is not attached, or if halting fails because the kernel is out of memory.
    pub fn wait(&mut self, process: ProcessId, fd: impl Into<Fd>, until: Instant) -> Result<Ended, Error> {
        self.wait_for(process, fd, Kinds::READABLE, until)
    }

    /// Runs the host as [`Engine::wait`] does, until the descriptor is ready for one of `kinds`. For example,
    /// [`Kinds::WRITABLE`] waits until a stream has room; data to be read do not end that wait.
    ///
    /// # Errors
    /// [`Error`] if `process` is not attached, or if halting fails because the kernel is out of memory.
    pub fn wait_for(
        &mut self,
        process: ProcessId,
        fd: impl Into<Fd>,
        kinds: Kinds,
        until: Instant,
    ) -> Result<Ended, Error> {
        let fd = fd.into();
        let flag = Arc::new(Flag::default());
        let waker = Arc::clone(&flag).into();
        let ready = self.enter(process, |system| system.wait(fd, kinds, &waker))?;
        let forget = |system: &mut System<'_>| system.forget(fd, &waker);
        self.run_until_raised(process, !ready.is_empty(), &flag, until, forget)
    }

    /// Runs the host in the calling thread until the last [`System::select`] or [`System::poll`] call of
    /// `process` would find something ([`Ended::Done`]). Another condition may end the wait earlier
    /// ([`Ended`]). The caller then repeats the call. If the last call found something, `block` does not
    /// sleep.
    ///
    /// # Errors
    /// [`Error`] if `process` is not attached, or if halting fails because the kernel is out of memory.
    pub fn block(&mut self, process: ProcessId, until: Instant) -> Result<Ended, Error> {
        let flag = Arc::new(Flag::default());
        let waker = Arc::clone(&flag).into();
        let is_over = self.enter(process, |system| system.block(&waker))?;
        self.run_until_raised(process, is_over, &flag, until, |system| system.give_up())
    }

    /// Runs the host until the flag is raised. Does not wait if `is_ready` is true. Calls `forget` if the
    /// wait ends for another reason.
    fn run_until_raised(
        &mut self,
        process: ProcessId,
        is_ready: bool,
        flag: &Flag,
        until: Instant,
        forget: impl FnOnce(&mut System<'_>),
    ) -> Result<Ended, Error> {
        if is_ready {
            // A caller that always finds something ready must not keep the host from its devices.
            self.advance(UNITS_BETWEEN)?;
            return Ok(Ended::Done);
        }
        let ended = self.driver.run(until, |_| flag.0.load(Ordering::Acquire))?;
        if ended != Ended::Done {
            self.enter(process, forget)?;
        }
        Ok(ended)
    }

    /// Runs at most `units` work items, then returns what the caller does next. Never sleeps, so it suits
    /// event loops that have other work, too.
    ///
    /// # Errors
    /// [`Error`] if polling the devices fails because the kernel is out of memory.
    pub fn advance(&mut self, units: usize) -> Result<Next, Error> {
        Ok(self.driver.advance(units)?)
    }

    /// Returns a waker for an event loop that waits itself, which passes the waker to [`System::wait`]. The
    /// waker makes one of [`Engine::descriptors`] readable, or the next call of [`Engine::advance`] due at
    /// once.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.driver.outside.halt.waker()
    }

    /// Returns the events that end the sleep of a thread that does not hold the engine meanwhile. Call it
    /// after [`Engine::advance`] has returned [`Next::Wait`].
    ///
    /// Until the thread next calls `advance`, other threads may [enter](Engine::enter) the host, but not run
    /// it. A call that makes work due before [`Rest::until`] makes a descriptor readable. A thread that makes
    /// another change, such as one through [`Engine::host_mut`], has to wake [`Engine::waker`].
    #[must_use]
    pub fn rest(&mut self) -> Rest {
        self.driver.rest()
    }

    /// Returns the descriptors that an event loop waits for between two calls of [`Engine::advance`]. Each
    /// is readable when there is work. The set changes only when a device is added or replaced, when a device
    /// opens or closes a receive ring, or when a removed device has reported nothing but errors for a while.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.driver.outside.halt.descriptors()
    }
}
