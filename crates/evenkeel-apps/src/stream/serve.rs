//! Running a server in real time: on a device, or on a cable with clients at its other end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evenkeel::Engine;
use evenkeel_core::cable::{self, End};
use evenkeel_core::process::ProcessId;
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::time::Duration;
use evenkeel_link::Clock;
use serde::Serialize;

use super::client::{self, Asked, Client, Load};
use super::report::{ConnectionReport, TcpReport};
use super::server::{Options, Server};
use super::session::Service;
use super::tally::Tally;
use crate::books::Books;
use crate::hosted::Hosted;
use crate::monitor::{Inside, InsideCaptured};
use crate::site::{Limits, PATIENCE, Port, Site, SiteError, drive, run_dry};

/// How long connections that are open when time is up may take to come to their end. Then they are cut off.
const GRACE: Duration = Duration::from_millis(500);
/// How long the last words of connections may take, when their program has ended.
const FAREWELL: Duration = Duration::from_millis(100);
/// The same of a program that has ended because all was done: what it wrote last is still to arrive, also over a network that loses.
const DELIVERY: Duration = Duration::from_secs(10);

/// What a server has done.
#[derive(Debug, Clone, Serialize)]
pub struct Served {
    /// How long it ran, in seconds.
    pub seconds: f64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open, before it ended.
    pub open: u64,
    /// The most that were open at a time.
    pub most_open: u64,
    /// Connections that were reset, or timed out by TCP.
    pub failed: u64,
    /// Connections that were closed because the client took too long for the service.
    pub timed_out: u64,
    /// Requests answered, of a service that has such.
    pub requests: u64,
    /// Octets read.
    pub octets_in: u64,
    /// Octets written.
    pub octets_out: u64,
    /// Connections, the busiest first, before the server ended: as many as were asked for.
    pub connections: Vec<ConnectionReport>,
    /// The host's TCP.
    pub tcp: TcpReport,
    /// What the host did.
    pub books: Books,
    /// On a cable: what the other end did.
    pub clients: Option<Clients>,
    /// What was captured.
    pub capture: Option<InsideCaptured>,
    /// Why no frame comes from the device any more; `None` if all is well.
    pub device_failed: Option<String>,
}

/// The other end of a server's cable.
#[derive(Debug, Clone, Serialize)]
pub struct Clients {
    /// How long they ran, in seconds.
    pub seconds: f64,
    /// What they did.
    #[serde(flatten)]
    pub asked: Asked,
    /// Their host's TCP.
    pub tcp: TcpReport,
    /// What their host did.
    pub books: Books,
}

/// How to serve, and what to tell of it.
#[derive(Debug, Clone)]
pub struct Serving {
    /// The server.
    pub options: Options,
    /// A capture of what comes and goes.
    pub capture: Option<Inside>,
    /// Connections to report on, at most.
    pub connections: usize,
}

/// Serves on a device until a limit is reached, the device ends, or the process is asked to.
///
/// # Errors
/// [`SiteError`]
pub fn on_device(
    site: &Site,
    port: &Port,
    service: impl Service + 'static,
    serving: Serving,
    limits: Limits,
    watch: impl FnMut(&Served),
) -> Result<Served, SiteError> {
    let (engine, attached) = site.on_device(port, Clock::start())?;
    let served =
        Running::start(engine, attached.interface, service, serving)?.run(limits, || false, watch)?;
    attached.close().map(|()| served)
}

/// A cable, and who is at its other end.
#[derive(Debug)]
pub struct Cabled<'a> {
    /// Receive rings of our end.
    pub queues: usize,
    /// Where the host at the other end stands.
    pub other: &'a Site,
    /// What its clients do.
    pub load: Load,
}

/// Serves on a cable at whose other end clients do as they are told, until they have ended. `every` is how often to say how it goes.
///
/// # Errors
/// [`SiteError`]
pub fn on_cable(
    site: &Site,
    cable: Cabled<'_>,
    service: impl Service + 'static,
    serving: Serving,
    every: Option<Duration>,
    watch: impl FnMut(&Served),
) -> Result<Served, SiteError> {
    let Cabled { queues, other, load } = cable;
    let limits = Limits { duration: None, every };
    let clock = Clock::start();
    let (near, far) = pair(site, queues);
    let mut engine = site.engine(clock)?;
    let interface = engine.add_cable(near, &site.addresses)?;
    let running = Running::start(engine, interface, service, serving)?;
    let (served, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let clients = scope.spawn(|| {
            let result = ask(other, clock, far, load, || served.load(Ordering::Acquire));
            ended.store(true, Ordering::Release);
            result
        });
        let result = running.run(limits, || ended.load(Ordering::Acquire), watch);
        served.store(true, Ordering::Release);
        let clients = clients.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(Served { clients: Some(clients), ..result? })
    })
}

/// A cable for a host that stands at `site`, and the other end.
pub(super) fn pair(site: &Site, queues: usize) -> (End, End) {
    let demultiplexes = site.config.architecture == Architecture::NiLrp;
    let near = cable::Options { queues, demultiplexes, ..cable::Options::new("cable0", 2) };
    cable::pair(near, cable::Options::new("cable1", 1))
}

/// Runs clients on the other end of a cable until they have ended, or `done`.
fn ask(
    site: &Site,
    clock: Clock,
    end: End,
    load: Load,
    done: impl Fn() -> bool,
) -> Result<Clients, SiteError> {
    let mut engine = site.engine(clock)?;
    let interface = engine.add_cable(end, &site.addresses)?;
    let tally = Arc::new(client::Tally::default());
    let duration = load.duration.map(|duration| duration + GRACE);
    let program = Client::new(load, site.config.seed, Arc::clone(&tally));
    let process = engine.host_mut().spawn("clients", 0, Box::new(program));
    let limits = Limits { duration, every: None };
    let (_, mut elapsed) = drive(&mut engine, limits, || tally.ended() || done(), |_, _| {})?;
    elapsed += if tally.ended() { run_dry(&mut engine)? } else { farewell(&mut engine, process, false)? };
    Ok(Clients {
        seconds: elapsed.as_secs_f64(),
        asked: tally.asked(),
        tcp: TcpReport::of(engine.host()),
        books: Books::of(engine.host_mut(), interface, elapsed),
    })
}

/// A host with a server on it.
#[derive(Debug)]
pub(super) struct Running {
    hosted: Hosted,
    process: ProcessId,
    tally: Arc<Tally>,
    connections: usize,
}

impl Running {
    pub(super) fn start(
        engine: Engine,
        interface: InterfaceId,
        service: impl Service + 'static,
        serving: Serving,
    ) -> Result<Self, SiteError> {
        let Serving { options, capture, connections } = serving;
        let mut hosted = Hosted::new(engine, interface, capture.as_ref())?;
        let (engine, tally) = (&mut hosted.engine, Arc::new(Tally::default()));
        let server = Server::new(service, options, Arc::clone(&tally));
        let process = engine.host_mut().spawn("server", 0, Box::new(server));
        // Who connects over a cable need not wait for the server: it listens before the first SYN.
        let until = engine.clock().now() + PATIENCE;
        engine.run(until, |_| tally.listening() || tally.ended())?;
        Ok(Self { hosted, process, tally, connections })
    }

    pub(super) fn run(
        self,
        limits: Limits,
        done: impl Fn() -> bool,
        mut watch: impl FnMut(&Served),
    ) -> Result<Served, SiteError> {
        let Self { mut hosted, process, tally, connections } = self;
        let interface = hosted.interface;
        let report = |engine: &mut Engine, elapsed| {
            let connections = ConnectionReport::busiest(engine.host(), connections);
            Served { connections, ..served(engine, interface, &tally, elapsed) }
        };
        let over = || tally.ended() || done();
        let mut elapsed = hosted.drive(limits, over, |engine, elapsed| watch(&report(engine, elapsed)))?;
        if let Some(error) = tally.refused() {
            return Err(error.into());
        }
        let last = report(&mut hosted.engine, elapsed);
        elapsed += farewell(&mut hosted.engine, process, tally.ended())?;
        hosted.drain()?;
        let Served { tcp, books, .. } = served(&mut hosted.engine, interface, &tally, elapsed);
        Ok(Served { tcp, books, capture: hosted.finish()?, ..last })
    }
}

/// Ends a program, if it has not ended, and lets its connections say so, with patience if all was `done`; says how long that took.
pub(super) fn farewell(engine: &mut Engine, process: ProcessId, done: bool) -> Result<Duration, SiteError> {
    engine.ignore_stop();
    let begin = engine.clock().now();
    engine.host_mut().kill(process, begin);
    let patience = if done { DELIVERY } else { FAREWELL };
    engine.run(begin + patience, |host| host.tcp().is_empty())?;
    let elapsed = engine.clock().now().since(begin);
    Ok(elapsed + run_dry(engine)?)
}

fn served(engine: &mut Engine, interface: InterfaceId, tally: &Tally, elapsed: Duration) -> Served {
    Served {
        seconds: elapsed.as_secs_f64(),
        accepted: tally.accepted(),
        open: tally.open(),
        most_open: tally.most(),
        failed: tally.failed(),
        timed_out: tally.timed_out(),
        requests: tally.requests(),
        octets_in: tally.octets_in(),
        octets_out: tally.octets_out(),
        connections: Vec::new(),
        tcp: TcpReport::of(engine.host()),
        books: Books::of(engine.host_mut(), interface, elapsed),
        clients: None,
        capture: None,
        device_failed: engine.failed_device(),
    }
}
