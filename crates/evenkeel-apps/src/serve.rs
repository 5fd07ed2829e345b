//! The run of services in real time, over UDP, TCP or both: on a device, or on a cable with clients at its
//! other end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evenkeel::metrics::Snapshot;
use evenkeel::raw::cable::{self, End};
use evenkeel::raw::host::Host;
use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::process::ProcessId;
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::{Engine, Observer};
use schemars::JsonSchema;
use serde::Serialize;

use crate::blast::{self, Blasted};
use crate::blaster;
use crate::captures::{Embedded, EmbeddedCaptured};
use crate::counters::HostCounters;
use crate::host_setup::{DeviceSetup, HostSetup, Limits, Occasion, SetupError, run_dry};
use crate::hosted::{Hosted, spawn};
use crate::service::{self, Service as UdpService};
use crate::stream::{self, Clients, ConnectionReport, ListenerReport, Load, Server, Service, TcpReport};

pub mod cores;

/// The services to run on a host, and the capture to record of it.
#[derive(Debug, Clone)]
pub struct Serving<S> {
    /// A service over UDP.
    pub udp: Option<service::Options>,
    /// A service over TCP.
    pub tcp: Option<Listening<S>>,
    /// A capture of the frames that the host receives and sends.
    pub capture: Option<Embedded>,
}

/// A service over TCP.
#[derive(Debug, Clone)]
pub struct Listening<S> {
    /// The service.
    pub service: S,
    /// The options of its server.
    pub options: stream::Options,
    /// The most connections in the report.
    pub connections: usize,
}

impl<S> Listening<S> {
    /// Serves this service alone, without a capture.
    pub fn alone(self) -> Serving<S> {
        Serving { udp: None, tcp: Some(self), capture: None }
    }
}

/// The results of the services of a host.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Served {
    /// The time that the services ran, in seconds.
    pub seconds: f64,
    /// The results of the service over UDP, if there is one.
    #[serde(flatten)]
    pub datagrams: Option<Datagrams>,
    #[serde(flatten)]
    streams: Place,
    /// The counters of the host.
    pub counters: HostCounters,
    /// The result of the capture, if there is one.
    pub capture: Option<EmbeddedCaptured>,
    /// The reason why the device delivers no more frames; `None` if it works.
    pub device_failed: Option<String>,
    /// The part of the host on each core; empty if there is one host, wherever the kernel puts it.
    pub cores: Vec<OnCore>,
}

/// The results of the services of the host on one core of several.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct OnCore {
    /// The number of the processor.
    pub core: usize,
    /// The results of the service over UDP, if there is one.
    #[serde(flatten)]
    pub datagrams: Option<Datagrams>,
    #[serde(flatten)]
    streams: Place,
    /// The counters of the host.
    pub counters: HostCounters,
}

/// The place of a TCP service's results in the JSON report.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
enum Place {
    /// The results of the TCP service stand directly in the report, as there is no UDP service.
    Alone(Box<Streams>),
    /// The results stand in a field of their own, next to those of a UDP service, whose counters have the
    /// same names.
    Beside { streams: Option<Box<Streams>> },
}

impl Place {
    fn get(&self) -> Option<&Streams> {
        match self {
            Self::Alone(streams) => Some(streams),
            Self::Beside { streams } => streams.as_deref(),
        }
    }

    fn get_mut(&mut self) -> Option<&mut Streams> {
        match self {
            Self::Alone(streams) => Some(streams),
            Self::Beside { streams } => streams.as_deref_mut(),
        }
    }
}

impl Served {
    /// Returns the results of the service over TCP, if there is one.
    #[must_use]
    pub fn streams(&self) -> Option<&Streams> {
        self.streams.get()
    }

    fn streams_mut(&mut self) -> Option<&mut Streams> {
        self.streams.get_mut()
    }

    /// Reports connections as they were `before` they were closed.
    fn with_streams_of(mut self, before: &Self) -> Self {
        if let (Some(now), Some(before)) = (self.streams_mut(), before.streams()) {
            *now = Streams { tcp: now.tcp.clone(), ..before.clone() };
        }
        self
    }

    /// Adds the results of another host, which ran at the same time.
    fn with(mut self, other: Self) -> Self {
        self.seconds = self.seconds.max(other.seconds);
        if let (Some(datagrams), Some(other)) = (&mut self.datagrams, &other.datagrams) {
            datagrams.add(other);
        }
        if let (Some(streams), Some(other)) = (self.streams.get_mut(), other.streams.get()) {
            streams.add(other);
        }
        self.device_failed = self.device_failed.or(other.device_failed);
        self
    }
}

impl OnCore {
    /// Returns the results of the service over TCP, if there is one.
    #[must_use]
    pub fn streams(&self) -> Option<&Streams> {
        self.streams.get()
    }
}

impl Streams {
    /// Adds the results of the service of another host.
    fn add(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.open += other.open;
        self.most_open += other.most_open;
        self.failed += other.failed;
        self.reset += other.reset;
        self.timed_out += other.timed_out;
        self.requests += other.requests;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.connections.extend_from_slice(&other.connections);
        add_tcp(&mut self.tcp, &other.tcp);
    }
}

/// Adds the TCP of another host. A listener is on all hosts, so its queues are added.
fn add_tcp(tcp: &mut TcpReport, other: &TcpReport) {
    tcp.connections += other.connections;
    tcp.time_wait += other.time_wait;
    for listener in &other.listeners {
        let same = |own: &&mut ListenerReport| (own.port, &own.address) == (listener.port, &listener.address);
        match tcp.listeners.iter_mut().find(same) {
            Some(own) => {
                own.half_open += listener.half_open;
                own.to_accept += listener.to_accept;
                own.backlog += listener.backlog;
            }
            None => tcp.listeners.push(listener.clone()),
        }
    }
    for (name, count) in &other.counters {
        match tcp.counters.iter_mut().find(|(own, _)| own == name) {
            Some((_, own)) => *own += count,
            None => tcp.counters.push((name.clone(), *count)),
        }
    }
}

/// The results of a service over UDP.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Datagrams {
    /// Requests received.
    pub requests: u64,
    /// Bytes of payload in them.
    pub bytes: u64,
    /// Requests answered.
    pub answers: u64,
    /// Requests whose answer could not be sent.
    pub unanswered: u64,
    /// Requests that are not to be answered: from a port whose program may answer in turn, or to a broadcast.
    pub ignored: u64,
    /// The result of the generator at the other end of a cable; `None` on a device.
    pub generator: Option<Blasted>,
}

/// The results of a service over TCP.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Streams {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that were open just before the end.
    pub open: u64,
    /// The most open connections at a time.
    pub most_open: u64,
    /// Connections that were reset, or timed out by TCP.
    pub failed: u64,
    /// Failed connections that the client reset.
    pub reset: u64,
    /// Connections that were closed because the client took too long for the service.
    pub timed_out: u64,
    /// Requests answered, if the service has requests.
    pub requests: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// The busiest connections just before the server ended, the busiest first. At most as many as requested.
    pub connections: Vec<ConnectionReport>,
    /// The counters of the host's TCP.
    pub tcp: TcpReport,
    /// The result of the clients at the other end of a cable; `None` on a device.
    pub clients: Option<Clients>,
}

/// An event for the caller of running services.
#[derive(Debug)]
pub enum News<'a> {
    /// The services have their sockets.
    Started,
    /// The results so far, whenever the limits ask for a report.
    Glance(Occasion, &'a Served),
}

/// Serves on a device until a limit is reached, the device ends, or the process is asked to.
///
/// # Errors
/// [`SetupError`]
pub fn on_device<S: Service + 'static>(
    setup: &HostSetup,
    at: &DeviceSetup,
    serving: Serving<S>,
    limits: Limits,
    news: impl FnMut(News<'_>),
) -> Result<Served, SetupError> {
    let (engine, attached) = setup.on_device(at, Clock::start())?;
    let served = Running::start(engine, attached.interface, serving)?.run(limits, None, news)?;
    attached.close().map(|()| served)
}

/// A cable, and the host and load at its other end.
#[derive(Debug)]
pub struct Cabled<'a> {
    /// Receive rings of our end.
    pub queues: usize,
    /// The addresses and configuration of the host at the other end.
    pub other: &'a HostSetup,
    /// The load from the other end.
    pub load: Offer,
}

/// The load that the other end of a cable offers.
#[derive(Debug)]
pub enum Offer {
    /// The other end sends requests over UDP.
    Requests(blaster::Options),
    /// The other end opens TCP connections.
    Connections(Load),
}

/// The result of the load from the other end.
enum Done {
    Requests(Blasted),
    Connections(Box<Clients>),
}

/// Serves on a cable whose other end offers a load, until that load has ended or a limit is reached.
///
/// # Errors
/// [`SetupError`]
pub fn on_cable<S: Service + 'static>(
    setup: &HostSetup,
    cable: Cabled<'_>,
    serving: Serving<S>,
    limits: Limits,
    news: impl FnMut(News<'_>),
) -> Result<Served, SetupError> {
    let Cabled { queues, other, load } = cable;
    let clock = Clock::start();
    let (near, far) = pair(setup, queues);
    let mut engine = setup.engine(clock)?;
    let interface = engine.add_cable(near, &setup.addresses)?;
    let running = Running::start(engine, interface, serving)?;
    let (served, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let offering = scope.spawn(|| {
            let done = || served.load(Ordering::Acquire);
            let result = match load {
                Offer::Requests(load) => blast::on_cable(other, clock, far, load, done).map(Done::Requests),
                Offer::Connections(load) => stream::ask(other, clock, far, load, done)
                    .map(|clients| Done::Connections(Box::new(clients))),
            };
            ended.store(true, Ordering::Release);
            result
        });
        let result = running.run(limits, Some(&|| ended.load(Ordering::Acquire)), news);
        served.store(true, Ordering::Release);
        let done = offering.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let mut served = result?;
        match done {
            Done::Requests(blasted) => {
                served.datagrams.iter_mut().for_each(|d| d.generator = Some(blasted.clone()));
            }
            Done::Connections(clients) => {
                served.streams_mut().into_iter().for_each(|s| s.clients = Some((*clients).clone()));
            }
        }
        Ok(served)
    })
}

/// Makes a cable for a host with this setup. Returns the host's end, and the other end.
pub(crate) fn pair(setup: &HostSetup, queues: usize) -> (End, End) {
    let demultiplexes = setup.config.architecture == Architecture::NiLrp;
    let near = cable::Options { queues, demultiplexes, ..cable::Options::new("cable0", 2) };
    cable::pair(near, cable::Options::new("cable1", 1))
}

/// A host with services on it.
#[derive(Debug)]
pub(crate) struct Running {
    hosted: Hosted,
    services: Services,
}

#[derive(Debug, Default)]
struct Services {
    udp: Option<Arc<service::Counters>>,
    tcp: Option<Listener>,
}

#[derive(Debug)]
struct Listener {
    process: ProcessId,
    tally: Arc<stream::Counters>,
    connections: usize,
}

impl Running {
    /// Starts the services. They have their sockets when this returns, so a sender on a cable need not
    /// wait.
    pub(crate) fn start<S: Service + 'static>(
        engine: Engine,
        interface: InterfaceId,
        serving: Serving<S>,
    ) -> Result<Self, SetupError> {
        let mut hosted = Hosted::new(engine, interface, serving.capture.as_ref())?;
        let services = Services::start(&mut hosted.engine, serving)?;
        Ok(Self { hosted, services })
    }

    /// Serves within limits, or until another thread says that it is `done`.
    pub(crate) fn run(
        self,
        limits: Limits,
        done: Option<&dyn Fn() -> bool>,
        mut news: impl FnMut(News<'_>),
    ) -> Result<Served, SetupError> {
        let Self { mut hosted, services } = self;
        let report = |engine: &Engine, elapsed| {
            let served = services.report(engine.host(), &engine.observer(), elapsed);
            Served { device_failed: engine.failed_device(), ..served }
        };
        news(News::Started);
        let is_done = || done.is_some_and(|done| done());
        let over = || services.ended() || is_done();
        let mut elapsed = hosted.drive_with(limits, done.is_some(), over, |engine, elapsed, occasion| {
            news(News::Glance(occasion, &report(engine, elapsed)));
        })?;
        services.check()?;
        let last = report(&hosted.engine, elapsed);
        if is_done() && !services.ended() && services.tcp.is_none() {
            // The frames sent last are still in transit.
            elapsed += run_dry(&mut hosted.engine)?;
        }
        if let Some(Listener { process, tally, .. }) = &services.tcp {
            hosted.farewell(*process, tally.ended())?;
        }
        hosted.drain()?;
        let served = report(&hosted.engine, elapsed).with_streams_of(&last);
        Ok(Served { capture: hosted.finish()?, ..served })
    }
}

impl Services {
    /// Starts services on the host of `engine`. They have their sockets when this returns.
    fn start<S: Service + 'static>(engine: &mut Engine, serving: Serving<S>) -> Result<Self, SetupError> {
        let mut services = Self::default();
        if let Some(options) = serving.udp {
            let tally = Arc::new(service::Counters::default());
            let program = Box::new(UdpService::new(options, Arc::clone(&tally)));
            spawn(engine, "service", program, || tally.opened() || tally.ended())?;
            services.udp = Some(tally);
        }
        if let Some(Listening { service, options, connections }) = serving.tcp {
            let tally = Arc::new(stream::Counters::default());
            let program = Box::new(Server::new(service, options, Arc::clone(&tally)));
            let process = spawn(engine, "server", program, || tally.listening() || tally.ended())?;
            services.tcp = Some(Listener { process, tally, connections });
        }
        services.check()?;
        Ok(services)
    }

    /// Returns whether one of the services has ended.
    fn ended(&self) -> bool {
        self.udp.as_ref().is_some_and(|tally| tally.ended())
            || self.tcp.as_ref().is_some_and(|listener| listener.tally.ended())
    }

    /// Returns the error of a service that could not get its socket.
    fn check(&self) -> Result<(), SetupError> {
        if let Some(error) = self.udp.as_ref().and_then(|tally| tally.refused()) {
            return Err(error.into());
        }
        match self.tcp.as_ref().and_then(|listener| listener.tally.refused()) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Returns the results so far of services that have run for `elapsed`.
    fn report(&self, host: &Host, observer: &Observer, elapsed: Duration) -> Served {
        let snapshot = Snapshot::of(host, observer, elapsed);
        let tcp = self.tcp.as_ref();
        let streams = tcp.map(|listener| Box::new(listener.report(host, snapshot.tcp.clone())));
        Served {
            seconds: elapsed.as_secs_f64(),
            datagrams: self.udp.as_ref().map(|tally| Datagrams::of(tally)),
            streams: match streams {
                Some(streams) if self.udp.is_none() => Place::Alone(streams),
                streams => Place::Beside { streams },
            },
            counters: HostCounters::of(&snapshot, elapsed),
            capture: None,
            device_failed: None,
            cores: Vec::new(),
        }
    }
}

impl Listener {
    fn report(&self, host: &Host, tcp: TcpReport) -> Streams {
        let Self { tally, connections, .. } = self;
        Streams {
            accepted: tally.accepted(),
            open: tally.open(),
            most_open: tally.most(),
            failed: tally.failed(),
            reset: tally.reset(),
            timed_out: tally.timed_out(),
            requests: tally.requests(),
            bytes_in: tally.bytes_in(),
            bytes_out: tally.bytes_out(),
            connections: ConnectionReport::busiest(host, *connections),
            tcp,
            clients: None,
        }
    }
}

impl Datagrams {
    /// Adds the results of the service of another host.
    const fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.answers += other.answers;
        self.unanswered += other.unanswered;
        self.ignored += other.ignored;
    }

    fn of(tally: &service::Counters) -> Self {
        Self {
            requests: tally.requests(),
            bytes: tally.bytes(),
            answers: tally.answers(),
            unanswered: tally.unanswered(),
            ignored: tally.ignored(),
            generator: None,
        }
    }
}
