//! UDP sockets: binding, receiving and sending.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::host::System;
use evenkeel_core::socket::{Kinds, ReceiveError};
use evenkeel_core::stack::{Datagram, IpEndpoint};
use evenkeel_core::system;
use evenkeel_core::time::Duration;
use evenkeel_core::wire::IpAddress;

use super::address::{bound_address, each_address, endpoint, socket_addr};
use super::handle::Net;
use super::socket::{Account, Socket};
use crate::error::Error;

/// A UDP socket.
///
/// The calls are those of [`std::net::UdpSocket`], by any number of threads. A thread that receives does the
/// protocol work for what it receives. A datagram that finds the queue of its socket full is dropped before
/// any protocol work.
pub struct UdpSocket(Arc<Shared>);

struct Shared {
    socket: Socket,
    udp: system::UdpSocket,
    local: SocketAddr,
    peer: Mutex<Option<IpEndpoint>>,
    /// A datagram that was peeked at.
    peeked: Mutex<Option<Datagram>>,
    broadcast: AtomicBool,
}

impl UdpSocket {
    /// Binds a socket to an address and port of `net`. The unspecified address stands for all addresses of
    /// the host, and port 0 for a free port.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`], or a limit of the host.
    pub fn bind(net: &Net, address: impl ToSocketAddrs) -> io::Result<Self> {
        each_address(address, |address| Ok(Self::bind_to(net, Account::common(net), address)?))
    }

    pub(super) fn bind_to(net: &Net, account: Account, address: SocketAddr) -> Result<Self, Error> {
        let mut local = address;
        let socket = Socket::open(net, account, |system| {
            let udp = system::UdpSocket::bind(system, bound_address(address.ip()), address.port())?;
            local.set_port(udp.port(system)?);
            Ok(udp.fd())
        })?;
        let udp = system::UdpSocket::from(socket.fd);
        let (peer, peeked, broadcast) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        Ok(Self(Arc::new(Shared { socket, udp, local, peer, peeked, broadcast })))
    }

    // --- Receive ---

    /// Receives a datagram, and returns its length and the address that it came from. Bytes beyond the length
    /// of `buffer` are lost.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the [time-out](Self::set_read_timeout) has passed, or the socket does
    /// not block.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        Ok(self.receive(|system, datagram| {
            let received = (datagram.copy_to(buffer), socket_addr(datagram.source()));
            system.recycle(datagram);
            received
        })?)
    }

    /// Receives a datagram as [`recv_from`](Self::recv_from) does, and leaves it there.
    ///
    /// # Errors
    /// Those of [`recv_from`](Self::recv_from).
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        Ok(self.receive(|_, datagram| {
            let received = (datagram.copy_to(buffer), socket_addr(datagram.source()));
            self.put_back(datagram);
            received
        })?)
    }

    /// Keeps a datagram that was peeked at for the next call.
    pub(super) fn put_back(&self, datagram: Datagram) {
        *self.0.peeked() = Some(datagram);
    }

    /// Returns whether a datagram was peeked at.
    #[cfg(feature = "tokio")]
    pub(super) fn has_peeked(&self) -> bool {
        self.0.peeked().is_some()
    }

    /// Receives a datagram of the peer that the socket is connected to. Returns its length.
    ///
    /// # Errors
    /// Those of [`recv_from`](Self::recv_from).
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv_from(buffer).map(|(len, _)| len)
    }

    /// Receives a datagram as [`recv`](Self::recv) does, and leaves it there.
    ///
    /// # Errors
    /// Those of [`recv_from`](Self::recv_from).
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.peek_from(buffer).map(|(len, _)| len)
    }

    /// Receives a datagram without a copy. It lies in the memory that it was received into, which is free
    /// again when it is dropped. [`Datagram::destination`] is the address that it came to, and
    /// [`Datagram::interface`] where it came in.
    ///
    /// # Errors
    /// Those of [`recv_from`](Self::recv_from).
    pub fn recv_loan(&self) -> io::Result<Datagram> {
        Ok(self.receive(|_, datagram| datagram)?)
    }

    /// Receives at least one datagram, and as many more as have come and `datagrams` has room for. Those that
    /// were in it are given back.
    ///
    /// # Errors
    /// Those of [`recv_from`](Self::recv_from).
    pub fn recv_many(&self, datagrams: &mut evenkeel_core::socket::Datagrams) -> io::Result<()> {
        let Shared { socket, udp, .. } = &*self.0;
        socket.wait_in(Kinds::READABLE, socket.blocking.read(), |system| {
            Ok(udp.receive_burst(system, datagrams)?)
        })?;
        Ok(())
    }

    /// Receives a datagram, and has `take` take it.
    fn receive<T>(&self, mut take: impl FnMut(&mut System<'_>, Datagram) -> T) -> Result<T, Error> {
        let socket = self.socket();
        socket.wait_in(Kinds::READABLE, socket.blocking.read(), |system| self.receive_in(system, &mut take))
    }

    /// Receives a datagram in a visit to the host, and has `take` take it.
    pub(super) fn receive_in<T>(
        &self,
        system: &mut System<'_>,
        take: impl FnOnce(&mut System<'_>, Datagram) -> T,
    ) -> Result<T, Error> {
        let datagram = match self.0.peeked().take() {
            Some(peeked) => peeked,
            None => receive_from(self.0.udp, system, *self.0.peer())?,
        };
        Ok(take(system, datagram))
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.0.socket
    }

    // --- Send ---

    /// Sends a datagram. Returns its length.
    ///
    /// # Errors
    /// [`io::ErrorKind::NetworkUnreachable`] without a route, [`io::ErrorKind::PermissionDenied`] to a
    /// broadcast address without [permission](Self::set_broadcast), and EMSGSIZE if it is too long.
    pub fn send_to(&self, payload: &[u8], address: impl ToSocketAddrs) -> io::Result<usize> {
        let Some(address) = address.to_socket_addrs()?.next() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no addresses to send data to"));
        };
        Ok(self.send_datagram(payload, endpoint(address))?)
    }

    /// Sends a datagram to the peer that the socket is connected to. Returns its length.
    ///
    /// # Errors
    /// EDESTADDRREQ if the socket is not connected, and those of [`send_to`](Self::send_to).
    pub fn send(&self, payload: &[u8]) -> io::Result<usize> {
        Ok(self.send_datagram(payload, self.connected_to()?)?)
    }

    /// Returns the peer that the socket is connected to.
    pub(super) fn connected_to(&self) -> Result<IpEndpoint, Error> {
        self.0.peer().ok_or(Error::NotConnected)
    }

    /// Answers a datagram. The answer leaves from the address that the datagram came to. Returns its length.
    ///
    /// # Errors
    /// Those of [`send_to`](Self::send_to).
    pub fn reply(&self, request: &Datagram, payload: &[u8]) -> io::Result<usize> {
        let Shared { socket, udp, .. } = &*self.0;
        socket.wait_in(Kinds::WRITABLE, socket.blocking.write(), |system| {
            Ok(udp.reply(system, request, payload)?)
        })?;
        Ok(payload.len())
    }

    /// Sends datagrams in one visit to the host, each to its address. Returns the number of those that were
    /// sent: fewer than all if the next would have to wait.
    ///
    /// # Errors
    /// Those of [`send_to`](Self::send_to), if the first datagram was not sent.
    pub fn send_many(&self, datagrams: &[(SocketAddr, &[u8])]) -> io::Result<usize> {
        let Shared { socket, udp, .. } = &*self.0;
        Ok(socket.wait_in(Kinds::WRITABLE, socket.blocking.write(), |system| {
            for (sent, (to, payload)) in datagrams.iter().enumerate() {
                match udp.send(system, endpoint(*to), payload) {
                    Ok(()) => {}
                    Err(error) if sent == 0 => return Err(error.into()),
                    Err(_) => return Ok(sent),
                }
            }
            Ok(datagrams.len())
        })?)
    }

    fn send_datagram(&self, payload: &[u8], to: IpEndpoint) -> Result<usize, Error> {
        let socket = self.socket();
        socket.wait_in(Kinds::WRITABLE, socket.blocking.write(), |system| self.send_in(system, payload, to))
    }

    /// Sends a datagram in a visit to the host. Returns its length.
    pub(super) fn send_in(
        &self,
        system: &mut System<'_>,
        payload: &[u8],
        to: IpEndpoint,
    ) -> Result<usize, Error> {
        if to.port == 0 {
            return Err(io::Error::from(rustix::io::Errno::INVAL).into());
        }
        if self.0.local.is_ipv4() && matches!(to.addr, IpAddress::Ipv6(_)) {
            return Err(io::Error::from(rustix::io::Errno::AFNOSUPPORT).into());
        }
        if to.addr == IpAddress::Ipv4(Ipv4Addr::BROADCAST) {
            self.0.may_broadcast()?;
        }
        self.0.udp.send(system, to, payload)?;
        Ok(payload.len())
    }

    // --- Peer ---

    /// Connects the socket: from now on [`send`](Self::send) sends there, and only datagrams from there are
    /// received.
    ///
    /// # Errors
    /// If the address cannot be resolved, or the socket cannot send there:
    /// [`io::ErrorKind::NetworkUnreachable`] without a route, [`io::ErrorKind::PermissionDenied`] to a
    /// broadcast address. The socket then keeps the peer that it had.
    pub fn connect(&self, address: impl ToSocketAddrs) -> io::Result<()> {
        each_address(address, |address| Ok(self.connect_to(endpoint(address))?))
    }

    fn connect_to(&self, peer: IpEndpoint) -> Result<(), Error> {
        let hop = self.0.socket.enter(|system| system.first_hop(peer.addr))??;
        if hop.neighbor.is_none() && !peer.addr.is_multicast() {
            self.0.may_broadcast()?;
        }
        *self.0.peer() = Some(peer);
        Ok(())
    }

    /// Returns the address that the socket is connected to.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] if it is not.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer().map(socket_addr).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Returns the address and port that the socket is bound to.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.local)
    }

    // --- Groups ---

    /// Joins a multicast group, on every interface of the host.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the address is not that of a group, or a limit of the host.
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, _interface: &Ipv4Addr) -> io::Result<()> {
        self.join(IpAddress::Ipv4(*group))
    }

    /// Joins a multicast group, on every interface of the host.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the address is not that of a group, or a limit of the host.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, _interface: u32) -> io::Result<()> {
        self.join(IpAddress::Ipv6(*group))
    }

    /// Leaves a multicast group, on every interface of the host.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] if the socket has not joined it.
    pub fn leave_multicast_v4(&self, group: &Ipv4Addr, _interface: &Ipv4Addr) -> io::Result<()> {
        self.leave(IpAddress::Ipv4(*group))
    }

    /// Leaves a multicast group, on every interface of the host.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] if the socket has not joined it.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, _interface: u32) -> io::Result<()> {
        self.leave(IpAddress::Ipv6(*group))
    }

    fn leave(&self, group: IpAddress) -> io::Result<()> {
        let left = self.0.socket.enter(|system| self.0.udp.leave(system, group))?;
        Ok(left.map_err(Error::from)?)
    }

    fn join(&self, group: IpAddress) -> io::Result<()> {
        let joined = self.0.socket.enter(|system| self.0.udp.join(system, group))?;
        Ok(joined.map_err(Error::from)?)
    }

    // --- Settings ---

    /// Returns another handle of the same socket.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(Arc::clone(&self.0)))
    }

    /// Sets the longest time that a receive call waits; `None` for no limit.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.socket.blocking.read().set(timeout)
    }

    /// Returns the longest time that a receive call waits.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.socket.blocking.read().get())
    }

    /// Sets the longest time that a send call waits for a buffer; `None` for no limit.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.socket.blocking.write().set(timeout)
    }

    /// Returns the longest time that a send call waits for a buffer.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.socket.blocking.write().get())
    }

    /// Sets whether calls that would block return [`io::ErrorKind::WouldBlock`] instead.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.socket.blocking.set_nonblocking(nonblocking);
        Ok(())
    }

    /// Sets whether datagrams may be sent to 255.255.255.255.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        self.0.broadcast.store(broadcast, Ordering::Relaxed);
        Ok(())
    }

    /// Returns whether datagrams may be sent to 255.255.255.255.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn broadcast(&self) -> io::Result<bool> {
        Ok(self.0.broadcast.load(Ordering::Relaxed))
    }

    /// Returns the pending error of the socket. There is none: errors of UDP are returned by the calls that
    /// they belong to.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(None)
    }
}

impl Shared {
    /// Checks that datagrams may be sent to broadcast addresses.
    fn may_broadcast(&self) -> Result<(), Error> {
        if self.broadcast.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(io::Error::from(rustix::io::Errno::ACCESS).into())
    }

    fn peer(&self) -> MutexGuard<'_, Option<IpEndpoint>> {
        self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn peeked(&self) -> MutexGuard<'_, Option<Datagram>> {
        self.peeked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receives a datagram, of this peer only if one is given.
fn receive_from(
    udp: system::UdpSocket,
    system: &mut System<'_>,
    peer: Option<IpEndpoint>,
) -> Result<Datagram, Error> {
    /// Datagrams of others that one visit to the host discards at most.
    const OTHERS_MAX: usize = 64;
    for _ in 0..OTHERS_MAX {
        let datagram = udp.receive(system)?;
        if peer.is_none_or(|peer| datagram.source() == peer) {
            return Ok(datagram);
        }
        system.recycle(datagram);
    }
    Err(ReceiveError::WouldBlock.into())
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { socket, local, .. } = &*self.0;
        f.debug_struct("UdpSocket").field("addr", local).field("fd", &socket.fd.0).finish_non_exhaustive()
    }
}
