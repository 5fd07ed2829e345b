//! The atomics shared by a sleeper and its wakers. A test that tries all interleavings replaces them with
//! loom's.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
