//! UDP sockets: binding, receiving and sending.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::host::System;
use evenkeel_core::socket::{Datagrams, Kinds, ReceiveError, UdpOption};
use evenkeel_core::stack::{Datagram, IpEndpoint};
use evenkeel_core::system;
use evenkeel_core::time::Duration;
use evenkeel_core::wire::IpAddress;

use super::address::{bound_address, each_address, endpoint, hop_limit, socket_addr};
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
    /// The address and port that the socket was bound to.
    local: SocketAddr,
    /// A datagram that was peeked at.
    peeked: Mutex<Option<Datagram>>,
    broadcast: AtomicBool,
}

impl UdpSocket {
    /// Binds a socket to an address and port of `net`. `0.0.0.0` stands for all addresses of IPv4 that the
    /// host has, `[::]` for those of both families, and port 0 for a free port.
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
            udp.set(system, UdpOption::Broadcast(false))?;
            Ok(udp.fd())
        })?;
        let udp = system::UdpSocket::from(socket.fd);
        let (peeked, broadcast) = (Mutex::default(), AtomicBool::new(false));
        Ok(Self(Arc::new(Shared { socket, udp, local, peeked, broadcast })))
    }

    // --- Receive ---

    /// Receives a datagram, and returns its length and the address that it came from. Bytes beyond the length
    /// of `buffer` are lost.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the [time-out](Self::set_read_timeout) has passed, or the socket does
    /// not block. [`io::ErrorKind::ConnectionRefused`] if the port of the socket's [peer](Self::connect) is
    /// closed.
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
    pub fn recv_many(&self, datagrams: &mut Datagrams) -> io::Result<()> {
        let socket = self.socket();
        Ok(socket.wait_in(Kinds::READABLE, socket.blocking.read(), |system| {
            self.receive_many_in(system, datagrams)
        })?)
    }

    /// Receives datagrams in a visit to the host.
    pub(super) fn receive_many_in(
        &self,
        system: &mut System<'_>,
        datagrams: &mut Datagrams,
    ) -> Result<(), Error> {
        Ok(self.0.udp.receive_burst(system, datagrams)?)
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
        let datagram = match self.take_peeked(system)? {
            Some(peeked) => peeked,
            None => self.0.udp.receive(system)?,
        };
        Ok(take(system, datagram))
    }

    /// Takes the datagram that was peeked at, if there is one and no error waits to be reported first.
    fn take_peeked(&self, system: &mut System<'_>) -> Result<Option<Datagram>, Error> {
        let mut peeked = self.0.peeked();
        if peeked.is_some()
            && let Some(error) = self.0.udp.take_error(system)?
        {
            return Err(ReceiveError::Failed(error).into());
        }
        Ok(peeked.take())
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
    /// [`io::ErrorKind::ConnectionRefused`] if the port of the socket's [peer](Self::connect) is closed.
    pub fn send_to(&self, payload: &[u8], address: impl ToSocketAddrs) -> io::Result<usize> {
        let Some(address) = address.to_socket_addrs()?.next() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no addresses to send data to"));
        };
        Ok(self.send_datagram(payload, Some(endpoint(address)))?)
    }

    /// Sends a datagram to the peer that the socket is connected to. Returns its length.
    ///
    /// # Errors
    /// EDESTADDRREQ if the socket is not connected, and those of [`send_to`](Self::send_to).
    pub fn send(&self, payload: &[u8]) -> io::Result<usize> {
        Ok(self.send_datagram(payload, None)?)
    }

    /// Answers a datagram. The answer leaves from the address that the datagram came to. Returns its length.
    ///
    /// # Errors
    /// Those of [`send_to`](Self::send_to).
    pub fn reply(&self, request: &Datagram, payload: &[u8]) -> io::Result<usize> {
        let socket = self.socket();
        Ok(socket.wait_in(Kinds::WRITABLE, socket.blocking.write(), |system| {
            self.reply_in(system, request, payload)
        })?)
    }

    /// Answers a datagram in a visit to the host. Returns the length of the answer.
    pub(super) fn reply_in(
        &self,
        system: &mut System<'_>,
        request: &Datagram,
        payload: &[u8],
    ) -> Result<usize, Error> {
        self.0.udp.reply(system, request, payload)?;
        Ok(payload.len())
    }

    /// Sends datagrams in one visit to the host, each to its address. Returns the number of those that were
    /// sent: fewer than all if the next would have to wait.
    ///
    /// # Errors
    /// Those of [`send_to`](Self::send_to), if the first datagram was not sent.
    pub fn send_many(&self, datagrams: &[(SocketAddr, &[u8])]) -> io::Result<usize> {
        let socket = self.socket();
        Ok(socket.wait_in(Kinds::WRITABLE, socket.blocking.write(), |system| {
            self.send_many_in(system, datagrams)
        })?)
    }

    /// Sends datagrams in a visit to the host. Returns the number of those that were sent.
    pub(super) fn send_many_in(
        &self,
        system: &mut System<'_>,
        datagrams: &[(SocketAddr, &[u8])],
    ) -> Result<usize, Error> {
        for (sent, (to, payload)) in datagrams.iter().enumerate() {
            match self.send_in(system, payload, Some(endpoint(*to))) {
                Ok(_) => {}
                Err(error) if sent == 0 => return Err(error),
                Err(_) => return Ok(sent),
            }
        }
        Ok(datagrams.len())
    }

    fn send_datagram(&self, payload: &[u8], to: Option<IpEndpoint>) -> Result<usize, Error> {
        let socket = self.socket();
        socket.wait_in(Kinds::WRITABLE, socket.blocking.write(), |system| self.send_in(system, payload, to))
    }

    /// Sends a datagram in a visit to the host, to the socket's peer if no destination is given. Returns its
    /// length.
    pub(super) fn send_in(
        &self,
        system: &mut System<'_>,
        payload: &[u8],
        to: Option<IpEndpoint>,
    ) -> Result<usize, Error> {
        let udp = self.0.udp;
        let to = to.map_or_else(|| udp.peer(system), |to| Ok(Some(to)))?.ok_or(Error::NotConnected)?;
        if to.port == 0 {
            return Err(io::Error::from(rustix::io::Errno::INVAL).into());
        }
        udp.send(system, to, payload)?;
        Ok(payload.len())
    }

    // --- Peer ---

    /// Connects the socket: from now on [`send`](Self::send) sends there, and only datagrams from there are
    /// received. If the peer or a router reports that the port is closed, the next call that receives or
    /// sends returns [`io::ErrorKind::ConnectionRefused`], once.
    ///
    /// # Errors
    /// If the address cannot be resolved, or the socket cannot send there:
    /// [`io::ErrorKind::NetworkUnreachable`] without a route, [`io::ErrorKind::PermissionDenied`] to a
    /// broadcast address. The socket then keeps the peer that it had.
    pub fn connect(&self, address: impl ToSocketAddrs) -> io::Result<()> {
        each_address(address, |address| Ok(self.connect_to(endpoint(address))?))
    }

    fn connect_to(&self, peer: IpEndpoint) -> Result<(), Error> {
        Ok(self.0.socket.enter(|system| self.0.udp.connect(system, peer))??)
    }

    /// Returns the address that the socket is connected to.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] if it is not.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let peer = self.0.socket.enter(|system| self.0.udp.peer(system))?.map_err(Error::from)?;
        peer.map(socket_addr).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Returns the address and port that the socket is bound to. Once the socket is connected, the address is
    /// the one that its datagrams leave from.
    ///
    /// # Errors
    /// If the host is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let local = self.0.local;
        if !local.ip().is_unspecified() {
            return Ok(local);
        }
        let chosen = self.0.socket.enter(|system| self.0.udp.source(system))?.map_err(Error::from)?;
        Ok(chosen.map_or(local, |address| socket_addr(IpEndpoint::new(address, local.port()))))
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

    /// Sets whether datagrams may be sent to broadcast addresses: 255.255.255.255, and those of the host's
    /// networks.
    ///
    /// # Errors
    /// If the host is gone.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        self.set(UdpOption::Broadcast(broadcast))?;
        self.0.broadcast.store(broadcast, Ordering::Relaxed);
        Ok(())
    }

    /// Returns whether datagrams may be sent to broadcast addresses.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn broadcast(&self) -> io::Result<bool> {
        Ok(self.0.broadcast.load(Ordering::Relaxed))
    }

    /// Sets the TTL, or the hop limit, of datagrams to single hosts and broadcasts. At first it is 64, unless
    /// the host is configured otherwise. Datagrams to groups have 1.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is zero or above 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.set(UdpOption::HopLimit(hop_limit(ttl)?))
    }

    /// Returns the value of [`set_ttl`](Self::set_ttl).
    ///
    /// # Errors
    /// If the host is gone.
    pub fn ttl(&self) -> io::Result<u32> {
        let limit = self.0.socket.enter(|system| self.0.udp.hop_limit(system))?;
        Ok(limit.map_err(Error::from)?.into())
    }

    fn set(&self, option: UdpOption) -> io::Result<()> {
        let set = self.0.socket.enter(|system| self.0.udp.set(system, option))?;
        Ok(set.map_err(Error::from)?)
    }

    /// Returns the pending error of the socket, and forgets it: its [peer](Self::connect) takes no datagrams.
    /// All other errors are returned by the calls that they belong to.
    ///
    /// # Errors
    /// If the host is gone.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let taken = self.0.socket.enter(|system| self.0.udp.take_error(system))?.map_err(Error::from)?;
        Ok(taken.map(|error| Error::from(ReceiveError::Failed(error)).into()))
    }
}

impl Shared {
    fn peeked(&self) -> MutexGuard<'_, Option<Datagram>> {
        self.peeked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { socket, local, .. } = &*self.0;
        f.debug_struct("UdpSocket").field("addr", local).field("fd", &socket.fd.0).finish_non_exhaustive()
    }
}
