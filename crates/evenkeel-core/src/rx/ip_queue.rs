//! The queue that all IP traffic shares, under the architectures that have one.

use super::state::Receive;
use crate::context::Cx;
use crate::drop::QueueDrop;
use crate::frame::Frame;
use crate::id::{InterfaceId, QueueId};
use crate::poll::Sources;
use crate::work::Work;

impl Receive {
    /// Puts a frame into the shared IP queue, or drops it if that is full. A full queue pauses `sources`.
    pub(crate) fn enqueue_ip(
        &mut self,
        interface: InterfaceId,
        frame: Frame,
        sources: Sources,
        cx: &mut Cx<'_>,
    ) {
        cx.work.add(Work::Enqueue);
        if self.ip_queue.has_room() {
            self.ip_queue.push((interface, frame));
        } else {
            cx.ledger.drop_input(QueueDrop::IpQueue, 1);
            cx.pool.recycle(frame);
        }
        let (gate, waiting) = self.ip_queue.gate();
        cx.poller.enqueued(QueueId::IpQueue, gate, waiting, sources, cx.now);
    }
}
