//! A network subsystem in the calling thread: UDP and TCP over TAP devices and network interfaces.
//!
//! With the default architecture, a frame that its socket cannot take is dropped before any protocol work,
//! and each process pays for what it receives. The [tour] says when to take this crate, and which of its
//! parts stand alone.
//!
//! # A first program
//!
//! [`net`] has sockets with the calls of the standard library's. The host is the first argument:
//!
//! ```no_run
//! use evenkeel::net::{Net, UdpSocket};
//!
//! /// Answers each datagram to port 7 with its own payload. Needs root.
//! fn main() -> std::io::Result<()> {
//!     let net = Net::open("tap:keel0")?;
//!     let socket = UdpSocket::bind(&net, "0.0.0.0:7")?;
//!     let mut buffer = [0; 2048];
//!     loop {
//!         let (len, from) = socket.recv_from(&mut buffer)?;
//!         // An answer that cannot be sent is lost, as in any network.
//!         let _ = socket.send_to(&buffer[..len], from);
//!     }
//! }
//! ```
//!
//! A thread runs the host while it waits, so protocol work runs at the priority of that thread and is
//! charged to it. `net::tokio` has the same sockets for asynchronous programs (feature `tokio`).
//!
//! # The host itself
//!
//! An [`Engine`] gives a program the host without sockets around it. A thread [registers](Engine::attach) as
//! a process of the host, [waits](Engine::wait), and [enters](Engine::enter) it to make the calls of a
//! [`System`](raw::process::System). The host makes progress only while a thread runs it.
//!
//! The top level of this crate has sockets, figures, and what runs hosts on cores. The module [`raw`] has
//! what a host consists of and what it is connected to. A program of sockets needs nothing of it.
//!
//! | looking for | see |
//! | --- | --- |
//! | sockets; on tokio | [`net`]; `net::tokio` |
//! | opening a link; waiting; making calls | [`Engine::open`]; [`Engine::wait`]; [`Engine::enter`] |
//! | the calls: UDP, TCP, event queues | [`raw::socket`] |
//! | hosts, programs, architectures, devices, frames | [`raw`] |
//! | an event loop of the program's own | [`Engine::advance`], [`Engine::rest`] |
//! | events in microseconds | [`Engine::soft_events`] |
//! | several cores | [`Group`] |
//! | counters, from any thread | [`metrics`], [`Observer`] |
//! | errors, and whose fault they are | [`Error`], [`Fault`]; [`raw::error`] |
//!
//! # Several programs on a host
//!
//! A program that shares its host with others implements [`Program`](raw::process::Program), and the host
//! schedules its steps. [`Engine::new`] takes a host with other settings than the default ones.
//! [`Engine::add_cable`] adds a link in memory, which needs no privilege:
//!
//! ```
//! use evenkeel::Engine;
//! use evenkeel::raw::cable::{self, Options};
//! use evenkeel::raw::host::{Config, Host};
//! use evenkeel::raw::process::{Program, Step, System};
//! use evenkeel::raw::receive::Architecture;
//! use evenkeel::raw::socket::UdpSocket;
//! use evenkeel::raw::time::{Clock, Duration};
//! use evenkeel::raw::wire::{IpAddress, IpCidr};
//!
//! /// Answers each datagram to port 7 with its own payload.
//! #[derive(Debug, Default)]
//! struct Echo {
//!     socket: Option<UdpSocket>,
//! }
//!
//! impl Program for Echo {
//!     fn step(&mut self, system: &mut System<'_>) -> Step {
//!         let Some(socket) = self.socket else {
//!             self.socket = UdpSocket::bind(system, None, 7).ok();
//!             return if self.socket.is_some() { Step::Again } else { Step::Exit };
//!         };
//!         // Under the lazy architectures, this call does the protocol work, at this program's priority.
//!         // The program is charged for it.
//!         let Ok(request) = socket.receive(system) else { return Step::Wait(socket.fd()) };
//!         if let Some(payload) = request.as_slice() {
//!             let _ = socket.reply(system, &request, payload);
//!         }
//!         system.recycle(request);
//!         Step::Again
//!     }
//! }
//!
//! let host = Host::new(Config::of(Architecture::SoftLrp))?;
//! let mut engine = Engine::new(host, Clock::start())?;
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
//!
//! # Further reading
//!
//! The book has pages on [UDP], [TCP] and [event loops], and the [decisions] behind this crate. The examples
//! of this crate are whole programs: as root, `cargo run --example udp_echo -- tap:keel0 10.77.0.2/24`.
//!
//! [tour]: https://github.com/evenkeel/evenkeel/blob/main/docs/library/tour.md
//! [UDP]: https://github.com/evenkeel/evenkeel/blob/main/docs/library/udp.md
//! [TCP]: https://github.com/evenkeel/evenkeel/blob/main/docs/library/tcp.md
//! [event loops]: https://github.com/evenkeel/evenkeel/blob/main/docs/library/event-loops.md
//! [decisions]: https://github.com/evenkeel/evenkeel/blob/main/docs/decisions/index.md
#![forbid(unsafe_code)]

mod driver;
mod ended;
mod engine;
mod error;
mod group;
mod kernel;
pub mod metrics;
pub mod net;
mod notice;
mod observer;
pub mod raw;
mod running;
mod soft;
#[cfg(test)]
mod test_host;

pub use driver::{Replacer, Rest};
pub use ended::{Ended, Next};
pub use engine::Engine;
pub use error::Error;
pub use evenkeel_core::error::Fault;
pub use evenkeel_timers::SoftEvent;
pub use group::{Group, Remote};
pub use notice::Notice;
pub use observer::{CoreUse, DeviceCounters, Observer};
pub use soft::{SoftEvents, SoftHandler};
