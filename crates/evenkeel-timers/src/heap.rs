//! Heaps of timers that all live in one slab: who is first is always known, and anybody can be taken out.
//!
//! Source: Fredman, Sedgewick, Sleator and Tarjan, "The pairing heap: a new form of self-adjusting heap",
//! Algorithmica 1, 1986.

use alloc::vec::Vec;

/// In place of a key: there is none.
pub(crate) const NOBODY: u32 = u32::MAX;

/// A timer, and its place in its heap.
#[derive(Clone, Copy)]
pub(crate) struct Node {
    pub(crate) deadline: u64,
    /// The deadline by which the node is ordered in the heap. It is not later than `deadline`, which may
    /// have been put off since.
    pub(crate) filed: u64,
    /// The first of those below.
    child: u32,
    /// The next of those below the same one.
    next: u32,
    /// The one before, or above the first.
    previous: u32,
    /// In whose heap it is. The heaps' owner says what the numbers mean.
    pub(crate) slot: u16,
    /// Whether it is to expire. If not, it may still be in a heap.
    pub(crate) set: bool,
}

/// The nodes of all heaps, by key. A heap is named by the key of its earliest node, or by [`NOBODY`] if it is
/// empty.
pub(crate) struct Nodes {
    nodes: Vec<Node>,
    /// In what state a node begins.
    blank: Node,
    /// Nodes compared or moved: what the tests measure cost by.
    #[cfg(test)]
    pub(crate) steps: u64,
}

impl Nodes {
    /// Creates an empty set of nodes. Nodes that are added are in `slot`.
    pub(crate) const fn new(slot: u16) -> Self {
        Self {
            nodes: Vec::new(),
            blank: Node {
                deadline: 0,
                filed: 0,
                child: NOBODY,
                next: NOBODY,
                previous: NOBODY,
                slot,
                set: false,
            },
            #[cfg(test)]
            steps: 0,
        }
    }

    /// Sees to it that there is a node `key`, in no heap.
    pub(crate) fn reach(&mut self, key: u32) {
        let len = key as usize + 1;
        if self.nodes.len() >= len {
            return;
        }
        if self.nodes.capacity() < len {
            // By an eighth: to grow costs little beside the memory of what is timed, and is seldom.
            let more = len - self.nodes.len();
            self.nodes.reserve_exact(more.max(self.nodes.len() / 8).max(16));
        }
        self.nodes.resize(len, self.blank);
    }

    pub(crate) fn get(&self, key: u32) -> Option<&Node> {
        self.nodes.get(key as usize)
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut Node> {
        self.nodes.get_mut(key as usize)
    }

    pub(crate) fn node(&mut self, key: u32) -> &mut Node {
        &mut self.nodes[key as usize]
    }

    /// Adds a node that is in no heap. Returns who is first then.
    pub(crate) fn push(&mut self, root: u32, key: u32) -> u32 {
        let node = self.node(key);
        (node.child, node.next, node.previous) = (NOBODY, NOBODY, NOBODY);
        self.meld(root, key)
    }

    /// Takes a node out. Returns who is first then.
    pub(crate) fn remove(&mut self, root: u32, key: u32) -> u32 {
        let Node { child, next, previous, .. } = *self.node(key);
        let below = self.pair(child);
        if key == root {
            return below;
        }
        let before = self.node(previous);
        if before.child == key {
            before.child = next
        } else {
            before.next = next
        }
        if next != NOBODY {
            self.node(next).previous = previous;
        }
        self.meld(root, below)
    }

    /// Takes those out of a heap that are no longer in their place, as far as they are above all others.
    /// Returns the list of them, and who is first of the rest.
    pub(crate) fn take_stale(&mut self, root: u32) -> (u32, u32) {
        let (mut list, mut taken, mut rest) = (root, NOBODY, NOBODY);
        while list != NOBODY {
            let key = list;
            let stale = self.is_stale(key);
            list = if stale { self.scatter(key) } else { self.detach(key) };
            let to = if stale { &mut taken } else { &mut rest };
            let next = core::mem::replace(to, key);
            self.node(key).next = next;
        }
        (taken, self.pair(rest))
    }

    /// Returns whether the timer was put off or cancelled since it was filed.
    pub(crate) fn is_stale(&self, key: u32) -> bool {
        let Node { deadline, filed, set, .. } = self.nodes[key as usize];
        !set || deadline != filed
    }

    /// Takes the first of a list of heaps apart: what was below it comes in its place. Returns the list.
    pub(crate) fn scatter(&mut self, first: u32) -> u32 {
        let Node { child, next, .. } = *self.node(first);
        if child == NOBODY {
            return next;
        }
        let mut last = child;
        while self.node(last).next != NOBODY {
            last = self.node(last).next;
            self.count_step();
        }
        self.node(last).next = next;
        child
    }

    /// Makes one heap of two.
    #[inline]
    fn meld(&mut self, one: u32, other: u32) -> u32 {
        if one == NOBODY || other == NOBODY { one.min(other) } else { self.link(one, other) }
    }

    fn link(&mut self, one: u32, other: u32) -> u32 {
        self.count_step();
        let filed = |key: u32| (self.nodes[key as usize].filed, key);
        // Of equals the lower key is first, so that the order depends on nothing but what is set.
        let (first, second) = if filed(other) < filed(one) { (other, one) } else { (one, other) };
        let child = core::mem::replace(&mut self.node(first).child, second);
        let lower = self.node(second);
        (lower.next, lower.previous) = (child, first);
        if child != NOBODY {
            self.node(child).previous = second;
        }
        first
    }

    /// Makes one heap of a list of them: of every two one, and of these, from the last to the first, one.
    /// That order is what makes the next time cheap.
    #[inline]
    fn pair(&mut self, list: u32) -> u32 {
        if list == NOBODY { NOBODY } else { self.pair_all(list) }
    }

    fn pair_all(&mut self, mut list: u32) -> u32 {
        let mut pairs = NOBODY;
        while list != NOBODY {
            let one = list;
            let other = self.detach(one);
            list = if other == NOBODY { NOBODY } else { self.detach(other) };
            let pair = self.meld(one, other);
            self.node(pair).next = pairs;
            pairs = pair;
        }
        let mut root = NOBODY;
        while pairs != NOBODY {
            let pair = pairs;
            pairs = self.detach(pair);
            root = self.meld(root, pair);
        }
        root
    }

    /// Makes a heap of its own of the first of a list. Returns the rest.
    pub(crate) fn detach(&mut self, first: u32) -> u32 {
        let node = self.node(first);
        node.previous = NOBODY;
        core::mem::replace(&mut node.next, NOBODY)
    }

    #[cfg(test)]
    fn count_step(&mut self) {
        self.steps += 1;
    }

    #[cfg(not(test))]
    const fn count_step(&mut self) {
        let _ = self;
    }
}
