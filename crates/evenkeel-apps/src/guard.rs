//! A guard in front of the kernel's own sockets, and its report.

use std::io;

use evenkeel::raw::device::LinkError;
use evenkeel::raw::kernel::{Guard, GuardOptions, GuardedPort, Transport};
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
    /// Interfaces on which the kernel answers all SYNs itself, because they would drop the guard's answers: a
    /// veth does, while its other end has no XDP program.
    pub mute: Vec<String>,
    /// Whether packets were only counted, and none was dropped or answered.
    pub dry_run: bool,
    /// Packets that the kernel got: datagrams for guarded sockets, and SYNs for guarded listeners or for
    /// ports without one.
    pub passed: u64,
    /// Packets that were dropped in front of the kernel: because a queue was full, or because the kernel was
    /// to send no more resets. With `dry_run`, packets that would have been.
    pub dropped: u64,
    /// SYNs that were answered with a cookie because a listener's queue of SYNs was full. With `dry_run`,
    /// those that would have been.
    pub answered: u64,
    /// The accounts of ports. A port has one as soon as a packet for a socket has come there.
    pub ports: Vec<Port>,
    /// SYNs for ports without a listener.
    pub closed_ports: ClosedPorts,
}

/// The account of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Port {
    /// The protocol that the port belongs to.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
    /// Packets that the kernel got: datagrams, or SYNs.
    pub passed: u64,
    /// Packets that were dropped, or would have been.
    pub dropped: u64,
    /// SYNs that were answered with a cookie, or would have been.
    pub answered: u64,
}

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

/// The account of the SYNs for all ports without a listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ClosedPorts {
    /// SYNs that the kernel got, and refused by a reset.
    pub passed: u64,
    /// SYNs that were dropped because the kernel was to send no more resets, or would have been.
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
/// Calls `began` with the interfaces on which the kernel answers all SYNs, and `watch` for each interim
/// report. Returns the account.
///
/// # Errors
/// [`GuardError`]
pub fn run(
    interfaces: Vec<String>,
    options: &GuardOptions,
    limits: Limits,
    began: impl FnOnce(&[&str]),
    mut watch: impl FnMut(Occasion, &Guarded),
) -> Result<Guarded, GuardError> {
    let (stop, clock, mut halt) = (Stop::on_signals()?, Clock::start(), Halt::new()?);
    halt.watch(stop.fd());
    limits.reports.iter().for_each(|reports| _ = halt.watch(reports.event().fd()));
    let mut guard = Guard::attach(&interfaces, options)?;
    halt.watch(guard.announcements());
    limits.leave_root()?;
    began(&guard.mute().collect::<Vec<_>>());
    let begin = clock.now();
    let mut heartbeat = limits.ready(begin);
    let account = |guard: &Guard| -> Result<Guarded, LinkError> {
        let seconds = clock.now().since(begin).as_secs_f64();
        let mute = guard.mute().map(str::to_owned).collect();
        Ok(Guarded { mute, ..account(interfaces.clone(), options.counts_only, seconds, &guard.ports()?) })
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
    let is_closed = |account: &&GuardedPort| (account.transport, account.port) == (Transport::Tcp, 0);
    let closed = ports.iter().find(is_closed);
    Guarded {
        seconds,
        interfaces,
        mute: Vec::new(),
        dry_run,
        passed: ports.iter().map(|account| account.passed).sum(),
        dropped: ports.iter().map(|account| account.dropped).sum(),
        answered: ports.iter().map(|account| account.answered).sum(),
        ports: ports.iter().filter(|account| !is_closed(account)).map(Port::from).collect(),
        closed_ports: closed.map_or_else(ClosedPorts::default, |&GuardedPort { passed, dropped, .. }| {
            ClosedPorts { passed, dropped }
        }),
    }
}

impl From<&GuardedPort> for Port {
    fn from(&GuardedPort { transport, port, passed, dropped, answered }: &GuardedPort) -> Self {
        let protocol = match transport {
            Transport::Udp => Protocol::Udp,
            Transport::Tcp => Protocol::Tcp,
        };
        Self { protocol, port, passed, dropped, answered }
    }
}
