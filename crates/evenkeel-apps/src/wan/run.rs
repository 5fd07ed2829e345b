//! An emulator on devices.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evenkeel_core::time::{Duration, Instant};
use evenkeel_link::{Clock, DeviceChanges, DeviceSpec, Halt, LinkError, Stop};
use evenkeel_wan::Settings;

use super::emulator::{Emulator, Remote, Setup};
use super::links::{Followed, open};
use super::report::Report;
use crate::host_setup::Limits;
use crate::route::plan::Link;

/// What an emulator is to be.
#[derive(Debug, Clone)]
pub struct Wan {
    /// Its links.
    pub links: [Link; 2],
    /// From the first to the second, and back.
    pub ways: [Settings; 2],
    /// Of its dice.
    pub seed: u64,
    /// The longest time that something due is waited for awake.
    pub spin: Duration,
    /// Whether its thread comes before all ordinary ones.
    pub real_time: bool,
    /// The processor that its thread is bound to.
    pub cpu: Option<usize>,
    /// Frames that there is memory for.
    pub memory_pkts: usize,
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

    pub(super) fn setup(&self) -> Setup {
        Setup {
            names: [0, 1].map(|n| self.links[n].name.clone()),
            ways: self.ways.clone(),
            seed: self.seed,
            spin: self.spin,
            real_time: self.real_time,
            cpu: self.cpu,
            memory_pkts: self.memory_pkts,
        }
    }
}

/// Lets frames through until a limit is reached or the process is asked to end; tells `watch` how it goes. A
/// link whose device is removed is taken up again when a device of that name returns.
///
/// # Errors
/// [`WanError`]
pub fn run(
    wan: &Wan,
    limits: Limits,
    say: fn(&str),
    mut watch: impl FnMut(&Report),
) -> Result<Report, WanError> {
    wan.check()?;
    let (stop, clock) = (Stop::on_signals()?, Clock::start());
    let mut beside = Beside { followed: Vec::new(), changes: DeviceChanges::open()?, say };
    let mut emulator = Emulator::new(wan.setup(), clock, stop)?;
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
    say(&format!("between {} and {}", wan.links[0].name, wan.links[1].name));
    let end = limits.duration.map_or(Instant::NEVER, |duration| clock.now() + duration);
    let (remote, mut halt, over) = (emulator.remote(), Halt::new()?, AtomicBool::new(false));
    let (notifier, is_over) = (halt.notifier(), &over);
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("emulator".to_owned());
        let emulating = worker.spawn_scoped(scope, move || {
            let ran = emulator.run(end, stop, |_| false);
            is_over.store(true, Ordering::Release);
            notifier.notify();
            ran.map(|()| emulator.report(true))
        })?;
        halt.watch(beside.changes.fd());
        let mut watching = || -> io::Result<()> {
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
        let watched = watching().inspect_err(|_| stop.request());
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
