//! The polling thread's policies: round robin with quota, feedback from full queues, the cycle limit; and
//! what the paper names beside them.
//!
//! Source: Mogul and Ramakrishnan, *Eliminating receive livelock*, TOCS 1997, sections 5.1, 6.4 to 7 and 10.

mod closed;
mod cycle;
mod discards;
pub(crate) mod feedback;
mod gathering;
mod interval;
mod lengths;
mod limit;
mod order;
mod poller;
mod quota;
mod sources;
mod ticks;

pub use cycle::CycleLimit;
pub(crate) use feedback::Gate;
pub use feedback::{Feedback, FeedbackBy, FeedbackScope, Inhibition, Resumes};
pub use interval::{NetworkPolling, PollInterval};
pub use order::TaskWeights;
pub(crate) use poller::Poller;
pub use quota::Quota;
pub(crate) use sources::{SourceId, Sources};
pub use ticks::TickSampling;
