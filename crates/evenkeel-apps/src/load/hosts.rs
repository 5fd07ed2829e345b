//! The reports of the hosts of a run.

use evenkeel::Engine;
use evenkeel::net::Net;
use evenkeel::raw::time::Duration;
use schemars::JsonSchema;
use serde::Serialize;

use crate::counters::HostCounters;
use crate::serve::Served;
use crate::stream::TcpReport;

/// The reports of the hosts of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Hosts {
    /// The TCP report of the generator's host.
    pub tcp: TcpReport,
    /// The counters of the generator's host.
    pub counters: HostCounters,
    /// The server's result, if the run is on a cable.
    pub server: Option<Box<Served>>,
    /// The reason why the device does not work any more; `None` if it works.
    pub device_failed: Option<String>,
}

impl Hosts {
    pub(super) fn of_net(net: &Net, elapsed: Duration) -> Self {
        let snapshot = net.snapshot();
        Self {
            counters: HostCounters::of(&snapshot, elapsed),
            tcp: snapshot.tcp,
            server: None,
            device_failed: None,
        }
    }

    pub(super) fn of(engine: &Engine, elapsed: Duration) -> Self {
        let snapshot = engine.snapshot();
        Self {
            counters: HostCounters::of(&snapshot, elapsed),
            tcp: snapshot.tcp,
            server: None,
            device_failed: engine.failed_device(),
        }
    }
}
