//! Event-driven servers as Banga and Mogul measured them (WRL 98/6): one process, many connections, and
//! `select` to wait for them. Also the clients that load them.
//!
//! | looking for | file |
//! | --- | --- |
//! | the loop around `select`, and what it costs in user mode | `event_loop.rs` |
//! | a web server | `server.rs` |
//! | a caching proxy | `proxy.rs` |
//! | the origin server behind it, at the end of a slow path | `origin.rs` |
//! | hot clients, which send requests at a rate, and cold connections | `clients.rs` |

mod clients;
mod event_loop;
mod origin;
mod proxy;
mod server;

pub use clients::{ClientCounts, ColdClients, Due, HotClients};
pub use event_loop::{EventLoop, Happening, LoopCosts, LoopCounts};
pub use origin::{Path, SlowOrigin};
pub use proxy::{Answers, Proxy};
pub use server::SelectServer;

use evenkeel_core::time::Duration;

/// A request, with the blank line that ends it.
const REQUEST: &[u8] = b"GET /page HTTP/1.0\r\n\r\n";
const BLANK_LINE: &[u8] = b"\r\n\r\n";
/// The bytes of which answers consist.
static FILLER: [u8; 16 << 10] = [b'.'; 16 << 10];

/// The CPU time that a server takes in user mode, without its event loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HandlerCosts {
    /// The time for each request.
    pub request: Duration,
    /// The time for copying 1024 bytes of an answer.
    pub kilobyte: Duration,
}

impl HandlerCosts {
    fn copying(&self, bytes: usize) -> Duration {
        Duration::from_nanos((self.kilobyte.as_nanos() * bytes as u128 / 1024) as u64)
    }
}

/// The bytes of a request that have arrived so far.
#[derive(Debug, Default)]
struct Hearing {
    came: Vec<u8>,
}

impl Hearing {
    /// Adds bytes that have arrived. Returns whether the request is complete.
    fn hear(&mut self, bytes: &[u8]) -> bool {
        self.came.extend_from_slice(bytes);
        self.came.ends_with(BLANK_LINE)
    }
}
