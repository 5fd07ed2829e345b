//! Runs a generator on the kernel's sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};

use evenkeel::raw::cpu::set_timer_slack;
use evenkeel::raw::kernel::{Connections, Happened};
use evenkeel::raw::signal::Stop;
use evenkeel::raw::time::{Clock, Duration, Instant};

use super::effort::Meter;
use super::generator::{Generator, Glance};
use super::news::News;
use super::plan::Plan;
use super::report::{Effort, Measured};
use super::request::Request;
use super::transport::{Close, Fault, Id, Transport};
use crate::host_setup::Limits;

/// The addresses that connections go to, and those that they come from.
#[derive(Debug, Clone)]
pub struct OnKernel {
    /// All addresses that the server may have.
    pub to: Vec<SocketAddr>,
    /// The addresses to connect from, in turn. If there are none, the kernel chooses.
    pub from: Vec<IpAddr>,
}

/// Runs a plan on the calling thread. Calls `watch` with a glance at intervals of `limits.every`, and with
/// a report when one is requested. Ends early when the process is asked to end.
///
/// # Errors
/// The kernel refuses the descriptors with which the generator waits.
pub fn run(
    at: OnKernel,
    plan: Plan,
    request: Request,
    limits: Limits,
    mut watch: impl FnMut(News<'_>),
) -> io::Result<(Measured, Effort)> {
    // Without this, requests begin 50 µs late. They also do so if the process may not set the timer slack.
    let _ = set_timer_slack(Duration::from_nanos(1));
    let (clock, stop) = (Clock::start(), Stop::on_signals()?);
    let mut generator = Generator::new(plan, request).with_addresses(at.to.len());
    let reports = limits.reports.map(|reports| reports.event().fd());
    let events: Vec<_> = core::iter::once(stop.fd()).chain(reports).collect();
    let mut sockets = Sockets { connections: Connections::new(&events)?, at, next: 0, ended: Vec::new() };
    let (mut happened, mut is_notified) = (Vec::new(), false);
    let mut meter = None;
    let mut next_watch = limits.every.map_or(Instant::NEVER, |every| clock.now() + every);
    while !generator.is_over() {
        let now = clock.now();
        if stop.requested() {
            generator.stop(now);
            break;
        }
        generator.turn(now, &mut sockets);
        let Glance { finding, gathering, .. } = generator.glance(now);
        if !finding && !gathering && meter.is_none() {
            meter = Some(Meter::start(now));
        }
        if let (true, Some(every)) = (now >= next_watch, limits.every) {
            watch(News::Glance(&generator.glance(now)));
            next_watch = now + every;
        }
        if is_notified && limits.take_request().is_some() {
            let effort = meter.as_ref().map_or_else(Effort::default, |meter| meter.effort(now));
            watch(News::Report { measured: &generator.so_far(now), effort, hosts: None });
        }
        if generator.is_over() {
            break;
        }
        let until = generator.deadline().min(next_watch);
        is_notified = sockets.connections.wait(&clock, until, &mut happened)?;
        for Happened { token, ended } in happened.drain(..) {
            if ended {
                sockets.record_end(token);
            }
            generator.handle(clock.now(), Id::of_token(token), &mut sockets);
        }
    }
    let now = clock.now();
    let effort = meter.unwrap_or_else(|| Meter::start(now)).effort(now);
    Ok((generator.finish(now, &mut sockets), effort))
}

struct Sockets {
    connections: Connections,
    at: OnKernel,
    /// The index of the source address whose turn it is.
    next: usize,
    /// For each place, the token of the last connection there whose end the server is known to have closed.
    ended: Vec<u64>,
}

impl Sockets {
    fn record_end(&mut self, token: u64) {
        let place = Id::of_token(token).place as usize;
        if place >= self.ended.len() {
            self.ended.resize(place + 1, 0);
        }
        self.ended[place] = token;
    }
}

impl Transport for Sockets {
    fn connect(&mut self, id: Id, address: usize) -> Result<(), Fault> {
        let Some(&to) = self.at.to.get(address) else { return Err(Fault::Unreachable) };
        let source = self.at.from.get(self.next % self.at.from.len().max(1)).copied();
        self.next = self.next.wrapping_add(1);
        self.connections.open(id.place, id.token(), to, source).map_err(|error| fault(&error))
    }

    fn is_open(&mut self, id: Id) -> Result<bool, Fault> {
        self.connections.is_open(id.place).map_err(|error| fault(&error))
    }

    fn write(&mut self, id: Id, bytes: &[u8]) -> Result<usize, Fault> {
        self.connections.write(id.place, bytes).map_err(|error| fault(&error))
    }

    fn read(&mut self, id: Id, to: &mut [u8]) -> Result<Option<usize>, Fault> {
        self.connections.read(id.place, to).map_err(|error| fault(&error))
    }

    fn has_ended(&mut self, id: Id) -> bool {
        self.ended.get(id.place as usize) == Some(&id.token())
    }

    fn close(&mut self, id: Id, how: Close) {
        match how {
            Close::Ordinary => self.connections.close(id.place),
            Close::Reset => self.connections.reset(id.place),
        }
    }
}

fn fault(error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Fault::Refused,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
            Fault::Reset
        }
        io::ErrorKind::TimedOut => Fault::TimedOut,
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => Fault::NoPort,
        // EMFILE and ENFILE have no stable kind.
        io::ErrorKind::OutOfMemory => Fault::NoDescriptor,
        _ if matches!(error.raw_os_error(), Some(EMFILE | ENFILE | ENOBUFS)) => Fault::NoDescriptor,
        _ => Fault::Unreachable,
    }
}

/// Linux's error numbers (errno(3)), equal on every architecture that Rust supports except MIPS.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOBUFS: i32 = 105;
