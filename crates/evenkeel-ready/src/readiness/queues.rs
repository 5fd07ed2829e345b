//! The calls on event queues.

use crate::call::{Answer, Wait};
use crate::descriptors::{BadDescriptor, FileId, Opened, ProcessId};
use crate::kinds::Kinds;
use crate::numbers::TooManyOpen;
use crate::queue::{Event, EventQueue, Interest, Trigger};
use crate::watches::{Watch, Watcher};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::event_queues::{DEPTH, Queue, QueueError, has_event, status_of, take_events};
use super::names::{CallerId, Object, QueueId};
use super::state::Readiness;

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
    /// ```
    /// use evenkeel_ready::{Allocation, Event, Interest, Kinds, Readiness, Trigger, Wait};
    ///
    /// let mut host = Readiness::new(Allocation::Bitmap);
    /// let process = host.spawn(16);
    /// let listener = host.open(process, "listener")?;
    /// let interest = Interest { events: Kinds::READABLE, trigger: Trigger::Level, token: 0 };
    /// let mut events = [Event::default(); 1];
    ///
    /// // Two threads wait for the listener, each at an event queue of its own.
    /// for _ in 0..2 {
    ///     let (thread, queue) = (host.attach(process), host.open_queue(process)?.fd);
    ///     host.add_exclusive(process, queue, listener.fd, interest, |_, _| Kinds::NONE)?;
    ///     host.wait(thread, queue, &mut events, Wait::UntilReady, |_, _| Kinds::NONE)?;
    /// }
    ///
    /// // A connection arrives: one thread is woken, not both.
    /// host.hint(listener.file, Kinds::READABLE);
    /// assert!(host.next_woken().is_some() && host.next_woken().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
