//! The demonstration: each architecture under rising load.

use std::io;

use evenkeel::raw::cpu;
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::time::{Clock, Duration};

use super::bench::{Conditions, FRAME_BYTES, VICTIM_PPS, measure, shared_queue};
use super::devices::{self, Choice};
use super::loads::rising;
use super::options::{Options, Place, Progress};
use super::results::{self, Demonstration, Point, Setup, VethPoint};
use super::veth::{Loads, Outcome, Served};
use super::{machine, veth};

/// The load at which the reference peak is measured, in pps: more than any host can take.
const CALIBRATION_PPS: u64 = 3_000_000;
const CALIBRATION_WINDOW: Duration = Duration::from_millis(100);
/// The number of tries, the best of which is the reference. A disturbed measurement only ever gives a lower
/// value.
const CALIBRATIONS: usize = 5;
/// The number of measurements for each that may be repeated because the machine disturbed it.
const REPEATS_SHARE: usize = 3;
/// The lowest and the highest load, as multiples of the reference peak.
const LOWEST: f64 = 0.1;
const HIGHEST: f64 = 16.0;

/// Runs the demonstration. Calls `progress` after every measured load.
///
/// # Errors
/// If an architecture's name is unknown, the interface cannot be had, or the operating system refuses a
/// thread or a descriptor.
pub fn run(options: &Options, mut progress: impl FnMut(&Progress<'_>) + Send) -> io::Result<Demonstration> {
    if options.guard {
        return run_guard(options, progress);
    }
    let clock = Clock::start();
    let begun = clock.now();
    let architectures = options.architectures.iter().map(|name| name.parse());
    let mut architectures: Vec<Architecture> =
        architectures.collect::<Result<_, _>>().map_err(io::Error::other)?;
    let choice = options.on.map_or_else(devices::choose, |place| Choice { place, no_xdp: None });
    let place = choice.place;
    if place == Place::Packet {
        architectures.retain(|&architecture| architecture != Architecture::NiLrp);
    }
    let queues = if place == Place::Cable { options.queues } else { 1 };
    let runs = runs(&architectures, queues);
    let mut told = 0;
    let mut tell = |name: &str, of, offered_pps, delivered_pps| {
        told += 1;
        progress(&Progress { name, done: told, of, offered_pps, delivered_pps });
    };
    let series = runs.len() + usize::from(options.kernel) * Served::ALL.len();
    let mut work = || {
        let mut tell = |run: &Run, loads: &[u64], point: &Point| {
            tell(&run.name, loads.len() * series, point.offered_pps, point.delivered_pps);
        };
        measure_ours(&runs, options, place, &mut tell)
    };
    let Measured { loads, points } = match place {
        Place::Cable => work()?,
        Place::Packet | Place::Xdp => devices::in_namespace(work)?,
    };
    let window = Duration::from_secs_f64(options.seconds_per_point);
    let on_veth = options.kernel.then(|| {
        veth::run(&Served::ALL, Loads::These(&loads), options.work, window, |served, point| {
            tell(served.name(), loads.len() * series, point.offered_pps, point.delivered_pps)
        })
    });
    let summed = runs
        .iter()
        .zip(points)
        .map(|(run, points)| results::Architecture::from_points(run.name.clone(), run.queues, points));
    let setup = Setup {
        started: machine::utc(clock.wall_nanos(begun)),
        took_s: Some(clock.now().since(begun).as_secs_f64()),
        ..setup(options, choice, queues)
    };
    Ok(demonstration(setup, summed.collect(), on_veth))
}

/// Runs the demonstration of the guard: the kernel's own socket under rising load, without and with it.
fn run_guard(options: &Options, mut progress: impl FnMut(&Progress<'_>) + Send) -> io::Result<Demonstration> {
    const SOCKETS: [Served; 2] = [Served::ByKernel, Served::BehindGuard];
    let clock = Clock::start();
    let (begun, window) = (clock.now(), Duration::from_secs_f64(options.seconds_per_point));
    let mut done = 0;
    let loads = Loads::UpToMaximum(options.points);
    let outcomes = veth::run(&SOCKETS, loads, options.work, window, |served, point| {
        done += 1;
        let of = SOCKETS.len() * options.points;
        let VethPoint { offered_pps, delivered_pps, .. } = *point;
        progress(&Progress { name: served.name(), done, of, offered_pps, delivered_pps });
    });
    let outcomes = outcomes.map_err(io::Error::other)?;
    let choice = Choice { place: Place::Xdp, no_xdp: None };
    let setup = Setup {
        started: machine::utc(clock.wall_nanos(begun)),
        took_s: Some(clock.now().since(begun).as_secs_f64()),
        on: None,
        ..setup(options, choice, 1)
    };
    Ok(demonstration(setup, Vec::new(), Some(Ok(outcomes))))
}

/// Puts the parts together. The sockets on the veth pair are in the order of [`Served::ALL`].
fn demonstration(
    setup: Setup,
    architectures: Vec<results::Architecture>,
    on_veth: Option<Result<Vec<Outcome>, String>>,
) -> Demonstration {
    let mut outcomes = match on_veth {
        Some(Ok(outcomes)) => outcomes.into_iter().map(Some).collect(),
        Some(Err(why)) => Served::ALL.map(|_| Some(Err(why.clone()))).to_vec(),
        None => Vec::new(),
    };
    outcomes.resize(Served::ALL.len(), None);
    let mut outcomes = outcomes.into_iter().map(|outcome| match outcome {
        Some(Ok(socket)) => (Some(socket), None),
        Some(Err(why)) => (None, Some(why)),
        None => (None, None),
    });
    let mut next = || outcomes.next().unwrap_or_default();
    let ((kernel, kernel_missing), (guarded, guarded_missing), (over_xdp, over_xdp_missing)) =
        (next(), next(), next());
    Demonstration {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        setup,
        architectures,
        kernel,
        kernel_missing,
        guarded,
        guarded_missing,
        over_xdp,
        over_xdp_missing,
    }
}

/// The measurements of our architectures: each point of each run.
struct Measured {
    loads: Vec<u64>,
    points: Vec<Vec<Point>>,
}

/// Measures each run at each load. Calls `tell` after each measurement.
fn measure_ours(
    runs: &[Run],
    options: &Options,
    place: Place,
    tell: &mut dyn FnMut(&Run, &[u64], &Point),
) -> io::Result<Measured> {
    let conditions = |&Run { architecture, queues, .. }: &Run| Conditions {
        on: place,
        architecture,
        queues,
        work: options.work,
        window: Duration::from_secs_f64(options.seconds_per_point),
        seed: options.seed,
    };
    let queues = runs.last().map_or(1, |run| run.queues);
    let loads = loads(&reference(&conditions(&Run::new(Architecture::Polled, queues)))?, options.points);
    let mut repeats = loads.len() * runs.len() / REPEATS_SHARE;
    let mut points: Vec<Vec<Point>> = runs.iter().map(|_| Vec::new()).collect();
    // The loop goes load by load, not architecture by architecture: other tenants of the machine then
    // disturb all architectures alike.
    for &load in &loads {
        for (run, points) in runs.iter().zip(&mut points) {
            let point = measure(&conditions(run), load, &mut repeats)?;
            tell(run, &loads, &point);
            points.push(point);
        }
    }
    Ok(Measured { loads, points })
}

/// An architecture and a number of receive queues, which are measured at every load.
#[derive(Debug, Clone)]
struct Run {
    name: String,
    architecture: Architecture,
    queues: usize,
}

impl Run {
    fn new(architecture: Architecture, queues: usize) -> Self {
        Self { name: architecture.name().to_owned(), architecture, queues }
    }
}

/// Returns a run of each architecture. `soft-lrp`, the default one, also gets a run with a single receive
/// queue, as TAPs and most virtual machines have. That is the poorest case, so it comes first.
fn runs(architectures: &[Architecture], queues: usize) -> Vec<Run> {
    let one_queue = |&architecture: &Architecture| {
        let run = Run::new(architecture, 1);
        (architecture == Architecture::SoftLrp && queues > 1)
            .then(|| Run { name: format!("{}, 1 queue", run.name), ..run })
    };
    let with_all = architectures.iter().map(|&architecture| Run::new(architecture, queues));
    architectures.iter().filter_map(one_queue).chain(with_all).collect()
}

fn setup(options: &Options, choice: Choice, queues: usize) -> Setup {
    Setup {
        on: Some(choice.place.to_string()),
        no_xdp: choice.no_xdp,
        machine: machine::processor(),
        cores: cpu::cpus().len(),
        work_ns: options.work.as_nanos() as u64,
        frame_bytes: FRAME_BYTES,
        queues,
        shared_queue: shared_queue(queues),
        victim_pps: VICTIM_PPS as f64,
        seconds_per_point: options.seconds_per_point,
        seed: options.seed,
        system: machine::system(),
        started: None,
        took_s: None,
        command: Some(options.command(choice.place)),
    }
}

/// The rates that determine the loads, in pps.
struct Reference {
    /// The peak rate of the service.
    peak: f64,
    /// The highest rate that the generator offered.
    offered: f64,
}

/// Returns the highest rates in some runs of `conditions` under more load than the host can take.
fn reference(conditions: &Conditions) -> io::Result<Reference> {
    let conditions = Conditions { window: CALIBRATION_WINDOW, ..conditions.clone() };
    let mut best = Reference { peak: 1_000.0, offered: 0.0 };
    for _ in 0..CALIBRATIONS {
        let point = measure(&conditions, CALIBRATION_PPS, &mut 0)?;
        best.peak = best.peak.max(point.delivered_pps);
        best.offered = best.offered.max(point.offered_pps);
    }
    // On a cable the generator offers what it is asked for.
    if conditions.on == Place::Cable {
        best.offered = f64::INFINITY;
    }
    Ok(best)
}

/// Returns loads in equal ratios, lowest first, up to what the generator can offer.
fn loads(reference: &Reference, points: usize) -> Vec<u64> {
    let highest = (reference.peak * HIGHEST).min(reference.offered).max(reference.peak);
    rising(reference.peak * LOWEST, highest, points)
}
