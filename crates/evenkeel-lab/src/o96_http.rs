//! A web server during a load on another port: Druschel and Banga, OSDI 1996, section 4.2, the informal
//! experiment before figure 5.
//!
//! Clients fetch documents, while a third machine sends 10 000 datagrams a second to a program that discards
//! them. The paper reports in words: 4.4BSD's server answers no client and its console is dead. SOFT-LRP's
//! server answers, and its console responds, both somewhat slower.

use evenkeel::raw::process::{Program, Step, System};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::time::{Duration, Instant};
use evenkeel::raw::wire::{IpEndpoint, Ipv4Address};
use evenkeel_sim::web::{WebClient, WebServer};
use evenkeel_sim::workload::{Log, Sink, Tally};
use evenkeel_sim::world::World;

use crate::check::{Check, Origin::*, condition, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::lrp_testbed::{add_blaster, add_machine, listener, machine};
use crate::o96_fig5::DOCUMENT;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "o96-http",
    title: "A web server and its console beside a load for another port",
    source: "Druschel and Banga, Lazy Receiver Processing, OSDI 1996, section 4.2",
    measure,
};

const SYSTEMS: [Architecture; 3] = [Architecture::Eager, Architecture::SoftLrp, Architecture::NiLrp];

/// The rate of the load in pps (O96.h.rate).
const RATE: u64 = 10_000;
/// The number of clients. The paper does not state it.
const CLIENTS: usize = 2;
const CLIENT: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const SERVER: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
const HTTP: u16 = 80;
const OTHER: u16 = 5001;
const BACKLOG: usize = 16;

const LOAD_START: Instant = Instant::from_millis(1_000);
const WARM_UP: Duration = Duration::from_secs(4);
const TIME: Duration = Duration::from_secs(10);

/// The interval between keys, and the CPU time of a shell and an echo for each key.
const KEY_EVERY: Duration = Duration::from_millis(250);
const KEY_WORK: Duration = Duration::from_millis(2);

/// A user at the console, with the time from each key to its echo.
#[derive(Debug)]
struct Console {
    struck: Instant,
    echoed: Log<Duration>,
    working: bool,
}

impl Console {
    fn new() -> (Self, Log<Duration>) {
        let echoed = Log::default();
        (Self { struck: Instant::ZERO, echoed: echoed.clone(), working: false }, echoed)
    }
}

impl Program for Console {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        if !std::mem::replace(&mut self.working, true) {
            system.compute(KEY_WORK);
            return Step::Again;
        }
        self.working = false;
        self.echoed.push(system.now().since(self.struck));
        // Keys that are pressed meanwhile wait for each other.
        self.struck += KEY_EVERY;
        if self.struck > system.now() { Step::Sleep(self.struck) } else { Step::Again }
    }
}

#[derive(Debug, Clone, Copy)]
struct Measured {
    transfers: f64,
    /// The time until the console answers, in milliseconds: the mean, and the worst.
    echo_ms: [f64; 2],
}

fn run(architecture: Architecture, load_pps: u64, seed: u64) -> Measured {
    let mut world = World::new(seed);
    let segment = world.add_segment();
    let client = add_machine(&mut world, segment, architecture, CLIENT);
    let server = add_machine(&mut world, segment, architecture, SERVER);
    let compute = machine().program("httpd").expect("the model has it");
    let (httpd, _) = WebServer::new(HTTP, listener(BACKLOG), DOCUMENT, compute);
    let (sink, _) = Sink::new(OTHER, Duration::ZERO);
    let (console, echoed) = Console::new();
    let host = world.host_mut(server);
    host.spawn("httpd", 0, Box::new(httpd));
    host.spawn("sink", 0, Box::new(sink));
    host.spawn("console", 0, Box::new(console));
    let fetched: Vec<Tally> = (0..CLIENTS)
        .map(|_| {
            let (program, counts) = WebClient::new(IpEndpoint::new(SERVER.into(), HTTP), DOCUMENT);
            world.host_mut(client).spawn("client", 0, Box::new(program));
            counts.fetched
        })
        .collect();
    if load_pps > 0 {
        add_blaster(&mut world, segment, (server, SERVER, OTHER), load_pps, LOAD_START);
    }
    let transfers = || fetched.iter().map(Tally::get).sum::<u64>();
    world.run_until(LOAD_START + WARM_UP);
    let before = transfers();
    let _ = echoed.take();
    world.run_until(LOAD_START + WARM_UP + TIME);
    let ms: Vec<f64> = echoed.take().iter().map(|time| time.as_secs_f64() * 1e3).collect();
    // A console without an answer took longer than the measurement.
    let silent = TIME.as_secs_f64() * 1e3;
    let mean = if ms.is_empty() { silent } else { ms.iter().sum::<f64>() / ms.len() as f64 };
    let worst = ms.iter().copied().fold(if ms.is_empty() { silent } else { 0.0 }, f64::max);
    Measured { transfers: (transfers() - before) as f64 / TIME.as_secs_f64(), echo_ms: [mean, worst] }
}

fn measure(seed: u64) -> Outcome {
    let runs = SYSTEMS.map(|architecture| [0, RATE].map(|load| run(architecture, load, seed)));
    let mut points = Vec::new();
    for (architecture, of_system) in SYSTEMS.iter().zip(&runs) {
        for (load, m) in [0, RATE].into_iter().zip(of_system) {
            let more = [("echo_ms", m.echo_ms[0]), ("worst_echo_ms", m.echo_ms[1])];
            points.push(Point::new(architecture.name(), load as f64, m.transfers).with(more));
        }
    }
    Outcome::new("load for another port (pps)", "HTTP transfers/s", points, checks(&runs))
}

/// The share below which a reader would call the server frozen, or dead.
const FROZEN: f64 = 0.05;
const DEAD_MS: f64 = 5_000.0;
/// The echo time (ms) beyond which a console is not responsive.
const RESPONSIVE_MS: f64 = 500.0;

const FREEZE: &str = "by its own prices 60 % of the core goes to interruptions at this rate, and decay-usage \
     scheduling divides the rest; the paper does not say what program, if any, received the packets, nor at \
     what priority, and a console needs more than a process (interrupts of its own, pages) to be alive";

fn checks(runs: &[[Measured; 2]; 3]) -> Vec<Check> {
    let kept = |[calm, loaded]: &[Measured; 2]| loaded.transfers / calm.transfers;
    let [bsd, soft, ni] = runs;
    vec![
        condition("transfers a second without the load, all systems")
            .within([10.0, 1e4], &runs.map(|[calm, _]| calm.transfers)),
        predicted(Words, "4.4BSD: transfers beside the load, of those without: freezes")
            .within([0.0, FROZEN], &[kept(bsd)])
            .known_miss(FREEZE),
        predicted(Words, "4.4BSD: until its console answers, the mean (ms): dead")
            .within([DEAD_MS, 1e9], &[bsd[1].echo_ms[0]])
            .known_miss(FREEZE),
        predicted(Words, "SOFT-LRP: transfers beside the load, of those without: answers")
            .within([0.2, 0.95], &[kept(soft)]),
        predicted(Words, "SOFT-LRP: until its console answers, the mean (ms): responsive")
            .within([0.0, RESPONSIVE_MS], &[soft[1].echo_ms[0]]),
        predicted(Words, "4.4BSD keeps less of its transfers than SOFT-LRP: share of that")
            .within([0.0, 0.9], &[kept(bsd) / kept(soft)]),
        predicted(Ours, "NI-LRP (ours): transfers beside the load, of SOFT-LRP's share")
            .within([1.0, 10.0], &[kept(ni) / kept(soft)]),
    ]
}
