//! An emulator on devices.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evenkeel_core::time::Instant;
use evenkeel_link::{Clock, DeviceChanges, DeviceSpec, Halt, LinkError, Stop};

use super::emulator::{AtEnd, Emulator, Options, Remote};
use super::links::{Followed, open};
use super::report::Report;
use crate::host_setup::Limits;
use crate::route::plan::Link;

/// What an emulator is to be.
#[derive(Debug, Clone)]
pub struct Wan {
    /// Its links.
    pub links: [Link; 2],
    /// What is between them.
    pub options: Options,
}

/// Why an emulator could not run.
#[derive(Debug, thiserror::Error)]
pub enum WanError {
    /// The links do not suit.
    #[error("{0}")]
    Links(String),
    /// A link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The machine.
    #[error("cannot run the emulator: {0}")]
    Machine(#[from] io::Error),
}

impl Wan {
    /// Looks whether its links suit.
    ///
    /// # Errors
    /// [`WanError::Links`]
    pub fn check(&self) -> Result<(), WanError> {
        let [one, other] = &self.links;
        let name = |link: &Link| match &link.device {
            DeviceSpec::Tap(device) | DeviceSpec::Packet(device) => device.name.clone(),
            DeviceSpec::Pcap(path) => path.display().to_string(),
        };
        if name(one) == name(other) {
            return Err(WanError::Links(format!("both links are the same device: {}", one.device)));
        }
        for link in &self.links {
            if !link.addresses.is_empty() || link.mac.is_some() {
                let what = "frames pass unchanged, so it has neither addresses nor mac= of its own";
                return Err(WanError::Links(format!("`{}`: {what}", link.name)));
            }
            if let DeviceSpec::Tap(device) | DeviceSpec::Packet(device) = &link.device
                && device.queues > 1
            {
                let what = "of frames in several rings nobody knows which came first: without queues=";
                return Err(WanError::Links(format!("`{}`: {what}", link.name)));
            }
        }
        Ok(())
    }
}

/// Lets frames through until a limit is reached or the process is asked to end. Calls `began` when all links
/// are open, and then `watch` with how it goes. A link whose device is removed is opened again when a device
/// of that name returns.
///
/// # Errors
/// [`WanError`]
pub fn run(
    wan: &Wan,
    limits: Limits,
    say: fn(&str),
    began: impl FnOnce(),
    mut watch: impl FnMut(&Report),
) -> Result<Report, WanError> {
    wan.check()?;
    let (stop, clock) = (Stop::on_signals()?, Clock::start());
    let mut beside = Beside { followed: Vec::new(), changes: DeviceChanges::open()?, say };
    let mut emulator =
        Emulator::new(wan.links.each_ref().map(|link| link.name.as_str()), &wan.options, clock, stop)?;
    let mut mtus = Vec::new();
    for (port, link) in wan.links.iter().enumerate() {
        let device = open(link)?;
        beside.followed.push(Followed::new(link, &*device));
        mtus.push((&link.name, device.mtu()));
        emulator.take_device(port, device)?;
    }
    if let [(one, a), (other, b)] = mtus[..]
        && a != b
    {
        say(&format!("the MTU of {one} is {a} and that of {other} is {b}: what is larger is refused there"));
    }
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
        halt.watch(beside.changes.fd());
        let mut watching = || -> io::Result<()> {
            let _ending = AtEnd(|| {
                unwatched.store(true, Ordering::Release);
                remote.notify();
            });
            let mut next = limits.every.map_or(Instant::NEVER, |every| clock.now() + every);
            while !over.load(Ordering::Acquire) {
                // A signal is seen by the emulator, which wakes us when it has ended.
                halt.until(&clock, next)?;
                beside.follow(&remote)?;
                if clock.now() >= next {
                    next = limits.every.map_or(Instant::NEVER, |every| clock.now() + every);
                    remote.report().iter().for_each(&mut watch);
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

/// What is done beside the emulator, on another thread.
struct Beside {
    followed: Vec<Followed>,
    changes: DeviceChanges,
    say: fn(&str),
}

impl Beside {
    fn follow(&mut self, emulator: &Remote) -> io::Result<()> {
        let mut heard = Vec::new();
        while self.changes.read(|change| heard.push(change))? {}
        for change in heard {
            for (port, followed) in self.followed.iter_mut().enumerate() {
                followed.follow(port, &change, emulator).iter().for_each(|what| (self.say)(what));
            }
        }
        Ok(())
    }
}
