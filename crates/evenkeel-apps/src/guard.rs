//! A guard in front of the kernel's own UDP sockets, and its report.

use std::io;

use evenkeel::raw::device::LinkError;
use evenkeel::raw::kernel::{Guard, GuardOptions, GuardedPort};
use evenkeel::raw::signal::Stop;
use evenkeel::raw::time::{Clock, Instant};
use evenkeel::raw::wait::Halt;
use schemars::JsonSchema;
use serde::Serialize;

use crate::host_setup::{Limits, Occasion};

/// The account of a guard since it was attached.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Guarded {
    /// The time that the guard was attached, in seconds.
    pub seconds: f64,
    /// The network interfaces.
    pub interfaces: Vec<String>,
    /// Whether datagrams were only counted, and none was dropped.
    pub dry_run: bool,
    /// Datagrams for guarded sockets that the kernel got.
    pub passed: u64,
    /// Datagrams that were dropped in front of the kernel because the queue of their socket was full; with
    /// `dry_run`, datagrams that would have been.
    pub dropped: u64,
    /// The accounts of ports. A port has one as soon as a datagram for a socket has come there.
    pub ports: Vec<Port>,
}

/// The account of a UDP port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Port {
    /// The port.
    pub port: u16,
    /// Datagrams that the kernel got.
    pub passed: u64,
    /// Datagrams that were dropped, or would have been.
    pub dropped: u64,
}

/// The reason for which a guard could not run.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The guard could not be attached, or read.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The machine.
    #[error("cannot run the guard: {0}")]
    Machine(#[from] io::Error),
}

/// Guards the sockets behind network interfaces until the process is asked to end, or a limit is reached.
/// Calls `watch` for each interim report. Returns the account.
///
/// # Errors
/// [`GuardError`]
pub fn run(
    interfaces: Vec<String>,
    options: &GuardOptions,
    limits: Limits,
    began: impl FnOnce(),
    mut watch: impl FnMut(Occasion, &Guarded),
) -> Result<Guarded, GuardError> {
    let (stop, clock, mut halt) = (Stop::on_signals()?, Clock::start(), Halt::new()?);
    halt.watch(stop.fd());
    limits.reports.iter().for_each(|reports| _ = halt.watch(reports.event().fd()));
    let mut guard = Guard::attach(&interfaces, options)?;
    halt.watch(guard.announcements());
    limits.leave_root()?;
    began();
    let begin = clock.now();
    let mut heartbeat = limits.ready(begin);
    let account = |guard: &Guard| -> Result<Guarded, LinkError> {
        let seconds = clock.now().since(begin).as_secs_f64();
        Ok(account(interfaces.clone(), options.counts_only, seconds, &guard.ports()?))
    };
    let end = limits.duration.map_or(Instant::NEVER, |duration| begin + duration);
    let mut next = limits.every.map_or(Instant::NEVER, |every| begin + every);
    while !stop.requested() && clock.now() < end {
        halt.until(&clock, next.min(end).min(heartbeat.next()))?;
        guard.follow()?;
        heartbeat.beat(clock.now());
        let interval = limits.every.filter(|_| clock.now() >= next);
        next = interval.map_or(next, |every| clock.now() + every);
        if let Some(occasion) = limits.take_request().or(interval.map(|_| Occasion::Interval)) {
            watch(occasion, &account(&guard)?);
        }
    }
    Ok(account(&guard)?)
}

fn account(interfaces: Vec<String>, dry_run: bool, seconds: f64, ports: &[GuardedPort]) -> Guarded {
    let of_port = |&GuardedPort { port, passed, dropped }| Port { port, passed, dropped };
    Guarded {
        seconds,
        interfaces,
        dry_run,
        passed: ports.iter().map(|account| account.passed).sum(),
        dropped: ports.iter().map(|account| account.dropped).sum(),
        ports: ports.iter().map(of_port).collect(),
    }
}
