//! Data structures that the lowest crates of evenkeel share.
//!
//! | looking for | module |
//! | --- | --- |
//! | values under small numbers that are used again | [`slab`] |
//! | random numbers, always equal for one seed | [`random`] |
#![forbid(unsafe_code)]

pub mod random;
pub mod slab;

pub use random::SplitMix64;
pub use slab::Slab;
