//! The halves of a TCP stream.

use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::stream::TcpStream;

/// The half of a borrowed stream that reads.
#[derive(Debug)]
pub struct ReadHalf<'a>(&'a TcpStream);

/// The half of a borrowed stream that writes.
#[derive(Debug)]
pub struct WriteHalf<'a>(&'a TcpStream);

/// The half of a stream that reads.
#[derive(Debug)]
pub struct OwnedReadHalf(Arc<TcpStream>);

/// The half of a stream that writes. When it is dropped, writing ends.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    stream: Arc<TcpStream>,
    shuts_down: bool,
}

/// The error of [`OwnedReadHalf::reunite`] for halves of different streams, which are in it.
#[derive(Debug)]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

impl TcpStream {
    /// Splits the stream into a half that reads and a half that writes, which borrow it.
    #[must_use]
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        (ReadHalf(self), WriteHalf(self))
    }

    /// Splits the stream into a half that reads and a half that writes, for different tasks. When the latter
    /// is dropped, writing ends.
    #[must_use]
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        let stream = Arc::new(self);
        (OwnedReadHalf(Arc::clone(&stream)), OwnedWriteHalf { stream, shuts_down: true })
    }
}

fn reunite(read: OwnedReadHalf, mut write: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
    if !Arc::ptr_eq(&read.0, &write.stream) {
        return Err(ReuniteError(read, write));
    }
    write.shuts_down = false;
    drop(write);
    // There are no other halves.
    Ok(Arc::try_unwrap(read.0).expect("a stream has two halves"))
}

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tried to reunite halves that are not from the same stream")
    }
}

impl Error for ReuniteError {}

impl OwnedReadHalf {
    /// Puts the two halves of a stream together again.
    ///
    /// # Errors
    /// [`ReuniteError`] if they are of different streams.
    pub fn reunite(self, other: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        reunite(self, other)
    }
}

impl OwnedWriteHalf {
    /// Puts the two halves of a stream together again.
    ///
    /// # Errors
    /// [`ReuniteError`] if they are of different streams.
    pub fn reunite(self, other: OwnedReadHalf) -> Result<TcpStream, ReuniteError> {
        reunite(other, self)
    }

    /// Drops the half without an end of writing.
    pub fn forget(mut self) {
        self.shuts_down = false;
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.shuts_down {
            let _ = self.stream.shut_down_writing();
        }
    }
}

/// Implements what both kinds of halves that read have.
macro_rules! reads {
    ($half:ty) => {
        impl $half {
            /// Waits until a read would not block.
            ///
            /// # Errors
            /// If the descriptor is closed.
            pub async fn readable(&self) -> io::Result<()> {
                self.0.readable().await
            }

            /// Reads bytes if there are any.
            ///
            /// # Errors
            /// Those of [`TcpStream::try_read`].
            pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0.try_read(buffer)
            }

            /// Waits for bytes, copies them and leaves them in the stream.
            ///
            /// # Errors
            /// Those of [`TcpStream::peek`].
            pub async fn peek(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0.peek(buffer).await
            }

            /// Returns the address of the peer.
            ///
            /// # Errors
            /// Those of [`TcpStream::peer_addr`].
            pub fn peer_addr(&self) -> io::Result<SocketAddr> {
                self.0.peer_addr()
            }

            /// Returns the address of this end.
            ///
            /// # Errors
            /// Those of [`TcpStream::local_addr`].
            pub fn local_addr(&self) -> io::Result<SocketAddr> {
                self.0.local_addr()
            }
        }

        impl AsRef<TcpStream> for $half {
            fn as_ref(&self) -> &TcpStream {
                &self.0
            }
        }

        impl AsyncRead for $half {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.0.poll_read_shared(context, buffer)
            }
        }
    };
}

/// Implements what both kinds of halves that write have.
macro_rules! writes {
    ($half:ty, $stream:tt) => {
        impl $half {
            /// Waits until a write would not block.
            ///
            /// # Errors
            /// If the descriptor is closed.
            pub async fn writable(&self) -> io::Result<()> {
                self.$stream.writable().await
            }

            /// Writes as many bytes as there is room for.
            ///
            /// # Errors
            /// Those of [`TcpStream::try_write`].
            pub fn try_write(&self, data: &[u8]) -> io::Result<usize> {
                self.$stream.try_write(data)
            }

            /// Returns the address of the peer.
            ///
            /// # Errors
            /// Those of [`TcpStream::peer_addr`].
            pub fn peer_addr(&self) -> io::Result<SocketAddr> {
                self.$stream.peer_addr()
            }

            /// Returns the address of this end.
            ///
            /// # Errors
            /// Those of [`TcpStream::local_addr`].
            pub fn local_addr(&self) -> io::Result<SocketAddr> {
                self.$stream.local_addr()
            }
        }

        impl AsRef<TcpStream> for $half {
            fn as_ref(&self) -> &TcpStream {
                &self.$stream
            }
        }

        impl AsyncWrite for $half {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                data: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.$stream.poll_write_shared(context, &[IoSlice::new(data)])
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                data: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.$stream.poll_write_shared(context, data)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.$stream.shut_down_writing())
            }
        }
    };
}

reads!(ReadHalf<'_>);
reads!(OwnedReadHalf);
writes!(WriteHalf<'_>, 0);
writes!(OwnedWriteHalf, stream);
