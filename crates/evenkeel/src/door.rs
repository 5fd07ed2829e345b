//! Calls for threads that are not a [`Program`](evenkeel_core::process::Program). Such a thread makes calls
//! on the host, waits for descriptors, and runs the host while it waits. Alternatively, its own event loop
//! runs the host, a bounded number of work units at a time.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use evenkeel_core::host::{Config, Host, NotAttached, System};
use evenkeel_core::process::ProcessId;
use evenkeel_core::socket::Fd;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::IpCidr;
use evenkeel_link::{Clock, LinkSpec};

use crate::engine::{Ended, Engine};
use crate::error::Error;

/// The action that an event loop takes after a call of [`Engine::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// More work is pending. Handle other events if they are due, then call [`Engine::advance`] again at
    /// once.
    Again,
    /// No work is pending. Wait until one of [`Engine::descriptors`] is readable, for at most this long;
    /// `None` means without a limit.
    Wait(Option<Duration>),
}

/// A flag that a waker sets when the call that a thread waits for can go on.
#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Engine {
    /// Opens a host with the default settings on a device of the operating system, `tap:NAME` or
    /// `packet:NAME`. Its interface gets `address`, such as `10.77.0.2/24`.
    ///
    /// # Errors
    /// If the device cannot be opened, the address is not valid, or the process has reached a limit.
    /// Nothing is left behind.
    pub fn open(device: &str, address: &str) -> Result<Self, Error> {
        let LinkSpec::Device(spec) = device.parse()? else {
            return Err(Error::NoDevice(device.to_owned()));
        };
        let cidr: IpCidr = address.parse().map_err(|()| Error::Address(address.to_owned()))?;
        let clock = Clock::start();
        let mut engine = Self::new(Host::new(Config::default())?, clock)?;
        engine.add_device(evenkeel_link::open(&spec, clock)?, &[cidr])?;
        Ok(engine)
    }

    /// Registers the calling thread, or another thread, as a process of the host ([`Host::attach`]).
    pub fn attach(&mut self, name: &str) -> ProcessId {
        let now = self.clock().now();
        self.host_mut().attach(name, 0, now)
    }

    /// Makes calls as an attached process and charges their time to it ([`Host::enter`]).
    ///
    /// # Errors
    /// [`NotAttached`] if the process is not attached; `call` has then not been called.
    pub fn enter<T>(
        &mut self,
        process: ProcessId,
        call: impl FnOnce(&mut System<'_>) -> T,
    ) -> Result<T, NotAttached> {
        self.finish_computing();
        let begin = self.clock().now();
        let (host, soft) = self.host_and_soft();
        let result = host.enter_with(process, begin, Some(soft), call)?;
        let end = self.clock().now();
        self.host_mut().charge_process(process, end.since(begin));
        self.trigger_at(end);
        Ok(result)
    }

    /// Runs the host in the calling thread until a descriptor of `process` is ready ([`Ended::Done`]), or
    /// until another condition ends the wait. To wait for several descriptors, wait for the event queue of
    /// the process ([`System::events`]).
    ///
    /// # Errors
    /// If `process` is not attached, or halting fails: the kernel is out of memory.
    pub fn wait(&mut self, process: ProcessId, socket: Fd, until: Instant) -> Result<Ended, Error> {
        let flag = Arc::new(Flag::default());
        let waker = Arc::clone(&flag).into();
        let is_ready = self.enter(process, |system| system.wait(socket, &waker))?;
        self.run_until_raised(process, is_ready, &flag, until, |system| system.forget(socket, &waker))
    }

    /// Runs the host in the calling thread until the last [`System::select`] or [`System::poll`] call of
    /// `process`, which found nothing, would find something ([`Ended::Done`]), or until another condition
    /// ends the wait. The caller then repeats that call. If the last call found something, `block` does not
    /// sleep.
    ///
    /// # Errors
    /// If `process` is not attached, or halting fails: the kernel is out of memory.
    pub fn block(&mut self, process: ProcessId, until: Instant) -> Result<Ended, Error> {
        let flag = Arc::new(Flag::default());
        let waker = Arc::clone(&flag).into();
        let is_over = self.enter(process, |system| system.block(&waker))?;
        self.run_until_raised(process, is_over, &flag, until, |system| system.give_up())
    }

    /// Runs the host until the flag is raised, unless `is_ready` already holds. If the wait ends without
    /// the flag, calls `forget`.
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
        let ended = self.run_for_a_while(until, |_| flag.0.load(Ordering::Acquire))?;
        if ended != Ended::Done {
            self.enter(process, forget)?;
        }
        Ok(ended)
    }

    /// Runs at most `units` units of the host's work, then returns. It never sleeps, so it suits event
    /// loops that have other work, too.
    ///
    /// # Errors
    /// If polling the devices fails: the kernel is out of memory.
    pub fn advance(&mut self, units: usize) -> Result<Next, Error> {
        self.awake();
        self.observe_this_thread();
        let mut now = self.clock().now();
        self.look_at_all(now)?;
        for _ in 0..units.max(1) {
            now = self.trigger_at(now);
            now = match self.turn(now) {
                Some(end) => end,
                None if self.host_mut().halt(now) => return Ok(self.next(now)),
                None => self.clock().now(),
            };
        }
        // The time of the next call is unknown.
        self.host_mut().start_output(now);
        Ok(Next::Again)
    }

    fn next(&mut self, now: Instant) -> Next {
        // A core that spins is awake, so no other thread has to write to a descriptor to wake it.
        let Some(halt_until) = self.halt_until(now) else { return Next::Again };
        // From here on a frame on a cable makes a descriptor readable; one that came before prevents the
        // wait.
        if self.has_pieces() || !self.asleep() {
            return Next::Again;
        }
        let deadline = self.host().next_deadline().min(halt_until);
        Next::Wait((deadline != Instant::NEVER).then(|| deadline.since(now)))
    }

    /// Returns a waker that makes one of [`Engine::descriptors`] readable, or the next call of
    /// [`Engine::advance`] due at once. An event loop passes it to [`System::wait`] when it does the
    /// waiting itself.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.halt().waker()
    }

    /// Returns the descriptors that an event loop waits for between two calls of [`Engine::advance`]. Each
    /// is readable when there is work. The set changes only when a device is added or replaced, when a device
    /// opens or closes a receive ring, or when a removed device has reported nothing but errors for a while.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.halt().descriptors()
    }
}

/// Units of work between two calls of a thread that never has to wait.
const UNITS_BETWEEN: usize = 16;
