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
    /// Runs one step. Returns how the process continues.
    fn step(&mut self, system: &mut System<'_>) -> Step;
}

/// The way in which a process continues after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It wants to run again.
    Again,
    /// It sleeps until there is something to be had from the descriptor.
    Wait(Fd),
    /// It sleeps as with [`Step::Wait`], but no longer than until this time.
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

/// The code that a process runs.
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
    /// Returns whose fault the error is: always the caller's.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        Fault::Misuse
    }
}

/// Returns whether the program of a process is a thread outside the host.
pub(crate) fn is_attached(processes: &[Option<Process>], id: ProcessId) -> bool {
    let process = processes.get(id.0 as usize).and_then(Option::as_ref);
    process.is_some_and(|process| matches!(process.body, Body::Attached))
}

/// The event and the time that a sleeping process waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sleep {
    pub(crate) on: SleepsOn,
    pub(crate) until: Instant,
}

/// The event, other than a time, that a sleeping process waits for.
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
    /// CPU time that the process's own steps used.
    pub used: Duration,
    /// CPU time that the process was charged for: its own steps, interrupts that happened to hit it, and
    /// discards of its frames beyond their share.
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
    /// The CPU time, in nanoseconds, by which it has outrun the program while both had something to do.
    pub(crate) ahead: i64,
}

impl Process {
    /// Returns whether protocol processing, if there is any to do, comes before the program: because the
    /// program sleeps, or has had at least as much time of late.
    pub(crate) fn prefers_protocol(&self) -> bool {
        self.sleep.is_some() || self.protocol.ahead <= 0
    }

    /// Records the time that protocol processing, or else the program, has used while both could run.
    pub(crate) fn balance(&mut self, protocol: bool, elapsed: Duration) {
        /// The largest lead that is remembered, in nanoseconds.
        const AHEAD_MAX: i64 = 10_000_000;
        let elapsed = i64::try_from(elapsed.as_nanos()).unwrap_or(AHEAD_MAX);
        let ahead = if protocol { elapsed } else { -elapsed };
        self.protocol.ahead = self.protocol.ahead.saturating_add(ahead).clamp(-AHEAD_MAX, AHEAD_MAX);
    }
}
