//! The place of a host on a link and its addresses there, for the commands that serve and the load
//! generators.

use std::io;
use std::path::PathBuf;

use evenkeel::metrics::Reader;
use evenkeel::raw::capture::{FilterError, Recorded, Recording};
use evenkeel::raw::device::{Address, Device, DeviceSpec, LinkError, OpenOptions, open_queues, open_with};
use evenkeel::raw::error::{BindError, ListenError};
use evenkeel::raw::frame::PoolLimit;
use evenkeel::raw::host::{AddInterfaceError, Config, Host};
use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::kernel::{FollowError, sharing};
use evenkeel::raw::signal::{ReportRequests, Stop};
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wire::{IpAddress, IpCidr};
use evenkeel::{Ended, Engine, Group, Notice};

use crate::cores;
use crate::supervised::{Heartbeat, Manager, Supervised};

/// Neighbour updates that a host keeps until it passes them on to the others: before it halts or within 20
/// µs.
pub(crate) const NEIGHBOR_UPDATES: usize = 256;
/// The longest time that a host runs before it checks whether another thread has finished.
const SLICE: Duration = Duration::from_millis(20);
/// The time that a host runs between two checks whether it has run dry.
const DRY_SLICE: Duration = Duration::from_millis(5);
/// The time limit for work that takes no time unless the machine gives the core to others.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// A host's place on a link.
#[derive(Debug, Clone)]
pub struct HostSetup {
    /// The addresses of the host.
    pub addresses: Vec<IpCidr>,
    /// The routers for destinations that are not on the link.
    pub gateways: Vec<IpAddress>,
    /// The configuration of the host: its receive architecture and its limits.
    pub config: Config,
}

/// The device a host is attached to.
#[derive(Debug, Clone)]
pub struct DeviceSetup {
    /// The device to open.
    pub device: DeviceSpec,
    /// For a TAP: addresses of the kernel's end.
    pub kernel_addresses: Vec<IpCidr>,
    /// The hardware address of the host on the device.
    pub mac: Address,
    /// A file for all incoming and outgoing frames.
    pub dump: Option<PathBuf>,
    /// The callback that shows a line about an event of the device.
    pub say: fn(&str),
}

impl DeviceSetup {
    fn options(&self) -> OpenOptions {
        OpenOptions {
            address: self.mac,
            kernel_addresses: self.kernel_addresses.clone(),
            ..OpenOptions::default()
        }
    }

    fn open(&self, clock: Clock) -> Result<(Box<dyn Device>, Option<Recording>), LinkError> {
        let device = open_with(&self.device, &self.options(), clock)?;
        let Some(path) = &self.dump else { return Ok((device, None)) };
        let recorded = Recorded::new(device, path, clock)?;
        let recording = recorded.recording();
        Ok((Box::new(recorded), Some(recording)))
    }
}

/// The reason why a program could not run.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The link could not be used.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The host cannot take the interface.
    #[error(transparent)]
    Interface(#[from] AddInterfaceError),
    /// The host's limits are too small for the interface.
    #[error(transparent)]
    Memory(#[from] PoolLimit),
    /// The host cannot be set up.
    #[error(transparent)]
    Host(#[from] evenkeel::Error),
    /// The kernel's addresses cannot be shared.
    #[error(transparent)]
    Sharing(#[from] FollowError),
    /// A host cannot have each of the cores.
    #[error("{0}")]
    Cores(String),
    /// The program could not open its socket.
    #[error("cannot open the socket: {0}")]
    Socket(#[from] BindError),
    /// The program could not listen.
    #[error("cannot listen: {0}")]
    Listen(#[from] ListenError),
    /// The filter expression cannot be used on the link.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A load generator could not send.
    #[error(transparent)]
    Blaster(#[from] crate::blaster::Trouble),
    /// The machine failed.
    #[error("cannot run the host: {0}")]
    Machine(#[from] io::Error),
}

/// The limits of a run, and the occasions for its reports.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// The time after which the run stops; `None` for no end.
    pub duration: Option<Duration>,
    /// The interval of progress reports; `None` for no such reports.
    pub every: Option<Duration>,
    /// Requests for a report (SIGUSR1). A request is consumed by the run that answers it.
    pub reports: Option<&'static ReportRequests>,
    /// The callback that receives a handle to the figures of each host of the run, for others to read.
    pub publish: Option<fn(Reader)>,
    /// The duties of the run as a service, if it may be one.
    pub supervised: Option<&'static Supervised>,
}

/// The occasion of a report about a running command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// An interval of [`Limits::every`] is over.
    Interval,
    /// A report was requested ([`Limits::reports`]).
    Request,
}

impl Limits {
    /// Makes the figures of the host of `engine` readable for others, if that is wanted.
    pub(crate) fn publish(&self, engine: &mut Engine) -> io::Result<()> {
        if let Some(publish) = self.publish {
            publish(engine.metrics()?);
        }
        Ok(())
    }

    /// Becomes another user, if that is wanted. All links and all files to write must be open.
    pub(crate) fn leave_root(&self) -> io::Result<()> {
        self.supervised.map_or(Ok(()), Supervised::leave_root)
    }

    /// Returns the service manager, if there is one.
    pub(crate) fn manager(&self) -> Option<&'static Manager> {
        self.supervised?.manager.as_ref()
    }

    /// Reports to the service manager that the run has begun. Returns the signs of life that it expects.
    pub(crate) fn ready(&self, now: Instant) -> Heartbeat {
        self.manager().iter().for_each(|manager| manager.ready());
        Heartbeat::start(self.supervised, now)
    }

    /// Returns whether a report was asked for, which this does not take.
    pub(crate) fn is_requested(&self) -> bool {
        self.reports.is_some_and(ReportRequests::is_pending)
    }

    /// Takes a request for a report.
    pub(crate) fn take_request(&self) -> Option<Occasion> {
        self.reports.is_some_and(ReportRequests::take).then_some(Occasion::Request)
    }
}

impl HostSetup {
    /// Creates a host with this setup, not yet attached to a link.
    ///
    /// # Errors
    /// [`SetupError`]
    pub(crate) fn engine(&self, clock: Clock) -> Result<Engine, SetupError> {
        let mut engine = self.unstopped(clock)?;
        engine.stop_on(Stop::on_signals()?);
        Ok(engine)
    }

    /// Creates a host that goes on when the process is asked to end.
    fn unstopped(&self, clock: Clock) -> Result<Engine, SetupError> {
        Ok(Engine::new(Host::new(self.config.clone())?, clock)?)
    }

    /// Creates a host with this setup, attached to a device of the operating system.
    ///
    /// # Errors
    /// [`SetupError`]
    pub(crate) fn on_device(&self, at: &DeviceSetup, clock: Clock) -> Result<(Engine, Attached), SetupError> {
        let stop = Stop::on_signals()?;
        let (mut engine, attached) = self.unstopped_on_device(at, clock)?;
        engine.stop_on(stop);
        Ok((engine, attached))
    }

    /// Creates a host on a device that goes on when the process is asked to end, for sockets of the program.
    ///
    /// # Errors
    /// [`SetupError`]
    pub(crate) fn unstopped_on_device(
        &self,
        at: &DeviceSetup,
        clock: Clock,
    ) -> Result<(Engine, Attached), SetupError> {
        let mut setup = self.clone();
        // A capture has no receiver of announcements.
        setup.config.stack.announce = !matches!(at.device, DeviceSpec::Pcap(_));
        if at.device.is_shared() {
            setup.config = sharing(setup.config)?;
            // The kernel's addresses and routes follow.
            (setup.addresses, setup.gateways) = Default::default();
        }
        let mut engine = setup.unstopped(clock)?;
        let (device, recording) = at.open(clock)?;
        let interface = engine.add_device_with(device, &setup.addresses, setup.config.plan())?;
        for gateway in setup.gateways {
            engine.add_gateway(gateway, interface)?;
        }
        if let Some(device) = at.device.interface().filter(|_| at.device.is_shared()) {
            engine.share(device)?;
        }
        follow_devices(&mut engine, at.say)?;
        Ok((engine, Attached { interface, recording }))
    }

    /// Creates a host for each core, all attached to one device that they share.
    ///
    /// # Errors
    /// [`SetupError`]
    pub(crate) fn on_cores(
        &self,
        at: &DeviceSetup,
        cores: &[usize],
        clock: Clock,
    ) -> Result<Group, SetupError> {
        cores::check(cores).map_err(SetupError::Cores)?;
        let stop = Stop::on_signals()?;
        let mut engines = Vec::new();
        for index in 0..cores.len() {
            let mut setup = self.clone();
            // One host announces the addresses for all hosts.
            setup.config.stack.announce = index == 0;
            setup.config.stack.neighbor_updates = NEIGHBOR_UPDATES;
            let mut engine = setup.unstopped(clock)?;
            engine.stop_on(stop);
            engines.push(engine);
        }
        let mut group = Group::new(engines)?;
        let devices = open_queues(&at.device, &at.options(), cores.len(), clock)?;
        for (index, (engine, device)) in group.engines_mut().iter_mut().zip(devices).enumerate() {
            let interface = engine.add_device_with(device, &self.addresses, self.config.plan())?;
            for &gateway in &self.gateways {
                engine.add_gateway(gateway, interface)?;
            }
            follow_devices(engine, if index == 0 { at.say } else { |_| {} })?;
        }
        Ok(group)
    }
}

/// Shows what happens to the devices of a host.
fn follow_devices(engine: &mut Engine, say: fn(&str)) -> io::Result<()> {
    engine.follow_devices(move |notice| {
        // A removed device ends the command with an error, so no line about it is shown.
        if !matches!(notice, Notice::Removed { .. } | Notice::Returned { .. }) {
            say(&notice.to_string());
        }
    })
}

/// A host's place on a device.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) interface: InterfaceId,
    recording: Option<Recording>,
}

impl Attached {
    /// Returns the error that ended the recording early, if there was one.
    pub(crate) fn close(self) -> Result<(), SetupError> {
        if let Some(recording) = self.recording {
            recording.frames()?;
        }
        Ok(())
    }
}

/// Makes a host process the frames in its rings and queues, when no more can arrive. Returns the time that it
/// ran.
///
/// # Errors
/// If the machine fails.
pub(crate) fn run_dry(engine: &mut Engine) -> io::Result<Duration> {
    let start = engine.clock().now();
    loop {
        let until = engine.clock().now() + DRY_SLICE;
        let ended = engine.run(until, |_| false)?;
        let (now, host) = (engine.clock().now(), engine.host_mut());
        let dry = host.in_rings() == 0 && host.queued() == 0;
        if dry || ended != Ended::Time || now >= start + PATIENCE {
            return Ok(now.since(start));
        }
    }
}

/// The times at which a driven host is checked, in addition to those of its limits. A host with such checks
/// wakes for each of them, even if nothing happens.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Looks {
    /// Whether another thread decides the result of `done`. Then `done` is called at least every 20 ms,
    /// otherwise whenever the host has done something.
    pub(crate) done_elsewhere: bool,
    /// The interval at which the watcher is called while frames come or go, independent of the limits.
    pub(crate) attend: Option<Duration>,
}

/// Runs a host within limits until `done`. Returns why and after how long it ended. `watch` is called as
/// often as `looks` says, and with the occasion whenever the limits ask for a report. It returns whether it
/// wants another call soon even if no frame comes or goes.
///
/// # Errors
/// If the machine fails.
pub(crate) fn drive(
    engine: &mut Engine,
    limits: Limits,
    looks: Looks,
    done: impl Fn() -> bool,
    mut watch: impl FnMut(&mut Engine, Duration, Option<Occasion>) -> bool,
) -> io::Result<(Ended, Duration)> {
    wake_on_requests(engine, limits);
    limits.leave_root()?;
    limits.publish(engine)?;
    let start = engine.clock().now();
    let mut heartbeat = limits.ready(start);
    let end = limits.duration.map_or(Instant::NEVER, |duration| start + duration);
    let mut next_watch = limits.every.map_or(Instant::NEVER, |every| start + every);
    let mut next_attend = looks.attend.map_or(Instant::NEVER, |attend| start + attend);
    let mut attended = moved(engine.host());
    loop {
        let now = engine.clock().now();
        let slice = if looks.done_elsewhere { now + SLICE } else { Instant::NEVER };
        // Nothing needs attention: the next frame begins the interval again.
        let waits = looks.attend.is_some() && next_attend == Instant::NEVER;
        let until = end.min(next_watch).min(next_attend).min(slice).min(heartbeat.next());
        let is_woken = |host: &Host| waits && moved(host) != attended || limits.is_requested();
        let ended = engine.run(until, |host| done() || is_woken(host))?;
        let now = engine.clock().now();
        let woken = ended == Ended::Done && now < end && !done();
        if !woken && (ended != Ended::Time || now >= end || done()) {
            return Ok((ended, now.since(start)));
        }
        heartbeat.beat(now);
        let interval = limits.every.filter(|_| now >= next_watch);
        let occasion = limits.take_request().or(interval.map(|_| Occasion::Interval));
        if occasion.is_some() || now >= next_attend {
            let moves = moved(engine.host());
            let more = watch(engine, now.since(start), occasion) || moves != attended;
            attended = moves;
            next_attend = looks.attend.filter(|_| more).map_or(Instant::NEVER, |attend| now + attend);
            next_watch = interval.map_or(next_watch, |every| now + every);
        } else if let (true, Some(attend)) = (woken, looks.attend) {
            next_attend = now + attend;
        }
    }
}

/// Makes a request for a report end the host's sleep. The request stays pending until it is taken.
fn wake_on_requests(engine: &mut Engine, limits: Limits) {
    if let Some(reports) = limits.reports {
        engine.attend_event(reports.event(), |_host, _now| {});
    }
}

/// Counts what has come to a host and left it.
fn moved(host: &Host) -> u64 {
    let ledger = host.ledger();
    ledger.received + ledger.originated + ledger.forwarded
}
