//! The loop of an event-driven server: `select`, and then a handler for each descriptor that is ready.

use evenkeel_core::host::System;
use evenkeel_core::process::Step;
use evenkeel_core::socket::{Fd, FdSets};
use evenkeel_core::system::{TcpListener, TcpStream};
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};

use crate::workload::Tally;

/// The CPU time that the loop takes in user mode at each call of `select`, to build its sets and to look up
/// the ready descriptors in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoopCosts {
    /// The time for each descriptor on which the loop selects.
    pub descriptor: Duration,
}

/// Counters of an event loop.
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

/// An event that the loop passes to the server's handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// There is a connection to accept.
    Acceptable(TcpListener),
    /// There is something to read.
    Readable(TcpStream),
    /// There is room to write.
    Writable(TcpStream),
}

/// An event loop around `select`. A program takes one event at a time from it, and ends its step when the
/// loop has none.
///
/// A handler runs once for each descriptor that a call has found, in the order of their numbers; then
/// `select` is called again.
#[derive(Debug)]
pub struct EventLoop {
    /// The port on which the loop listens.
    port: u16,
    config: ListenerConfig,
    listener: Option<TcpListener>,
    costs: LoopCosts,
    selecting: FdSets,
    /// The number of descriptors in `selecting`.
    count: u32,
    /// The ready descriptors of the last call whose handlers have not run yet.
    ready: FdSets,
    /// Whether the loop sleeps in the middle of a call.
    asleep: bool,
    counts: LoopCounts,
}

impl EventLoop {
    /// Creates a loop that will listen on `port` and selects on no descriptor yet, and its counters.
    #[must_use]
    pub fn new((port, config): (u16, ListenerConfig), costs: LoopCosts) -> (Self, LoopCounts) {
        let counts = LoopCounts::default();
        let events = Self {
            port,
            config,
            listener: None,
            costs,
            selecting: FdSets::new(),
            count: 0,
            ready: FdSets::new(),
            asleep: false,
            counts: counts.clone(),
        };
        (events, counts)
    }

    /// Selects on `fd` for reading from now on, and not for writing.
    pub fn read(&mut self, fd: impl Into<Fd>) {
        let fd = fd.into();
        self.forget(fd);
        self.selecting.read.insert(fd.0);
        self.count += 1;
    }

    /// Selects on `fd` for writing from now on, and not for reading.
    pub fn write(&mut self, fd: impl Into<Fd>) {
        let fd = fd.into();
        self.forget(fd);
        self.selecting.write.insert(fd.0);
        self.count += 1;
    }

    /// Stops selecting on `fd`, which will be closed or does not matter for a while.
    pub fn forget(&mut self, fd: impl Into<Fd>) {
        let fd = fd.into();
        let was_in = [self.selecting.read.remove(fd.0), self.selecting.write.remove(fd.0)];
        self.count -= was_in.into_iter().map(u32::from).sum::<u32>();
        self.ready.remove(fd.0);
    }

    /// Returns the next event; calls `select` if none is left from the last call.
    ///
    /// # Errors
    /// Returns the next event. If there is none yet, returns the end of the step, after which the program
    /// calls this again.
    ///
    /// # Panics
    /// If the loop cannot listen, or a descriptor was closed and not forgotten.
    pub fn next(&mut self, system: &mut System<'_>) -> Result<Happening, Step> {
        if self.listener.is_none() {
            self.listen(system);
        }
        if let Some(happening) = self.take() {
            return Ok(happening);
        }
        if !self.asleep {
            let time = self.costs.descriptor * self.count;
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

    fn listen(&mut self, system: &mut System<'_>) {
        let listener = TcpListener::listen(system, None, self.port, &self.config);
        let listener = listener.unwrap_or_else(|error| panic!("cannot listen: {error}"));
        self.read(listener);
        self.listener = Some(listener);
    }

    /// Takes the event of the lowest ready descriptor of the last call.
    fn take(&mut self) -> Option<Happening> {
        let (read, write) = (self.ready.read.iter().next(), self.ready.write.iter().next());
        match (read, write) {
            (Some(read), write) if write.is_none_or(|write| read <= write) => {
                self.ready.read.remove(read);
                let fd = Fd(read);
                Some(if self.listener == Some(TcpListener::from(fd)) {
                    Happening::Acceptable(TcpListener::from(fd))
                } else {
                    Happening::Readable(TcpStream::from(fd))
                })
            }
            (_, Some(write)) => {
                self.ready.write.remove(write);
                Some(Happening::Writable(TcpStream::from(Fd(write))))
            }
            _ => None,
        }
    }
}
