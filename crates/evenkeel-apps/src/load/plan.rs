//! The plan of a generator.

use evenkeel::raw::time::Duration;

use super::arrivals::Spacing;
use super::curve::Curve;
use super::share::Share;

/// The plan of a generator's run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The times at which requests are made.
    pub load: Load,
    /// The length of the measured time.
    pub length: Duration,
    /// The length of the warm-up, which comes before the measured time and has its first rate. Requests due
    /// in it do not count.
    pub warm_up: Duration,
    /// The maximum number of connections for requests at a time. A closed loop always uses the maximum.
    pub connections: usize,
    /// The number of requests on a connection after which it is closed; `None` for as many as the server
    /// accepts.
    pub requests_per_connection: Option<u64>,
    /// The time after which a request is given up: since it was sent, or since it was due if it still waits
    /// for a connection.
    pub timeout: Duration,
    /// The time after which a connection that is not established is given up, and its request with it.
    pub connect_timeout: Duration,
    /// The number of cold connections, which are kept open in addition to those for requests.
    pub cold: usize,
    /// The rate of requests on all cold connections together, in requests a second.
    pub cold_rate: f64,
    /// The length of an interval of the report.
    pub interval: Duration,
    /// The seed of everything that is random.
    pub seed: u64,
    /// The part of the run that this plan is for.
    pub share: Share,
}

impl Plan {
    /// Returns the plan of each of `threads` threads. Together they make the requests of this plan at the
    /// same times as one thread does.
    #[must_use]
    pub fn shares(&self, threads: usize) -> Vec<Self> {
        let of = threads.max(1);
        let share = |index| {
            let share = Share { index, of };
            Self {
                connections: share.part(self.connections),
                cold: share.part(self.cold),
                share,
                ..self.clone()
            }
        };
        (0..of).map(share).collect()
    }
}

/// The rule by which requests are made.
#[derive(Debug, Clone)]
pub enum Load {
    /// Requests are made when they are due, whatever the server does.
    Open {
        /// The rate over the measured time.
        curve: Curve,
        /// The spacing of requests.
        spacing: Spacing,
    },
    /// On each connection, the next request is made when the last one is answered.
    Closed,
}
