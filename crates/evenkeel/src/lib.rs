//! evenkeel on a real core: the host of [`evenkeel_core`], driven by the machine's clock, on the devices of
//! [`evenkeel_link`].
//!
//! A program implements [`Program`](core::process::Program); an [`Engine`] runs it on the calling thread:
//!
//! ```
//! use evenkeel::Engine;
//! use evenkeel::core::cable::{self, Options};
//! use evenkeel::core::host::{Config, Host, System};
//! use evenkeel::core::process::{Program, Step};
//! use evenkeel::core::receive::Architecture;
//! use evenkeel::core::socket::Fd;
//! use evenkeel::core::time::Duration;
//! use evenkeel::core::wire::{IpAddress, IpCidr};
//! use evenkeel::link::Clock;
//!
//! /// Answers each datagram to port 7 with its own payload.
//! #[derive(Debug, Default)]
//! struct Echo {
//!     socket: Option<Fd>,
//! }
//!
//! impl Program for Echo {
//!     fn step(&mut self, system: &mut System<'_>) -> Step {
//!         let Some(socket) = self.socket else {
//!             self.socket = system.bind(None, 7).ok();
//!             return if self.socket.is_some() { Step::Again } else { Step::Exit };
//!         };
//!         // Under the lazy architectures, protocol work happens in this call: at this program's priority,
//!         // on its bill.
//!         let Ok(request) = system.receive(socket) else { return Step::Wait(socket) };
//!         if let Some(payload) = request.as_slice() {
//!             let _ = system.send(socket, request.source(), payload);
//!         }
//!         system.recycle(request);
//!         Step::Again
//!     }
//! }
//!
//! let host = Host::new(Config::of(Architecture::SoftLrp))?;
//! let mut engine = Engine::new(host, Clock::start())?;
//! // In place of the cable: `link::open` a TAP device or a packet socket, and `add_device`.
//! let (wire, end) = cable::pair(Options::new("wire", 1), Options::new("host", 2));
//! engine.add_cable(end, &[IpCidr::new(IpAddress::v4(10, 0, 0, 2), 24)])?;
//! engine.host_mut().spawn("echo", 0, Box::new(Echo::default()));
//!
//! let until = engine.clock().now() + Duration::from_millis(5);
//! engine.run(until, |_| false)?;
//! engine.host().check()?; // every frame is accounted for
//! # drop(wire);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod devices;
mod door;
mod engine;
mod error;
mod group;
mod observer;
mod soft;

pub use devices::{Notice, Replacer};
pub use door::Next;
pub use engine::{Ended, Engine};
pub use error::Error;
pub use evenkeel_core as core;
pub use evenkeel_link as link;
pub use evenkeel_timers::SoftEvent;
pub use group::{Group, Remote};
pub use observer::{CoreUse, DeviceCounters, Observer};
pub use soft::{SoftEvents, SoftHandler};
