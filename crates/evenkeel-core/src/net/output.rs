//! The way out: a bounded queue in front of each interface's transmit ring.

use crate::context::Cx;
use crate::drop::LinkDrop;
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::link::Links;
use crate::segmentation::Cuts;
use crate::sockets::Sockets;

/// The way out: the transmit queues of the interfaces, and the packet monitors in front of them.
pub(crate) struct Output<'a> {
    pub(super) links: &'a mut Links,
    pub(super) sockets: &'a mut Sockets,
    /// Whether the host sends nothing.
    pub(super) listen_only: bool,
    pub(super) cx: Cx<'a>,
}

impl Output<'_> {
    /// Puts frames that protocol work has produced into the transmit queues, and hands them to the
    /// interfaces.
    #[inline]
    pub(crate) fn transmit(&mut self) {
        if !self.links.out().is_empty() {
            self.enqueue_all();
            self.start();
        }
    }

    /// Puts frames that protocol work has produced into the transmit queues, where they may form a batch.
    /// Called at the end of a work item that others follow soon.
    #[inline]
    pub(crate) fn transmit_batched(&mut self) {
        let any = !self.links.out().is_empty();
        if any {
            self.enqueue_all();
        }
        // It may be long until a program that computes has done so.
        let leaves = !self.cx.work.compute.is_zero() && (any || self.links.coalesces());
        match (leaves, any) {
            (true, _) => self.start(),
            (false, true) => self.links.coalesce(&mut self.cx),
            (false, false) => {}
        }
    }

    /// Hands over to the interfaces what waits.
    pub(crate) fn start(&mut self) {
        self.links.start_all(&mut self.cx);
    }

    /// Puts the frames that protocol work has produced into the transmit queues.
    fn enqueue_all(&mut self) {
        while let Some((id, frame)) = self.links.out().pop_front() {
            if frame.segment_bytes().is_some() && !self.leaves_whole(id) {
                self.enqueue_segments(id, frame);
            } else {
                self.enqueue(id, frame);
            }
        }
    }

    /// Returns whether a large segment leaves by an interface whole. A packet monitor sees segments as they
    /// are on the wire.
    fn leaves_whole(&self, id: InterfaceId) -> bool {
        self.links.takes_large(id) && !self.sockets.is_watched()
    }

    /// Puts the segments into the transmit queue that a large one is to be cut into. Those for which there is
    /// no buffer are dropped together.
    #[cold]
    fn enqueue_segments(&mut self, id: InterfaceId, frame: Frame) {
        let mut segments = 0_u64;
        let cuts = Cuts::of_large(&frame);
        if let Some(mut cuts) = cuts {
            while let Some(segment) = cuts.copy_next(&frame, self.cx.pool) {
                self.enqueue(id, segment);
                segments += 1;
            }
        }
        if segments == 0 {
            self.cx.ledger.drop_output(LinkDrop::NoBuffer);
        }
        self.cx.ledger.originated += segments.saturating_sub(1);
        self.cx.pool.recycle(frame);
    }

    fn enqueue(&mut self, id: InterfaceId, frame: Frame) {
        let Self { links, sockets, listen_only, cx } = self;
        if *listen_only {
            cx.ledger.drop_output(LinkDrop::ListenOnly);
            return cx.pool.recycle(frame);
        }
        if links.make_room(id, cx) && sockets.is_watched() {
            sockets.watch_outside_rings(id, &frame, true, cx);
        }
        links.enqueue(id, frame, cx);
    }
}
