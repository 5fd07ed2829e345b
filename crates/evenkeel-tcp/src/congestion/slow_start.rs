//! Slow start (RFC 5681, 3.1), and HyStart++, which ends it when the round trip grows, before anything is
//! lost (RFC 9406).

use alloc::boxed::Box;

use super::control::{Arrival, Window};
use crate::time::nanos;

/// The window doubles with every round trip, until HyStart++ sees that a queue fills.
#[derive(Debug, Clone)]
pub(super) struct SlowStart {
    hystart: Watch,
}

/// The state of HyStart++: whether it watches the round trip.
#[derive(Debug, Clone)]
enum Watch {
    /// It does not, or no more.
    Off,
    /// It will when the window grows: a connection that only waits owns no memory for it.
    Ready,
    On(Box<HyStart>),
}

impl SlowStart {
    /// `L` of RFC 9406, 4.2, when nothing paces. RFC 5681's one segment makes slow start slower behind
    /// receivers that acknowledge many segments at a time.
    pub(super) const SEGMENTS_PER_ACK: u8 = 8;

    pub(super) fn new(hystart: bool) -> Self {
        Self { hystart: if hystart { Watch::Ready } else { Watch::Off } }
    }

    /// Grows the window, by so many segments for an acknowledgment at most, or one. To be called while it is
    /// in slow start.
    pub(super) fn on_arrival(&mut self, window: &mut Window, arrival: &Arrival, segments: u8) {
        let bytes = arrival.bytes.min(u32::from(segments.max(1)).saturating_mul(window.mss));
        if window.ssthresh != Window::UNKNOWN {
            // It has ended slow start before, and has found out where.
            self.over();
        } else if matches!(self.hystart, Watch::Ready) {
            self.hystart = Watch::On(Box::default());
        }
        let divisor = match &mut self.hystart {
            Watch::On(hystart) => hystart.on_arrival(window, arrival),
            Watch::Off | Watch::Ready => 1,
        };
        let room = window.ssthresh - window.cwnd;
        window.grow(u64::from((bytes / divisor).min(room)));
    }

    /// Ends HyStart++ with the first slow start: section 4.3 advises it for that one only.
    pub(super) fn over(&mut self) {
        self.hystart = Watch::Off;
    }
}

/// RFC 9406, section 4.2.
#[derive(Debug, Clone)]
struct HyStart {
    /// `windowEnd`: the round is over when this is acknowledged.
    round_end: u64,
    /// The shortest round trips, in nanoseconds; [`HyStart::NO_SAMPLE`] if there was none.
    last_round_min: u64,
    this_round_min: u64,
    samples: u32,
    conservative: Option<Box<Conservative>>,
}

/// Conservative slow start: was it a queue, or jitter?
#[derive(Debug, Clone, Copy)]
struct Conservative {
    baseline_min: u64,
    rounds: u32,
}

impl Default for HyStart {
    fn default() -> Self {
        let (last_round_min, this_round_min) = (Self::NO_SAMPLE, Self::NO_SAMPLE);
        Self { round_end: 0, last_round_min, this_round_min, samples: 0, conservative: None }
    }
}

impl HyStart {
    const NO_SAMPLE: u64 = u64::MAX;
    const RTT_THRESH_MIN: u64 = 4_000_000;
    const RTT_THRESH_MAX: u64 = 16_000_000;
    const RTT_DIVISOR: u64 = 8;
    const RTT_SAMPLES: u32 = 8;
    const CSS_GROWTH_DIVISOR: u32 = 4;
    const CSS_ROUNDS: u32 = 5;

    /// Returns by what growth is to be divided; ends slow start by setting `ssthresh`.
    fn on_arrival(&mut self, window: &mut Window, arrival: &Arrival) -> u32 {
        if let Some(rtt) = arrival.rtt {
            self.this_round_min = self.this_round_min.min(nanos(rtt));
            self.samples += 1;
        }
        self.judge();
        // What acknowledges the end of a round belongs to it.
        if arrival.una >= self.round_end {
            self.next_round(window, arrival.nxt);
        }
        if self.conservative.is_some() { Self::CSS_GROWTH_DIVISOR } else { 1 }
    }

    fn next_round(&mut self, window: &mut Window, nxt: u64) {
        self.round_end = nxt;
        self.last_round_min = core::mem::replace(&mut self.this_round_min, Self::NO_SAMPLE);
        self.samples = 0;
        if let Some(conservative) = &mut self.conservative {
            conservative.rounds += 1;
            if conservative.rounds >= Self::CSS_ROUNDS {
                window.ssthresh = window.cwnd;
            }
        }
    }

    fn judge(&mut self) {
        if self.samples < Self::RTT_SAMPLES {
            return;
        }
        let (last, this) = (self.last_round_min, self.this_round_min);
        match &self.conservative {
            Some(conservative) if this < conservative.baseline_min => self.conservative = None,
            Some(_) => {}
            None if last == Self::NO_SAMPLE => {}
            None => {
                let threshold = (last / Self::RTT_DIVISOR).clamp(Self::RTT_THRESH_MIN, Self::RTT_THRESH_MAX);
                if this >= last.saturating_add(threshold) {
                    self.conservative = Some(Box::new(Conservative { baseline_min: this, rounds: 0 }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Duration, Instant};

    const MSS: u32 = 1000;

    /// Simulates one round trip: everything in the window is acknowledged, segment by segment.
    fn round(slow_start: &mut SlowStart, window: &mut Window, una: &mut u64, rtt_ms: u64) {
        let nxt = *una + u64::from(window.cwnd);
        let sent = window.cwnd;
        for _ in 0..sent / MSS {
            *una += u64::from(MSS);
            let arrival = Arrival {
                bytes: MSS,
                una: *una,
                // What is acknowledged lets new segments leave.
                nxt: nxt + u64::from(window.cwnd - sent),
                rtt: Some(Duration::from_millis(rtt_ms)),
                srtt: None,
                now: Instant::ZERO,
            };
            if window.in_slow_start() {
                slow_start.on_arrival(window, &arrival, SlowStart::SEGMENTS_PER_ACK);
            }
        }
    }

    fn window() -> Window {
        Window { cwnd: 10 * MSS, ssthresh: Window::UNKNOWN, mss: MSS }
    }

    #[test]
    fn the_window_doubles_with_every_round_trip() {
        let (mut slow_start, mut window, mut una) = (SlowStart::new(true), window(), 0);
        for expected in [20, 40, 80, 160] {
            round(&mut slow_start, &mut window, &mut una, 50);
            assert_eq!(window.cwnd, expected * MSS);
        }
    }

    #[test]
    fn a_growing_round_trip_slows_the_growth_to_a_quarter_and_ends_it_after_five_rounds() {
        let (mut slow_start, mut window, mut una) = (SlowStart::new(true), window(), 0);
        round(&mut slow_start, &mut window, &mut una, 50);
        round(&mut slow_start, &mut window, &mut una, 50);
        let before = window.cwnd;
        // An eighth of 50 ms is 6.25 ms. SND.NXT was taken when eight segments of this window had not left
        // yet: the round before ends with them, and the eighth sample after that tells.
        round(&mut slow_start, &mut window, &mut una, 57);
        assert_eq!(window.cwnd, before + 15 * MSS + 25 * MSS / 4);
        for _ in 0..4 {
            assert!(window.in_slow_start());
            let before = window.cwnd;
            round(&mut slow_start, &mut window, &mut una, 57);
            assert!(window.cwnd <= before + before / 4 && window.cwnd > before + before / 5);
        }
        round(&mut slow_start, &mut window, &mut una, 57);
        assert!(!window.in_slow_start() && window.ssthresh <= window.cwnd);
    }

    /// RFC 9406, 4.3: HyStart++ is for the first slow start only; the others know where to end.
    #[test]
    fn once_it_has_ended_slow_start_a_later_one_is_an_ordinary_one() {
        let (mut slow_start, mut window, mut una) = (SlowStart::new(true), window(), 0);
        round(&mut slow_start, &mut window, &mut una, 50);
        round(&mut slow_start, &mut window, &mut una, 50);
        while window.in_slow_start() {
            round(&mut slow_start, &mut window, &mut una, 57);
        }
        // After a pause (RFC 5681, 4.1).
        window.cwnd = 10 * MSS;
        for expected in [20, 40] {
            round(&mut slow_start, &mut window, &mut una, 57);
            assert_eq!(window.cwnd, expected * MSS);
        }
        assert!(window.in_slow_start());
    }

    #[test]
    fn if_the_round_trip_shrinks_again_it_was_jitter() {
        let (mut slow_start, mut window, mut una) = (SlowStart::new(true), window(), 0);
        for rtt_ms in [50, 57, 50] {
            round(&mut slow_start, &mut window, &mut una, rtt_ms);
        }
        let before = window.cwnd;
        round(&mut slow_start, &mut window, &mut una, 50);
        assert_eq!(window.cwnd, before + before / MSS * MSS);
    }

    #[test]
    fn one_acknowledgment_counts_for_eight_segments_at_most() {
        let (mut slow_start, mut window) = (SlowStart::new(false), window());
        let arrival = Arrival { bytes: 50 * MSS, una: 0, nxt: 0, rtt: None, srtt: None, now: Instant::ZERO };
        slow_start.on_arrival(&mut window, &arrival, SlowStart::SEGMENTS_PER_ACK);
        assert_eq!(window.cwnd, 18 * MSS);
    }

    #[test]
    fn growth_stops_at_ssthresh() {
        let (mut slow_start, mut window) = (SlowStart::new(false), window());
        window.ssthresh = 10 * MSS + 300;
        let arrival = Arrival { bytes: MSS, una: 0, nxt: 0, rtt: None, srtt: None, now: Instant::ZERO };
        slow_start.on_arrival(&mut window, &arrival, SlowStart::SEGMENTS_PER_ACK);
        assert_eq!(window.cwnd, 10 * MSS + 300);
    }
}
