//! A load generator as a program on a host. Its requests leave through the host's stack, with its neighbours
//! and routes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use evenkeel::raw::error::{BindError, SendError};
use evenkeel::raw::process::{Program, Step, System};
use evenkeel::raw::socket::{Datagrams, UdpSocket};
use evenkeel::raw::time::{Duration, Instant};
use evenkeel::raw::wire::{IpAddress, IpEndpoint};

use crate::pace::Pace;

/// The most replies received in one step: sending has priority.
const REPLIES_PER_STEP: usize = 64;
/// The time to wait for replies after the last request.
const DRAIN: Duration = Duration::from_millis(100);
/// The time that the next hop has to answer before the first request. Queries are sent once a second (RFC
/// 4861 10). A device that was just created may take two seconds to see that its address is unique (RFC
/// 4862).
const RESOLUTION: Duration = Duration::from_secs(5);
/// The interval at which the program checks whether the next hop has answered.
const LOOK: Duration = Duration::from_millis(1);

/// The parameters of a load generator.
#[derive(Debug, Clone)]
pub struct Options {
    /// The destination of requests.
    pub to: IpEndpoint,
    /// Requests per second; `None` for the highest rate that the host reaches.
    pub rate_pps: Option<u64>,
    /// The most requests sent in one step.
    pub burst_pkts: u64,
    /// Source ports.
    pub flows: u16,
    /// Payload of each request.
    pub payload: Vec<u8>,
    /// The time for which requests are sent; `None` for no limit.
    pub duration: Option<Duration>,
    /// The number of requests to send; `None` for no limit.
    pub count: Option<u64>,
}

/// The reason why a load generator sent nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The generator could not open its sockets.
    #[error("cannot open a socket to send from: {0}")]
    Bind(#[from] BindError),
    /// The host has no route to the destination.
    #[error("cannot send to {0}: {1}")]
    Send(IpAddress, SendError),
    /// The next hop did not answer with its hardware address.
    #[error("{0} does not answer: it was asked for its hardware address for {RESOLUTION:?}")]
    Silent(IpAddress),
}

/// Counters of a load generator. Any thread may read them while it runs.
#[derive(Debug, Default)]
pub struct Counters {
    sent: AtomicU64,
    unsent: AtomicU64,
    missed: AtomicU64,
    replies: AtomicU64,
    sending_nanos: AtomicU64,
    ended: AtomicBool,
    trouble: Mutex<Option<Trouble>>,
}

impl Counters {
    /// Returns the requests that the host's output took. It may drop some of them before they reach a device.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the requests that the host refused to send.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Returns the requests that were skipped because the program ran late.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Returns the datagrams received in reply.
    #[must_use]
    pub fn replies(&self) -> u64 {
        self.replies.load(Ordering::Relaxed)
    }

    /// Returns the time for which requests have been sent.
    #[must_use]
    pub fn sending(&self) -> Duration {
        Duration::from_nanos(self.sending_nanos.load(Ordering::Relaxed))
    }

    /// Returns whether the generator has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Returns the reason why nothing was sent; `None` if something was, or the generator still waits.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        self.trouble.lock().map_or(None, |trouble| *trouble)
    }
}

/// The program of a load generator.
#[derive(Debug)]
pub struct Blaster {
    options: Options,
    tally: Arc<Counters>,
    sockets: Vec<UdpSocket>,
    replies: Datagrams,
    next: usize,
    course: Course,
}

/// The phase of a load generator.
#[derive(Debug)]
enum Course {
    Fresh,
    /// The generator waits for the next hop until this time.
    Resolving(Instant),
    Sending(Pace, Instant),
    Draining(Instant),
}

impl Blaster {
    /// Creates a generator that counts in `tally`.
    #[must_use]
    pub fn new(options: Options, tally: Arc<Counters>) -> Self {
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
            self.sockets.push(UdpSocket::bind(system, None, 0)?);
        }
        self.course = Course::Resolving(system.now() + RESOLUTION);
        Ok(())
    }

    /// Waits until the next hop's hardware address is known. Earlier requests would wait in a short queue,
    /// and most of them would never leave.
    fn resolve(&mut self, until: Instant, system: &mut System<'_>) -> Result<Step, Trouble> {
        let (to, now) = (self.options.to.addr, system.now());
        let hop = system.first_hop(to).map_err(|error| Trouble::Send(to, error))?;
        match hop.neighbor {
            Some(neighbor) if hop.hardware.is_none() && now >= until => {
                return Err(Trouble::Silent(neighbor));
            }
            Some(_) if hop.hardware.is_none() => return Ok(Step::Sleep(until.min(now + LOOK))),
            _ => {}
        }
        let burst = self.options.burst_pkts;
        let pace = self
            .options
            .rate_pps
            .map_or_else(|| Pace::unlimited(burst, now), |rate| Pace::new(rate, burst, now));
        self.course = Course::Sending(pace, now);
        Ok(Step::Again)
    }

    /// Sends the requests that are due. Returns when the next one is due; `None` after the last one.
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
            let sent = socket.send(system, self.options.to, &self.options.payload).is_ok();
            add(if sent { &self.tally.sent } else { &self.tally.unsent }, 1);
        }
        Some(if next <= now { Step::Again } else { Step::Sleep(next) })
    }

    fn take_replies(&mut self, system: &mut System<'_>) {
        let mut left = REPLIES_PER_STEP;
        for &socket in &self.sockets {
            while left > 0 {
                self.replies.limit(left);
                if socket.receive_burst(system, &mut self.replies).is_err() {
                    break;
                }
                add(&self.tally.replies, self.replies.len() as u64);
                left -= self.replies.len();
            }
        }
    }

    /// Ends the program before it has sent anything.
    fn give_up(&self, trouble: Trouble) -> Step {
        if let Ok(mut why) = self.tally.trouble.lock() {
            *why = Some(trouble);
        }
        self.end()
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
                Err(error) => self.give_up(error.into()),
            },
            Course::Resolving(until) => {
                self.resolve(until, system).unwrap_or_else(|trouble| self.give_up(trouble))
            }
            Course::Sending(..) => self.send(system).unwrap_or_else(|| {
                self.course = Course::Draining(system.now() + DRAIN);
                Step::Again
            }),
            Course::Draining(until) if system.now() >= until => self.end(),
            Course::Draining(until) => match self.sockets.first() {
                Some(&socket) if self.sockets.len() == 1 => Step::WaitUntil(socket.fd(), until),
                _ => Step::Sleep(until.min(system.now() + Duration::from_millis(1))),
            },
        }
    }
}

/// Adds to a counter. Only the program writes its counters, so the addition need not be one operation.
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
        let socket = hosts.turn(1, |system| UdpSocket::bind(system, None, 9)).unwrap();
        let tally = Arc::new(Counters::default());
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
            match hosts.turn(0, |system| blaster.step(system)) {
                Step::Sleep(until) => hosts.sleep(until),
                step => assert_eq!(step, Step::Again),
            }
        }
        hosts.turn(1, |system| {
            for replies in [REPLIES_PER_STEP - 1, REPLIES_PER_STEP] {
                let request = socket.receive(system).unwrap();
                (0..replies).for_each(|_| socket.send(system, request.source(), &[7]).unwrap());
            }
        });
        for replies in [REPLIES_PER_STEP, 2 * REPLIES_PER_STEP - 1] {
            hosts.turn(0, |system| blaster.step(system));
            assert_eq!(tally.replies(), replies as u64);
        }
    }

    fn options(to: IpAddress) -> Options {
        let to = IpEndpoint::new(to, 9);
        Options {
            to,
            rate_pps: None,
            burst_pkts: 8,
            flows: 1,
            payload: vec![0; 18],
            duration: None,
            count: Some(100),
        }
    }

    /// The cable's other end has another address; after the time for that nobody has answered.
    #[test]
    fn nothing_is_sent_to_a_neighbour_that_does_not_answer() {
        let mut hosts = TwoHosts::new();
        let (tally, nobody) = (Arc::new(Counters::default()), IpAddress::v4(10, 77, 0, 99));
        let mut blaster = Blaster::new(options(nobody), Arc::clone(&tally));
        let mut steps = 0;
        while !tally.ended() {
            match hosts.turn(0, |system| blaster.step(system)) {
                Step::Sleep(until) => hosts.sleep(until),
                step => assert!(matches!(step, Step::Again | Step::Exit), "{step:?}"),
            }
            steps += 1;
            assert!(steps < 10_000, "it goes on");
        }
        assert_eq!((tally.sent(), tally.unsent()), (0, 0));
        assert_eq!(tally.trouble(), Some(Trouble::Silent(nobody)));
        assert_eq!(hosts.now(), Instant::ZERO + RESOLUTION);
    }

    #[test]
    fn who_has_no_way_says_so() {
        let mut hosts = TwoHosts::new();
        for to in [IpAddress::v4(192, 0, 2, 1), ADDRESSES[0]] {
            let tally = Arc::new(Counters::default());
            let mut blaster = Blaster::new(options(to), Arc::clone(&tally));
            while hosts.turn(0, |system| blaster.step(system)) != Step::Exit {}
            let trouble = tally.trouble();
            assert!(matches!(trouble, Some(Trouble::Send(at, _)) if at == to), "{trouble:?}");
        }
    }
}
