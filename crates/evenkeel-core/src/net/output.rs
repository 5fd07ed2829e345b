//! The way out: a bounded queue in front of each interface's transmit ring.

use super::state::Net;
use crate::drop::LinkDrop;
use crate::frame::Frame;
use crate::id::{InterfaceId, SocketId};
use crate::socket::{BadDescriptor, SendError};
use crate::stack::{Io, IpEndpoint, Origin, OutputError, Source};
use crate::time::Instant;
use crate::work::Work;

impl Net {
    pub(crate) fn send(
        &mut self,
        id: SocketId,
        from: Origin,
        to: IpEndpoint,
        payload: &[u8],
        now: Instant,
    ) -> Result<(), SendError> {
        let Some(socket) = self.sockets.descriptors.udp_mut(id) else {
            return Err(BadDescriptor::OtherKind.into());
        };
        let address = match (socket.source, from.address) {
            (Some(bound), Some(asked)) if bound != asked => return Err(SendError::NotLocal),
            (bound, asked) => bound.or(asked),
        };
        let source = Source { origin: Origin { address, ..from }, port: socket.port };
        self.work.add(Work::Output);
        let mut io = Io { now, pool: &mut self.pool, ledger: &mut self.ledger, out: self.links.out() };
        match self.stack.send_udp(source, to, payload, &mut socket.route, &mut io) {
            Ok(()) => {
                socket.counters.sent += 1;
                Ok(())
            }
            Err(OutputError::NoAddress) if from.address.is_some_and(|asked| !self.stack.is_own(&asked)) => {
                Err(SendError::NotLocal)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Puts frames that protocol work has produced into the transmit queues, and hands them to the
    /// interfaces.
    pub(crate) fn transmit(&mut self, now: Instant) {
        if self.enqueue_all(now) {
            self.start_output(now);
        }
    }

    /// Puts frames that protocol work has produced into the transmit queues, where they may form a batch.
    /// Called at the end of a work item that others follow soon.
    pub(crate) fn transmit_gathering(&mut self, now: Instant) {
        let any = self.enqueue_all(now);
        // It may be long until a program that computes has done so.
        let leaves = !self.work.compute.is_zero() && (any || self.links.gathers());
        let (links, mut cx) = self.links(now);
        match (leaves, any) {
            (true, _) => links.start_all(&mut cx),
            (false, true) => links.gather(&mut cx),
            (false, false) => {}
        }
    }

    /// Hands over to the interfaces what waits.
    pub(crate) fn start_output(&mut self, now: Instant) {
        let (links, mut cx) = self.links(now);
        links.start_all(&mut cx);
    }

    /// Puts the frames that protocol work has produced into the transmit queues. Returns whether there were
    /// any.
    fn enqueue_all(&mut self, now: Instant) -> bool {
        let any = !self.links.out().is_empty();
        while let Some((id, frame)) = self.links.out().pop_front() {
            self.enqueue_output(id, frame, now);
        }
        any
    }

    fn enqueue_output(&mut self, id: InterfaceId, frame: Frame, now: Instant) {
        if self.config.listen_only {
            self.ledger.drop_output(LinkDrop::ListenOnly);
            return self.pool.recycle(frame);
        }
        let (links, mut cx) = self.links(now);
        if links.make_room(id, &mut cx) && !self.sockets.descriptors.captures().is_empty() {
            self.tap_sent(id, &frame, now);
        }
        let (links, mut cx) = self.links(now);
        links.enqueue(id, frame, &mut cx);
    }
}
