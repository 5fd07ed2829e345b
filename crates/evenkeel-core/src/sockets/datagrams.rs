//! The queues of datagrams in front of sockets.

use super::state::Sockets;
use crate::context::Cx;
use crate::drop::QueueDrop;
use crate::id::{QueueId, SocketId};
use crate::poll::Sources;
use crate::ready::Kinds;
use crate::stack::{Datagram, TakesDatagrams};
use crate::work::Work;

impl Sockets {
    /// Appends a datagram to the queue of a socket, or drops it if that is full. A full queue pauses `fed_by`.
    pub(crate) fn append(&mut self, id: SocketId, datagram: Datagram, fed_by: Sources, cx: &mut Cx<'_>) {
        cx.work.add(Work::Append);
        let Some(socket) = self.descriptors.udp_mut(id) else { return };
        if !socket.ready.has_room() {
            socket.counters.dropped += 1;
            cx.ledger.drop_input(QueueDrop::Socket, datagram.frames());
            datagram.recycle(cx.pool);
        } else {
            socket.ready.push(datagram);
            self.ready.raise(id, Kinds::READABLE);
        }
        let (gate, waiting) = socket.ready.gate();
        cx.poller.enqueued(QueueId::Socket(id), gate, waiting, fed_by, cx.now);
    }

    /// Hands over what waits in the queue of a socket.
    pub(crate) fn take_ready(&mut self, id: SocketId, to: &mut impl TakesDatagrams, cx: &mut Cx<'_>) {
        let Some(socket) = self.descriptors.udp_mut(id) else { return };
        while to.has_room()
            && let Some((datagram, resume)) = socket.ready.pop()
        {
            socket.counters.received += 1;
            cx.ledger.delivered += datagram.frames();
            cx.work.add(Work::Deliver);
            to.put(datagram);
            if resume {
                cx.poller.resume(QueueId::Socket(id));
            }
        }
    }
}
