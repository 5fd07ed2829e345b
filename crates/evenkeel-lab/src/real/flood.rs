//! The flood that the router gets.

use evenkeel::raw::wire::IpEndpoint;
use evenkeel_apps::requests::{Requests, Shape};

use super::router::{DESTINATION, INSIDE, OUTSIDE, SOURCE};

/// The payload bytes of the paper's generator.
const PAYLOAD: usize = 4;
/// The phantom destination's port: `discard`.
const PORT: u16 = 9;
const FLOWS: u16 = 64;

pub(super) fn frames(seed: u64) -> Requests {
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
