//! Data structures that the crates of evenkeel share.
//!
//! | task | type |
//! | --- | --- |
//! | store values under small numbers that are used again | [`Slab`] |
//! | draw random numbers that are equal for one seed on every machine | [`SplitMix64`] |
//!
//! The crate is `no_std` with `alloc`, and has neither features nor dependencies.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod random;
pub mod slab;

pub use random::SplitMix64;
pub use slab::Slab;

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
