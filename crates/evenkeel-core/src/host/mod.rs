//! A host: one core's network subsystem, and the choice of what runs next on that core.
//!
//! All work is cut into work items (units). Every work item runs at a level; the highest level that has work
//! runs first. The driver of the host makes time pass: a real core while the work item runs, a simulated one
//! afterwards, according to its machine model. The order of calls is [`Host::turn`], [`Host::charge`] (in
//! parts if need be), [`Host::finish`]; when `turn` finds nothing, [`Host::halt`].
//!
//! | looking for | file |
//! | --- | --- |
//! | processes come, make calls from outside, and go | `processes.rs` |
//! | interfaces, addresses, routes, neighbours | `configure.rs` |
//! | levels and work items | `work_item.rs` |
//! | what a host owns; which work item runs next, what it does, who is charged, when to halt | `run.rs` |
//! | counters, bills, deadlines | `report.rs` |

mod configure;
mod processes;
mod report;
mod run;
mod work_item;

pub use crate::config::{Config, PaperPolicies, Transmit, TransmitService};
pub use crate::frame::PoolLimit;
pub use crate::link::{AddInterfaceError, Traffic};
pub use crate::process::NotAttached;
pub use crate::system::System;
pub use crate::trigger::{Trigger, TriggerState};
pub use run::Host;
pub use work_item::{Completed, Level, Next};

#[cfg(test)]
mod vectors;
