//! Requests and answers of the servers, and what a server spends on them.

use evenkeel_core::time::Duration;

/// A request, with the blank line that ends it.
pub(super) const REQUEST: &[u8] = b"GET /page HTTP/1.0\r\n\r\n";
pub(super) const BLANK_LINE: &[u8] = b"\r\n\r\n";
/// The bytes of which answers consist.
pub(super) static FILLER: [u8; 16 << 10] = [b'.'; 16 << 10];

/// The CPU time that a server takes in user mode, without its event loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HandlerCosts {
    /// The time for each request.
    pub request: Duration,
    /// The time for copying 1024 bytes of an answer.
    pub kilobyte: Duration,
}

impl HandlerCosts {
    pub(super) fn copying(&self, bytes: usize) -> Duration {
        Duration::from_nanos((self.kilobyte.as_nanos() * bytes as u128 / 1024) as u64)
    }
}

/// The bytes of a request that have arrived so far.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    came: Vec<u8>,
}

impl Arriving {
    /// Adds bytes that have arrived. Returns whether the request is complete.
    pub(super) fn add(&mut self, bytes: &[u8]) -> bool {
        self.came.extend_from_slice(bytes);
        self.came.ends_with(BLANK_LINE)
    }
}
