//! A host with clients, on the peer end of a server's cable.

use std::sync::Arc;

use evenkeel::raw::cable::End;
use evenkeel::raw::time::{Clock, Duration};
use schemars::JsonSchema;
use serde::Serialize;

use super::client::{Asked, Client, Counters, Load};
use super::report::TcpReport;
use crate::counters::HostCounters;
use crate::host_setup::{HostSetup, Limits, SetupError, run_dry};
use crate::hosted::Hosted;

/// The time that connections still open at the end of the run may take to finish. Then they are cut off.
const GRACE: Duration = Duration::from_millis(500);

/// The results of clients and their host.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Clients {
    /// The time that the clients ran, in seconds.
    pub seconds: f64,
    /// The clients' counters.
    #[serde(flatten)]
    pub asked: Asked,
    /// The TCP report of the clients' host.
    pub tcp: TcpReport,
    /// The counters of the clients' host.
    pub counters: HostCounters,
}

/// Runs clients on one end of a cable until they have ended, `done` returns true, or the load's duration
/// and a grace period are over.
pub(crate) fn ask(
    setup: &HostSetup,
    clock: Clock,
    end: End,
    load: Load,
    done: impl Fn() -> bool,
) -> Result<Clients, SetupError> {
    let mut engine = setup.engine(clock)?;
    let interface = engine.add_cable(end, &setup.addresses)?;
    let mut hosted = Hosted::new(engine, interface, None)?;
    let tally = Arc::new(Counters::default());
    let limits = Limits { duration: load.duration.map(|duration| duration + GRACE), ..Limits::default() };
    let program = Client::new(load, setup.config.seed, Arc::clone(&tally));
    let process = hosted.engine.host_mut().spawn("clients", 0, Box::new(program));
    let mut elapsed = hosted.drive(limits, || tally.ended() || done(), |_, _, _| {})?;
    elapsed += if tally.ended() { run_dry(&mut hosted.engine)? } else { hosted.farewell(process, false)? };
    let snapshot = hosted.engine.snapshot();
    Ok(Clients {
        seconds: elapsed.as_secs_f64(),
        asked: tally.asked(),
        counters: HostCounters::of(&snapshot, elapsed),
        tcp: snapshot.tcp,
    })
}
