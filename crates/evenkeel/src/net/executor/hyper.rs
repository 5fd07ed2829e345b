//! The traits of hyper's runtimes.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use ::hyper::rt;
use evenkeel_core::time::Duration;

use super::Executor;
use super::stream::TcpStream;
use super::timer::{Sleep, Timer};

/// The most bytes of one read. They are copied from the stream to here, and on to hyper's own buffer.
const READ_MAX: usize = 8192;

impl rt::Read for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut room = [0; READ_MAX];
        let most = buffer.remaining().min(READ_MAX);
        let bytes = ready!((*self).poll_read(context, &mut room[..most]))?;
        buffer.put_slice(&room[..bytes]);
        Poll::Ready(Ok(()))
    }
}

impl rt::Write for TcpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        (*self).poll_write(context, &[IoSlice::new(data)])
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shut_down_writing())
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        (*self).poll_write(context, data)
    }
}

impl<F: Future + 'static> rt::Executor<F> for Executor {
    fn execute(&self, future: F) {
        self.spawn(async { drop(future.await) });
    }
}

impl rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(self.sleep(duration))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(self.sleep(deadline.saturating_duration_since(rt::Timer::now(self))))
    }
}

impl rt::Sleep for Sleep {}
