//! Delivery rate estimation (draft-cheng-iccrg-delivery-rate-estimation; draft-ietf-ccwg-bbr, 4.1): how fast
//! data arrive, as each acknowledgment tells.
//!
//! Beside each segment of the scoreboard stands what had been delivered when it left. When it arrives, what
//! was delivered since, over the time that took, is a sample of the rate: the time of the acknowledgments, or
//! of sending if that was longer, so that acknowledgments that come together do not make it too high.
//! Connections that need none of it have none.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::rate::Rate;
use crate::time::{Duration, Instant};

/// The state of the connection when a segment left: the per-packet state of section 4.1.2.1.2.
#[derive(Debug, Clone, Copy)]
struct Stamp {
    delivered: u64,
    lost: u64,
    delivered_time: Instant,
    first_send_time: Instant,
    tx_in_flight: u32,
    app_limited: bool,
}

/// The segment that left last of those that an acknowledgment is for.
#[derive(Debug, Clone, Copy)]
struct Newest {
    stamp: Stamp,
    sent_at: Instant,
    end: u64,
}

/// A segment that was lost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lost {
    /// The position of the segment's first byte. `len` is the number of its bytes.
    pub(super) start: u64,
    pub(super) len: u32,
    /// The bytes in flight when the segment left, its own included.
    pub(super) tx_in_flight: u32,
    /// The bytes lost since the segment left, its own included.
    pub(super) since_sent: u64,
    pub(super) app_limited: bool,
}

/// The rate sample of an acknowledgment: the fields of section 2.3.
#[derive(Debug, Clone, Copy)]
pub(super) struct RateSample {
    /// [`None`] if the time is too short to tell.
    pub(super) rate: Option<Rate>,
    /// Delivered since the segment left, and when it left.
    pub(super) volume: u64,
    pub(super) prior_delivered: u64,
    pub(super) app_limited: bool,
    pub(super) tx_in_flight: u32,
    /// Lost since it left.
    pub(super) lost: u64,
}

/// State of a connection (section 4.1.2.1.1).
#[derive(Debug)]
pub(super) struct Delivery {
    /// One beside each segment of the scoreboard.
    stamps: VecDeque<Stamp>,
    pub(super) delivered: u64,
    lost: u64,
    delivered_time: Instant,
    first_send_time: Instant,
    /// Until so much is delivered.
    app_limited: Option<u64>,
    newest: Option<Newest>,
    /// Since the last call that asked, if there was one.
    losses: Vec<Lost>,
    reports_losses: bool,
    /// The last sample that the user did not limit, or a higher one that he did.
    pub(super) rate: Option<Rate>,
}

impl Delivery {
    pub(super) fn new(reports_losses: bool) -> Box<Self> {
        Box::new(Self {
            stamps: VecDeque::new(),
            delivered: 0,
            lost: 0,
            delivered_time: Instant::ZERO,
            first_send_time: Instant::ZERO,
            app_limited: None,
            newest: None,
            losses: Vec::new(),
            reports_losses,
            rate: None,
        })
    }

    /// Returns the state of the connection as a segment of `len` bytes leaves. `in_flight` includes these
    /// bytes.
    fn stamp(&mut self, in_flight: u32, len: u32, now: Instant) -> Stamp {
        if in_flight <= len {
            self.first_send_time = now;
            self.delivered_time = now;
        }
        Stamp {
            delivered: self.delivered,
            lost: self.lost,
            delivered_time: self.delivered_time,
            first_send_time: self.first_send_time,
            tx_in_flight: in_flight,
            app_limited: self.app_limited.is_some(),
        }
    }

    /// Records that a new segment left.
    pub(super) fn on_sent(&mut self, in_flight: u32, len: u32, now: Instant) {
        let stamp = self.stamp(in_flight, len, now);
        self.stamps.push_back(stamp);
    }

    /// Records that the segment with this index left again.
    #[cold]
    pub(super) fn on_sent_again(&mut self, index: usize, in_flight: u32, len: u32, now: Instant) {
        let stamp = self.stamp(in_flight, len, now);
        if let Some(old) = self.stamps.get_mut(index) {
            *old = stamp;
        }
    }

    /// Records that the segment with this index was cut in two.
    #[cold]
    pub(super) fn on_split(&mut self, index: usize) {
        if let Some(stamp) = self.stamps.get(index).copied() {
            self.stamps.insert(index + 1, stamp);
        }
    }

    /// The first is forgotten: nothing is open about it.
    #[cold]
    pub(super) fn forget_first(&mut self) {
        self.stamps.pop_front();
    }

    /// All are. What the acknowledgment tells is asked for afterwards.
    #[cold]
    pub(super) fn release(&mut self) {
        self.stamps = VecDeque::new();
    }

    /// Records that `len` bytes arrived of a segment that is not acknowledged as a whole.
    #[cold]
    pub(super) fn on_part_delivered(&mut self, len: u32) {
        self.delivered += u64::from(len);
    }

    /// Records that the segment with this index arrived, with `len` bytes up to `end`.
    #[cold]
    pub(super) fn on_delivered(&mut self, index: usize, len: u32, end: u64, sent_at: Instant) {
        self.delivered += u64::from(len);
        let Some(&stamp) = self.stamps.get(index) else { return };
        if self.newest.is_none_or(|newest| (newest.sent_at, newest.end) < (sent_at, end)) {
            self.newest = Some(Newest { stamp, sent_at, end });
        }
    }

    /// Records that the segment with this index is lost.
    #[cold]
    pub(super) fn on_lost(&mut self, index: usize, start: u64, len: u32) {
        self.lost += u64::from(len);
        let Some(stamp) = self.stamps.get(index) else { return };
        if !self.reports_losses {
            return;
        }
        self.losses.push(Lost {
            start,
            len,
            tx_in_flight: stamp.tx_in_flight,
            since_sent: self.lost - stamp.lost,
            app_limited: stamp.app_limited,
        });
    }

    /// Takes the lost segments that have not been reported yet.
    pub(super) fn take_losses(&mut self) -> Vec<Lost> {
        core::mem::take(&mut self.losses)
    }

    /// Records that the user's data, not the window, limits what is in flight. This holds for all bytes
    /// sent up to now and until the user has more to send.
    pub(super) fn limit_by_user(&mut self, in_flight: u32) {
        self.app_limited = Some(self.delivered + u64::from(in_flight));
    }

    /// Keeps the sample's rate, unless it tells more of the user than of the path.
    pub(super) fn keep(&mut self, sample: &RateSample) {
        let counts = |rate: &Rate| !sample.app_limited || self.rate.is_none_or(|old| old < *rate);
        if let Some(rate) = sample.rate.filter(counts) {
            self.rate = Some(rate);
        }
    }

    /// `GenerateRateSample`, when all that an acknowledgment is for was told. Nothing if nothing arrived.
    pub(super) fn sample(&mut self, min_rtt: Duration, now: Instant) -> Option<RateSample> {
        let Newest { stamp, sent_at, .. } = self.newest.take()?;
        self.delivered_time = now;
        self.first_send_time = sent_at;
        if self.app_limited.is_some_and(|until| self.delivered > until) {
            self.app_limited = None;
        }
        let interval = sent_at.since(stamp.first_send_time).max(now.since(stamp.delivered_time));
        let volume = self.delivered - stamp.delivered;
        // Shorter than any round trip: a segment that was sent again for nothing.
        let rate = Rate::of(volume, interval).filter(|_| interval >= min_rtt);
        Some(RateSample {
            rate,
            volume,
            prior_delivered: stamp.delivered,
            app_limited: stamp.app_limited,
            tx_in_flight: stamp.tx_in_flight,
            lost: self.lost - stamp.lost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    #[test]
    fn a_segment_that_is_remembered_takes_40_bytes_beside_the_scoreboard_s_32() {
        assert_eq!((size_of::<Stamp>(), size_of::<super::super::scoreboard::Segment>()), (40, 32));
    }

    #[test]
    fn a_pause_is_no_time_in_which_something_was_sent() {
        let mut delivery = Delivery::new(false);
        for time in [1_000, 5_000] {
            delivery.on_sent(1_000, 1_000, at(time));
            delivery.on_delivered(0, 1_000, 0, at(time));
            delivery.forget_first();
            let sample = delivery.sample(ROUND_TRIP, at(time) + ROUND_TRIP).unwrap();
            assert_eq!((sample.rate, sample.volume), (Rate::of(1_000, ROUND_TRIP), 1_000));
        }
    }

    #[test]
    fn of_what_arrives_together_the_one_sent_last_tells_and_parts_count() {
        for (first, second) in [(0, 1), (1, 0)] {
            let mut delivery = Delivery::new(false);
            delivery.on_sent(1_000, 1_000, at(1_000));
            delivery.on_sent(3_000, 2_000, at(1_050));
            delivery.on_part_delivered(400);
            let sent = [(600, 1_000, at(1_000)), (2_000, 3_000, at(1_050))];
            for index in [first, second] {
                let (len, end, sent_at) = sent[index];
                delivery.on_delivered(index, len, end, sent_at);
            }
            let sample = delivery.sample(ROUND_TRIP, at(1_150)).unwrap();
            assert_eq!((sample.tx_in_flight, sample.volume), (3_000, 3_000));
        }
    }

    #[test]
    fn in_less_than_a_round_trip_nothing_arrives_that_was_sent_in_it() {
        for (min_rtt, rate) in [(100, Rate::of(1_000, ROUND_TRIP)), (101, None)] {
            let mut delivery = Delivery::new(false);
            delivery.on_sent(1_000, 1_000, at(1_000));
            delivery.on_delivered(0, 1_000, 1_000, at(1_000));
            let sample = delivery.sample(Duration::from_millis(min_rtt), at(1_100)).unwrap();
            assert_eq!(sample.rate, rate);
        }
    }
}
