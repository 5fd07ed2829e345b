//! Descriptors: the numbers by which a process names its open objects.

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
    /// Closes a descriptor. If it was the last one of what it refers to, that is closed, and what waits in it
    /// is dropped and counted. One that is not open stays closed.
    pub fn close(&mut self, fd: impl Into<Fd>) {
        self.call();
        self.close_number(fd.into());
    }

    /// Makes the lowest free number refer to the same object as `fd`, and returns that number.
    ///
    /// # Errors
    /// [`DupError`]
    pub fn dup<T: Into<Fd> + From<Fd>>(&mut self, fd: T) -> Result<T, DupError> {
        self.dup_from(fd, Fd(0))
    }

    /// Makes the lowest free number that is not below `lowest` refer to the same object as `fd` (`F_DUPFD`),
    /// and returns that number.
    ///
    /// # Errors
    /// [`DupError`]
    pub fn dup_from<T: Into<Fd> + From<Fd>>(&mut self, fd: T, lowest: Fd) -> Result<T, DupError> {
        self.call();
        self.net.readiness().dup_from(self.process, fd.into(), lowest.0).map(T::from)
    }

    /// Makes the number `new` refer to the same object as `fd`; the descriptor that `new` was before is
    /// closed. If both are the same number, nothing is done.
    ///
    /// # Errors
    /// [`DupError`]; nothing is changed then.
    pub fn dup2(&mut self, fd: impl Into<Fd>, new: Fd) -> Result<(), DupError> {
        self.call();
        if let Some(displaced) = self.net.readiness().dup2(self.process, fd.into(), new)? {
            close(self.net, displaced, self.now);
        }
        Ok(())
    }

    /// Sets how many descriptors this process may have: new ones have lower numbers. Those above stay open.
    /// At first it is [`Config::descriptors_max`](crate::host::Config::descriptors_max).
    pub fn set_descriptor_limit(&mut self, limit: u32) {
        self.call();
        self.net.sockets.ready.set_limit(self.process, limit);
    }

    /// Closes a descriptor number, and with the last number its object.
    pub(super) fn close_number(&mut self, fd: Fd) {
        if let Some((id, true)) = self.net.sockets.ready.close(self.process, fd) {
            close(self.net, id, self.now);
        }
    }
}

/// Closes an object that no number refers to any more. What waits in it is dropped and counted.
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
