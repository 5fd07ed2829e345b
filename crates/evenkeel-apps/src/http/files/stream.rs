//! The bytes of a connection, whatever carries them.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io::{self, IoSlice};
use std::sync::Arc;

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

use super::activity::Activity;

/// The bytes of an unread request that are discarded before a connection is closed.
const DISCARDED_BYTES_MAX: usize = 1024 * 1024;

/// A stream of bytes in both directions: a socket, or TLS over one.
pub trait Stream: Read + Write + Unpin + Send + 'static {}
impl<S: Read + Write + Unpin + Send + 'static> Stream for S {}

/// A stream that records what moves.
///
/// A socket that is closed with unread bytes resets its connection, and an answer that is still on its way is
/// lost. So this stream reads what the client has sent before it is closed. If a request was left unread, it
/// also waits for the client to close.
pub(super) struct Watched {
    stream: Box<dyn Stream>,
    activity: Arc<Activity>,
    is_shut: bool,
    discarded: usize,
}

impl Watched {
    pub(super) fn new(stream: Box<dyn Stream>, activity: Arc<Activity>) -> Self {
        Self { stream, activity, is_shut: false, discarded: 0 }
    }

    /// Records a write that took bytes.
    fn record(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.activity.progress();
        }
        written
    }

    /// Reads and discards what the client sends after the last request.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut bytes = [0; 4096];
        while self.discarded < DISCARDED_BYTES_MAX {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.stream).poll_read(cx, buffer.unfilled()) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => self.discarded += buffer.filled().len(),
                Poll::Pending if self.activity.has_unread_request() => return Poll::Pending,
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

impl Read for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.activity.received();
        Poll::Ready(Ok(()))
    }
}

impl Write for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.record(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.record(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_shut {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.is_shut = true;
            self.activity.close();
        }
        self.poll_discard(cx).map(Ok)
    }
}
