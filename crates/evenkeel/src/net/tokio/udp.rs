//! UDP sockets on tokio's runtimes.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll, ready};

use ::tokio::io::{Interest, ReadBuf, Ready};
use ::tokio::net::{ToSocketAddrs, lookup_host};
use bytes::BufMut;
use evenkeel_core::host::System;
use evenkeel_core::socket::{Datagrams, Kinds};
use evenkeel_core::stack::{Datagram, IpEndpoint};

use super::super::address::{endpoint, socket_addr};
use super::super::handle::Net;
use super::super::slot::{Slot, ready_for, try_in, wait_in};
use super::super::socket::{Account, Socket};
use super::super::udp::UdpSocket as Blocking;
use super::convert::{each_address, interests, readiness};
use super::runtime;
use crate::error::Error;

/// A UDP socket, for tasks.
///
/// A task that receives does the protocol work for what it receives. A datagram that finds the queue of its
/// socket full is dropped before any protocol work.
#[derive(Debug)]
pub struct UdpSocket {
    inner: Blocking,
    receive: Slot,
    send: Slot,
}

impl UdpSocket {
    /// Binds a socket to an address and port of `net`. `0.0.0.0` stands for all addresses of IPv4 that the
    /// host has, `[::]` for those of both families, and port 0 for a free port.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`], or a limit of the host. Also if the
    /// caller is outside of a runtime.
    pub async fn bind(net: &Net, address: impl ToSocketAddrs) -> io::Result<Self> {
        let runtime = runtime::current(net)?;
        each_address(address, async |address| {
            let inner = Blocking::bind_to(net, Account::Runtime(runtime.clone()), address)?;
            Ok(Self { inner, receive: Slot::new(net), send: Slot::new(net) })
        })
        .await
    }

    pub(in super::super) fn socket(&self) -> &Socket {
        self.inner.socket()
    }

    #[cfg(feature = "quinn")]
    pub(super) const fn blocking(&self) -> &Blocking {
        &self.inner
    }

    #[cfg(feature = "quinn")]
    pub(super) const fn receive_slot(&self) -> &Slot {
        &self.receive
    }

    // --- Receive ---

    /// Receives a datagram, and returns its length and the address that it came from. Bytes beyond the length
    /// of `buffer` are lost. No datagram is lost if the call is cancelled.
    ///
    /// # Errors
    /// If the device is gone.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        Ok(wait_in(self.socket(), Kinds::READABLE, |system| self.copy_in(system, buffer)).await?)
    }

    /// Receives a datagram as [`recv_from`](Self::recv_from) does, or has the task woken when there is one.
    /// Only the last task that polls for receiving is woken.
    ///
    /// # Errors
    /// Those of [`recv_from`](Self::recv_from).
    pub fn poll_recv_from(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        self.poll_copy(context, buffer, |system, room| self.copy_in(system, room))
    }

    /// Receives a datagram if there is one.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none.
    pub fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        Ok(try_in(self.socket(), |system| self.copy_in(system, buffer))?)
    }

    /// Receives a datagram of the peer that the socket is connected to. Returns its length.
    ///
    /// # Errors
    /// Those of [`recv_from`](Self::recv_from).
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv_from(buffer).await.map(|(len, _)| len)
    }

    /// Receives a datagram as [`recv`](Self::recv) does, or has the task woken when there is one.
    ///
    /// # Errors
    /// Those of [`recv_from`](Self::recv_from).
    pub fn poll_recv(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_recv_from(context, buffer).map_ok(drop)
    }

    /// Receives a datagram of the peer if there is one.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none.
    pub fn try_recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.try_recv_from(buffer).map(|(len, _)| len)
    }

    /// Receives a datagram as [`recv_from`](Self::recv_from) does, and leaves it there.
    ///
    /// # Errors
    /// Those of [`recv_from`](Self::recv_from).
    pub async fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        Ok(wait_in(self.socket(), Kinds::READABLE, |system| self.peek_in(system, buffer)).await?)
    }

    /// Receives a datagram as [`peek_from`](Self::peek_from) does, or has the task woken when there is one.
    ///
    /// # Errors
    /// Those of [`recv_from`](Self::recv_from).
    pub fn poll_peek_from(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        self.poll_copy(context, buffer, |system, room| self.peek_in(system, room))
    }

    /// Receives a datagram as [`recv`](Self::recv) does, and leaves it there.
    ///
    /// # Errors
    /// Those of [`recv_from`](Self::recv_from).
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.peek_from(buffer).await.map(|(len, _)| len)
    }

    /// Receives a datagram without a copy, as [`recv_loan`](Blocking::recv_loan) of the blocking socket does.
    ///
    /// # Errors
    /// Those of [`recv_from`](Self::recv_from).
    pub async fn recv_loan(&self) -> io::Result<Datagram> {
        let receive = |system: &mut System<'_>| self.inner.receive_in(system, |_, datagram| datagram);
        Ok(wait_in(self.socket(), Kinds::READABLE, receive).await?)
    }

    /// Receives at least one datagram, and as many more as have come and `datagrams` has room for, as
    /// [`recv_many`](Blocking::recv_many) of the blocking socket does.
    ///
    /// # Errors
    /// Those of [`recv_from`](Self::recv_from).
    pub async fn recv_many(&self, datagrams: &mut Datagrams) -> io::Result<()> {
        let receive = |system: &mut System<'_>| self.inner.receive_many_in(system, datagrams);
        Ok(wait_in(self.socket(), Kinds::READABLE, receive).await?)
    }

    /// Receives a datagram into the spare capacity of `buffer`, and returns its length and the address that
    /// it came from. Bytes beyond that capacity are lost.
    ///
    /// # Errors
    /// Those of [`recv_from`](Self::recv_from).
    pub async fn recv_buf_from<B: BufMut>(&self, buffer: &mut B) -> io::Result<(usize, SocketAddr)> {
        Ok(wait_in(self.socket(), Kinds::READABLE, |system| self.put_in(system, buffer)).await?)
    }

    /// Receives a datagram as [`recv_buf_from`](Self::recv_buf_from) does, if there is one.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none.
    pub fn try_recv_buf_from<B: BufMut>(&self, buffer: &mut B) -> io::Result<(usize, SocketAddr)> {
        Ok(try_in(self.socket(), |system| self.put_in(system, buffer))?)
    }

    /// Receives a datagram of the peer into the spare capacity of `buffer`. Returns its length.
    ///
    /// # Errors
    /// Those of [`recv_from`](Self::recv_from).
    pub async fn recv_buf<B: BufMut>(&self, buffer: &mut B) -> io::Result<usize> {
        self.recv_buf_from(buffer).await.map(|(len, _)| len)
    }

    /// Receives a datagram as [`recv_buf`](Self::recv_buf) does, if there is one.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none.
    pub fn try_recv_buf<B: BufMut>(&self, buffer: &mut B) -> io::Result<usize> {
        self.try_recv_buf_from(buffer).map(|(len, _)| len)
    }

    /// Appends a datagram to a buffer, as far as the buffer has spare capacity.
    fn put_in(
        &self,
        system: &mut System<'_>,
        buffer: &mut impl BufMut,
    ) -> Result<(usize, SocketAddr), Error> {
        self.inner.receive_in(system, |system, datagram| {
            let room = buffer.chunk_mut().len();
            let len = datagram.chunks().fold(0, |len, chunk| {
                let part = chunk.get(..room - len).unwrap_or(chunk);
                buffer.put_slice(part);
                len + part.len()
            });
            let received = (len, socket_addr(datagram.source()));
            system.recycle(datagram);
            received
        })
    }

    fn poll_copy(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
        copy: impl Fn(&mut System<'_>, &mut [u8]) -> Result<(usize, SocketAddr), Error>,
    ) -> Poll<io::Result<SocketAddr>> {
        let room = buffer.initialize_unfilled();
        let receive = |system: &mut System<'_>| copy(system, room);
        let (len, from) = ready!(self.receive.poll(self.socket(), Kinds::READABLE, context, receive))?;
        buffer.advance(len);
        Poll::Ready(Ok(from))
    }

    fn copy_in(&self, system: &mut System<'_>, buffer: &mut [u8]) -> Result<(usize, SocketAddr), Error> {
        self.inner.receive_in(system, |system, datagram| {
            let received = (datagram.copy_to(buffer), socket_addr(datagram.source()));
            system.recycle(datagram);
            received
        })
    }

    fn peek_in(&self, system: &mut System<'_>, buffer: &mut [u8]) -> Result<(usize, SocketAddr), Error> {
        self.inner.receive_in(system, |_, datagram| {
            let received = (datagram.copy_to(buffer), socket_addr(datagram.source()));
            self.inner.put_back(datagram);
            received
        })
    }

    // --- Send ---

    /// Sends a datagram. Returns its length.
    ///
    /// # Errors
    /// [`io::ErrorKind::NetworkUnreachable`] without a route, [`io::ErrorKind::PermissionDenied`] to a
    /// broadcast address without [permission](Self::set_broadcast), and EMSGSIZE if it is too long.
    pub async fn send_to(&self, payload: &[u8], address: impl ToSocketAddrs) -> io::Result<usize> {
        let Some(address) = lookup_host(address).await?.next() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no addresses to send data to"));
        };
        self.send_when_possible(payload, Some(endpoint(address))).await
    }

    /// Sends a datagram as [`send_to`](Self::send_to) does, or has the task woken when there is a buffer.
    /// Only the last task that polls for sending is woken.
    ///
    /// # Errors
    /// Those of [`send_to`](Self::send_to).
    pub fn poll_send_to(
        &self,
        context: &mut Context<'_>,
        payload: &[u8],
        address: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.poll_send_from_slot(context, payload, Some(endpoint(address)))
    }

    /// Sends a datagram if there is a buffer for it. Returns its length.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none, and those of [`send_to`](Self::send_to).
    pub fn try_send_to(&self, payload: &[u8], address: SocketAddr) -> io::Result<usize> {
        let to = Some(endpoint(address));
        Ok(try_in(self.socket(), |system| self.inner.send_in(system, payload, to))?)
    }

    /// Sends a datagram to the peer that the socket is connected to. Returns its length.
    ///
    /// # Errors
    /// EDESTADDRREQ if the socket is not connected, and those of [`send_to`](Self::send_to).
    pub async fn send(&self, payload: &[u8]) -> io::Result<usize> {
        self.send_when_possible(payload, None).await
    }

    /// Sends a datagram as [`send`](Self::send) does, or has the task woken when there is a buffer.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    pub fn poll_send(&self, context: &mut Context<'_>, payload: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send_from_slot(context, payload, None)
    }

    /// Sends a datagram to the peer if there is a buffer for it. Returns its length.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none, and those of [`send`](Self::send).
    pub fn try_send(&self, payload: &[u8]) -> io::Result<usize> {
        Ok(try_in(self.socket(), |system| self.inner.send_in(system, payload, None))?)
    }

    /// Answers a datagram, from the address that it came to. Returns the length of the answer.
    ///
    /// # Errors
    /// Those of [`send_to`](Self::send_to).
    pub async fn reply(&self, request: &Datagram, payload: &[u8]) -> io::Result<usize> {
        let reply = |system: &mut System<'_>| self.inner.reply_in(system, request, payload);
        Ok(wait_in(self.socket(), Kinds::WRITABLE, reply).await?)
    }

    /// Sends datagrams in one visit to the host, each to its address. Returns the number of those that were
    /// sent: fewer than all if the next would have to wait.
    ///
    /// # Errors
    /// Those of [`send_to`](Self::send_to), if the first datagram was not sent.
    pub async fn send_many(&self, datagrams: &[(SocketAddr, &[u8])]) -> io::Result<usize> {
        let send = |system: &mut System<'_>| self.inner.send_many_in(system, datagrams);
        Ok(wait_in(self.socket(), Kinds::WRITABLE, send).await?)
    }

    async fn send_when_possible(&self, payload: &[u8], to: Option<IpEndpoint>) -> io::Result<usize> {
        let send = |system: &mut System<'_>| self.inner.send_in(system, payload, to);
        Ok(wait_in(self.socket(), Kinds::WRITABLE, send).await?)
    }

    fn poll_send_from_slot(
        &self,
        context: &mut Context<'_>,
        payload: &[u8],
        to: Option<IpEndpoint>,
    ) -> Poll<io::Result<usize>> {
        let send = |system: &mut System<'_>| self.inner.send_in(system, payload, to);
        Poll::Ready(Ok(ready!(self.send.poll(self.socket(), Kinds::WRITABLE, context, send))?))
    }

    // --- Readiness ---

    /// Waits until the socket is ready for receiving, for sending or for either.
    ///
    /// # Errors
    /// If the descriptor is closed.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        if interest.is_readable() && self.inner.has_peeked() {
            return Ok(Ready::READABLE);
        }
        Ok(readiness(ready_for(self.socket(), interests(interest)).await?))
    }

    /// Waits until there is a datagram.
    ///
    /// # Errors
    /// If the descriptor is closed.
    pub async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await.map(drop)
    }

    /// Waits until there is a buffer for a datagram.
    ///
    /// # Errors
    /// If the descriptor is closed.
    pub async fn writable(&self) -> io::Result<()> {
        self.ready(Interest::WRITABLE).await.map(drop)
    }

    /// Has the task woken when there is a datagram. Only the last task that polls for receiving is woken.
    ///
    /// # Errors
    /// If the descriptor is closed.
    pub fn poll_recv_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.inner.has_peeked() {
            ready!(self.receive.poll_ready(self.socket(), Kinds::READABLE, context))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Has the task woken when there is a buffer for a datagram. Only the last task that polls for sending is
    /// woken.
    ///
    /// # Errors
    /// If the descriptor is closed.
    pub fn poll_send_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.send.poll_ready(self.socket(), Kinds::WRITABLE, context))?;
        Poll::Ready(Ok(()))
    }

    // --- Peer, groups and settings ---

    /// Connects the socket: from now on [`send`](Self::send) sends there, and only datagrams from there are
    /// received. If the port is closed, the next call that receives or sends says so, once.
    ///
    /// # Errors
    /// If the address cannot be resolved, or the socket cannot send there.
    pub async fn connect(&self, address: impl ToSocketAddrs) -> io::Result<()> {
        let addresses: Vec<_> = lookup_host(address).await?.collect();
        self.inner.connect(&*addresses)
    }

    /// Returns the address that the socket is connected to.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] if it is not.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.inner.peer_addr()
    }

    /// Returns the address and port that the socket is bound to. Once the socket is connected, the address is
    /// the one that its datagrams leave from.
    ///
    /// # Errors
    /// If the host is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Joins a multicast group, on every interface of the host.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the address is not that of a group, or a limit of the host.
    pub fn join_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.inner.join_multicast_v4(&group, &interface)
    }

    /// Joins a multicast group, on every interface of the host.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the address is not that of a group, or a limit of the host.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.inner.join_multicast_v6(group, interface)
    }

    /// Leaves a multicast group, on every interface of the host.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] if the socket has not joined it.
    pub fn leave_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.inner.leave_multicast_v4(&group, &interface)
    }

    /// Leaves a multicast group, on every interface of the host.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] if the socket has not joined it.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.inner.leave_multicast_v6(group, interface)
    }

    /// Sets the TTL, or the hop limit, of datagrams to single hosts and broadcasts.
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

    /// Sets whether datagrams may be sent to broadcast addresses: 255.255.255.255, and those of the host's
    /// networks.
    ///
    /// # Errors
    /// If the host is gone.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        self.inner.set_broadcast(broadcast)
    }

    /// Returns whether datagrams may be sent to broadcast addresses.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn broadcast(&self) -> io::Result<bool> {
        self.inner.broadcast()
    }

    /// Returns the pending error of the socket, and forgets it: its [peer](Self::connect) takes no datagrams.
    ///
    /// # Errors
    /// If the host is gone.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.inner.take_error()
    }
}
