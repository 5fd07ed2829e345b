//! What can be chosen about an endpoint, and about a connection that is opened.

use core::fmt;
use core::ops::RangeInclusive;
use std::sync::Arc;

use super::super::connection::Config;
use super::super::time_wait::TimeWaitConfig;

/// What is common to all connections of an endpoint.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// Of each connection.
    pub connection: Arc<Config>,
    /// Of all those in TIME-WAIT.
    pub time_wait: TimeWaitConfig,
    /// The most connections there may be, half-open ones and those in TIME-WAIT aside; those that are over
    /// count until their user closes them. Default 2^20.
    pub connections: usize,
    /// Bytes that the buffers of all connections may own together, beside the bounds of each. Default 256
    /// MiB.
    ///
    /// Once three quarters are taken, buffers get no larger, and what comes out of order, or came so before,
    /// is dropped; once all is taken, a connection takes one segment to send if it has none, and the next
    /// segment that comes if the user has read all before. So each can still go on, and the bound is exceeded
    /// by two segments per connection at most, and by what a buffer grows at a time.
    pub buffers: usize,
    /// How many servers' Fast Open cookies are kept, 96 bytes each, once
    /// [`Endpoint::connect_with`](super::Endpoint::connect_with) was used; none, and it never sends data with
    /// a SYN. Default 1024.
    pub fast_open_servers: usize,
    /// How many destinations' rates are kept, 72 bytes each, once a connection that measures its rate is
    /// over; for those that start at a rate [remembered](crate::recovery::Start::Remembered). None, and
    /// nothing is remembered. Default 1024.
    pub destinations: usize,
    /// Resets a second in the long run, and how many at once, in answer to segments of no connection: whoever
    /// floods closed ports, or guesses at connections, is not to make the host send as much. Those of
    /// connections are not among them. A quarter of it for one prefix of addresses, and somewhat more or less
    /// at random: see [`reply_limit`](crate::reply_limit). Default 1000 and 1000; zero for none.
    pub resets_per_s: u32,
    /// See [`EndpointConfig::resets_per_s`].
    pub reset_burst: u32,
    /// What to choose from when a connection is opened without a port of its own. 49152 to 65535, the dynamic
    /// ports of RFC 6335, 6.
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

/// How a connection is opened.
#[derive(Clone, Copy)]
pub struct Opening<'a> {
    /// How many bytes a segment may have after the 20 bytes of its header: what fits the path.
    pub mss: u16,
    /// Options of its own, in place of those that all connections have.
    pub options: Option<&'a Arc<Config>>,
    /// What it has to say from the beginning, even if that is nothing: see
    /// [`connect_with`](super::Endpoint::connect_with).
    pub data: Option<&'a [u8]>,
    /// Which ports will do where one is chosen: for hosts of which not everything that is sent to them comes
    /// to this endpoint.
    pub port_fits: Option<&'a dyn Fn(u16) -> bool>,
}

impl Opening<'_> {
    /// As all others are.
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
