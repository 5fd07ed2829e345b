//! Figure 5 of the LRP paper in real time: HTTP transfers during a SYN flood to another port.
//!
//! The server's host is on one core. The other core has the clients' host and the flood, each with its own
//! cable to the server's host. Every run has two windows, first without the flood and then with it, so that
//! disturbances by the machine cancel out.

use std::collections::BTreeMap;
use std::io;

use evenkeel::Engine;
use evenkeel::raw::cable::{self, End};
use evenkeel::raw::cpu;
use evenkeel::raw::device::Interface as _;
use evenkeel::raw::drops::{QueueDrop, Reason};
use evenkeel::raw::frame::Pool;
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::tcp::ListenerConfig;
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::{EthernetAddress, IpCidr, IpEndpoint, Ipv4Address};
use evenkeel_apps::demo::results::CpuShares;
use evenkeel_apps::measure::{
    CoreTime, Generator, Schedule, Sending, Working, drive, opposite, per_second, undisturbed,
};
use evenkeel_apps::pace::Pace;
use evenkeel_sim::packet::{Station, address_of_nobody, flood_syn};
use evenkeel_sim::rng::Rng;
use evenkeel_sim::streams::StreamDummy;
use evenkeel_sim::web::{WebClient, WebServer};

use super::{Options, Place, Progress};
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

/// The work of the server for each request: enough to saturate the server's core, and not the other one,
/// which runs clients and flood.
pub(super) const WORK: Duration = Duration::from_micros(20);
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
    if options.on != Place::Cable {
        return Err(io::Error::other("o96-fig5 runs on the cable only"));
    }
    let mut peak = 0.0_f64;
    for _ in 0..CALIBRATIONS {
        peak = peak.max(run(Architecture::NiLrp, 0, options)?.calm);
    }
    if peak < 1.0 {
        return Err(io::Error::other("nothing was transferred: give the windows more time"));
    }
    let rounds = options.repeats.max(1);
    let all = SYSTEMS.len() * FLOODS.len() * rounds;
    let (mut done, mut spare) = (0, all);
    let mut runs: BTreeMap<(usize, usize), Vec<Measured>> = BTreeMap::new();
    for _ in 0..rounds {
        for (system, &architecture) in SYSTEMS.iter().enumerate() {
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
    Ok(outcome(&runs))
}

fn outcome(runs: &BTreeMap<(usize, usize), Vec<Measured>>) -> Outcome {
    let median = |system, load| {
        let mut of: Vec<&Measured> = runs.get(&(system, load)).into_iter().flatten().collect();
        of.sort_by(|a, b| a.kept().total_cmp(&b.kept()));
        of.get(of.len() / 2).copied()
    };
    let mut points = Vec::new();
    for (system, architecture) in SYSTEMS.iter().enumerate() {
        for (load, &times) in FLOODS.iter().enumerate() {
            points.extend(median(system, load).map(|run| point(architecture.name(), times, run)));
        }
    }
    let kept = |system: usize| median(system, FLOODS.len() - 1).map_or(f64::NAN, Measured::kept);
    let of = |architecture| SYSTEMS.iter().position(|&other| other == architecture).map_or(f64::NAN, kept);
    let every = || runs.values().flatten();
    let counters = if every().all(|run| run.conserved) { "yes" } else { "no" };
    let core_shares: Vec<f64> = every().map(|run| run.core_share).collect();
    let checks = vec![
        predicted(Words, "ni-lrp: share of the transfers kept at 10 x the peak's SYNs")
            .within(KEPT, &[of(Architecture::NiLrp)]),
        condition("share of their cores that both threads had").within([0.9, 1.0], &core_shares),
        condition("every frame is accounted for").equal("yes", counters),
    ];
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
    let [clients, flood] = [0, 1].map(|link| lay(link, architecture));
    let clock = Clock::start();
    let schedule = Schedule { start: clock.now() + READY, warm_up: WARM_UP, window: options.window };
    let seed = options.seed;
    let (observed, offered) = opposite(
        |generator| serve(architecture, [clients.1, flood.1], clock, generator),
        |sending, server| {
            fetch(
                Ends { clients: clients.0, flood: flood.0 },
                clock,
                &schedule,
                (rate_pps, seed),
                (sending, server),
            )
        },
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
    ends: [End; 2],
    clock: Clock,
    generator: &Generator,
) -> io::Result<Observed> {
    let mut config = Config::of(architecture);
    config.tcp.time_wait.wait = TIME_WAIT;
    let mut engine = Engine::new(Host::new(config).map_err(io::Error::other)?, clock)?;
    let mut interfaces = Vec::new();
    for (end, address) in ends.into_iter().zip(SERVER) {
        interfaces.push(engine.add_cable(end, &[IpCidr::new(address.into(), 24)]).map_err(io::Error::other)?);
    }
    let host = engine.host_mut();
    let (httpd, _) = WebServer::new(HTTP, ListenerConfig::default(), DOCUMENT, WORK);
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

struct Ends {
    clients: End,
    flood: End,
}

/// Runs the other thread: clients, and after the first window the flood.
fn fetch(
    ends: Ends,
    clock: Clock,
    schedule: &Schedule,
    (rate_pps, seed): (u64, u64),
    (sending, server): (Sending, &Working),
) -> io::Result<Offered> {
    let Ends { clients, mut flood } = ends;
    let host = Host::new(Config { seed, ..Config::of(Architecture::Polled) }).map_err(io::Error::other)?;
    let mut engine = Engine::new(host, clock)?;
    engine.add_cable(clients, &[IpCidr::new(CLIENT.into(), 24)]).map_err(io::Error::other)?;
    let mut pool = Pool::with_limit(2 * RING_PKTS);
    flood.attach(&mut pool).map_err(io::Error::other)?;
    let syns = syns(seed);
    let mut turn = |engine: &mut Engine, pace: &mut Option<Pace>, next: &mut usize| -> io::Result<()> {
        let now = clock.now();
        for _ in 0..pace.as_mut().map_or(0, |pace| pace.take(now)) {
            flood.send(&syns[*next]);
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
