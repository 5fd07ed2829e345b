//! A router flooded over cables in memory, to see what it forwards: no root, no device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evenkeel::Engine;
use evenkeel_core::cable::{self, Completion, End};
use evenkeel_core::frame::Pool;
use evenkeel_core::host::{Config, Host};
use evenkeel_core::interface::Interface as _;
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::{Endpoint, InterfaceId};
use evenkeel_core::time::Duration;
use evenkeel_core::wire::{IpAddress, IpCidr};
use evenkeel_link::{Clock, Stop, cpus};
use serde::Serialize;

use super::router::RouterError;
use super::rulebook::{RuleCount, Rulebook, Text};
use super::screen::{Report, Screening};
use crate::blast::pin;
use crate::books::Books;
use crate::pace::Pace;
use crate::requests::{Requests, Shape};
use crate::site::{Limits, SiteError, drive};

/// How a router is flooded.
#[derive(Debug, Clone)]
pub struct Flood {
    /// The router's settings.
    pub config: Config,
    /// Screening rules, about the links `lan` (where the flood comes from) and `wan`.
    pub rules: Option<Text>,
    /// Limit of the screening queue.
    pub screen_queue_pkts: usize,
    /// Packets a second, one rate after another; `None` for as many as can be.
    pub rates_pps: Vec<Option<u64>>,
    /// How long each.
    pub each: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Flooded {
    /// One for each rate.
    pub steps: Vec<Step>,
    /// The most that was forwarded at any rate, in packets a second.
    pub peak_pps: f64,
    /// What was forwarded at the highest rate, by the peak.
    pub retention: f64,
    /// Whether every frame is accounted for, at every rate.
    pub conserved: bool,
}

/// What came of one rate.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// The rate asked for; `None` for as many as can be.
    pub target_pps: Option<u64>,
    /// The rate really offered.
    pub offered_pps: f64,
    /// Packets a second that came out at the other end, while they were offered.
    pub forwarded_pps: f64,
    /// What each rule did.
    pub rules: Vec<RuleCount>,
    /// What the host did.
    pub books: Books,
}

/// Numbers of the adaptors: those of the router, and of what is at the other ends of its cables.
const LAN_NUMBER: u8 = 1;
const WAN_NUMBER: u8 = 2;
const FLOODER_NUMBER: u8 = 11;
const TARGET_NUMBER: u8 = 12;
/// Time for the router to set itself up, and to empty its queues afterwards.
const SETTLING: Duration = Duration::from_millis(20);
/// Frames that rings hold: those of some milliseconds, for which a machine may give a core to others.
const RING_PKTS: usize = 2048;
/// Packets sent at a time, at most.
const BURST: u64 = 64;

/// Floods a router at each of several rates in turn; tells `watch` what came of each.
///
/// # Errors
/// [`RouterError`]
pub fn flood(flood: &Flood, mut watch: impl FnMut(&Step)) -> Result<Flooded, RouterError> {
    let stop = Stop::on_signals()?;
    let mut steps = Vec::new();
    for &rate in &flood.rates_pps {
        if stop.requested() {
            break;
        }
        let step = flood.at(rate)?;
        watch(&step);
        steps.push(step);
    }
    let peak_pps = steps.iter().map(|step| step.forwarded_pps).fold(0.0, f64::max);
    let last = steps.last().map_or(0.0, |step| step.forwarded_pps);
    let conserved = steps.iter().all(|step| step.books.conserved);
    Ok(Flooded { steps, peak_pps, retention: if peak_pps > 0.0 { last / peak_pps } else { 0.0 }, conserved })
}

/// The network around the router: a thread that floods one cable and drains the other.
struct Network {
    lan: End,
    wan: End,
    pool: Pool,
    packets: Requests,
    clock: Clock,
}

/// What the network saw of one step.
struct Seen {
    sent: u64,
    seconds: f64,
    arrived: u64,
}

impl Flood {
    fn at(&self, rate_pps: Option<u64>) -> Result<Step, RouterError> {
        let clock = Clock::start();
        let demultiplexes = self.config.architecture == Architecture::NiLrp;
        let plain =
            |name, number| cable::Options { ring_pkts: RING_PKTS, ..cable::Options::new(name, number) };
        let options = |name, number| cable::Options { demultiplexes, ..plain(name, number) };
        let (lan, flooder) = cable::pair(options("lan", LAN_NUMBER), plain("flooder", FLOODER_NUMBER));
        // A frame leaves when the wire has it: a transmit ring that is full is one.
        let wan = cable::Options { completion: Completion::ByPeer, ..options("wan", WAN_NUMBER) };
        let (wan, target) = cable::pair(wan, plain("target", TARGET_NUMBER));
        let mut network = Network::new(flooder, target, &lan, clock)?;
        let (mut engine, book) = self.router(lan, wan, &network, clock)?;
        let ended = AtomicBool::new(false);
        let (each, processors) = (self.each, cpus());
        let (seen, elapsed) = thread::scope(|scope| {
            let flooding = scope.spawn(|| {
                pin(&processors, 1);
                let seen = network.flood(rate_pps, each);
                ended.store(true, Ordering::Release);
                seen
            });
            pin(&processors, 0);
            let ran = drive(&mut engine, Limits::default(), || ended.load(Ordering::Acquire), |_, _| {});
            let seen = flooding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ran.map(|(_, elapsed)| (seen, elapsed))
        })?;
        Ok(describe(rate_pps, &mut engine, book.as_ref(), &network, &seen, elapsed))
    }

    fn router(
        &self,
        lan: End,
        wan: End,
        network: &Network,
        clock: Clock,
    ) -> Result<(Engine, Option<Rulebook>), RouterError> {
        let mut config = self.config.clone();
        config.stack.forwarding = true;
        let mut engine = Engine::new(Host::new(config).map_err(SiteError::from)?, clock)?;
        engine.stop_on(Stop::on_signals()?);
        engine.add_cable(lan, &[IpCidr::new(IpAddress::v4(10, 77, 1, 1), 24)]).map_err(SiteError::from)?;
        let wan = engine.add_cable(wan, &[IpCidr::new(TARGET_NET, 24)]).map_err(SiteError::from)?;
        let (now, target) = (clock.now(), network.wan.address());
        // Nobody there answers questions.
        let known = engine.host_mut().set_neighbor(wan, TARGET, target, now);
        known.map_err(|error| RouterError::Entry(error.to_string()))?;
        let Some(rules) = &self.rules else { return Ok((engine, None)) };
        let book = Rulebook::open(rules, vec!["lan".to_owned(), "wan".to_owned()], 1)?;
        for screener in book.screeners(None) {
            let screening = Screening::new(screener, self.screen_queue_pkts, Arc::new(Report::default()));
            engine.host_mut().spawn("screening", 0, Box::new(screening));
        }
        Ok((engine, Some(book)))
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates for reports")]
fn describe(
    target_pps: Option<u64>,
    engine: &mut Engine,
    book: Option<&Rulebook>,
    network: &Network,
    seen: &Seen,
    elapsed: Duration,
) -> Step {
    let interfaces = [0, 1].map(InterfaceId);
    let mut books = Books::of_all(engine.host_mut(), &interfaces, elapsed);
    // What the network put in and got out, the host must have counted.
    let (sent, got) = (network.lan.sent(), books.transmitted);
    books.conserved &= sent.accepted == books.received + engine.host_mut().in_rings();
    books.conserved &= seen.sent == sent.accepted + sent.shed + sent.discarded && seen.arrived <= got;
    Step {
        target_pps,
        offered_pps: seen.sent as f64 / seen.seconds,
        forwarded_pps: seen.arrived as f64 / seen.seconds,
        rules: book.map(Rulebook::counts).unwrap_or_default(),
        books,
    }
}

/// The router's address on the far side, and that of what is flooded there.
const TARGET_NET: IpAddress = IpAddress::v4(10, 77, 2, 1);
const TARGET: IpAddress = IpAddress::v4(10, 77, 2, 2);

impl Network {
    fn new(lan: End, mut wan: End, router: &End, clock: Clock) -> Result<Self, RouterError> {
        let shape = Shape {
            hardware: (lan.address(), router.address()),
            from: Endpoint::new(IpAddress::v4(10, 77, 1, 2), 20_000),
            to: Endpoint::new(TARGET, 9),
            payload: 18,
            flows: 16,
            seed: 1,
        };
        let packets = Requests::new(&shape).map_err(|_| RouterError::Entry("no such flow".to_owned()))?;
        let mut pool = Pool::with_limit(2 * RING_PKTS);
        wan.attach(&mut pool).map_err(SiteError::from)?;
        Ok(Self { lan, wan, pool, packets, clock })
    }

    fn flood(&mut self, rate_pps: Option<u64>, each: Duration) -> Seen {
        let begin = self.clock.spin_until(self.clock.now() + SETTLING);
        let end = begin + each;
        let mut pace =
            rate_pps.map_or_else(|| Pace::unlimited(BURST, begin), |rate| Pace::new(rate, BURST, begin));
        let (mut now, mut sent, mut arrived) = (begin, 0, 0);
        while now < end {
            let due = pace.take(now);
            for _ in 0..due {
                // Whether the router's ring has room is the router's affair, and counted there.
                self.lan.send(self.packets.next());
            }
            if due > 0 {
                self.lan.flush();
                sent += due;
            }
            arrived += self.drain();
            now = self.clock.now();
        }
        let seen = Seen { sent, seconds: now.since(begin).as_secs_f64(), arrived };
        // What is still on its way is not counted, but goes where it is meant to.
        let settled = now + SETTLING;
        while self.clock.now() < settled {
            self.drain();
        }
        seen
    }

    /// Takes what has come out at the other end, and lets its buffers go back.
    fn drain(&mut self) -> u64 {
        let mut count = 0;
        while let Some(frame) = self.wan.queue(0).take(&mut self.pool) {
            self.pool.recycle(frame);
            count += 1;
        }
        if count > 0 {
            self.wan.complete(count);
        }
        count
    }
}
