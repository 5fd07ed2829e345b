//! An emulator on devices.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evenkeel::raw::device::{DeviceChanges, DeviceSpec};
use evenkeel::raw::signal::{Stop, hangup_events};
use evenkeel::raw::time::{Clock, Instant};
use evenkeel::raw::wait::{EventFd, Halt};
use evenkeel_wan::Settings;

use super::emulator::{AtEnd, Emulator, Options, Remote};
use super::error::WanError;
use super::links::{Followed, open};
use super::report::Report;
use crate::host_setup::{Limits, Occasion};
use crate::link_plan::Link;
use crate::supervised::Manager;

/// The links and options of an emulator between devices.
#[derive(Debug, Clone)]
pub struct Wan {
    /// The links of the emulator.
    pub links: [Link; 2],
    /// The options of the emulator between the links.
    pub options: Options,
}

impl Wan {
    /// Checks the links.
    ///
    /// # Errors
    /// [`WanError::Links`]
    pub fn check(&self) -> Result<(), WanError> {
        let [one, other] = &self.links;
        if one.device.interface() == other.device.interface() {
            return Err(WanError::Links(format!("both links are the same device: {}", one.device)));
        }
        for link in &self.links {
            if !link.addresses.is_empty() || link.mac.is_some() {
                let what = "frames pass unchanged, so it has neither addresses nor mac= of its own";
                return Err(WanError::Links(format!("`{}`: {what}", link.name)));
            }
            let what = match &link.device {
                DeviceSpec::Tap(device) | DeviceSpec::Packet(device) if device.queues > 1 => {
                    "of frames in several rings nobody knows which came first: without queues="
                }
                DeviceSpec::Xdp(device) if device.queues.len() > 1 => {
                    "of frames in several queues nobody knows which came first: one queue"
                }
                _ => continue,
            };
            return Err(WanError::Links(format!("`{}`: {what}", link.name)));
        }
        Ok(())
    }
}

/// The function that reads the settings again on SIGHUP. It returns the settings of each direction and the
/// lines to show; an error is shown instead.
pub type Reread<'a> = Box<dyn FnMut() -> Result<([Settings; 2], Vec<String>), String> + Send + 'a>;

/// Forwards frames until a limit is reached or the process is asked to end. Calls `began` when all links are
/// open, and then `watch` as the limits require. A link whose device is removed is opened again when a device
/// of that name returns, and MTUs are followed. On SIGHUP it calls `reread` for the settings of later frames;
/// without it SIGHUP asks the process to end.
///
/// # Errors
/// [`WanError`]
pub fn run(
    wan: &Wan,
    limits: Limits,
    reread: Option<Reread<'_>>,
    say: fn(&str),
    began: impl FnOnce(),
    mut watch: impl FnMut(Occasion, &Report),
) -> Result<Report, WanError> {
    wan.check()?;
    let changing = Changing { manager: limits.manager(), ..Changing::new(reread, say)? };
    let (stop, clock) = (Stop::on_signals()?, Clock::start());
    let mut beside = Beside { followed: Vec::new(), changes: DeviceChanges::open()?, changing, say };
    let mut emulator =
        Emulator::new(wan.links.each_ref().map(|link| link.name.as_str()), &wan.options, clock, stop)?;
    for (port, link) in wan.links.iter().enumerate() {
        let device = open(link)?;
        beside.followed.push(Followed::new(link, &*device));
        emulator.take_device(port, device)?;
    }
    limits.leave_root()?;
    beside.complain();
    began();
    say(&format!("between {} and {}", wan.links[0].name, wan.links[1].name));
    let end = limits.duration.map_or(Instant::NEVER, |duration| clock.now() + duration);
    let (remote, mut halt) = (emulator.remote(), Halt::new()?);
    let (over, unwatched) = (&AtomicBool::new(false), &AtomicBool::new(false));
    let notifier = halt.notifier();
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("emulator".to_owned());
        let emulating = worker.spawn_scoped(scope, move || {
            let _ending = AtEnd(|| {
                over.store(true, Ordering::Release);
                notifier.notify();
            });
            let ran = emulator.run(end, stop, |_| unwatched.load(Ordering::Acquire));
            ran.map(|()| emulator.report(true))
        })?;
        let mut heartbeat = limits.ready(clock.now());
        halt.watch(beside.changes.fd());
        beside.changing.hangup.iter().for_each(|hangup| _ = halt.watch(hangup.fd()));
        limits.reports.iter().for_each(|reports| _ = halt.watch(reports.event().fd()));
        let mut watching = || -> io::Result<()> {
            let _ending = AtEnd(|| {
                unwatched.store(true, Ordering::Release);
                remote.notify();
            });
            let mut next = limits.every.map_or(Instant::NEVER, |every| clock.now() + every);
            while !over.load(Ordering::Acquire) {
                // The emulator receives the signal, and wakes this thread when it has ended.
                halt.until(&clock, next.min(heartbeat.next()))?;
                beside.follow(&remote)?;
                beside.changing.look(&remote);
                let interval = limits.every.filter(|_| clock.now() >= next);
                let occasion = limits.take_request().or(interval.map(|_| Occasion::Interval));
                next = interval.map_or(next, |every| clock.now() + every);
                if let Some(occasion) = occasion {
                    let report = remote.report(occasion == Occasion::Request);
                    report.iter().for_each(|report| watch(occasion, report));
                }
                if clock.now() >= heartbeat.next() && remote.report(false).is_some() {
                    heartbeat.beat(clock.now());
                }
            }
            Ok(())
        };
        let watched = watching();
        let report = emulating.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        watched?;
        Ok(report)
    })
}

/// The work of the thread next to the emulator: it follows the devices and reads the settings again.
struct Beside<'a> {
    followed: Vec<Followed>,
    changes: DeviceChanges,
    changing: Changing<'a>,
    say: fn(&str),
}

/// The reader of new settings, which change the treatment of frames on SIGHUP.
pub(super) struct Changing<'a> {
    /// The event of SIGHUP; `None` if there is nothing to read again.
    hangup: Option<&'static EventFd>,
    reread: Option<Reread<'a>>,
    say: fn(&str),
    /// The service manager, which follows this.
    manager: Option<&'static Manager>,
}

impl<'a> Changing<'a> {
    /// Takes SIGHUP as a request to read again, if there is something to read. This must come before the
    /// process takes SIGHUP as a signal to end.
    pub(super) fn new(reread: Option<Reread<'a>>, say: fn(&str)) -> io::Result<Self> {
        let hangup = if reread.is_some() { Some(hangup_events()?) } else { None };
        Ok(Self { hangup, reread, say, manager: None })
    }

    /// Reads and applies the settings, if SIGHUP has come. Needs a system call.
    pub(super) fn look(&mut self, emulator: &Remote) {
        if !self.hangup.is_some_and(EventFd::take) {
            return;
        }
        self.manager.iter().for_each(|manager| manager.reloading());
        match self.reread.as_mut().map(|reread| reread()) {
            Some(Ok((directions, lines))) => {
                emulator.change(directions);
                lines.iter().for_each(|line| (self.say)(line));
            }
            Some(Err(why)) => (self.say)(&format!("{why}; all stays as it was")),
            None => {}
        }
        self.manager.iter().for_each(|manager| manager.ready());
    }
}

impl Beside<'_> {
    /// Reports each direction whose frames can be too long for the other link.
    fn complain(&self) {
        if let [one, other] = &self.followed[..] {
            let complaints = [other.complaint(one), one.complaint(other)];
            complaints.into_iter().flatten().for_each(|what| (self.say)(&what));
        }
    }

    fn follow(&mut self, emulator: &Remote) -> io::Result<()> {
        let mut heard = Vec::new();
        while self.changes.read(|change| heard.push(change))? {}
        let mtus = |beside: &Self| beside.followed.iter().map(|followed| followed.mtu).collect::<Vec<_>>();
        let before = mtus(self);
        for change in heard {
            for (port, followed) in self.followed.iter_mut().enumerate() {
                followed.follow(port, &change, emulator).iter().for_each(|what| (self.say)(what));
            }
        }
        if mtus(self) != before {
            self.complain();
        }
        Ok(())
    }
}
