//! What is around the router: a load generator, and somebody who takes what comes out.

use evenkeel::link::{self, Clock};
use evenkeel_apps::pace::Pace;
use evenkeel_apps::requests::{Requests, Shape};
use evenkeel_core::time::Duration;
use evenkeel_core::wire::IpEndpoint;

use super::router::{DESTINATION, INSIDE, OUTSIDE, SOURCE, Schedule};

/// Octets of payload, as the paper's generator sends.
const PAYLOAD: usize = 4;
/// The phantom destination's port: `discard`.
const PORT: u16 = 9;
const FLOWS: u16 = 64;
/// Frames sent between two looks at the clock, at most.
const BURST_PKTS: u64 = 64;

/// The far ends of the router's two links.
pub(super) trait Outside {
    /// Sends a frame towards the router.
    fn offer(&mut self, frame: &[u8]);

    /// Pushes out what was offered.
    fn flush(&mut self);

    /// Takes what the router has sent.
    fn drain(&mut self);

    /// Frames that have come out of the second link so far.
    fn forwarded(&mut self) -> u64;
}

/// What was offered, and what came out for it.
#[derive(Debug)]
pub(super) struct Offered {
    /// Frames sent in all.
    pub(super) frames: u64,
    pub(super) offered_pps: f64,
    pub(super) forwarded_pps: f64,
    /// The share of the window in which the generator's thread really had its core.
    pub(super) core_share: f64,
}

/// Offers `rate_pps` through a measurement, or as much as can be, on the calling thread.
#[expect(clippy::cast_precision_loss, reason = "rates for reports")]
pub(super) fn generate(
    outside: &mut impl Outside,
    rate_pps: Option<u64>,
    seed: u64,
    clock: Clock,
    schedule: Schedule,
) -> Offered {
    let mut flood = flood(seed);
    clock.spin_until(schedule.start);
    let mut pace = rate_pps.map_or_else(
        || Pace::unlimited(BURST_PKTS, schedule.start),
        |rate| Pace::new(rate, BURST_PKTS, schedule.start),
    );
    let mut from = None;
    let mut now = clock.now();
    while now < schedule.window.1 {
        if now >= schedule.window.0 && from.is_none() {
            from = Some((now, pace.granted(), outside.forwarded(), link::thread_cpu_time()));
        }
        for _ in 0..pace.take(now) {
            outside.offer(flood.next());
        }
        outside.flush();
        outside.drain();
        now = clock.now();
    }
    let (offered, forwarded, ran) = (pace.granted(), outside.forwarded(), link::thread_cpu_time());
    let (since, offered_before, forwarded_before, ran_before) =
        from.unwrap_or((now, offered, forwarded, ran));
    let seconds = now.since(since).max(Duration::from_nanos(1)).as_secs_f64();
    while clock.now() < schedule.end {
        outside.drain();
    }
    Offered {
        frames: offered,
        offered_pps: (offered - offered_before) as f64 / seconds,
        forwarded_pps: (forwarded - forwarded_before) as f64 / seconds,
        core_share: (ran.saturating_sub(ran_before).as_secs_f64() / seconds).min(1.0),
    }
}

fn flood(seed: u64) -> Requests {
    let shape = Shape {
        hardware: (OUTSIDE[0], INSIDE[0]),
        from: IpEndpoint::new(SOURCE.into(), 20_000),
        to: IpEndpoint::new(DESTINATION.into(), PORT),
        payload: PAYLOAD,
        flows: FLOWS,
        seed,
    };
    Requests::new(&shape).expect("both ends are IPv4 and the ports are in range")
}
