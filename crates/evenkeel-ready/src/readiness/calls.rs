//! The calls `select` and `poll`, with and without memory.

use super::event_queues::{Queues, status_of};
use super::names::{CallerId, Object};
use super::state::{Caller, Readiness};
use crate::call::{Answer, PollEntry, Wait};
use crate::descriptors::{BadDescriptor, Descriptors, ProcessId};
use crate::kinds::Kinds;
use crate::memory::Memory;
use crate::set::FdSets;
use crate::watches::{Watch, Watcher, Watches};

/// The memory of a caller, and the parts of [`Readiness`] that its calls use.
struct Call<'a, T> {
    memory: &'a mut Memory,
    descriptors: &'a Descriptors<Object<T>>,
    watches: &'a mut Watches,
    queues: &'a mut Queues,
    process: ProcessId,
    caller: CallerId,
}

impl<T: Copy> Readiness<T> {
    /// Finds out which descriptors of `selecting` are ready, and sets `found` to them. If the call fails,
    /// `found` is empty.
    ///
    /// The result is that of [the classic one](crate::classic::select), which tests every descriptor. This
    /// call tests only descriptors that the caller has not asked for before, that were ready at their last
    /// test (the caller may have read the data), or that have had a hint since. All others are known not to
    /// be ready. Sets are cleared and compared word by word, 64 descriptors each; that is the remaining
    /// cost of idle descriptors.
    ///
    /// # Errors
    /// If one of them is not open (`EBADF`), or the caller does not exist.
    pub fn select(
        &mut self,
        caller: CallerId,
        selecting: &FdSets,
        found: &mut FdSets,
        wait: Wait,
        mut status: impl FnMut(T, Kinds) -> Kinds,
    ) -> Result<Answer, BadDescriptor> {
        let Call { memory, descriptors, watches, queues, process, caller } =
            self.call(caller).ok_or(BadDescriptor(0))?;
        let answer = memory.select(
            selecting,
            found,
            |fd| meet(descriptors, watches, (process, fd), caller),
            |fd, asked| look(descriptors, queues, (process, fd), asked, &mut status),
        )?;
        if answer.ready == 0 && wait == Wait::UntilReady {
            memory.sleep_on_sets(selecting);
        }
        Ok(answer)
    }

    /// Continues a `select` in which the caller slept until it was woken: finds out which of those
    /// descriptors are ready. Only descriptors with a hint are tested. If none is ready, the caller sleeps
    /// on.
    ///
    /// # Errors
    /// If one of them was closed in the meantime.
    pub fn woken(
        &mut self,
        caller: CallerId,
        found: &mut FdSets,
        mut status: impl FnMut(T, Kinds) -> Kinds,
    ) -> Result<Answer, BadDescriptor> {
        let Call { memory, descriptors, watches, queues, process, caller } =
            self.call(caller).ok_or(BadDescriptor(0))?;
        memory.woken(
            found,
            |fd| meet(descriptors, watches, (process, fd), caller),
            |fd, asked| look(descriptors, queues, (process, fd), asked, &mut status),
        )
    }

    /// Writes into each entry what its descriptor is ready for.
    ///
    /// The call shares its memory with [`select`](Self::select): each uses what the other has found out. A
    /// caller that slept here and is woken calls `poll` again with the same entries.
    ///
    /// ```
    /// use evenkeel_ready::{Allocation, Kinds, PollEntry, Readiness, Wait};
    ///
    /// let mut host = Readiness::new(Allocation::Bitmap);
    /// let process = host.spawn(16);
    /// let thread = host.attach(process);
    /// let socket = host.open(process, "socket")?;
    ///
    /// let mut entries = [PollEntry::new(socket.fd, Kinds::READABLE), PollEntry::new(9, Kinds::READABLE)];
    /// let answer = host.poll(thread, &mut entries, Wait::No, |_, _| Kinds::READABLE);
    /// assert_eq!((answer.ready, answer.tests), (2, 1));
    /// assert_eq!((entries[0].ready, entries[1].ready), (Kinds::READABLE, Kinds::INVALID));
    /// # Ok::<(), evenkeel_ready::TooManyOpen>(())
    /// ```
    pub fn poll(
        &mut self,
        caller: CallerId,
        entries: &mut [PollEntry],
        wait: Wait,
        mut status: impl FnMut(T, Kinds) -> Kinds,
    ) -> Answer {
        let Some(Call { memory, descriptors, watches, queues, process, caller }) = self.call(caller) else {
            return Answer::default();
        };
        let answer = memory.poll(
            entries,
            |fd| meet(descriptors, watches, (process, fd), caller),
            |fd, asked| look(descriptors, queues, (process, fd), asked, &mut status),
        );
        if answer.ready == 0 && wait == Wait::UntilReady {
            memory.sleep_on_entries(entries);
        }
        answer
    }

    fn call(&mut self, id: CallerId) -> Option<Call<'_, T>> {
        let Self { descriptors, watches, callers, queues, woken, .. } = self;
        let Caller { process, memory, waits_on } = callers.get_mut(id.0)?;
        if let Some(queue) = waits_on.take() {
            queues.leave(queue, id, woken);
        }
        Some(Call { memory, descriptors, watches, queues, process: *process, caller: id })
    }
}

/// Adds the watch of a caller that asks for a descriptor for the first time. Returns whether the descriptor
/// is open.
fn meet<T: Copy>(
    descriptors: &Descriptors<Object<T>>,
    watches: &mut Watches,
    (process, fd): (ProcessId, u32),
    caller: CallerId,
) -> bool {
    let Some((file, reference)) = descriptors.reference(process, fd) else { return false };
    watches.add(file, Watch { watcher: Watcher::Caller(caller.0, fd), reference });
    true
}

/// Returns the kinds of `asked` that a descriptor is ready for.
fn look<T: Copy>(
    descriptors: &Descriptors<Object<T>>,
    queues: &mut Queues,
    (process, fd): (ProcessId, u32),
    asked: Kinds,
    status: &mut impl FnMut(T, Kinds) -> Kinds,
) -> Kinds {
    let file = descriptors.file(process, fd);
    file.map_or(Kinds::NONE, |file| status_of(descriptors, queues, file, asked, status))
}
