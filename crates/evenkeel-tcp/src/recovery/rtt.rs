//! Round-trip time and retransmission timeout (RFC 6298).

use crate::time::{Duration, Instant, nanos};

/// Bounds of the retransmission timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtoConfig {
    /// Before the first sample. Default 1 s (RFC 6298, 2.1).
    pub initial: Duration,
    /// The minimum difference between the timeout and the smoothed round-trip time. Default 200 ms, as in
    /// Linux.
    ///
    /// RFC 6298, 2.4 wants a timeout of at least 1 s, because clocks were coarse and spurious timeouts dear.
    /// This clock counts nanoseconds, and spurious timeouts are detected and undone. What must still fit
    /// between a segment and its timeout is the receiver's delay of an ACK, up to 200 ms in common systems;
    /// it is added to the round trip, so that a short path does not time out while the receiver waits.
    pub slack_min: Duration,
    /// However often it was doubled. Default 120 s; RFC 6298, 2.5 allows no less than 60 s.
    pub max: Duration,
}

impl Default for RtoConfig {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            slack_min: Duration::from_millis(200),
            max: Duration::from_secs(120),
        }
    }
}

/// The estimator of RFC 6298, section 2.
///
/// It reckons in nanoseconds, of which 64 bits are enough for centuries: it is asked with every segment, and
/// there is one for every connection.
#[derive(Debug, Clone)]
pub(crate) struct RttEstimator {
    /// `SRTT` and `RTTVAR`, of no meaning until there was a sample. An `Option` of both would take eight
    /// bytes more of every connection.
    srtt: u64,
    rttvar: u64,
    is_sampled: bool,
    syn_lost: bool,
    /// The number of times that the timer has expired since the last sample.
    backoff: u32,
    min: WindowedMin,
    /// The timeout that follows from these, in nanoseconds: it is asked for more often than it changes.
    rto: u64,
}

impl RttEstimator {
    /// After the timeout of a SYN (RFC 6298, 5.7).
    const INITIAL_AFTER_LOST_SYN: Duration = Duration::from_secs(3);

    pub(crate) fn new(config: &RtoConfig) -> Self {
        let (min, rto) = (WindowedMin::new(), 0);
        let (is_sampled, syn_lost) = (false, false);
        let mut estimator = Self { srtt: 0, rttvar: 0, is_sampled, syn_lost, backoff: 0, min, rto };
        estimator.renew_rto(config);
        estimator
    }

    /// Takes a sample: a segment that was sent once took `rtt` nanoseconds to be acknowledged. The caller
    /// applies Karn's algorithm (RFC 6298, 3).
    ///
    /// `per_round` is how many samples a round trip brings. With more than one the gains shrink, so that the
    /// memory stays as long as with one (RFC 7323, appendix G).
    pub(crate) fn sample(&mut self, rtt: u64, per_round: u32, config: &RtoConfig) {
        let per_round = per_round.max(1);
        (self.srtt, self.rttvar) = if self.is_sampled {
            // (2.3), with alpha = 1/8 and beta = 1/4
            let rttvar = approach(self.rttvar, self.srtt.abs_diff(rtt), per_round.saturating_mul(4));
            (approach(self.srtt, rtt, per_round.saturating_mul(8)), rttvar)
        } else {
            // (2.2)
            (rtt, rtt / 2)
        };
        self.is_sampled = true;
        self.backoff = 0;
        self.renew_rto(config);
    }

    /// Notes a round trip of so many nanoseconds for [`RttEstimator::min`]: the shortest that an
    /// acknowledgment tells of, also if it was no sample.
    pub(crate) fn record_min(&mut self, rtt_nanos: u64, now: Instant) {
        self.min.record(rtt_nanos, now);
    }

    /// Returns the shortest round trip of the last minutes.
    pub(crate) fn min(&self) -> Option<Duration> {
        self.min_nanos().map(Duration::from_nanos)
    }

    pub(crate) fn min_nanos(&self) -> Option<u64> {
        self.min.get()
    }

    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.srtt_nanos().map(Duration::from_nanos)
    }

    pub(crate) fn srtt_nanos(&self) -> Option<u64> {
        self.is_sampled.then_some(self.srtt)
    }

    pub(crate) fn rttvar(&self) -> Option<Duration> {
        self.is_sampled.then(|| Duration::from_nanos(self.rttvar))
    }

    /// Returns the timeout for what is sent now.
    pub(crate) fn rto(&self) -> Duration {
        Duration::from_nanos(self.rto)
    }

    pub(crate) fn rto_nanos(&self) -> u64 {
        self.rto
    }

    fn renew_rto(&mut self, config: &RtoConfig) {
        let rto = if self.is_sampled {
            self.srtt.saturating_add(self.rttvar.saturating_mul(4).max(nanos(config.slack_min)))
        } else if self.syn_lost {
            nanos(config.initial.max(Self::INITIAL_AFTER_LOST_SYN))
        } else {
            nanos(config.initial)
        };
        let factor = 1u64.checked_shl(self.backoff).unwrap_or(u64::MAX);
        self.rto = rto.saturating_mul(factor).min(nanos(config.max));
    }

    /// The timeout follows from the rest.
    #[cfg(test)]
    pub(super) fn is_rto_of(&self, config: &RtoConfig) -> bool {
        let mut anew = self.clone();
        anew.renew_rto(config);
        anew.rto == self.rto
    }

    /// Doubles the next timeout after the timer expired (5.5).
    pub(crate) fn back_off(&mut self, config: &RtoConfig) {
        self.backoff = self.backoff.saturating_add(1);
        self.renew_rto(config);
    }

    /// Undoes the backoff after a spurious timeout.
    pub(crate) fn forget_backoff(&mut self, config: &RtoConfig) {
        self.backoff = 0;
        self.renew_rto(config);
    }

    /// Sets the timeout for the first data to 3 s, because the SYN had to be sent again and its
    /// acknowledgment does not measure the round trip (5.7).
    pub(crate) fn syn_was_lost(&mut self, config: &RtoConfig) {
        self.syn_lost = true;
        self.forget_backoff(config);
    }
}

/// Returns `value` moved by 1/`steps` of the way to `target`.
fn approach(value: u64, target: u64, steps: u32) -> u64 {
    // The way there may lead up or down; no time is so long that it would not fit.
    let way = target.wrapping_sub(value) as i64;
    value.wrapping_add_signed(way / i64::from(steps))
}

/// The minimum over the last five minutes, give or take half (RFC 8985, 6.2, step 1: a longer route must be
/// noticed some time). In nanoseconds.
#[derive(Debug, Clone)]
struct WindowedMin {
    previous: u64,
    current: u64,
    since: Instant,
}

impl WindowedMin {
    const HALF_NANOS: u64 = nanos(Duration::from_secs(150));
    /// No round trip was seen.
    const NONE: u64 = u64::MAX;

    const fn new() -> Self {
        Self { previous: Self::NONE, current: Self::NONE, since: Instant::ZERO }
    }

    fn record(&mut self, nanos: u64, now: Instant) {
        if now.nanos_since(self.since) >= Self::HALF_NANOS {
            self.previous = core::mem::replace(&mut self.current, Self::NONE);
            self.since = now;
        }
        self.current = self.current.min(nanos);
    }

    fn get(&self) -> Option<u64> {
        let min = self.previous.min(self.current);
        (min != Self::NONE).then_some(min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn estimator() -> RttEstimator {
        RttEstimator::new(&RtoConfig::default())
    }

    /// Adds a round-trip sample with the default configuration.
    fn sample(rtt: &mut RttEstimator, sample: Duration, per_round: u32) {
        rtt.sample(nanos(sample), per_round, &RtoConfig::default());
    }

    fn rto(rtt: &RttEstimator) -> Duration {
        rtt.rto()
    }

    #[test]
    fn the_first_sample_sets_srtt_and_half_of_it_rttvar() {
        let mut rtt = estimator();
        assert_eq!(rto(&rtt), Duration::from_secs(1));
        sample(&mut rtt, ms(400), 1);
        assert_eq!((rtt.srtt(), rtt.rttvar(), rto(&rtt)), (Some(ms(400)), Some(ms(200)), ms(1200)));
    }

    #[test]
    fn later_samples_move_srtt_by_an_eighth_and_rttvar_by_a_quarter() {
        let mut rtt = estimator();
        sample(&mut rtt, ms(400), 1);
        sample(&mut rtt, ms(800), 1);
        // RTTVAR = 3/4 * 200 + 1/4 * |400 - 800|, SRTT = 7/8 * 400 + 1/8 * 800
        assert_eq!((rtt.srtt(), rtt.rttvar(), rto(&rtt)), (Some(ms(450)), Some(ms(250)), ms(1450)));
    }

    #[test]
    fn more_samples_in_a_round_weigh_less_each() {
        let mut rtt = estimator();
        sample(&mut rtt, ms(400), 1);
        sample(&mut rtt, ms(800), 4);
        assert_eq!(
            (rtt.srtt(), rtt.rttvar()),
            (Some(Duration::from_micros(412_500)), Some(Duration::from_micros(212_500)))
        );
    }

    #[test]
    fn on_a_short_path_the_timeout_leaves_room_for_a_delayed_ack() {
        let mut rtt = estimator();
        (0..100).for_each(|_| sample(&mut rtt, ms(1), 1));
        assert_eq!(rto(&rtt), ms(201));
    }

    #[test]
    fn the_timeout_doubles_until_a_sample_and_never_exceeds_its_maximum() {
        let mut rtt = estimator();
        sample(&mut rtt, ms(400), 1);
        rtt.back_off(&RtoConfig::default());
        rtt.back_off(&RtoConfig::default());
        assert_eq!(rto(&rtt), ms(4800));
        (0..100).for_each(|_| rtt.back_off(&RtoConfig::default()));
        assert_eq!(rto(&rtt), Duration::from_secs(120));
        sample(&mut rtt, ms(400), 1);
        assert!(rto(&rtt) < ms(1200));
    }

    #[test]
    fn data_after_a_lost_syn_begin_with_three_seconds() {
        let mut rtt = estimator();
        rtt.back_off(&RtoConfig::default());
        rtt.syn_was_lost(&RtoConfig::default());
        assert_eq!(rto(&rtt), Duration::from_secs(3));
        let mut rtt = estimator();
        sample(&mut rtt, ms(10), 1);
        rtt.syn_was_lost(&RtoConfig::default());
        assert_eq!(rto(&rtt), ms(210), "not if timestamps told the round trip all the same");
    }

    #[test]
    fn the_minimum_forgets_what_is_older_than_five_minutes() {
        let mut rtt = estimator();
        rtt.record_min(nanos(ms(10)), Instant::from_millis(0));
        rtt.record_min(nanos(ms(30)), Instant::from_millis(150_000));
        assert_eq!(rtt.min(), Some(ms(10)));
        rtt.record_min(nanos(ms(40)), Instant::from_millis(300_000));
        assert_eq!(rtt.min(), Some(ms(30)));
    }

    proptest! {
        #[test]
        fn srtt_stays_among_the_samples_and_the_timeout_above_it(
            samples in prop::collection::vec((0u64..10_000_000_000, 1u32..1000), 1..50),
        ) {
            let mut rtt = estimator();
            for &(nanos, per_round) in &samples {
                sample(&mut rtt, Duration::from_nanos(nanos), per_round);
            }
            let all = || samples.iter().map(|&(nanos, _)| Duration::from_nanos(nanos));
            let srtt = rtt.srtt().unwrap();
            prop_assert!(all().min().unwrap() <= srtt && srtt <= all().max().unwrap());
            prop_assert!(rto(&rtt) >= srtt + ms(200) && rto(&rtt) <= Duration::from_secs(120));
        }
    }
}
