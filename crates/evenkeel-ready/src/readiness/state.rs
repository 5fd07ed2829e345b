//! The state of the readiness of a host: processes and their callers, descriptors, remembered readiness and
//! event queues.

use super::event_queues::Queues;
use super::names::{CallerId, Object, QueueId};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::descriptors::{Descriptors, FileId, ProcessId};
use crate::kinds::Kinds;
use crate::memory::Memory;
use crate::numbers::{Allocation, Numbers};
use crate::watches::{Watch, Watcher, Watches};
use evenkeel_base::Slab;

/// The readiness of one host: its processes, their descriptors, and the callers that wait for them.
///
/// The host opens files for objects of its own, which it names by values of type `T`. It gives a
/// [`hint`](Self::hint) when an object may have become ready. Programs find out what is ready with
/// [`select`] and [`poll`], which remember earlier results, or with an event queue ([`add`], [`wait`]).
/// Each of these calls takes a `status` function. It receives an object and the kinds of event that matter,
/// and returns which of them hold now.
///
/// The contract:
///
/// - The host gives a hint for a file whenever its object becomes ready for a kind of event for which it
///   was not ready. An unnecessary hint costs a test and changes no answer of `select` and `poll`. No hint
///   is needed for a kind that ceases to hold.
/// - A caller whose call has found nothing is asleep, if the call waits. After each call on this type, the
///   host takes the callers to be woken ([`next_woken`](Self::next_woken)) and lets each continue: with
///   [`woken`] if it slept in `select`, else with the same call again. If that finds nothing, the caller
///   sleeps on.
/// - A caller whose time is over, or that a signal has interrupted, [gives up](Self::give_up).
///
/// Cost. A hint visits the callers and registrations that watch the file, and each event queue that has
/// such a registration once, by however many paths it is reached. It visits no other callers, and not the
/// other files of a watcher. `select` makes a test for each descriptor that is new, was ready before or has
/// a hint, and compares bitmaps, 64 descriptors a word. `poll` makes the same tests and visits each entry.
/// `wait` makes a test for each event. Calls that register, delete and close visit each watch of the file.
/// The number of idle descriptors has no other effect.
///
/// Memory. With a `T` of four bytes, a file with one descriptor takes 48 bytes, and each further descriptor
/// of it 36. A registration at an event queue takes 44 bytes, whatever its number, and a watched file 4. A
/// caller of `select` or `poll` takes about 4 bytes for each number up to the highest that it has asked
/// for, and 20 bytes for each descriptor in which it is interested, until that is closed. So if very many
/// threads each ask for few of very many descriptors, an event queue for each takes less. Tables double as
/// they grow, and are kept.
///
/// [`select`]: Self::select
/// [`poll`]: Self::poll
/// [`woken`]: Self::woken
/// [`add`]: Self::add
/// [`wait`]: Self::wait
#[derive(Debug)]
pub struct Readiness<T> {
    pub(super) descriptors: Descriptors<Object<T>>,
    pub(super) watches: Watches,
    pub(super) callers: Slab<Caller>,
    pub(super) queues: Queues,
    pub(super) woken: VecDeque<CallerId>,
    /// The watched event queues that a hint has reached, each once: they may be readable, too.
    pub(super) reached: Vec<QueueId>,
}

#[derive(Debug)]
pub(super) struct Caller {
    pub(super) process: ProcessId,
    pub(super) memory: Memory,
    /// The event queue that the caller sleeps on, or slept on until it was woken.
    pub(super) waits_on: Option<QueueId>,
}

impl<T: Copy> Readiness<T> {
    /// Creates a host without processes. `allocation` is the way in which numbers of descriptors are found.
    #[must_use]
    pub fn new(allocation: Allocation) -> Self {
        Self {
            descriptors: Descriptors::new(allocation),
            watches: Watches::default(),
            callers: Slab::new(),
            queues: Queues::default(),
            woken: VecDeque::new(),
            reached: Vec::new(),
        }
    }

    /// Returns the descriptors of all processes and the files to which they refer.
    #[must_use]
    pub const fn descriptors(&self) -> &Descriptors<Object<T>> {
        &self.descriptors
    }

    // --- From below ---

    /// Returns whether a caller that has asked for a descriptor of the file, or a registration at an event
    /// queue, watches the file. A hint for an unwatched file does nothing and costs as little as this call.
    #[must_use]
    #[inline]
    pub fn is_watched(&self, file: FileId) -> bool {
        self.watches.is_watched(file)
    }

    /// Gives a hint: the object behind a file may have become ready for these kinds. Interested callers and
    /// registrations will test it, and interested callers that sleep are woken. Of the callers that sleep
    /// on an event queue only the one that has slept for longest is woken, since one caller takes the
    /// event.
    #[inline]
    pub fn hint(&mut self, file: FileId, kinds: Kinds) {
        self.hint_and_tell(file, kinds, |_| false);
    }

    /// Gives a hint as [`hint`](Self::hint) does, and calls `told` with the file of an event queue for each
    /// of its registrations that may have an event from it. Hosts use it if some callers wait for one file
    /// by other means. `told` returns whether it woke such a caller.
    #[inline]
    pub fn hint_and_tell(&mut self, file: FileId, kinds: Kinds, told: impl FnMut(FileId) -> bool) {
        if self.is_watched(file) {
            self.hint_watched(file, kinds, told);
        }
    }

    /// Not inlined, so that a hint for an unwatched file stays cheap.
    #[inline(never)]
    pub(super) fn hint_watched(&mut self, file: FileId, kinds: Kinds, mut told: impl FnMut(FileId) -> bool) {
        let Self { watches, callers, queues, woken, reached, .. } = self;
        let (mut next, mut done) = (Some((file, kinds)), 0);
        while let Some((file, kinds)) = next {
            for Watch { watcher, .. } in watches.of(file) {
                match watcher {
                    Watcher::Caller(id, fd) => {
                        if callers.get_mut(id).is_some_and(|caller| caller.memory.hint(fd, kinds)) {
                            woken.push_back(CallerId(id));
                        }
                    }
                    Watcher::Queue(id, key) => {
                        let Some(queue) = queues.hint(QueueId(id), key, kinds, woken) else { continue };
                        let has_woken = told(queue.file) | queue.has_woken;
                        if watches.is_watched(queue.file) && queues.mark(QueueId(id)) {
                            reached.push(QueueId(id));
                        }
                        if has_woken && queues.is_exclusive(QueueId(id), key) {
                            // All behind it are exclusive, too.
                            break;
                        }
                    }
                }
            }
            let queue = reached.get(done).and_then(|id| queues.file(*id));
            next = queue.map(|file| (file, Kinds::READABLE));
            done += 1;
        }
        while let Some(id) = reached.pop() {
            queues.unmark(id);
        }
    }

    /// Returns the next caller to be woken, and removes it from the queue.
    pub fn next_woken(&mut self) -> Option<CallerId> {
        self.woken.pop_front()
    }

    // --- Processes and callers ---

    /// Creates a process without descriptors. It may have descriptors below `limit`.
    pub fn spawn(&mut self, limit: u32) -> ProcessId {
        self.descriptors.spawn(limit)
    }

    /// Creates a process with the descriptors of `parent`, if that exists. Event queues are left out: they
    /// stay with the process that made them (as those of `kqueue` do). The new process has no callers and
    /// remembers nothing.
    pub fn fork(&mut self, parent: ProcessId) -> Option<ProcessId> {
        self.descriptors.fork(parent, |object| matches!(object, Object::Outside(_)))
    }

    /// Removes a process and its callers, wherever they sleep. Calls `last` with each object whose last
    /// descriptor the process had.
    pub fn exit(&mut self, process: ProcessId, mut last: impl FnMut(T)) {
        let open = self.descriptors.numbers(process).map(|numbers| numbers.open().collect::<Vec<_>>());
        let open = open.unwrap_or_default();
        // Each file once, however many numbers refer to it and however many watches they have.
        let mut files: Vec<_> = open.iter().filter_map(|fd| self.descriptors.file(process, *fd)).collect();
        files.sort_unstable();
        files.dedup();
        files.into_iter().for_each(|file| self.forget_watchers_in(process, file));
        for fd in open {
            if let Ok(Some(object)) = self.close(process, fd) {
                last(object);
            }
        }
        self.descriptors.exit(process, |_| {});
        let callers = self.callers.iter().filter(|(_, caller)| caller.process == process);
        let callers: Vec<_> = callers.map(|(id, _)| id).collect();
        for caller in callers {
            self.callers.remove(caller);
        }
        self.woken.retain(|caller| self.callers.get(caller.0).is_some());
    }

    /// Adds a caller to a process.
    pub fn attach(&mut self, process: ProcessId) -> CallerId {
        CallerId(self.callers.insert(Caller { process, memory: Memory::default(), waits_on: None }))
    }

    /// Removes a caller, wherever it sleeps.
    pub fn detach(&mut self, caller: CallerId) {
        self.give_up(caller);
        self.forget_all(caller);
        self.callers.remove(caller.0);
    }

    /// Ends the wait of a caller, because its time is over or a signal has come.
    pub fn give_up(&mut self, caller: CallerId) {
        self.woken.retain(|woken| *woken != caller);
        let Some(Caller { memory, waits_on, .. }) = self.callers.get_mut(caller.0) else { return };
        memory.give_up();
        if let Some(queue) = waits_on.take() {
            self.queues.leave(queue, caller, &mut self.woken);
        }
    }

    /// Forgets everything that is remembered for a caller. The next `select` tests all descriptors, as the
    /// classic one does at each call. With this before each call and after each wake-up, `select` is the
    /// classic one.
    pub fn forget_all(&mut self, caller: CallerId) {
        let Some(Caller { process, memory, .. }) = self.callers.get_mut(caller.0) else { return };
        for fd in memory.known() {
            if let Some(file) = self.descriptors.file(*process, fd) {
                self.watches.remove(file, |watch| watch.watcher == Watcher::Caller(caller.0, fd));
            }
        }
        memory.clear();
    }
}
