//! A load generator for HTTP servers. Requests are due by plan, independent of the server.
//!
//! | looking for | file |
//! | --- | --- |
//! | the target and the bytes of a request | `request.rs` |
//! | the plan of a run | `plan.rs` |
//! | the times at which requests are due | `arrivals.rs`, `curve.rs`; those of a day, `day.rs` |
//! | the choice among the server's addresses | `finding.rs` |
//! | the use of connections: opened, used, kept and closed | `generator.rs`; idle ones, `cold.rs` |
//! | the interface to TCP | `transport.rs` |
//! | runs on the kernel's TCP, and on ours | `kernel.rs`, `program.rs` |
//! | HTTP/2 and TLS, on hyper | `tasks/` |
//! | requests due and waiting; several threads | `agenda.rs`; `crew.rs` |
//! | counters and results | `account.rs`, `report.rs`, `effort.rs` |

mod account;
mod agenda;
mod arrivals;
mod cold;
mod crew;
mod curve;
mod day;
mod effort;
mod finding;
mod generator;
mod glance;
mod hosts;
mod kernel;
mod news;
mod plan;
mod program;
mod report;
mod request;
mod share;
#[cfg(test)]
mod table;
mod tasks;
#[cfg(test)]
mod tests;
mod transport;

pub use account::{Counts, Failure, Failures, Interval, Statuses};
pub use arrivals::{Arrivals, Spacing};
pub use cold::ColdCounts;
pub use curve::{Curve, Step};
pub use day::{Day, SAMPLES};
pub use generator::Generator;
pub use glance::Glance;
pub use hosts::Hosts;
pub use kernel::{OnKernel, run};
pub use news::News;
pub use plan::{Load, Plan};
pub use program::{OnHost, Place, Watched, client, run_on_host};
pub use report::{ConnectionCounts, Doubt, Effort, Measured, Percentiles, RefusedTls, Report};
pub use request::{Request, Scheme, Target, method};
pub use share::Share;
pub use tasks::{Protocols, Tasks, TasksError, Trust, TrustError, Version};
pub use transport::{Close, Fault, Id, Transport};
