//! The calls that cases make on sockets, whoever implements them.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::time::Duration;

/// One of the two hosts of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Server,
    Client,
}

/// A version of the Internet protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// Two hosts with an implementation of sockets.
pub(crate) trait Sockets: Sized + Send + Sync + 'static {
    const NAME: &'static str;
    type Udp: Udp;
    type Listener: Listener<Stream = Self::Stream>;
    type Stream: Stream;

    fn open() -> Self;
    fn address(&self, side: Side, family: Family) -> IpAddr;
    /// Returns an address that has a route, and at which nothing answers.
    fn silent(&self, family: Family) -> IpAddr;
    /// Returns the address by which the client broadcasts to the server.
    fn broadcast(&self) -> Ipv4Addr;
    /// Returns the interface of `side`, as IPv6 names it.
    fn interface(&self, side: Side) -> u32;
    fn bind(&self, side: Side, to: SocketAddr) -> io::Result<Self::Udp>;
    fn listen(&self, side: Side, at: SocketAddr) -> io::Result<Self::Listener>;
    fn connect(&self, side: Side, to: &[SocketAddr]) -> io::Result<Self::Stream>;
    fn connect_timeout(&self, side: Side, to: &SocketAddr, within: Duration) -> io::Result<Self::Stream>;
}

/// A TCP connection, with the methods of `std::net::TcpStream`.
pub(crate) trait Stream: Read + Write + Debug + Send + Sync + Sized + 'static {
    /// Returns the stream as its shared reference reads and writes.
    fn shared(&self) -> impl Read + Write + Send;
    fn peek(&self, buffer: &mut [u8]) -> io::Result<usize>;
    fn shutdown(&self, how: Shutdown) -> io::Result<()>;
    fn local_addr(&self) -> io::Result<SocketAddr>;
    fn peer_addr(&self) -> io::Result<SocketAddr>;
    fn try_clone(&self) -> io::Result<Self>;
    fn nodelay(&self) -> io::Result<bool>;
    fn set_nodelay(&self, nodelay: bool) -> io::Result<()>;
    fn ttl(&self) -> io::Result<u32>;
    fn set_ttl(&self, ttl: u32) -> io::Result<()>;
    fn read_timeout(&self) -> io::Result<Option<Duration>>;
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
    fn write_timeout(&self) -> io::Result<Option<Duration>>;
    fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()>;
    fn take_error(&self) -> io::Result<Option<io::Error>>;

    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.shared().read(buffer)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.shared().write(bytes)
    }

    /// Writes all of `bytes`.
    #[track_caller]
    fn put(&self, bytes: &[u8]) {
        self.shared().write_all(bytes).unwrap();
    }

    /// Reads as many bytes as `len` says.
    #[track_caller]
    fn get(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.shared().read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Reads until the peer has ended its direction.
    #[track_caller]
    fn get_all(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.shared().read_to_end(&mut bytes).unwrap();
        bytes
    }
}

/// A TCP listener, with the methods of `std::net::TcpListener`.
pub(crate) trait Listener: Debug + Send + Sync + Sized + 'static {
    type Stream;

    fn accept(&self) -> io::Result<(Self::Stream, SocketAddr)>;
    fn incoming(&self) -> impl Iterator<Item = io::Result<Self::Stream>>;
    fn local_addr(&self) -> io::Result<SocketAddr>;
    fn try_clone(&self) -> io::Result<Self>;
    fn ttl(&self) -> io::Result<u32>;
    fn set_ttl(&self, ttl: u32) -> io::Result<()>;
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()>;
    fn take_error(&self) -> io::Result<Option<io::Error>>;

    /// Waits for a connection.
    #[track_caller]
    fn next(&self) -> Self::Stream {
        self.accept().unwrap().0
    }

    #[track_caller]
    fn addr(&self) -> SocketAddr {
        self.local_addr().unwrap()
    }
}

/// A UDP socket, with the methods of `std::net::UdpSocket`.
pub(crate) trait Udp: Debug + Send + Sync + Sized + 'static {
    fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize>;
    fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
    fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
    fn connect(&self, to: SocketAddr) -> io::Result<()>;
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize>;
    fn peek(&self, buffer: &mut [u8]) -> io::Result<usize>;
    fn local_addr(&self) -> io::Result<SocketAddr>;
    fn peer_addr(&self) -> io::Result<SocketAddr>;
    fn try_clone(&self) -> io::Result<Self>;
    fn ttl(&self) -> io::Result<u32>;
    fn set_ttl(&self, ttl: u32) -> io::Result<()>;
    fn broadcast(&self) -> io::Result<bool>;
    fn set_broadcast(&self, broadcast: bool) -> io::Result<()>;
    fn read_timeout(&self) -> io::Result<Option<Duration>>;
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
    fn write_timeout(&self) -> io::Result<Option<Duration>>;
    fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()>;
    fn take_error(&self) -> io::Result<Option<io::Error>>;
    fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()>;
    fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()>;
    fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()>;
    fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()>;

    #[track_caller]
    fn addr(&self) -> SocketAddr {
        self.local_addr().unwrap()
    }

    /// Sends a datagram, all of it.
    #[track_caller]
    fn put(&self, bytes: &[u8], to: SocketAddr) {
        assert_eq!(self.send_to(bytes, to).unwrap(), bytes.len());
    }

    /// Waits for a datagram; returns it and its sender.
    #[track_caller]
    fn get(&self) -> (Vec<u8>, SocketAddr) {
        let mut buffer = vec![0; 65_536];
        let (len, from) = self.recv_from(&mut buffer).unwrap();
        buffer.truncate(len);
        (buffer, from)
    }
}

/// Passes methods on to those of the type itself.
macro_rules! forward {
    ($type:ty: $(fn $method:ident(&self $(, $argument:ident: $of:ty)*) -> $out:ty;)*) => {
        $(fn $method(&self $(, $argument: $of)*) -> $out { <$type>::$method(self $(, $argument)*) })*
    };
}

/// Implements the traits for types whose own methods are those of `std::net`.
macro_rules! implement_as_std {
    ($udp:ty, $listener:ty, $stream:ty) => {
        impl Stream for $stream {
            fn shared(&self) -> impl Read + Write + Send {
                self
            }
            forward! { $stream:
                fn peek(&self, buffer: &mut [u8]) -> io::Result<usize>;
                fn shutdown(&self, how: Shutdown) -> io::Result<()>;
                fn local_addr(&self) -> io::Result<SocketAddr>;
                fn peer_addr(&self) -> io::Result<SocketAddr>;
                fn try_clone(&self) -> io::Result<Self>;
                fn ttl(&self) -> io::Result<u32>;
                fn set_ttl(&self, ttl: u32) -> io::Result<()>;
                fn nodelay(&self) -> io::Result<bool>;
                fn set_nodelay(&self, nodelay: bool) -> io::Result<()>;
                fn read_timeout(&self) -> io::Result<Option<Duration>>;
                fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
                fn write_timeout(&self) -> io::Result<Option<Duration>>;
                fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
                fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()>;
                fn take_error(&self) -> io::Result<Option<io::Error>>;
            }
        }

        impl Listener for $listener {
            type Stream = $stream;
            forward! { $listener:
                fn accept(&self) -> io::Result<($stream, SocketAddr)>;
                fn incoming(&self) -> impl Iterator<Item = io::Result<$stream>>;
                fn local_addr(&self) -> io::Result<SocketAddr>;
                fn try_clone(&self) -> io::Result<Self>;
                fn ttl(&self) -> io::Result<u32>;
                fn set_ttl(&self, ttl: u32) -> io::Result<()>;
                fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()>;
                fn take_error(&self) -> io::Result<Option<io::Error>>;
            }
        }

        impl Udp for $udp {
            forward! { $udp:
                fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize>;
                fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
                fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
                fn connect(&self, to: SocketAddr) -> io::Result<()>;
                fn send(&self, bytes: &[u8]) -> io::Result<usize>;
                fn recv(&self, buffer: &mut [u8]) -> io::Result<usize>;
                fn peek(&self, buffer: &mut [u8]) -> io::Result<usize>;
                fn local_addr(&self) -> io::Result<SocketAddr>;
                fn peer_addr(&self) -> io::Result<SocketAddr>;
                fn try_clone(&self) -> io::Result<Self>;
                fn ttl(&self) -> io::Result<u32>;
                fn set_ttl(&self, ttl: u32) -> io::Result<()>;
                fn broadcast(&self) -> io::Result<bool>;
                fn set_broadcast(&self, broadcast: bool) -> io::Result<()>;
                fn read_timeout(&self) -> io::Result<Option<Duration>>;
                fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
                fn write_timeout(&self) -> io::Result<Option<Duration>>;
                fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
                fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()>;
                fn take_error(&self) -> io::Result<Option<io::Error>>;
                fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()>;
                fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()>;
                fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()>;
                fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()>;
            }
        }
    };
}

pub(crate) use {forward, implement_as_std};
