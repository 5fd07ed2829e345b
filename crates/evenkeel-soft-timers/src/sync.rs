//! What threads agree by. A test that tries all orders of threads puts loom's in this place.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};
pub(crate) use std::thread;
