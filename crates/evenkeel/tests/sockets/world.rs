//! A case's hosts, and what cases have in common.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic;
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_testing::pause;

use crate::face::{Family, Listener, Side, Sockets, Udp};

/// A time-out that a case lets elapse.
pub(crate) const SHORT: Duration = Duration::from_millis(60);
/// A time-out that does not elapse in a case that passes.
pub(crate) const LONG: Duration = Duration::from_secs(15);
/// The kernel counts time-outs in ticks, of which the first may have begun.
const TICK: Duration = Duration::from_millis(10);

/// The hosts of a case, and the family of its addresses.
pub(crate) struct World<S> {
    pub(crate) sockets: S,
    pub(crate) family: Family,
}

impl<S: Sockets> World<S> {
    pub(crate) fn new(family: Family) -> Self {
        Self { sockets: S::open(), family }
    }

    /// Returns the server's address with any port.
    pub(crate) fn server(&self) -> SocketAddr {
        SocketAddr::new(self.sockets.address(Side::Server, self.family), 0)
    }

    /// Returns the client's address with any port.
    pub(crate) fn client(&self) -> SocketAddr {
        SocketAddr::new(self.sockets.address(Side::Client, self.family), 0)
    }

    /// Returns the unspecified address with any port.
    pub(crate) fn unspecified(&self) -> SocketAddr {
        match self.family {
            Family::V4 => (Ipv4Addr::UNSPECIFIED, 0).into(),
            Family::V6 => (Ipv6Addr::UNSPECIFIED, 0).into(),
        }
    }

    /// Returns an address that no host has, and to which there is no route.
    pub(crate) fn foreign(&self) -> SocketAddr {
        match self.family {
            Family::V4 => (Ipv4Addr::new(198, 51, 100, 1), 9_999).into(),
            Family::V6 => (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9_999).into(),
        }
    }

    /// Returns the address of a group of all hosts on a link.
    pub(crate) fn group(&self) -> IpAddr {
        match self.family {
            Family::V4 => Ipv4Addr::new(239, 1, 2, 3).into(),
            Family::V6 => Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0, 0x123).into(),
        }
    }

    /// Listens at the server's address.
    #[track_caller]
    pub(crate) fn listener(&self) -> S::Listener {
        self.sockets.listen(Side::Server, self.server()).unwrap()
    }

    /// Connects the client to a listener, at the server's address.
    #[track_caller]
    pub(crate) fn dial(&self, listener: &S::Listener) -> S::Stream {
        let port = listener.addr().port();
        self.connect(SocketAddr::new(self.server().ip(), port)).unwrap()
    }

    pub(crate) fn connect(&self, to: SocketAddr) -> io::Result<S::Stream> {
        self.sockets.connect(Side::Client, &[to])
    }

    /// Returns both ends of a connection: the client's, and the server's.
    #[track_caller]
    pub(crate) fn pair(&self) -> (S::Stream, S::Stream) {
        let listener = self.listener();
        let client = self.dial(&listener);
        (client, listener.next())
    }

    /// Returns an address of the server at which nothing listens.
    #[track_caller]
    pub(crate) fn closed(&self) -> SocketAddr {
        self.listener().addr()
    }

    /// Returns a UDP socket on each host: the client's, and the server's.
    #[track_caller]
    pub(crate) fn udp_pair(&self) -> (S::Udp, S::Udp) {
        (self.udp(Side::Client), self.udp(Side::Server))
    }

    /// Binds a UDP socket to the address of `side`.
    #[track_caller]
    pub(crate) fn udp(&self, side: Side) -> S::Udp {
        let address = self.sockets.address(side, self.family);
        self.sockets.bind(side, SocketAddr::new(address, 0)).unwrap()
    }

    /// Returns a UDP socket on each host, connected to each other.
    #[track_caller]
    pub(crate) fn udp_connected(&self) -> (S::Udp, S::Udp) {
        let (client, server) = self.udp_pair();
        client.connect(server.addr()).unwrap();
        server.connect(client.addr()).unwrap();
        (client, server)
    }
}

/// Asserts that a call fails with an error of this kind.
#[track_caller]
pub(crate) fn fails<T: Debug>(result: io::Result<T>, kind: io::ErrorKind) {
    match result {
        Err(error) => assert_eq!(error.kind(), kind, "{error}"),
        Ok(value) => panic!("no error, but {value:?}; expected {kind:?}"),
    }
}

/// Returns the kind that an error of the system has in `std`, where the kind has no public name.
pub(crate) fn kind_of(error: rustix::io::Errno) -> io::ErrorKind {
    io::Error::from(error).kind()
}

/// Repeats a call until it has a value. A case that waits in vain ends by its own limit.
pub(crate) fn eventually<T>(mut call: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(value) = call() {
            return value;
        }
        pause(Duration::from_millis(1));
    }
}

/// Repeats a nonblocking call until it does not fail with `WouldBlock`.
pub(crate) fn unblocked<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    eventually(|| match call() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        result => Some(result),
    })
}

/// Repeats a call until it fails, and returns the error.
pub(crate) fn error_of<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Error {
    eventually(|| call().err())
}

/// Gives another thread the time to block in a call. A case does not depend on it.
pub(crate) fn settle() {
    pause(Duration::from_millis(20));
}

/// Asserts that a call fails because its time-out of [`SHORT`] elapsed, and not before.
#[track_caller]
pub(crate) fn elapses<T: Debug>(call: impl FnOnce() -> io::Result<T>) {
    let value = in_time(call);
    assert!(value.is_none(), "no error, but {value:?}");
}

/// Returns the value of a call, or `None` if its time-out of [`SHORT`] elapsed, and not before.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "the kernel measures time-outs by this clock")]
pub(crate) fn in_time<T: Debug>(call: impl FnOnce() -> io::Result<T>) -> Option<T> {
    let began = Instant::now();
    let result = call();
    let passed = began.elapsed();
    if let Ok(value) = result {
        return Some(value);
    }
    fails(result, io::ErrorKind::WouldBlock);
    assert!(passed + TICK >= SHORT, "{passed:?} of {SHORT:?}");
    None
}

/// Runs two halves of a case at once, and returns their values.
pub(crate) fn both<A, B: Send>(here: impl FnOnce() -> A, there: impl FnOnce() -> B + Send) -> (A, B) {
    thread::scope(|scope| {
        let there = scope.spawn(there);
        (here(), there.join().unwrap_or_else(|panic| panic::resume_unwind(panic)))
    })
}

/// Returns bytes in which each place differs from its neighbourhood.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|place| (place ^ (place >> 8) ^ (place >> 16)) as u8).collect()
}

/// Asserts that two sequences of bytes are equal, and prints only where they differ.
#[track_caller]
pub(crate) fn assert_same(got: &[u8], expected: &[u8]) {
    assert_eq!(got.len(), expected.len(), "bytes");
    let differs = got.iter().zip(expected).position(|(got, expected)| got != expected);
    assert_eq!(differs, None, "the first byte that differs");
}
