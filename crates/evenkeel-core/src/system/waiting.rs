//! Waiting for what is ready: `select`, `poll`, and wakers of threads and tasks outside.

use core::task::Waker;

use super::state::System;
use crate::id::Fd;
use crate::ready::{FdSets, Kinds, PollEntry, Waiter};
use crate::socket::BadDescriptor;

impl System<'_> {
    /// Sets `found` to those of `selecting` that are ready. Returns how many there are, counting a
    /// descriptor once for each set that it is in. If there are none,
    /// [`Step::Block`](crate::process::Step::Block) sleeps until there is one.
    ///
    /// The host remembers the result. The next call checks only descriptors that are new, those that were
    /// ready, and those for which something has come. See [`evenkeel_ready::Readiness::select`].
    ///
    /// # Errors
    /// One of them is not open; `found` is empty then.
    pub fn select(&mut self, selecting: &FdSets, found: &mut FdSets) -> Result<usize, BadDescriptor> {
        self.begin_or_continue();
        self.net.readiness().select(self.process, selecting, found)
    }

    /// Writes into each entry what its descriptor is ready for. Returns the number of entries that are
    /// ready, or not open. If there are none, [`Step::Block`](crate::process::Step::Block) sleeps until
    /// there is one.
    pub fn poll(&mut self, entries: &mut [PollEntry]) -> usize {
        self.begin_or_continue();
        self.net.readiness().poll_descriptors(self.process, entries)
    }

    /// Continues the call in which the process has slept, or begins a new one.
    fn begin_or_continue(&mut self) {
        if !self.net.sockets.ready.is_woken_in_call(self.process) {
            self.call();
        }
    }

    /// Has `waker` woken, once, when the last call of [`System::select`] or [`System::poll`], which has
    /// found nothing, would find something. This is for threads and tasks outside, which do not sleep
    /// through [`Step::Block`](crate::process::Step::Block). Returns whether the call would find something
    /// already; then `waker` is not woken.
    ///
    /// A process is in one call at a time: the next call replaces this one, and wakers registered for this
    /// one are then woken for that.
    pub fn block(&mut self, waker: &Waker) -> bool {
        self.call();
        self.net.readiness().wait_in_call(self.process, waker)
    }

    /// Ends the call in which nothing was found: wakers that [wait](System::block) in it are no longer woken
    /// for it.
    pub fn give_up(&mut self) {
        self.net.sockets.ready.leave_call(self.process);
    }

    /// Has `waker` woken, once, when the descriptor is ready for one of `kinds`, or has ended. This is for
    /// threads and tasks outside, which do not sleep through [`Step::Wait`](crate::process::Step::Wait).
    ///
    /// Returns what of `kinds` it is ready for already, and whether it has ended; if anything, `waker` is not
    /// woken. A descriptor that is not open is [`Kinds::INVALID`]: the next call on it returns the error.
    pub fn wait(&mut self, fd: impl Into<Fd>, kinds: Kinds, waker: &Waker) -> Kinds {
        self.call();
        let Ok((id, _)) = self.descriptor(fd.into()) else { return Kinds::INVALID };
        let ready = self.net.readiness().ready_for(id, kinds);
        if ready.is_empty() {
            self.net.sockets.ready.wait(id, Waiter::Waker(waker.clone()), kinds);
        }
        ready
    }

    /// Cancels the waking of `waker` for the descriptor.
    pub fn forget(&mut self, fd: impl Into<Fd>, waker: &Waker) {
        if let Ok((id, _)) = self.descriptor(fd.into()) {
            self.net.sockets.ready.forget_waker(id, waker);
        }
    }
}
