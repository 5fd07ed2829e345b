//! The calls of a client, independent of the TCP implementation behind it.

use std::io;

use evenkeel::raw::time::{Duration, Instant};
use evenkeel::raw::wire::IpEndpoint;

use crate::t00_tab10::PAYLOAD;

/// The address of the client.
pub(super) const CLIENT: [u8; 4] = [10, 78, 0, 1];
/// The address of a server on the kernel.
pub(super) const KERNEL: [u8; 4] = [10, 78, 0, 2];
/// The bytes of a request, which is the number of packets wanted.
pub(super) const REQUEST_BYTES: usize = 4;
/// A time limit above that of any transfer.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the bytes of an answer that fills this many segments.
pub(super) const fn bytes_of(packets: u32) -> usize {
    packets as usize * PAYLOAD as usize
}

pub(super) fn late(packets: u32) -> io::Error {
    let what = format!("{packets} packets have not come within {PATIENCE:?}");
    io::Error::new(io::ErrorKind::TimedOut, what)
}

/// A client that requests answers and waits for them.
pub(super) trait Client {
    type Connection;

    fn open(&mut self, to: IpEndpoint) -> io::Result<Self::Connection>;

    /// Requests an answer of `packets` packets. Returns the time from the request to its last byte.
    fn ask(&mut self, connection: &mut Self::Connection, packets: u32) -> io::Result<Duration>;

    fn close(&mut self, connection: Self::Connection) -> io::Result<()>;

    /// Waits for this time without requests.
    fn pause(&mut self, time: Duration) -> io::Result<()>;

    fn now(&self) -> Instant;
}
