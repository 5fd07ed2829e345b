//! The kernels that each figure compares, and the checks of each figure.

use std::io;

use evenkeel::raw::host::Config;
use evenkeel::raw::receive::{Architecture, CycleLimit, Quota};
use evenkeel::raw::time::Duration;

use super::bench::{self, Measured};
use super::router::Variant;
use super::sweep::{Curve, Subject, sweep};
use super::{Options, Place, Progress, devices};
use crate::check::{Check, Origin::*, condition, predicted};
use crate::experiment::{Outcome, Point};

/// The share of the peak that counts as kept, at the highest load. A share above 1 is variation between two
/// windows of one run; a median beyond the upper bound is no measurement of a peak.
pub(super) const KEPT: [f64; 2] = [0.97, 1.1];
/// The share of the peak that counts as falling.
const FALLING: [f64; 2] = [0.0, 0.9];
/// The share of the peak that counts as livelock.
const LIVELOCK: [f64; 2] = [0.0, 0.2];
/// The share of their cores that router and generator must have had.
const UNDISTURBED: [f64; 2] = [0.9, 1.0];
/// The tolerance of a neighbour's share of the core, as a share of the core.
const OFF: f64 = 0.05;
/// The multiple of the peak from which a load counts as overload.
const OVERLOAD: f64 = 1.5;

impl Subject for Variant {
    fn name(&self) -> &'static str {
        self.name
    }

    fn measure<const LOADS: usize>(
        &self,
        loads: [Option<u64>; LOADS],
        options: &Options,
    ) -> io::Result<[Measured; LOADS]> {
        bench::measure(self, loads, options)
    }
}

/// A figure of the paper in real time.
pub(super) struct Figure {
    pub(super) id: &'static str,
    variants: fn(&Options) -> Vec<Variant>,
    /// The variant whose peak determines the loads. It must keep its peak.
    reference: fn(&Options) -> Variant,
    y: &'static str,
    value: fn(&Measured) -> f64,
    /// The checks for curves that must keep their peak, on any kind of device.
    checks: fn(&[Curve]) -> Vec<Check>,
    /// The checks for curves that must lose their peak. They apply to the cable only: a load through the
    /// kernel is too small to livelock any of these.
    losses: fn(&[Curve]) -> Vec<Check>,
}

/// The figures that can be measured in real time.
pub(super) static ALL: [Figure; 4] = [UNMODIFIED, QUOTA, FEEDBACK, CYCLE_LIMIT];

/// Returns the figure of an experiment, if it can be measured in real time.
pub(super) fn of(id: &str) -> Option<&'static Figure> {
    ALL.iter().find(|figure| figure.id == id)
}

impl Figure {
    pub(super) fn measure(
        &self,
        options: &Options,
        progress: &mut (dyn FnMut(&Progress<'_>) + Send),
    ) -> io::Result<Outcome> {
        let variants = (self.variants)(options);
        let reference = (self.reference)(options);
        let mut work = || sweep(&variants, &reference, options, progress);
        let curves = match options.on {
            Place::Cable => work()?,
            place => devices::in_namespace(place, &mut work)?,
        };
        let losses = if options.on == Place::Cable { (self.losses)(&curves) } else { Vec::new() };
        let points = curves.iter().flat_map(|curve| {
            curve.points.iter().map(|(load, run)| point(curve.name, *load, run, self.value))
        });
        let checks = [
            (self.checks)(&curves),
            losses,
            vec![overload(&curves), undisturbed(&curves), counters(&curves, options.on)],
        ];
        let kept = curves.iter().map(|curve| (curve.name.to_owned(), curve.retention())).collect();
        let outcome = Outcome::new("load asked for (pps)", self.y, points.collect(), checks.concat());
        Ok(Outcome { kept, ..outcome })
    }
}

/// Returns the point of a curve at a load, whose height is `value` of the measurement.
pub(super) fn point(series: &str, load: f64, run: &Measured, value: fn(&Measured) -> f64) -> Point {
    let mut point = Point::new(series, load, value(run)).with([
        ("offered_pps", run.offered_pps),
        ("forwarded_pps", run.forwarded_pps),
        ("neighbour", run.neighbour),
        ("interrupt", run.cpu.interrupt),
        ("soft_interrupt", run.cpu.soft_interrupt),
        ("polling_thread", run.cpu.polling_thread),
        ("process", run.cpu.process),
        ("core_share", run.core_share),
    ]);
    point.more.extend(run.round_trip.map(|time| ("round_trip_ns", time.as_nanos() as f64)));
    point.more.extend(run.drops.iter().map(|&(place, frames)| (place, frames as f64)));
    point
}

const FORWARDED: &str = "forwarded (pps)";

/// Figure 2: the unmodified kernel, without and with screening.
const UNMODIFIED: Figure = Figure {
    id: "l97-fig2",
    variants: |options| {
        vec![
            variant("eager", Architecture::Eager),
            Variant { screening: Some(options.work), ..variant("eager+screen", Architecture::Eager) },
        ]
    },
    reference: unscreened,
    y: FORWARDED,
    value: |run| run.forwarded_pps,
    checks: |_| Vec::new(),
    losses: |curves| vec![falls(&curves[0]), livelocks(&curves[1])],
};

/// Figure 5: forwarding without screening.
const QUOTA: Figure = Figure {
    id: "l97-fig5",
    variants: |options| {
        vec![
            variant("eager", Architecture::Eager),
            Variant {
                config: Config { quota: Quota::Unlimited, ..router(Architecture::Polled) },
                ..variant("no quota", Architecture::Polled)
            },
            unscreened(options),
            variant("soft-lrp", Architecture::SoftLrp),
        ]
    },
    reference: unscreened,
    y: FORWARDED,
    value: |run| run.forwarded_pps,
    checks: |curves| vec![keeps(&curves[2]), keeps(&curves[3])],
    losses: |curves| vec![falls(&curves[0]), livelocks(&curves[1])],
};

/// Figure 6: forwarding with screening.
const FEEDBACK: Figure = Figure {
    id: "l97-fig6",
    variants: |options| {
        let with_screen =
            |name, architecture| Variant { screening: Some(options.work), ..variant(name, architecture) };
        let without = Config { feedback: None, ..router(Architecture::Polled) };
        vec![
            with_screen("eager", Architecture::Eager),
            Variant { config: without, ..with_screen("no feedback", Architecture::Polled) },
            screened(options),
            with_screen("soft-lrp", Architecture::SoftLrp),
        ]
    },
    reference: screened,
    y: FORWARDED,
    value: |run| run.forwarded_pps,
    checks: |curves| vec![keeps(&curves[2]), keeps(&curves[3])],
    losses: |curves| vec![livelocks(&curves[0]), livelocks(&curves[1])],
};

/// The limits of figure 10, in percent.
const LIMITS: [(&str, u8); 4] = [("25 %", 25), ("50 %", 50), ("75 %", 75), ("100 %", 100)];

/// The period of the limits, short so that a window has many. On the paper's machine, which is much slower,
/// it is 10 ms.
const PERIOD: Duration = Duration::from_millis(2);

/// Figure 10: the share of a compute-bound process on the router.
const CYCLE_LIMIT: Figure = Figure {
    id: "l97-fig10",
    variants: |options| {
        let limited = |(name, percent)| {
            let cycle_limit = Some(CycleLimit { period: PERIOD, percent });
            let config = Config { cycle_limit, ..router(Architecture::Polled) };
            Variant { config, neighbour: true, ..variant(name, Architecture::Polled) }
        };
        let both = Variant { name: "50 %+screen", screening: Some(options.work), ..limited(LIMITS[1]) };
        let lazy = Variant { neighbour: true, ..variant("soft-lrp", Architecture::SoftLrp) };
        LIMITS.map(limited).into_iter().chain([both, lazy]).collect()
    },
    reference: unscreened,
    y: "share of the neighbour",
    value: |run| run.neighbour,
    checks: |curves| {
        let limits = LIMITS.iter().zip(curves);
        let mut checks: Vec<Check> = limits.clone().flat_map(|(limit, c)| shares(limit.1, c)).collect();
        checks.extend(limits.map(|(_, curve)| keeps(curve)));
        for curve in &curves[LIMITS.len()..] {
            checks.extend([fair(curve), keeps(curve)]);
        }
        checks
    },
    losses: |_| Vec::new(),
};

fn variant(name: &'static str, architecture: Architecture) -> Variant {
    Variant { name, config: router(architecture), screening: None, neighbour: false }
}

/// Returns the variant with polling, quota and feedback.
fn unscreened(_options: &Options) -> Variant {
    variant("polled", Architecture::Polled)
}

/// Returns the variant of [`unscreened`] with screening.
fn screened(options: &Options) -> Variant {
    Variant { screening: Some(options.work), ..unscreened(options) }
}

/// Returns the defaults of an architecture, with forwarding.
fn router(architecture: Architecture) -> Config {
    let mut config = Config::of(architecture);
    config.stack.forwarding = true;
    config
}

pub(super) fn keeps(curve: &Curve) -> Check {
    let name = format!("{}: share of the peak at the highest load", curve.name);
    predicted(Words, name).within(KEPT, &[curve.retention()])
}

pub(super) fn falls(curve: &Curve) -> Check {
    let name = format!("{}: share of the peak at the highest load, falling", curve.name);
    predicted(Words, name).within(FALLING, &[curve.retention()])
}

pub(super) fn livelocks(curve: &Curve) -> Check {
    let name = format!("{}: share of the peak at the highest load, livelock", curve.name);
    predicted(Words, name).within(LIVELOCK, &[curve.retention()])
}

/// Checks that the neighbour has at least the share that the limit leaves at every load, and not more in
/// overload.
fn shares(limit_percent: u8, curve: &Curve) -> [Check; 2] {
    let left = 1.0 - f64::from(limit_percent) / 100.0;
    let share = |pressed: bool| -> Vec<f64> {
        let points = curve.points.iter().filter(|(load, _)| !pressed || *load >= OVERLOAD * curve.peak_pps());
        points.map(|(_, run)| run.neighbour).collect()
    };
    let name = curve.name;
    [
        predicted(Words, format!("{name}: neighbour's share at any load"))
            .within([left - OFF, 1.0], &share(false)),
        predicted(Words, format!("{name}: neighbour's share in overload"))
            .within([left - OFF, left + OFF], &share(true)),
    ]
}

/// Checks that the neighbour has at least half of the CPU time of processes.
fn fair(curve: &Curve) -> Check {
    let short: Vec<f64> = curve.points.iter().map(|(_, run)| run.neighbour - run.cpu.process / 2.0).collect();
    predicted(Ours, format!("{}: neighbour's share beyond half of the processes'", curve.name))
        .within([-OFF, 1.0], &short)
}

/// Checks that the load went far beyond the peak, without which the curves show nothing.
pub(super) fn overload(curves: &[Curve]) -> Check {
    let highest = |curve: &Curve| {
        let offered = curve.points.last().map_or(0.0, |(_, run)| run.offered_pps);
        offered / curve.peak_pps().max(1.0)
    };
    let all: Vec<f64> = curves.iter().map(highest).collect();
    condition("highest load, in peaks of each").within([OVERLOAD, 1000.0], &all)
}

/// Checks that router and generator had their cores. A busy machine makes figures low and uneven.
pub(super) fn undisturbed(curves: &[Curve]) -> Check {
    let all: Vec<f64> = curves.iter().flat_map(Curve::runs).map(|run| run.core_share).collect();
    condition("share of their cores that router and generator had").within(UNDISTURBED, &all)
}

/// Checks the counters of frames. On the cable all of a frame's path is ours. On devices of the kernel it
/// is not: between the generator and the router's ring, frames are lost that the kernel does not count
/// reliably.
fn counters(curves: &[Curve], on: Place) -> Check {
    let on_devices =
        "the router accounts for every frame, has no more than were sent, and no more come out than it sent";
    conserved(curves, if on == Place::Cable { ALL_OF_THE_WAY } else { on_devices })
}

/// The name of the check on counters, if all of a frame's path is ours.
pub(super) const ALL_OF_THE_WAY: &str = "every frame is accounted for";

/// Checks under this name that the frames of each measurement add up.
pub(super) fn conserved(curves: &[Curve], name: &str) -> Check {
    let balance = curves.iter().flat_map(Curve::runs).all(|run| run.conserved);
    condition(name).equal("yes", if balance { "yes" } else { "no" })
}
