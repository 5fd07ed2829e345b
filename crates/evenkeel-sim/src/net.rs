//! The network emulator, [`evenkeel_wan`], with conditions that can be copied, for simulations.

use evenkeel_core::time::{Duration, Instant};
pub use evenkeel_wan::{Counters, Frame};
use evenkeel_wan::{Limit, Loss, Rate, Settings, Size};

use crate::rng::{Ratio, Rng};

/// The conditions of one direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conditions {
    /// Bits per second at which frames are put on the wire; `None` is no limit.
    pub rate_bps: Option<u64>,
    /// The propagation delay of every frame.
    pub delay: Duration,
    /// A further delay of each frame, uniform from zero to this. Frames stay in order.
    pub jitter: Duration,
    /// The most frames that wait for the wire; further ones are dropped. Not used without a rate.
    pub queue_pkts: usize,
    /// The share of lost frames.
    pub loss: Ratio,
    /// The share of frames delivered twice, the copy directly after the original.
    pub duplication: Ratio,
    /// The share of frames in which one bit is flipped, anywhere.
    pub corruption: Ratio,
    /// The share of frames delayed by [`Conditions::reordering_delay`], so that later ones overtake them.
    pub reordering: Ratio,
    /// The additional delay of a reordered frame.
    pub reordering_delay: Duration,
}

impl Conditions {
    /// A perfect wire: no delay, no limit, no fault.
    pub const PERFECT: Self = Self {
        rate_bps: None,
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        queue_pkts: 0,
        loss: Ratio::ZERO,
        duplication: Ratio::ZERO,
        corruption: Ratio::ZERO,
        reordering: Ratio::ZERO,
        reordering_delay: Duration::ZERO,
    };

    /// Returns the conditions of a wire of `rate_bps` and `delay`, with room for `queue_pkts` frames in
    /// front of it, and no faults.
    #[must_use]
    pub const fn wire(rate_bps: u64, delay: Duration, queue_pkts: usize) -> Self {
        Self { rate_bps: Some(rate_bps), delay, queue_pkts, ..Self::PERFECT }
    }

    /// Returns conditions with this rate, delay and queue, without faults.
    #[must_use]
    pub const fn without_faults(self) -> Self {
        Self {
            loss: Ratio::ZERO,
            duplication: Ratio::ZERO,
            corruption: Ratio::ZERO,
            reordering: Ratio::ZERO,
            ..self
        }
    }
}

impl From<Conditions> for Settings {
    fn from(conditions: Conditions) -> Self {
        Self {
            rate: conditions.rate_bps.map_or(Rate::Unlimited, Rate::Bits),
            size: Size::ETHERNET,
            queue: Limit::Packets(conditions.queue_pkts),
            delay: conditions.delay,
            jitter: conditions.jitter,
            jitter_reorders: false,
            loss: Loss::Independent(conditions.loss),
            duplication: conditions.duplication,
            corruption: conditions.corruption,
            reordering: conditions.reordering,
            reordering_delay: conditions.reordering_delay,
        }
    }
}

/// One direction of a link with these conditions. [`evenkeel_wan::Path`] has the details.
#[derive(Debug)]
pub struct Path<F = Vec<u8>> {
    conditions: Conditions,
    path: evenkeel_wan::Path<F>,
}

impl<F: Frame + Clone> Path<F> {
    /// Creates a path with these conditions, its faults drawn from `rng`.
    #[must_use]
    pub fn new(conditions: Conditions, rng: Rng) -> Self {
        Self { conditions, path: evenkeel_wan::Path::new(conditions.into(), rng, Instant::ZERO) }
    }

    /// Changes the conditions from now on; frames in transit are not affected.
    pub fn set_conditions(&mut self, conditions: Conditions) {
        self.conditions = conditions;
        self.path.set_settings(conditions.into());
    }

    /// Returns the present conditions of the path.
    #[must_use]
    pub const fn conditions(&self) -> Conditions {
        self.conditions
    }

    /// Returns the counters of the path since its creation.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.path.counters()
    }

    /// Returns the number of frames under way.
    #[must_use]
    pub fn flying(&self) -> usize {
        self.path.under_way()
    }

    /// Takes a frame that enters the path, from the Ethernet header on.
    pub fn handle_frame(&mut self, now: Instant, frame: F) {
        self.path.handle_frame(now, frame);
    }

    /// Returns the next frame that has arrived by `now`.
    pub fn poll_frame(&mut self, now: Instant) -> Option<F> {
        self.path.poll_frame(now)
    }

    /// Returns the time at which the next frame arrives; [`Instant::NEVER`] if none is under way.
    #[must_use]
    pub fn poll_timeout(&self) -> Instant {
        self.path.poll_timeout()
    }
}

/// Returns the time that a frame of `len_bytes` occupies a wire of `rate_bps`. The shortest frame takes
/// 67.2 µs at 10 Mbit/s.
pub(crate) fn ethernet_time(len_bytes: usize, rate_bps: u64) -> Duration {
    let bits = u64::from(Size::ETHERNET.of(len_bytes)) * 8;
    Duration::from_nanos(bits * 1_000_000_000 / rate_bps.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(path: &mut Path, now: Instant) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| path.poll_frame(now)).collect()
    }

    #[test]
    fn a_frame_takes_its_time_on_the_wire_and_then_the_delay() {
        // 126 + 24 bytes take 1 ms at 1.2 Mbit/s.
        let mut path = Path::new(Conditions::wire(1_200_000, Duration::from_millis(5), 10), Rng::new(0));
        path.handle_frame(Instant::ZERO, vec![1; 126]);
        path.handle_frame(Instant::ZERO, vec![2; 126]);
        assert_eq!(path.poll_timeout(), Instant::from_millis(6));
        assert_eq!(frames(&mut path, Instant::from_millis(6)), [vec![1; 126]]);
        assert_eq!(path.poll_timeout(), Instant::from_millis(7));
        assert_eq!(frames(&mut path, Instant::from_millis(7)), [vec![2; 126]]);
        assert_eq!(path.poll_timeout(), Instant::NEVER);
    }

    #[test]
    fn the_queue_in_front_of_the_wire_is_bounded() {
        let mut path = Path::new(Conditions::wire(1_200_000, Duration::ZERO, 3), Rng::new(0));
        for _ in 0..10 {
            path.handle_frame(Instant::ZERO, vec![0; 126]);
        }
        assert_eq!(path.counters().overflowed, 6, "one on the wire, three waiting");
        path.handle_frame(Instant::from_millis(1), vec![0; 126]);
        assert_eq!(path.counters().overflowed, 6, "room for one after one has left");
        assert_eq!(frames(&mut path, Instant::from_millis(5)).len(), 5);
    }

    #[test]
    fn faults_come_at_their_rates() {
        let conditions = Conditions {
            loss: Ratio::percent(10),
            duplication: Ratio::percent(20),
            corruption: Ratio::percent(30),
            reordering: Ratio::percent(5),
            reordering_delay: Duration::from_millis(1),
            ..Conditions::PERFECT
        };
        let mut path = Path::new(conditions, Rng::new(3));
        for _ in 0..10_000 {
            path.handle_frame(Instant::ZERO, vec![0; 64]);
        }
        let c = path.counters();
        assert!((900..1100).contains(&c.lost), "{c:?}");
        assert!((1650..1950).contains(&c.duplicated), "{c:?}");
        assert!((2550..2850).contains(&c.corrupted), "{c:?}");
        assert!((450..630).contains(&c.reordered), "{c:?}");
        let got = frames(&mut path, Instant::from_millis(1));
        assert_eq!(got.len() as u64, c.offered - c.lost + c.duplicated);
        assert!(got.iter().all(|f| f.iter().map(|b| b.count_ones()).sum::<u32>() <= 1), "one bit at most");
    }

    #[test]
    fn jitter_keeps_the_order_and_reordering_breaks_it() {
        let order = |conditions| {
            let mut path = Path::new(conditions, Rng::new(4));
            for n in 0..100_u8 {
                path.handle_frame(Instant::from_micros(u64::from(n)), vec![n; 60]);
            }
            frames(&mut path, Instant::from_millis(10)).iter().map(|f| f[0]).collect::<Vec<_>>()
        };
        let jitter = Conditions { jitter: Duration::from_millis(1), ..Conditions::PERFECT };
        assert!(order(jitter).is_sorted());
        let reordering = Conditions {
            reordering: Ratio::percent(10),
            reordering_delay: Duration::from_micros(10),
            ..Conditions::PERFECT
        };
        assert!(!order(reordering).is_sorted());
    }
}
