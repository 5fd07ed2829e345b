//! TCP streams on tokio's runtimes.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use ::tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use ::tokio::net::ToSocketAddrs;
use evenkeel_core::host::System;
use evenkeel_core::socket::Kinds;
use evenkeel_core::system;
use evenkeel_core::tcp::FourTuple;
use evenkeel_core::tcp::connection::{Info, StreamOption};

use super::super::handle::Net;
use super::super::polled::Polled;
use super::super::slot::{ready_for, try_in, wait_in};
use super::super::socket::{Account, Socket};
use super::super::stream::TcpStream as Blocking;
use super::convert::{each_address, interests, readiness};
use super::runtime;
use crate::error::Error;

/// A TCP stream, for tasks.
#[derive(Debug)]
pub struct TcpStream {
    polled: Polled,
    /// Whether the connection is aborted when the stream is dropped.
    aborts: AtomicBool,
}

impl TcpStream {
    /// Opens a connection from `net` to an address and port.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionRefused`], [`io::ErrorKind::TimedOut`],
    /// [`io::ErrorKind::NetworkUnreachable`], or a limit of the host. Also if the caller is outside of a
    /// runtime.
    pub async fn connect(net: &Net, address: impl ToSocketAddrs) -> io::Result<Self> {
        let runtime = runtime::current(net)?;
        each_address(address, async |address| {
            let inner = Blocking::begin_to_connect(net, Account::Runtime(runtime.clone()), address)?;
            let socket = inner.socket();
            wait_in(socket, Kinds::WRITABLE, |system| inner.is_connected_in(system)).await?;
            Ok(Self::of(inner))
        })
        .await
    }

    /// Returns a stream that a listener has accepted.
    pub(super) fn accepted(listener: &Socket, stream: system::TcpStream) -> Self {
        Self::of(Blocking::accepted(listener, stream))
    }

    fn of(inner: Blocking) -> Self {
        Self { polled: Polled::new(inner), aborts: AtomicBool::new(false) }
    }

    fn socket(&self) -> &Socket {
        self.polled.inner.socket()
    }

    // --- Read ---

    pub(super) fn poll_read_shared(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let room = buffer.initialize_unfilled();
        let bytes = ready!(self.polled.read(context, room))?;
        buffer.advance(bytes);
        Poll::Ready(Ok(()))
    }

    /// Reads bytes if there are any.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there are none, and those of the connection.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let read =
            |system: &mut System<'_>| self.polled.inner.read_in(system, buffer, system::TcpStream::read);
        Ok(try_in(self.socket(), read)?)
    }

    /// Waits for bytes, copies them and leaves them in the stream.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let peek =
            |system: &mut System<'_>| self.polled.inner.read_in(system, buffer, system::TcpStream::peek);
        Ok(wait_in(self.socket(), Kinds::READABLE, peek).await?)
    }

    /// Copies bytes as [`peek`](Self::peek) does, or has the task woken when there are some.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn poll_peek(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(0));
        }
        let room = buffer.initialize_unfilled();
        let peek = |system: &mut System<'_>| self.polled.inner.read_in(system, room, system::TcpStream::peek);
        let bytes = ready!(self.polled.read.poll(self.socket(), Kinds::READABLE, context, peek))?;
        buffer.advance(bytes);
        Poll::Ready(Ok(bytes))
    }

    // --- Write ---

    pub(super) fn poll_write_shared(
        &self,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.polled.write(context, data)
    }

    /// Writes as many bytes as there is room for.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none, and those of the connection.
    pub fn try_write(&self, data: &[u8]) -> io::Result<usize> {
        self.try_write_vectored(&[IoSlice::new(data)])
    }

    /// Writes as many bytes of several slices as there is room for.
    ///
    /// # Errors
    /// Those of [`try_write`](Self::try_write).
    pub fn try_write_vectored(&self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(try_in(self.socket(), |system| self.polled.inner.write_in(system, data))?)
    }

    pub(super) fn shut_down_writing(&self) -> io::Result<()> {
        self.polled.shut_down_writing()
    }

    // --- Readiness ---

    /// Waits until the stream is ready for reading, for writing or for either, or has ended.
    ///
    /// # Errors
    /// If the descriptor is closed.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        Ok(readiness(ready_for(self.socket(), interests(interest)).await?))
    }

    /// Waits until a read would not block.
    ///
    /// # Errors
    /// If the descriptor is closed.
    pub async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await.map(drop)
    }

    /// Waits until a write would not block.
    ///
    /// # Errors
    /// If the descriptor is closed.
    pub async fn writable(&self) -> io::Result<()> {
        self.ready(Interest::WRITABLE).await.map(drop)
    }

    /// Has the task woken when a read would not block. Only the last task that polls for reading is woken.
    ///
    /// # Errors
    /// If the descriptor is closed.
    pub fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.polled.read.poll_ready(self.socket(), Kinds::READABLE, context))?;
        Poll::Ready(Ok(()))
    }

    /// Has the task woken when a write would not block. Only the last task that polls for writing is woken.
    ///
    /// # Errors
    /// If the descriptor is closed.
    pub fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.polled.write.poll_ready(self.socket(), Kinds::WRITABLE, context))?;
        Poll::Ready(Ok(()))
    }

    // --- Questions and settings ---

    /// Returns the address of the peer.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] if the connection is over.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.polled.inner.peer_addr()
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] if the connection is over.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.polled.inner.local_addr()
    }

    /// Returns what TCP knows of the connection: its state, round-trip time, window and counters.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] if the connection is over.
    pub fn info(&self) -> io::Result<(FourTuple, Info)> {
        self.polled.inner.info()
    }

    /// Returns the error of the connection, and forgets it.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.polled.inner.take_error()
    }

    /// Sets whether small segments are sent without waiting for the acknowledgment of others.
    ///
    /// # Errors
    /// If the connection is over.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.polled.inner.set_nodelay(nodelay)
    }

    /// Returns the value of [`set_nodelay`](Self::set_nodelay).
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.polled.inner.nodelay()
    }

    /// Sets the TTL, or the hop limit, of the stream's segments.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is zero or above 255. Also if the connection is over.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.polled.inner.set_ttl(ttl)
    }

    /// Returns the value of [`set_ttl`](Self::set_ttl). At first it is that of the listener, or 64 unless the
    /// host is configured otherwise.
    ///
    /// # Errors
    /// If the host is gone.
    pub fn ttl(&self) -> io::Result<u32> {
        self.polled.inner.ttl()
    }

    /// Sets an option of the connection, such as its keep-alive probes or the sizes of its buffers.
    ///
    /// # Errors
    /// If the connection is over.
    pub fn set(&self, option: StreamOption) -> io::Result<()> {
        self.polled.inner.set(option)
    }

    /// Makes the drop of the stream abort the connection: the peer gets a reset, and unsent data are lost.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.aborts.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        if self.aborts.load(Ordering::Relaxed) {
            let _ = try_in(self.socket(), |system| {
                Ok::<_, Error>(system::TcpStream::from(self.socket().fd).abort(system)?)
            });
        }
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_read_shared(context, buffer)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_shared(context, &[IoSlice::new(data)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_shared(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shut_down_writing())
    }
}
