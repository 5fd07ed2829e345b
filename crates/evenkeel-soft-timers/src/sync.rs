//! The synchronization primitives that threads of a clock share. A test that tries all orders of threads
//! replaces them with loom's.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};
pub(crate) use std::thread;
