//! The atomics of what two threads of a cable agree on. A test that tries all orders of threads puts loom's
//! in this place.

pub(crate) use core::sync::atomic::{AtomicBool, Ordering, fence};
