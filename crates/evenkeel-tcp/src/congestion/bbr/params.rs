//! The constants of section 2 of the draft. Gains and parts are in per cent.

use crate::time::Duration;

/// `Infinity` of a volume of data.
pub(super) const INFINITY: u64 = u64::MAX;
pub(super) const STARTUP_PACING_GAIN: u32 = 277;
pub(super) const DRAIN_PACING_GAIN: u32 = 50;
pub(super) const DEFAULT_CWND_GAIN: u64 = 200;
pub(super) const PROBE_UP_CWND_GAIN: u64 = 225;
pub(super) const PROBE_RTT_CWND_GAIN: u64 = 50;
pub(super) const PACING_MARGIN: u32 = 1;
pub(super) const LOSS_THRESH: u64 = 2;
pub(super) const BETA: u64 = 70;
pub(super) const HEADROOM: u64 = 15;
pub(super) const MIN_PIPE_SEGMENTS: u64 = 4;
pub(super) const STARTUP_FULL_LOSSES: u32 = 6;
pub(super) const STARTUP_FULL_BW_ROUNDS: u32 = 3;
pub(super) const DRAIN_ROUNDS: u64 = 3;
pub(super) const EXTRA_ACKED_ROUNDS: u64 = 5;
pub(super) const INITIAL_SEGMENTS: u64 = 10;
pub(super) const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
pub(super) const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
pub(super) const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
