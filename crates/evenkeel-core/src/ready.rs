//! Readiness: what each descriptor is ready for, who waits for it, and where a process hears of it.
//!
//! One table serves every kind of descriptor. Whoever makes a descriptor ready raises its bits; that wakes
//! whoever waits for it, and puts it into the event queue of its process. Bits are hints from below: a
//! receive call that finds nothing is the last word. Source: INTERESTED, READY and hints, Banga and Mogul,
//! USENIX 1998, section 4.

use core::fmt;
use core::task::Waker;
use std::collections::VecDeque;

use crate::id::{ProcessId, SocketId};

/// What a descriptor is ready for.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready(u8);

impl Ready {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// There is something to receive, read, accept, screen or take, if only the end of a stream.
    pub const READABLE: Self = Self(1);
    /// There is room to write to a stream.
    pub const WRITABLE: Self = Self(2);
    /// The handshake of a stream is over.
    pub const CONNECTED: Self = Self(4);
    /// Nothing more will come or go on a stream.
    pub const CLOSED: Self = Self(8);
    /// Whatever there is.
    pub const ALL: Self = Self(15);

    /// Both together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// `self`, if that `holds`.
    #[must_use]
    pub const fn when(self, holds: bool) -> Self {
        if holds { self } else { Self::NONE }
    }

    /// Whether it is ready for anything of `other`.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// There is something to receive, read, accept, screen or take, if only the end of a stream.
    #[must_use]
    pub const fn is_readable(self) -> bool {
        self.intersects(Self::READABLE)
    }

    /// There is room to write to a stream.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        self.intersects(Self::WRITABLE)
    }

    /// The handshake of a stream is over.
    #[must_use]
    pub const fn is_connected(self) -> bool {
        self.intersects(Self::CONNECTED)
    }

    /// Nothing more will come or go on a stream.
    #[must_use]
    pub const fn is_closed(self) -> bool {
        self.intersects(Self::CLOSED)
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::READABLE, "readable"),
            (Self::WRITABLE, "writable"),
            (Self::CONNECTED, "connected"),
            (Self::CLOSED, "closed"),
        ];
        f.debug_set()
            .entries(names.iter().filter(|(bit, _)| self.intersects(*bit)).map(|(_, name)| name))
            .finish()
    }
}

/// A descriptor has become ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Which one.
    pub socket: SocketId,
    /// What for.
    pub ready: Ready,
}

/// Who waits for a descriptor.
#[derive(Debug, Clone)]
pub(crate) enum Waiter {
    /// A process of the host.
    Process(ProcessId),
    /// A thread or a task outside.
    Waker(Waker),
}

/// In place of a node: there is none.
const NONE: u32 = u32::MAX;

/// What the table keeps of a descriptor.
#[derive(Debug, Clone, Copy)]
struct Entry {
    owner: Option<ProcessId>,
    ready: Ready,
    /// Something was raised since its process last looked.
    changed: bool,
    /// It stands in the event queue of its process.
    queued: bool,
    /// It is to be looked at before its process sleeps.
    unchecked: bool,
    /// Those who wait for it, a list.
    waiters: u32,
}

impl Entry {
    const FREE: Self = Self {
        owner: None,
        ready: Ready::NONE,
        changed: false,
        queued: false,
        unchecked: false,
        waiters: NONE,
    };
}

/// One who waits, in the list of a descriptor or in that of free nodes.
#[derive(Debug)]
struct Node {
    waiter: Option<Waiter>,
    interest: Ready,
    next: u32,
}

/// Where a process hears of its descriptors. Each is in it once at most.
#[derive(Debug)]
struct EventQueue {
    descriptor: SocketId,
    queue: VecDeque<SocketId>,
    /// Those whose event was taken, or that are new: before the process sleeps they are looked at again.
    unchecked: Vec<SocketId>,
    /// How many of both have been closed since.
    gone: usize,
}

impl EventQueue {
    /// Forgets those that have been closed. Done when they are half of all, so that it costs the same for
    /// each in the long run.
    fn sweep(&mut self, entries: &mut [Entry], owner: Option<ProcessId>) {
        let mut keep = |id: &SocketId, flag: fn(&mut Entry) -> &mut bool| {
            let entry = entries.get_mut(id.0 as usize).filter(|entry| entry.owner == owner);
            entry.is_some_and(|entry| core::mem::take(flag(entry)))
        };
        self.queue.retain(|id| keep(id, |entry| &mut entry.queued));
        self.unchecked.retain(|id| keep(id, |entry| &mut entry.unchecked));
        for id in &self.queue {
            entries[id.0 as usize].queued = true;
        }
        for id in &self.unchecked {
            entries[id.0 as usize].unchecked = true;
        }
        self.gone = 0;
    }
}

/// The readiness of every descriptor.
#[derive(Debug)]
pub(crate) struct ReadyTable {
    entries: Vec<Entry>,
    nodes: Vec<Node>,
    free: u32,
    /// By process.
    events: Vec<Option<EventQueue>>,
    /// Processes to be woken when the unit is over.
    wakeups: Vec<ProcessId>,
    /// Threads and tasks outside that are to be woken then.
    wakers: Vec<Waker>,
    /// How many waiters were woken since [`ReadyTable::take_woken`].
    woken: u32,
}

impl ReadyTable {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            nodes: Vec::new(),
            free: NONE,
            events: Vec::new(),
            wakeups: Vec::new(),
            wakers: Vec::new(),
            woken: 0,
        }
    }

    // --- Descriptors ---

    /// A descriptor has been opened.
    pub(crate) fn register(&mut self, id: SocketId, owner: Option<ProcessId>) {
        let index = id.0 as usize;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, Entry::FREE);
        }
        self.entries[index] = Entry { owner, ..Entry::FREE };
        self.check_later(id);
    }

    /// It is closed: whoever still waits for it is woken, to find that out.
    pub(crate) fn retire(&mut self, id: SocketId) {
        self.wake_waiters(id, Ready::ALL);
        let Some(entry) = self.entry(id) else { return };
        let gone = core::mem::replace(entry, Entry::FREE);
        if let Some(Some(events)) = gone.owner.and_then(|owner| self.events.get_mut(owner.0 as usize)) {
            events.gone += usize::from(gone.queued) + usize::from(gone.unchecked);
            if events.gone > 16 && events.gone > (events.queue.len() + events.unchecked.len()) / 2 {
                events.sweep(&mut self.entries, gone.owner);
            }
        }
    }

    /// It has become ready for `bits`: whoever waits for them is woken, and its process told.
    #[inline]
    pub(crate) fn raise(&mut self, id: SocketId, bits: Ready) {
        let Some(entry) = self.entry(id) else { return };
        let fresh = entry.ready.union(bits) != entry.ready;
        entry.ready = entry.ready.union(bits);
        entry.changed = true;
        if fresh {
            self.enqueue(id);
        }
        self.wake_waiters(id, bits);
    }

    /// It is ready for just `bits` now, and its process is told of it in any case.
    pub(crate) fn renew(&mut self, id: SocketId, bits: Ready) {
        let Some(entry) = self.entry(id) else { return };
        entry.ready = bits;
        entry.changed = true;
        self.enqueue(id);
        self.wake_waiters(id, Ready::ALL);
    }

    /// It is not ready for `bits` any more.
    pub(crate) fn lower(&mut self, id: SocketId, bits: Ready) {
        if let Some(entry) = self.entry(id) {
            entry.ready = Ready(entry.ready.0 & !bits.0);
        }
    }

    /// Whether something was raised since the last time this was asked.
    pub(crate) fn take_changed(&mut self, id: SocketId) -> bool {
        self.entry(id).is_some_and(|entry| core::mem::take(&mut entry.changed))
    }

    fn entry(&mut self, id: SocketId) -> Option<&mut Entry> {
        self.entries.get_mut(id.0 as usize)
    }

    // --- Waiters ---

    /// Has `waiter` woken, once, when the descriptor is ready for any of `interest`. A waker that waits for
    /// it already is not put down twice.
    pub(crate) fn wait(&mut self, id: SocketId, waiter: Waiter, interest: Ready) {
        if let Waiter::Waker(waker) = &waiter {
            self.forget_waker(id, waker);
        }
        let Some(first) = self.entry(id).map(|entry| entry.waiters) else { return };
        let node = Node { waiter: Some(waiter), interest, next: first };
        let place = if self.free == NONE {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let place = self.free;
            let slot = &mut self.nodes[place as usize];
            self.free = slot.next;
            *slot = node;
            place
        };
        if let Some(entry) = self.entry(id) {
            entry.waiters = place;
        }
    }

    /// A process does not wait for it any more.
    pub(crate) fn forget_process(&mut self, id: SocketId, process: ProcessId) {
        self.take_waiters(id, |node| matches!(node.waiter, Some(Waiter::Process(p)) if p == process), |_| {});
    }

    /// A thread or task outside does not wait for it any more.
    pub(crate) fn forget_waker(&mut self, id: SocketId, waker: &Waker) {
        let is = |node: &Node| matches!(&node.waiter, Some(Waiter::Waker(w)) if w.will_wake(waker));
        self.take_waiters(id, is, |_| {});
    }

    #[inline]
    fn wake_waiters(&mut self, id: SocketId, bits: Ready) {
        if self.entries.get(id.0 as usize).is_some_and(|entry| entry.waiters != NONE) {
            self.wake_all(id, bits);
        }
    }

    fn wake_all(&mut self, id: SocketId, bits: Ready) {
        let (mut wakeups, mut wakers) =
            (core::mem::take(&mut self.wakeups), core::mem::take(&mut self.wakers));
        let before = wakeups.len() + wakers.len();
        self.take_waiters(
            id,
            |node| node.interest.intersects(bits),
            |waiter| match waiter {
                Waiter::Process(process) => wakeups.push(process),
                Waiter::Waker(waker) => wakers.push(waker),
            },
        );
        self.woken += (wakeups.len() + wakers.len() - before) as u32;
        (self.wakeups, self.wakers) = (wakeups, wakers);
    }

    /// Takes those waiters of a descriptor out for which `is` holds.
    fn take_waiters(&mut self, id: SocketId, is: impl Fn(&Node) -> bool, mut take: impl FnMut(Waiter)) {
        let Some(entry) = self.entries.get_mut(id.0 as usize) else { return };
        let (mut place, mut kept) = (entry.waiters, NONE);
        while place != NONE {
            let node = &mut self.nodes[place as usize];
            let next = node.next;
            let list = if is(node) {
                node.waiter.take().into_iter().for_each(&mut take);
                &mut self.free
            } else {
                &mut kept
            };
            node.next = core::mem::replace(list, place);
            place = next;
        }
        entry.waiters = kept;
    }

    /// Has a process woken when the unit is over, whatever it waits for.
    pub(crate) fn wake_process(&mut self, process: ProcessId) {
        self.wakeups.push(process);
        self.woken += 1;
    }

    /// How many waiters were woken since this was last asked: what a unit is charged for.
    pub(crate) fn take_woken(&mut self) -> u32 {
        core::mem::take(&mut self.woken)
    }

    /// The next process to be woken; the last one first.
    pub(crate) fn next_wakeup(&mut self) -> Option<ProcessId> {
        self.wakeups.pop()
    }

    pub(crate) fn is_to_be_woken(&self, process: ProcessId) -> bool {
        self.wakeups.contains(&process)
    }

    /// Wakes the threads and tasks outside that are to be woken.
    #[inline]
    pub(crate) fn wake_outside(&mut self) {
        if !self.wakers.is_empty() {
            self.wakers.drain(..).for_each(Waker::wake);
        }
    }

    // --- Event queues ---

    /// The event queue of a process, if it has one.
    pub(crate) fn events_of(&self, process: ProcessId) -> Option<SocketId> {
        Some(self.events.get(process.0 as usize)?.as_ref()?.descriptor)
    }

    /// Gives a process an event queue, which is the descriptor `descriptor`. Of what is ready already it
    /// hears at once.
    pub(crate) fn open_events(&mut self, process: ProcessId, descriptor: SocketId) {
        let index = process.0 as usize;
        if index >= self.events.len() {
            self.events.resize_with(index + 1, || None);
        }
        self.events[index] =
            Some(EventQueue { descriptor, queue: VecDeque::new(), unchecked: Vec::new(), gone: 0 });
        for place in 0..self.entries.len() {
            let id = SocketId(place as u32);
            if id == descriptor || self.entries[place].owner != Some(process) {
                continue;
            }
            self.check_later(id);
            if self.entries[place].changed || self.entries[place].ready != Ready::NONE {
                self.enqueue(id);
            }
        }
    }

    pub(crate) fn close_events(&mut self, process: ProcessId) {
        let Some(events) = self.events.get_mut(process.0 as usize).and_then(Option::take) else { return };
        for id in events.queue.into_iter().chain(events.unchecked) {
            if let Some(entry) = self.entry(id).filter(|entry| entry.owner == Some(process)) {
                entry.queued = false;
                entry.unchecked = false;
            }
        }
    }

    /// How many descriptors of a process have become ready and wait to be heard of.
    pub(crate) fn events_len(&self, process: ProcessId) -> usize {
        self.events.get(process.0 as usize).and_then(Option::as_ref).map_or(0, |events| events.queue.len())
    }

    /// The event of a process that has waited longest.
    pub(crate) fn next_event(&mut self, process: ProcessId) -> Option<Event> {
        loop {
            let events = self.events.get_mut(process.0 as usize)?.as_mut()?;
            let socket = events.queue.pop_front()?;
            // It may have been closed since, and its number have a new holder.
            let entry = self.entries.get_mut(socket.0 as usize)?;
            if entry.owner == Some(process) && core::mem::take(&mut entry.queued) {
                entry.changed = false;
                let ready = entry.ready;
                self.check_later(socket);
                return Some(Event { socket, ready });
            }
        }
    }

    /// The next descriptor to look at before the process sleeps on its event queue: whether it is ready is to
    /// be found out anew.
    pub(crate) fn next_unchecked(&mut self, process: ProcessId) -> Option<SocketId> {
        loop {
            let id = self.events.get_mut(process.0 as usize)?.as_mut()?.unchecked.pop()?;
            let Some(entry) = self.entry(id) else { continue };
            if entry.owner == Some(process) && core::mem::take(&mut entry.unchecked) {
                return Some(id);
            }
        }
    }

    /// Has the descriptor looked at before its process sleeps on its event queue, if it has one.
    fn check_later(&mut self, id: SocketId) {
        let Some(entry) = self.entries.get_mut(id.0 as usize) else { return };
        let events = entry.owner.and_then(|owner| self.events.get_mut(owner.0 as usize));
        let Some(Some(events)) = events else { return };
        if events.descriptor != id && !core::mem::replace(&mut entry.unchecked, true) {
            events.unchecked.push(id);
        }
    }

    /// Puts a descriptor into the event queue of its process, if it has one and the descriptor is not in it.
    fn enqueue(&mut self, id: SocketId) {
        let Some(entry) = self.entries.get_mut(id.0 as usize) else { return };
        let events = entry.owner.and_then(|owner| self.events.get_mut(owner.0 as usize));
        let Some(Some(events)) = events else { return };
        if events.descriptor == id || core::mem::replace(&mut entry.queued, true) {
            return;
        }
        events.queue.push_back(id);
        let descriptor = events.descriptor;
        self.wake_waiters(descriptor, Ready::READABLE);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    const ME: ProcessId = ProcessId(3);
    const EVENTS: SocketId = SocketId(0);

    fn id(n: u32) -> SocketId {
        SocketId(n)
    }

    /// A table in which a process has an event queue and so many descriptors.
    fn table(descriptors: u32) -> ReadyTable {
        let mut table = ReadyTable::new();
        table.register(EVENTS, Some(ME));
        table.open_events(ME, EVENTS);
        (1..=descriptors).for_each(|n| table.register(id(n), Some(ME)));
        table
    }

    fn heard(table: &mut ReadyTable) -> Vec<u32> {
        core::iter::from_fn(|| table.next_event(ME)).map(|event| event.socket.0).collect()
    }

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_descriptor_costs_16_bytes() {
        assert_eq!(size_of::<Entry>(), 16);
    }

    #[test]
    fn is_heard_of_once_until_it_is_ready_for_more() {
        let mut table = table(3);
        table.raise(id(2), Ready::READABLE);
        table.raise(id(1), Ready::READABLE);
        table.raise(id(2), Ready::READABLE);
        assert_eq!(heard(&mut table), [2, 1]);
        table.raise(id(2), Ready::READABLE);
        assert_eq!(heard(&mut table), [], "it was ready for that before");
        table.raise(id(2), Ready::WRITABLE);
        assert_eq!(heard(&mut table), [2]);
        table.lower(id(2), Ready::READABLE);
        table.raise(id(2), Ready::READABLE);
        assert_eq!(heard(&mut table), [2]);
    }

    #[test]
    fn wakes_all_who_wait_and_each_once() {
        let mut table = table(1);
        let count = Arc::new(Count::default());
        table.wait(id(1), Waiter::Process(ME), Ready::ALL);
        table.wait(id(1), Waiter::Process(ProcessId(9)), Ready::READABLE);
        table.wait(id(1), Waiter::Waker(Arc::clone(&count).into()), Ready::READABLE);
        table.wait(id(1), Waiter::Process(ProcessId(7)), Ready::WRITABLE);
        table.raise(id(1), Ready::READABLE);
        assert_eq!(table.take_woken(), 3);
        let mut woken: Vec<_> = core::iter::from_fn(|| table.next_wakeup()).map(|p| p.0).collect();
        woken.sort_unstable();
        assert_eq!(woken, [3, 9], "one waits for something else");
        assert_eq!(count.0.load(Ordering::Relaxed), 0, "not before the unit is over");
        table.wake_outside();
        table.raise(id(1), Ready::READABLE);
        assert_eq!((count.0.load(Ordering::Relaxed), table.take_woken()), (1, 0));
        table.retire(id(1));
        assert_eq!(table.next_wakeup(), Some(ProcessId(7)), "it is closed, and to find that out");
    }

    #[test]
    fn who_waits_no_more_is_not_woken() {
        let mut table = table(1);
        let (count, other) = (Arc::new(Count::default()), Arc::new(Count::default()));
        for waker in [&count, &other] {
            table.wait(id(1), Waiter::Waker(Arc::clone(waker).into()), Ready::ALL);
        }
        table.wait(id(1), Waiter::Process(ME), Ready::ALL);
        table.forget_process(id(1), ME);
        table.forget_waker(id(1), &Arc::clone(&count).into());
        table.raise(id(1), Ready::READABLE);
        table.wake_outside();
        assert_eq!(table.next_wakeup(), None);
        assert_eq!([&count, &other].map(|c| c.0.load(Ordering::Relaxed)), [0, 1]);
        assert_eq!(table.nodes.len(), 3, "nodes are used again");
        table.wait(id(1), Waiter::Process(ME), Ready::ALL);
        assert_eq!(table.nodes.len(), 3);
    }

    #[test]
    fn a_waker_waits_once_however_often_it_says_so() {
        let mut table = table(1);
        let count = Arc::new(Count::default());
        (0..1_000).for_each(|_| table.wait(id(1), Waiter::Waker(Arc::clone(&count).into()), Ready::ALL));
        table.raise(id(1), Ready::READABLE);
        table.wake_outside();
        assert_eq!((table.nodes.len(), count.0.load(Ordering::Relaxed)), (1, 1));
    }

    #[test]
    fn the_event_queue_wakes_who_waits_for_it() {
        let mut table = table(2);
        table.wait(EVENTS, Waiter::Process(ME), Ready::ALL);
        table.raise(id(2), Ready::READABLE);
        assert_eq!((table.next_wakeup(), table.events_len(ME)), (Some(ME), 1));
    }

    #[test]
    fn what_was_heard_of_is_looked_at_before_the_next_sleep() {
        let mut table = table(2);
        let unchecked = |table: &mut ReadyTable| {
            let mut all: Vec<_> = core::iter::from_fn(|| table.next_unchecked(ME)).map(|s| s.0).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(unchecked(&mut table), [1, 2], "they are new");
        table.raise(id(2), Ready::READABLE);
        assert_eq!(unchecked(&mut table), []);
        assert_eq!(heard(&mut table), [2]);
        assert_eq!(unchecked(&mut table), [2]);
        assert_eq!(unchecked(&mut table), []);
    }

    #[test]
    fn a_number_that_is_used_again_has_no_past() {
        let mut table = table(2);
        table.raise(id(1), Ready::READABLE);
        table.retire(id(1));
        table.register(id(1), Some(ME));
        assert_eq!(heard(&mut table), []);
        table.raise(id(1), Ready::READABLE);
        table.retire(id(1));
        table.register(id(1), Some(ProcessId(8)));
        table.raise(id(1), Ready::READABLE);
        assert_eq!(heard(&mut table), [], "it is another's now");
    }

    #[test]
    fn opening_and_closing_without_end_takes_no_memory() {
        let mut table = table(1);
        for _ in 0..100_000 {
            table.register(id(2), Some(ME));
            table.raise(id(2), Ready::READABLE);
            table.retire(id(2));
        }
        let events = table.events[ME.0 as usize].as_ref().unwrap();
        assert!(events.queue.len() + events.unchecked.len() < 64);
        table.raise(id(1), Ready::READABLE);
        assert_eq!(heard(&mut table), [1]);
    }

    #[test]
    fn of_what_is_ready_already_a_new_event_queue_tells() {
        let mut table = ReadyTable::new();
        (0..3).for_each(|n| table.register(id(n), Some(ME)));
        table.raise(id(1), Ready::READABLE);
        table.open_events(ME, id(2));
        assert_eq!(heard(&mut table), [1]);
        table.raise(id(0), Ready::READABLE);
        table.close_events(ME);
        assert_eq!((heard(&mut table), table.events_of(ME)), (vec![], None));
    }
}
