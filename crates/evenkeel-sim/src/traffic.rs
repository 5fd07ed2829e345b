//! Traffic sources: frames on the wire at a rate, independent of their fate (the generators of the papers, W1
//! and W6).

use std::fmt;

use evenkeel_core::time::{Duration, Instant};

use crate::packet::{Station, udp_frame, write_payload};
use crate::rng::{Ratio, Rng};

/// The distribution of frames over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Frames at regular intervals, as exact as possible.
    Constant,
    /// Independent frames, with exponential gaps.
    Poisson,
    /// Independent bursts of geometrically distributed length.
    Bursts {
        /// Mean length of a burst in frames, at least 1.
        mean_pkts: Ratio,
        /// The time from one frame of a burst to the next.
        gap: Duration,
    },
    /// A sender that wakes at every tick of a clock, and then sends the frames that became due since the
    /// last, at a random moment of the tick.
    Ticks {
        /// The time from one tick to the next.
        period: Duration,
        /// The time from one frame of a tick to the next.
        gap: Duration,
    },
    /// One burst of `pkts` frames, `gap` apart, then nothing.
    Once {
        /// The number of frames.
        pkts: u32,
        /// The time from one frame to the next.
        gap: Duration,
    },
}

/// The frames of a source, and their times.
#[derive(Debug, Clone)]
pub struct Flow {
    /// The station in the source addresses of the datagrams.
    pub from: Station,
    /// The station to which the datagrams go.
    pub to: Station,
    /// Bytes of payload; the first eight are a sequence number, as far as there is room.
    pub payload_bytes: usize,
    /// The mean rate.
    pub rate_pps: u64,
    /// The distribution of the frames over time.
    pub pattern: Pattern,
    /// The time from which frames are sent.
    pub start: Instant,
    /// The time from which no more frames are sent.
    pub stop: Instant,
}

/// Creates a frame from the number of earlier frames and from random numbers.
type Make = dyn FnMut(u64, &mut Rng) -> Vec<u8> + Send;

/// A function that creates a source's frames one by one.
struct Maker(Box<Make>);

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Maker")
    }
}

/// A source that follows its [`Flow`], sans-IO: call [`Source::poll_frame`] when [`Source::poll_timeout`] is
/// reached.
#[derive(Debug)]
pub struct Source {
    flow: Flow,
    rng: Rng,
    frame: Vec<u8>,
    maker: Option<Maker>,
    sent: u64,
    /// The start of the current burst.
    burst: Instant,
    left_in_burst: u32,
    next: Instant,
}

impl Source {
    /// Creates a source of datagrams with randomness from `rng`.
    #[must_use]
    pub fn new(flow: Flow, rng: Rng) -> Self {
        let frame = udp_frame(flow.from, flow.to, &vec![0; flow.payload_bytes]);
        let mut source = Self {
            frame,
            rng,
            maker: None,
            sent: 0,
            burst: flow.start,
            left_in_burst: 0,
            next: flow.start,
            flow,
        };
        source.begin_burst();
        source
    }

    /// Creates a source of other frames than datagrams. `make` makes each frame, from the number of earlier
    /// ones and from a random number generator.
    #[must_use]
    pub fn of_frames(
        flow: Flow,
        rng: Rng,
        make: impl FnMut(u64, &mut Rng) -> Vec<u8> + Send + 'static,
    ) -> Self {
        Self { maker: Some(Maker(Box::new(make))), ..Self::new(flow, rng) }
    }

    /// Returns the flow of the source.
    #[must_use]
    pub const fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Returns the number of frames sent so far.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the time at which the next frame is due; [`Instant::NEVER`] after the end.
    #[must_use]
    pub fn poll_timeout(&self) -> Instant {
        if self.next < self.flow.stop { self.next } else { Instant::NEVER }
    }

    /// Returns the next frame, if it is due by `now`.
    pub fn poll_frame(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.poll_timeout() > now || self.poll_timeout() == Instant::NEVER {
            return None;
        }
        let frame = match &mut self.maker {
            Some(Maker(make)) => make(self.sent, &mut self.rng),
            None => {
                self.number_frame();
                self.frame.clone()
            }
        };
        self.sent += 1;
        self.advance();
        Some(frame)
    }

    fn number_frame(&mut self) {
        let number = self.sent.to_be_bytes();
        let len = self.flow.payload_bytes.min(number.len());
        let (from, to) = (self.flow.from.address, self.flow.to.address);
        write_payload(&mut self.frame, from, to, &number[..len]);
    }

    fn advance(&mut self) {
        let gap = match self.flow.pattern {
            Pattern::Bursts { gap, .. } | Pattern::Ticks { gap, .. } | Pattern::Once { gap, .. } => gap,
            Pattern::Constant | Pattern::Poisson => Duration::ZERO,
        };
        self.left_in_burst -= 1;
        if self.left_in_burst > 0 {
            self.next += gap;
            return;
        }
        // A burst that is due before the end of the last one waits for it.
        let free = self.next + gap;
        if let Pattern::Ticks { period, .. } = self.flow.pattern {
            self.next = self.next_tick(period).max(free);
            return;
        }
        let wait = self.time_to_next_burst();
        self.burst += wait;
        self.next = self.burst.max(free);
        self.begin_burst();
    }

    /// Returns a random time in the next tick at which frames are due, and records the number of these
    /// frames. `burst` is the beginning of the tick.
    fn next_tick(&mut self, period: Duration) -> Instant {
        let mut due = 0;
        while due == 0 {
            self.burst += period;
            let elapsed = self.burst.since(self.flow.start).as_nanos();
            let by_now = elapsed * u128::from(self.flow.rate_pps.max(1)) / 1_000_000_000;
            due = (by_now as u64).saturating_sub(self.sent);
        }
        self.left_in_burst = u32::try_from(due).unwrap_or(u32::MAX);
        self.burst + self.rng.duration(period)
    }

    fn begin_burst(&mut self) {
        self.left_in_burst = match self.flow.pattern {
            Pattern::Constant | Pattern::Poisson | Pattern::Ticks { .. } => 1,
            Pattern::Bursts { mean_pkts, .. } => {
                self.rng.geometric(Ratio::new(mean_pkts.denominator(), mean_pkts.numerator()))
            }
            Pattern::Once { pkts, .. } => pkts.max(1),
        };
    }

    fn time_to_next_burst(&mut self) -> Duration {
        let gap = |pkts: u64| Duration::from_nanos(pkts * 1_000_000_000 / self.flow.rate_pps.max(1));
        match self.flow.pattern {
            Pattern::Constant => gap(1),
            Pattern::Poisson => self.rng.exponential(gap(1)),
            Pattern::Bursts { mean_pkts: mean, .. } => {
                self.rng.exponential(gap(u64::from(mean.numerator())) / mean.denominator())
            }
            Pattern::Once { .. } | Pattern::Ticks { .. } => Duration::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::wire::{EthernetAddress, Ipv4Address};

    fn source(pattern: Pattern, rate_pps: u64) -> Source {
        let station =
            Station { hardware: EthernetAddress([2; 6]), address: Ipv4Address::new(10, 0, 0, 1), port: 1 };
        let (start, stop) = (Instant::from_millis(1), Instant::from_millis(10_001));
        let flow = Flow { from: station, to: station, payload_bytes: 14, rate_pps, pattern, start, stop };
        Source::new(flow, Rng::new(5))
    }

    fn times(source: &mut Source) -> Vec<u64> {
        let mut times = Vec::new();
        while source.poll_timeout() < Instant::NEVER {
            let now = source.poll_timeout();
            assert!(source.poll_frame(now).is_some());
            times.push(now.as_nanos());
        }
        times
    }

    #[test]
    fn every_pattern_keeps_its_mean_rate() {
        let gap = Duration::from_micros(50);
        let period = Duration::from_millis(1);
        let bursts = Pattern::Bursts { mean_pkts: Ratio::new(4, 1), gap };
        for pattern in [Pattern::Constant, Pattern::Poisson, bursts, Pattern::Ticks { period, gap }] {
            let count = times(&mut source(pattern, 5_000)).len();
            assert!((48_000..=52_000).contains(&count), "{pattern:?}: {count}");
        }
    }

    #[test]
    fn patterns_are_what_they_say() {
        let gaps = |pattern| -> Vec<u64> {
            times(&mut source(pattern, 1_000)).windows(2).map(|w| w[1] - w[0]).collect()
        };
        assert!(gaps(Pattern::Constant).iter().all(|&g| g == 1_000_000));
        let short = gaps(Pattern::Poisson).iter().filter(|&&g| g < 1_000_000).count();
        assert!((6_000..6_640).contains(&short), "1 - 1/e of the gaps are below the mean: {short}");
        let inside = gaps(Pattern::Bursts { mean_pkts: Ratio::new(4, 1), gap: Duration::from_micros(50) });
        assert!(inside.iter().filter(|&&g| g == 50_000).count() > 7_000);
        let ticks = Pattern::Ticks { period: Duration::from_millis(4), gap: Duration::from_micros(50) };
        let bursts = gaps(ticks).iter().filter(|&&g| g > 50_000).count();
        assert!(
            (2_400..=2_500).contains(&bursts),
            "four at every tick, but where two ticks ran together: {bursts}"
        );
        let once = times(&mut source(Pattern::Once { pkts: 3, gap: Duration::from_micros(108) }, 1));
        assert_eq!(once, [1_000_000, 1_108_000, 1_216_000]);
    }

    #[test]
    fn frames_are_numbered() {
        let mut source = source(Pattern::Constant, 1_000);
        let number = |frame: Vec<u8>| u64::from_be_bytes(frame[42..50].try_into().unwrap());
        assert_eq!(source.poll_frame(Instant::ZERO), None);
        assert_eq!(source.poll_frame(Instant::from_millis(9)).map(number), Some(0));
        assert_eq!(source.poll_frame(Instant::from_millis(9)).map(number), Some(1));
    }
}
