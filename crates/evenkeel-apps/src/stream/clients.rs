//! The other end of a server's cable: a host with clients.

use std::sync::Arc;

use evenkeel_core::cable::End;
use evenkeel_core::time::Duration;
use evenkeel_link::Clock;
use serde::Serialize;

use super::client::{Asked, Client, Load, Tally};
use super::report::TcpReport;
use crate::counters::HostCounters;
use crate::host_setup::{HostSetup, Limits, SetupError, run_dry};
use crate::hosted::Hosted;

/// How long connections that are open when time is up may take to come to their end. Then they are cut off.
const GRACE: Duration = Duration::from_millis(500);

/// What clients and their host have done.
#[derive(Debug, Clone, Serialize)]
pub struct Clients {
    /// How long they ran, in seconds.
    pub seconds: f64,
    /// What they did.
    #[serde(flatten)]
    pub asked: Asked,
    /// Their host's TCP.
    pub tcp: TcpReport,
    /// What their host did.
    pub counters: HostCounters,
}

/// Runs clients on one end of a cable until they have ended, or `done`.
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
    let tally = Arc::new(Tally::default());
    let limits = Limits { duration: load.duration.map(|duration| duration + GRACE), ..Limits::default() };
    let program = Client::new(load, setup.config.seed, Arc::clone(&tally));
    let process = hosted.engine.host_mut().spawn("clients", 0, Box::new(program));
    let mut elapsed = hosted.drive(limits, || tally.ended() || done(), |_, _, _| {})?;
    elapsed += if tally.ended() { run_dry(&mut hosted.engine)? } else { hosted.farewell(process, false)? };
    let engine = &mut hosted.engine;
    Ok(Clients {
        seconds: elapsed.as_secs_f64(),
        asked: tally.asked(),
        tcp: TcpReport::of(engine.host()),
        counters: HostCounters::of(engine, interface, elapsed),
    })
}
