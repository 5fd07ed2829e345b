//! The levels of a host, and the work items that run at them.

use crate::id::ProcessId;

/// The levels at which units run, highest first. A level runs only when those above it have nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Device and clock interrupts.
    Interrupt,
    /// The software interrupt: eager protocol input.
    SoftInterrupt,
    /// The polling thread, above all processes.
    PollingThread,
    /// Processes, in the scheduler's order.
    Process,
    /// The idle level: there is nothing else to do.
    Idle,
}

impl Level {
    /// All levels, highest first.
    pub const ALL: [Self; 5] =
        [Self::Interrupt, Self::SoftInterrupt, Self::PollingThread, Self::Process, Self::Idle];

    /// Returns the name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::SoftInterrupt => "soft-interrupt",
            Self::PollingThread => "polling-thread",
            Self::Process => "process",
            Self::Idle => "idle",
        }
    }
}

/// A work item that is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkItem {
    Clock,
    Device(usize),
    ChannelInterrupt,
    SoftInterrupt,
    /// Segments that earlier units have left to send.
    Segments,
    /// A transmit interrupt at a lower level than receive interrupts.
    Transmitted(usize),
    Poll,
    Process(ProcessId),
    /// Batched frames leave, as nothing adds to them.
    Transmit,
    Idle,
}

impl WorkItem {
    pub(super) const fn level(self) -> Level {
        match self {
            Self::Clock | Self::Device(_) | Self::ChannelInterrupt => Level::Interrupt,
            Self::SoftInterrupt | Self::Segments | Self::Transmitted(_) | Self::Transmit => {
                Level::SoftInterrupt
            }
            Self::Poll => Level::PollingThread,
            Self::Process(_) => Level::Process,
            Self::Idle => Level::Idle,
        }
    }
}

/// The work item that would run next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// The level of the work item.
    pub level: Level,
    /// The process, at process level.
    pub process: Option<ProcessId>,
    /// The process is in the middle of a step: the driver goes on with it, and does not call
    /// [`Host::turn`](super::Host::turn).
    pub resuming: bool,
}

/// A work item that has run: its effects are done, its time passes now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    /// The level at which the work item ran.
    pub level: Level,
    /// The process whose step it was, at process level.
    pub process: Option<ProcessId>,
    /// The process that is charged: `process`, or the one that an interrupt happened to hit.
    pub payer: Option<ProcessId>,
    /// Whether it counts against the cycle limit.
    pub limited: bool,
    /// It was protocol processing for the process, not a step of its program.
    pub protocol: bool,
}
