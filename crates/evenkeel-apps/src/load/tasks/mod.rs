//! The load generator with hyper's client: HTTP/1.1 and HTTP/2, through TLS or in clear, as tasks of tokio.
//!
//! Each thread has a runtime of its own. Requests are due by the same plan as those of the
//! [generator](super::Generator), and count in the same accounts.
//!
//! | looking for | file |
//! | --- | --- |
//! | connections and the requests on them | `pool.rs` |
//! | the tasks | `exchange.rs`; the one that begins requests, `pace.rs` |
//! | TCP of the kernel, and ours | `connector.rs` |
//! | certificates and handshakes | `tls.rs` |
//! | requests, and the errors of hyper | `message.rs`, `fault.rs` |

mod connector;
mod counted;
mod exchange;
mod fault;
mod message;
mod pace;
mod pool;
#[cfg(test)]
mod tests;
mod tls;
mod version;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use evenkeel::net::Net;
use evenkeel::raw::signal::Stop;
use evenkeel::raw::time::Clock;

use super::crew::{self, Chosen};
use super::hosts::Hosts;
use super::kernel::OnKernel;
use super::news::News;
use super::plan::Plan;
use super::report::{Effort, Measured};
use super::request::{Request, Scheme};
use crate::host_setup::Limits;
use connector::{Connector, Kernel, Own};
use message::Message;
use pool::Pool;
use tls::Tls;
pub use tls::{Trust, TrustError};
pub use version::Version;

/// The protocols between the generator and a server.
#[derive(Debug, Clone)]
pub struct Protocols {
    /// The version of HTTP.
    pub version: Version,
    /// The maximum number of requests at a time on a connection of HTTP/2.
    pub streams: usize,
    /// The certificates to accept, if the URL is one of `https`.
    pub trust: Trust,
}

/// The reason why a load could not be generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TasksError {
    /// The certificates to accept cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The request has a part that the version of HTTP does not have.
    #[error("{0}")]
    Request(String),
    /// The machine failed.
    #[error(transparent)]
    Machine(#[from] io::Error),
}

/// A load for hyper's client.
#[derive(Debug)]
pub struct Tasks<'a> {
    /// The plan of the run.
    pub plan: &'a Plan,
    /// The request.
    pub request: &'a Request,
    /// The protocols.
    pub protocols: &'a Protocols,
    /// The number of threads.
    pub threads: usize,
}

impl Tasks<'_> {
    /// Carries out the load on the kernel's sockets. Calls `watch` on the calling thread, as the limits say.
    ///
    /// # Errors
    /// [`TasksError`]
    pub fn run_on_kernel(
        &self,
        at: OnKernel,
        limits: Limits,
        watch: impl FnMut(News<'_>),
    ) -> Result<(Measured, Effort), TasksError> {
        let addresses = at.to.len();
        self.run(Kernel::new(at), addresses, limits, || None, watch)
    }

    /// Carries out the load on the sockets of a host. Calls `watch` on the calling thread, as the limits say.
    ///
    /// # Errors
    /// [`TasksError`]
    pub fn run_on_net(
        &self,
        net: &Net,
        to: Vec<SocketAddr>,
        limits: Limits,
        watch: impl FnMut(News<'_>),
    ) -> Result<(Measured, Effort, Hosts), TasksError> {
        if let Some(publish) = limits.publish {
            publish(net.metrics()?);
        }
        let (clock, addresses) = (Clock::start(), to.len());
        let hosts = || Hosts::of_net(net, clock.now().since(evenkeel::raw::time::Instant::ZERO));
        let own = Own { net: net.clone(), to };
        let (measured, effort) = self.run(own, addresses, limits, || Some(hosts()), watch)?;
        Ok((measured, effort, hosts()))
    }

    fn run<C: Connector>(
        &self,
        connector: C,
        addresses: usize,
        limits: Limits,
        hosts: impl Fn() -> Option<Hosts>,
        watch: impl FnMut(News<'_>),
    ) -> Result<(Measured, Effort), TasksError> {
        let Protocols { version, streams, trust } = self.protocols;
        let target = &self.request.parts.target;
        let tls = match target.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(Tls::new(target, trust, *version)?),
        };
        let message = Message::new(self.request, *version).map_err(TasksError::Request)?;
        let (clock, stop, chosen) = (Clock::start(), Stop::on_signals()?, Chosen::default());
        let streams = if *version == Version::Http2 { (*streams).max(1) } else { 1 };
        let pool = |plan| Pool::new(plan, streams, self.request.idempotent, addresses, chosen.clone());
        let parts = self.plan.shares(self.threads).into_iter().map(pool).collect();
        let means = exchange::Means::new(connector, tls, message, *version, self.plan, clock);
        let means = Arc::new(means);
        let generate = |seat: &Arc<_>| pace::generate(seat, &means, stop);
        Ok(crew::run(parts, &clock, limits, generate, hosts, watch)?)
    }
}
