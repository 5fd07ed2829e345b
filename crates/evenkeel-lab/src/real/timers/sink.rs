//! The receiver of paced packets, which measures the intervals between their departures.

use evenkeel::raw::cable::End;
use evenkeel::raw::device::{Interface as _, Stamp};
use evenkeel::raw::frame::{Frame, Pool, PoolLimit};
use evenkeel::raw::time::{Duration, Instant};

/// The length of a turn. Turns without events and with events alternate.
pub(in super::super) const TURN: Duration = Duration::from_millis(5);

/// The peer end of the cable by which the packets leave.
pub(super) struct Sink {
    end: End,
    pool: Pool,
    last: Option<Stamp>,
    seen: Intervals,
    drained: Instant,
}

/// The interval at which the sink is drained. Draining at each packet would take its cache lines from the
/// sending core.
const LOOK: Duration = Duration::from_millis(1);

/// Intervals between consecutive packets, without missing packets or phases between them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Intervals {
    count: f64,
    sum_us: f64,
    squares: f64,
    /// Packets that found the ring full.
    pub(super) missing: u64,
}

impl Intervals {
    fn record(&mut self, interval: Duration) {
        // The interval spans two phases.
        if interval >= TURN {
            return;
        }
        let micros = interval.as_secs_f64() * 1e6;
        self.count += 1.0;
        self.sum_us += micros;
        self.squares += micros * micros;
    }

    pub(super) fn mean_us(&self) -> f64 {
        self.sum_us / self.count
    }

    pub(super) fn deviation_us(&self) -> f64 {
        (self.squares / self.count - self.mean_us().powi(2)).max(0.0).sqrt()
    }
}

impl Sink {
    pub(super) fn new(mut end: End, ring_pkts: usize) -> Result<Self, PoolLimit> {
        let mut pool = Pool::with_limit(2 * ring_pkts);
        end.attach(&mut pool)?;
        Ok(Self { end, pool, last: None, seen: Intervals::default(), drained: Instant::ZERO })
    }

    /// Takes the packets that have arrived.
    pub(super) fn drain(&mut self) {
        while let Some(frame) = self.end.queue_mut(0).take(&mut self.pool) {
            self.take(frame);
        }
    }

    /// Takes the packets that have arrived, if [`LOOK`] has passed since the last time.
    pub(super) fn drain_by(&mut self, now: Instant) {
        if now.since(self.drained) >= LOOK {
            self.drained = now;
            self.drain();
        }
    }

    fn take(&mut self, frame: Frame) {
        if let Some(stamp) = Stamp::of(frame.bytes()).filter(|stamp| stamp.at > Instant::ZERO) {
            self.record(stamp);
        }
        self.pool.recycle(frame);
    }

    fn record(&mut self, stamp: Stamp) {
        let before = self.last.replace(stamp);
        let Some(before) = before else { return };
        match stamp.number - before.number {
            1 => self.seen.record(stamp.at.since(before.at)),
            more => self.seen.missing += more.saturating_sub(1),
        }
    }

    /// Resets the record at the start of the window.
    pub(super) fn begin(&mut self) {
        self.drain();
        (self.last, self.seen) = (None, Intervals::default());
    }

    /// Returns the intervals seen so far, at the end of the window.
    pub(super) fn seen(&mut self) -> Intervals {
        self.drain();
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel::raw::cable::{self, Options};
    use evenkeel::raw::device::StampedFrame;

    #[test]
    fn intervals_are_between_packets_that_left_one_after_the_other() {
        let ring = |name| Options { ring_pkts: 4, ..Options::new(name, 1) };
        let (near, far) = cable::pair(ring("near"), ring("far"));
        let mut sink = Sink::new(far, 4).unwrap();
        let mut frame = StampedFrame::new(near, vec![0; 64]).unwrap();
        for at in [10, 20, 40] {
            frame.send(Instant::from_micros(at));
        }
        let seen = sink.seen();
        assert!((seen.mean_us() - 15.0).abs() < 1e-9 && (seen.deviation_us() - 5.0).abs() < 1e-9, "{seen:?}");
        // Seven frames arrive while the sink is not drained, and four fit. Later frames are far from them.
        sink.begin();
        for at in [50, 60, 70, 80, 90, 100, 110] {
            frame.send(Instant::from_micros(at));
        }
        sink.drain();
        frame.send(Instant::from_micros(500));
        let seen = sink.seen();
        assert_eq!((seen.count, seen.missing), (3.0, 3), "{seen:?}");
        assert!((seen.mean_us() - 10.0).abs() < 1e-9, "{seen:?}");
    }
}
