//! The waiters for a descriptor, and those that are woken at the end of a unit.

use core::task::Waker;

use evenkeel_ready::Kinds;

use crate::id::ProcessId;

/// A process, thread or task that waits for a descriptor.
#[derive(Debug, Clone)]
pub(crate) enum Waiter {
    /// A process of the host.
    Process(ProcessId),
    /// A thread or a task outside.
    Waker(Waker),
}

/// The number that stands for no node.
const NONE: u32 = u32::MAX;

/// The waiters for one descriptor: the first node of a list in [`Waiters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaiterList(u32);

/// A waiter in a list, or a node in the list of free ones.
#[derive(Debug)]
struct Node {
    waiter: Option<Waiter>,
    /// The kinds of readiness that it waits for, besides an end or an error.
    kinds: Kinds,
    next: WaiterList,
}

/// The nodes of all lists of waiters.
#[derive(Debug)]
pub(crate) struct Waiters {
    nodes: Vec<Node>,
    free: WaiterList,
}

/// The processes, threads and tasks that are woken when the unit is over.
#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    processes: Vec<ProcessId>,
    wakers: Vec<Waker>,
    /// The number of waiters woken since [`Wakeups::take_count`].
    count: u32,
}

impl WaiterList {
    pub(crate) const EMPTY: Self = Self(NONE);

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == NONE
    }
}

impl Waiters {
    pub(crate) const fn new() -> Self {
        Self { nodes: Vec::new(), free: WaiterList::EMPTY }
    }

    /// Adds a waiter for `kinds` to a list. A waker that is in the list already is not added twice: it then
    /// waits for its earlier kinds, too.
    pub(crate) fn add(&mut self, list: &mut WaiterList, waiter: Waiter, mut kinds: Kinds) {
        if let Waiter::Waker(waker) = &waiter {
            kinds = kinds.union(self.forget_waker(list, waker));
        }
        let node = Node { waiter: Some(waiter), kinds, next: *list };
        *list = match self.nodes.get_mut(self.free.0 as usize) {
            Some(slot) => {
                let place = core::mem::replace(&mut self.free, slot.next);
                *slot = node;
                place
            }
            None => {
                self.nodes.push(node);
                WaiterList((self.nodes.len() - 1) as u32)
            }
        };
    }

    /// Removes a process from a list.
    pub(crate) fn forget_process(&mut self, list: &mut WaiterList, process: ProcessId) {
        self.remove(list, |w, _| matches!(w, Waiter::Process(p) if *p == process), |_, _| {});
    }

    /// Removes a thread or task outside from a list. Returns what it waited for.
    pub(crate) fn forget_waker(&mut self, list: &mut WaiterList, waker: &Waker) -> Kinds {
        let is = |waiter: &Waiter, _| matches!(waiter, Waiter::Waker(other) if other.will_wake(waker));
        let mut waited_for = Kinds::NONE;
        self.remove(list, is, |_, kinds| waited_for = waited_for.union(kinds));
        waited_for
    }

    /// Wakes those in a list who wait for one of `kinds`, and all if that is an end or an error.
    pub(crate) fn wake(&mut self, list: &mut WaiterList, kinds: Kinds, wakeups: &mut Wakeups) {
        let ends = kinds.intersects(Kinds::HANG_UP_OR_ERROR);
        let is = |_: &Waiter, waits_for: Kinds| ends || waits_for.intersects(kinds);
        self.remove(list, is, |waiter, _| wakeups.wake(waiter));
    }

    /// Wakes the first waiter of a list.
    pub(crate) fn wake_one(&mut self, list: &mut WaiterList, wakeups: &mut Wakeups) {
        let Some(node) = self.nodes.get_mut(list.0 as usize) else { return };
        let waiter = node.waiter.take();
        let place = core::mem::replace(list, node.next);
        node.next = core::mem::replace(&mut self.free, place);
        waiter.into_iter().for_each(|waiter| wakeups.wake(waiter));
    }

    /// Takes those waiters out of a list for which `is` holds.
    fn remove(
        &mut self,
        list: &mut WaiterList,
        is: impl Fn(&Waiter, Kinds) -> bool,
        mut take: impl FnMut(Waiter, Kinds),
    ) {
        let (mut place, mut kept) = (*list, WaiterList::EMPTY);
        while let Some(node) = self.nodes.get_mut(place.0 as usize) {
            let next = node.next;
            let goes = node.waiter.take_if(|waiter| is(waiter, node.kinds));
            let to = if goes.is_some() { &mut self.free } else { &mut kept };
            node.next = core::mem::replace(to, place);
            goes.into_iter().for_each(|waiter| take(waiter, node.kinds));
            place = next;
        }
        *list = kept;
    }

    #[cfg(test)]
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }
}

impl Wakeups {
    /// Has a waiter woken when the unit is over.
    fn wake(&mut self, waiter: Waiter) {
        match waiter {
            Waiter::Process(process) => self.wake_process(process),
            Waiter::Waker(waker) => self.wake_outside_later(waker),
        }
    }

    /// Has a process woken when the unit is over, whatever it waits for.
    pub(crate) fn wake_process(&mut self, process: ProcessId) {
        self.processes.push(process);
        self.count += 1;
    }

    /// Has a thread or a task outside woken when the unit is over.
    pub(crate) fn wake_outside_later(&mut self, waker: Waker) {
        self.wakers.push(waker);
        self.count += 1;
    }

    /// Has threads or tasks outside woken when the unit is over. No work item is charged for them.
    pub(crate) fn wake_uncharged(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        self.wakers.extend(wakers);
    }

    /// Returns the number of waiters woken since the last call: a work item is charged for them.
    pub(crate) fn take_count(&mut self) -> u32 {
        core::mem::take(&mut self.count)
    }

    /// Removes and returns the next process to be woken; the last one first.
    pub(crate) fn next_process(&mut self) -> Option<ProcessId> {
        self.processes.pop()
    }

    /// Returns whether a process is to be woken.
    pub(crate) fn has_process(&self, process: ProcessId) -> bool {
        self.processes.contains(&process)
    }

    /// Wakes the threads and tasks outside that are to be woken.
    #[inline]
    pub(crate) fn wake_outside(&mut self) {
        if !self.wakers.is_empty() {
            self.wakers.drain(..).for_each(Waker::wake);
        }
    }
}
