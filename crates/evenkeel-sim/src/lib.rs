//! Virtual time for hosts of [`evenkeel_core`]: a simulated CPU over an emulated network.
//!
//! The host is the one that serves on a real core. A *machine model* says how long each piece of its work
//! takes. The *simulated CPU* lets that time pass, and higher levels preempt lower ones. The *network
//! emulator* delays, loses and corrupts frames. One seeded generator is the source of all randomness, so
//! runs with equal seeds are equal.
//!
//! Here a SPARCstation 20 receives 20 000 datagrams/s, under two architectures:
//!
//! ```
//! use evenkeel_core::host::Config;
//! use evenkeel_core::receive::Architecture;
//! use evenkeel_core::time::{Duration, Instant};
//! use evenkeel_core::wire::{EthernetAddress, IpCidr, Ipv4Address};
//! use evenkeel_sim::machine::Machine;
//! use evenkeel_sim::net::Conditions;
//! use evenkeel_sim::packet::Station;
//! use evenkeel_sim::traffic::{Flow, Pattern};
//! use evenkeel_sim::workload::Sink;
//! use evenkeel_sim::world::{Port, World, hardware_address};
//!
//! const SERVER: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
//! const PEER: Ipv4Address = Ipv4Address::new(10, 0, 0, 9);
//!
//! /// Returns the number of datagrams that a program receives in a second.
//! fn received(architecture: Architecture) -> Result<u64, Box<dyn std::error::Error>> {
//!     let mut world = World::new(1);
//!     let segment = world.add_segment();
//!     let costs = Machine::built_in("sparcstation-20")?.costs(architecture);
//!     let port = Port::new(segment, IpCidr::new(SERVER.into(), 24));
//!     let host = world.add_host(Config::of(architecture), costs, &[port])?;
//!     let (sink, received) = Sink::new(9, Duration::ZERO);
//!     world.host_mut(host).spawn("sink", 0, Box::new(sink));
//!     let flow = Flow {
//!         from: Station { hardware: EthernetAddress([2, 0, 0, 0, 0, 9]), address: PEER, port: 40_000 },
//!         to: Station { hardware: hardware_address(0, 0), address: SERVER, port: 9 },
//!         payload_bytes: 14,
//!         rate_pps: 20_000,
//!         pattern: Pattern::Constant,
//!         start: Instant::ZERO,
//!         stop: Instant::from_millis(1_000),
//!     };
//!     world.add_source(segment, flow, Conditions::PERFECT);
//!     world.run_until(Instant::from_millis(1_000));
//!     Ok(received.get())
//! }
//!
//! // Receive livelock, and its cure.
//! assert!(received(Architecture::Eager)? * 10 < received(Architecture::SoftLrp)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | looking for | module |
//! | --- | --- |
//! | hosts, segments and sources on one virtual clock | [`world`] |
//! | the simulated CPU; machine models | [`cpu`]; [`machine`] |
//! | programs; traffic from outside; TCP streams | [`workload`]; [`traffic`]; [`streams`] |
//! | conditions of a wire | [`net`] |
//! | trigger states and timers of a CPU | [`trigger`] |
//! | servers with `select`, and their clients | [`selecting`] |
//! | TCP endpoints without hosts | [`tcp`] |
//! | where a CPU spent its time | [`profile`], [`timeline`] |
//!
//! The book's page on [machine models] says where the prices come from.
//!
//! [machine models]: https://github.com/evenkeel/evenkeel/blob/main/docs/evidence/machine-models.md
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
