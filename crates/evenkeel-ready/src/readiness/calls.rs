//! `select` and `poll`.

use super::queues::{Queues, status_of};
use super::{Caller, CallerId, Object, Readiness};
use crate::call::{Answer, PollEntry, Wait};
use crate::descriptors::{BadDescriptor, Descriptors, ProcessId};
use crate::kinds::Kinds;
use crate::memory::Memory;
use crate::set::FdSets;
use crate::watches::{Watch, Watcher, Watches};

/// A caller's memory, and what it needs to know of descriptors.
struct Call<'a, T> {
    memory: &'a mut Memory,
    descriptors: &'a Descriptors<Object<T>>,
    watches: &'a mut Watches,
    queues: &'a mut Queues,
    process: ProcessId,
    caller: CallerId,
}

impl<T: Copy> Readiness<T> {
    /// Which of `selecting` are ready: `found` is set to them, or, if the call fails, to none.
    ///
    /// What it finds is what [the classic one](crate::classic::select) finds, which tests everything. This
    /// one tests those that the caller has not asked for before, those that were ready when they were last
    /// tested (he may have read what there was), and those for which there was a hint since. Of all others
    /// it is known that they are not ready. A set is cleared and compared word by word, 64 descriptors each;
    /// that is what remains to be paid for those that are idle.
    ///
    /// # Errors
    /// One of them is not open (`EBADF`); to a caller who does not exist none is.
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

    /// A caller who slept in `select` is woken: which of those that he sleeps on are ready. Only those are
    /// tested for which there was a hint. If none is ready he sleeps on.
    ///
    /// # Errors
    /// One of them was closed in the meantime.
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

    /// What the descriptor of each entry is ready for: it is written into the entry.
    ///
    /// It remembers as [`select`](Self::select) does, and the same: what one has found out the other knows.
    /// A caller who slept here and is woken calls it again with the same entries.
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

/// A caller asks for a descriptor for the first time. Whether it is open.
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

/// What of `asked` a descriptor is ready for.
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
