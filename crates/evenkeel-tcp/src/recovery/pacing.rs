//! The pacing of segments. The rate is the lowest of those of congestion control, of the window and of the
//! configuration. [`RateClock`] spaces the segments.
//!
//! A window that was not filled by the acknowledgments of one before is not sent at once, nor does it leave
//! as fast as it would in slow start: after a start at a known, remembered or estimated rate, and after a
//! pause, a round trip is paced at that rate and no faster.

use alloc::boxed::Box;

use super::config::{self, RecoveryConfig, Restart};
use super::scoreboard::{FIRST, Position};
use crate::congestion::Window;
use crate::rate::Rate;
use crate::rate_clock::{RateClock, Spacing};
use crate::time::{Duration, Instant, nanos};

/// There for connections that pace.
#[derive(Debug)]
pub(super) struct Pacing {
    pub(super) clock: RateClock,
    /// The most that somebody wants, and what the path can do: of packets, headers included.
    pub(super) rate_max: Rate,
    pub(super) capacity: Rate,
    /// The window of a known capacity, once the connection has started with that.
    pub(super) opened: u32,
    /// The start to make once there is a round-trip time.
    pub(super) start: Option<Start>,
    /// Until then no faster than that.
    careful: Option<(Instant, Rate)>,
    /// Until then what is lost was lost because it was too much to begin with.
    unvalidated_until: Instant,
    /// Whether the connection would start at a remembered rate, but none is remembered. Such a connection
    /// is in slow start as if it did not pace.
    unknown: bool,
}

/// The start that replaces the initial window.
#[derive(Debug, Clone, Copy)]
pub(super) enum Start {
    /// There, and no faster later.
    At(Rate),
    /// At half of that, which was the rate when the round trip was so long.
    Remembered { rate: Rate, rtt: Duration },
    /// At half of what the acknowledgments of the first flight tell.
    Estimated(Dispersion),
}

/// The rate of the bottleneck, estimated from the acknowledgments of a flight that left at once. Packets
/// leave the bottleneck as far apart as it takes for each ("packet train"; Keshav, SIGCOMM 1991; Dovrolis
/// et al., INFOCOM 2001).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Dispersion {
    /// The time at which the first acknowledgment arrived.
    since: Option<Instant>,
    /// Bytes that were acknowledged since, and when the last were.
    bytes: u64,
    until: Instant,
    /// The end of the flight.
    end: Position,
}

/// The present state of the connection and its path.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathNow {
    pub(super) mss: u32,
    pub(super) initial_window: u32,
    pub(super) cwnd: u32,
    pub(super) overhead: u32,
    pub(super) srtt: Duration,
    pub(super) una: Position,
    pub(super) nxt: Position,
}

/// The window to start with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opening {
    pub(super) window: u64,
    /// Slow start is over with that: nothing is to be found out.
    pub(super) known: bool,
}

/// So many bytes leave, with so many of headers. `rate` is what congestion control says; else the window
/// does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaving {
    pub(super) bytes: u32,
    pub(super) overhead: u32,
    pub(super) rate: Option<Rate>,
}

impl Dispersion {
    /// Fewer bytes than in so many segments tell nothing.
    const SEGMENTS_MIN: u64 = 4;
    /// A sender of less than an initial window may still be in its first flight.
    const FLIGHT: u64 = 10;

    /// So many bytes arrived, as was heard at `now`. Says the rate when the flight is over: `SND.UNA` has
    /// reached its end, which was `SND.NXT` in the beginning.
    fn on_arrival(&mut self, bytes: u32, path: &PathNow, now: Instant) -> Option<(u64, Duration)> {
        match self.since {
            None => *self = Self { since: Some(now), bytes: 0, until: now, end: path.nxt },
            Some(_) => {
                self.bytes += u64::from(bytes);
                self.until = now;
            }
        }
        (path.una >= self.end).then(|| (self.bytes, self.until.since(self.since.unwrap_or(now))))
    }
}

impl Pacing {
    /// While the window is well below `ssthresh`, twice the rate, because it doubles with every round trip;
    /// in per cent, as in Linux.
    const GAIN_SLOW_START: u64 = 200;
    /// Above it enough more that pacing is never what limits.
    const GAIN_AVOIDANCE: u64 = 120;
    /// The divisor of the round trip that limits how much lateness a sender makes up for: an eighth. (The
    /// paper makes up for everything.)
    const CREDIT: u64 = 8;
    /// No more than this where nothing keeps segments apart, which would be a burst.
    const CREDIT_MAX: Duration = Duration::from_millis(1);
    /// The least distance of two segments is a quarter of that at the rate. The paper's 12 us, the time of a
    /// packet on its link, were between a third and a fifth of its targets.
    const BURST: u32 = 4;
    /// Events of timers are no closer together than this (it is the shortest period of the paper). Where
    /// segments would have to be, some leave at one event.
    const EVENT_MIN: Duration = Duration::from_micros(10);
    /// No segment waits longer than this, nor than a round trip, for the segment before it, unless the user
    /// chose the rate. One segment in a round trip is the least that any congestion control allows (RFC 5681,
    /// 3.1). A rate measured while little was sent, or around a timeout, has no lower bound.
    const WAIT_MAX_NANOS: u64 = nanos(Duration::from_secs(1));
    /// So many initial windows may a remembered or estimated rate be for, in a round trip: seven doublings of
    /// slow start. (`max_jump` of Careful Resume, 3.3.) Acknowledgments that are handled together, or a
    /// receiver that means harm, can tell any rate.
    const JUMP_MAX: u64 = 128;

    /// If connections with this configuration pace, or the algorithm does.
    pub(super) fn new(config: &RecoveryConfig, model: bool) -> Option<Box<Self>> {
        let started = config.start != config::Start::SlowStart || config.restart != Restart::SlowStart;
        let chosen = config.rate_max.is_some() || started;
        (config.pacing || model || chosen).then(|| Box::new(Self::of(config)))
    }

    /// Whatever the configuration says of whether to.
    pub(super) fn of(config: &RecoveryConfig) -> Self {
        let (start, capacity) = match config.start {
            config::Start::SlowStart | config::Start::Remembered => (None, Rate::UNLIMITED),
            config::Start::At(rate) => (Some(Start::At(rate)), rate),
            config::Start::Estimated => (Some(Start::Estimated(Dispersion::default())), Rate::UNLIMITED),
        };
        Self {
            clock: RateClock::new(),
            rate_max: config.rate_max.unwrap_or(Rate::UNLIMITED),
            capacity,
            opened: 0,
            start,
            careful: None,
            unvalidated_until: Instant::ZERO,
            unknown: config.start == config::Start::Remembered && !config.pacing,
        }
    }

    /// Records that something left. Without a round-trip time nobody knows how fast, and a flight leaves at
    /// once, unless a rate was said. One that was measured meanwhile is that of retransmission timeouts.
    pub(super) fn on_sent(&mut self, left: Leaving, window: &Window, srtt: Option<u64>, now: Instant) {
        let said = self.most().map(|most| most.time_for(left.bytes.saturating_add(left.overhead)));
        let Some(target) = self.own_time(left, window, srtt, now).max(said) else { return };
        let minimum = Self::least_distance(target);
        let credit = srtt.map_or(Self::CREDIT_MAX, |srtt| Duration::from_nanos(srtt / Self::CREDIT));
        let credit = if minimum.is_zero() { credit.min(Self::CREDIT_MAX) } else { credit };
        let spacing = Spacing { target, minimum, credit };
        self.clock.on_sent(spacing, now);
    }

    /// No faster than that, headers included.
    pub(super) fn most(&self) -> Option<Rate> {
        Some(self.rate_max.min(self.capacity)).filter(|most| *most != Rate::UNLIMITED)
    }

    /// Returns the window to resume with after a pause. The capacity is known as long as nothing was lost
    /// at it.
    pub(super) fn known_window(&self, window: &Window) -> Option<u32> {
        Some(self.opened).filter(|opened| *opened > 0 && window.ssthresh >= *opened)
    }

    fn least_distance(target: Duration) -> Duration {
        if target < Self::EVENT_MIN * 2 {
            return Duration::ZERO;
        }
        (target / Self::BURST).max(Self::EVENT_MIN)
    }

    /// Returns the distance to the next segment, regardless of the configured maximum rate: by congestion
    /// control or the window, and by the careful rate while that applies.
    fn own_time(&self, left: Leaving, window: &Window, srtt: Option<u64>, now: Instant) -> Option<Duration> {
        if matches!(self.start, Some(Start::Estimated(Dispersion { since: None, .. }))) {
            // The bottleneck is to space it.
            return None;
        }
        let srtt = srtt?;
        let by_rate = left.rate.map(|rate| rate.time_for(left.bytes));
        let by_window = || (!self.unknown).then(|| Self::time_by_window(left.bytes, window, srtt));
        let careful = self.careful.filter(|(until, _)| now < *until);
        let longest = Duration::from_nanos(srtt.min(Self::WAIT_MAX_NANOS));
        let own = by_rate.or_else(by_window).max(careful.map(|(_, rate)| rate.time_for(left.bytes)));
        own.map(|time| time.min(longest))
    }

    /// Returns the time that `bytes` take if a window takes a round trip.
    fn time_by_window(bytes: u32, window: &Window, srtt: u64) -> Duration {
        let gain =
            if window.cwnd < window.ssthresh / 2 { Self::GAIN_SLOW_START } else { Self::GAIN_AVOIDANCE };
        let window = u64::from(window.cwnd.max(1)) * gain;
        Duration::from_nanos(srtt.saturating_mul(u64::from(bytes)).saturating_mul(100) / window)
    }

    /// Limits the connection to `rate` for a round trip.
    pub(super) fn be_careful(&mut self, rate: Rate, srtt: Duration, now: Instant) {
        self.careful = Some((now + srtt, rate));
        self.unknown = false;
    }

    /// Returns the start if it differs from slow start and can be computed by now. Each start is returned
    /// once.
    pub(super) fn take_start(&mut self, path: &PathNow, delivered: u32, now: Instant) -> Option<Opening> {
        match self.start? {
            Start::At(rate) => {
                self.start = None;
                // Of packets with headers.
                let packet = u64::from(path.mss.saturating_add(path.overhead)).max(1);
                let packets = rate.bytes_in(path.srtt) / packet;
                // Twice what the path holds, so that the clock, not the window, is the limit, however many
                // segments an acknowledgment is for. (It is BBR's gain, for the same reason.)
                let window = packets.saturating_mul(2).saturating_add(2).saturating_mul(u64::from(path.mss));
                Some(Opening { window, known: true })
            }
            Start::Remembered { rate, rtt } => {
                self.start = None;
                // Careful Resume, 4.2.1: another round trip is another path.
                let same = path.srtt >= rtt / 2 && path.srtt <= rtt.saturating_mul(10);
                if same { self.jump(rate, rtt, path, now) } else { None }
            }
            Start::Estimated(_) if path.una <= FIRST => None,
            Start::Estimated(mut dispersion) => {
                let measured = dispersion.on_arrival(delivered, path, now);
                let Some((bytes, time)) = measured else {
                    self.start = Some(Start::Estimated(dispersion));
                    return None;
                };
                let enough = bytes >= Dispersion::SEGMENTS_MIN * u64::from(path.mss);
                // A few segments tell nothing, and so few may leave at once again.
                let early = path.una < FIRST + Dispersion::FLIGHT * u64::from(path.mss);
                self.start = (!enough && early).then(|| Start::Estimated(Dispersion::default()));
                let rate = Rate::of(bytes, time).filter(|_| enough)?;
                self.jump(rate, path.srtt, path, now)
            }
        }
    }

    /// At half of that rate, which was when the round trip was `rtt`; with care. Not if slow start has as
    /// much: a connection that had little to say has shown no rate.
    fn jump(&mut self, rate: Rate, rtt: Duration, path: &PathNow, now: Instant) -> Option<Opening> {
        // Careful Resume, 3.3: half of what was, and no more than that.
        let most = Rate::of(Self::JUMP_MAX * u64::from(path.initial_window), path.srtt)?;
        let half = rate.percent(50).min(most);
        let window = half.bytes_in(rtt.min(path.srtt));
        if window <= u64::from(path.cwnd) {
            return None;
        }
        self.be_careful(half, path.srtt, now);
        // What is lost of it is known a round trip after the last of it has left.
        self.unvalidated_until = now + path.srtt.saturating_mul(2);
        Some(Opening { window, known: false })
    }

    /// Returns whether a loss at `now` belongs to a window that is not validated yet.
    pub(super) fn is_unvalidated(&self, now: Instant) -> bool {
        now < self.unvalidated_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of congestion control that has seen next to nothing arrive says next to no rate.
    #[test]
    fn no_segment_waits_longer_than_a_round_trip_or_a_second_unless_the_user_says_so() {
        let now = Instant::from_millis(1_000);
        let window = Window { cwnd: 10_000, ssthresh: Window::UNKNOWN, mss: 1_000 };
        for (round_trip, most, wait) in
            [(50, None, 50), (5_000, None, 1_000), (50, Some(Rate::bytes_per_s(520)), 2_000)]
        {
            let config = RecoveryConfig { rate_max: most, ..RecoveryConfig::default() };
            let mut pacing = Pacing::of(&config);
            let rate = Some(Rate::bytes_per_s(20));
            let leaving = Leaving { bytes: 1_000, overhead: 40, rate };
            pacing.on_sent(leaving, &window, Some(nanos(Duration::from_millis(round_trip))), now);
            assert_eq!(pacing.clock.release_time(now), Some(now + Duration::from_millis(wait)));
        }
    }

    /// Data that arrives before a round trip is known was sent again, so the measured rate is that of the
    /// timeouts.
    #[test]
    fn before_a_round_trip_is_known_nothing_waits_unless_the_user_says_so() {
        let now = Instant::from_millis(1_000);
        let window = Window { cwnd: 10_000, ssthresh: Window::UNKNOWN, mss: 1_000 };
        for (most, wait) in [(None, None), (Some(Rate::bytes_per_s(5_200)), Some(200))] {
            let config = RecoveryConfig { rate_max: most, ..RecoveryConfig::default() };
            let mut pacing = Pacing::of(&config);
            let rate = Some(Rate::bytes_per_s(1_000));
            pacing.on_sent(Leaving { bytes: 1_000, overhead: 40, rate }, &window, None, now);
            let release = wait.map(|wait| now + Duration::from_millis(wait));
            assert_eq!(pacing.clock.release_time(now), release);
        }
    }
}
