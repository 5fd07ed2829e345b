//! Calls that open, duplicate and close descriptors.

use super::names::Object;
use super::state::Readiness;
use crate::descriptors::{BadDescriptor, Closed, DupError, FileId, Opened, ProcessId};
use crate::numbers::TooManyOpen;
use crate::watches::{Watch, Watcher};

impl<T: Copy> Readiness<T> {
    /// Sets the number of descriptors that a process may have. Open descriptors above it stay open.
    pub fn set_limit(&mut self, process: ProcessId, limit: u32) {
        self.descriptors.set_limit(process, limit);
    }

    /// Opens a file whose object is `object`.
    ///
    /// # Errors
    /// If the process has as many descriptors as it may have.
    pub fn open(&mut self, process: ProcessId, object: T) -> Result<Opened, TooManyOpen> {
        self.descriptors.open(process, Object::Outside(object))
    }

    /// Closes a descriptor. Returns the object behind it if no other descriptor refers to the file.
    ///
    /// All callers of the process forget the descriptor, and callers that sleep on it are woken to find
    /// that out. Its registrations at event queues are removed. A file that gets the number later starts
    /// without a past.
    ///
    /// # Errors
    /// The process has no such descriptor.
    pub fn close(&mut self, process: ProcessId, fd: u32) -> Result<Option<T>, BadDescriptor> {
        let closed = self.descriptors.close(process, fd)?;
        Ok(self.forget(closed))
    }

    /// Makes the lowest free number refer to the same file, too, and returns that number.
    ///
    /// # Errors
    /// The process has no such descriptor, or as many as it may have.
    pub fn dup(&mut self, process: ProcessId, fd: u32) -> Result<u32, DupError> {
        self.descriptors.dup(process, fd)
    }

    /// Makes the lowest free number that is not below `lowest` refer to the same file, too (`F_DUPFD`), and
    /// returns that number.
    ///
    /// # Errors
    /// The process has no such descriptor, or all that it may have from `lowest` on, or may not have any
    /// there.
    pub fn dup_from(&mut self, process: ProcessId, fd: u32, lowest: u32) -> Result<u32, DupError> {
        self.descriptors.dup_from(process, fd, lowest)
    }

    /// Makes the number `new` refer to the same file, too, and closes what it referred to before. Returns
    /// the object of that file, if no other descriptor refers to it.
    ///
    /// # Errors
    /// The process has no descriptor `fd`, or may not have `new`.
    pub fn dup2(&mut self, process: ProcessId, fd: u32, new: u32) -> Result<Option<T>, DupError> {
        let displaced = self.descriptors.dup2(process, fd, new)?;
        Ok(displaced.and_then(|closed| self.forget(closed)))
    }

    /// Makes the lowest free number of another process refer to the same file, too, as when a message
    /// carries a descriptor (`SCM_RIGHTS`). Returns that number.
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

    /// Returns the object behind a descriptor, or `None` if the descriptor is not open.
    #[must_use]
    #[inline]
    pub fn behind(&self, process: ProcessId, fd: u32) -> Option<Object<T>> {
        self.descriptors.behind(process, fd)
    }

    /// Removes the watches that a process has on a file when the process exits: its callers test nothing
    /// any more, and its event queues are removed with it.
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

    /// Removes the watches of a closed descriptor. Returns the object behind it, if it was the last of its
    /// file.
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
