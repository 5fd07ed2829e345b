//! The states of the algorithm, each with its gains.

use super::params::{
    DEFAULT_CWND_GAIN, DRAIN_PACING_GAIN, MIN_PIPE_SEGMENTS, PROBE_UP_CWND_GAIN, STARTUP_PACING_GAIN,
};

/// The states of section 5.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Startup,
    Drain,
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeBwUp,
    ProbeRtt,
}

impl State {
    pub(super) const fn is_in_probe_bw(self) -> bool {
        matches!(self, Self::ProbeBwDown | Self::ProbeBwCruise | Self::ProbeBwRefill | Self::ProbeBwUp)
    }

    pub(super) const fn is_probing_bw(self) -> bool {
        matches!(self, Self::Startup | Self::ProbeBwRefill | Self::ProbeBwUp)
    }

    pub(super) const fn pacing_gain(self) -> u32 {
        match self {
            Self::Startup => STARTUP_PACING_GAIN,
            Self::Drain => DRAIN_PACING_GAIN,
            Self::ProbeBwDown => 90,
            Self::ProbeBwCruise | Self::ProbeBwRefill | Self::ProbeRtt => 100,
            Self::ProbeBwUp => 125,
        }
    }

    /// That of ProbeRTT is a bound of its own.
    pub(super) const fn cwnd_gain(self) -> u64 {
        if matches!(self, Self::ProbeBwUp) { PROBE_UP_CWND_GAIN } else { DEFAULT_CWND_GAIN }
    }

    /// Rounds a volume in bytes up to what a sender needs on its way: `QuantizationBudget`.
    pub(super) fn quantized(self, volume: u64, mss: u32) -> u64 {
        let least = volume.max(MIN_PIPE_SEGMENTS * u64::from(mss));
        if self == Self::ProbeBwUp { least.saturating_add(2 * u64::from(mss)) } else { least }
    }
}
