//! Data structures that the lowest crates of evenkeel share.
//!
//! | looking for | module |
//! | --- | --- |
//! | values under small numbers that are used again | [`slab`] |
//! | random numbers, always equal for one seed | [`random`] |
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod random;
pub mod slab;

pub use random::SplitMix64;
pub use slab::Slab;
