//! Event queues.

use core::fmt;
use std::collections::VecDeque;

use super::{CallerId, Object, QueueId, Readiness};
use crate::call::{Answer, Wait};
use crate::descriptors::{BadDescriptor, Descriptors, FileId, Opened, ProcessId};
use crate::kinds::Kinds;
use crate::numbers::TooManyOpen;
use crate::queue::{Event, EventQueue, Hinted, Interest, Trigger};
use crate::slab::Slab;
use crate::watches::{Watch, Watcher};

/// How many event queues may be below one another, in the outermost.
const DEPTH: usize = 4;

/// Why a call on an event queue fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueError {
    /// Not open: `EBADF`.
    BadDescriptor(u32),
    /// What should be an event queue is none: `EINVAL`.
    NotAQueue(u32),
    /// It is registered there already: `EEXIST`.
    AlreadyAdded(u32),
    /// It is not registered there: `ENOENT`.
    NotAdded(u32),
    /// An event queue cannot be registered at itself, nor changed or deleted there: `EINVAL`.
    Itself(u32),
    /// Event queues would watch each other in a circle, or be more than five in a row: `ELOOP`.
    Nested(u32),
    /// An event queue, a one-shot, or an interest in more than readable and writable cannot be exclusive, and
    /// what is cannot be modified: `EINVAL`.
    Exclusive(u32),
    /// There is no room for any event: `EINVAL`.
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

/// All event queues.
#[derive(Debug, Default)]
pub(super) struct Queues {
    queues: Slab<Queue>,
}

#[derive(Debug)]
struct Queue {
    events: EventQueue,
    file: FileId,
    /// Those that sleep until there is an event, for longest first.
    sleepers: VecDeque<CallerId>,
    /// How many registrations are of event queues that have none below them, one, two and so on.
    nested: [u32; DEPTH],
    /// Whether a search among event queues that is under way has come by.
    is_marked: bool,
}

/// An event queue that a hint has reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reached {
    /// Its file: it may be readable.
    pub(super) file: FileId,
    /// Whether a caller was woken who slept there.
    pub(super) has_woken: bool,
}

impl Queue {
    /// How many event queues are below it, in a row.
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
    /// What one takes.
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

    /// How many event queues are below one, in a row.
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

    /// Takes the mark off an event queue.
    pub(super) fn unmark(&mut self, id: QueueId) {
        if let Some(queue) = self.get_mut(id) {
            queue.is_marked = false;
        }
    }

    /// The file of an event queue.
    pub(super) fn file(&self, id: QueueId) -> Option<FileId> {
        Some(self.queues.get(id.0)?.file)
    }

    /// A caller does not wait for events any more. If it was woken for one, another is woken in its place.
    pub(super) fn leave(&mut self, id: QueueId, caller: CallerId, woken: &mut VecDeque<CallerId>) {
        let Some(queue) = self.get_mut(id) else { return };
        queue.sleepers.retain(|sleeper| *sleeper != caller);
        let _ = queue.wake_one(woken);
    }
}

impl<T: Copy> Descriptors<Object<T>> {
    /// The event queue that a descriptor is.
    fn queue(&self, process: ProcessId, fd: u32) -> Result<QueueId, QueueError> {
        match self.file(process, fd).and_then(|file| self.object(file)) {
            Some(Object::Queue(id)) => Ok(id),
            Some(Object::Outside(_)) => Err(QueueError::NotAQueue(fd)),
            None => Err(QueueError::BadDescriptor(fd)),
        }
    }
}

/// What of `asked` a file is ready for. An event queue is readable if it has an event.
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

/// Whether an event queue has an event: tests those that may be ready until one is. Few ask an event queue
/// about another one: whoever asks about something else is not to carry this along.
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

/// Goes once through those that may be ready now, at most.
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

/// The event queue: what `select` would be if it did not have to be told at each call what it is about.
///
/// A descriptor is registered once ([`add`](Self::add)), and reports when it is ready
/// ([`wait`](Self::wait)), as with `epoll` and `kqueue`. An event costs the same however many others are
/// registered. So Banga, Mogul and Druschel, "A scalable and explicit event delivery mechanism for UNIX",
/// USENIX 1999, which the authors of WRL 98/6 announce there.
///
/// **Whose is a registration?** The descriptor's: closing that number takes it out, whatever else refers to
/// the same file; so in `kqueue`. In `epoll` it is the open file's: if a duplicate of a descriptor is left
/// somewhere, maybe in a child, the registration goes on reporting under a number that is closed, or another
/// file's by now, and cannot be deleted, since there is no number left to delete it by.
///
/// **What does it report?** Nothing that does not hold: whatever the [trigger](crate::Trigger), the status is
/// asked for before. A registration is a candidate from a hint for what it asks for, or from when it was
/// added or modified and its file was ready. [`wait`](Self::wait) takes candidates in the order in which they
/// became that, and tests them. One that is not ready is none any more, silently. One that is ready is
/// reported, with all that it asks for and that holds; then, if its trigger is
///
/// - [`Level`](crate::Trigger::Level), it is a candidate again, after all others: it reports as long as it is
///   ready, and keeps nobody else from reporting, however few events a call may take;
/// - [`Edge`](crate::Trigger::Edge), it is one again at the next hint, also if it never ceased to be ready.
///   So of several hints before a report there is one report, and of a hint after it there is another;
/// - [`OneShot`](crate::Trigger::OneShot), it is one again when it is modified.
///
/// An event queue is a file itself: readable if it has an event. It can be selected, polled and registered at
/// another one; one may have four below one another, and never itself.
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
    /// The process has as many descriptors as it may have.
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

    /// Registers a descriptor as [`add`](Self::add) does, but exclusively (`EPOLLEXCLUSIVE`): so do several
    /// callers wait for one file, each at an event queue of his own, of whom one is enough for an event.
    ///
    /// A hint for the file reaches every registration that is not exclusive, and of those that are, in the
    /// order in which they were added, so many as it takes to wake one caller who sleeps at the event queue
    /// itself. So at least one has the event, and each has if nobody sleeps.
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

    /// Has a registration ask for something else. It is looked at as if it were new, also one that has
    /// reported and was to do so once.
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

    /// Takes a registration out. Nothing more is reported of it.
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

    /// Takes events from an event queue, as many as there are and `events` has room for: they are at its
    /// beginning. Nothing is allocated.
    ///
    /// If several callers wait, an event wakes one of them, who has slept for longest; if he leaves some,
    /// the next one. By level, what is reported and still holds is left: for several callers an edge, or
    /// once, suits better. A caller who slept here and is woken calls it again. One that does not wait here
    /// may go on to sleep in a `select` that has found nothing before.
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

    /// Whether a file is an event queue that has an event: [`wait`](Self::wait) would return at once. None is
    /// taken.
    pub fn has_event(&mut self, queue: FileId, mut status: impl FnMut(T, Kinds) -> Kinds) -> bool {
        match self.descriptors.object(queue) {
            Some(Object::Queue(id)) => has_event(&self.descriptors, &mut self.queues, id, &mut status),
            _ => false,
        }
    }

    // --- Registrations ---

    /// Returns an event queue, and another file by the reference of a descriptor. Both numbers must be open,
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

    /// Registers a descriptor that may be.
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

    /// The key of the registration that a descriptor has at an event queue.
    fn key_of(&self, file: FileId, by: u32, id: QueueId) -> Option<u32> {
        self.watches.of(file).find_map(|Watch { watcher, reference }| match watcher {
            Watcher::Queue(queue, key) if reference == by && queue == id.0 => Some(key),
            _ => None,
        })
    }

    /// Looks at a registration that is new or was modified: if it is ready, it is as if there was a hint.
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

    /// A registration is gone, and nothing watches for it any more.
    pub(super) fn unregister(&mut self, id: QueueId, key: u32, object: Object<T>) {
        if let Some(queue) = self.queues.get_mut(id) {
            queue.events.delete(key);
        }
        if let Object::Queue(inner) = object {
            self.nest(id, Some(self.queues.height(inner)), None);
        }
    }

    /// Frees an event queue that is closed, with its registrations. Those that sleep there are woken, to find
    /// that out.
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

    /// The event queues that a registration of another one is at, each as often as there are registrations.
    fn holders(&self, id: QueueId) -> impl Iterator<Item = QueueId> + '_ {
        let watches = self.queues.file(id).into_iter().flat_map(|file| self.watches.of(file));
        watches.filter_map(|watch| match watch.watcher {
            Watcher::Queue(holder, _) => Some(QueueId(holder)),
            Watcher::Caller(..) => None,
        })
    }

    /// Returns whether an event queue may have `inner` below it: there is no circle, and they are not too
    /// many in a row. Goes up from `outer` level by level, each queue of a level once, so the work is what
    /// there are of registrations and not of paths.
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

    /// Counts anew how many event queues are so many high below `outer`, where one was or is. The height of
    /// an event queue changes [`DEPTH`] times at most by that, and each time its registrations are looked at.
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
