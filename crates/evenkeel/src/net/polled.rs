//! A TCP stream that tasks read and write by polling.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use evenkeel_core::host::System;
use evenkeel_core::socket::Kinds;
use evenkeel_core::system;

use super::slot::Slot;
use super::stream::TcpStream;

/// A TCP stream that tasks read and write by polling.
#[derive(Debug)]
pub(super) struct Polled {
    pub(super) inner: TcpStream,
    pub(super) read: Slot,
    pub(super) write: Slot,
    /// Whether the last read has found less than it had room for. An end of the stream behind that is an
    /// event of its own, for another poll of the task: hyper drops its answer if it meets the end of a
    /// request's stream in the poll in which it has read the request.
    has_drained: AtomicBool,
}

impl Polled {
    pub(super) fn new(inner: TcpStream) -> Self {
        let (read, write) = (Slot::new(&inner.socket().net), Slot::new(&inner.socket().net));
        Self { inner, read, write, has_drained: AtomicBool::new(false) }
    }

    /// Reads bytes, or has the task woken when there are some. Returns 0 at the end of the stream.
    pub(super) fn read(&self, context: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let polled = self.read.poll(self.inner.socket(), Kinds::READABLE, context, |system| {
            self.inner.read_in(system, room, system::TcpStream::read)
        });
        let has_drained = self.has_drained.swap(false, Ordering::Relaxed);
        let bytes = ready!(polled)?;
        if bytes == 0 && has_drained {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.has_drained.store(bytes > 0 && bytes < room.len(), Ordering::Relaxed);
        Poll::Ready(Ok(bytes))
    }

    /// Writes as many bytes as there is room for, or has the task woken when there is some.
    pub(super) fn write(&self, context: &mut Context<'_>, data: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let write = |system: &mut System<'_>| self.inner.write_in(system, data);
        Poll::Ready(Ok(ready!(self.write.poll(self.inner.socket(), Kinds::WRITABLE, context, write))?))
    }

    /// Ends writing, if the connection has not ended already.
    pub(super) fn shut_down_writing(&self) -> io::Result<()> {
        match self.inner.shutdown(std::net::Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            done => done,
        }
    }
}
