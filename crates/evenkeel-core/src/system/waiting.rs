//! Waiting for readiness: `select`, `poll`, and wakers of threads and tasks outside the host.

use core::task::Waker;

use super::state::System;
use crate::id::Fd;
use crate::ready::{FdSets, Kinds, PollEntry, Waiter};
use crate::socket::BadDescriptor;

impl System<'_> {
    /// Sets `found` to the descriptors of `selecting` that are ready. Returns their number; a descriptor
    /// counts once for each set that it is in. If it is 0, return
    /// [`Step::Block`](crate::process::Step::Block) to sleep until a descriptor is ready.
    ///
    /// The host remembers the result. The next call checks only new descriptors, those that were ready, and
    /// those with an event since. See [`evenkeel_ready::Readiness::select`].
    ///
    /// # Errors
    /// [`BadDescriptor`] if a descriptor of `selecting` is not open; `found` is empty then.
    pub fn select(&mut self, selecting: &FdSets, found: &mut FdSets) -> Result<usize, BadDescriptor> {
        self.begin_or_continue();
        self.net.readiness().select(self.process, selecting, found)
    }

    /// Writes into each entry the kinds for which its descriptor is ready. Returns the number of entries that
    /// are ready or not open. If it is 0, return [`Step::Block`](crate::process::Step::Block) to sleep until
    /// a descriptor is ready.
    pub fn poll(&mut self, entries: &mut [PollEntry]) -> usize {
        self.begin_or_continue();
        self.net.readiness().poll_descriptors(self.process, entries)
    }

    /// Continues the call in which the process slept, or begins a new one.
    fn begin_or_continue(&mut self) {
        if !self.net.sockets.ready.is_woken_in_call(self.process) {
            self.call();
        }
    }

    /// Registers `waker` for the last call of [`System::select`] or [`System::poll`], which found nothing.
    /// The host wakes it once, when that call would find something. Threads and tasks outside the host use
    /// this method, because they do not sleep through [`Step::Block`](crate::process::Step::Block). Returns
    /// whether the call would find something already; `waker` is not woken then.
    ///
    /// A process is in one call at a time. The next call replaces this one, and wakers registered for this
    /// call are then woken for the next.
    pub fn block(&mut self, waker: &Waker) -> bool {
        self.call();
        self.net.readiness().wait_in_call(self.process, waker)
    }

    /// Ends the call that found nothing. Wakers that [`System::block`] registered for it are no longer woken.
    pub fn give_up(&mut self) {
        self.net.sockets.ready.leave_call(self.process);
    }

    /// Registers `waker` for a descriptor. The host wakes it once, when the descriptor is ready for one of
    /// `kinds` or has ended. Threads and tasks outside the host use this method, because they do not sleep
    /// through [`Step::Wait`](crate::process::Step::Wait).
    ///
    /// Returns those of `kinds` for which the descriptor is ready already, and whether it has ended. Unless
    /// the result is empty, `waker` is not woken. Returns [`Kinds::INVALID`] if the descriptor is not open;
    /// the next call on it returns the error.
    pub fn wait(&mut self, fd: impl Into<Fd>, kinds: Kinds, waker: &Waker) -> Kinds {
        self.call();
        let Ok((id, _)) = self.descriptor(fd.into()) else { return Kinds::INVALID };
        if self.process_segments_for(id) {
            // The next call goes on with them.
            return kinds;
        }
        let ready = self.net.readiness().ready_for(id, kinds);
        if ready.is_empty() {
            self.net.sockets.ready.wait(id, Waiter::Waker(waker.clone()), kinds);
        }
        ready
    }

    /// Cancels the registration of `waker` for a descriptor.
    pub fn forget(&mut self, fd: impl Into<Fd>, waker: &Waker) {
        if let Ok((id, _)) = self.descriptor(fd.into()) {
            self.net.sockets.ready.forget_waker(id, waker);
            // It may have been woken for these alone.
            self.process_segments_for(id);
        }
    }
}
