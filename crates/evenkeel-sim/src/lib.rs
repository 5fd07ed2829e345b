//! Virtual time: an unmodified [`evenkeel_core`] host, run by a simulated CPU over an emulated network.
//!
//! A *machine model* has the cost of each kind of work, the *simulated CPU* lets that time pass with
//! preemptive-resume priorities, and the *network emulator* delays, loses and corrupts frames. One seeded
//! generator is the source of all randomness, so runs with one seed are equal.
#![forbid(unsafe_code)]

pub mod bulk;
pub mod calls;
pub mod cpu;
pub mod daemons;
pub mod machine;
pub mod net;
pub mod packet;
pub mod profile;
pub mod rpc;
pub mod selecting;
mod standstill;
pub mod streams;
pub mod tcp;
pub mod timeline;
pub mod trace;
pub mod traffic;
pub mod trigger;
pub mod web;
pub mod wire;
pub mod workload;
pub mod world;

pub use evenkeel_wan::{event, rng};
