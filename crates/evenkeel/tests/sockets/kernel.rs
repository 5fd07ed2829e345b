//! The kernel's sockets, both hosts on the loopback interface.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use evenkeel_testing::run;

use crate::face::{Family, Listener, Side, Sockets, Stream, Udp, forward, implement_as_std};

/// The loopback interface of a network namespace of its own.
#[derive(Debug)]
pub(crate) struct Kernel;

impl Kernel {
    /// Creates the namespace of this thread and of the threads that it starts. Frames for the silent networks
    /// come back to the loopback interface, which discards them. Groups are reached through it, too.
    pub(crate) fn isolate() -> io::Result<()> {
        evenkeel::raw::kernel::enter_new_network()?;
        run("ip link set lo up");
        run("ip route add 10.9.0.0/24 dev lo");
        run("ip route add fd09::/64 dev lo");
        // Routes of one metric would share a cached route, and with it what kind of address it is for.
        run("ip route add 224.0.0.0/4 dev lo metric 1");
        run("ip route add local ff00::/8 dev lo table local");
        Ok(())
    }
}

implement_as_std!(
    UdpSocket {
        fn ttl(&self) -> io::Result<u32>;
        fn set_ttl(&self, ttl: u32) -> io::Result<()>;
    },
    TcpListener {
        fn ttl(&self) -> io::Result<u32>;
        fn set_ttl(&self, ttl: u32) -> io::Result<()>;
    },
    TcpStream {
        fn ttl(&self) -> io::Result<u32>;
        fn set_ttl(&self, ttl: u32) -> io::Result<()>;
    }
);

impl Sockets for Kernel {
    const NAME: &'static str = "kernel";
    type Udp = UdpSocket;
    type Listener = TcpListener;
    type Stream = TcpStream;

    fn open() -> Self {
        Self
    }

    fn address(&self, _: Side, family: Family) -> IpAddr {
        match family {
            Family::V4 => Ipv4Addr::LOCALHOST.into(),
            Family::V6 => Ipv6Addr::LOCALHOST.into(),
        }
    }

    fn silent(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => Ipv4Addr::new(10, 9, 0, 9).into(),
            Family::V6 => Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 9).into(),
        }
    }

    fn broadcast(&self) -> Ipv4Addr {
        Ipv4Addr::new(127, 255, 255, 255)
    }

    fn interface(&self, _: Side) -> u32 {
        1
    }

    fn bind(&self, _: Side, to: SocketAddr) -> io::Result<UdpSocket> {
        UdpSocket::bind(to)
    }

    fn listen(&self, _: Side, at: SocketAddr) -> io::Result<TcpListener> {
        TcpListener::bind(at)
    }

    fn connect(&self, _: Side, to: &[SocketAddr]) -> io::Result<TcpStream> {
        TcpStream::connect(to)
    }

    fn connect_timeout(&self, _: Side, to: &SocketAddr, within: Duration) -> io::Result<TcpStream> {
        TcpStream::connect_timeout(to, within)
    }
}
