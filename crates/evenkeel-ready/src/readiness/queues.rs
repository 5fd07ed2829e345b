//! Event queues, as of `epoll` and `kqueue`.

use core::fmt;
use std::collections::VecDeque;

use super::{CallerId, Object, QueueId, Readiness};
use crate::call::{Answer, Wait};
use crate::descriptors::{BadDescriptor, Descriptors, FileId, Opened, ProcessId};
use crate::kinds::Kinds;
use crate::numbers::TooManyOpen;
use crate::queue::{Event, EventQueue, Hinted, Interest, Trigger};
use crate::watches::{Watch, Watcher};
use evenkeel_base::Slab;

/// The largest number of event queues that may be nested below one event queue, one within the other.
const DEPTH: usize = 4;

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
    queues: Slab<Queue>,
}

#[derive(Debug)]
struct Queue {
    events: EventQueue,
    file: FileId,
    /// The callers that sleep until there is an event, the longest sleeper first.
    sleepers: VecDeque<CallerId>,
    /// The number of registrations of event queues with no other event queue below them, with one level
    /// below, with two, and so on.
    nested: [u32; DEPTH],
    /// Whether the current search among event queues has visited this one.
    is_marked: bool,
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
    fn height(&self) -> usize {
        self.nested.iter().rposition(|count| *count > 0).map_or(0, |height| height + 1)
    }

    /// Wakes the caller that has slept for longest, if any event may be there. Returns whether there was one.
    #[inline]
    fn wake_one(&mut self, woken: &mut VecDeque<CallerId>) -> bool {
        if self.events.listed() > 0
            && let Some(sleeper) = self.sleepers.pop_front()
        {
            woken.push_back(sleeper);
            return true;
        }
        false
    }
}

impl Queues {
    /// The size of an event queue in bytes.
    #[cfg(test)]
    pub(super) const BYTES: usize = Slab::<Queue>::BYTES;

    fn get_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
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
    fn height(&self, id: QueueId) -> usize {
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
    fn queue(&self, process: ProcessId, fd: u32) -> Result<QueueId, QueueError> {
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
fn has_event<T: Copy, S: FnMut(T, Kinds) -> Kinds>(
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
fn take_events<T: Copy, S: FnMut(T, Kinds) -> Kinds>(
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

/// Calls on event queues. An event queue does what `select` does, without a list of descriptors in each
/// call.
///
/// A descriptor is registered once ([`add`](Self::add)) and reports when it is ready
/// ([`wait`](Self::wait)), as with `epoll` and `kqueue`. The cost of an event does not depend on the number
/// of registrations. Source: Banga, Mogul and Druschel, "A scalable and explicit event delivery mechanism
/// for UNIX", USENIX 1999, which the authors of WRL 98/6 announce there.
///
/// **Ownership.** A registration belongs to the descriptor: closing that number removes it, whatever else
/// refers to the same file. `kqueue` does so, too. In `epoll` the registration belongs to the open file. If
/// a duplicate of a descriptor remains somewhere, perhaps in a child, the registration goes on reporting
/// under a number that is closed or that another file has by now. It cannot be deleted, since no number is
/// left to delete it by.
///
/// **Reports.** An event queue reports only what holds: whatever the [trigger](crate::Trigger), it requests
/// the status first. A registration becomes a candidate by a hint for a kind that it asks for, or when it
/// is added or modified and its file is ready. [`wait`](Self::wait) tests candidates in the order in which
/// they became candidates. A candidate that is not ready is dropped without a report. One that is ready is
/// reported, with all kinds that it asks for and that hold. What follows depends on its trigger:
///
/// - [`Level`](crate::Trigger::Level): it is a candidate again, after all others. It reports as long as it
///   is ready, and delays no other registration, however few events a call may take.
/// - [`Edge`](crate::Trigger::Edge): it is a candidate again at the next hint, even if it never ceased to
///   be ready. So several hints before a report give one report, and a hint after it gives another.
/// - [`OneShot`](crate::Trigger::OneShot): it is a candidate again when it is modified.
///
/// An event queue is itself a file, which is readable if the queue has an event. It can be selected, polled
/// and registered at another event queue. An event queue may have four levels below it, and never itself.
///
/// ```
/// use evenkeel_ready::{Allocation, Event, Interest, Kinds, Readiness, Trigger, Wait};
///
/// let mut host = Readiness::new(Allocation::Bitmap);
/// let server = host.spawn(100);
/// let thread = host.attach(server);
/// // What the host has: so many bytes have arrived for each connection.
/// let mut arrived = [0, 0];
///
/// let queue = host.open_queue(server)?.fd;
/// let interest = |token| Interest { events: Kinds::READABLE, trigger: Trigger::Level, token };
/// let files = [0_usize, 1].map(|connection| {
///     let opened = host.open(server, connection).unwrap();
///     host.add(server, queue, opened.fd, interest(100 + connection as u64), |_, _| Kinds::NONE).unwrap();
///     opened.file
/// });
///
/// let mut events = [Event::default(); 16];
/// let status = |connection: usize, _| Kinds::READABLE.when(arrived[connection] > 0);
/// assert_eq!(host.wait(thread, queue, &mut events, Wait::UntilReady, status)?.ready, 0);
///
/// arrived[1] = 512;
/// host.hint(files[1], Kinds::READABLE);
/// assert_eq!(host.next_woken(), Some(thread));
/// let status = |connection: usize, _| Kinds::READABLE.when(arrived[connection] > 0);
/// assert_eq!(host.wait(thread, queue, &mut events, Wait::UntilReady, status)?.ready, 1);
/// assert_eq!(events[0], Event { token: 101, ready: Kinds::READABLE });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<T: Copy> Readiness<T> {
    /// Opens an event queue. It stays with the process: a child does not inherit it, and it cannot be passed.
    ///
    /// # Errors
    /// If the process has as many descriptors as it may have.
    pub fn open_queue(&mut self, process: ProcessId) -> Result<Opened, TooManyOpen> {
        let queue = Queue {
            events: EventQueue::new(),
            file: FileId(0),
            sleepers: VecDeque::new(),
            nested: [0; DEPTH],
            is_marked: false,
        };
        let id = QueueId(self.queues.queues.insert(queue));
        let opened = self.descriptors.open(process, Object::Queue(id));
        match (opened, self.queues.get_mut(id)) {
            (Ok(opened), Some(queue)) => queue.file = opened.file,
            _ => _ = self.queues.queues.remove(id.0),
        }
        opened
    }

    /// Registers descriptor `fd` at the event queue that is descriptor `queue`. If it is ready now it is a
    /// candidate at once.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub fn add(
        &mut self,
        process: ProcessId,
        queue: u32,
        fd: u32,
        interest: Interest,
        status: impl FnMut(T, Kinds) -> Kinds,
    ) -> Result<(), QueueError> {
        let (id, file, reference) = self.both(process, queue, fd)?;
        if self.key_of(file, reference, id).is_some() {
            return Err(QueueError::AlreadyAdded(fd));
        }
        if let Some(Object::Queue(inner)) = self.descriptors.object(file) {
            if !self.may_hold(id, inner) {
                return Err(QueueError::Nested(fd));
            }
            self.nest(id, None, Some(self.queues.height(inner)));
        }
        self.register((id, file, reference), interest, false, status);
        Ok(())
    }

    /// Registers a descriptor exclusively (`EPOLLEXCLUSIVE`), otherwise as [`add`](Self::add) does. It is
    /// for several callers that wait for one file, each at its own event queue, of which one is enough for
    /// an event.
    ///
    /// A hint for the file reaches every registration that is not exclusive. It reaches the exclusive ones
    /// in the order in which they were added, until it has woken one caller that sleeps at such an event
    /// queue itself. So at least one has the event, and each has it if no caller sleeps.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub fn add_exclusive(
        &mut self,
        process: ProcessId,
        queue: u32,
        fd: u32,
        interest: Interest,
        status: impl FnMut(T, Kinds) -> Kinds,
    ) -> Result<(), QueueError> {
        const EXCLUSIVE: Kinds = Kinds::READABLE.union(Kinds::WRITABLE).union(Kinds::HANG_UP_OR_ERROR);
        let (id, file, reference) = self.both(process, queue, fd)?;
        let is_queue = matches!(self.descriptors.object(file), Some(Object::Queue(_)));
        let Interest { events, trigger, .. } = interest;
        if is_queue || trigger == Trigger::OneShot || !events.without(EXCLUSIVE).is_empty() {
            return Err(QueueError::Exclusive(fd));
        }
        if self.key_of(file, reference, id).is_some() {
            return Err(QueueError::AlreadyAdded(fd));
        }
        self.register((id, file, reference), interest, true, status);
        Ok(())
    }

    /// Changes what a registration asks for. The registration is tested as if it were new, also a one-shot
    /// that has reported.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub fn modify(
        &mut self,
        process: ProcessId,
        queue: u32,
        fd: u32,
        interest: Interest,
        status: impl FnMut(T, Kinds) -> Kinds,
    ) -> Result<(), QueueError> {
        let (id, file, reference) = self.both(process, queue, fd)?;
        let key = self.key_of(file, reference, id).ok_or(QueueError::NotAdded(fd))?;
        if let Some(queue) = self.queues.get_mut(id) {
            if queue.events.is_exclusive(key) {
                return Err(QueueError::Exclusive(fd));
            }
            queue.events.modify(key, interest);
        }
        self.look_at((id, key), file, interest.asked(), status);
        Ok(())
    }

    /// Removes a registration. It reports nothing more.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub fn delete(&mut self, process: ProcessId, queue: u32, fd: u32) -> Result<(), QueueError> {
        let (id, file, reference) = self.both(process, queue, fd)?;
        let key = self.key_of(file, reference, id).ok_or(QueueError::NotAdded(fd))?;
        self.watches.remove(file, |watch| watch.watcher == Watcher::Queue(id.0, key));
        if let Some(object) = self.descriptors.object(file) {
            self.unregister(id, key, object);
        }
        Ok(())
    }

    /// Takes events from an event queue, as many as there are and `events` has room for. They are written
    /// to the beginning of `events`. Nothing is allocated.
    ///
    /// If several callers wait, an event wakes the one that has slept for longest; if that one leaves some
    /// events, the next one is woken. With the level trigger, an event that was reported and still holds is
    /// left, so for several callers an edge or a one-shot suits better. A caller that slept here and is
    /// woken calls `wait` again. A caller that does not wait here may go on to sleep in a `select` that
    /// found nothing before.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub fn wait(
        &mut self,
        caller: CallerId,
        queue: u32,
        events: &mut [Event],
        wait: Wait,
        mut status: impl FnMut(T, Kinds) -> Kinds,
    ) -> Result<Answer, QueueError> {
        let Self { descriptors, callers, queues, woken, .. } = self;
        let by = callers.get_mut(caller.0).ok_or(QueueError::BadDescriptor(queue))?;
        if wait == Wait::UntilReady {
            by.memory.give_up();
        }
        let id = descriptors.queue(by.process, queue);
        if let Some(before) = by.waits_on.take().filter(|before| Ok(*before) != id) {
            queues.leave(before, caller, woken);
        }
        let id = id?;
        if events.is_empty() {
            return Err(QueueError::NoRoom);
        }
        let answer = take_events(descriptors, queues, id, events, &mut status);
        let Some(queue) = queues.get_mut(id) else { return Ok(answer) };
        let _ = queue.wake_one(woken);
        if answer.ready == 0 && wait == Wait::UntilReady {
            queue.sleepers.push_back(caller);
            by.waits_on = Some(id);
        }
        Ok(answer)
    }

    /// Returns whether a file is an event queue that has an event, so that [`wait`](Self::wait) would
    /// return at once. No event is taken.
    pub fn has_event(&mut self, queue: FileId, mut status: impl FnMut(T, Kinds) -> Kinds) -> bool {
        match self.descriptors.object(queue) {
            Some(Object::Queue(id)) => has_event(&self.descriptors, &mut self.queues, id, &mut status),
            _ => false,
        }
    }

    // --- Registrations ---

    /// Returns the event queue `queue`, and the file and reference of `fd`. Both numbers must be open,
    /// whatever else is wrong.
    fn both(&self, process: ProcessId, queue: u32, fd: u32) -> Result<(QueueId, FileId, u32), QueueError> {
        let (outer, _) = self.descriptors.reference(process, queue).ok_or(BadDescriptor(queue))?;
        let (file, reference) = self.descriptors.reference(process, fd).ok_or(BadDescriptor(fd))?;
        let id = self.descriptors.queue(process, queue)?;
        if file == outer {
            return Err(QueueError::Itself(fd));
        }
        Ok((id, file, reference))
    }

    /// Registers a descriptor that has passed all checks.
    fn register(
        &mut self,
        (id, file, reference): (QueueId, FileId, u32),
        interest: Interest,
        is_exclusive: bool,
        status: impl FnMut(T, Kinds) -> Kinds,
    ) {
        let Some(queue) = self.queues.get_mut(id) else { return };
        let key = queue.events.add(file, interest, is_exclusive);
        let watch = Watch { watcher: Watcher::Queue(id.0, key), reference };
        if is_exclusive {
            self.watches.add_last(file, watch);
        } else {
            self.watches.add(file, watch);
        }
        self.look_at((id, key), file, interest.asked(), status);
    }

    /// Returns the key of the registration that a descriptor has at an event queue.
    fn key_of(&self, file: FileId, by: u32, id: QueueId) -> Option<u32> {
        self.watches.of(file).find_map(|Watch { watcher, reference }| match watcher {
            Watcher::Queue(queue, key) if reference == by && queue == id.0 => Some(key),
            _ => None,
        })
    }

    /// Tests a registration that is new or was modified. If it is ready, acts as if there was a hint.
    fn look_at(
        &mut self,
        (id, key): (QueueId, u32),
        file: FileId,
        asked: Kinds,
        mut status: impl FnMut(T, Kinds) -> Kinds,
    ) {
        let ready = status_of(&self.descriptors, &mut self.queues, file, asked, &mut status);
        if let Some(reached) = self.queues.hint(id, key, ready, &mut self.woken) {
            self.hint(reached.file, Kinds::READABLE);
        }
    }

    /// Removes a registration whose watch has been removed.
    pub(super) fn unregister(&mut self, id: QueueId, key: u32, object: Object<T>) {
        if let Some(queue) = self.queues.get_mut(id) {
            queue.events.delete(key);
        }
        if let Object::Queue(inner) = object {
            self.nest(id, Some(self.queues.height(inner)), None);
        }
    }

    /// Frees a closed event queue with its registrations. Callers that sleep on it are woken to find that
    /// out.
    pub(super) fn free_queue(&mut self, id: QueueId) {
        let Some(queue) = self.queues.queues.remove(id.0) else { return };
        let mut files: Vec<_> = queue.events.registered().collect();
        files.sort_unstable();
        files.dedup();
        for file in files {
            let mut at = self.watches.beginning(file);
            let is_here = |watch: Watch| matches!(watch.watcher, Watcher::Queue(of, _) if of == id.0);
            while self.watches.remove_from(&mut at, is_here).is_some() {}
        }
        self.woken.extend(queue.sleepers);
    }

    // --- Event queues in event queues ---

    /// Returns the event queues at which an event queue is registered, each once per registration.
    fn holders(&self, id: QueueId) -> impl Iterator<Item = QueueId> + '_ {
        let watches = self.queues.file(id).into_iter().flat_map(|file| self.watches.of(file));
        watches.filter_map(|watch| match watch.watcher {
            Watcher::Queue(holder, _) => Some(QueueId(holder)),
            Watcher::Caller(..) => None,
        })
    }

    /// Returns whether `inner` may be registered at `outer`: it makes no circle, and no more than [`DEPTH`]
    /// levels. Goes up from `outer` level by level and visits each queue of a level once, so the cost
    /// follows the number of registrations and not of paths.
    fn may_hold(&mut self, outer: QueueId, inner: QueueId) -> bool {
        let height = self.queues.height(inner) + 1;
        let mut level = vec![outer];
        for above in 0..=DEPTH {
            if level.is_empty() {
                return true;
            }
            if height + above > DEPTH || level.contains(&inner) {
                return false;
            }
            let mut holders: Vec<_> = level.iter().flat_map(|id| self.holders(*id)).collect();
            holders.retain(|id| self.queues.mark(*id));
            holders.iter().for_each(|id| self.queues.unmark(*id));
            level = holders;
        }
        level.is_empty()
    }

    /// Updates the count of event queues by height below `outer`: removes one of height `old` and adds one
    /// of height `new`. The height of an event queue changes at most [`DEPTH`] times by that, and each
    /// change visits its registrations.
    fn nest(&mut self, outer: QueueId, old: Option<usize>, new: Option<usize>) {
        let Some(queue) = self.queues.get_mut(outer) else { return };
        let before = queue.height();
        if let Some(count) = old.and_then(|old| queue.nested.get_mut(old)) {
            *count -= 1;
        }
        if let Some(count) = new.and_then(|new| queue.nested.get_mut(new)) {
            *count += 1;
        }
        let after = queue.height();
        if before != after {
            let holders: Vec<_> = self.holders(outer).collect();
            for holder in holders {
                self.nest(holder, Some(before), Some(after));
            }
        }
    }
}
