//! Capture queues: taps on the way in and out, and the calls that read them.

use super::state::Net;
use crate::capture::{Capture, CaptureCounters, CaptureQueue, Captured, Outcome, Tapped};
use crate::config::Config;
use crate::descriptor::DescriptorTable;
use crate::drop::QueueDrop;
use crate::frame::{Frame, Metadata};
use crate::id::{InterfaceId, ProcessId, QueueId, SocketId};
use crate::ledger::Ledger;
use crate::poll::{Gate, Poller, Sources};
use crate::ready::{Kinds, ReadyTable};
use crate::socket::{BindError, Descriptor};
use crate::time::Instant;
use crate::work::{Work, WorkLog};

/// The packet monitors, with all that a frame they see changes.
pub(super) struct Monitors<'a> {
    descriptors: &'a mut DescriptorTable,
    config: &'a Config,
    ledger: &'a mut Ledger,
    ready: &'a mut ReadyTable,
    poller: &'a mut Poller<QueueId>,
    work: &'a mut WorkLog,
}

impl Monitors<'_> {
    /// Shows a frame to all packet monitors. A sent frame has no source that could be paused.
    #[inline]
    pub(super) fn see(&mut self, tapped: &Tapped<'_>, fed_by: Sources) {
        let mut index = 0;
        while let Some(&id) = self.descriptors.captures().get(index) {
            self.show(id, tapped, fed_by);
            index += 1;
        }
    }

    #[inline]
    fn show(&mut self, id: SocketId, tapped: &Tapped<'_>, fed_by: Sources) {
        let Some(Descriptor::Capture(capture)) = self.descriptors.get_mut(id) else { return };
        let outcome = capture.see(tapped);
        if outcome == Outcome::NotShown {
            return;
        }
        self.work.add(Work::Filter);
        if outcome == Outcome::NotWanted {
            return;
        }
        let (gate, waiting) = capture.gate();
        self.poller.enqueued(QueueId::Socket(id), gate, waiting, self.config.scope(fed_by), tapped.at);
        self.ledger.duplicated += 1;
        match outcome {
            Outcome::NotShown | Outcome::NotWanted => {}
            Outcome::Full => self.ledger.drop_input(QueueDrop::Capture, 1),
            Outcome::Queued => {
                self.work.add(Work::Append);
                self.ready.raise(id, Kinds::READABLE);
            }
        }
    }
}

impl Net {
    /// Returns the packet monitors.
    pub(super) fn monitors(&mut self) -> Monitors<'_> {
        let Self { descriptors, config, ledger, ready, poller, work, .. } = self;
        Monitors { descriptors, config, ledger, ready, poller, work }
    }

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
        let tapped = Tapped { interface, at, sent: false, bytes: frame.bytes(), metadata: &Metadata::NONE };
        self.monitors().see(&tapped, Sources::NONE);
    }

    /// Shows a frame that is sent to all packet monitors.
    pub(super) fn tap_sent(&mut self, interface: InterfaceId, frame: &Frame, at: Instant) {
        let tapped = Tapped { interface, at, sent: true, bytes: frame.bytes(), metadata: &Metadata::NONE };
        self.monitors().see(&tapped, Sources::NONE);
    }

    fn capture_of(&mut self, id: SocketId) -> Option<&mut CaptureQueue> {
        if let Descriptor::Capture(capture) = self.descriptor_mut(id)? { Some(capture) } else { None }
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
        match self.descriptor(id)? {
            Descriptor::Capture(capture) => Some(capture.counters()),
            _ => None,
        }
    }
}
