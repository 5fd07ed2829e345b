//! Capture queues: copies of the frames that a packet monitor selects.

use super::handle::handle;
use super::state::System;
use crate::capture::{Capture, CaptureCounters, CaptureQueue, Captured};
use crate::drop::QueueDrop;
use crate::id::Fd;
use crate::net::Net;
use crate::poll::Gate;
use crate::socket::{BadDescriptor, BindError, Descriptor, Kind, ReceiveError};

/// A capture queue, which gets copies of frames from and to any host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaptureSocket(Fd);

handle!(CaptureSocket);

impl CaptureSocket {
    /// Opens a capture queue. It gets copies of the frames that `wanted` selects, from and to any host.
    ///
    /// # Errors
    /// [`BindError::NoMemory`] if the host's memory limit does not allow the copies.
    /// [`BindError::TooManyOpen`] if the process has reached its limit of descriptors.
    pub fn open(system: &mut System<'_>, wanted: Capture) -> Result<Self, BindError> {
        system.call();
        let System { net, process, .. } = system;
        let limit = wanted.limit_pkts.max(1);
        net.pool.set_aside(limit).map_err(BindError::NoMemory)?;
        let gate = if wanted.feedback { net.rx.gate(limit, &net.config) } else { Gate::open() };
        let queue = CaptureQueue::new(*process, wanted, gate);
        net.rx.channels.lift_limits();
        let installed = net.sockets.install(Descriptor::Capture(Box::new(queue)), &mut net.work);
        let id = installed.inspect_err(|_| net.pool.take_back(limit))?;
        Ok(Self(system.opened(id)))
    }

    pub(super) fn closed(net: &mut Net, capture: &CaptureQueue) {
        net.pool.take_back(capture.limit());
        net.ledger.drop_input(QueueDrop::Closed, capture.len() as u64);
    }

    /// Returns the oldest captured frame. It stays in the queue until [`CaptureSocket::pop`].
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if the queue is empty: return [`crate::process::Step::Wait`].
    /// [`ReceiveError::BadDescriptor`] if the descriptor is no capture queue of this process.
    #[inline]
    pub fn front<'a>(self, system: &'a mut System<'_>) -> Result<Captured<'a>, ReceiveError> {
        let id = system.begin(self.0, Kind::Capture)?;
        system.net.sockets.captured(id).ok_or(ReceiveError::WouldBlock)
    }

    /// Removes the oldest captured frame from the queue, if there is one.
    #[inline]
    pub fn pop(self, system: &mut System<'_>) {
        if let Ok((id, _)) = system.descriptor(self.0) {
            let (sockets, mut cx) = system.net.sockets(system.now);
            sockets.pass_captured(id, &mut cx);
        }
    }

    /// Returns the counters of the capture queue.
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no capture queue of this process.
    pub fn counters(self, system: &System<'_>) -> Result<CaptureCounters, BadDescriptor> {
        match system.descriptor(self.0)?.1 {
            Descriptor::Capture(capture) => Ok(capture.counters()),
            _ => Err(BadDescriptor::OtherKind),
        }
    }
}
