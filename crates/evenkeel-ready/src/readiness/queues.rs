//! Event queues.

use core::fmt;
use std::collections::VecDeque;

use super::{CallerId, Object, QueueId, Readiness};
use crate::call::{Answer, Wait};
use crate::descriptors::{BadDescriptor, Descriptors, FileId, Opened, ProcessId};
use crate::kinds::Kinds;
use crate::numbers::TooManyOpen;
use crate::queue::{Event, EventQueue, Hinted, Interest};
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
    /// An event queue would watch itself, or have more than four below one another: `ELOOP`.
    Nested(u32),
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
            Self::Nested(fd) => {
                write!(f, "event queue {fd} would watch itself, or be one of too many in a row")
            }
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
}

impl Queue {
    /// How many event queues are below it, in a row.
    fn height(&self) -> usize {
        self.nested.iter().rposition(|count| *count > 0).map_or(0, |height| height + 1)
    }

    /// One of those that sleep is to look, if any event may be there.
    #[inline]
    fn wake_one(&mut self, woken: &mut VecDeque<CallerId>) {
        if self.events.listed() > 0
            && let Some(sleeper) = self.sleepers.pop_front()
        {
            woken.push_back(sleeper);
        }
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

    fn height(&self, id: QueueId) -> usize {
        self.queues.get(id.0).map_or(0, Queue::height)
    }

    /// The file of a registration may have become ready. If somebody wants to hear of that, so may the
    /// queue be readable: returns its file.
    #[inline]
    pub(super) fn hint(
        &mut self,
        id: QueueId,
        key: u32,
        kinds: Kinds,
        woken: &mut VecDeque<CallerId>,
    ) -> Option<FileId> {
        let queue = self.queues.get_mut(id.0)?;
        match queue.events.hint(key, kinds) {
            Hinted::Ignored => return None,
            Hinted::Again => {}
            Hinted::Listed => queue.wake_one(woken),
        }
        Some(queue.file)
    }

    /// A caller does not wait for events any more. If it was woken for one, another is woken in its place.
    pub(super) fn leave(&mut self, id: QueueId, caller: CallerId, woken: &mut VecDeque<CallerId>) {
        let Some(queue) = self.get_mut(id) else { return };
        queue.sleepers.retain(|sleeper| *sleeper != caller);
        queue.wake_one(woken);
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
            if !self.may_hold(id, inner, self.queues.height(inner)) {
                return Err(QueueError::Nested(fd));
            }
            self.nest(id, None, Some(self.queues.height(inner)));
        }
        let Some(queue) = self.queues.get_mut(id) else { return Err(QueueError::NotAQueue(queue)) };
        let key = queue.events.add(file, interest);
        self.watches.add(file, Watch { watcher: Watcher::Queue(id.0, key), reference });
        self.look_at((id, key), file, interest.asked(), status);
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
        queue.wake_one(woken);
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

    /// An event queue, and a file by the reference of a descriptor.
    fn both(&self, process: ProcessId, queue: u32, fd: u32) -> Result<(QueueId, FileId, u32), QueueError> {
        let id = self.descriptors.queue(process, queue)?;
        let (file, reference) = self.descriptors.reference(process, fd).ok_or(BadDescriptor(fd))?;
        Ok((id, file, reference))
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
        if let Some(queue) = self.queues.hint(id, key, ready, &mut self.woken) {
            self.hint(queue, Kinds::READABLE);
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

    /// An event queue is gone, with its registrations. Whoever sleeps there is woken, to find that out.
    pub(super) fn free_queue(&mut self, id: QueueId) {
        let Some(queue) = self.queues.queues.remove(id.0) else { return };
        for (key, file) in queue.events.registered() {
            self.watches.remove(file, |watch| watch.watcher == Watcher::Queue(id.0, key));
        }
        self.woken.extend(queue.sleepers);
    }

    // --- Event queues in event queues ---

    /// The event queues that another one is registered at.
    fn holders(&self, id: QueueId) -> Vec<QueueId> {
        let Some(file) = self.queues.queues.get(id.0).map(|queue| queue.file) else { return Vec::new() };
        let holders = self.watches.of(file).filter_map(|watch| match watch.watcher {
            Watcher::Queue(holder, _) => Some(QueueId(holder)),
            Watcher::Caller(..) => None,
        });
        holders.collect()
    }

    /// Whether one may have `inner` below it, or something that has, which is so many high: there is no
    /// circle, and they are not too many in a row.
    fn may_hold(&self, outer: QueueId, inner: QueueId, height: usize) -> bool {
        outer != inner
            && height < DEPTH
            // What is as high already cannot be below `inner`, and nothing changes above it.
            && (height < self.queues.height(outer)
                || self.holders(outer).into_iter().all(|holder| self.may_hold(holder, inner, height + 1)))
    }

    /// One of those below an event queue was, or is, so many high.
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
            for holder in self.holders(outer) {
                self.nest(holder, Some(before), Some(after));
            }
        }
    }
}
