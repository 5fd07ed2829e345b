//! A measured run: a host on one core, a load generator on another.

use std::io;

use evenkeel::raw::cable::{self, WireCounters};
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::EthernetAddress;
use evenkeel_apps::demo::results::CpuShares;
use evenkeel_apps::far_ends::{Cables, FarEnds, Flood, Offered, Rings};
use evenkeel_apps::measure::{Ball, Generator, Schedule, opposite};
use evenkeel_apps::requests::Requests;

use super::flood::frames;
use super::router::{self, INSIDE, Inside, OUTSIDE, Observed, Variant};
use super::{Options, Place, devices};

/// The time for both threads to be ready before the first frame.
const READY: Duration = Duration::from_millis(30);
/// The part of that time for measuring the distance of their cores.
const RALLY: Duration = Duration::from_millis(5);
/// The rings of the router on the cable. The frames of its receive ring fit on the output side: in the
/// transmit ring and an output queue of 256.
const RINGS: Rings = Rings { receive_pkts: 512, transmit_pkts: 256 };

/// The measurements of a run.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) offered_pps: f64,
    pub(super) forwarded_pps: f64,
    /// The shares of the router's core.
    pub(super) neighbour: f64,
    pub(super) cpu: CpuShares,
    /// The share of the window in which router and generator really had their cores: the smaller of the two.
    pub(super) core_share: f64,
    /// The round-trip time of a cache line to the generator's core, measured just before the run.
    pub(super) round_trip: Option<Duration>,
    /// Dropped frames by place, including those of the warm-up.
    pub(super) drops: Vec<(&'static str, u64)>,
    /// Whether each frame was accounted for.
    pub(super) conserved: bool,
}

/// Offers loads to the router. The measurements of its thread cover all of them.
pub(super) fn measure<const LOADS: usize>(
    variant: &Variant,
    loads: [Option<u64>; LOADS],
    options: &Options,
) -> io::Result<[Measured; LOADS]> {
    let frames = frames(options.seed);
    match options.on {
        Place::Cable => {
            let near = |link: usize| cable_end(["in", "out"][link], INSIDE[link]);
            let laid = Cables::lay(OUTSIDE, [0, 1].map(near), RINGS);
            let (mut outside, ends) = laid.map_err(io::Error::other)?;
            let inside = Inside::Cables(Box::new(ends));
            let router = |clock, generator: &Generator| router::run(variant, inside, clock, generator);
            let run = run(router, frames, loads, options, &mut outside)?;
            // Each sent frame is in the router's counters, in a ring, shed by a ring, or refused by the
            // adaptor; and each frame that the router sent has come out.
            let conserved =
                run.is_conserved(outside.sent()) && run.observed.transmitted == outside.came_out();
            Ok(run.measured(conserved))
        }
        Place::Packet | Place::Tap | Place::Xdp => {
            let (mut outside, inside) = devices::open(options.on)?;
            let router = |clock, generator: &Generator| router::run(variant, inside, clock, generator);
            let run = run(router, frames, loads, options, &mut outside)?;
            // The kernel's count of losses between the generator and the router's ring is not reliable:
            // it includes other frames.
            let conserved = run.observed.balanced
                && run.observed.received <= run.frames()
                && outside.came_out()? <= run.observed.transmitted;
            Ok(run.measured(conserved))
        }
    }
}

fn cable_end(name: &str, address: EthernetAddress) -> cable::Options {
    cable::Options { address, ..cable::Options::new(name, 0) }
}

/// The measurements of the generator and the host in a run.
pub(super) struct Run<const LOADS: usize> {
    offered: [Offered; LOADS],
    pub(super) observed: Observed,
    round_trip: Option<Duration>,
}

/// Runs a host on one core, and floods it with `frames` from the other one, at one load after the other.
pub(super) fn run<const LOADS: usize>(
    host: impl FnOnce(Clock, &Generator) -> io::Result<Observed> + Send,
    frames: Requests,
    loads: [Option<u64>; LOADS],
    options: &Options,
    outside: &mut (impl FarEnds + Send),
) -> io::Result<Run<LOADS>> {
    let clock = Clock::start();
    let Options { warm_up, window, .. } = *options;
    let schedule = Schedule { start: clock.now() + READY, warm_up, window };
    let (ball, rallied) = (Ball::default(), clock.now() + RALLY);
    let ((round_trip, observed), offered) = opposite(
        |generator| {
            let round_trip = ball.serve(clock, rallied);
            (round_trip, host(clock, generator))
        },
        |sending, host| {
            ball.give_back(clock, rallied);
            Flood { frames, clock, schedule, sending, router: host }.run(loads, outside, || false)
        },
    )?;
    Ok(Run { offered, observed: observed?, round_trip })
}

impl<const LOADS: usize> Run<LOADS> {
    /// Returns the number of frames sent in all.
    pub(super) fn frames(&self) -> u64 {
        self.offered.iter().map(|offered| offered.frames).sum()
    }

    /// Returns whether each sent frame is in the counters of `wire`, a cable, and of the host.
    pub(super) fn is_conserved(&self, wire: WireCounters) -> bool {
        let observed = &self.observed;
        observed.balanced
            && self.frames() == wire.accepted + wire.missed + wire.discarded
            && wire.accepted == observed.received + observed.in_rings
    }

    pub(super) fn measured(&self, conserved: bool) -> [Measured; LOADS] {
        let observed = &self.observed;
        self.offered.map(|offered| Measured {
            offered_pps: offered.offered_pps,
            forwarded_pps: offered.forwarded_pps,
            neighbour: observed.neighbour,
            cpu: observed.cpu,
            core_share: observed.core_share.min(offered.core_share),
            round_trip: self.round_trip,
            drops: observed.drops.clone(),
            conserved,
        })
    }
}
