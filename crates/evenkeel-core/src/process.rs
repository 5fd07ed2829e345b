//! Processes: the programs that run on a host's core, and the bill of each.

use core::fmt;

use crate::id::{ChannelId, Fd, SocketId};
use crate::system::System;
use crate::tcp::Fault;
use crate::time::{Duration, Instant};

pub use crate::id::ProcessId;

/// A program: what a process does, cut into steps.
///
/// A step is what a program does between two points where it could be descheduled: typically one system call
/// and the work that follows from it. It never blocks; it asks to.
pub trait Program: fmt::Debug + Send {
    /// Does one step.
    fn step(&mut self, system: &mut System<'_>) -> Step;
}

/// How a process goes on after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It wants to run again.
    Again,
    /// It sleeps until there is something to be had from the descriptor.
    Wait(Fd),
    /// The same, or until the time has come.
    WaitUntil(Fd, Instant),
    /// It sleeps in the call of [`System::select`] or [`System::poll`] that has just found nothing, until
    /// that would find something or the time has come. Then it makes the same call again, which is part of
    /// the first.
    Block(Instant),
    /// It sleeps until the time has come.
    Sleep(Instant),
    /// It ends; its sockets are closed.
    Exit,
}

/// What a process does.
#[derive(Debug)]
pub(crate) enum Body {
    /// A user's program.
    Program(Box<dyn Program>),
    /// A proxy daemon: protocol input for traffic that has no socket, at a process's priority and on its
    /// bill.
    Daemon(ChannelId),
    /// A thread outside of the host, which enters it to make its calls
    /// ([`Host::enter`](crate::host::Host::enter)). Its protocol processing is scheduled like that of any
    /// process.
    Attached,
    /// Taken out while it runs.
    Running,
}

/// No thread outside is attached as that process: it never was, or it has been killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAttached;

impl fmt::Display for NotAttached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no thread outside is attached as that process")
    }
}

impl core::error::Error for NotAttached {}

impl NotAttached {
    /// Whose fault it is: the caller's.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        Fault::Misuse
    }
}

/// Whether the program of a process is a thread outside.
pub(crate) fn is_attached(processes: &[Option<Process>], id: ProcessId) -> bool {
    let process = processes.get(id.0 as usize).and_then(Option::as_ref);
    process.is_some_and(|process| matches!(process.body, Body::Attached))
}

/// What a sleeping process waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sleep {
    pub(crate) on: SleepsOn,
    pub(crate) until: Instant,
}

/// Beside the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SleepsOn {
    Nothing,
    Socket(SocketId),
    /// A call of `select` or `poll`.
    Call,
}

/// CPU time of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bill {
    /// What its own steps used.
    pub used: Duration,
    /// What it was charged: its own steps, and interrupts that happened to hit it.
    pub charged: Duration,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) body: Body,
    pub(crate) bill: Bill,
    pub(crate) sleep: Option<Sleep>,
    /// In the middle of a step: its effects are done, its time is not over yet.
    pub(crate) stepping: Option<Step>,
    /// The queue it read last.
    pub(crate) reads: Option<SocketId>,
    /// Its protocol processing, which takes turns with its program.
    pub(crate) protocol: Protocol,
}

/// Asynchronous protocol processing: a second thread of a process, as it were, with the process's priority
/// and on its bill (OSDI 1996, section 3.4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Protocol {
    /// A step of it is done, and its time is not over yet.
    pub(crate) stepping: bool,
    /// How much longer it has run than the program while both had something to do, in nanoseconds.
    pub(crate) ahead: i64,
}

impl Process {
    /// Whether protocol processing, if there is any to do, comes before the program: because that sleeps, or
    /// has had more time of late.
    pub(crate) fn prefers_protocol(&self) -> bool {
        self.sleep.is_some() || self.protocol.ahead <= 0
    }

    /// Notes who of the two has run while both could.
    pub(crate) fn balance(&mut self, protocol: bool, elapsed: Duration) {
        /// What one was ahead of long ago is forgotten.
        const AHEAD_MAX: i64 = 10_000_000;
        let elapsed = i64::try_from(elapsed.as_nanos()).unwrap_or(AHEAD_MAX);
        let ahead = if protocol { elapsed } else { -elapsed };
        self.protocol.ahead = self.protocol.ahead.saturating_add(ahead).clamp(-AHEAD_MAX, AHEAD_MAX);
    }
}
