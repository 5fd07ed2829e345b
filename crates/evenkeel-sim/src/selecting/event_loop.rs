//! The loop of an event-driven server: `select`, and then a handler for each descriptor that is ready.

use evenkeel_core::host::System;
use evenkeel_core::process::Step;
use evenkeel_core::socket::{Fd, FdSets};
use evenkeel_core::time::{Duration, Instant};

use crate::workload::Tally;

/// What the loop takes in user mode at each call of `select`: its sets are made, and what it finds is looked
/// up in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoopCosts {
    /// However many descriptors there are.
    pub call: Duration,
    /// For each descriptor that it selects on.
    pub descriptor: Duration,
}

/// What a loop did.
#[derive(Debug, Clone, Default)]
pub struct LoopCounts {
    /// Calls of `select`.
    pub calls: Tally,
    /// Descriptors that were ready.
    pub events: Tally,
    /// Nanoseconds in user mode around the calls.
    pub nanos: Tally,
    /// The most descriptors that a call was about.
    pub most: Tally,
}

/// What a handler is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// There is something to read, or to accept.
    Readable(Fd),
    /// There is room to write.
    Writable(Fd),
}

/// The loop. A program asks it for what happens, one at a time, and sleeps when it says so.
///
/// A handler is called once for each descriptor that a call has found, in the order of their numbers; then
/// `select` is called again.
#[derive(Debug)]
pub struct EventLoop {
    costs: LoopCosts,
    selecting: FdSets,
    /// How many those are.
    count: u32,
    /// What the last call has found, and no handler was called for yet.
    ready: FdSets,
    /// In the middle of a call.
    asleep: bool,
    counts: LoopCounts,
}

impl EventLoop {
    /// A loop that selects on nothing yet, and what it counts.
    #[must_use]
    pub fn new(costs: LoopCosts) -> (Self, LoopCounts) {
        let counts = LoopCounts::default();
        let (selecting, ready) = (FdSets::new(), FdSets::new());
        (Self { costs, selecting, count: 0, ready, asleep: false, counts: counts.clone() }, counts)
    }

    /// From now on hears when there is something to read from `fd`, and not when there is room.
    pub fn read(&mut self, fd: Fd) {
        self.forget(fd);
        self.selecting.read.insert(fd.0);
        self.count += 1;
    }

    /// From now on hears when there is room to write to `fd`, and not what there is to read.
    pub fn write(&mut self, fd: Fd) {
        self.forget(fd);
        self.selecting.write.insert(fd.0);
        self.count += 1;
    }

    /// Hears nothing of `fd` any more, which will be closed or is of no interest for a while.
    pub fn forget(&mut self, fd: Fd) {
        let was_in = [self.selecting.read.remove(fd.0), self.selecting.write.remove(fd.0)];
        self.count -= was_in.into_iter().map(u32::from).sum::<u32>();
        self.ready.remove(fd.0);
    }

    /// What happens next.
    ///
    /// # Errors
    /// Nothing yet: how the program is to end its step, to be called again in the next one.
    ///
    /// # Panics
    /// If a descriptor was closed and not forgotten.
    pub fn next(&mut self, system: &mut System<'_>) -> Result<Happening, Step> {
        if let Some(happening) = self.take() {
            return Ok(happening);
        }
        if !self.asleep {
            let time = self.costs.call + self.costs.descriptor * self.count;
            system.compute(time);
            self.counts.calls.add_one();
            self.counts.nanos.add(time.as_nanos() as u64);
            self.counts.most.raise_to(self.count.into());
        }
        let found = system.select(&self.selecting, &mut self.ready);
        let found = found.expect("what is closed is forgotten");
        self.asleep = found == 0;
        self.counts.events.add(found as u64);
        // The handlers run when the call has returned.
        Err(if self.asleep { Step::Block(Instant::NEVER) } else { Step::Again })
    }

    /// The lowest of those that the last call has found.
    fn take(&mut self) -> Option<Happening> {
        let (read, write) = (self.ready.read.iter().next(), self.ready.write.iter().next());
        match (read, write) {
            (Some(read), write) if write.is_none_or(|write| read <= write) => {
                self.ready.read.remove(read);
                Some(Happening::Readable(Fd(read)))
            }
            (_, Some(write)) => {
                self.ready.write.remove(write);
                Some(Happening::Writable(Fd(write)))
            }
            _ => None,
        }
    }
}
