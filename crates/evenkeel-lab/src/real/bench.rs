//! One measured run: a router on one core, a load generator on another.

use std::io;

use evenkeel::link::Clock;
use evenkeel_apps::demo::results::CpuShares;
use evenkeel_apps::measure::{Ball, Schedule, opposite};
use evenkeel_apps::outside::{Cables, Flood, Offered, Outside, Rings};
use evenkeel_core::cable;
use evenkeel_core::time::Duration;
use evenkeel_core::wire::EthernetAddress;

use super::outside::frames;
use super::router::{self, INSIDE, Inside, OUTSIDE, Observed, Variant};
use super::{Options, Place, devices};

/// Time for both threads to be ready before the first frame.
const READY: Duration = Duration::from_millis(30);
/// Time at the beginning of that to see how far their cores are from each other.
const RALLY: Duration = Duration::from_millis(5);
/// Time to fill queues and settle.
const WARM_UP: Duration = Duration::from_millis(60);
/// Rings of the router on the cable. What its receive ring holds finds room on the way out: in the transmit ring and an output queue of 256.
const RINGS: Rings = Rings { receive_pkts: 512, transmit_pkts: 256 };

/// What a run measured.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) offered_pps: f64,
    pub(super) forwarded_pps: f64,
    /// Shares of the router's core.
    pub(super) neighbour: f64,
    pub(super) cpu: CpuShares,
    /// The share of the window in which router and generator really had their cores: the lesser of the two.
    pub(super) core_share: f64,
    /// How long a cache line took to the generator's core and back, just before.
    pub(super) round_trip: Option<Duration>,
    /// Frames dropped, warm-up and all, by place.
    pub(super) drops: [(&'static str, u64); 6],
    /// Whether each frame was accounted for.
    pub(super) conserved: bool,
}

/// Offers `rate_pps`, or as much as can be, to a variant and measures what becomes of it.
pub(super) fn measure(variant: &Variant, rate_pps: Option<u64>, options: &Options) -> io::Result<Measured> {
    match options.on {
        Place::Cable => {
            let near = |link: usize| cable_end(["in", "out"][link], INSIDE[link]);
            let laid = Cables::lay(OUTSIDE, [0, 1].map(near), RINGS);
            let (outside, ends) = laid.map_err(io::Error::other)?;
            let inside = Inside::Cables(Box::new(ends));
            let (mut outside, offered, observed, round_trip) =
                run(variant, rate_pps, options, outside, inside)?;
            // Each frame sent is in the router's books, in a ring, shed by a ring, or turned away by the adaptor; and each frame
            // that the router sent has come out.
            let wire = outside.sent();
            let conserved = observed.balanced
                && offered.frames == wire.accepted + wire.shed + wire.discarded
                && wire.accepted == observed.received + observed.in_rings
                && observed.transmitted == outside.came_out();
            Ok(Measured { round_trip, ..measured(&offered, &observed, conserved) })
        }
        Place::Packet | Place::Tap => {
            let (outside, inside) = devices::open(options.on)?;
            let (outside, offered, observed, round_trip) = run(variant, rate_pps, options, outside, inside)?;
            // What the kernel lost between the generator and the router's ring it does not tell reliably: it counts other things as
            // dropped, too.
            let conserved = observed.balanced
                && observed.received <= offered.frames
                && outside.came_out()? <= observed.transmitted;
            Ok(Measured { round_trip, ..measured(&offered, &observed, conserved) })
        }
    }
}

fn cable_end(name: &str, address: EthernetAddress) -> cable::Options {
    cable::Options { address, ..cable::Options::new(name, 0) }
}

fn run<O: Outside + Send>(
    variant: &Variant,
    rate_pps: Option<u64>,
    options: &Options,
    mut outside: O,
    inside: Inside,
) -> io::Result<(O, Offered, Observed, Option<Duration>)> {
    let clock = Clock::start();
    let schedule = Schedule { start: clock.now() + READY, warm_up: WARM_UP, window: options.window };
    let frames = frames(options.seed);
    let (ball, rallied) = (Ball::default(), clock.now() + RALLY);
    let ((round_trip, observed), offered) = opposite(
        |generator| {
            let round_trip = ball.serve(clock, rallied);
            (round_trip, router::run(variant, inside, clock, generator))
        },
        |sending, router| {
            ball.give_back(clock, rallied);
            Flood { frames, rate_pps, clock, schedule, sending, router }.run(&mut outside, || false)
        },
    )?;
    Ok((outside, offered, observed?, round_trip))
}

fn measured(offered: &Offered, observed: &Observed, conserved: bool) -> Measured {
    Measured {
        offered_pps: offered.offered_pps,
        forwarded_pps: offered.forwarded_pps,
        neighbour: observed.neighbour,
        cpu: observed.cpu,
        core_share: observed.core_share.min(offered.core_share),
        round_trip: None,
        drops: [
            ("ring_drops", observed.shed),
            ("ip_queue_drops", observed.ip_queue_drops),
            ("channel_drops", observed.channel_drops),
            ("screen_drops", observed.screen_drops),
            ("output_drops", observed.output_drops),
            ("other_drops", observed.other_drops),
        ],
        conserved,
    }
}
