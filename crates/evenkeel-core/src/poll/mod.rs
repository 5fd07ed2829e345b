//! The polling thread's policies: round robin with quota, feedback from full queues, the cycle limit; and
//! what the paper names beside them.
//!
//! Source: Mogul and Ramakrishnan, *Eliminating receive livelock*, TOCS 1997, sections 5.1, 6.4 to 7 and 10.

mod closed;
mod cycle;
mod discards;
mod feedback;
mod interval;
mod lengths;
mod limit;
mod order;
mod poller;
mod quota;
mod sources;
mod ticks;

pub use cycle::CycleLimit;
pub use feedback::{Feedback, FeedbackBy, FeedbackScope, Gate, Inhibition, Resumes};
pub use interval::{NetworkPolling, PollInterval};
pub use order::TaskWeights;
pub use poller::Poller;
pub use quota::Quota;
pub use sources::{SourceId, Sources};
pub use ticks::TickSampling;
