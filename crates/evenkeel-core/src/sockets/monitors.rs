//! Packet monitors: capture queues, and the calls that read them.

use super::state::Sockets;
use crate::capture::{CaptureCounters, CaptureQueue, Captured, Outcome, Tapped};
use crate::context::Cx;
use crate::drop::QueueDrop;
use crate::frame::{Frame, Metadata};
use crate::id::{InterfaceId, QueueId, SocketId};
use crate::poll::Sources;
use crate::ready::Kinds;
use crate::socket::Descriptor;
use crate::work::Work;

impl Sockets {
    /// Returns whether there are packet monitors.
    pub(crate) fn is_watched(&self) -> bool {
        !self.descriptors.captures().is_empty()
    }

    /// Shows a frame to all packet monitors. Those that fall behind pause `sources`.
    #[inline]
    pub(crate) fn watch(&mut self, tapped: &Tapped<'_>, sources: Sources, cx: &mut Cx<'_>) {
        let mut index = 0;
        while let Some(&id) = self.descriptors.captures().get(index) {
            self.show(id, tapped, sources, cx);
            index += 1;
        }
    }

    /// Shows a frame that lies in no ring of the host to all packet monitors: one that is sent, or comes from
    /// a channel's ring on an interface. No ring could be paused for it.
    pub(crate) fn watch_outside_rings(
        &mut self,
        interface: InterfaceId,
        frame: &Frame,
        sent: bool,
        cx: &mut Cx<'_>,
    ) {
        let tapped = Tapped { interface, at: cx.now, sent, bytes: frame.bytes(), metadata: &Metadata::NONE };
        self.watch(&tapped, Sources::NONE, cx);
    }

    #[inline]
    fn show(&mut self, id: SocketId, tapped: &Tapped<'_>, sources: Sources, cx: &mut Cx<'_>) {
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
        cx.poller.enqueued(QueueId::Socket(id), gate, waiting, sources, tapped.at);
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
    pub(crate) fn pass_captured(&mut self, id: SocketId, cx: &mut Cx<'_>) {
        let Some(resume) = self.capture_of(id).and_then(CaptureQueue::pop) else { return };
        cx.ledger.delivered += 1;
        cx.work.add(Work::Deliver);
        if resume {
            cx.poller.resume(QueueId::Socket(id));
        }
    }

    pub(crate) fn capture_counters(&self, id: SocketId) -> Option<CaptureCounters> {
        match self.descriptors.get(id)? {
            Descriptor::Capture(capture) => Some(capture.counters()),
            _ => None,
        }
    }
}
