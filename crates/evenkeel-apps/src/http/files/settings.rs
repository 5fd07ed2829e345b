//! Settings of a file server.

use core::time::Duration;

/// Settings of a file server: what it serves, how long it waits, and what a connection may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether a directory without `index.html` is answered with a list of its names.
    pub listing: bool,
    /// Whether `FILE.br` and `FILE.gz` are sent for `FILE` to clients that accept these codings.
    pub precompressed: bool,
    /// The time for the head of a request, from its first byte. Also the time for the first request of a
    /// connection, with the handshake of TLS.
    pub head_timeout: Duration,
    /// The time that a connection may stay without a request.
    pub idle_timeout: Duration,
    /// The time that an answer may stay without progress, because its client reads nothing.
    pub stall_timeout: Duration,
    /// The time that answers in flight have to finish once the server is to stop.
    pub grace: Duration,
    /// The number of open connections at which no further one is accepted.
    pub connections_max: usize,
    /// The largest head of a request in bytes, and the bytes of answers that a connection buffers before it
    /// writes; at least 8192.
    pub head_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listing: false,
            precompressed: true,
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(10),
            connections_max: 10_000,
            head_bytes_max: 16 * 1024,
        }
    }
}
