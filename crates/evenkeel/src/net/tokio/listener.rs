//! Sockets that listen for connections.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use ::tokio::net::ToSocketAddrs;
use evenkeel_core::socket::Kinds;
use evenkeel_core::system;
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::wire::IpEndpoint;

use super::super::address::socket_addr;
use super::super::handle::Net;
use super::super::listener::TcpListener as Blocking;
use super::super::slot::{Slot, wait_in};
use super::super::socket::Account;
use super::convert::each_address;
use super::runtime;
use super::stream::TcpStream;

/// A socket that listens for TCP connections, for tasks.
#[derive(Debug)]
pub struct TcpListener {
    inner: Blocking,
    accept: Slot,
}

impl TcpListener {
    /// Listens at an address and port of `net`. `0.0.0.0` stands for all addresses of IPv4 that the host has,
    /// `[::]` for those of both families, and port 0 for a free port.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`], or a limit of the host. Also if the
    /// caller is outside of a runtime.
    pub async fn bind(net: &Net, address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_with(net, address, &ListenerConfig::default()).await
    }

    /// Listens as [`bind`](Self::bind) does, with settings such as the length of the queues.
    ///
    /// # Errors
    /// Those of [`bind`](Self::bind).
    pub async fn bind_with(
        net: &Net,
        address: impl ToSocketAddrs,
        config: &ListenerConfig,
    ) -> io::Result<Self> {
        let runtime = runtime::current(net)?;
        each_address(address, async |address| {
            let inner = Blocking::bind_to(net, Account::Runtime(runtime.clone()), address, config)?;
            Ok(Self { inner, accept: Slot::new(net) })
        })
        .await
    }

    /// Accepts a connection, and returns the address of the peer. No connection is lost if the call is
    /// cancelled.
    ///
    /// # Errors
    /// A limit of the process.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let socket = self.inner.socket();
        let accepted = wait_in(socket, Kinds::READABLE, |system| self.inner.accept_in(system)).await?;
        Ok(self.accepted(accepted))
    }

    /// Accepts a connection, or has the task woken when there is one. Only the last task that polls is woken.
    ///
    /// # Errors
    /// Those of [`accept`](Self::accept).
    pub fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accept = |system: &mut system::System<'_>| self.inner.accept_in(system);
        let accepted = ready!(self.accept.poll(self.inner.socket(), Kinds::READABLE, context, accept))?;
        Poll::Ready(Ok(self.accepted(accepted)))
    }

    fn accepted(&self, (stream, peer): (system::TcpStream, IpEndpoint)) -> (TcpStream, SocketAddr) {
        (TcpStream::accepted(self.inner.socket(), stream), socket_addr(peer))
    }

    /// Returns the address and port that the socket is bound to.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Sets the TTL, or the hop limit, of the listener's segments, and of those of connections that are
    /// opened from now on.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is zero or above 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.inner.set_ttl(ttl)
    }

    /// Returns the value of [`set_ttl`](Self::set_ttl); 64 at first, unless the host is configured otherwise.
    ///
    /// # Errors
    /// If the host is gone.
    pub fn ttl(&self) -> io::Result<u32> {
        self.inner.ttl()
    }
}
