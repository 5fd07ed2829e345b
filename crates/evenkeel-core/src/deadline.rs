//! Everything on a host that waits for a time, by name.
//!
//! There is one of each part of a host, and its owner knows the part's deadline. The host queries all parts
//! (`Net::each_deadline`), which takes a comparison each, so no part has to report a change. There may be
//! any number of sleeping processes: they are timers in a wheel.

use evenkeel_timers::{Timer, Timers};

use crate::id::ProcessId;
use crate::time::Instant;

macro_rules! deadlines {
    ($($variant:ident => $name:literal, $handler:ident, $meaning:literal;)*) => {
        /// A part of a host, or a process, that is to be woken at a certain time.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Deadline {
            $(#[doc = $meaning] $variant,)*
            /// A process sleeps no longer than until then.
            Process(ProcessId),
        }

        impl Deadline {
            /// Returns the name used in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* Self::Process(_) => "process" }
            }

            /// Returns who acts on the deadline. Processes are woken, each by itself.
            const fn handler(self) -> Option<Handler> {
                match self { $(Self::$variant => Some(Handler::$handler),)* Self::Process(_) => None }
            }
        }
    };
}

deadlines! {
    ClockedInterrupts => "clocked-interrupts", Interfaces,
        "the tick at which interfaces may interrupt, or are polled";
    Transmit => "transmit", Transmit,
        "what has gathered leaves; an interface that could not send is tried again";
    Neighbors => "neighbors", Stack, "a neighbour is asked again, or given up";
    Reassembly => "reassembly", Stack, "the fragments of a packet have waited long enough for the others";
    Groups => "groups", Stack, "membership of a multicast group is reported";
    Claims => "claims", Stack, "an address of ours is announced or defended";
    Feedback => "feedback", Poller, "a full queue has held input back long enough";
    Limit => "limit", Poller, "a limit of the share of the core that goes to input begins a new period";
    Tcp => "tcp", Tcp, "the earliest of the retransmissions, delayed acknowledgments and the like";
    Fragments => "fragments", Fragments,
        "fragments whose first one is missing are looked at though the core is busy";
    Timers => "timers", Timers, "the earliest of the timers that programs have set";
    Buffers => "buffers", Buffers, "a sender that found too few free buffers is tried again";
    Offload => "offload", Offload,
        "what interfaces forward by themselves is looked at, or taken back";
    Decay => "decay", Scheduler, "the scheduler lets recent use of the core count for less";
}

/// A part of a host that acts at the clock interrupt, in the order in which they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handler {
    Poller,
    Interfaces,
    Transmit,
    Stack,
    Tcp,
    Timers,
    Fragments,
    Buffers,
    Offload,
    Scheduler,
}

impl Handler {
    const ALL: [Self; 10] = [
        Self::Poller,
        Self::Interfaces,
        Self::Transmit,
        Self::Stack,
        Self::Tcp,
        Self::Timers,
        Self::Fragments,
        Self::Buffers,
        Self::Offload,
        Self::Scheduler,
    ];
}

/// The processes that sleep until a certain time. There may be any number of them.
#[derive(Debug)]
pub(crate) struct Sleepers {
    timers: Timers<ProcessId>,
    /// The timers of processes that have ever slept until a certain time, by process number.
    processes: Vec<Option<Timer>>,
}

impl Sleepers {
    pub(crate) fn new() -> Self {
        Self { timers: Timers::new(), processes: Vec::new() }
    }

    /// Sets the time at which a sleeping process is woken; cancels it if that is [`Instant::NEVER`].
    pub(crate) fn set(&mut self, process: ProcessId, deadline: Instant) {
        if deadline == Instant::NEVER {
            return self.cancel(process);
        }
        let place = process.0 as usize;
        if place >= self.processes.len() {
            self.processes.resize_with(place + 1, || None);
        }
        let Self { timers, processes } = self;
        let timer = processes[place].get_or_insert_with(|| timers.register(process));
        timers.set(timer, deadline);
    }

    /// Cancels the deadline of a process that is awake, or sleeps without one.
    pub(crate) fn cancel(&mut self, process: ProcessId) {
        if let Some(Some(timer)) = self.processes.get(process.0 as usize) {
            self.timers.cancel(timer);
        }
    }

    /// Releases the timer of a process that has ended.
    pub(crate) fn forget(&mut self, process: ProcessId) {
        if let Some(timer) = self.processes.get_mut(process.0 as usize).and_then(Option::take) {
            self.timers.release(timer);
        }
    }

    /// Returns the earliest time at which a sleeping process is to be woken.
    pub(crate) const fn next_deadline(&self) -> Instant {
        self.timers.next_deadline()
    }

    /// Returns a process whose time has come, and ends its wait.
    pub(crate) fn poll_expired(&mut self, now: Instant) -> Option<ProcessId> {
        self.timers.poll_expired(now)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ProcessId, Instant)> {
        self.timers.iter()
    }
}

/// The parts of a host that have to act at one clock interrupt.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Due(u16);

impl Due {
    pub(crate) fn insert(&mut self, deadline: Deadline) {
        self.0 |= deadline.handler().map_or(0, |handler| 1 << handler as u8);
    }

    /// Returns those that have to act, each once.
    pub(crate) fn handlers(self) -> impl Iterator<Item = Handler> {
        Handler::ALL.into_iter().filter(move |&handler| self.0 & (1 << handler as u8) != 0)
    }
}
