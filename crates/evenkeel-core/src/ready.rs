//! Readiness: the waiters for descriptors, and the calls by which programs find out which are ready.
//!
//! Descriptor numbers, `select`, `poll` and event queues are those of [`evenkeel_ready`]. A host reports
//! when something may have become ready, a hint from below; the state itself is checked when a caller asks.
//! In addition, a waiter for just one file is in a list of that file, as a receiver is that has found its
//! queue empty.
//!
//! Source: INTERESTED, READY and hints, Banga and Mogul, USENIX 1998, section 4.

use core::task::Waker;

pub use evenkeel_ready::{Allocation, Event, FdSet, FdSets, Interest, Kinds, PollEntry, Trigger};
use evenkeel_ready::{CallerId, FileId, Numbers as _, Object, Opened, QueueError, Readiness, Wait};

use crate::error::{BadDescriptor, DupError, TooManyOpen};
use crate::id::{Fd, ProcessId, SocketId};
use crate::tcp::endpoint;
pub(crate) use crate::waiters::Waiter;
use crate::waiters::{WaiterList, Waiters, Wakeups};

/// The method by which `select` and `poll` find ready descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Select {
    /// `select` and `poll` remember what they have found, and inspect descriptors that are new, were ready
    /// before, or have a hint.
    #[default]
    WithMemory,
    /// `select` and `poll` inspect every descriptor at each call, and each time that they are woken, as in
    /// 4.2BSD: a baseline.
    Classic,
}

/// Converts a stream's readiness to the kinds that descriptors report. When the stream is over, a call to
/// read or to write does not block, and returns the reason.
pub(crate) fn kinds_of(readiness: endpoint::Readiness) -> Kinds {
    let endpoint::Readiness { readable, writable, ended, over, connected: _ } = readiness;
    let read = Kinds::READABLE.when(readable || over).union(Kinds::READ_CLOSED.when(ended || over));
    read.union(Kinds::WRITABLE.when(writable)).union(Kinds::HANG_UP.when(over))
}

/// The number that stands for no file, socket or descriptor.
const NONE: u32 = u32::MAX;

/// The table's state of a socket.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The file by which descriptors refer to the socket.
    file: FileId,
    /// The descriptor that the socket was opened as.
    fd: Fd,
    /// Those who wait for it alone.
    waiters: WaiterList,
    /// Something was raised since its process last looked.
    changed: bool,
}

impl Entry {
    const FREE: Self = Self { file: FileId(NONE), fd: Fd(NONE), waiters: WaiterList::EMPTY, changed: false };
}

/// The kind of a change to a descriptor's registration at an event queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registering {
    /// There was none.
    Add,
    /// It asks for something else.
    Modify,
}

/// A process of the host that has had a descriptor.
#[derive(Debug)]
struct Member {
    process: evenkeel_ready::ProcessId,
    caller: CallerId,
    /// The event queue that all its descriptors are added to, if it wants that.
    events: Option<Fd>,
    /// Whether the process's last call of `select` or `poll` has found nothing, so that it may sleep in it.
    is_in_call: bool,
    /// Whether the process is to be woken from that call.
    is_woken: bool,
    /// Threads and tasks outside that are to be woken then.
    wakers: Vec<Waker>,
}

/// The readiness of every descriptor.
#[derive(Debug)]
pub(crate) struct ReadyTable {
    select: Select,
    limit: u32,
    readiness: Readiness<SocketId>,
    /// The entries, by socket.
    entries: Vec<Entry>,
    /// Event queues, by file.
    queues: Vec<SocketId>,
    /// Event queues that may have an event because of the current change, and that have a waiter.
    told: Vec<SocketId>,
    /// The members, by process.
    members: Vec<Option<Member>>,
    /// The number of members in a call that has found nothing.
    in_calls: usize,
    /// The process of each caller.
    callers: Vec<ProcessId>,
    waiters: Waiters,
    pub(crate) wakeups: Wakeups,
}

impl ReadyTable {
    pub(crate) fn new(select: Select, allocation: Allocation, limit: u32) -> Self {
        Self {
            select,
            limit,
            readiness: Readiness::new(allocation),
            entries: Vec::new(),
            queues: Vec::new(),
            told: Vec::new(),
            members: Vec::new(),
            in_calls: 0,
            callers: Vec::new(),
            waiters: Waiters::new(),
            wakeups: Wakeups::default(),
        }
    }

    // --- Processes ---

    /// Returns a process's member, which is created at the first open or call of the process.
    fn member(&mut self, process: ProcessId) -> &mut Member {
        let Self { members, callers, readiness, limit, .. } = self;
        let place = process.0 as usize;
        if place >= members.len() {
            members.resize_with(place + 1, || None);
        }
        members[place].get_or_insert_with(|| {
            let inside = readiness.spawn(*limit);
            let caller = readiness.attach(inside);
            let place = caller.0 as usize;
            if place >= callers.len() {
                callers.resize(place + 1, process);
            }
            callers[place] = process;
            Member {
                process: inside,
                caller,
                events: None,
                is_in_call: false,
                is_woken: false,
                wakers: Vec::new(),
            }
        })
    }

    fn member_of(&self, process: ProcessId) -> Option<&Member> {
        self.members.get(process.0 as usize)?.as_ref()
    }

    /// Removes a process that has ended, and whose descriptors are closed.
    pub(crate) fn exit(&mut self, process: ProcessId) {
        let Some(member) = self.members.get_mut(process.0 as usize).and_then(Option::take) else { return };
        self.in_calls -= usize::from(member.is_in_call);
        self.readiness.exit(member.process, |_| {});
        self.wakeups.wake_uncharged(member.wakers);
    }

    /// Sets how many descriptors a process may have. Those above stay open.
    pub(crate) fn set_limit(&mut self, process: ProcessId, limit: u32) {
        let inside = self.member(process).process;
        self.readiness.set_limit(inside, limit);
    }

    /// Returns how many bitmap words or table entries were inspected so far to find free descriptor numbers
    /// for a process.
    pub(crate) fn looks(&self, process: ProcessId) -> u64 {
        let numbers = |member: &Member| self.readiness.descriptors().numbers(member.process);
        self.member_of(process).and_then(numbers).map_or(0, |numbers| numbers.looks())
    }

    // --- Descriptors ---

    /// Opens a socket: the lowest free number of its owner refers to it.
    pub(crate) fn open(&mut self, id: SocketId, owner: Option<ProcessId>) -> Result<(), TooManyOpen> {
        let opened = match owner {
            Some(owner) => {
                let inside = self.member(owner).process;
                Some(self.readiness.open(inside, id)?)
            }
            None => None,
        };
        self.register(id, opened);
        Ok(())
    }

    /// Opens an event queue: the lowest free number of its owner refers to it.
    pub(crate) fn open_queue(&mut self, id: SocketId, owner: ProcessId) -> Result<(), TooManyOpen> {
        let inside = self.member(owner).process;
        let opened = self.readiness.open_queue(inside)?;
        let place = opened.file.0 as usize;
        if place >= self.queues.len() {
            self.queues.resize(place + 1, SocketId(NONE));
        }
        self.queues[place] = id;
        self.register(id, Some(opened));
        Ok(())
    }

    fn register(&mut self, id: SocketId, opened: Option<Opened>) {
        let place = id.0 as usize;
        if place >= self.entries.len() {
            self.entries.resize(place + 1, Entry::FREE);
        }
        let (file, fd) = opened.map_or((FileId(NONE), NONE), |opened| (opened.file, opened.fd));
        self.entries[place] = Entry { file, fd: Fd(fd), ..Entry::FREE };
    }

    /// Removes a socket that is closed, and closes the descriptors that still refer to it. Wakes its
    /// waiters, so that they find that out.
    pub(crate) fn retire(&mut self, id: SocketId) {
        self.wake_waiters(id);
        let Some(entry) = self.entry(id) else { return };
        let Entry { file, .. } = core::mem::replace(entry, Entry::FREE);
        let references: Vec<_> = self.readiness.descriptors().references(file).collect();
        for (process, fd) in references {
            // It is there.
            let _ = self.readiness.close(process, fd);
        }
        self.collect_woken();
    }

    /// Closes a descriptor. Returns the socket that it referred to, and whether no other descriptor does.
    pub(crate) fn close(&mut self, process: ProcessId, fd: Fd) -> Option<(SocketId, bool)> {
        let id = self.resolve(process, fd)?;
        let inside = self.member_of(process)?.process;
        // Whoever sleeps on it may hold another descriptor of the same file, and look again.
        self.wake_waiters(id);
        self.readiness.close(inside, fd.0).ok()?;
        self.collect_woken();
        self.forget_events(process, fd);
        Some((id, self.is_unreferenced(id)))
    }

    fn is_unreferenced(&self, id: SocketId) -> bool {
        let file = self.entries.get(id.0 as usize).map_or(FileId(NONE), |entry| entry.file);
        self.readiness.descriptors().object(file).is_none()
    }

    /// Makes the lowest free number of the process that is not below `lowest` refer to the same file as
    /// `fd`.
    pub(crate) fn dup_from(&mut self, process: ProcessId, fd: Fd, lowest: u32) -> Result<Fd, DupError> {
        let inside = self.member(process).process;
        Ok(Fd(self.readiness.dup_from(inside, fd.0, lowest)?))
    }

    /// Makes the number `new` refer to the same file as `fd`. Returns the socket that `new` referred to
    /// before, if no other descriptor does.
    pub(crate) fn dup2(&mut self, process: ProcessId, fd: Fd, new: Fd) -> Result<Option<SocketId>, DupError> {
        let inside = self.member(process).process;
        let displaced = self.resolve(process, new).filter(|_| fd != new);
        self.readiness.dup2(inside, fd.0, new.0)?;
        if let Some(displaced) = displaced {
            self.wake_waiters(displaced);
            self.forget_events(process, new);
        }
        self.collect_woken();
        Ok(displaced.filter(|&displaced| self.is_unreferenced(displaced)))
    }

    /// Returns the descriptor that a socket was opened as.
    pub(crate) fn fd(&self, id: SocketId) -> Fd {
        self.entries.get(id.0 as usize).map_or(Fd(NONE), |entry| entry.fd)
    }

    /// Returns the socket that a descriptor of a process refers to.
    #[inline]
    pub(crate) fn resolve(&self, process: ProcessId, fd: Fd) -> Option<SocketId> {
        let inside = self.member_of(process)?.process;
        match self.readiness.behind(inside, fd.0)? {
            Object::Outside(id) => Some(id),
            Object::Queue(_) => self.resolve_queue(inside, fd),
        }
    }

    fn resolve_queue(&self, inside: evenkeel_ready::ProcessId, fd: Fd) -> Option<SocketId> {
        self.queue_of(self.readiness.descriptors().file(inside, fd.0)?)
    }

    /// Returns the event queue that is behind a file.
    fn queue_of(&self, file: FileId) -> Option<SocketId> {
        self.queues.get(file.0 as usize).copied()
    }

    /// Returns the descriptors that a process has open.
    pub(crate) fn open_of(&self, process: ProcessId) -> Vec<Fd> {
        let numbers = |member: &Member| self.readiness.descriptors().numbers(member.process);
        let numbers = self.member_of(process).and_then(numbers);
        numbers.map_or_else(Vec::new, |numbers| numbers.open().map(Fd).collect())
    }

    /// Reports that a socket may have become ready for `kinds`: its waiters are woken, and the interested
    /// callers will check it.
    #[inline]
    pub(crate) fn raise(&mut self, id: SocketId, kinds: Kinds) {
        let Some(entry) = self.entries.get_mut(id.0 as usize) else { return };
        entry.changed = true;
        let file = entry.file;
        if !entry.waiters.is_empty() {
            self.waiters.wake(&mut entry.waiters, kinds, &mut self.wakeups);
        }
        if self.readiness.is_watched(file) {
            self.hint(file, kinds);
        }
    }

    fn hint(&mut self, file: FileId, kinds: Kinds) {
        let Self { readiness, told, queues, entries, .. } = self;
        readiness.hint_and_tell(file, kinds, |queue| {
            let id = queues.get(queue.0 as usize).copied().unwrap_or(SocketId(NONE));
            let is_awaited = entries.get(id.0 as usize).is_some_and(|entry| !entry.waiters.is_empty());
            if is_awaited {
                told.push(id);
            }
            is_awaited
        });
        self.collect_woken();
    }

    /// Collects the waiters that the last change has woken: callers, and waiters for event queues.
    #[inline]
    fn collect_woken(&mut self) {
        while let Some(queue) = self.told.pop() {
            self.wake(queue, Kinds::READABLE);
        }
        if self.in_calls > 0 {
            self.collect_callers();
        }
    }

    /// Collects the woken callers. Only processes in a call sleep as callers.
    fn collect_callers(&mut self) {
        while let Some(caller) = self.readiness.next_woken() {
            let process = self.callers[caller.0 as usize];
            let Some(Some(member)) = self.members.get_mut(process.0 as usize) else { continue };
            member.is_woken = true;
            member.wakers.drain(..).for_each(|waker| self.wakeups.wake_outside_later(waker));
            self.wakeups.wake_process(process);
        }
    }

    /// Returns whether a caller or an event queue watches the socket. Waiters for the socket alone do not
    /// count.
    pub(crate) fn is_watched(&self, id: SocketId) -> bool {
        self.entries.get(id.0 as usize).is_some_and(|entry| self.readiness.is_watched(entry.file))
    }

    /// Returns whether something was raised on the socket since the last call for it.
    pub(crate) fn take_changed(&mut self, id: SocketId) -> bool {
        self.entry(id).is_some_and(|entry| core::mem::take(&mut entry.changed))
    }

    fn entry(&mut self, id: SocketId) -> Option<&mut Entry> {
        self.entries.get_mut(id.0 as usize)
    }

    // --- Waiters ---

    /// Has `waiter` woken, once, when the file may have become ready for one of `kinds`, or has ended.
    pub(crate) fn wait(&mut self, id: SocketId, waiter: Waiter, kinds: Kinds) {
        if let Some(entry) = self.entries.get_mut(id.0 as usize) {
            self.waiters.add(&mut entry.waiters, waiter, kinds);
        }
    }

    /// Removes a process from the waiters for a socket.
    pub(crate) fn forget_process(&mut self, id: SocketId, process: ProcessId) {
        if let Some(entry) = self.entries.get_mut(id.0 as usize) {
            self.waiters.forget_process(&mut entry.waiters, process);
        }
    }

    /// Removes a thread or task outside from the waiters for a socket.
    pub(crate) fn forget_waker(&mut self, id: SocketId, waker: &Waker) {
        if let Some(entry) = self.entries.get_mut(id.0 as usize) {
            self.waiters.forget_waker(&mut entry.waiters, waker);
        }
    }

    /// Wakes one of those who wait for a socket, whatever kind of readiness it waits for: its call is to
    /// process what has come.
    pub(crate) fn call(&mut self, id: SocketId) {
        if let Some(entry) = self.entries.get_mut(id.0 as usize) {
            self.waiters.wake_one(&mut entry.waiters, &mut self.wakeups);
        }
    }

    /// Wakes all who wait for a socket alone.
    #[inline]
    fn wake_waiters(&mut self, id: SocketId) {
        self.wake(id, Kinds::ALL);
    }

    /// Wakes all who wait for any socket.
    pub(crate) fn wake_all_waiters(&mut self) {
        (0..self.entries.len()).for_each(|id| self.wake_waiters(SocketId(id as u32)));
    }

    #[inline]
    fn wake(&mut self, id: SocketId, kinds: Kinds) {
        if let Some(entry) = self.entries.get_mut(id.0 as usize).filter(|entry| !entry.waiters.is_empty()) {
            self.waiters.wake(&mut entry.waiters, kinds, &mut self.wakeups);
        }
    }

    // --- Calls ---

    /// Begins a call of `select` or `poll` by a process.
    fn begin_call(&mut self, process: ProcessId) -> CallerId {
        let (select, member) = (self.select, self.member(process));
        let was_in_call = core::mem::take(&mut member.is_in_call);
        member.is_woken = false;
        let caller = member.caller;
        self.in_calls -= usize::from(was_in_call);
        if select == Select::Classic {
            self.readiness.forget_all(caller);
        }
        caller
    }

    /// Records the result of a call: the number of ready descriptors, which is returned.
    fn found(&mut self, process: ProcessId, ready: usize) -> usize {
        let member = self.member(process);
        member.is_in_call = ready == 0;
        // Whoever waits for a call that is over is to call again.
        let over = if ready == 0 { Vec::new() } else { core::mem::take(&mut member.wakers) };
        self.wakeups.wake_uncharged(over);
        self.in_calls += usize::from(ready == 0);
        ready
    }

    /// Finds which of `selecting` are ready, and returns their number. If none is, the process may sleep in
    /// the call.
    pub(crate) fn select(
        &mut self,
        process: ProcessId,
        selecting: &FdSets,
        found: &mut FdSets,
        status: impl FnMut(SocketId, Kinds) -> Kinds,
    ) -> Result<usize, BadDescriptor> {
        let caller = self.begin_call(process);
        let answer = self.readiness.select(caller, selecting, found, Wait::UntilReady, status)?;
        Ok(self.found(process, answer.ready))
    }

    /// Finds what each of `entries` is ready for, and returns how many are ready. If none is, the process
    /// may sleep in the call.
    pub(crate) fn poll(
        &mut self,
        process: ProcessId,
        entries: &mut [PollEntry],
        status: impl FnMut(SocketId, Kinds) -> Kinds,
    ) -> usize {
        let caller = self.begin_call(process);
        let answer = self.readiness.poll(caller, entries, Wait::UntilReady, status);
        self.found(process, answer.ready)
    }

    /// Returns whether a process is in no call, or in one that would find something now.
    pub(crate) fn is_call_over(&self, process: ProcessId) -> bool {
        self.member_of(process).is_none_or(|member| !member.is_in_call || member.is_woken)
    }

    /// Has `waker` woken, once, when the call of a process would find something.
    pub(crate) fn wait_in_call(&mut self, process: ProcessId, waker: &Waker) {
        let wakers = &mut self.member(process).wakers;
        if !wakers.iter().any(|other| other.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    /// Returns whether a process was woken in a call that had found nothing: its next call continues that
    /// one.
    pub(crate) fn is_woken_in_call(&self, process: ProcessId) -> bool {
        self.member_of(process).is_some_and(|member| member.is_in_call && member.is_woken)
    }

    /// Ends the sleep of a process in its call. If the process was not woken its time is over, and so is the
    /// call.
    pub(crate) fn end_sleep(&mut self, process: ProcessId) {
        if self.member_of(process).is_some_and(|member| !member.is_woken) {
            self.leave_call(process);
        }
    }

    /// Ends the call that a process is in.
    #[inline]
    pub(crate) fn leave_call(&mut self, process: ProcessId) {
        if self.in_calls > 0 {
            self.leave_call_of(process);
        }
    }

    fn leave_call_of(&mut self, process: ProcessId) {
        let Some(Some(member)) = self.members.get_mut(process.0 as usize) else { return };
        if core::mem::take(&mut member.is_in_call) {
            self.in_calls -= 1;
            member.wakers.clear();
            self.readiness.give_up(member.caller);
        }
    }

    // --- Event queues ---

    /// Returns the event queue that all descriptors of a process are added to.
    pub(crate) fn events_of(&self, process: ProcessId) -> Option<Fd> {
        self.member_of(process)?.events
    }

    pub(crate) fn set_events(&mut self, process: ProcessId, events: Fd) {
        self.member(process).events = Some(events);
    }

    /// Forgets the queue of all events if its number `fd` refers to something else from now on, or to
    /// nothing.
    fn forget_events(&mut self, process: ProcessId, fd: Fd) {
        if let Some(Some(member)) = self.members.get_mut(process.0 as usize) {
            member.events = member.events.filter(|&events| events != fd);
        }
    }

    /// Registers a descriptor at an event queue, or has its registration ask for something else.
    pub(crate) fn set_interest(
        &mut self,
        how: Registering,
        process: ProcessId,
        queue: Fd,
        fd: Fd,
        interest: Interest,
        status: impl FnMut(SocketId, Kinds) -> Kinds,
    ) -> Result<(), QueueError> {
        let inside = self.member(process).process;
        match how {
            Registering::Add => self.readiness.add(inside, queue.0, fd.0, interest, status)?,
            Registering::Modify => self.readiness.modify(inside, queue.0, fd.0, interest, status)?,
        }
        // It may have an event by that, and so may those that it is in.
        if let Some(queue) = self.resolve(process, queue) {
            self.raise(queue, Kinds::READABLE);
        }
        self.collect_woken();
        Ok(())
    }

    /// Adds one that is not ready.
    pub(crate) fn add_idle(&mut self, process: ProcessId, queue: Fd, fd: Fd, interest: Interest) {
        if let Some(member) = self.member_of(process) {
            // Both are open, and it was not added yet, so there is no error.
            let _ = self.readiness.add(member.process, queue.0, fd.0, interest, |_, _| Kinds::NONE);
        }
    }

    pub(crate) fn delete(&mut self, process: ProcessId, queue: Fd, fd: Fd) -> Result<(), QueueError> {
        let inside = self.member(process).process;
        self.readiness.delete(inside, queue.0, fd.0)
    }

    /// Takes events from an event queue, and returns their number.
    pub(crate) fn take_events(
        &mut self,
        process: ProcessId,
        queue: Fd,
        events: &mut [Event],
        status: impl FnMut(SocketId, Kinds) -> Kinds,
    ) -> Result<usize, QueueError> {
        let Some(member) = self.member_of(process) else { return Err(QueueError::BadDescriptor(queue.0)) };
        let caller = member.caller;
        Ok(self.readiness.wait(caller, queue.0, events, Wait::No, status)?.ready)
    }

    /// Returns whether the event queue that is socket `id` has an event.
    pub(crate) fn has_event(&mut self, id: SocketId, status: impl FnMut(SocketId, Kinds) -> Kinds) -> bool {
        let file = self.entries.get(id.0 as usize).map_or(FileId(NONE), |entry| entry.file);
        self.readiness.has_event(file, status)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    const ME: ProcessId = ProcessId(3);
    const OTHER: ProcessId = ProcessId(9);

    fn id(n: u32) -> SocketId {
        SocketId(n)
    }

    /// Returns a table in which a process has so many descriptors.
    fn table(descriptors: u32) -> ReadyTable {
        let mut table = ReadyTable::new(Select::WithMemory, Allocation::Bitmap, 100);
        (0..descriptors).for_each(|n| table.open(id(n), Some(ME)).unwrap());
        table
    }

    /// Returns a table of so many descriptors and an event queue, socket 100, to which all are added.
    fn table_with_queue(descriptors: u32) -> (ReadyTable, Fd) {
        let mut table = table(descriptors);
        table.open_queue(id(100), ME).unwrap();
        let queue = table.fd(id(100));
        (0..descriptors).for_each(|n| add(&mut table, queue, Fd(n)));
        (table, queue)
    }

    fn add(table: &mut ReadyTable, queue: Fd, fd: Fd) {
        let interest = Interest { events: Kinds::ALL, trigger: Trigger::Edge, token: fd.token() };
        table.set_interest(Registering::Add, ME, queue, fd, interest, |_, _| Kinds::NONE).unwrap();
    }

    fn heard(table: &mut ReadyTable, queue: Fd) -> Vec<u32> {
        let mut events = [Event::default(); 8];
        let taken = table.take_events(ME, queue, &mut events, |_, asked| asked).unwrap();
        events[..taken].iter().map(|event| Fd::of(event).0).collect()
    }

    fn woken(table: &mut ReadyTable) -> Vec<u32> {
        let mut woken: Vec<_> = core::iter::from_fn(|| table.wakeups.next_process()).map(|p| p.0).collect();
        woken.sort_unstable();
        woken
    }

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_descriptor_costs_16_bytes_here() {
        assert_eq!(size_of::<Entry>(), 16);
    }

    #[test]
    fn each_process_has_numbers_of_its_own() {
        let mut table = table(2);
        table.open(id(7), Some(OTHER)).unwrap();
        assert_eq!((table.fd(id(1)), table.fd(id(7))), (Fd(1), Fd(0)));
        assert_eq!((table.resolve(ME, Fd(0)), table.resolve(OTHER, Fd(0))), (Some(id(0)), Some(id(7))));
        assert_eq!((table.resolve(OTHER, Fd(1)), table.resolve(ProcessId(4), Fd(0))), (None, None));
        assert_eq!(table.close(OTHER, Fd(1)), None);
        assert_eq!(table.close(ME, Fd(0)), Some((id(0), true)));
        table.exit(ME);
        assert_eq!((table.resolve(ME, Fd(1)), table.resolve(OTHER, Fd(0))), (None, Some(id(7))));
    }

    #[test]
    fn the_last_of_several_descriptors_closes_what_they_refer_to() {
        let mut table = table(1);
        assert_eq!(table.dup_from(ME, Fd(0), 5), Ok(Fd(5)));
        assert_eq!(table.close(ME, Fd(0)), Some((id(0), false)));
        assert_eq!(table.resolve(ME, Fd(5)), Some(id(0)));
        table.open(id(1), Some(ME)).unwrap();
        assert_eq!(table.dup2(ME, Fd(0), Fd(5)), Ok(Some(id(0))));
        assert_eq!(table.resolve(ME, Fd(5)), Some(id(1)));
    }

    #[test]
    fn wakes_all_who_wait_and_each_once() {
        let mut table = table(1);
        let count = Arc::new(Count::default());
        table.wait(id(0), Waiter::Process(ME), Kinds::ALL);
        table.wait(id(0), Waiter::Process(OTHER), Kinds::ALL);
        table.wait(id(0), Waiter::Waker(Arc::clone(&count).into()), Kinds::ALL);
        table.raise(id(0), Kinds::READABLE);
        assert_eq!((table.wakeups.take_count(), woken(&mut table)), (3, vec![3, 9]));
        assert_eq!(count.0.load(Ordering::Relaxed), 0, "not before the unit is over");
        table.wakeups.wake_outside();
        table.raise(id(0), Kinds::READABLE);
        assert_eq!((count.0.load(Ordering::Relaxed), table.wakeups.take_count()), (1, 0));
        table.wait(id(0), Waiter::Process(OTHER), Kinds::ALL);
        table.retire(id(0));
        assert_eq!(woken(&mut table), [9], "it is closed, and to find that out");
    }

    #[test]
    fn who_waits_is_woken_when_one_of_two_descriptors_is_closed() {
        let mut table = table(1);
        table.dup_from(ME, Fd(0), 0).unwrap();
        table.wait(id(0), Waiter::Process(ME), Kinds::ALL);
        assert_eq!(table.close(ME, Fd(0)), Some((id(0), false)));
        assert_eq!(woken(&mut table), [3]);
    }

    #[test]
    fn who_waits_no_more_is_not_woken() {
        let mut table = table(1);
        let (count, other) = (Arc::new(Count::default()), Arc::new(Count::default()));
        for waker in [&count, &other] {
            table.wait(id(0), Waiter::Waker(Arc::clone(waker).into()), Kinds::ALL);
        }
        table.wait(id(0), Waiter::Process(ME), Kinds::ALL);
        table.forget_process(id(0), ME);
        table.forget_waker(id(0), &Arc::clone(&count).into());
        table.raise(id(0), Kinds::READABLE);
        table.wakeups.wake_outside();
        assert_eq!(table.wakeups.next_process(), None);
        assert_eq!([&count, &other].map(|c| c.0.load(Ordering::Relaxed)), [0, 1]);
        assert_eq!(table.waiters.nodes(), 3, "nodes are used again");
        table.wait(id(0), Waiter::Process(ME), Kinds::ALL);
        assert_eq!(table.waiters.nodes(), 3);
    }

    #[test]
    fn who_waits_for_room_is_not_woken_by_what_comes_to_read() {
        let mut table = table(1);
        let [reads, writes] = [(); 2].map(|()| Arc::new(Count::default()));
        let wakes = |count: &Arc<Count>| count.0.load(Ordering::Relaxed);
        for (count, kinds) in [(&reads, Kinds::READABLE), (&writes, Kinds::WRITABLE)] {
            table.wait(id(0), Waiter::Waker(Arc::clone(count).into()), kinds);
        }
        table.raise(id(0), Kinds::READABLE);
        table.wakeups.wake_outside();
        assert_eq!((wakes(&reads), wakes(&writes)), (1, 0));
        table.raise(id(0), Kinds::WRITABLE);
        table.wakeups.wake_outside();
        assert_eq!((wakes(&reads), wakes(&writes)), (1, 1));
        for kinds in [Kinds::READABLE, Kinds::WRITABLE] {
            table.wait(id(0), Waiter::Waker(Arc::clone(&reads).into()), kinds);
        }
        table.wait(id(0), Waiter::Waker(Arc::clone(&writes).into()), Kinds::WRITABLE);
        table.raise(id(0), Kinds::READABLE);
        table.wakeups.wake_outside();
        assert_eq!((wakes(&reads), wakes(&writes)), (2, 1), "one waker waits for both");
        table.raise(id(0), Kinds::HANG_UP);
        table.wakeups.wake_outside();
        assert_eq!((wakes(&reads), wakes(&writes)), (2, 2), "an end concerns all");
    }

    #[test]
    fn a_waker_waits_once_however_often_it_says_so() {
        let mut table = table(1);
        let count = Arc::new(Count::default());
        (0..1_000).for_each(|_| table.wait(id(0), Waiter::Waker(Arc::clone(&count).into()), Kinds::ALL));
        table.raise(id(0), Kinds::READABLE);
        table.wakeups.wake_outside();
        assert_eq!((table.waiters.nodes(), count.0.load(Ordering::Relaxed)), (1, 1));
    }

    #[test]
    fn an_event_queue_wakes_who_waits_for_it() {
        let (mut table, queue) = table_with_queue(2);
        table.wait(id(100), Waiter::Process(ME), Kinds::ALL);
        table.raise(id(1), Kinds::READABLE);
        assert_eq!((woken(&mut table), heard(&mut table, queue)), (vec![3], vec![1]));
        // Also one that is around it.
        table.open_queue(id(101), ME).unwrap();
        let (outer, last) = (table.fd(id(101)), table.fd(id(100)));
        add(&mut table, outer, last);
        table.wait(id(101), Waiter::Process(ME), Kinds::ALL);
        table.raise(id(0), Kinds::READABLE);
        assert_eq!(woken(&mut table), [3]);
        // And when something is added that is ready.
        table.wait(id(100), Waiter::Process(ME), Kinds::ALL);
        table.open(id(2), Some(ME)).unwrap();
        let new = table.fd(id(2));
        add(&mut table, queue, new);
        assert_eq!(woken(&mut table), [3]);
    }

    #[test]
    fn a_process_hears_of_all_until_that_event_queue_is_closed() {
        let (mut table, queue) = table_with_queue(1);
        table.set_events(ME, queue);
        assert_eq!(table.close(ME, Fd(0)), Some((id(0), true)));
        assert_eq!(table.events_of(ME), Some(queue));
        table.open(id(0), Some(ME)).unwrap();
        assert_eq!(table.dup2(ME, Fd(0), queue), Ok(Some(id(100))));
        assert_eq!(table.events_of(ME), None, "the number is another's");
        table.set_events(ME, queue);
        table.close(ME, queue).unwrap();
        assert_eq!(table.events_of(ME), None);
    }

    #[test]
    fn a_call_that_has_found_nothing_is_over_when_something_has_come() {
        let mut table = table(2);
        let (mut selecting, mut found) = (FdSets::new(), FdSets::new());
        selecting.read.insert(1);
        let none = |_: SocketId, _: Kinds| Kinds::NONE;
        assert_eq!(table.select(ME, &selecting, &mut found, none), Ok(0));
        assert!(!table.is_call_over(ME) && !table.is_woken_in_call(ME));
        table.raise(id(0), Kinds::READABLE);
        assert!(!table.is_call_over(ME), "that is another one");
        table.raise(id(1), Kinds::READABLE);
        assert!(table.is_call_over(ME));
        assert_eq!(woken(&mut table), [3]);
        // Woken, it looks again, and would sleep on.
        table.end_sleep(ME);
        assert!(table.is_woken_in_call(ME));
        assert_eq!(table.select(ME, &selecting, &mut found, none), Ok(0));
        // Its time is over: it is in no call, and not woken any more.
        table.end_sleep(ME);
        table.raise(id(1), Kinds::READABLE);
        assert!(!table.is_woken_in_call(ME));
        assert_eq!(woken(&mut table), []);
    }

    #[test]
    fn a_thread_outside_is_woken_from_its_call() {
        let mut table = table(2);
        let count = Arc::new(Count::default());
        let mut entries = [PollEntry::new(0, Kinds::READABLE)];
        assert_eq!(table.poll(ME, &mut entries, |_, _| Kinds::NONE), 0);
        table.wait_in_call(ME, &Arc::clone(&count).into());
        table.raise(id(0), Kinds::READABLE);
        table.wakeups.wake_outside();
        assert_eq!((count.0.load(Ordering::Relaxed), table.is_call_over(ME)), (1, true));
        // Another thread's call is over at once, and with it the one that this waits in: it is to call again.
        assert_eq!(table.poll(ME, &mut entries, |_, _| Kinds::NONE), 0);
        table.wait_in_call(ME, &Arc::clone(&count).into());
        let mut others = [PollEntry::new(1, Kinds::READABLE)];
        assert_eq!(table.poll(ME, &mut others, |_, asked| asked), 1);
        table.wakeups.wake_outside();
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn the_classic_calls_look_at_everything() {
        for (select, looks) in [(Select::WithMemory, 3), (Select::Classic, 6)] {
            let mut table = ReadyTable::new(select, Allocation::Linear, 100);
            (0..3).for_each(|n| table.open(id(n), Some(ME)).unwrap());
            let (mut selecting, mut found, mut looked) = (FdSets::new(), FdSets::new(), 0);
            selecting.read.extend(0..3);
            for _ in 0..2 {
                let mut status = |_: SocketId, _: Kinds| {
                    looked += 1;
                    Kinds::NONE
                };
                table.select(ME, &selecting, &mut found, &mut status).unwrap();
            }
            assert_eq!(looked, looks, "{select:?}");
        }
    }

    #[test]
    fn a_number_that_is_used_again_has_no_past() {
        let (mut table, queue) = table_with_queue(2);
        table.raise(id(1), Kinds::READABLE);
        table.retire(id(1));
        table.open(id(1), Some(ME)).unwrap();
        assert_eq!(table.fd(id(1)), Fd(1));
        table.raise(id(1), Kinds::READABLE);
        assert_eq!(heard(&mut table, queue), []);
    }

    #[test]
    fn opening_and_closing_without_end_takes_no_memory() {
        let (mut table, queue) = table_with_queue(1);
        for _ in 0..100_000 {
            table.open(id(2), Some(ME)).unwrap();
            let fd = table.fd(id(2));
            add(&mut table, queue, fd);
            table.raise(id(2), Kinds::READABLE);
            table.retire(id(2));
        }
        assert!(table.entries.len() <= 101 && table.queues.len() < 8 && table.waiters.nodes() == 0);
        table.raise(id(0), Kinds::READABLE);
        assert_eq!(heard(&mut table, queue), [0]);
    }
}
