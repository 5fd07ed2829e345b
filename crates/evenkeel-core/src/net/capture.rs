//! Packet monitors: the taps on the way in and out.

use super::state::Net;
use crate::capture::{Capture, CaptureQueue, Tapped};
use crate::frame::{Frame, Metadata};
use crate::id::{InterfaceId, ProcessId, SocketId};
use crate::poll::{Gate, Sources};
use crate::socket::{BindError, Descriptor};
use crate::time::Instant;

impl Net {
    pub(crate) fn open_capture(&mut self, owner: ProcessId, wanted: Capture) -> Result<SocketId, BindError> {
        let limit = wanted.limit_pkts.max(1);
        self.pool.set_aside(limit).map_err(BindError::NoMemory)?;
        let gate = if wanted.feedback { self.rx.gate(limit, &self.config) } else { Gate::open() };
        let installed = self
            .sockets
            .install(Descriptor::Capture(Box::new(CaptureQueue::new(owner, wanted, gate))), &mut self.work);
        Ok(installed.inspect_err(|_| self.pool.take_back(limit))?)
    }

    /// Shows a frame from a channel's ring on an interface to all packet monitors.
    /// No ring that could be held back has it in it.
    pub(super) fn tap_received(&mut self, interface: InterfaceId, frame: &Frame, at: Instant) {
        self.tap(&Tapped { interface, at, sent: false, bytes: frame.bytes(), metadata: &Metadata::NONE });
    }

    /// Shows a frame that is sent to all packet monitors.
    pub(super) fn tap_sent(&mut self, interface: InterfaceId, frame: &Frame, at: Instant) {
        self.tap(&Tapped { interface, at, sent: true, bytes: frame.bytes(), metadata: &Metadata::NONE });
    }

    fn tap(&mut self, tapped: &Tapped<'_>) {
        let (sockets, mut cx) = self.sockets(tapped.at);
        sockets.watch(tapped, Sources::NONE, &mut cx);
    }
}
