//! Descriptors: the numbers with which a process names its open objects.

use super::capture::CaptureSocket;
use super::listener::TcpListener;
use super::screen::Screen;
use super::state::System;
use super::udp::UdpSocket;
use crate::error::DupError;
use crate::id::{Fd, QueueId, SocketId};
use crate::net::Net;
use crate::socket::Descriptor;
use crate::time::Instant;

impl System<'_> {
    /// Closes a descriptor, and does nothing if it is not open. With the last descriptor of an object, closes
    /// the object. What is queued in the object is then dropped and counted.
    pub fn close(&mut self, fd: impl Into<Fd>) {
        self.call();
        self.close_number(fd.into());
    }

    /// Duplicates `fd`: the lowest free number then refers to the same object. Returns that number.
    ///
    /// # Errors
    /// [`DupError`] if `fd` is not open, or the process has reached its limit of descriptors.
    pub fn dup<T: Into<Fd> + From<Fd>>(&mut self, fd: T) -> Result<T, DupError> {
        self.dup_from(fd, Fd(0))
    }

    /// Duplicates `fd` as [`System::dup`] does, to the lowest free number that is not below `lowest`
    /// (`F_DUPFD`).
    ///
    /// # Errors
    /// [`DupError`] if `fd` is not open, `lowest` is above the process's limit, or the process has reached
    /// that limit.
    pub fn dup_from<T: Into<Fd> + From<Fd>>(&mut self, fd: T, lowest: Fd) -> Result<T, DupError> {
        self.call();
        self.net.readiness().dup_from(self.process, fd.into(), lowest.0).map(T::from)
    }

    /// Makes the number `new` refer to the same object as `fd`. The descriptor that `new` was before is
    /// closed. Does nothing if both numbers are equal.
    ///
    /// # Errors
    /// [`DupError`] if `fd` is not open, or `new` is above the process's limit. Nothing is changed then.
    pub fn dup2(&mut self, fd: impl Into<Fd>, new: Fd) -> Result<(), DupError> {
        self.call();
        if let Some(displaced) = self.net.readiness().dup2(self.process, fd.into(), new)? {
            close(self.net, displaced, self.now);
        }
        Ok(())
    }

    /// Sets the limit of descriptors of this process: new descriptors get numbers below `limit`. Open
    /// descriptors with higher numbers stay open. The initial limit is
    /// [`Config::descriptors_max`](crate::host::Config::descriptors_max).
    pub fn set_descriptor_limit(&mut self, limit: u32) {
        self.call();
        self.net.sockets.ready.set_limit(self.process, limit);
    }

    /// Closes a descriptor number. With the last number of an object, closes the object.
    pub(super) fn close_number(&mut self, fd: Fd) {
        if let Some((id, true)) = self.net.sockets.ready.close(self.process, fd) {
            close(self.net, id, self.now);
        }
    }
}

/// Closes an object to which no number refers any more. What is queued in it is dropped and counted.
pub(crate) fn close(net: &mut Net, id: SocketId, now: Instant) {
    let Some(descriptor) = net.sockets.remove(id) else { return };
    net.poller.forget(QueueId::Socket(id));
    match descriptor {
        Descriptor::Udp(socket) => UdpSocket::closed(net, id, *socket, now),
        Descriptor::Screen(screen) => Screen::closed(net, *screen),
        Descriptor::Listener(listener) => TcpListener::closed(net, id, &listener, now),
        Descriptor::Stream(stream) => net.tcp.close_stream(stream.id, now),
        Descriptor::Queue(_) | Descriptor::UserEvent(_) => {}
        Descriptor::Timer(timer) => net.sockets.release_timer(*timer),
        Descriptor::Capture(capture) => CaptureSocket::closed(net, &capture),
    }
}
