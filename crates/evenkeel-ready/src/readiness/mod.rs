//! Processes and their callers, descriptors, remembered readiness and event queues, all together.

mod calls;
mod event_queues;
mod files;
mod names;
mod queues;
mod state;

pub use event_queues::QueueError;
pub use names::{CallerId, Object, QueueId};
pub use state::Readiness;

#[cfg(test)]
mod tests;
