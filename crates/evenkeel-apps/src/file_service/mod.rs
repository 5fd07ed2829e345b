//! The file server as the service of a process: over sockets of an evenkeel host on a device, or over the
//! kernel's.
//!
//! | subject | file |
//! | --- | --- |
//! | what is served; the report | `serving.rs`; `report.rs` |
//! | listening on either kind of sockets | `listeners.rs` |
//! | the run: the server, and the events of the process | `run.rs`, `events.rs` |
//! | the host, its capture and its counters | `host.rs` |

mod events;
mod host;
mod listeners;
mod report;
mod run;
mod serving;

use evenkeel::raw::time::Clock;

use crate::host_setup::{DeviceSetup, HostSetup, Limits};
use crate::http::files::Server;
use host::Hosting;
pub use report::{FilesServed, HostServed, News};
pub use serving::{Listen, OnHost, ServeError, Serving};

/// Serves files over sockets of a host on a device, until a limit is reached, the device ends, or the process
/// is asked to end.
///
/// The calling thread serves, and does the protocol work.
///
/// # Errors
/// [`ServeError`]
pub fn on_device(
    setup: &HostSetup,
    at: &DeviceSetup,
    on_host: &OnHost,
    serving: Serving,
    limits: Limits,
    news: impl FnMut(News<'_>),
) -> Result<FilesServed, ServeError> {
    let process = events::Process::prepare(&serving)?;
    let server = open(&serving)?;
    let (engine, attached) = setup.unstopped_on_device(at, Clock::start())?;
    let mut hosting = Hosting::new(engine, &attached, on_host)?;
    let runtime = run::runtime()?;
    let served = runtime.block_on(async {
        let listeners = listeners::on_net(hosting.net(), &serving.listen, &on_host.listener).await?;
        run::Run { serving, server, process, limits, hosting: Some(&mut hosting), news }.run(listeners).await
    })?;
    drop(runtime);
    let served = hosting.finish(served)?;
    attached.close()?;
    Ok(served)
}

/// Serves files over the kernel's sockets, until a limit is reached or the process is asked to end.
///
/// # Errors
/// [`ServeError`]
pub fn on_kernel(
    serving: Serving,
    limits: Limits,
    news: impl FnMut(News<'_>),
) -> Result<FilesServed, ServeError> {
    let process = events::Process::prepare(&serving)?;
    let server = open(&serving)?;
    run::runtime()?.block_on(async {
        let listeners = listeners::on_kernel(&serving.listen)?;
        run::Run { serving, server, process, limits, hosting: None, news }.run(listeners).await
    })
}

fn open(serving: &Serving) -> Result<Server, ServeError> {
    let Serving { root, settings, .. } = serving;
    run::server(root, settings).map_err(|source| ServeError::Root { root: root.clone(), source })
}
