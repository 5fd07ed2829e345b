//! Sockets on tokio's runtimes.
//!
//! The types have the names and the calls of [`tokio::net`]. The first argument of a
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

mod convert;
mod listener;
#[cfg(feature = "quinn")]
mod quinn;
mod runtime;
mod split;
mod stream;
mod udp;

pub use listener::TcpListener;
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use stream::TcpStream;
pub use udp::UdpSocket;
