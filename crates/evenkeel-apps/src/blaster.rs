//! A load generator as a program on a host: its requests take the host's own way out, with neighbours and
//! routes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::socket::{BindError, Datagrams, Fd};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::time::{Duration, Instant};

use crate::pace::Pace;

/// Replies taken in one step, at most: sending goes before.
const REPLIES_PER_STEP: usize = 64;
/// How long replies are waited for after the last request.
const DRAIN: Duration = Duration::from_millis(100);

/// What a load generator is to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where requests go.
    pub to: IpEndpoint,
    /// Requests a second; `None` for as many as the host can.
    pub rate_pps: Option<u64>,
    /// Requests sent in one step, at most.
    pub burst_pkts: u64,
    /// Source ports.
    pub flows: u16,
    /// Payload of each request.
    pub payload: Vec<u8>,
    /// How long to send.
    pub duration: Option<Duration>,
    /// Requests to send.
    pub count: Option<u64>,
}

/// What a load generator has done; may be read from anywhere while it runs.
#[derive(Debug, Default)]
pub struct Tally {
    sent: AtomicU64,
    unsent: AtomicU64,
    missed: AtomicU64,
    replies: AtomicU64,
    sending_nanos: AtomicU64,
    ended: AtomicBool,
}

impl Tally {
    /// Requests handed to the host's output.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Requests the host would not send.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Requests given up because the program came too late for them.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Datagrams that came back.
    #[must_use]
    pub fn replies(&self) -> u64 {
        self.replies.load(Ordering::Relaxed)
    }

    /// How long requests have been sent.
    #[must_use]
    pub fn sending(&self) -> Duration {
        Duration::from_nanos(self.sending_nanos.load(Ordering::Relaxed))
    }

    /// Whether it has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// The program.
#[derive(Debug)]
pub struct Blaster {
    options: Options,
    tally: Arc<Tally>,
    sockets: Vec<Fd>,
    replies: Datagrams,
    next: usize,
    course: Course,
}

/// How far it is.
#[derive(Debug)]
enum Course {
    Fresh,
    Sending(Pace, Instant),
    Draining(Instant),
}

impl Blaster {
    /// A generator that tells `tally` what it does.
    #[must_use]
    pub fn new(options: Options, tally: Arc<Tally>) -> Self {
        Self {
            options,
            tally,
            sockets: Vec::new(),
            replies: Datagrams::new(REPLIES_PER_STEP),
            next: 0,
            course: Course::Fresh,
        }
    }

    fn start(&mut self, system: &mut System<'_>) -> Result<(), BindError> {
        for _ in 0..self.options.flows.max(1) {
            self.sockets.push(system.bind(None, 0)?);
        }
        let (now, burst) = (system.now(), self.options.burst_pkts);
        let pace = self
            .options
            .rate_pps
            .map_or_else(|| Pace::unlimited(burst, now), |rate| Pace::new(rate, burst, now));
        self.course = Course::Sending(pace, now);
        Ok(())
    }

    /// Sends what is due; says when to come again, or `None` if all is sent.
    fn send(&mut self, system: &mut System<'_>) -> Option<Step> {
        let Course::Sending(pace, start) = &mut self.course else { return None };
        let now = system.now();
        let elapsed = now.since(*start);
        let over = self.options.duration.is_some_and(|duration| elapsed >= duration);
        let left = self.options.count.map_or(u64::MAX, |count| count.saturating_sub(pace.granted()));
        if over || left == 0 {
            return None;
        }
        let due = pace.take(now).min(left);
        self.tally.missed.store(pace.missed(), Ordering::Relaxed);
        self.tally
            .sending_nanos
            .store(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let next = pace.next();
        for _ in 0..due {
            let socket = self.sockets[self.next % self.sockets.len()];
            self.next = self.next.wrapping_add(1);
            let sent = system.send(socket, self.options.to, &self.options.payload).is_ok();
            add(if sent { &self.tally.sent } else { &self.tally.unsent }, 1);
        }
        Some(if next <= now { Step::Again } else { Step::Sleep(next) })
    }

    fn take_replies(&mut self, system: &mut System<'_>) {
        let mut left = REPLIES_PER_STEP;
        for &socket in &self.sockets {
            while left > 0 {
                self.replies.limit(left);
                if system.receive_burst(socket, &mut self.replies).is_err() {
                    break;
                }
                add(&self.tally.replies, self.replies.len() as u64);
                left -= self.replies.len();
            }
        }
    }

    fn end(&self) -> Step {
        self.tally.ended.store(true, Ordering::Relaxed);
        Step::Exit
    }
}

impl Program for Blaster {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        self.take_replies(system);
        match self.course {
            Course::Fresh => match self.start(system) {
                Ok(()) => Step::Again,
                Err(_) => self.end(),
            },
            Course::Sending(..) => self.send(system).unwrap_or_else(|| {
                self.course = Course::Draining(system.now() + DRAIN);
                Step::Again
            }),
            Course::Draining(until) if system.now() >= until => self.end(),
            Course::Draining(until) => match self.sockets.first() {
                Some(&socket) if self.sockets.len() == 1 => Step::WaitUntil(socket, until),
                _ => Step::Sleep(until.min(system.now() + Duration::from_millis(1))),
            },
        }
    }
}

/// Only the program writes its counters, so that an addition need not be one operation.
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::two_hosts::{ADDRESSES, TwoHosts};

    /// A peer answers with one reply less than a step takes to the first flow, and with more to the second.
    #[test]
    fn a_step_takes_so_many_replies_of_all_its_flows() {
        let mut hosts = TwoHosts::new();
        let socket = hosts.turn(1, |system| system.bind(None, 9)).unwrap();
        let tally = Arc::new(Tally::default());
        let options = Options {
            to: IpEndpoint::new(ADDRESSES[1], 9),
            rate_pps: None,
            burst_pkts: 2,
            flows: 2,
            payload: vec![0; 18],
            duration: None,
            count: Some(2),
        };
        let mut blaster = Blaster::new(options, Arc::clone(&tally));
        while tally.sent() < 2 {
            assert_eq!(hosts.turn(0, |system| blaster.step(system)), Step::Again);
        }
        hosts.turn(1, |system| {
            for replies in [REPLIES_PER_STEP - 1, REPLIES_PER_STEP] {
                let request = system.receive(socket).unwrap();
                (0..replies).for_each(|_| system.send(socket, request.source(), &[7]).unwrap());
            }
        });
        for replies in [REPLIES_PER_STEP, 2 * REPLIES_PER_STEP - 1] {
            hosts.turn(0, |system| blaster.step(system));
            assert_eq!(tally.replies(), replies as u64);
        }
    }
}
