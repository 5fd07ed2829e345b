//! TCP of the papers' systems.

use std::sync::Arc;

use evenkeel::raw::tcp::congestion::Algorithm;
use evenkeel::raw::tcp::recovery::{RecoveryConfig, RtoConfig};
use evenkeel::raw::tcp::{self, EndpointConfig, TimeWaitConfig};
use evenkeel::raw::time::Duration;

/// Returns the settings of TCP in 4.4BSD-Lite: no SACK, Reno's congestion control from `initial_window`
/// segments on, timeouts from coarse clocks, buffers of a fixed size. RFC 1323's options, which it had, are
/// off, so that a segment of a flood is as short as the LRP paper's (O96.F5.t1). Resets had no rate limit.
pub(crate) fn tcp_of_the_time(initial_window_segments: u32) -> EndpointConfig {
    let recovery = RecoveryConfig {
        algorithm: Algorithm::NewReno,
        hystart: false,
        initial_window_segments,
        rto: RtoConfig {
            initial: Duration::from_secs(3),
            slack_min: Duration::from_secs(1),
            max: Duration::from_secs(64),
        },
        ..RecoveryConfig::default()
    };
    let connection = tcp::Config {
        send_buffer_initial: SOCKET_BUFFER,
        send_buffer_max: SOCKET_BUFFER,
        receive_buffer_initial: SOCKET_BUFFER,
        receive_buffer_max: SOCKET_BUFFER,
        window_scaling: false,
        sack: false,
        timestamps: false,
        ack_delay: Duration::from_millis(200),
        time_wait: TIME_WAIT,
        recovery: Arc::new(recovery),
        ..tcp::Config::default()
    };
    EndpointConfig {
        connection: Arc::new(connection),
        time_wait: TimeWaitConfig { wait: TIME_WAIT, ..TimeWaitConfig::default() },
        resets_per_s: 1_000_000,
        ..EndpointConfig::default()
    }
}

/// The bytes of a socket buffer (O96.T1.tcp).
pub(crate) const SOCKET_BUFFER: usize = 32 << 10;
/// O96.F5.tw. In the paper on scalable kernels a minute of TIME-WAIT would only cost memory.
const TIME_WAIT: Duration = Duration::from_millis(500);
