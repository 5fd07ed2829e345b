//! A host: the network subsystem of one core, which chooses what runs next on that core.
//!
//! All work is divided into work items. Every work item runs at a level. The highest level that has work runs
//! first. The driver of the host makes time pass. On a real core, time passes while the work item runs. In a
//! simulation it passes afterwards, according to a machine model.
//!
//! For each work item, a driver calls [`Host::turn`], then [`Host::charge`] (in parts if need be), then
//! [`Host::finish`]. When `turn` finds nothing to do, the driver calls [`Host::halt`].
//!
//! | subject | file |
//! | --- | --- |
//! | starting, attaching and ending processes; calls from outside the host | `processes.rs` |
//! | interfaces, addresses, routes, neighbours | `configure.rs` |
//! | the host as a member of a group | `membership.rs` |
//! | levels and work items | `work_item.rs` |
//! | choosing, running and charging work items; halting | `run.rs` |
//! | counters, bills, deadlines | `report.rs` |

mod configure;
mod membership;
mod processes;
mod report;
mod run;
mod work_item;

pub use crate::config::{Config, PaperPolicies, Transmit, TransmitService};
pub use crate::frame::PoolLimit;
pub use crate::link::{AddInterfaceError, Traffic, Untaken};
pub use crate::net::Uncalled;
pub use crate::other_stack::{NotReserved, OtherStack, Resolved};
pub use crate::process::NotAttached;
pub use crate::stray::Stray;
pub use crate::system::System;
pub use crate::trigger::{Trigger, TriggerState};
pub use membership::Membership;
pub use run::Host;
pub use work_item::{Completed, Level, Next};

#[cfg(test)]
mod vectors;
