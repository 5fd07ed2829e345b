//! Capture queues: taps on the way in and out, and the calls that read them.

use super::state::Net;
use crate::capture::{Capture, CaptureCounters, CaptureQueue, Captured, Outcome, Tapped};
use crate::config::Config;
use crate::context::Cx;
use crate::descriptor::DescriptorTable;
use crate::drop::QueueDrop;
use crate::frame::{Frame, Metadata};
use crate::id::{InterfaceId, ProcessId, QueueId, SocketId};
use crate::poll::{Gate, Sources};
use crate::ready::{Kinds, ReadyTable};
use crate::socket::{BindError, Descriptor};
use crate::time::Instant;
use crate::work::Work;

/// The packet monitors, with what a frame they see changes of the sockets.
pub(super) struct Monitors<'a> {
    pub(super) descriptors: &'a mut DescriptorTable,
    pub(super) config: &'a Config,
    pub(super) ready: &'a mut ReadyTable,
}

impl Monitors<'_> {
    /// Returns whether there are any.
    pub(super) fn any(&self) -> bool {
        !self.descriptors.captures().is_empty()
    }

    /// Shows a frame to all packet monitors. A sent frame has no source that could be paused.
    #[inline]
    pub(super) fn see(&mut self, tapped: &Tapped<'_>, fed_by: Sources, cx: &mut Cx<'_>) {
        let mut index = 0;
        while let Some(&id) = self.descriptors.captures().get(index) {
            self.show(id, tapped, fed_by, cx);
            index += 1;
        }
    }

    #[inline]
    fn show(&mut self, id: SocketId, tapped: &Tapped<'_>, fed_by: Sources, cx: &mut Cx<'_>) {
        let Some(Descriptor::Capture(capture)) = self.descriptors.get_mut(id) else { return };
        let outcome = capture.see(tapped);
        if outcome == Outcome::NotShown {
            return;
        }
        cx.work.add(Work::Filter);
        if outcome == Outcome::NotWanted {
            return;
        }
        let (gate, waiting) = capture.gate();
        cx.poller.enqueued(QueueId::Socket(id), gate, waiting, self.config.scope(fed_by), tapped.at);
        cx.ledger.duplicated += 1;
        match outcome {
            Outcome::NotShown | Outcome::NotWanted => {}
            Outcome::Full => cx.ledger.drop_input(QueueDrop::Capture, 1),
            Outcome::Queued => {
                cx.work.add(Work::Append);
                self.ready.raise(id, Kinds::READABLE);
            }
        }
    }
}

impl Net {
    pub(crate) fn open_capture(&mut self, owner: ProcessId, wanted: Capture) -> Result<SocketId, BindError> {
        let limit = wanted.limit_pkts.max(1);
        self.pool.set_aside(limit).map_err(BindError::NoMemory)?;
        let gate = if wanted.feedback { self.gate(limit) } else { Gate::open() };
        let installed =
            self.install_descriptor(Descriptor::Capture(Box::new(CaptureQueue::new(owner, wanted, gate))));
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
        let Self { descriptors, config, ready, pool, ledger, work, poller, .. } = self;
        let mut cx = Cx { now: tapped.at, pool, ledger, work, poller };
        Monitors { descriptors, config, ready }.see(tapped, Sources::NONE, &mut cx);
    }

    fn capture_of(&mut self, id: SocketId) -> Option<&mut CaptureQueue> {
        if let Descriptor::Capture(capture) = self.descriptors.get_mut(id)? { Some(capture) } else { None }
    }

    /// Returns the oldest frame in a capture queue.
    #[inline]
    pub(crate) fn captured(&mut self, id: SocketId) -> Option<Captured<'_>> {
        self.last_read = Some(id);
        self.capture_of(id)?.front()
    }

    /// Takes it off the queue.
    #[inline]
    pub(crate) fn pass_captured(&mut self, id: SocketId) {
        let Some(resume) = self.capture_of(id).and_then(CaptureQueue::pop) else { return };
        self.ledger.delivered += 1;
        self.work.add(Work::Deliver);
        if resume {
            self.poller.resume(QueueId::Socket(id));
        }
    }

    pub(crate) fn capture_counters(&self, id: SocketId) -> Option<CaptureCounters> {
        match self.descriptors.get(id)? {
            Descriptor::Capture(capture) => Some(capture.counters()),
            _ => None,
        }
    }
}
