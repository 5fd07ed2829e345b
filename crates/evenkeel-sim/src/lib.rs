//! Virtual time: the same [`evenkeel_core`] host, run by a simulated CPU over an emulated network.
//!
//! A *machine model* says what each kind of work costs, the *simulated CPU* lets that time pass with
//! preemptive-resume priorities, the *network emulator* delays, loses and mangles frames. All dice are rolled
//! by one seeded generator: the same seed gives the same run.
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
