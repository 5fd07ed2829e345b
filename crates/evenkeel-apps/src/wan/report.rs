//! The report of an emulator.

use evenkeel::raw::device::Refusal;
use schemars::JsonSchema;
use serde::Serialize;

use super::port::{ON_TIME, Port};
use crate::latency::Histogram;

/// The results of an emulator.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Report {
    /// The time that the emulator ran, in seconds.
    pub seconds: f64,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The results from the first link to the second, and back.
    #[serde(rename = "ways")]
    pub directions: Vec<Direction>,
    /// The share of a core that the emulator's thread used.
    pub cpu: f64,
    /// The share of the time in which the thread was runnable and the machine gave its core to others.
    pub run_delay: f64,
    /// Whether the kernel prefers its thread to ordinary ones.
    pub preferred: bool,
    /// Whether the kernel runs its thread before all ordinary ones, whenever it has something to do.
    pub real_time: bool,
    /// The time source of the clock, `tsc` or `monotonic`.
    pub clock: &'static str,
    /// Whether every frame is accounted for.
    pub conserved: bool,
}

/// The results of one direction.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Direction {
    /// The link that the frames arrived on.
    pub from: String,
    /// The link that the frames left by.
    pub to: String,
    /// Frames that arrived.
    pub received: u64,
    /// The bytes of these frames, from the Ethernet header on.
    pub bytes_in: u64,
    /// Frames that left: taken by the device, and not refused by it afterwards.
    pub sent: u64,
    /// Bytes of all that the device took, from the Ethernet header on.
    pub bytes_out: u64,
    /// The rate of the bytes that the device took, in bits per second, over the whole run.
    pub out_bps: f64,
    /// Frames lost on purpose.
    pub lost: u64,
    /// Frames that found the queue full.
    pub queue_full: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Frames with a bit flipped.
    pub corrupted: u64,
    /// Frames delayed on purpose so that later ones overtake them.
    pub reordered: u64,
    /// Frames still in the network.
    pub under_way: usize,
    /// The faults that the emulator added without a setting for them.
    pub own: Own,
    /// The delays from the time that frames were due to the time that they were given to the device. Every
    /// frame was at least this late.
    pub given: Late,
    /// The delays from the time that frames were due to the time that the device had taken them, or refused
    /// them after that. Every frame was at most this late.
    pub late: Late,
    /// Whether the counters of the direction add up.
    #[serde(skip)]
    pub adds_up: bool,
}

/// Frames that the emulator lost, or did not treat as set, through its own fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Own {
    /// Frames lost in the ring of their link, because the emulator did not take them in time. They count as
    /// not received.
    pub ring: u64,
    /// Frames lost on arrival because they were larger than any buffer: the MTU of that link had just been
    /// raised. They count as not received.
    pub oversized: u64,
    /// Frames lost because the other link's device took nothing.
    pub unsent: u64,
    /// Frames longer than the MTU of the other link allows. They do not count as sent.
    pub too_long: u64,
    /// Frames that the device took, and then refused for another reason. They do not count as sent.
    pub refused: u64,
    /// The reason for which it refused most of these.
    pub refused_because: Option<&'static str>,
    /// Frames lost while that device was gone.
    pub gone: u64,
    /// Frames without memory for their copy.
    pub uncopied: u64,
}

/// The distribution of delays after the due times of frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Late {
    /// Frames.
    pub frames: u64,
    /// The median of the delays, in microseconds; `null` while the emulator runs, or if there was none.
    pub p50_us: Option<f64>,
    /// The 99th percentile of the delays.
    pub p99_us: Option<f64>,
    /// The 99.9th percentile of the delays.
    pub p999_us: Option<f64>,
    /// The longest delay.
    pub max_us: Option<f64>,
    /// Frames that were more than 100 µs late.
    pub over_100us: Option<u64>,
}

impl Own {
    /// Returns the number of frames that the emulator lost.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.ring + self.oversized + self.unsent + self.too_long + self.refused + self.gone
    }
}

impl Late {
    fn of(histogram: &Histogram, at_end: bool) -> Self {
        let frames = histogram.count();
        let us = |percent| {
            let percentile = histogram.percentile(percent).filter(|_| at_end);
            percentile.map(|late| late.as_secs_f64() * 1e6)
        };
        Self {
            frames,
            p50_us: us(50.0),
            p99_us: us(99.0),
            p999_us: us(99.9),
            max_us: us(100.0),
            over_100us: at_end.then(|| histogram.count_over(ON_TIME)),
        }
    }
}

/// Returns the results of the direction from one link to the other.
pub(super) fn direction(from: &Port, to: &Port, seconds: f64, at_end: bool) -> Direction {
    let (path, tally) = (from.path.counters(), &from.tally);
    let under_way = from.path.under_way() + to.stalled();
    let (came, left) = (from.lost(), to.lost());
    let (refused, too_long) = (left.refused(), left.refused_for(Refusal::TooLong));
    let own = Own {
        ring: came.missed,
        oversized: came.oversized,
        unsent: tally.unsent,
        too_long,
        refused: refused - too_long,
        refused_because: left.refused_because().map(Refusal::words),
        gone: tally.gone,
        uncopied: tally.uncopied,
    };
    let ended = tally.sent + tally.unsent + tally.gone + path.lost + path.overflowed + under_way as u64;
    Direction {
        from: from.name.clone(),
        to: to.name.clone(),
        received: path.offered,
        bytes_in: tally.bytes_in,
        sent: tally.sent.saturating_sub(refused),
        bytes_out: tally.bytes_out,
        out_bps: tally.bytes_out as f64 * 8.0 / seconds.max(1e-9),
        lost: path.lost,
        queue_full: path.overflowed,
        duplicated: path.duplicated,
        corrupted: path.corrupted,
        reordered: path.reordered,
        under_way,
        own,
        given: Late::of(&tally.given, at_end),
        late: Late::of(&tally.late, at_end),
        adds_up: path.offered + path.duplicated == ended && path.add_up(from.path.under_way()),
    }
}
