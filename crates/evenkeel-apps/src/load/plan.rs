//! What a generator is to do.

use evenkeel_core::time::Duration;

use super::arrivals::Spacing;
use super::curve::Curve;

/// What a generator is to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// When requests are made.
    pub load: Load,
    /// How long it is measured.
    pub length: Duration,
    /// Before that, at the first rate: what is due then does not count.
    pub warm_up: Duration,
    /// Connections for requests at a time, at most; in a closed loop, always so many.
    pub connections: usize,
    /// Requests on a connection, after which it is closed; `None` for as many as the server lets.
    pub requests_per_connection: Option<u64>,
    /// A request that is not answered so long after it was sent is given up, and so is one that has waited
    /// so long for a free connection.
    pub timeout: Duration,
    /// A connection that is not established so long after it was begun is given up, and the request with it.
    pub connect_timeout: Duration,
    /// Connections that are kept open beside those.
    pub cold: usize,
    /// Requests a second on all of these together.
    pub cold_rate: f64,
    /// What is told apart in time.
    pub interval: Duration,
    /// Where what is random comes from.
    pub seed: u64,
}

/// When requests are made.
#[derive(Debug, Clone)]
pub enum Load {
    /// When they are due, whatever the server does.
    Open {
        /// The rate, over the time that is measured.
        curve: Curve,
        /// How they follow each other.
        spacing: Spacing,
    },
    /// On each connection when the one before is answered.
    Closed,
}
