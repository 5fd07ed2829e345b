//! The configuration of loss recovery and of the sending rate.

pub use super::rtt::RtoConfig;
use crate::congestion::Algorithm;
use crate::rate::Rate;
use crate::time::Duration;

/// The configuration of a connection's loss recovery and sending rate.
///
/// ```
/// use std::sync::Arc;
///
/// use evenkeel_tcp::congestion::Algorithm;
/// use evenkeel_tcp::recovery::{RecoveryConfig, Restart};
/// use evenkeel_tcp::{Config, Rate};
///
/// // BBR, at most 50 Mbit/s, and after a pause at the last rate.
/// let recovery = RecoveryConfig {
///     algorithm: Algorithm::Bbr,
///     rate_max: Some(Rate::bits_per_s(50_000_000)),
///     restart: Restart::LastRate,
///     ..RecoveryConfig::default()
/// };
/// let connection = Config { recovery: Arc::new(recovery), ..Config::default() };
/// # let _ = connection;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryConfig {
    /// The congestion control algorithm, which decides how large the window is. Default CUBIC.
    pub algorithm: Algorithm,
    /// Whether slow start ends when the round trip grows (HyStart++, RFC 9406). Default yes.
    pub hystart: bool,
    /// The most segments that an acknowledgment counts for in slow start: `L` of RFC 3465, 2.2. Default 8
    /// (RFC 9406, 4.2). With 1 the window grows as in RFC 2581: by a half in a round trip, if the receiver
    /// acknowledges every second segment. Zero counts as 1.
    pub segments_per_ack: u8,
    /// Whether CUBIC gives up more than it must when its share shrinks, so that new flows reach theirs
    /// sooner. Default yes. RFC 9438, 4.7 advises against it for a flow that is alone, which the flow cannot
    /// know.
    pub fast_convergence: bool,
    /// The window in the beginning and after a pause, in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u32,
    /// Bounds of the retransmission timeout.
    pub rto: RtoConfig,
    /// The time for which a receiver may delay the acknowledgment of a single segment: `TLP.max_ack_delay`
    /// of RFC 8985. Default 200 ms.
    pub ack_delay_max: Duration,
    /// The tick of the clock of our timestamp option. Default 1 ms.
    pub timestamp_tick: Duration,
    /// Whether segments are paced: they leave spread over the round trip, one at each timer event. Default
    /// no, because short paths need a timer of microseconds. Some algorithms always pace, and so does a
    /// connection with a `rate_max`, a `start` or a `restart`.
    pub pacing: bool,
    /// The highest rate at which the connection sends, IP and TCP headers included. Default no bound.
    pub rate_max: Option<Rate>,
    /// The way in which the connection starts. Default slow start.
    pub start: Start,
    /// The way in which the connection resumes after a pause. Default slow start.
    pub restart: Restart,
    /// The maximum number of sent segments that are remembered. At the maximum no more segments leave until
    /// some are acknowledged. A segment takes 32 bytes of memory, 72 if the rate is measured. Default
    /// 65 536, which is 90 MB in flight in full segments.
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

/// The way in which a connection starts to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
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

/// The way in which a connection resumes after it had nothing to send for longer than a retransmission
/// timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
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
