//! The way out: a bounded queue in front of each interface's transmit ring.

use super::state::Net;
use crate::context::Cx;
use crate::drop::LinkDrop;
use crate::frame::Frame;
use crate::id::{InterfaceId, SocketId};
use crate::link::Links;
use crate::socket::{BadDescriptor, SendError};
use crate::sockets::Sockets;
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

    /// Returns the way out, for the frames that the current work item sends.
    #[inline(always)]
    pub(crate) fn output(&mut self, now: Instant) -> Output<'_> {
        let Self { links, sockets, config, pool, ledger, work, poller, .. } = self;
        Output { links, sockets, listen_only: config.listen_only, cx: Cx { now, pool, ledger, work, poller } }
    }
}

/// The way out: the transmit queues of the interfaces, and the packet monitors in front of them.
pub(crate) struct Output<'a> {
    links: &'a mut Links,
    sockets: &'a mut Sockets,
    /// Whether the host sends nothing.
    listen_only: bool,
    cx: Cx<'a>,
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
    pub(crate) fn transmit_gathering(&mut self) {
        let any = !self.links.out().is_empty();
        if any {
            self.enqueue_all();
        }
        // It may be long until a program that computes has done so.
        let leaves = !self.cx.work.compute.is_zero() && (any || self.links.gathers());
        match (leaves, any) {
            (true, _) => self.start(),
            (false, true) => self.links.gather(&mut self.cx),
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
            self.enqueue(id, frame);
        }
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
