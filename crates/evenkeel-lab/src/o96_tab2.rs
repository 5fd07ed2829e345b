//! Worker and two RPC servers on one machine: Druschel and Banga, OSDI 1996, table 2.
//!
//! The worker computes for 11.5 seconds in answer to one call; meanwhile a client on another machine calls the two servers as often as they can answer, evenly
//! spread over time, so that they never block. The client's machine is not measured, and takes no time here.

use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::Endpoint;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::Ipv4Address;
use evenkeel_sim::rng::Ratio;
use evenkeel_sim::rpc::{OUTSTANDING_MAX, RpcClient, RpcServer, Worker};
use evenkeel_sim::world::World;

use crate::experiment::{Check, Experiment, Outcome, Point};
use crate::lrp_testbed::{Lost, Tuning, add_free_machine, add_machine_with, machine};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "o96-tab2",
    title: "Worker and two RPC servers",
    source: "Druschel and Banga, Lazy Receiver Processing, OSDI 1996, table 2",
    measure,
};

const SYSTEMS: [Architecture; 3] = [Architecture::Eager, Architecture::SoftLrp, Architecture::NiLrp];

/// O96.Tab2: elapsed seconds of the worker and calls a second of the servers, by system.
struct Row {
    work: &'static str,
    /// The program of the machine model.
    program: &'static str,
    paper: [(f64, f64); 3],
}

const ROWS: [Row; 3] = [
    Row { work: "Fast", program: "rpc-fast", paper: [(49.7, 3120.0), (38.7, 3133.0), (34.6, 3410.0)] },
    Row { work: "Medium", program: "rpc-medium", paper: [(47.1, 2712.0), (37.9, 2759.0), (34.1, 2783.0)] },
    Row { work: "Slow", program: "rpc-slow", paper: [(43.9, 2045.0), (38.5, 2134.0), (35.7, 2208.0)] },
];

/// O96.T2.worker.
const WORKER_CPU: Duration = Duration::from_millis(11_500);
/// O96.T2.share, in whole percent: 23 to 26 under 4.4BSD, and 29 to 33 under the LRP systems.
const SHARE_BSD: [f64; 2] = [0.225, 0.265];
const SHARE_LRP: [f64; 2] = [0.285, 0.335];

const CLIENT: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const SERVER: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
const WORKER_PORT: u16 = 5000;
const RPC_PORTS: [u16; 2] = [5001, 5002];
/// When all of them are called for the first time.
const START: Instant = Instant::from_millis(1_000);
/// The worker is given up after that.
const LONGEST: Duration = Duration::from_secs(100);

#[derive(Debug, Clone, Copy)]
struct Measured {
    elapsed_s: f64,
    rpc_per_s: f64,
    lost: f64,
}

impl Measured {
    /// CPU time of the call over the time it took.
    fn share(&self) -> f64 {
        WORKER_CPU.as_secs_f64() / self.elapsed_s
    }
}

fn run(architecture: Architecture, program: &str, seed: u64) -> Measured {
    let mut world = World::new(seed);
    let segment = world.add_segment();
    let client = add_free_machine(&mut world, segment, CLIENT);
    // What is outstanding has to find room, because the servers must never block and nothing be discarded (O96.T2.over).
    let tuning = Tuning { socket_queue_pkts: Some(OUTSTANDING_MAX as usize + 100) };
    let server = add_machine_with(&mut world, segment, architecture, SERVER, tuning);
    let machine = machine();
    let cost = |program| machine.program(program).expect("the model has it");
    // The model gives nanoseconds for each microsecond.
    let refill = Ratio::new(cost("worker-refill").as_nanos() as u32, 1000);
    let worker = Worker::new(WORKER_PORT, WORKER_CPU, refill);
    world.host_mut(server).spawn("worker", 0, Box::new(worker));
    for port in RPC_PORTS {
        world.host_mut(server).spawn("rpc-server", 0, Box::new(RpcServer::new(port, cost(program))));
    }
    let at = |port| Endpoint::new(SERVER.into(), port);
    let (calls, answered, worked) = RpcClient::new(at(WORKER_PORT), &RPC_PORTS.map(at), START);
    world.host_mut(client).spawn("rpc-client", 0, Box::new(calls));
    world.run_until(START);
    let lost = |world: &World| Lost::by(world, server).everywhere();
    let (before, lost_before) = (answered.get(), lost(&world));
    let elapsed = loop {
        let step = world.now() + Duration::from_millis(100);
        world.run_until(step);
        if let Some(&elapsed) = worked.take().first() {
            break elapsed;
        }
        if world.now() > START + LONGEST {
            break LONGEST;
        }
    };
    Measured {
        elapsed_s: elapsed.as_secs_f64(),
        rpc_per_s: (answered.get() - before) as f64 / world.now().since(START).as_secs_f64(),
        lost: (lost(&world) - lost_before) as f64,
    }
}

fn measure(seed: u64) -> Outcome {
    let mut points = Vec::new();
    let mut checks = Vec::new();
    let mut all: Vec<[Measured; 3]> = Vec::new();
    for (nth, row) in ROWS.iter().enumerate() {
        let x = 1.0 + nth as f64;
        let measured = SYSTEMS.map(|architecture| run(architecture, row.program, seed));
        for ((architecture, m), (elapsed, rate)) in SYSTEMS.iter().zip(&measured).zip(row.paper) {
            let name = format!("{}, {architecture}", row.work);
            let more = [("rpc_per_s", m.rpc_per_s), ("worker_share", m.share()), ("drops", m.lost)].into();
            points.push(Point { series: architecture.name().into(), x, y: m.elapsed_s, more });
            points.extend(Point::of_paper(architecture.name(), &[(x, elapsed)]));
            checks.push(Check::near(format!("{name}: worker elapsed (s)"), elapsed, m.elapsed_s, 0.10));
            checks.push(Check::near(format!("{name}: RPCs/s"), rate, m.rpc_per_s, 0.10));
        }
        all.push(measured);
    }
    let shares = |systems: &[usize]| -> Vec<f64> {
        all.iter()
            .flat_map(|row| systems.iter().filter_map(|&system| row.get(system)))
            .map(Measured::share)
            .collect()
    };
    let order: Vec<bool> = all
        .iter()
        .map(|[bsd, soft, ni]| {
            bsd.elapsed_s > soft.elapsed_s && soft.elapsed_s > ni.elapsed_s && bsd.rpc_per_s < ni.rpc_per_s
        })
        .collect();
    checks.extend([
        Check::within("worker's share, 4.4BSD", SHARE_BSD, &shares(&[0])),
        Check::within("worker's share, LRP systems (ideal 1/3)", SHARE_LRP, &shares(&[1, 2])),
        Check::within("Medium: worker sooner with SOFT-LRP by", [0.15, 0.25], &[sooner(&all[1], 1)]),
        Check::within("Medium: worker sooner with NI-LRP by", [0.23, 0.33], &[sooner(&all[1], 2)]),
        Check::within("Fast: worker sooner with NI-LRP by", [0.25, 0.35], &[sooner(&all[0], 2)]),
        Check::equal(
            "in all rows the worker takes longest under 4.4BSD, and least under NI-LRP, whose servers answer more than 4.4BSD's",
            "yes",
            if order.iter().all(|&row| row) { "yes" } else { "no" },
        ),
        Check::within(
            "datagrams lost",
            [0.0, 0.0],
            &all.iter().flatten().map(|m| m.lost).collect::<Vec<_>>(),
        ),
    ]);
    Outcome { x: "1 Fast, 2 Medium, 3 Slow", y: "worker elapsed (s)", y_max: None, points, checks }
}

/// By what fraction the worker is done sooner than under 4.4BSD.
fn sooner(row: &[Measured; 3], system: usize) -> f64 {
    1.0 - row[system].elapsed_s / row[0].elapsed_s
}
