//! TODO
#![forbid(unsafe_code)]
mod call;
pub mod classic;
mod descriptors;
mod kinds;
mod memory;
mod numbers;
mod queue;
mod readiness;
mod set;
mod slab;
mod tree;
mod watches;
pub use call::{Answer, PollEntry, Wait};
pub use descriptors::{BadDescriptor, Closed, Descriptors, DupError, FileId, Opened, ProcessId};
pub use kinds::Kinds;
pub use numbers::{Allocation, AnyNumbers, BitmapNumbers, LinearNumbers, Numbers, TooManyOpen};
pub use queue::{Event, Interest, Trigger};
pub use readiness::{CallerId, Object, QueueError, QueueId, Readiness};
pub use set::{FdSet, FdSets};
