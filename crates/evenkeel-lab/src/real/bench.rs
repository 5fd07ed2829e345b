//! One measured run: a router on one core, a load generator on another.

use std::io;
use std::thread;

use evenkeel::link::Clock;
use evenkeel_apps::demo::results::CpuShares;
use evenkeel_core::time::Duration;

use super::outside::{Offered, Outside, generate};
use super::router::{self, Inside, Observed, Schedule, Variant};
use super::{Options, Place, cable, devices};

/// Time for both threads to be ready before the first frame.
const READY: Duration = Duration::from_millis(30);
/// Before the window: time to fill queues and settle. After it: time for what is on its way.
const WARM_UP: Duration = Duration::from_millis(60);
const DRAIN: Duration = Duration::from_millis(40);

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
    /// Frames dropped, warm-up and all, by place.
    pub(super) drops: [(&'static str, u64); 6],
    /// Whether each frame was accounted for.
    pub(super) conserved: bool,
}

/// Offers `rate_pps`, or as much as can be, to a variant and measures what becomes of it.
pub(super) fn measure(variant: &Variant, rate_pps: Option<u64>, options: &Options) -> io::Result<Measured> {
    match options.on {
        Place::Cable => {
            let (outside, inside) = cable::lay();
            let (mut outside, offered, observed) = run(variant, rate_pps, options, outside, inside)?;
            // Each frame sent is in the router's books, in a ring, shed by a ring, or turned away by the adaptor; and each frame
            // that the router sent has come out.
            let wire = outside.sent();
            let conserved = observed.balanced
                && offered.frames == wire.accepted + wire.shed + wire.discarded
                && wire.accepted == observed.received + observed.in_rings
                && observed.transmitted == outside.came_out();
            Ok(measured(&offered, &observed, conserved))
        }
        Place::Packet | Place::Tap => {
            let (outside, inside) = devices::open(options.on)?;
            let (outside, offered, observed) = run(variant, rate_pps, options, outside, inside)?;
            // What the kernel lost between the generator and the router's ring it does not tell reliably: it counts other things as
            // dropped, too.
            let conserved = observed.balanced
                && observed.received <= offered.frames
                && outside.came_out()? <= observed.transmitted;
            Ok(measured(&offered, &observed, conserved))
        }
    }
}

fn run<O: Outside + Send>(
    variant: &Variant,
    rate_pps: Option<u64>,
    options: &Options,
    mut outside: O,
    inside: Inside,
) -> io::Result<(O, Offered, Observed)> {
    let clock = Clock::start();
    let start = clock.now() + READY;
    let window = (start + WARM_UP, start + WARM_UP + options.window);
    let schedule = Schedule { start, window, end: window.1 + DRAIN };
    let (generators, routers) = router::processors();
    thread::scope(|scope| {
        let router = scope.spawn(|| router::run(variant, inside, routers, clock, schedule));
        let generator = scope.spawn(|| {
            evenkeel_apps::measure::settle_on(generators.as_ref());
            let offered = generate(&mut outside, rate_pps, options.seed, clock, schedule);
            (outside, offered)
        });
        let generated = generator.join().map_err(|_| io::Error::other("the generator's thread panicked"));
        let observed = router.join().map_err(|_| io::Error::other("the router's thread panicked"))??;
        let (outside, offered) = generated?;
        Ok((outside, offered, observed))
    })
}

fn measured(offered: &Offered, observed: &Observed, conserved: bool) -> Measured {
    Measured {
        offered_pps: offered.offered_pps,
        forwarded_pps: offered.forwarded_pps,
        neighbour: observed.neighbour,
        cpu: observed.cpu,
        core_share: observed.core_share.min(offered.core_share),
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
