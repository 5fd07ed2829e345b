//! Sockets on tokio's runtimes.
//!
//! The types have the names and the calls of [`tokio::net`](::tokio::net). The first argument of a
//! constructor is the host. A task of the runtime drives the host, and does the protocol work of the
//! runtime's sockets.
//!
//! ```
//! use evenkeel::net::Net;
//! use evenkeel::net::tokio::{TcpListener, TcpStream};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let (client, server) = Net::pair()?;
//! let listener = TcpListener::bind(&server, "0.0.0.0:7").await?;
//! tokio::spawn(async move {
//!     let (mut stream, _) = listener.accept().await?;
//!     let (mut reader, mut writer) = stream.split();
//!     tokio::io::copy(&mut reader, &mut writer).await
//! });
//! let mut stream = TcpStream::connect(&client, "10.0.0.2:7").await?;
//! stream.write_all(b"hello").await?;
//! stream.shutdown().await?;
//! let mut echoed = String::new();
//! stream.read_to_string(&mut echoed).await?;
//! assert_eq!(echoed, "hello");
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod listener;
#[cfg(feature = "quinn")]
mod quinn;
mod runtime;
mod slot;
mod split;
mod stream;
mod udp;

pub use listener::TcpListener;
pub(super) use runtime::{Attached, Runtimes};
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use stream::TcpStream;
pub use udp::UdpSocket;

use std::io;
use std::net::SocketAddr;

use ::tokio::io::{Interest, Ready};
use ::tokio::net::{ToSocketAddrs, lookup_host};
use evenkeel_core::socket::Kinds;

use crate::error::Error;

/// Calls `with` for each address until one succeeds. Returns the last error otherwise.
async fn each_address<T, F: Future<Output = Result<T, Error>>>(
    address: impl ToSocketAddrs,
    mut with: impl FnMut(SocketAddr) -> F,
) -> io::Result<T> {
    let mut last = None;
    for address in lookup_host(address).await? {
        match with(address).await {
            Ok(done) => return Ok(done),
            Err(error) => last = Some(error.into()),
        }
    }
    Err(last
        .unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any address")))
}

/// Returns the host's form of an interest. Whoever waits for one direction also learns of the end.
fn interests(interest: Interest) -> Kinds {
    Kinds::READABLE.when(interest.is_readable()).union(Kinds::WRITABLE.when(interest.is_writable()))
}

/// Returns tokio's form of a readiness.
fn readiness(kinds: Kinds) -> Ready {
    let pairs = [
        (Kinds::READABLE, Ready::READABLE),
        (Kinds::WRITABLE, Ready::WRITABLE),
        (Kinds::READ_CLOSED, Ready::READ_CLOSED),
        (Kinds::HANG_UP, Ready::READ_CLOSED | Ready::WRITE_CLOSED),
        (Kinds::ERROR, Ready::ERROR),
    ];
    let matching = pairs.into_iter().filter(|(kind, _)| kinds.intersects(*kind));
    matching.fold(Ready::EMPTY, |all, (_, ready)| all | ready)
}
