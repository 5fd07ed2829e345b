//! A measured run: a router on one core, a load generator on another.

use std::io;

use evenkeel::raw::cable;
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::EthernetAddress;
use evenkeel_apps::demo::results::CpuShares;
use evenkeel_apps::far_ends::{Cables, FarEnds, Flood, Offered, Rings};
use evenkeel_apps::measure::{Ball, Schedule, opposite};

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
    pub(super) drops: [(&'static str, u64); 6],
    /// Whether each frame was accounted for.
    pub(super) conserved: bool,
}

/// Offers a load to a variant, or the highest possible one, and measures the result. Several loads may run
/// one after the other in one run; the measurements of the router's thread then cover all of them.
pub(super) fn measure<const LOADS: usize>(
    variant: &Variant,
    loads: [Option<u64>; LOADS],
    options: &Options,
) -> io::Result<[Measured; LOADS]> {
    match options.on {
        Place::Cable => {
            let near = |link: usize| cable_end(["in", "out"][link], INSIDE[link]);
            let laid = Cables::lay(OUTSIDE, [0, 1].map(near), RINGS);
            let (mut outside, ends) = laid.map_err(io::Error::other)?;
            let inside = Inside::Cables(Box::new(ends));
            let run = run(variant, loads, options, &mut outside, inside)?;
            // Each sent frame is in the router's counters, in a ring, shed by a ring, or refused by the
            // adaptor; and each frame that the router sent has come out.
            let (wire, observed) = (outside.sent(), &run.observed);
            let conserved = observed.balanced
                && run.frames() == wire.accepted + wire.missed + wire.discarded
                && wire.accepted == observed.received + observed.in_rings
                && observed.transmitted == outside.came_out();
            Ok(run.measured(conserved))
        }
        Place::Packet | Place::Tap => {
            let (mut outside, inside) = devices::open(options.on)?;
            let run = run(variant, loads, options, &mut outside, inside)?;
            // The kernel's count of losses between the generator and the router's ring is not reliable: it
            // includes other frames.
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

/// The measurements of the generator and the router in a run.
struct Run<const LOADS: usize> {
    offered: [Offered; LOADS],
    observed: Observed,
    round_trip: Option<Duration>,
}

fn run<const LOADS: usize>(
    variant: &Variant,
    loads: [Option<u64>; LOADS],
    options: &Options,
    outside: &mut (impl FarEnds + Send),
    inside: Inside,
) -> io::Result<Run<LOADS>> {
    let clock = Clock::start();
    let Options { warm_up, window, .. } = *options;
    let schedule = Schedule { start: clock.now() + READY, warm_up, window };
    let frames = frames(options.seed);
    let (ball, rallied) = (Ball::default(), clock.now() + RALLY);
    let ((round_trip, observed), offered) = opposite(
        |generator| {
            let round_trip = ball.serve(clock, rallied);
            (round_trip, router::run(variant, inside, clock, generator))
        },
        |sending, router| {
            ball.give_back(clock, rallied);
            Flood { frames, clock, schedule, sending, router }.run(loads, outside, || false)
        },
    )?;
    Ok(Run { offered, observed: observed?, round_trip })
}

impl<const LOADS: usize> Run<LOADS> {
    /// Returns the number of frames sent in all.
    fn frames(&self) -> u64 {
        self.offered.iter().map(|offered| offered.frames).sum()
    }

    fn measured(&self, conserved: bool) -> [Measured; LOADS] {
        let observed = &self.observed;
        self.offered.map(|offered| Measured {
            offered_pps: offered.offered_pps,
            forwarded_pps: offered.forwarded_pps,
            neighbour: observed.neighbour,
            cpu: observed.cpu,
            core_share: observed.core_share.min(offered.core_share),
            round_trip: self.round_trip,
            drops: [
                ("ring_drops", observed.missed),
                ("ip_queue_drops", observed.ip_queue_drops),
                ("channel_drops", observed.channel_drops),
                ("screen_drops", observed.screen_drops),
                ("output_drops", observed.output_drops),
                ("other_drops", observed.other_drops),
            ],
            conserved,
        })
    }
}
