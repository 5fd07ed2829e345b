//! Programs with TCP streams.
//!
//! | looking for | file |
//! | --- | --- |
//! | a server of very many connections, whatever it serves | `server.rs`, `session.rs` |
//! | what it may serve | `echo.rs`, `sink.rs`, `web.rs` |
//! | a client that opens connections and sends made-up bytes | `client.rs` |
//! | a client that sends what comes from outside, and gives what comes back | `send.rs`, `stdio.rs` |
//! | made-up bytes | `pattern.rs` |
//! | running them on devices and cables | `sending.rs`, `clients.rs`, and `../serve.rs` |
//! | what they have done | `tally.rs`, `report.rs` |

mod client;
mod clients;
mod echo;
mod pattern;
mod report;
mod send;
mod sending;
mod server;
mod session;
mod sink;
mod stdio;
mod streams;
mod tally;
mod web;

pub use client::{Ask, Asked, Client, Load};
pub use clients::Clients;
pub(crate) use clients::ask;
pub use echo::Echo;
pub use pattern::Pattern;
pub use report::{ConnectionReport, ListenerReport, TcpReport};
pub use send::{Broken, Drain, Send, Source};
pub use sending::{Errand, Place, Sent, Way, send};
pub use server::{Options, Server};
pub use session::{Progress, Service, Stream};
pub use sink::Sink;
pub use stdio::{Input, Output, Stdio};
pub use tally::Tally;
pub use web::Web;
