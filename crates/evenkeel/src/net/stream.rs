//! TCP streams: connecting, reading and writing.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_core::host::System;
use evenkeel_core::socket::{Kinds, StreamError};
use evenkeel_core::system;
use evenkeel_core::tcp::connection::{Info, StreamOption};
use evenkeel_core::tcp::state::State;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::IpEndpoint;

use super::address::{each_address, endpoint, hop_limit, socket_addr};
use super::handle::Net;
use super::socket::{Account, Socket};
use super::waiting::Awaited;
use crate::error::Error;

/// A TCP stream.
///
/// The calls are those of [`std::net::TcpStream`], by any number of threads. A thread that reads or writes
/// does the protocol work for the segments of its stream.
#[derive(Clone)]
pub struct TcpStream(Arc<Shared>);

struct Shared {
    socket: Socket,
    stream: system::TcpStream,
    nodelay: AtomicBool,
}

impl TcpStream {
    /// Opens a connection from `net` to an address and port.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionRefused`], [`io::ErrorKind::TimedOut`],
    /// [`io::ErrorKind::NetworkUnreachable`], or a limit of the host.
    pub fn connect(net: &Net, address: impl ToSocketAddrs) -> io::Result<Self> {
        each_address(address, |address| Ok(Self::connect_until(net, address, Instant::NEVER)?))
    }

    /// Opens a connection within a time.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if the peer has not answered by then, [`io::ErrorKind::InvalidInput`] if
    /// the time is zero, and those of [`connect`](Self::connect).
    pub fn connect_timeout(net: &Net, address: &SocketAddr, timeout: Duration) -> io::Result<Self> {
        if timeout.is_zero() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "cannot set a 0 duration timeout"));
        }
        match Self::connect_until(net, *address, net.shared().now() + timeout) {
            Err(error) if error.would_block() => Err(io::ErrorKind::TimedOut.into()),
            connected => Ok(connected?),
        }
    }

    fn connect_until(net: &Net, address: SocketAddr, until: Instant) -> Result<Self, Error> {
        let connected = Self::begin_to_connect(net, Account::common(net), address)?;
        let socket = connected.socket();
        let awaited = Awaited { process: socket.account.process(), fd: socket.fd, kinds: Kinds::WRITABLE };
        net.shared().wait_in(awaited, until, |system| connected.is_connected_in(system))?;
        Ok(connected)
    }

    /// Sends the request for a connection, and does not wait for the answer.
    pub(super) fn begin_to_connect(net: &Net, account: Account, address: SocketAddr) -> Result<Self, Error> {
        let open = |system: &mut System<'_>| Ok(system::TcpStream::connect(system, endpoint(address))?.fd());
        let socket = Socket::open(net, account, open)?;
        let stream = system::TcpStream::from(socket.fd);
        Ok(Self::of(socket, stream))
    }

    /// Returns a stream that a listener has accepted.
    pub(super) fn accepted(listener: &Socket, stream: system::TcpStream) -> Self {
        let socket = Socket::new(&listener.net, listener.account.clone(), stream.fd());
        Self::of(socket, stream)
    }

    fn of(socket: Socket, stream: system::TcpStream) -> Self {
        Self(Arc::new(Shared { socket, stream, nodelay: AtomicBool::new(false) }))
    }

    // --- Read and write ---

    /// Reads bytes as [`Read::read`] does, and leaves them there.
    ///
    /// # Errors
    /// Those of reading.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_with(buffer, system::TcpStream::peek)
    }

    fn read_with(
        &self,
        buffer: &mut [u8],
        mut read: impl FnMut(system::TcpStream, &mut System<'_>, &mut [u8]) -> Result<usize, StreamError>,
    ) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let socket = self.socket();
        let result = socket.wait_in(Kinds::READABLE, socket.blocking.read(), |system| {
            self.read_in(system, buffer, &mut read)
        });
        Ok(result?)
    }

    /// Reads bytes in a visit to the host.
    pub(super) fn read_in(
        &self,
        system: &mut System<'_>,
        buffer: &mut [u8],
        mut read: impl FnMut(system::TcpStream, &mut System<'_>, &mut [u8]) -> Result<usize, StreamError>,
    ) -> Result<usize, Error> {
        match read(self.0.stream, system, buffer) {
            // It has read to the end before, or has shut down its side.
            Err(StreamError::Closed) => Ok(0),
            Err(error) => Err(reported(self.0.stream, system, error)),
            Ok(read) => Ok(read),
        }
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.0.socket
    }

    /// Returns whether the connection is open.
    pub(super) fn is_connected_in(&self, system: &mut System<'_>) -> Result<(), Error> {
        is_connected(self.0.stream, system)
    }

    fn write_from(&self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        let socket = self.socket();
        let result =
            socket.wait_in(Kinds::WRITABLE, socket.blocking.write(), |system| self.write_in(system, data));
        Ok(result?)
    }

    /// Writes bytes in a visit to the host. Returns the number of those that there was room for.
    pub(super) fn write_in(&self, system: &mut System<'_>, data: &[IoSlice<'_>]) -> Result<usize, Error> {
        let stream = self.0.stream;
        let data: &[IoSlice<'_>] = match data.iter().position(|slice| !slice.is_empty()) {
            Some(first) => &data[first..],
            // An empty write tells whether the stream is open.
            None => &data[..data.len().min(1)],
        };
        let mut written = 0;
        for (left, slice) in data.iter().enumerate().map(|(nth, slice)| (data.len() - nth - 1, slice)) {
            let more = if left > 0 { stream.write_more(system, slice) } else { stream.write(system, slice) };
            match more {
                Ok(bytes) => written += bytes,
                Err(error) if written == 0 => return Err(reported(stream, system, error)),
                Err(_) => break,
            }
        }
        Ok(written)
    }

    /// Ends reading, writing or both. Threads that wait in a call return.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] if the connection is over.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let Shared { socket, stream, .. } = &*self.0;
        let done = socket.enter(|system| {
            if how != Shutdown::Read {
                stream.shutdown(system)?;
            }
            if how != Shutdown::Write {
                stream.shutdown_read(system)?;
            }
            Ok(())
        })?;
        done.map_err(|_: StreamError| io::ErrorKind::NotConnected.into())
    }

    // --- Questions ---

    /// Returns the address of the peer.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] if the connection is over.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let (tuple, _) = self.info()?;
        Ok(socket_addr(IpEndpoint::new(tuple.remote.addr.into(), tuple.remote.port)))
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] if the connection is over.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let (tuple, _) = self.info()?;
        Ok(socket_addr(IpEndpoint::new(tuple.local.addr.into(), tuple.local.port)))
    }

    /// Returns what TCP knows of the connection: its state, round-trip time, window and counters.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] if the connection is over.
    pub fn info(&self) -> io::Result<(evenkeel_core::tcp::FourTuple, Info)> {
        let info = self.0.socket.enter(|system| self.0.stream.info(system))?;
        info.map_err(|_| io::ErrorKind::NotConnected.into())
    }

    /// Returns the error of the connection, and forgets it.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let taken = self.0.socket.enter(|system| self.0.stream.take_error(system))?.ok().flatten();
        Ok(taken.map(|error| Error::from(StreamError::Failed(error)).into()))
    }

    // --- Settings ---

    /// Returns another handle of the same stream.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(self.clone())
    }

    /// Sets whether small segments are sent without waiting for the acknowledgment of others.
    ///
    /// # Errors
    /// If the connection is over.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.set(StreamOption::Nagle(!nodelay))?;
        self.0.nodelay.store(nodelay, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the value of [`set_nodelay`](Self::set_nodelay).
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.0.nodelay.load(Ordering::Relaxed))
    }

    /// Sets the TTL, or the hop limit, of the stream's segments.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is zero or above 255. Also if the connection is over.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.set(StreamOption::HopLimit(hop_limit(ttl)?))
    }

    /// Returns the value of [`set_ttl`](Self::set_ttl). At first it is that of the listener, or 64 unless the
    /// host is configured otherwise.
    ///
    /// # Errors
    /// If the host is gone.
    pub fn ttl(&self) -> io::Result<u32> {
        let limit = self.0.socket.enter(|system| self.0.stream.hop_limit(system))?;
        Ok(limit.map_err(Error::from)?.into())
    }

    /// Sets an option of the connection, such as its keep-alive probes or the sizes of its buffers.
    ///
    /// # Errors
    /// If the connection is over.
    pub fn set(&self, option: StreamOption) -> io::Result<()> {
        let set = self.0.socket.enter(|system| self.0.stream.set(system, option))?;
        Ok(set.map_err(Error::from)?)
    }

    /// Sets the longest time that a read waits; `None` for no limit.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.socket.blocking.read().set(timeout)
    }

    /// Returns the longest time that a read waits.
    ///
    /// # Errors
    /// None: it is there for the likeness.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.socket.blocking.read().get())
    }

    /// Sets the longest time that a write waits; `None` for no limit.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.socket.blocking.write().set(timeout)
    }

    /// Returns the longest time that a write waits.
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
}

/// Returns whether a connection is open.
fn is_connected(stream: system::TcpStream, system: &mut System<'_>) -> Result<(), Error> {
    if let Some(error) = stream.take_error(system)? {
        return Err(StreamError::Failed(error).into());
    }
    match stream.info(system)?.1.state {
        State::SynSent | State::SynReceived => Err(StreamError::WouldBlock.into()),
        _ => Ok(()),
    }
}

/// Returns the error of a call. The failure of a connection is reported once: later calls find it closed.
fn reported(stream: system::TcpStream, system: &mut System<'_>, error: StreamError) -> Error {
    if matches!(error, StreamError::Failed(_)) {
        // Whoever has a clone of the stream may have taken it meanwhile.
        let _ = stream.take_error(system);
    }
    error.into()
}

impl Read for &TcpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_with(buffer, system::TcpStream::read)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Some(first) = buffers.iter().position(|buffer| !buffer.is_empty()) else { return Ok(0) };
        let (first, others) = buffers[first..].split_at_mut(1);
        let mut others = others.iter_mut();
        self.read_with(&mut first[0], |stream, system, buffer| {
            let mut read = stream.read(system, buffer)?;
            if read == buffer.len() {
                for other in others.by_ref().filter(|other| !other.is_empty()) {
                    // What has come so far is enough.
                    let Ok(more) = stream.read(system, other) else { break };
                    read += more;
                    if more < other.len() {
                        break;
                    }
                }
            }
            Ok(read)
        })
    }
}

impl Write for &TcpStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.write_from(&[IoSlice::new(data)])
    }

    fn write_vectored(&mut self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_from(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(buffers)
    }
}

impl Write for TcpStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn write_vectored(&mut self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("TcpStream");
        if let Ok(address) = self.local_addr() {
            debug.field("addr", &address);
        }
        if let Ok(peer) = self.peer_addr() {
            debug.field("peer", &peer);
        }
        debug.field("fd", &self.0.socket.fd.0).finish_non_exhaustive()
    }
}
