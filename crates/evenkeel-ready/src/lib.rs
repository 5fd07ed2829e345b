//! TODO
#![forbid(unsafe_code)]
mod descriptors;
mod kinds;
mod numbers;
mod set;
mod slab;
mod tree;
pub use descriptors::{BadDescriptor, Closed, Descriptors, DupError, FileId, Opened, ProcessId};
pub use kinds::Kinds;
pub use numbers::{Allocation, AnyNumbers, BitmapNumbers, LinearNumbers, Numbers, TooManyOpen};
pub use set::{FdSet, FdSets};
