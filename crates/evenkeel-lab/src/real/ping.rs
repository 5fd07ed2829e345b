//! Figure 4 of the LRP paper in real time: round trips during a blast to another socket.
//!
//! A host has a server that answers pings, a server that discards a blast, and a program that only computes,
//! at nice 20. The generator sends the blast, and plays ping-pong with the first server meanwhile.

use std::io;
use std::sync::Arc;

use evenkeel::Engine;
use evenkeel::raw::cable;
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wire::{IpCidr, IpEndpoint, Ipv4Address};
use evenkeel_apps::far_ends::FarEnd;
use evenkeel_apps::measure::{
    CoreTime, Generator, Neighbour, Sending, Working, drive, opposite, per_second, undisturbed,
};
use evenkeel_apps::pace::Pace;
use evenkeel_apps::requests::{Requests, Shape};
use evenkeel_apps::service::{self, Service};

use super::link::Link;
use super::router::{INSIDE, OUTSIDE};
use super::{Options, Place, Progress, devices};
use crate::check::{Origin::*, condition, predicted};
use crate::experiment::{Outcome, Point};

/// The experiment in virtual time.
pub(super) const ID: &str = "o96-fig4";

/// The paper's systems.
const SYSTEMS: [Architecture; 3] = [Architecture::Eager, Architecture::SoftLrp, Architecture::NiLrp];
/// The rates of the blast, as multiples of the rate that its server can receive.
const BLASTS: [f64; 6] = [0.0, 0.25, 0.5, 1.0, 2.0, 4.0];
/// A blast beyond what any host can receive, in pps.
const MOST_PPS: u64 = 4_000_000;
/// Runs whose best result is the rate that the server can receive.
const CALIBRATIONS: usize = 3;

/// The round trips of eager under the highest blast, as multiples of those of the LRP systems.
const LONGER: [f64; 2] = [1.0, 1000.0];

const HOST: Ipv4Address = Ipv4Address::new(10, 77, 0, 2);
const GENERATOR: Ipv4Address = Ipv4Address::new(10, 77, 0, 1);
const PING: u16 = 5_000;
const BLAST: u16 = 5_001;
/// The source port of the pings, which the server may answer.
const PINGS_FROM: u16 = 30_000;
/// The payload bytes of the paper's datagrams.
const PAYLOAD: usize = 14;
const FLOWS: u16 = 64;
const RING_PKTS: usize = 512;
const NICE: i8 = 20;

/// The number of frames that the blast sends at a time: few, so that pings do not wait long for it.
const BURST_PKTS: u64 = 16;
/// The time after which a ping counts as lost.
const PATIENCE: Duration = Duration::from_millis(20);
/// The interval at which the generator checks whether the host is ready.
const LOOK: Duration = Duration::from_micros(10);
/// The time for the host to learn the generator's address.
const LEARN: Duration = Duration::from_millis(5);

/// The measurements of a run.
#[derive(Debug, Clone)]
struct Measured {
    /// The median of the round trips, in microseconds; NaN if no ping came back.
    round_trip_us: f64,
    pings: usize,
    lost: usize,
    offered_pps: f64,
    received_pps: f64,
    core_share: f64,
    conserved: bool,
}

pub(super) fn measure(
    options: &Options,
    progress: &mut (dyn FnMut(&Progress<'_>) + Send),
) -> io::Result<Outcome> {
    match options.on {
        Place::Cable => measure_all(options, progress),
        place => devices::in_namespace(place, || measure_all(options, progress)),
    }
}

fn measure_all(options: &Options, progress: &mut (dyn FnMut(&Progress<'_>) + Send)) -> io::Result<Outcome> {
    let systems: Vec<Architecture> =
        SYSTEMS.into_iter().filter(|&architecture| options.on.has(architecture)).collect();
    let laziest = systems.last().copied().unwrap_or(Architecture::SoftLrp);
    let mut peak = 1_000.0_f64;
    for _ in 0..CALIBRATIONS {
        peak = peak.max(run(laziest, MOST_PPS, options)?.received_pps);
    }
    let rounds = options.repeats.max(1);
    let all = systems.len() * BLASTS.len() * rounds;
    let (mut done, mut spare) = (0, if rounds == 1 { 0 } else { all });
    let mut runs = vec![[const { Vec::new() }; BLASTS.len()]; systems.len()];
    for _ in 0..rounds {
        for (&architecture, runs) in systems.iter().zip(&mut runs) {
            for (&times, runs) in BLASTS.iter().zip(runs) {
                let once = || run(architecture, (times * peak) as u64, options);
                let measured = undisturbed(&mut spare, |run: &Measured| run.core_share, once)?;
                done += 1;
                let Measured { offered_pps, round_trip_us, .. } = measured;
                let result = format!("at {offered_pps:.0} pps takes {round_trip_us:.1} µs");
                progress(&Progress { variant: architecture.name(), result: &result, done: (done, all) });
                runs.push(measured);
            }
        }
    }
    let curves = systems.iter().zip(runs);
    let curves: Vec<Curve> = curves.map(|(system, runs)| Curve { name: system.name(), runs }).collect();
    Ok(outcome(&curves, peak))
}

/// The measurements of a system at each blast.
struct Curve {
    name: &'static str,
    runs: [Vec<Measured>; BLASTS.len()],
}

impl Curve {
    /// Returns the run with the median round trip at a blast. A run without any round trip is the longest.
    fn median(&self, blast: usize) -> Option<&Measured> {
        let mut runs: Vec<&Measured> = self.runs.get(blast)?.iter().collect();
        runs.sort_by(|a, b| a.round_trip_us.total_cmp(&b.round_trip_us));
        runs.get(runs.len() / 2).copied()
    }

    fn round_trip_us(&self, blast: usize) -> f64 {
        self.median(blast).map_or(f64::NAN, |run| run.round_trip_us)
    }

    /// Returns the greatest share of pings that were lost at any blast.
    fn lost(&self) -> f64 {
        let runs = (0..BLASTS.len()).filter_map(|blast| self.median(blast));
        runs.map(|run| run.lost as f64 / run.pings.max(1) as f64).fold(0.0, f64::max)
    }
}

fn outcome(curves: &[Curve], peak: f64) -> Outcome {
    let point = |name, blast: usize, run: &Measured| {
        Point::new(name, (BLASTS[blast] * peak).round(), run.round_trip_us).with([
            ("pings", run.pings as f64),
            ("lost_pings", run.lost as f64),
            ("offered_pps", run.offered_pps),
            ("blast_received_pps", run.received_pps),
            ("core_share", run.core_share),
        ])
    };
    let points = curves.iter().flat_map(|curve| {
        let runs = (0..BLASTS.len()).filter_map(|blast| Some((blast, curve.median(blast)?)));
        runs.filter(|(_, run)| run.round_trip_us.is_finite())
            .map(|(blast, run)| point(curve.name, blast, run))
    });
    let points = points.collect();
    let every = || curves.iter().flat_map(|curve| curve.runs.iter().flatten());
    let core_shares: Vec<f64> = every().map(|run| run.core_share).collect();
    let counters = if every().all(|run| run.conserved) { "yes" } else { "no" };
    let last = BLASTS.len() - 1;
    let at_most = |is_lazy: bool| {
        let curves = curves.iter().filter(|curve| (curve.name != Architecture::Eager.name()) == is_lazy);
        curves.map(|curve| curve.round_trip_us(last)).fold(0.0, f64::max)
    };
    let lazy: Vec<f64> = curves.iter().filter(|curve| curve.name == "ni-lrp").map(Curve::lost).collect();
    let longer = "round trip of eager at the highest blast, of the longest of the LRP systems";
    let mut checks = vec![predicted(Words, longer).within(LONGER, &[at_most(false) / at_most(true)])];
    if !lazy.is_empty() {
        checks.push(predicted(Paper, "ni-lrp: greatest share of pings lost").within([0.0, 0.0], &lazy));
    }
    checks.extend([
        condition("share of its core that the host had").within([0.9, 1.0], &core_shares),
        condition("the host accounts for every frame").equal("yes", counters),
    ]);
    Outcome::new("blast asked for (pps)", "round trip (µs)", points, checks)
}

fn lay(architecture: Architecture, on: Place) -> io::Result<(FarEnd, Link)> {
    if on != Place::Cable {
        let outside = FarEnd::Device(devices::open_outside(on)?);
        return Ok((outside, Link::Device(devices::open_inside(on, "ekin", INSIDE[0])?)));
    }
    let end =
        |name, address| cable::Options { address, ring_pkts: RING_PKTS, ..cable::Options::new(name, 0) };
    let demultiplexes = architecture == Architecture::NiLrp;
    let near = cable::Options { demultiplexes, ..end("in", INSIDE[0]) };
    let (far, near) = cable::pair(end("outside", OUTSIDE[0]), near);
    let far = FarEnd::cable(far, 2 * RING_PKTS).map_err(io::Error::other)?;
    Ok((far, Link::Cable(Box::new(near))))
}

fn run(architecture: Architecture, blast_pps: u64, options: &Options) -> io::Result<Measured> {
    let (outside, inside) = lay(architecture, options.on)?;
    let clock = Clock::start();
    let received = Arc::<service::Counters>::default();
    let blast = PingPong { outside, clock, options, blast_pps, received: &received };
    let (host, played) = opposite(
        |generator| serve(architecture, inside, Arc::clone(&received), clock, generator),
        |sending, host| blast.play(sending, host),
    )?;
    let ((core_share, conserved), mut played) = (host?, played);
    played.round_trips.sort_unstable();
    let median = played.round_trips.get(played.round_trips.len() / 2);
    Ok(Measured {
        round_trip_us: median.map_or(f64::NAN, |time| time.as_secs_f64() * 1e6),
        pings: played.round_trips.len() + played.lost,
        lost: played.lost,
        offered_pps: played.offered_pps,
        received_pps: played.received_pps,
        core_share,
        conserved,
    })
}

/// Runs the host's thread. Returns the share of its core that it had, and whether its counters balance.
fn serve(
    architecture: Architecture,
    link: Link,
    received: Arc<service::Counters>,
    clock: Clock,
    generator: &Generator,
) -> io::Result<(f64, bool)> {
    let host = Host::new(Config::of(architecture)).map_err(io::Error::other)?;
    let mut engine = Engine::new(host, clock)?;
    let address = IpCidr::new(HOST.into(), 24);
    let interface = link.add_to(&mut engine, address)?;
    let now = engine.clock().now();
    let neighbour = engine.host_mut().set_neighbor(interface, GENERATOR.into(), OUTSIDE[0], now);
    neighbour.map_err(|e| io::Error::other(format!("{e:?}")))?;
    let server =
        |port, echo| service::Options { port, groups: Vec::new(), work: Duration::ZERO, echo, count: None };
    let host = engine.host_mut();
    host.spawn("blast-server", 0, Box::new(Service::new(server(BLAST, false), received)));
    host.spawn("ping-server", 0, Box::new(Service::new(server(PING, true), Arc::default())));
    host.spawn("spinner", NICE, Box::new(Neighbour));
    let [from, until] = drive(&mut engine, generator, CoreTime::of)?;
    Ok((until.core_share_since(&from), engine.host().check().is_ok()))
}

/// The results of a game of ping-pong.
struct Played {
    round_trips: Vec<Duration>,
    lost: usize,
    offered_pps: f64,
    received_pps: f64,
}

/// A game of ping-pong during a blast.
struct PingPong<'a> {
    outside: FarEnd,
    clock: Clock,
    options: &'a Options,
    blast_pps: u64,
    received: &'a service::Counters,
}

impl PingPong<'_> {
    /// Plays on the calling thread: first for the warm-up, then for the window.
    fn play(mut self, sending: Sending, host: &Working) -> Played {
        while !host.has_begun() {
            self.clock.spin(LOOK);
        }
        self.clock.spin(LEARN);
        let mut pace = Pace::new(self.blast_pps, BURST_PKTS, self.clock.now());
        let mut blast = frames(BLAST, FLOWS, self.options.seed);
        let mut ping = frames(PING, 1, self.options.seed);
        self.rally(&mut blast, &mut ping, &mut pace, self.options.warm_up);
        sending.measuring();
        let offered = self.outside.sent(pace.granted());
        let (from, received) = (self.clock.now(), self.received.requests());
        let (round_trips, lost) = self.rally(&mut blast, &mut ping, &mut pace, self.options.window);
        let elapsed = self.clock.now().since(from);
        let received = self.received.requests() - received;
        let offered = self.outside.sent(pace.granted()) - offered;
        drop(sending);
        while !host.is_over() {
            self.outside.take(|_| ());
        }
        Played {
            round_trips,
            lost,
            offered_pps: per_second(offered, elapsed),
            received_pps: per_second(received, elapsed),
        }
    }

    /// Blasts and plays for some time. Returns the round trips, and the number of lost pings.
    fn rally(
        &mut self,
        blast: &mut Requests,
        ping: &mut Requests,
        pace: &mut Pace,
        time: Duration,
    ) -> (Vec<Duration>, usize) {
        let (mut round_trips, mut lost) = (Vec::new(), 0);
        let end = self.clock.now() + time;
        let mut sent: Option<Instant> = None;
        loop {
            let now = self.clock.now();
            if now >= end {
                return (round_trips, lost);
            }
            if sent.is_some_and(|sent| now.since(sent) >= PATIENCE) {
                lost += 1;
                sent = None;
            }
            if sent.is_none() {
                sent = Some(now);
                self.outside.offer(ping.next());
            }
            for _ in 0..pace.take(now) {
                self.outside.offer(blast.next());
            }
            self.outside.flush();
            let mut is_answered = false;
            self.outside.take(|frame| is_answered |= is_answer(frame));
            if is_answered {
                let now = self.clock.now();
                round_trips.extend(sent.take().map(|sent| now.since(sent)));
            }
        }
    }
}

/// Returns whether a frame is an answer to a ping: UDP over IPv4, to the port of the pings.
fn is_answer(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[8, 0])
        && frame.get(23) == Some(&17)
        && frame.get(36..38) == Some(&PINGS_FROM.to_be_bytes())
}

fn frames(port: u16, flows: u16, seed: u64) -> Requests {
    let shape = Shape {
        hardware: (OUTSIDE[0], INSIDE[0]),
        from: IpEndpoint::new(GENERATOR.into(), if port == PING { PINGS_FROM } else { 20_000 }),
        to: IpEndpoint::new(HOST.into(), port),
        payload: PAYLOAD,
        flows,
        seed,
    };
    Requests::new(&shape).expect("both ends are IPv4 and the ports are in range")
}
