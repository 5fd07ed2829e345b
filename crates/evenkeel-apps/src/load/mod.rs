//! Load for HTTP servers: requests that are due when the plan says so, whatever the server does.
//!
//! | looking for | file |
//! | --- | --- |
//! | whom to ask, and for what | `request.rs` |
//! | what is to be done | `plan.rs` |
//! | when requests are due | `arrivals.rs`, `curve.rs`; over a day, `day.rs` |
//! | which of the server's addresses is used | `finding.rs` |
//! | which connection is opened, asked, kept and closed when | `generator.rs`; idle ones, `cold.rs` |
//! | what it takes of TCP | `transport.rs` |
//! | the kernel's TCP, and ours | `kernel.rs`, `program.rs` |
//! | what came of it | `account.rs`, `report.rs`, `effort.rs` |

mod account;
mod arrivals;
mod cold;
mod curve;
mod day;
mod effort;
mod finding;
mod generator;
mod kernel;
mod news;
mod plan;
mod program;
mod report;
mod request;
#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
mod transport;

pub use account::{Counts, Failure, Failures, Interval, Statuses};
pub use arrivals::{Arrivals, Spacing};
pub use cold::ColdCounts;
pub use curve::{Curve, Step};
pub use day::{Day, SAMPLES};
pub use generator::{Generator, Glance};
pub use kernel::{OnKernel, run};
pub use news::News;
pub use plan::{Load, Plan};
pub use program::{Hosts, OnHost, Place, Watched, client, run_on_host};
pub use report::{ConnectionCounts, Doubt, Effort, Measured, Percentiles, Report};
pub use request::{Request, Target, method};
pub use transport::{Close, Fault, Id, Transport};
