//! What can be chosen about loss recovery and sending rate.

pub use super::rtt::RtoConfig;
use crate::congestion::Algorithm;
use crate::time::Duration;

/// How a connection recovers losses, and how fast it sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryConfig {
    /// Who decides how large the window is. Default CUBIC.
    pub algorithm: Algorithm,
    /// Slow start ends when the round trip grows (HyStart++, RFC 9406). Default yes.
    pub hystart: bool,
    /// CUBIC gives up more than it must when its share shrinks, so that new flows have theirs sooner. Default
    /// yes; RFC 9438, 4.7 says no where a flow is alone, which it cannot know.
    pub fast_convergence: bool,
    /// The window in the beginning and after a pause, in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u32,
    /// Bounds of the retransmission timeout.
    pub rto: RtoConfig,
    /// How long a receiver may delay the acknowledgment of a single segment: `TLP.max_ack_delay` of RFC 8985.
    /// Default 200 ms.
    pub ack_delay_max: Duration,
    /// How coarse the clock of our timestamp option is. Default 1 ms.
    pub timestamp_tick: Duration,
    /// Segments leave spread over the round trip. Default no: on short paths that needs a timer of
    /// microseconds.
    pub pacing: bool,
    /// How many sent segments are remembered at most; no more leave until some are acknowledged. A segment
    /// takes 32 bytes of memory. Default 65 536: 90 MB on their way in full segments.
    pub segments_max: usize,
}

impl Default for RecoveryConfig {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::default(),
            hystart: true,
            fast_convergence: true,
            initial_window_segments: 10,
            rto: RtoConfig::default(),
            ack_delay_max: Duration::from_millis(200),
            timestamp_tick: Duration::from_millis(1),
            pacing: false,
            segments_max: 1 << 16,
        }
    }
}
