//! The atomics of what a sleeper and those that wake it agree on. A test that tries all orders of threads
//! puts loom's in this place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
