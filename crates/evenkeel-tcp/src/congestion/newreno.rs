//! The window of RFC 5681: one segment more with every round trip, half with every loss.

use super::control::{Arrival, Carry, CongestionControl, Window};
use super::slow_start::SlowStart;

/// Additive increase, multiplicative decrease. (What RFC 6582 adds is recovery, which all algorithms share.)
#[derive(Debug, Clone)]
pub struct NewReno {
    slow_start: SlowStart,
    carry: Carry,
    segments_per_ack: u8,
}

impl NewReno {
    /// Creates the state for a new connection; with or without HyStart++.
    #[must_use]
    pub fn new(hystart: bool) -> Self {
        let (slow_start, carry) = (SlowStart::new(hystart), Carry::default());
        Self { slow_start, carry, segments_per_ack: SlowStart::SEGMENTS_PER_ACK }
    }

    /// Sets the most segments that an acknowledgment counts for in slow start (`L` of RFC 3465).
    #[must_use]
    pub const fn with_segments_per_ack(mut self, segments: u8) -> Self {
        self.segments_per_ack = segments;
        self
    }
}

impl CongestionControl for NewReno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn on_arrival(&mut self, window: &mut Window, arrival: &Arrival) {
        if window.in_slow_start() {
            return self.slow_start.on_arrival(window, arrival, self.segments_per_ack);
        }
        // RFC 5681, equation 3, counted in bytes (RFC 3465).
        let share = u64::from(window.mss) * u64::from(arrival.bytes);
        window.grow(self.carry.divide(share, u64::from(window.cwnd)));
    }

    fn on_congestion(&mut self, window: &mut Window, flight: u32) {
        self.slow_start.over();
        // RFC 5681, equation 4
        window.ssthresh = window.at_least_two_segments(u64::from(flight / 2));
    }

    fn on_undo(&mut self, _window: &Window) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;

    const MSS: u32 = 1000;

    #[test]
    fn in_congestion_avoidance_a_round_trip_adds_one_segment() {
        let mut reno = NewReno::new(false);
        let mut window = Window { cwnd: 100 * MSS, ssthresh: 50 * MSS, mss: MSS };
        let arrival = Arrival { bytes: MSS, una: 0, nxt: 0, rtt: None, srtt: None, now: Instant::ZERO };
        (0..100).for_each(|_| reno.on_arrival(&mut window, &arrival));
        // A little less than one: the window grows during the round.
        assert!((101 * MSS - 10..=101 * MSS).contains(&window.cwnd), "{}", window.cwnd);
    }

    #[test]
    fn a_loss_halves_but_leaves_two_segments() {
        let mut reno = NewReno::new(false);
        let mut window = Window { cwnd: 100 * MSS, ssthresh: Window::UNKNOWN, mss: MSS };
        reno.on_congestion(&mut window, 80 * MSS);
        assert_eq!((window.cwnd, window.ssthresh), (100 * MSS, 40 * MSS));
        reno.on_timeout(&mut window, MSS);
        assert_eq!(window.ssthresh, 2 * MSS);
    }
}
