//! The door for threads of one's own: a thread that is no [`Program`](evenkeel_core::process::Program) makes
//! calls on the host, waits for descriptors, and runs the host meanwhile; or lets an event loop of its own
//! run it, a bounded turn at a time.

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

/// What an event loop does until the next [`Engine::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// There is more to do: other things, if they are due, and then at once the next turn.
    Again,
    /// Nothing is pending. Wait until one of [`Engine::descriptors`] is readable, for so long at most;
    /// `None`: for as long as it takes.
    Wait(Option<Duration>),
}

/// Set when what a thread waits for is ready.
#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Engine {
    /// A host with the default settings on a device of the operating system: `tap:NAME` or `packet:NAME`,
    /// with an address such as `10.77.0.2/24` on it.
    ///
    /// # Errors
    /// What the device, the address or the process's limits have against it; nothing is left behind.
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

    /// Admits the calling thread, or another, as a process of the host ([`Host::attach`]).
    pub fn attach(&mut self, name: &str) -> ProcessId {
        let now = self.clock().now();
        self.host_mut().attach(name, 0, now)
    }

    /// Makes calls as a process that was attached, on its bill ([`Host::enter`]).
    ///
    /// # Errors
    /// [`NotAttached`]: nothing was called.
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
    /// until something ends the wait. To wait for many, wait for the process's event queue
    /// ([`System::events`]).
    ///
    /// # Errors
    /// If `process` is not attached, or halting fails: the kernel is out of memory.
    pub fn wait(&mut self, process: ProcessId, socket: Fd, until: Instant) -> Result<Ended, Error> {
        let flag = Arc::new(Flag::default());
        let waker = Arc::clone(&flag).into();
        let is_ready = self.enter(process, |system| system.wait(socket, &waker))?;
        self.run_until_raised(process, is_ready, &flag, until, |system| system.forget(socket, &waker))
    }

    /// Runs the host in the calling thread until the last call of [`System::select`] or [`System::poll`] of
    /// `process`, which has found nothing, would find something ([`Ended::Done`]), or until something ends
    /// the wait. Then make the same call again. One that has found something is over at once.
    ///
    /// # Errors
    /// If `process` is not attached, or halting fails: the kernel is out of memory.
    pub fn block(&mut self, process: ProcessId, until: Instant) -> Result<Ended, Error> {
        let flag = Arc::new(Flag::default());
        let waker = Arc::clone(&flag).into();
        let is_over = self.enter(process, |system| system.block(&waker))?;
        self.run_until_raised(process, is_over, &flag, until, |system| system.give_up())
    }

    /// Runs the host until the flag is raised, if what is waited for `is_ready` not yet; else `forget`s it.
    fn run_until_raised(
        &mut self,
        process: ProcessId,
        is_ready: bool,
        flag: &Flag,
        until: Instant,
        forget: impl FnOnce(&mut System<'_>),
    ) -> Result<Ended, Error> {
        if is_ready {
            // Whoever always finds something ready must not keep the host from its devices.
            self.advance(UNITS_BETWEEN)?;
            return Ok(Ended::Done);
        }
        let ended = self.run_for_a_while(until, |_| flag.0.load(Ordering::Acquire))?;
        if ended != Ended::Done {
            self.enter(process, forget)?;
        }
        Ok(ended)
    }

    /// Runs at most `units` units of the host's work and comes back: for event loops that have other things
    /// to do. Never sleeps.
    ///
    /// # Errors
    /// If looking at the devices fails: the kernel is out of memory.
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
        // Nobody knows when the next turn is.
        self.host_mut().start_output(now);
        Ok(Next::Again)
    }

    fn next(&mut self, now: Instant) -> Next {
        // A core that spins is awake: nobody has to write to a descriptor to wake it.
        let Some(halt_until) = self.halt_until(now) else { return Next::Again };
        // From here on a frame on a cable makes a descriptor readable; one that came before prevents the
        // wait.
        if self.has_pieces() || !self.asleep() {
            return Next::Again;
        }
        let deadline = self.host().next_deadline().min(halt_until);
        Next::Wait((deadline != Instant::NEVER).then(|| deadline.since(now)))
    }

    /// Makes one of [`Engine::descriptors`] readable, or the next turn come at once: for [`System::wait`],
    /// when an event loop does the waiting.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.halt().waker()
    }

    /// What to wait for between two turns: each is readable when there is something to do. They stay the same
    /// until a device is added or replaced, or one that was removed has reported nothing but errors for a
    /// while: it is no longer among them.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.halt().descriptors()
    }
}

/// Units of work between two calls of a thread that never has to wait.
const UNITS_BETWEEN: usize = 16;
