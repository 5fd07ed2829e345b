//! A call that waits: the thread drives the host, or is parked, until its call may go on.

use std::sync::Arc;
use std::task::Waker;

use evenkeel_core::host::{NotAttached, System};
use evenkeel_core::process::ProcessId;
use evenkeel_core::socket::{Fd, Kinds};
use evenkeel_core::time::Instant;
use evenkeel_link::Nap;

use super::roles::Role;
use super::seat::Seat;
use super::shared::{Held, Shared};
use crate::ended::Next;
use crate::error::Error;

/// The readiness of a descriptor that a call needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Awaited {
    pub(crate) process: ProcessId,
    pub(crate) fd: Fd,
    pub(crate) kinds: Kinds,
}

/// The result of an attempt to make a call.
enum Attempt<T> {
    Done(Result<T, Error>),
    /// It would block, and the seat is registered.
    Waits,
    /// It would block, but may succeed at once.
    Again,
}

/// A thread in a call that waits. When it goes, it leaves its role to others, however the call ends.
struct Seated<'a> {
    shared: &'a Shared,
    seat: Arc<Seat>,
    /// The readiness for which the host calls the seat. An executor's seat is called by its tasks.
    awaited: Option<Awaited>,
    until: Instant,
    has_left: bool,
}

impl Shared {
    /// Makes `call` until it would not block any more, or until a time. Then returns its last result.
    ///
    /// With a time in the past, as for sockets that do not block, a host that nobody drives runs a bounded
    /// part of its work first.
    ///
    /// # Errors
    /// Those of `call`, and [`Error::Os`] if the kernel is out of memory.
    pub(crate) fn wait_in<T>(
        &self,
        awaited: Awaited,
        until: Instant,
        mut call: impl FnMut(&mut System<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut held = self.lock();
        // Most calls find what they ask for.
        match enter(&mut held, awaited.process, &mut call) {
            Err(error) if error.would_block() => {}
            result => return result,
        }
        if until <= self.now() {
            held.look_if_nobody_drives()?;
            return enter(&mut held, awaited.process, call);
        }
        // It has given the lock back when it ends, even by a panic.
        Seated::new(self, self.seat(), Some(awaited), until).wait_in(held, awaited, call)
    }

    /// Waits until the tasks of an executor call its seat, or until a time: as the driver if nobody else
    /// drives.
    ///
    /// # Errors
    /// [`Error::Down`] if all devices are gone, and [`Error::Os`] if the kernel is out of memory.
    pub(super) fn wait_for_tasks(&self, seat: &Arc<Seat>, until: Instant) -> Result<(), Error> {
        let mut seated = Seated::new(self, Arc::clone(seat), None, until);
        let mut held = seated.wait(self.lock())?;
        seated.leave(&mut held);
        Ok(())
    }
}

fn enter<T>(
    held: &mut Held<'_>,
    process: ProcessId,
    call: impl FnOnce(&mut System<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    held.enter(process, call).unwrap_or_else(|| Err(NotAttached.into()))
}

impl<'a> Seated<'a> {
    const fn new(shared: &'a Shared, seat: Arc<Seat>, awaited: Option<Awaited>, until: Instant) -> Self {
        Self { shared, seat, awaited, until, has_left: false }
    }

    fn wait_in<T>(
        &mut self,
        mut held: Held<'a>,
        awaited: Awaited,
        mut call: impl FnMut(&mut System<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let waker = Waker::from(Arc::clone(&self.seat));
        let result = loop {
            match self.attempt(&mut held, awaited, &waker, &mut call)? {
                Attempt::Done(result) => break result,
                Attempt::Again if self.until <= self.shared.now() => {
                    break self.give_up(&mut held, awaited, &waker, call);
                }
                Attempt::Again => {
                    if held.roles.is_vacant() {
                        held.take_turn(|| false)?;
                    }
                    held = self.shared.relock(held);
                }
                Attempt::Waits => {
                    held = self.wait(held)?;
                    if !self.seat.is_called() && self.until <= self.shared.now() {
                        break self.give_up(&mut held, awaited, &waker, call);
                    }
                }
            }
        };
        self.leave(&mut held);
        result
    }

    /// Makes the call, and registers for what it needs if it would block.
    fn attempt<T>(
        &self,
        held: &mut Held<'_>,
        Awaited { process, fd, kinds }: Awaited,
        waker: &Waker,
        call: &mut impl FnMut(&mut System<'_>) -> Result<T, Error>,
    ) -> Result<Attempt<T>, Error> {
        self.seat.resume();
        enter(held, process, |system| {
            Ok(match call(system) {
                Err(error) if error.would_block() => {
                    let ready = system.wait(fd, kinds, waker);
                    if ready.is_empty() { Attempt::Waits } else { Attempt::Again }
                }
                result => Attempt::Done(result),
            })
        })
    }

    /// Makes the call for the last time, as its time is over.
    fn give_up<T>(
        &self,
        held: &mut Held<'_>,
        Awaited { process, fd, .. }: Awaited,
        waker: &Waker,
        call: impl FnOnce(&mut System<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        enter(held, process, |system| {
            system.forget(fd, waker);
            call(system)
        })
    }

    /// Waits until the call may go on, or until its time is over: as the driver if nobody else drives.
    fn wait(&self, mut held: Held<'a>) -> Result<Held<'a>, Error> {
        while !self.seat.is_called() && self.until > self.shared.now() {
            held = match held.roles.take_or_park(&self.seat) {
                Role::Parked => self.sleep_parked(held),
                Role::Drives => self.drive(held)?,
                Role::Replaces => {
                    held.is_napping = false;
                    self.shared.kick.notify();
                    self.drive(held)?
                }
            };
        }
        Ok(held)
    }

    fn sleep_parked(&self, held: Held<'a>) -> Held<'a> {
        self.seat.prepare_to_sleep();
        drop(held);
        let until = self.until;
        self.seat.sleep((until != Instant::NEVER).then(|| until.since(self.shared.now())));
        self.shared.lock()
    }

    /// Runs one turn of the host, and then sleeps on its devices if nothing is to be done.
    fn drive(&self, mut held: Held<'a>) -> Result<Held<'a>, Error> {
        let next = held.take_turn(|| self.seat.is_called())?;
        held.call_helper_if_due();
        if self.awaited.is_none() && held.has_called_others() {
            // The tasks may be those of this thread.
            held = self.shared.relock(held);
        }
        if self.seat.is_called() {
            return Ok(held);
        }
        if held.has_called_others() && held.retire(&self.seat) {
            return Ok(self.sleep_parked(held));
        }
        if held.has_no_device() {
            return Err(Error::Down);
        }
        match next {
            Next::Again => Ok(self.shared.relock(held)),
            Next::Wait(_) => {
                let mut nap = held.nap.take().unwrap_or_else(|| Box::new(Nap::with(self.shared.oust.fd())));
                held = self.shared.nap(held, &mut nap, self.until, |roles| roles.is_driver(&self.seat))?;
                held.nap = Some(nap);
                if !held.roles.is_driver(&self.seat) {
                    let _ = self.shared.oust.take();
                }
                Ok(held)
            }
        }
    }

    /// Leaves the role of the thread to others.
    fn leave(&mut self, held: &mut Held<'_>) {
        self.has_left = true;
        self.seat.resume();
        let succession = held.roles.leave(&self.seat);
        held.settle(succession);
    }
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        // An error or a panic has ended the call.
        let mut held = self.shared.lock();
        if let Some(Awaited { process, fd, .. }) = self.awaited {
            let waker = Waker::from(Arc::clone(&self.seat));
            held.enter(process, |system| system.forget(fd, &waker));
        }
        self.leave(&mut held);
    }
}
