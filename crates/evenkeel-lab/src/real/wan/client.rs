//! The calls of a client, independent of the TCP implementation behind it.

use std::io;

use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::time::{Duration, Instant};

use crate::t00_tab10::PAYLOAD;

/// A request is the number of packets wanted.
pub(super) const REQUEST_BYTES: usize = 4;
/// No transfer takes as long.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of an answer in so many full segments.
pub(super) const fn bytes_of(packets: u32) -> usize {
    packets as usize * PAYLOAD as usize
}

pub(super) fn late(packets: u32) -> io::Error {
    let what = format!("{packets} packets have not come within {PATIENCE:?}");
    io::Error::new(io::ErrorKind::TimedOut, what)
}

/// A client that asks for answers and waits for them.
pub(super) trait Client {
    type Connection;

    fn open(&mut self, to: IpEndpoint) -> io::Result<Self::Connection>;

    /// Asks for an answer of `packets` packets. Returns the time from the request to its last byte.
    fn ask(&mut self, connection: &mut Self::Connection, packets: u32) -> io::Result<Duration>;

    fn close(&mut self, connection: Self::Connection) -> io::Result<()>;

    /// Asks for nothing for this time.
    fn pause(&mut self, time: Duration) -> io::Result<()>;

    fn now(&self) -> Instant;
}
