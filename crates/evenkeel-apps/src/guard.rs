//! A guard in front of the kernel's own sockets, and its report.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel::metrics::{GuardReader, Guarded};
use evenkeel::raw::device::LinkError;
use evenkeel::raw::kernel::{Guard, GuardOptions};
use evenkeel::raw::signal::Stop;
use evenkeel::raw::time::{Clock, Instant};
use evenkeel::raw::wait::Halt;

use crate::host_setup::{Limits, Occasion};

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

/// An attached guard, with what its account needs besides the counters. The thread that follows the machine's
/// addresses shares it with those that read the account.
struct Attached {
    guard: Mutex<Guard>,
    interfaces: Vec<String>,
    is_dry_run: bool,
    clock: Clock,
    begin: Instant,
}

impl Attached {
    fn guard(&self) -> MutexGuard<'_, Guard> {
        // Nothing that holds it panics.
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn account(&self) -> Result<Guarded, LinkError> {
        let guard = self.guard();
        Ok(Guarded {
            seconds: self.clock.now().since(self.begin).as_secs_f64(),
            interfaces: self.interfaces.clone(),
            mute: guard.mute().map(str::to_owned).collect(),
            dry_run: self.is_dry_run,
            ..Guarded::of(&guard.ports()?)
        })
    }
}

/// Guards the sockets behind network interfaces until the process is asked to end, or a limit is reached.
/// Calls `began` with the interfaces on which the kernel answers all SYNs, `publish` with a callback that
/// reads the account for other processes, and `watch` for each interim report. Returns the account.
///
/// # Errors
/// [`GuardError`]
pub fn run(
    interfaces: Vec<String>,
    options: &GuardOptions,
    limits: Limits,
    began: impl FnOnce(&[&str]),
    publish: impl FnOnce(GuardReader),
    mut watch: impl FnMut(Occasion, &Guarded),
) -> Result<Guarded, GuardError> {
    let (stop, clock, mut halt) = (Stop::on_signals()?, Clock::start(), Halt::new()?);
    halt.watch(stop.fd());
    limits.reports.iter().for_each(|reports| _ = halt.watch(reports.event().fd()));
    let guard = Guard::attach(&interfaces, options)?;
    halt.watch(guard.announcements());
    limits.leave_root()?;
    began(&guard.mute().collect::<Vec<_>>());
    let (guard, is_dry_run, begin) = (Mutex::new(guard), options.counts_only, clock.now());
    let attached = Arc::new(Attached { guard, interfaces, is_dry_run, clock, begin });
    // A reader does not keep the guard attached.
    let readable = Arc::downgrade(&attached);
    publish(Box::new(move || readable.upgrade()?.account().ok()));
    let mut heartbeat = limits.ready(begin);
    let end = limits.duration.map_or(Instant::NEVER, |duration| begin + duration);
    let mut next = limits.every.map_or(Instant::NEVER, |every| begin + every);
    while !stop.requested() && clock.now() < end {
        halt.until(&clock, next.min(end).min(heartbeat.next()))?;
        attached.guard().follow()?;
        heartbeat.beat(clock.now());
        let interval = limits.every.filter(|_| clock.now() >= next);
        next = interval.map_or(next, |every| clock.now() + every);
        if let Some(occasion) = limits.take_request().or(interval.map(|_| Occasion::Interval)) {
            watch(occasion, &attached.account()?);
        }
    }
    Ok(attached.account()?)
}
