//! A guard in front of the kernel's own sockets, and its report.

mod flood;

use core::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel::metrics::{GuardReader, Guarded, ThreadShare};
use evenkeel::raw::device::LinkError;
use evenkeel::raw::kernel::{Guard, GuardOptions, NapiThreads};
use evenkeel::raw::signal::{Stop, hangup_events};
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wait::{EventFd, Halt};

use self::flood::Flood;
use crate::host_setup::{Limits, Occasion};
use crate::supervised::Manager;

/// The time after which the guard looks at its devices again, at the latest: the kernel does not announce all
/// that changes there.
const LOOK: Duration = Duration::from_secs(1);

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
    /// They are put back before the guard is detached: a veth without a program has no threads.
    threads: Option<Mutex<Threads>>,
    guard: Mutex<Guard>,
    interfaces: Vec<String>,
    clock: Clock,
    begin: Instant,
}

/// Threads that do the interfaces' work, with less weight while sockets are flooded.
struct Threads {
    threads: NapiThreads,
    share: u8,
    flood: Flood,
}

impl Threads {
    fn start(interfaces: &[String], share: u8, now: Instant) -> Result<Self, LinkError> {
        Ok(Self { threads: NapiThreads::start(interfaces, share)?, share, flood: Flood::new(now) })
    }

    fn follow(&mut self, now: Instant, guard: &Guard) -> Result<(), LinkError> {
        let is_flooded = self.flood.look(now, guard.datagrams()?);
        self.threads.lower(is_flooded)
    }

    fn account(&self) -> ThreadShare {
        ThreadShare { percent: self.share, lowered_seconds: self.flood.seconds() }
    }
}

impl Attached {
    /// Returns when [`Attached::follow`] is to be called next.
    fn next(&self) -> Instant {
        let look = self.clock.now() + LOOK;
        self.threads().map_or(look, |threads| look.min(threads.flood.next()))
    }

    /// Follows what has changed on the machine.
    fn follow(&self) -> Result<(), LinkError> {
        let (mut guard, now) = (self.guard(), self.clock.now());
        guard.follow()?;
        match self.threads() {
            Some(mut threads) if now >= threads.flood.next() => threads.follow(now, &guard),
            _ => Ok(()),
        }
    }

    fn threads(&self) -> Option<MutexGuard<'_, Threads>> {
        Some(self.threads.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

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
            behind: guard.behind().map(str::to_owned).collect(),
            dry_run: guard.options().counts_only,
            threads: self.threads().map(|threads| threads.account()),
            ..Guarded::of(&guard.accounts()?)
        })
    }
}

/// The function that reads the options again on SIGHUP. It returns them and the line to show; an error is
/// shown instead.
pub type Reread<'a> = Box<dyn FnMut() -> Result<(GuardOptions, String), String> + 'a>;

/// The reader of new options, which change the guard on SIGHUP.
struct Changing<'a> {
    /// The event of SIGHUP, and the reader; `None` if there is nothing to read again.
    hangup: Option<(&'static EventFd, Reread<'a>)>,
    manager: Option<&'static Manager>,
    say: fn(&str),
}

impl Changing<'_> {
    /// Reads and applies the options, if SIGHUP has come.
    fn look(&mut self, attached: &Attached) -> Result<(), LinkError> {
        let Some((hangup, reread)) = &mut self.hangup else { return Ok(()) };
        if !hangup.take() {
            return Ok(());
        }
        self.manager.iter().for_each(|manager| manager.reloading());
        match reread() {
            Ok((options, line)) => {
                attached.guard().set(&options)?;
                (self.say)(&line);
            }
            Err(why) => (self.say)(&format!("{why}; all stays as it was")),
        }
        self.manager.iter().for_each(|manager| manager.ready());
        Ok(())
    }
}

/// The guard that is to run.
pub struct Plan<'a> {
    /// The network interfaces.
    pub interfaces: Vec<String>,
    /// The sockets that are guarded.
    pub options: GuardOptions,
    /// Whether threads do the work of the interfaces: the percentage of a core that they get next to one
    /// program while sockets are flooded.
    pub share: Option<u8>,
    /// The reader of options on SIGHUP; without it SIGHUP asks the process to end.
    pub reread: Option<Reread<'a>>,
}

impl fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interfaces, options, share, reread } = self;
        let of = (interfaces, options, share, reread.is_some());
        f.debug_tuple("Plan").field(&of).finish()
    }
}

/// Guards the sockets behind network interfaces. Runs until the process is asked to end, or a limit is
/// reached. Calls `began` with the guard, `publish` with a callback that reads the account for other
/// processes, `say` with lines about a new configuration and about settings that a killed guard had left,
/// and `watch` for each interim report. Returns the account.
///
/// # Errors
/// [`GuardError`]
pub fn run(
    Plan { interfaces, options, share, reread }: Plan<'_>,
    limits: Limits,
    say: fn(&str),
    began: impl FnOnce(&Guard),
    publish: impl FnOnce(GuardReader),
    mut watch: impl FnMut(Occasion, &Guarded),
) -> Result<Guarded, GuardError> {
    // The order matters: SIGHUP otherwise ends the process.
    let hangup = reread.map(|reread| hangup_events().map(|hangup| (hangup, reread))).transpose()?;
    let mut changing = Changing { hangup, manager: limits.manager(), say };
    let (stop, clock, mut halt) = (Stop::on_signals()?, Clock::start(), Halt::new()?);
    halt.watch(stop.fd());
    changing.hangup.iter().for_each(|(hangup, _)| _ = halt.watch(hangup.fd()));
    limits.reports.iter().for_each(|reports| _ = halt.watch(reports.event().fd()));
    for device in NapiThreads::put_back() {
        say(&format!("put back the settings of {device}, which a guard had left that was killed"));
    }
    let guard = Guard::attach(&interfaces, &options)?;
    halt.watch(guard.announcements());
    let begin = clock.now();
    let threads = share.map(|share| Threads::start(&interfaces, share, begin)).transpose()?;
    limits.leave_root()?;
    began(&guard);
    let (guard, threads) = (Mutex::new(guard), threads.map(Mutex::new));
    let attached = Arc::new(Attached { threads, guard, interfaces, clock, begin });
    // A reader does not keep the guard attached.
    let readable = Arc::downgrade(&attached);
    publish(Box::new(move || readable.upgrade()?.account().ok()));
    let mut heartbeat = limits.ready(begin);
    let end = limits.duration.map_or(Instant::NEVER, |duration| begin + duration);
    let mut next = limits.every.map_or(Instant::NEVER, |every| begin + every);
    while !stop.requested() && clock.now() < end {
        halt.until(&clock, next.min(end).min(heartbeat.next()).min(attached.next()))?;
        attached.follow()?;
        changing.look(&attached)?;
        heartbeat.beat(clock.now());
        let interval = limits.every.filter(|_| clock.now() >= next);
        next = interval.map_or(next, |every| clock.now() + every);
        if let Some(occasion) = limits.take_request().or(interval.map(|_| Occasion::Interval)) {
            watch(occasion, &attached.account()?);
        }
    }
    Ok(attached.account()?)
}
