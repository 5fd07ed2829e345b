//! All of it together: processes and their callers, descriptors, what is remembered, event queues.

mod calls;
mod files;
mod queues;

use std::collections::VecDeque;

use crate::descriptors::{Descriptors, FileId, ProcessId};
use crate::kinds::Kinds;
use crate::memory::Memory;
use crate::numbers::{Allocation, Numbers};
use crate::slab::Slab;
use crate::watches::{Watch, Watcher, Watches};
pub use queues::QueueError;
use queues::Queues;

/// Names one who calls `select`, `poll` or `wait`: a thread of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerId(pub u32);

/// Names an event queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u32);

/// What is behind a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object<T> {
    /// Something of the caller's.
    Outside(T),
    /// An event queue.
    Queue(QueueId),
}

/// Processes and their descriptors, and who waits for what: readiness, of one host.
///
/// The host opens files behind which are objects of its own (`T`: what it calls them by), and says when one
/// may have become ready: [`hint`](Self::hint). Its programs ask, in any of three ways: [`select`] and
/// [`poll`], which remember what they have found, and an event queue ([`add`], [`wait`]). To find out what
/// holds they ask the host: each call gets a `status`, which is given an object and the kinds of event that
/// matter, and says which of them hold now.
///
/// The contract:
///
/// - Whenever an object becomes ready for a kind of event it was not ready for, the host gives a hint for
///   its file. Hints too many cost a test each, and change no answer of `select` and `poll`. No hint is
///   needed for what ceases to hold.
/// - A caller whose call has found nothing is asleep, if it is to wait. After anything was done here, the
///   host takes those that are to be woken ([`next_woken`](Self::next_woken)), and has each go on where it
///   slept: with [`woken`] if in `select`, else with the same call again. If that finds nothing it sleeps on.
/// - Whose time is over, or whom a signal has interrupted, [gives up](Self::give_up).
///
/// What it costs. A hint: the callers and registrations that are interested in the file, and in each event
/// queue that one of these is at, once, in however many ways it is reached. Not those that are not
/// interested, and not what else they are interested in. `select`: a test for each descriptor that is new,
/// was ready before or has a hint, and comparing bitmaps, 64 descriptors a word. `poll`: the same tests, and
/// a look at each entry. `wait`: a test for each event. To register, to delete and to close: a look at each
/// who watches the same file. How many descriptors are idle matters to none of them otherwise.
///
/// Memory: 32 bytes for each descriptor and what its object is called by, and for each file 12 and that
/// again. For each registration at an event queue 44, whatever its number. Of each caller who selects or
/// polls about 4 for each number up to the highest that he has asked for, and 20 for each descriptor that he
/// is interested in, until it is closed. So very many threads, of which each asks for few of very many
/// descriptors, do better with an event queue each. Tables double as they grow, and are kept.
///
/// [`select`]: Self::select
/// [`poll`]: Self::poll
/// [`woken`]: Self::woken
/// [`add`]: Self::add
/// [`wait`]: Self::wait
#[derive(Debug)]
pub struct Readiness<T> {
    descriptors: Descriptors<Object<T>>,
    watches: Watches,
    callers: Slab<Caller>,
    queues: Queues,
    woken: VecDeque<CallerId>,
    /// Event queues that a hint has reached and that are watched, each once: they may be readable, too.
    reached: Vec<QueueId>,
}

#[derive(Debug)]
struct Caller {
    process: ProcessId,
    memory: Memory,
    /// The event queue that it sleeps on, or slept on until it was woken.
    waits_on: Option<QueueId>,
}

impl<T: Copy> Readiness<T> {
    /// No processes. The numbers of their descriptors will be found in this way.
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

    /// Descriptors, files, and who refers to them.
    #[must_use]
    pub const fn descriptors(&self) -> &Descriptors<Object<T>> {
        &self.descriptors
    }

    // --- From below ---

    /// Whether anybody watches a file: a caller who has asked for a descriptor of it, or an event queue at
    /// which one is registered. To all others a hint is nothing, and costs as little as this question.
    #[must_use]
    #[inline]
    pub fn is_watched(&self, file: FileId) -> bool {
        self.watches.is_watched(file)
    }

    /// What is behind a file may have become ready for these kinds: those who are interested will look at it,
    /// and those of them who sleep are woken. Of an event queue one caller is woken, the one who sleeps for
    /// longest, since one takes the event.
    #[inline]
    pub fn hint(&mut self, file: FileId, kinds: Kinds) {
        self.hint_and_tell(file, kinds, |_| false);
    }

    /// Hints as [`hint`](Self::hint) does, and calls `told` with the file of an event queue for each of its
    /// registrations that may have an event by it: for hosts some of whose callers wait for one file by means
    /// of their own. It returns whether one does, who is woken.
    #[inline]
    pub fn hint_and_tell(&mut self, file: FileId, kinds: Kinds, told: impl FnMut(FileId) -> bool) {
        if self.is_watched(file) {
            self.hint_watched(file, kinds, told);
        }
    }

    /// Not inlined, for hints at what nobody watches.
    #[inline(never)]
    fn hint_watched(&mut self, file: FileId, kinds: Kinds, mut told: impl FnMut(FileId) -> bool) {
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

    /// The next caller to be woken.
    pub fn next_woken(&mut self) -> Option<CallerId> {
        self.woken.pop_front()
    }

    // --- Processes and callers ---

    /// A process without descriptors, which may have those below `limit`.
    pub fn spawn(&mut self, limit: u32) -> ProcessId {
        self.descriptors.spawn(limit)
    }

    /// A process with the same descriptors as `parent`, if that exists, but for event queues, which stay with
    /// the process that made them (as those of `kqueue` do). It has no callers: whoever begins to call there
    /// remembers nothing.
    pub fn fork(&mut self, parent: ProcessId) -> Option<ProcessId> {
        self.descriptors.fork(parent, |object| matches!(object, Object::Outside(_)))
    }

    /// A process is gone, with its callers, wherever they sleep. `last` is given each object whose last
    /// descriptor it had.
    pub fn exit(&mut self, process: ProcessId, mut last: impl FnMut(T)) {
        let open = self.descriptors.numbers(process).map(|numbers| numbers.open().collect::<Vec<_>>());
        let open = open.unwrap_or_default();
        // Each file once, however many numbers refer to it and however many watch it by them.
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

    /// Somebody in a process will call.
    pub fn attach(&mut self, process: ProcessId) -> CallerId {
        CallerId(self.callers.insert(Caller { process, memory: Memory::default(), waits_on: None }))
    }

    /// He will not call any more, wherever he sleeps.
    pub fn detach(&mut self, caller: CallerId) {
        self.give_up(caller);
        self.forget_all(caller);
        self.callers.remove(caller.0);
    }

    /// A caller does not wait any longer: his time is over, or a signal has come.
    pub fn give_up(&mut self, caller: CallerId) {
        self.woken.retain(|woken| *woken != caller);
        let Some(Caller { memory, waits_on, .. }) = self.callers.get_mut(caller.0) else { return };
        memory.give_up();
        if let Some(queue) = waits_on.take() {
            self.queues.leave(queue, caller, &mut self.woken);
        }
    }

    /// Forgets all that is remembered for a caller. The next `select` tests everything, as the classic one
    /// does at each call: with this before each call, and when it is woken, this is the classic one.
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

#[cfg(test)]
mod tests;
