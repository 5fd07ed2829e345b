//! Figure 5 of the LRP paper in real time: HTTP transfers during a SYN flood to another port.
//!
//! The server's host is on one core. The other core has the clients' host and the flood, each with its own
//! cable, or veth pair, to the server's host. Every run has two windows, first without the flood and then
//! with it, so that disturbances by the machine cancel out.

use std::collections::BTreeMap;
use std::io;

use evenkeel::Engine;
use evenkeel::raw::cable::{self, End};
use evenkeel::raw::cpu;
use evenkeel::raw::drops::{QueueDrop, Reason};
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::tcp::ListenerConfig;
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::{EthernetAddress, IpCidr, IpEndpoint, Ipv4Address};
use evenkeel_apps::demo::results::CpuShares;
use evenkeel_apps::far_ends::{FarEnd, Sender};
use evenkeel_apps::measure::{
    CoreTime, Generator, Schedule, Sending, Working, drive, opposite, per_second, undisturbed,
};
use evenkeel_apps::pace::Pace;
use evenkeel_sim::packet::{Station, address_of_nobody, flood_syn};
use evenkeel_sim::rng::Rng;
use evenkeel_sim::streams::StreamDummy;
use evenkeel_sim::web::{WebClient, WebServer};

use super::link::Link;
use super::{Options, Place, Progress, devices};
use crate::check::{Origin::*, condition, predicted};
use crate::experiment::{Outcome, Point};
use crate::lrp_testbed::listener;
use crate::o96_fig5::{CLIENTS, DOCUMENT, DUMMY_BACKLOG};

/// The experiment in virtual time.
pub(super) const ID: &str = "o96-fig5";

const SYSTEMS: [Architecture; 4] =
    [Architecture::Eager, Architecture::Polled, Architecture::SoftLrp, Architecture::NiLrp];
/// The rates of the flood, as multiples of the SYN rate of the server's clients at its peak.
const FLOODS: [u64; 4] = [1, 2, 5, 10];
/// The share of transfers that `ni-lrp` must keep with a flood of ten times the SYN rate of the peak.
const KEPT: [f64; 2] = [0.9, 1.1];

/// Returns the work of the server for each request: enough to saturate the server's core, and not the other
/// one, which runs clients and flood. On devices of the kernel the other core has the kernel's work for
/// interfaces, too.
const fn work(on: Place) -> Duration {
    match on {
        Place::Cable => Duration::from_micros(20),
        Place::Packet | Place::Tap | Place::Xdp => Duration::from_micros(200),
    }
}

const HTTP: u16 = 80;
const DUMMY: u16 = 81;
const SERVER: [Ipv4Address; 2] = [Ipv4Address::new(10, 77, 0, 2), Ipv4Address::new(10, 78, 0, 2)];
const CLIENT: Ipv4Address = Ipv4Address::new(10, 77, 0, 1);
const INSIDE: [EthernetAddress; 2] =
    [EthernetAddress([2, 0, 0, 0, 0, 2]), EthernetAddress([2, 0, 0, 0, 0, 3])];
const OUTSIDE: [EthernetAddress; 2] =
    [EthernetAddress([2, 0, 0, 0, 0, 1]), EthernetAddress([2, 0, 0, 0, 0, 4])];
const RING_PKTS: usize = 512;
/// The number of different SYNs in the flood.
const SYNS: usize = 4_096;
/// The number of frames that the flood sends at a time.
const BURST_PKTS: u64 = 64;
/// The length of a turn, of the clients' host and of the flood, on their core.
const TURN: Duration = Duration::from_micros(10);

const READY: Duration = Duration::from_millis(20);
/// The time until the server listens.
const SETTLE: Duration = Duration::from_millis(5);
const WARM_UP: Duration = Duration::from_millis(100);
/// The time in 4.4BSD's TIME-WAIT in the paper.
const TIME_WAIT: Duration = Duration::from_millis(500);
/// Runs without a flood of which the best is the peak.
const CALIBRATIONS: usize = 3;

/// The measurements of a run: a window without the flood, and one with it.
#[derive(Debug, Clone)]
struct Measured {
    calm: f64,
    flooded: f64,
    /// The rate of the flood in SYNs a second.
    offered_pps: f64,
    cpu: CpuShares,
    core_share: f64,
    drops: [(&'static str, u64); 4],
    failed: u64,
    conserved: bool,
}

impl Measured {
    fn kept(&self) -> f64 {
        self.flooded / self.calm.max(1.0)
    }
}

/// The measurements of the server's thread.
struct Observed {
    cpu: CpuShares,
    core_share: f64,
    drops: [(&'static str, u64); 4],
    conserved: bool,
}

/// The measurements of the thread that runs clients and flood.
struct Offered {
    transfers: [f64; 2],
    offered_pps: f64,
    core_share: f64,
    failed: u64,
}

pub(super) fn measure(
    options: &Options,
    progress: &mut (dyn FnMut(&Progress<'_>) + Send),
) -> io::Result<Outcome> {
    match options.on {
        Place::Tap => {
            let why =
                "o96-fig5 runs on cable, packet or xdp: the kernel has the other end of a TAP, not clients";
            Err(io::Error::other(why))
        }
        Place::Cable => measure_all(options, progress),
        place => devices::in_namespace(place, || measure_all(options, progress)),
    }
}

/// Describes the work for each request, and the systems that are left out.
pub(super) fn conditions(on: Place) -> String {
    format!("{:?} of work for each request{}", work(on), super::left_out(on))
}

fn measure_all(options: &Options, progress: &mut (dyn FnMut(&Progress<'_>) + Send)) -> io::Result<Outcome> {
    let systems: Vec<Architecture> =
        SYSTEMS.into_iter().filter(|&architecture| options.on.has(architecture)).collect();
    let laziest = systems.last().copied().unwrap_or(Architecture::SoftLrp);
    let mut peak = 0.0_f64;
    for _ in 0..CALIBRATIONS {
        peak = peak.max(run(laziest, 0, options)?.calm);
    }
    if peak < 1.0 {
        return Err(io::Error::other("nothing was transferred: give the windows more time"));
    }
    let rounds = options.repeats.max(1);
    let all = systems.len() * FLOODS.len() * rounds;
    let (mut done, mut spare) = (0, all);
    let mut runs: BTreeMap<(usize, usize), Vec<Measured>> = BTreeMap::new();
    for _ in 0..rounds {
        for (system, &architecture) in systems.iter().enumerate() {
            for (load, &times) in FLOODS.iter().enumerate() {
                let rate = times * peak as u64;
                let measured = undisturbed(
                    &mut spare,
                    |run: &Measured| run.core_share,
                    || run(architecture, rate, options),
                )?;
                done += 1;
                let (offered, transfers) = (measured.offered_pps, measured.flooded);
                let result = format!("at {offered:.0} SYNs/s transfers {transfers:.0}/s");
                progress(&Progress { variant: architecture.name(), result: &result, done: (done, all) });
                runs.entry((system, load)).or_default().push(measured);
            }
        }
    }
    Ok(outcome(&systems, &runs))
}

fn outcome(systems: &[Architecture], runs: &BTreeMap<(usize, usize), Vec<Measured>>) -> Outcome {
    let median = |system, load| {
        let mut of: Vec<&Measured> = runs.get(&(system, load)).into_iter().flatten().collect();
        of.sort_by(|a, b| a.kept().total_cmp(&b.kept()));
        of.get(of.len() / 2).copied()
    };
    let mut points = Vec::new();
    for (system, architecture) in systems.iter().enumerate() {
        for (load, &times) in FLOODS.iter().enumerate() {
            points.extend(median(system, load).map(|run| point(architecture.name(), times, run)));
        }
    }
    let kept = |system: usize| median(system, FLOODS.len() - 1).map_or(f64::NAN, Measured::kept);
    let lazy = systems.iter().position(|&system| system == Architecture::NiLrp).map(|system| {
        predicted(Words, "ni-lrp: share of the transfers kept at 10 x the peak's SYNs")
            .within(KEPT, &[kept(system)])
    });
    let every = || runs.values().flatten();
    let counters = if every().all(|run| run.conserved) { "yes" } else { "no" };
    let core_shares: Vec<f64> = every().map(|run| run.core_share).collect();
    let conditions = [
        condition("share of their cores that both threads had").within([0.9, 1.0], &core_shares),
        condition("every frame is accounted for").equal("yes", counters),
    ];
    let checks = lazy.into_iter().chain(conditions).collect();
    Outcome::new("flood (SYNs of the peak)", "share of the transfers kept", points, checks)
}

fn point(series: &str, times: u64, run: &Measured) -> Point {
    let mut point = Point::new(series, times as f64, run.kept()).with([
        ("calm_transfers_per_s", run.calm),
        ("transfers_per_s", run.flooded),
        ("offered_pps", run.offered_pps),
        ("forwarded_pps", run.flooded),
        ("interrupt", run.cpu.interrupt),
        ("soft_interrupt", run.cpu.soft_interrupt),
        ("polling_thread", run.cpu.polling_thread),
        ("process", run.cpu.process),
        ("core_share", run.core_share),
        ("failed", run.failed as f64),
    ]);
    point.more.extend(run.drops.iter().map(|&(place, frames)| (place, frames as f64)));
    point
}

fn run(architecture: Architecture, rate_pps: u64, options: &Options) -> io::Result<Measured> {
    let Links { clients, flood, server } = Links::lay(architecture, options.on)?;
    let clock = Clock::start();
    let schedule = Schedule { start: clock.now() + READY, warm_up: WARM_UP, window: options.window };
    let seed = options.seed;
    let (observed, offered) = opposite(
        |generator| serve(architecture, server, work(options.on), clock, generator),
        |sending, server| fetch((clients, flood), clock, &schedule, (rate_pps, seed), (sending, server)),
    )?;
    let (observed, offered) = (observed?, offered?);
    let [calm, flooded] = offered.transfers;
    Ok(Measured {
        calm,
        flooded,
        offered_pps: offered.offered_pps,
        cpu: observed.cpu,
        core_share: observed.core_share.min(offered.core_share),
        drops: observed.drops,
        failed: offered.failed,
        conserved: observed.conserved,
    })
}

/// The ends of both links.
struct Links {
    clients: Link,
    flood: FarEnd,
    /// The server's: to the clients, and to the flood.
    server: [Link; 2],
}

impl Links {
    fn lay(architecture: Architecture, on: Place) -> io::Result<Self> {
        if on == Place::Cable {
            let [clients, (flood, flooded)] = [0, 1].map(|link| lay(link, architecture));
            return Ok(Self {
                clients: Link::Cable(Box::new(clients.0)),
                flood: FarEnd::cable(flood, 2 * RING_PKTS).map_err(io::Error::other)?,
                server: [clients.1, flooded].map(|end| Link::Cable(Box::new(end))),
            });
        }
        let device = |name, address| devices::open_inside(on, name, address).map(Link::Device);
        Ok(Self {
            clients: device("ekgen", OUTSIDE[0])?,
            flood: FarEnd::Device(Sender::open("eksink").map_err(io::Error::other)?),
            server: [device("ekin", INSIDE[0])?, device("ekout", INSIDE[1])?],
        })
    }
}

/// Creates a cable: the client's end, and the server's. The server's adaptor demultiplexes if the
/// architecture uses that.
fn lay(link: usize, architecture: Architecture) -> (End, End) {
    let far =
        cable::Options { address: OUTSIDE[link], ring_pkts: RING_PKTS, ..cable::Options::new("outside", 0) };
    let near = cable::Options {
        address: INSIDE[link],
        ring_pkts: RING_PKTS,
        demultiplexes: architecture == Architecture::NiLrp,
        ..cable::Options::new(["in", "flood"][link], 0)
    };
    cable::pair(far, near)
}

/// Runs the server's thread.
fn serve(
    architecture: Architecture,
    links: [Link; 2],
    work: Duration,
    clock: Clock,
    generator: &Generator,
) -> io::Result<Observed> {
    let mut config = Config::of(architecture);
    config.tcp.time_wait.wait = TIME_WAIT;
    let mut engine = Engine::new(Host::new(config).map_err(io::Error::other)?, clock)?;
    let mut interfaces = Vec::new();
    for (link, address) in links.into_iter().zip(SERVER) {
        interfaces.push(link.add_to(&mut engine, IpCidr::new(address.into(), 24))?);
    }
    let host = engine.host_mut();
    let (httpd, _) = WebServer::new(HTTP, ListenerConfig::default(), DOCUMENT, work);
    host.spawn("httpd", 0, Box::new(httpd));
    host.spawn("dummy", 0, Box::new(StreamDummy::new(DUMMY, listener(DUMMY_BACKLOG))));
    // A SYN that arrives before the server listens is refused.
    engine.run(clock.now() + SETTLE, |_| false)?;
    let start = CoreTime::of(&engine);
    let [from, until] = drive(&mut engine, generator, CoreTime::of)?;
    let host = engine.host_mut();
    let mut missed = 0;
    for id in interfaces {
        let Some(interface) = host.interface_mut(id) else { continue };
        missed +=
            (0..interface.properties().queues).map(|queue| interface.queue(queue).missed()).sum::<u64>();
    }
    let dropped = |reason: QueueDrop| host.ledger().input_drops(Reason::from(reason));
    Ok(Observed {
        cpu: until.shares_since(&from),
        core_share: until.core_share_since(&start),
        drops: [
            ("ring_drops", missed),
            ("ip_queue_drops", dropped(QueueDrop::IpQueue)),
            ("channel_drops", dropped(QueueDrop::Channel)),
            ("socket_drops", dropped(QueueDrop::Socket)),
        ],
        conserved: host.check().is_ok(),
    })
}

/// Runs the other thread: clients, and after the first window the flood.
fn fetch(
    (clients, mut flood): (Link, FarEnd),
    clock: Clock,
    schedule: &Schedule,
    (rate_pps, seed): (u64, u64),
    (sending, server): (Sending, &Working),
) -> io::Result<Offered> {
    let host = Host::new(Config { seed, ..Config::of(Architecture::Polled) }).map_err(io::Error::other)?;
    let mut engine = Engine::new(host, clock)?;
    clients.add_to(&mut engine, IpCidr::new(CLIENT.into(), 24))?;
    let syns = syns(seed);
    let mut turn = |engine: &mut Engine, pace: &mut Option<Pace>, next: &mut usize| -> io::Result<()> {
        let now = clock.now();
        for _ in 0..pace.as_mut().map_or(0, |pace| pace.take(now)) {
            flood.offer(&syns[*next]);
            *next = (*next + 1) % syns.len();
        }
        flood.flush();
        engine.run(now + TURN, |_| false).map(|_| ())
    };
    clock.spin_until(schedule.start);
    while !server.has_begun() {
        clock.spin(TURN);
    }
    let to = IpEndpoint::new(SERVER[0].into(), HTTP);
    let counts: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (client, counts) = WebClient::new(to, DOCUMENT);
            engine.host_mut().spawn("client", 0, Box::new(client));
            counts
        })
        .collect();
    let fetched = || counts.iter().map(|counts| counts.fetched.get()).sum::<u64>();
    let (mut pace, mut next) = (None, 0);
    let mut transfers = [0.0; 2];
    let mut flooded = 0.0;
    let (began, ran) = (clock.now(), cpu::thread_cpu_time() + engine.halted());
    for (window, transfers) in transfers.iter_mut().enumerate() {
        if window == 1 && rate_pps > 0 {
            pace = Some(Pace::new(rate_pps, BURST_PKTS, clock.now()));
        }
        let opens = clock.now() + schedule.warm_up;
        while clock.now() < opens {
            turn(&mut engine, &mut pace, &mut next)?;
        }
        if window == 1 {
            sending.measuring();
        }
        let granted = |pace: &Option<Pace>| pace.as_ref().map_or(0, Pace::granted);
        let (from, before, syns) = (clock.now(), fetched(), granted(&pace));
        while clock.now() < from + schedule.window {
            turn(&mut engine, &mut pace, &mut next)?;
        }
        let elapsed = clock.now().since(from);
        *transfers = per_second(fetched() - before, elapsed);
        flooded = per_second(granted(&pace) - syns, elapsed);
    }
    let (elapsed, used) = (clock.now().since(began), cpu::thread_cpu_time() + engine.halted());
    drop(sending);
    while !server.is_over() {
        engine.run(clock.now() + TURN, |_| false)?;
    }
    Ok(Offered {
        transfers,
        offered_pps: flooded,
        core_share: (used.saturating_sub(ran).as_secs_f64() / elapsed.as_secs_f64()).min(1.0),
        failed: counts.iter().map(|counts| counts.failed.get()).sum(),
    })
}

/// Returns SYNs for the dummy, from addresses that no host has.
fn syns(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(seed);
    let to = Station { hardware: INSIDE[1], address: SERVER[1], port: DUMMY };
    let syn = |rng: &mut Rng| {
        let from = Station { hardware: OUTSIDE[1], address: address_of_nobody(rng), port: 0 };
        flood_syn(from, to, rng)
    };
    (0..SYNS).map(|_| syn(&mut rng)).collect()
}
