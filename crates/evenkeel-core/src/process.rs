//! Processes: the programs that run on a host's core, and the bill of each.

use core::fmt;

use crate::channel::ChannelId;
use crate::socket::SocketId;
use crate::system::System;
use crate::time::{Duration, Instant};

/// Names a process of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// A program: what a process does, cut into steps.
///
/// A step is what a program does between two points where it could be descheduled: typically one system call and the work that
/// follows from it. It never blocks; it asks to.
pub trait Program: fmt::Debug + Send {
    /// Does one step.
    fn step(&mut self, system: &mut System<'_>) -> Step;
}

/// How a process goes on after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It wants to run again.
    Again,
    /// It sleeps until the socket has something to receive.
    Wait(SocketId),
    /// The same, or until the time has come.
    WaitUntil(SocketId, Instant),
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
    /// A proxy daemon: protocol input for traffic that has no socket, at a process's priority and on its bill.
    Daemon(ChannelId),
    /// Taken out while it runs.
    Running,
}

/// What a sleeping process waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sleep {
    pub(crate) socket: Option<SocketId>,
    pub(crate) until: Instant,
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
}
