//! Event queues: their registrations, candidates and waiting callers.

use alloc::collections::VecDeque;
use core::fmt;

use crate::call::Answer;
use crate::descriptors::{BadDescriptor, Descriptors, FileId, ProcessId};
use crate::kinds::Kinds;
use crate::queue::{Event, EventQueue, Hinted};
use evenkeel_base::Slab;

use super::names::{CallerId, Object, QueueId};

/// The largest number of event queues that may be nested below one event queue, one within the other.
pub(super) const DEPTH: usize = 4;

/// An error of a call on an event queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueError {
    /// The descriptor is not open: `EBADF`.
    BadDescriptor(u32),
    /// The descriptor that should be an event queue is none: `EINVAL`.
    NotAQueue(u32),
    /// The descriptor is registered at the event queue already: `EEXIST`.
    AlreadyAdded(u32),
    /// The descriptor is not registered at the event queue: `ENOENT`.
    NotAdded(u32),
    /// An event queue cannot be registered at itself, nor changed or deleted there: `EINVAL`.
    Itself(u32),
    /// Event queues would watch each other in a circle, or be more than five in a row: `ELOOP`.
    Nested(u32),
    /// An event queue, a one-shot, or an interest in more than readable and writable cannot be exclusive, and
    /// what is cannot be modified: `EINVAL`.
    Exclusive(u32),
    /// The caller's buffer has no room for any event: `EINVAL`.
    NoRoom,
}

impl From<BadDescriptor> for QueueError {
    fn from(error: BadDescriptor) -> Self {
        Self::BadDescriptor(error.0)
    }
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadDescriptor(fd) => BadDescriptor(*fd).fmt(f),
            Self::NotAQueue(fd) => write!(f, "{fd} is not an event queue"),
            Self::AlreadyAdded(fd) => write!(f, "{fd} was added to the event queue before"),
            Self::NotAdded(fd) => write!(f, "{fd} was not added to the event queue"),
            Self::Itself(fd) => write!(f, "event queue {fd} cannot be registered at itself"),
            Self::Nested(fd) => {
                write!(f, "event queue {fd} would be in a circle, or be one of more than five in a row")
            }
            Self::Exclusive(fd) => write!(f, "{fd} cannot be exclusive so, or is and cannot be modified"),
            Self::NoRoom => f.write_str("there is no room for any event"),
        }
    }
}

impl core::error::Error for QueueError {}

/// The event queues of all processes.
#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) queues: Slab<Queue>,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) events: EventQueue,
    pub(super) file: FileId,
    /// The callers that sleep until there is an event, the longest sleeper first.
    pub(super) sleepers: VecDeque<CallerId>,
    /// The number of registrations of event queues with no other event queue below them, with one level
    /// below, with two, and so on.
    pub(super) nested: [u32; DEPTH],
    /// Whether the current search among event queues has visited this one.
    pub(super) is_marked: bool,
}

/// An event queue that a hint has reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reached {
    /// The file of the event queue, which may be readable.
    pub(super) file: FileId,
    /// Whether a caller was woken that slept on the event queue.
    pub(super) has_woken: bool,
}

impl Queue {
    /// Returns the number of event queues that are nested below this one, one within the other.
    pub(super) fn height(&self) -> usize {
        self.nested.iter().rposition(|count| *count > 0).map_or(0, |height| height + 1)
    }

    /// Wakes the caller that has slept for longest, if any event may be there. Returns whether there was one.
    #[inline]
    pub(super) fn wake_one(&mut self, woken: &mut VecDeque<CallerId>) -> bool {
        if self.events.listed() == 0 {
            return false;
        }
        let Some(sleeper) = self.sleepers.pop_front() else { return false };
        woken.push_back(sleeper);
        true
    }
}

impl Queues {
    /// The size of an event queue in bytes.
    #[cfg(test)]
    pub(super) const BYTES: usize = Slab::<Queue>::BYTES;

    pub(super) fn get_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.queues.get_mut(id.0)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().next().is_none()
    }

    #[cfg(test)]
    pub(super) fn none_is_marked(&self) -> bool {
        self.queues.iter().all(|(_, queue)| !queue.is_marked)
    }

    /// Returns the number of event queues that are nested below an event queue, one within the other.
    pub(super) fn height(&self, id: QueueId) -> usize {
        self.queues.get(id.0).map_or(0, Queue::height)
    }

    /// Hints that the file of a registration may have become ready. If the registration asks for that, the
    /// queue may be readable, and is returned.
    #[inline]
    pub(super) fn hint(
        &mut self,
        id: QueueId,
        key: u32,
        kinds: Kinds,
        woken: &mut VecDeque<CallerId>,
    ) -> Option<Reached> {
        let queue = self.queues.get_mut(id.0)?;
        let has_woken = match queue.events.hint(key, kinds) {
            Hinted::Ignored => return None,
            Hinted::Again => false,
            Hinted::Listed => queue.wake_one(woken),
        };
        Some(Reached { file: queue.file, has_woken })
    }

    /// Returns whether a registration is exclusive.
    pub(super) fn is_exclusive(&self, id: QueueId, key: u32) -> bool {
        self.queues.get(id.0).is_some_and(|queue| queue.events.is_exclusive(key))
    }

    /// Marks an event queue. Returns whether it was unmarked.
    pub(super) fn mark(&mut self, id: QueueId) -> bool {
        self.get_mut(id).is_some_and(|queue| !core::mem::replace(&mut queue.is_marked, true))
    }

    /// Removes the mark of an event queue.
    pub(super) fn unmark(&mut self, id: QueueId) {
        if let Some(queue) = self.get_mut(id) {
            queue.is_marked = false;
        }
    }

    /// Returns the file of an event queue.
    pub(super) fn file(&self, id: QueueId) -> Option<FileId> {
        Some(self.queues.get(id.0)?.file)
    }

    /// Ends the wait of a caller for events. If the caller was woken for an event, another is woken in its
    /// place.
    pub(super) fn leave(&mut self, id: QueueId, caller: CallerId, woken: &mut VecDeque<CallerId>) {
        let Some(queue) = self.get_mut(id) else { return };
        queue.sleepers.retain(|sleeper| *sleeper != caller);
        let _ = queue.wake_one(woken);
    }
}

impl<T: Copy> Descriptors<Object<T>> {
    /// Returns the event queue behind a descriptor.
    pub(super) fn queue(&self, process: ProcessId, fd: u32) -> Result<QueueId, QueueError> {
        match self.file(process, fd).and_then(|file| self.object(file)) {
            Some(Object::Queue(id)) => Ok(id),
            Some(Object::Outside(_)) => Err(QueueError::NotAQueue(fd)),
            None => Err(QueueError::BadDescriptor(fd)),
        }
    }
}

/// Returns the kinds of `asked` that a file is ready for. An event queue is readable if it has an event.
#[inline]
pub(super) fn status_of<T: Copy, S: FnMut(T, Kinds) -> Kinds>(
    descriptors: &Descriptors<Object<T>>,
    queues: &mut Queues,
    file: FileId,
    asked: Kinds,
    status: &mut S,
) -> Kinds {
    match descriptors.object(file) {
        None => Kinds::NONE,
        Some(Object::Outside(object)) => status(object, asked).intersection(asked),
        Some(Object::Queue(queue)) if asked.intersects(Kinds::READABLE) => {
            Kinds::READABLE.when(has_event(descriptors, queues, queue, status))
        }
        Some(Object::Queue(_)) => Kinds::NONE,
    }
}

/// Returns whether an event queue has an event: tests the candidates until one is ready. Not inlined, as
/// few calls ask about event queues and the others need not contain it.
#[inline(never)]
pub(super) fn has_event<T: Copy, S: FnMut(T, Kinds) -> Kinds>(
    descriptors: &Descriptors<Object<T>>,
    queues: &mut Queues,
    id: QueueId,
    status: &mut S,
) -> bool {
    while let Some((file, asked)) = queues.queues.get(id.0).and_then(|queue| queue.events.first()) {
        if !status_of(descriptors, queues, file, asked, status).is_empty() {
            return true;
        }
        if let Some(queue) = queues.get_mut(id) {
            queue.events.settle(Kinds::NONE);
        }
    }
    false
}

/// Tests each registration that may be ready now at most once, and writes the events that it finds to
/// `events`.
pub(super) fn take_events<T: Copy, S: FnMut(T, Kinds) -> Kinds>(
    descriptors: &Descriptors<Object<T>>,
    queues: &mut Queues,
    id: QueueId,
    events: &mut [Event],
    status: &mut S,
) -> Answer {
    let mut answer = Answer::default();
    let candidates = queues.get_mut(id).map_or(0, |queue| queue.events.listed());
    while answer.tests < candidates && answer.ready < events.len() {
        let candidate = queues.get_mut(id).and_then(|queue| queue.events.first());
        let Some((file, asked)) = candidate else { break };
        let ready = status_of(descriptors, queues, file, asked, status);
        answer.tests += 1;
        let event = queues.get_mut(id).and_then(|queue| queue.events.settle(ready));
        if let Some(event) = event {
            events[answer.ready] = event;
            answer.ready += 1;
        }
    }
    answer
}
