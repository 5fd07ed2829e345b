//! Descriptors are opened and closed.

use super::{Object, Readiness};
use crate::descriptors::{BadDescriptor, Closed, DupError, FileId, Opened, ProcessId};
use crate::numbers::TooManyOpen;
use crate::watches::{Watch, Watcher};

impl<T: Copy> Readiness<T> {
    /// Sets how many descriptors a process may have. Those above stay open.
    pub fn set_limit(&mut self, process: ProcessId, limit: u32) {
        self.descriptors.set_limit(process, limit);
    }

    /// Opens a file behind which is `object`.
    ///
    /// # Errors
    /// The process has as many as it may have.
    pub fn open(&mut self, process: ProcessId, object: T) -> Result<Opened, TooManyOpen> {
        self.descriptors.open(process, Object::Outside(object))
    }

    /// Closes a descriptor. Returns what was behind it, if no other descriptor refers to it.
    ///
    /// All callers of the process forget it, and those that sleep on it are woken, to find that out; its
    /// registrations at event queues are gone. Whatever gets the number next has no past.
    ///
    /// # Errors
    /// The process has no such descriptor.
    pub fn close(&mut self, process: ProcessId, fd: u32) -> Result<Option<T>, BadDescriptor> {
        let closed = self.descriptors.close(process, fd)?;
        Ok(self.forget(closed))
    }

    /// The lowest free number refers to the same file, too. Returns it.
    ///
    /// # Errors
    /// The process has no such descriptor, or as many as it may have.
    pub fn dup(&mut self, process: ProcessId, fd: u32) -> Result<u32, DupError> {
        self.descriptors.dup(process, fd)
    }

    /// The lowest free number that is not below `lowest` refers to the same file, too (`F_DUPFD`).
    ///
    /// # Errors
    /// The process has no such descriptor, or all that it may have from `lowest` on, or may not have any
    /// there.
    pub fn dup_from(&mut self, process: ProcessId, fd: u32, lowest: u32) -> Result<u32, DupError> {
        self.descriptors.dup_from(process, fd, lowest)
    }

    /// The number `new` refers to the same file, too; what it referred to before is closed. Returns what was
    /// behind that, if no other descriptor refers to it.
    ///
    /// # Errors
    /// The process has no descriptor `fd`, or may not have `new`.
    pub fn dup2(&mut self, process: ProcessId, fd: u32, new: u32) -> Result<Option<T>, DupError> {
        let displaced = self.descriptors.dup2(process, fd, new)?;
        Ok(displaced.and_then(|closed| self.forget(closed)))
    }

    /// The lowest free number of another process refers to the same file, too, as when a descriptor is sent
    /// by a message (`SCM_RIGHTS`). Returns it.
    ///
    /// # Errors
    /// The process has no such descriptor, or it is an event queue, which stays with its process; or the
    /// other process has as many as it may have.
    pub fn pass(&mut self, process: ProcessId, fd: u32, to: ProcessId) -> Result<u32, DupError> {
        match self.behind(process, fd) {
            Some(Object::Outside(_)) => self.descriptors.pass(process, fd, to),
            _ => Err(DupError::BadDescriptor(fd)),
        }
    }

    /// What is behind a descriptor.
    #[must_use]
    #[inline]
    pub fn behind(&self, process: ProcessId, fd: u32) -> Option<Object<T>> {
        self.descriptors.behind(process, fd)
    }

    /// Removes the watches of a file that a process has, which exits: its callers will not look any more, and
    /// its event queues go with it.
    pub(super) fn forget_watchers_in(&mut self, process: ProcessId, file: FileId) {
        let Some(object) = self.descriptors.object(file) else { return };
        let mut at = self.watches.beginning(file);
        loop {
            let Self { watches, descriptors, .. } = self;
            let is_of = |watch: Watch| descriptors.process_of(watch.reference) == Some(process);
            match watches.remove_from(&mut at, is_of) {
                Some(Watcher::Queue(id, key)) => self.unregister(super::QueueId(id), key, object),
                Some(Watcher::Caller(..)) => {}
                None => return,
            }
        }
    }

    /// Whoever watched a descriptor that is closed forgets it. Returns what was behind it, if it was the
    /// last.
    pub(super) fn forget(&mut self, closed: Closed<Object<T>>) -> Option<T> {
        let Closed { fd, object, is_last, file, reference } = closed;
        let mut at = self.watches.beginning(file);
        while let Some(watcher) = self.watches.remove_from(&mut at, |watch| watch.reference == reference) {
            match watcher {
                Watcher::Caller(id, _) => {
                    if self.callers.get_mut(id).is_some_and(|caller| caller.memory.forget(fd)) {
                        self.woken.push_back(super::CallerId(id));
                    }
                }
                Watcher::Queue(id, key) => self.unregister(super::QueueId(id), key, object),
            }
        }
        match object {
            Object::Outside(object) => Some(object).filter(|_| is_last),
            Object::Queue(queue) => {
                if is_last {
                    self.free_queue(queue);
                }
                None
            }
        }
    }
}
