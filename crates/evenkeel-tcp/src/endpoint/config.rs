//! Settings of an endpoint, and of a connection that is opened.

use alloc::sync::Arc;
use core::fmt;
use core::ops::RangeInclusive;

use super::super::connection::Config;
use super::super::time_wait::TimeWaitConfig;

/// The settings of an endpoint, common to all of its connections.
///
/// ```
/// use evenkeel_tcp::EndpointConfig;
///
/// // A small host: at most 10 000 connections, and 16 MiB of buffers.
/// let config = EndpointConfig { connections: 10_000, buffers: 16 << 20, ..EndpointConfig::default() };
/// # let _ = config;
/// ```
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// The default settings of each connection.
    pub connection: Arc<Config>,
    /// The settings of all connections in TIME-WAIT.
    pub time_wait: TimeWaitConfig,
    /// The largest number of connections, without half-open ones and those in TIME-WAIT. Connections that
    /// are over count until their user closes them. Default 2^20.
    pub connections: usize,
    /// The bytes that the buffers of all connections may own together; each connection has limits of its
    /// own besides. Default 256 MiB.
    ///
    /// Once three quarters are taken, buffers get no larger, and data that comes out of order, or came so
    /// before, is dropped. Once all is taken, a connection takes one segment to send if it has none, and
    /// the next segment that comes if the user has read all before. So each can still go on, and the limit
    /// is exceeded by at most two segments per connection, and by the step in which a buffer grows.
    pub buffers: usize,
    /// The number of servers whose Fast Open cookies are kept, 96 bytes each, once
    /// [`Endpoint::connect_with`](super::Endpoint::connect_with) was used. With 0 it never sends data with
    /// a SYN. Default 1024.
    pub fast_open_servers: usize,
    /// The number of destinations whose rates are kept, 72 bytes each, once a connection that measures its
    /// rate is over. Connections that start at a rate [remembered](crate::recovery::Start::Remembered) use
    /// them. With 0 nothing is remembered. Default 1024.
    pub destinations: usize,
    /// The long-run limit, in resets per second, on resets that answer segments of no connection, so that
    /// a flood to closed ports, or guesses at connections, do not make the host send as much. Resets of
    /// connections do not count. One prefix of addresses gets a quarter of the limit, and somewhat more or
    /// less at random: see [`reply_limit`](crate::reply_limit). Default 1000; zero for no resets.
    pub resets_per_s: u32,
    /// The number of such resets that may leave at once: see [`EndpointConfig::resets_per_s`]. Default
    /// 1000.
    pub reset_burst: u32,
    /// The ports from which one is chosen for a connection or listener without a port of its own. Default
    /// 49152 to 65535, the dynamic ports of RFC 6335, 6.
    pub ports: RangeInclusive<u16>,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            connection: Arc::default(),
            time_wait: TimeWaitConfig::default(),
            connections: 1 << 20,
            buffers: 256 << 20,
            fast_open_servers: 1_024,
            destinations: 1_024,
            resets_per_s: 1_000,
            reset_burst: 1_000,
            ports: 49_152..=65_535,
        }
    }
}

/// The parameters of a connection that is opened actively.
#[derive(Clone, Copy)]
pub struct Opening<'a> {
    /// The largest segment that fits the path, in bytes after the 20 of its header.
    pub mss: u16,
    /// The connection's own settings, in place of those of the endpoint.
    pub options: Option<&'a Arc<Config>>,
    /// The first data, which may leave with the SYN, even if there are none: see
    /// [`connect_with`](super::Endpoint::connect_with).
    pub data: Option<&'a [u8]>,
    /// The test that a chosen local port must pass, for hosts that do not give all of their packets to
    /// this endpoint.
    pub port_fits: Option<&'a dyn Fn(u16) -> bool>,
}

impl Opening<'_> {
    /// Returns the parameters of a connection with the endpoint's settings, without early data.
    #[must_use]
    pub const fn new(mss: u16) -> Self {
        Self { mss, options: None, data: None, port_fits: None }
    }
}

impl fmt::Debug for Opening<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut opening = f.debug_struct("Opening");
        opening.field("mss", &self.mss).field("options", &self.options).field("data", &self.data);
        opening.finish_non_exhaustive()
    }
}
