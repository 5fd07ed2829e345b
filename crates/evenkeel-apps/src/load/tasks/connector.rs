//! Connections to the server's addresses, over the kernel's TCP or ours.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel::net::Net;
use evenkeel::net::tokio as ours;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};

use super::super::kernel::OnKernel;

/// A TCP with streams for tasks. A stream that is dropped resets its connection, so that no port stays in
/// TIME-WAIT.
pub(super) trait Connector: Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Opens a connection to the server's address of index `address`.
    fn connect(&self, address: usize) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// The kernel's TCP, with the addresses that a run has given.
#[derive(Debug)]
pub(super) struct Kernel {
    at: OnKernel,
    /// The index of the source address whose turn it is.
    next: AtomicUsize,
}

impl Kernel {
    pub(super) const fn new(at: OnKernel) -> Self {
        Self { at, next: AtomicUsize::new(0) }
    }
}

impl Connector for Kernel {
    type Stream = TcpStream;

    async fn connect(&self, address: usize) -> io::Result<TcpStream> {
        let to = self.at.to.get(address).copied().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if !self.at.from.is_empty() {
            let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.at.from.len();
            socket.bind(SocketAddr::new(self.at.from[turn], 0))?;
        }
        socket.set_nodelay(true)?;
        socket.set_zero_linger()?;
        socket.connect(to).await
    }
}

/// The TCP of a host of this library.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) net: Net,
    /// All addresses that the server may have.
    pub(super) to: Vec<SocketAddr>,
}

impl Connector for Own {
    type Stream = ours::TcpStream;

    async fn connect(&self, address: usize) -> io::Result<ours::TcpStream> {
        let to = self.to.get(address).copied().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let stream = ours::TcpStream::connect(&self.net, to).await?;
        stream.set_nodelay(true)?;
        stream.set_zero_linger()?;
        Ok(stream)
    }
}
