//! Sockets that listen for connections.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use evenkeel_core::host::System;
use evenkeel_core::socket::Kinds;
use evenkeel_core::system;
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::wire::IpEndpoint;

use super::address::{bound_address, each_address, hop_limit, socket_addr};
use super::handle::Net;
use super::settings::Timeout;
use super::socket::{Account, ListenerProcess, Socket};
use super::stream::TcpStream;
use crate::error::Error;

/// A socket that listens for TCP connections.
///
/// The calls are those of [`std::net::TcpListener`], by any number of threads. A thread that accepts does the
/// protocol work of connections that are being opened, at the listener's port and no other.
#[derive(Clone)]
pub struct TcpListener(Arc<Shared>);

pub(super) struct Shared {
    pub(super) socket: Socket,
    pub(super) listener: system::TcpListener,
    local: SocketAddr,
}

impl TcpListener {
    /// Listens at an address and port of `net`. `0.0.0.0` stands for all addresses of IPv4 that the host has,
    /// `[::]` for those of both families, and port 0 for a free port.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`], or a limit of the host.
    pub fn bind(net: &Net, address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_with(net, address, &ListenerConfig::default())
    }

    /// Listens as [`bind`](Self::bind) does, with settings such as the length of the queues.
    ///
    /// # Errors
    /// Those of [`bind`](Self::bind).
    pub fn bind_with(net: &Net, address: impl ToSocketAddrs, config: &ListenerConfig) -> io::Result<Self> {
        each_address(address, |address| {
            let process = net.shared().lock().attach_callers("listener", net.shared().now());
            let account = Account::Listener(Arc::new(ListenerProcess { net: net.clone(), process }));
            Ok(Self::bind_to(net, account, address, config)?)
        })
    }

    pub(super) fn bind_to(
        net: &Net,
        account: Account,
        address: SocketAddr,
        config: &ListenerConfig,
    ) -> Result<Self, Error> {
        let mut local = address;
        let socket = Socket::open(net, account, |system| {
            let (ip, port) = (bound_address(address.ip()), address.port());
            let listener = system::TcpListener::listen(system, ip, port, config)?;
            local.set_port(listener.port(system)?);
            Ok(listener.fd())
        })?;
        let listener = system::TcpListener::from(socket.fd);
        Ok(Self(Arc::new(Shared { socket, listener, local })))
    }

    /// Accepts a connection, and returns the address of the peer.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the socket does not block and there is none, or a limit of the
    /// process.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let socket = self.socket();
        let (stream, peer) =
            socket.wait_in(Kinds::READABLE, &Timeout::default(), |system| self.accept_in(system))?;
        Ok((TcpStream::accepted(socket, stream), socket_addr(peer)))
    }

    /// Accepts a connection in a visit to the host.
    pub(super) fn accept_in(
        &self,
        system: &mut System<'_>,
    ) -> Result<(system::TcpStream, IpEndpoint), Error> {
        Ok(self.0.listener.accept(system)?)
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.0.socket
    }

    /// Returns an iterator over the connections, which never ends.
    #[must_use]
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming(self)
    }

    /// Returns the address and port that the socket is bound to.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.local)
    }

    /// Returns another handle of the same socket.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(self.clone())
    }

    /// Sets whether [`accept`](Self::accept) returns [`io::ErrorKind::WouldBlock`] if there is no connection.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.socket.blocking.set_nonblocking(nonblocking);
        Ok(())
    }

    /// Sets the TTL, or the hop limit, of the listener's segments, and of those of connections that are
    /// opened from now on.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is zero or above 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let limit = hop_limit(ttl)?;
        let set = self.0.socket.enter(|system| self.0.listener.set_hop_limit(system, limit))?;
        Ok(set.map_err(Error::from)?)
    }

    /// Returns the value of [`set_ttl`](Self::set_ttl); 64 at first, unless the host is configured otherwise.
    ///
    /// # Errors
    /// If the host is gone.
    pub fn ttl(&self) -> io::Result<u32> {
        let limit = self.0.socket.enter(|system| self.0.listener.hop_limit(system))?;
        Ok(limit.map_err(Error::from)?.into())
    }

    /// Returns the pending error of the socket. There is none.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(None)
    }
}

/// The connections of a listener.
#[derive(Debug)]
pub struct Incoming<'a>(&'a TcpListener);

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.0.accept().map(|(stream, _)| stream))
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { socket, local, .. } = &*self.0;
        f.debug_struct("TcpListener").field("addr", local).field("fd", &socket.fd.0).finish_non_exhaustive()
    }
}
