//! TCP sockets for the tasks of an executor.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use evenkeel_core::socket::Kinds;

use super::super::address::socket_addr;
use super::super::handle::Net;
use super::super::listener::TcpListener as Blocking;
use super::super::polled::Polled;
use super::super::slot::wait_in;
use super::super::socket::Account;
use super::super::stream::TcpStream as Stream;

/// A socket that listens for TCP connections, for the tasks of an executor.
#[derive(Debug)]
pub struct TcpListener(Blocking);

/// A TCP stream, for the tasks of an executor.
#[derive(Debug)]
pub struct TcpStream(Polled);

impl TcpListener {
    /// Listens at an address and port of `net`, as [`net::TcpListener::bind`](Blocking::bind) does.
    ///
    /// # Errors
    /// Those of [`net::TcpListener::bind`](Blocking::bind).
    pub fn bind(net: &Net, address: impl std::net::ToSocketAddrs) -> io::Result<Self> {
        Ok(Self(Blocking::bind(net, address)?))
    }

    /// Accepts a connection, and returns the address of the peer. No connection is lost if the call is
    /// cancelled.
    ///
    /// # Errors
    /// A limit of the process.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let socket = self.0.socket();
        let (stream, peer) = wait_in(socket, Kinds::READABLE, |system| self.0.accept_in(system)).await?;
        Ok((TcpStream(Polled::new(Stream::accepted(socket, stream))), socket_addr(peer)))
    }

    /// Returns the address and port that the socket is bound to.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl TcpStream {
    /// Opens a connection from `net` to an address and port.
    ///
    /// # Errors
    /// Those of [`net::TcpStream::connect`](Stream::connect).
    pub async fn connect(net: &Net, address: SocketAddr) -> io::Result<Self> {
        let stream = Stream::begin_to_connect(net, Account::common(net), address)?;
        wait_in(stream.socket(), Kinds::WRITABLE, |system| stream.is_connected_in(system)).await?;
        Ok(Self(Polled::new(stream)))
    }

    /// Reads bytes, or waits for some. Returns 0 at the end of the stream.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|context| self.poll_read(context, buffer)).await
    }

    /// Reads bytes, or has the task woken when there are some. Only the last task that polls is woken.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if buffer.is_empty() { Poll::Ready(Ok(0)) } else { self.0.read(context, buffer) }
    }

    /// Writes as many bytes as there is room for, or waits for some.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn write(&self, data: &[u8]) -> io::Result<usize> {
        poll_fn(|context| self.poll_write(context, &[IoSlice::new(data)])).await
    }

    /// Writes as many bytes as there is room for, or has the task woken when there is some. Only the last
    /// task that polls is woken.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn poll_write(&self, context: &mut Context<'_>, data: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.0.write(context, data)
    }

    /// Ends writing. The peer reads to the end of the stream.
    ///
    /// # Errors
    /// If the descriptor is closed.
    pub fn shut_down_writing(&self) -> io::Result<()> {
        self.0.shut_down_writing()
    }

    /// Returns the stream itself, for its settings and addresses.
    #[must_use]
    pub const fn get_ref(&self) -> &Stream {
        &self.0.inner
    }
}
