//! The sockets of this library: two hosts that are joined by a cable in memory.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::time::Duration;

use evenkeel::net::{Net, TcpListener, TcpStream, UdpSocket};

use crate::face::{Family, Listener, Side, Sockets, Stream, Udp, forward, implement_as_std};

/// A pair of hosts: the client is the first, the server the second.
pub(crate) struct Ours {
    client: Net,
    server: Net,
}

impl Ours {
    fn net(&self, side: Side) -> &Net {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}

implement_as_std!(UdpSocket, TcpListener, TcpStream);

impl Sockets for Ours {
    const NAME: &'static str = "evenkeel";
    type Udp = UdpSocket;
    type Listener = TcpListener;
    type Stream = TcpStream;

    fn open() -> Self {
        let (client, server) = Net::pair().unwrap();
        Self { client, server }
    }

    fn address(&self, side: Side, family: Family) -> IpAddr {
        let last = match side {
            Side::Client => 1,
            Side::Server => 2,
        };
        match family {
            Family::V4 => Ipv4Addr::new(10, 0, 0, last).into(),
            Family::V6 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()).into(),
        }
    }

    fn silent(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => Ipv4Addr::new(10, 0, 0, 99).into(),
            Family::V6 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 99).into(),
        }
    }

    fn broadcast(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, 255)
    }

    fn interface(&self, _: Side) -> u32 {
        0
    }

    fn bind(&self, side: Side, to: SocketAddr) -> io::Result<UdpSocket> {
        UdpSocket::bind(self.net(side), to)
    }

    fn listen(&self, side: Side, at: SocketAddr) -> io::Result<TcpListener> {
        TcpListener::bind(self.net(side), at)
    }

    fn connect(&self, side: Side, to: &[SocketAddr]) -> io::Result<TcpStream> {
        TcpStream::connect(self.net(side), to)
    }

    fn connect_timeout(&self, side: Side, to: &SocketAddr, within: Duration) -> io::Result<TcpStream> {
        TcpStream::connect_timeout(self.net(side), to, within)
    }
}
