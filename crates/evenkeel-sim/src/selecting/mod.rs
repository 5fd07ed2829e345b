//! Event-driven servers as Banga and Mogul measured them (WRL 98/6): one process, many connections, and
//! `select` to wait for them. Also the clients that load them.
//!
//! | looking for | file |
//! | --- | --- |
//! | the loop around `select`, and what it costs in user mode | `event_loop.rs` |
//! | requests and answers, and what a server spends on them | `exchange.rs` |
//! | a web server | `server.rs` |
//! | a caching proxy | `proxy.rs` |
//! | the origin server behind it, at the end of a slow path | `origin.rs` |
//! | hot clients, which send requests at a rate, and cold connections | `clients.rs` |

mod clients;
mod event_loop;
mod exchange;
mod origin;
mod proxy;
mod server;

pub use clients::{ClientCounts, ColdClients, Due, HotClients};
pub use event_loop::{EventLoop, Happening, LoopCosts, LoopCounts};
pub use exchange::HandlerCosts;
pub use origin::{Path, SlowOrigin};
pub use proxy::{Answers, Proxy};
pub use server::SelectServer;
