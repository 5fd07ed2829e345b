//! What can be chosen about loss recovery and sending rate.

pub use super::rtt::RtoConfig;
use crate::congestion::Algorithm;
use crate::rate::Rate;
use crate::time::Duration;

/// How a connection recovers losses, and how fast it sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryConfig {
    /// Who decides how large the window is. Default CUBIC.
    pub algorithm: Algorithm,
    /// Slow start ends when the round trip grows (HyStart++, RFC 9406). Default yes.
    pub hystart: bool,
    /// In slow start an acknowledgment counts for so many segments at most: `L` of RFC 3465, 2.2. Default 8
    /// (RFC 9406, 4.2). With 1 the window grows as RFC 2581 has it: behind a receiver that acknowledges every
    /// second segment by a half in a round trip. Zero is taken for 1.
    pub segments_per_ack: u8,
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
    /// Segments leave spread over the round trip, one at each event of a timer. Default no: on short paths
    /// that needs a timer of microseconds. Some algorithms always do, and so does whoever chooses a
    /// `rate_max`, a `start` or a `restart`.
    pub pacing: bool,
    /// What the connection sends at most, IP and TCP headers included. Default no bound.
    pub rate_max: Option<Rate>,
    /// How fast it starts. Default slow start.
    pub start: Start,
    /// How fast it goes on after a pause. Default slow start.
    pub restart: Restart,
    /// How many sent segments are remembered at most; no more leave until some are acknowledged. A segment
    /// takes 32 bytes of memory, 72 where the rate is measured. Default 65 536: 90 MB on their way in full
    /// segments.
    pub segments_max: usize,
}

impl Default for RecoveryConfig {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::default(),
            hystart: true,
            segments_per_ack: 8,
            fast_convergence: true,
            initial_window_segments: 10,
            rto: RtoConfig::default(),
            ack_delay_max: Duration::from_millis(200),
            timestamp_tick: Duration::from_millis(1),
            pacing: false,
            rate_max: None,
            start: Start::SlowStart,
            restart: Restart::SlowStart,
            segments_max: 1 << 16,
        }
    }
}

/// How fast a connection starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// With the initial window, which doubles with every round trip (RFC 5681, 3.1; RFC 6928).
    #[default]
    SlowStart,
    /// At this rate from the first round trip on, and never faster: of a path whose capacity is known, and
    /// belongs to this connection (Aron and Druschel, TOCS 2000, 4.1). IP and TCP headers count. What is lost
    /// makes it slower, as ever. After a pause it goes on so, unless something was lost; then as
    /// [`Restart`] says.
    ///
    /// The receiver's window, and the send buffer, must have room for a round trip of it.
    At(Rate),
    /// At half the rate that an earlier connection to the same destination had, if there was one, the round
    /// trip is as it was, and it is not long ago: Careful Resume (draft-ietf-tsvwg-careful-resume; RFC 9040,
    /// temporal sharing). Slow start goes on from there.
    Remembered,
    /// With the initial window; then at half the rate at which its acknowledgments come, if that is more than
    /// slow start's: the bottleneck has spaced them. Slow start goes on from there.
    Estimated,
}

/// How fast a connection goes on that had nothing to send for longer than a retransmission timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Restart {
    /// With the initial window (RFC 5681, 4.1).
    #[default]
    SlowStart,
    /// With the window that it had, paced: for the first round trip at no more than the window in a round
    /// trip, or the rate at which data last arrived if that is less. RFC 7661 (which replaces RFC 2861)
    /// allows it for five minutes (4.4, the non-validated phase), because a window that is not filled does
    /// not grow (4.3), a loss reduces it to what was on its way (4.4.1), and nothing leaves in bursts (4.4.2:
    /// "pacing"). Each five minutes more halve the window (4.4.3).
    LastRate,
}
