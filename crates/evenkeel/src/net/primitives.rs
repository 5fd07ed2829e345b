//! The atomics and the sleep of threads that share a host. A test that tries all interleavings replaces them
//! with loom's.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub(crate) use evenkeel_link::Parking;
