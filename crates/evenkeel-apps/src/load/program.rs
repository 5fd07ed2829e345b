//! Runs a generator as a program of a host, on this library's own TCP.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use evenkeel::Engine;
use evenkeel::raw::error::{ConnectError, StreamError};
use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::process::{Program, Step, System};
use evenkeel::raw::socket::{Event, EventQueue, Fd, TcpStream};
use evenkeel::raw::tcp::ListenerConfig;
use evenkeel::raw::tcp::connection::Error;
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wire::IpEndpoint;

use super::effort::Meter;
use super::generator::Generator;
use super::glance::Glance;
use super::hosts::Hosts;
use super::news::News;
use super::plan::Plan;
use super::report::{Effort, Measured};
use super::request::Request;
use super::transport::{Close, Fault, Id, Transport};
use crate::host_setup::{DeviceSetup, HostSetup, Limits, Occasion, SetupError};
use crate::hosted::Hosted;
use crate::http::Document;
use crate::serve::{Listening, Running, pair};
use crate::stream::{self, Web};

/// The maximum number of events handled in a step.
const EVENTS: usize = 16;

/// The place of the generator's host.
#[derive(Debug)]
pub enum Place {
    /// The host uses a device.
    Device(DeviceSetup),
    /// The host is on a cable, with a server on a host at the peer end.
    Cable {
        /// The number of receive rings of the generator's end.
        queues: usize,
        /// The setup of the host at the peer end.
        other: Box<HostSetup>,
        /// The size in bytes of the document that the server has.
        size: u64,
    },
}

/// The results of a generator on a host.
#[derive(Debug)]
pub struct OnHost {
    /// The generator's results.
    pub measured: Measured,
    /// The processor time that the generator's thread used, its host and TCP included.
    pub effort: Effort,
    /// The reports of the hosts.
    pub hosts: Hosts,
}

/// Runs a plan on a host. Calls `watch` as the limits say; they need no duration, because the plan has one.
/// Ends early when the process is asked to end.
///
/// # Errors
/// [`SetupError`]
pub fn run_on_host(
    setup: &HostSetup,
    place: Place,
    to: Vec<IpEndpoint>,
    generator: (Plan, Request),
    limits: Limits,
    watch: impl FnMut(News<'_>),
) -> Result<OnHost, SetupError> {
    let clock = Clock::start();
    match place {
        Place::Device(at) => {
            let (engine, attached) = setup.on_device(&at, clock)?;
            let done = run(engine, attached.interface, to, generator, limits, watch)?;
            attached.close().map(|()| done)
        }
        Place::Cable { queues, other, size } => {
            let mut engine = setup.engine(clock)?;
            let (near, far) = pair(setup, queues);
            let interface = engine.add_cable(near, &setup.addresses)?;
            let mut server = other.engine(clock)?;
            let server_interface = server.add_cable(far, &other.addresses)?;
            let listener = ListenerConfig::default();
            let port = to.first().map_or(0, |to| to.port);
            let options = stream::Options { port, listener, work: Duration::ZERO, count: None };
            let service = Listening { service: Web::new(Document::new(size)), options, connections: 0 };
            let server = Running::start(server, server_interface, service.alone())?;
            let ended = AtomicBool::new(false);
            thread::scope(|scope| {
                let serving = scope
                    .spawn(|| server.run(Limits::default(), Some(&|| ended.load(Ordering::Acquire)), |_| {}));
                let done = run(engine, interface, to, generator, limits, watch);
                ended.store(true, Ordering::Release);
                let served = serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                let mut done = done?;
                done.hosts.server = Some(Box::new(served));
                Ok(done)
            })
        }
    }
}

fn run(
    engine: Engine,
    interface: InterfaceId,
    to: Vec<IpEndpoint>,
    (plan, request): (Plan, Request),
    limits: Limits,
    mut watch: impl FnMut(News<'_>),
) -> Result<OnHost, SetupError> {
    let mut hosted = Hosted::new(engine, interface, None)?;
    let (program, watched) = client(to, plan, request);
    let process = hosted.engine.host_mut().spawn("load", 0, program);
    let clock = *hosted.engine.clock();
    let meter = Meter::start(clock.now());
    let over = || watched.is_over();
    let mut elapsed = hosted.drive(limits, over, |engine, elapsed, occasion| {
        let now = engine.clock().now();
        match occasion {
            Occasion::Interval => watched.glance(now).iter().for_each(|glance| watch(News::Glance(glance))),
            Occasion::Request => {
                let (effort, hosts) = (meter.effort(now), Hosts::of(engine, elapsed));
                let so_far = watched.so_far(now);
                let hosts = Some(&hosts);
                so_far.iter().for_each(|measured| watch(News::Report { measured, effort, hosts }));
            }
        }
    })?;
    let now = clock.now();
    let effort = meter.effort(now);
    elapsed += hosted.farewell(process, false)?;
    let hosts = Hosts::of(&hosted.engine, elapsed);
    let measured = watched.measured(now);
    Ok(OnHost { measured, effort, hosts })
}

/// Creates a generator as a program of a host, and a handle to watch it. The generator begins and ends with
/// the program. `to` are all addresses that the server may have.
#[must_use]
pub fn client(to: Vec<IpEndpoint>, plan: Plan, request: Request) -> (Box<dyn Program>, Watched) {
    let watched = Watched::default();
    watched.lock().generator = Some(Generator::new(plan, request).with_addresses(to.len()));
    (Box::new(Client { watched: watched.clone(), table: Table::new(to) }), watched)
}

/// A handle to a generator that runs as a program.
#[derive(Debug, Clone, Default)]
pub struct Watched(Arc<Mutex<Body>>);

#[derive(Debug, Default)]
struct Body {
    generator: Option<Generator>,
    measured: Option<Measured>,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, Body> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the generator has ended by itself.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.lock().measured.is_some()
    }

    /// Returns a snapshot of the generator; `None` when it has ended.
    #[must_use]
    pub fn glance(&self, now: Instant) -> Option<Glance> {
        self.lock().generator.as_ref().map(|generator| generator.glance(now))
    }

    /// Returns the results so far; `None` when the generator has ended.
    #[must_use]
    pub fn so_far(&self, now: Instant) -> Option<Measured> {
        self.lock().generator.as_ref().map(|generator| generator.so_far(now))
    }

    /// Takes the results. A generator that has not ended by itself is stopped at `now`.
    #[must_use]
    pub fn measured(&self, now: Instant) -> Measured {
        let body = &mut *self.lock();
        let rest = body.generator.take().map(|mut generator| {
            generator.stop(now);
            generator.finish(now, &mut Gone)
        });
        body.measured.take().or(rest).unwrap_or_default()
    }
}

/// The program that runs a generator and shares it with a [`Watched`].
#[derive(Debug)]
struct Client {
    watched: Watched,
    table: Table,
}

impl Program for Client {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let body = &mut *self.watched.lock();
        let Some(generator) = &mut body.generator else { return Step::Exit };
        let Ok(events) = EventQueue::of_all(system) else { return Step::Exit };
        let now = system.now();
        let mut streams = Streams { system, table: &mut self.table };
        generator.turn(now, &mut streams);
        let mut heard = 0;
        while heard < EVENTS {
            let Some(event) = streams.next_event(events) else { break };
            heard += 1;
            if let Some(id) = streams.table.record(&event) {
                generator.handle(now, id, &mut streams);
            }
        }
        if generator.is_over() {
            body.measured = body.generator.take().map(|mut generator| generator.finish(now, &mut streams));
            return Step::Exit;
        }
        let deadline = generator.deadline();
        if heard > 0 || deadline <= now { Step::Again } else { Step::WaitUntil(events.fd(), deadline) }
    }
}

/// A table that maps connections to streams, and streams to connections.
#[derive(Debug)]
struct Table {
    to: Vec<IpEndpoint>,
    /// The streams by the places of their connections.
    streams: Vec<Option<Entry>>,
    /// The connections by the numbers of their streams.
    ids: Vec<Option<Id>>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    stream: TcpStream,
    connected: bool,
    closed: bool,
}

impl Table {
    const fn new(to: Vec<IpEndpoint>) -> Self {
        Self { to, streams: Vec::new(), ids: Vec::new() }
    }

    fn insert(&mut self, id: Id, stream: TcpStream) {
        let (place, number) = (id.place as usize, stream.fd().0 as usize);
        if place >= self.streams.len() {
            self.streams.resize(place + 1, None);
        }
        if number >= self.ids.len() {
            self.ids.resize(number + 1, None);
        }
        self.streams[place] = Some(Entry { stream, connected: false, closed: false });
        self.ids[number] = Some(id);
    }

    fn get(&self, id: Id) -> Option<Entry> {
        *self.streams.get(id.place as usize)?
    }

    fn remove(&mut self, id: Id) -> Option<TcpStream> {
        let entry = self.streams.get_mut(id.place as usize)?.take()?;
        *self.ids.get_mut(entry.stream.fd().0 as usize)? = None;
        Some(entry.stream)
    }

    /// Records an event of a stream, and returns the connection that the stream belongs to.
    fn record(&mut self, event: &Event) -> Option<Id> {
        let id = (*self.ids.get(Fd::of(event).0 as usize)?)?;
        let entry = self.streams.get_mut(id.place as usize)?.as_mut()?;
        entry.connected |= event.ready.is_writable();
        entry.closed |= event.ready.is_hang_up();
        Some(id)
    }
}

struct Streams<'a, 's> {
    system: &'a mut System<'s>,
    table: &'a mut Table,
}

impl Streams<'_, '_> {
    fn next_event(&mut self, events: EventQueue) -> Option<Event> {
        events.next(self.system).ok()
    }

    fn stream(&self, id: Id) -> Result<TcpStream, Fault> {
        self.table.get(id).map(|entry| entry.stream).ok_or(Fault::Reset)
    }
}

impl Transport for Streams<'_, '_> {
    fn connect(&mut self, id: Id, address: usize) -> Result<(), Fault> {
        let Some(&to) = self.table.to.get(address) else { return Err(Fault::Unreachable) };
        let stream = TcpStream::connect(self.system, to).map_err(unconnected)?;
        self.table.insert(id, stream);
        Ok(())
    }

    fn is_open(&mut self, id: Id) -> Result<bool, Fault> {
        let Some(entry) = self.table.get(id) else { return Err(Fault::Reset) };
        if entry.closed && !entry.connected {
            let error = entry.stream.take_error(self.system).ok().flatten();
            return Err(error.map_or(Fault::Reset, fault));
        }
        Ok(entry.connected)
    }

    fn write(&mut self, id: Id, bytes: &[u8]) -> Result<usize, Fault> {
        let stream = self.stream(id)?;
        Ok(now(stream.write(self.system, bytes))?.unwrap_or(0))
    }

    fn read(&mut self, id: Id, to: &mut [u8]) -> Result<Option<usize>, Fault> {
        let stream = self.stream(id)?;
        now(stream.read(self.system, to))
    }

    fn has_ended(&mut self, id: Id) -> bool {
        // Events report new data only after all earlier data was read, so the end is checked here.
        let ended = self.stream(id).and_then(|stream| now(stream.peek(self.system, &mut [0])));
        ended.is_err() || ended == Ok(Some(0))
    }

    fn close(&mut self, id: Id, how: Close) {
        let Some(stream) = self.table.remove(id) else { return };
        match how {
            Close::Ordinary => self.system.close(stream),
            // A stream whose connection was already over is closed, too.
            Close::Reset => drop(stream.abort(self.system)),
        }
    }
}

/// Returns the result of a call; `None` if the call would have blocked.
fn now<T>(result: Result<T, StreamError>) -> Result<Option<T>, Fault> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(StreamError::WouldBlock) => Ok(None),
        Err(StreamError::Failed(error)) => Err(fault(error)),
        Err(_) => Err(Fault::Reset),
    }
}

const fn unconnected(error: ConnectError) -> Fault {
    match error {
        ConnectError::NoPort | ConnectError::InUse => Fault::NoPort,
        ConnectError::Full | ConnectError::TooManyOpen => Fault::NoDescriptor,
        _ => Fault::Unreachable,
    }
}

const fn fault(error: Error) -> Fault {
    match error {
        Error::Refused => Fault::Refused,
        Error::TimedOut => Fault::TimedOut,
        Error::Unreachable => Fault::Unreachable,
        _ => Fault::Reset,
    }
}

/// The transport of a host that has ended, and its connections with it.
struct Gone;

impl Transport for Gone {
    fn connect(&mut self, _: Id, _: usize) -> Result<(), Fault> {
        Err(Fault::Unreachable)
    }

    fn is_open(&mut self, _: Id) -> Result<bool, Fault> {
        Err(Fault::Reset)
    }

    fn write(&mut self, _: Id, _: &[u8]) -> Result<usize, Fault> {
        Err(Fault::Reset)
    }

    fn read(&mut self, _: Id, _: &mut [u8]) -> Result<Option<usize>, Fault> {
        Err(Fault::Reset)
    }

    fn has_ended(&mut self, _: Id) -> bool {
        true
    }

    fn close(&mut self, _: Id, _: Close) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_has_no_room_for_is_no_fault_of_the_way() {
        for (error, expected) in [
            (ConnectError::NoPort, Fault::NoPort),
            (ConnectError::Full, Fault::NoDescriptor),
            (ConnectError::TooManyOpen, Fault::NoDescriptor),
            (ConnectError::NoRoute, Fault::Unreachable),
        ] {
            assert_eq!(unconnected(error), expected, "{error:?}");
        }
    }
}
