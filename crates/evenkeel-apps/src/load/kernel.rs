//! Runs a generator on the kernel's sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};

use evenkeel::raw::cpu::set_timer_slack;
use evenkeel::raw::kernel::{Connections, Happened};
use evenkeel::raw::signal::Stop;
use evenkeel::raw::time::{Clock, Duration};

use super::crew::{self, Chosen, Seat};
use super::generator::Generator;
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

/// Runs a plan on `threads` threads. Calls `watch` on the calling thread, with a glance at intervals of
/// `limits.every`, and with a report when one is requested. Ends early when the process is asked to end.
///
/// # Errors
/// The kernel refuses the descriptors with which the generator waits.
pub fn run(
    at: &OnKernel,
    plan: &Plan,
    request: &Request,
    threads: usize,
    limits: Limits,
    watch: impl FnMut(News<'_>),
) -> io::Result<(Measured, Effort)> {
    let (clock, stop, chosen) = (Clock::start(), Stop::on_signals()?, Chosen::default());
    let generator = |plan: Plan| {
        let generator = Generator::new(plan, request.clone()).with_addresses(at.to.len());
        generator.with_others(chosen.clone())
    };
    let parts = plan.shares(threads).into_iter().map(generator).collect();
    crew::run(parts, &clock, limits, |seat| generate(seat, at.clone(), &clock, stop), || None, watch)
}

/// Makes the requests of one thread.
fn generate(seat: &Seat<Generator>, at: OnKernel, clock: &Clock, stop: &Stop) -> io::Result<Measured> {
    // Without this, requests begin 50 µs late. They also do so if the process may not set the timer slack.
    let _ = set_timer_slack(Duration::from_nanos(1));
    let mut sockets =
        Sockets { connections: Connections::new(&[stop.fd()])?, at, next: 0, ended: Vec::new() };
    let mut happened = Vec::new();
    loop {
        let deadline = {
            let (mut generator, now) = (seat.part(), clock.now());
            if stop.requested() {
                generator.stop(now);
            } else {
                generator.turn(now, &mut sockets);
            }
            if generator.is_over() {
                break;
            }
            if generator.is_running() {
                seat.measure_effort(now);
            }
            generator.deadline()
        };
        sockets.connections.wait(clock, deadline, &mut happened)?;
        let mut generator = seat.part();
        for Happened { token, ended } in happened.drain(..) {
            if ended {
                sockets.record_end(token);
            }
            generator.handle(clock.now(), Id::of_token(token), &mut sockets);
        }
    }
    let measured = seat.part().finish(clock.now(), &mut sockets);
    Ok(measured)
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
        self.connections.open(id.place, id.token(), to, source).map_err(|error| Fault::from(&error))
    }

    fn is_open(&mut self, id: Id) -> Result<bool, Fault> {
        self.connections.is_open(id.place).map_err(|error| Fault::from(&error))
    }

    fn write(&mut self, id: Id, bytes: &[u8]) -> Result<usize, Fault> {
        self.connections.write(id.place, bytes).map_err(|error| Fault::from(&error))
    }

    fn read(&mut self, id: Id, to: &mut [u8]) -> Result<Option<usize>, Fault> {
        self.connections.read(id.place, to).map_err(|error| Fault::from(&error))
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
