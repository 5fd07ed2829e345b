//! A client on blocking sockets, of whatever host.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wait::Halt;
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

/// The bytes that one call moves.
pub(super) const CALL: usize = 64 << 10;

/// A function that opens a stream.
type Connect<S> = dyn Fn(&SocketAddr) -> io::Result<S>;

/// A client that requests answers and waits for them, on streams of the type `S`.
pub(super) struct Client<S> {
    connect: Box<Connect<S>>,
    clock: Clock,
    halt: Halt,
    buffer: Vec<u8>,
}

impl<S: Read + Write> Client<S> {
    /// Creates a client whose streams `connect` opens. A call on one must end after [`PATIENCE`].
    pub(super) fn new(
        clock: Clock,
        connect: impl Fn(&SocketAddr) -> io::Result<S> + 'static,
    ) -> io::Result<Self> {
        Ok(Self { connect: Box::new(connect), clock, halt: Halt::new()?, buffer: vec![0; CALL] })
    }

    pub(super) fn open(&self, to: IpEndpoint) -> io::Result<S> {
        (self.connect)(&SocketAddr::from(to))
    }

    /// Requests an answer of `packets` packets. Returns the time from the request to its last byte.
    pub(super) fn ask(&mut self, stream: &mut S, packets: u32) -> io::Result<Duration> {
        let since = self.clock.now();
        stream.write_all(&packets.to_be_bytes())?;
        let mut left = bytes_of(packets);
        while left > 0 {
            match stream.read(&mut self.buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => left = left.saturating_sub(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(late(packets)),
                Err(error) => return Err(error),
            }
        }
        Ok(self.clock.now().since(since))
    }

    /// Waits for this time without requests.
    pub(super) fn pause(&mut self, time: Duration) -> io::Result<()> {
        let until = self.clock.now() + time;
        while self.clock.now() < until {
            self.halt.until(&self.clock, until)?;
        }
        Ok(())
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }
}

fn late(packets: u32) -> io::Error {
    let what = format!("{packets} packets have not come within {PATIENCE:?}");
    io::Error::new(ErrorKind::TimedOut, what)
}
