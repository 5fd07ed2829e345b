//! The way out: a bounded queue in front of each interface's transmit ring.

use super::{Net, OUTPUT_PKTS, STALL_PERIOD};
use crate::drop::{LinkDrop, QueueDrop};
use crate::frame::Frame;
use crate::id::{InterfaceId, QueueId, SocketId};
use crate::poll::Sources;
use crate::socket::Descriptor;
use crate::stack::{Endpoint, Io, SendError, Source};
use crate::tcp::endpoint::Lanes;
use crate::time::Instant;
use crate::transmit::{OutputRoom, Traffic, Transmit};
use crate::work::Work;

impl Net {
    pub(crate) fn send(
        &mut self,
        id: SocketId,
        to: Endpoint,
        payload: &[u8],
        now: Instant,
    ) -> Result<(), SendError> {
        let Some(Some(Descriptor::Udp(socket))) = self.sockets.get_mut(id.0 as usize) else {
            return Err(SendError::NoAddress);
        };
        let address = socket.address.filter(|a| !a.is_multicast());
        let source = Source { address, port: socket.port, ..Source::default() };
        self.work.add(Work::Output);
        let mut io = Io { now, pool: &mut self.pool, ledger: &mut self.ledger, out: &mut self.out };
        self.stack.send_udp(source, to, payload, &mut io)?;
        socket.counters.sent += 1;
        Ok(())
    }

    /// Puts frames that protocol work has produced into the output queues, and hands them to the interfaces. To be called at the end of
    /// every unit.
    pub(crate) fn transmit(&mut self, now: Instant) {
        if self.out.is_empty() {
            return;
        }
        while let Some((id, frame)) = self.out.pop_front() {
            self.enqueue_output(id, frame, now);
        }
        self.start_all(now);
    }

    fn start_all(&mut self, now: Instant) {
        for index in 0..self.interfaces.len() {
            self.start_output(index);
            self.interfaces[index].flush();
            if self.interfaces[index].stalled() {
                self.retry_output_at = self.retry_output_at.min(now + STALL_PERIOD);
            }
        }
    }

    /// Tries interfaces again that could not send.
    pub(super) fn retry_output(&mut self, now: Instant) {
        self.retry_output_at = Instant::NEVER;
        self.start_all(now);
    }

    fn enqueue_output(&mut self, id: InterfaceId, frame: Frame, now: Instant) {
        if self.config.listen_only {
            self.ledger.drop_output(LinkDrop::ListenOnly);
            return self.pool.recycle(frame);
        }
        if self.is_output_full(id) {
            // The last attempt before giving up: descriptors may be free that nobody has asked for yet.
            self.start_output(usize::from(id.0));
        }
        let full = self.is_output_full(id);
        if !full && !self.captures.is_empty() {
            self.sight_sent(id, &frame, now);
        }
        let Some(outlet) = self.outlets.get_mut(usize::from(id.0)) else { return self.pool.recycle(frame) };
        if full {
            self.ledger.drop_output(QueueDrop::Output);
            outlet.traffic.dropped += 1;
            self.pool.recycle(frame);
            self.poller.wasted();
        } else {
            outlet.queue.push_back(frame);
        }
        let waiting = outlet.queue.len();
        self.poller.enqueued(QueueId::Output(id), &mut outlet.gate, waiting, Sources::ALL, now);
    }

    /// Room in the output queues for what may still come in this unit. An interface that cannot send at all has room: what is sent there is lost, so that
    /// connections find out and fail in time, rather than wait for it without end.
    pub(super) fn output_room(&self) -> OutputRoom {
        let coming = self.out.len();
        let most = OUTPUT_PKTS.saturating_sub(coming);
        let (mut full, mut least) = (Lanes::NONE, None);
        for ((outlet, interface), id) in self.outlets.iter().zip(&self.interfaces).zip(0..) {
            let left = (outlet.limit_pkts * 3 / 4).saturating_sub(outlet.len() + coming);
            if left > 0 || interface.stalled() {
                let left = if left > 0 { left } else { most };
                least = Some(least.map_or(left, |least: usize| least.min(left)));
            } else {
                full = full.union(Lanes::one(InterfaceId(id).lane()));
            }
        }
        OutputRoom { full, pkts: least.map_or(0, |least| least.min(most)) }
    }

    fn is_output_full(&self, id: InterfaceId) -> bool {
        self.outlets.get(usize::from(id.0)).is_some_and(|outlet| outlet.len() >= outlet.limit_pkts)
    }

    /// Starts an interface, unless it is active and is to be left alone then.
    fn start_output(&mut self, index: usize) {
        if !(self.config.transmit == Transmit::Throughput && self.outlets[index].active) {
            self.hand_over(index);
        }
    }

    fn hand_over(&mut self, index: usize) {
        let (Some(outlet), Some(interface)) = (self.outlets.get_mut(index), self.interfaces.get_mut(index))
        else {
            return;
        };
        if outlet.queue.is_empty() {
            return;
        }
        let count = outlet.hand_over(&mut **interface, &mut self.pool);
        outlet.traffic.transmitted += count as u64;
        outlet.active |= count > 0 && interface.reports_sent();
        self.ledger.transmitted += count as u64;
        (0..count).for_each(|_| self.work.add(Work::Transmit));
        if outlet.gate.on_dequeue(outlet.queue.len()) {
            self.poller.resume(QueueId::Output(InterfaceId(index as u8)));
        }
    }

    /// The first half of the service of the transmit side: takes back the buffers of at most `limit` frames that have left.
    pub(super) fn reclaim_output(&mut self, id: InterfaceId, limit: usize) -> usize {
        let index = usize::from(id.0);
        let Some(interface) = self.interfaces.get_mut(index) else { return 0 };
        let reclaimed = interface.reclaim(&mut self.pool, limit);
        (0..reclaimed).for_each(|_| self.work.add(Work::Reclaim));
        reclaimed
    }

    /// The second half, when a callback or an interrupt handler is through with the first: hands over what waits. A callback may take many
    /// units of work; what it hands over in between would have left before it is through, and it would go on for ever.
    pub(super) fn restart_output(&mut self, id: InterfaceId) {
        let index = usize::from(id.0);
        if let Some(outlet) = self.outlets.get_mut(index) {
            outlet.active = false;
        }
        self.hand_over(index);
        if let Some(interface) = self.interfaces.get_mut(index) {
            interface.flush();
        }
    }

    /// What has passed through an interface.
    pub(crate) fn traffic(&self, id: InterfaceId) -> Option<Traffic> {
        let outlet = self.outlets.get(usize::from(id.0))?;
        Some(Traffic { queued: outlet.len() as u64, ..outlet.traffic })
    }

    pub(super) fn count_received(&mut self, id: InterfaceId, frames: u64) {
        self.ledger.received += frames;
        if let Some(outlet) = self.outlets.get_mut(usize::from(id.0)) {
            outlet.traffic.received += frames;
        }
    }

    /// Frames in output queues.
    pub(crate) fn output_queued(&self) -> u64 {
        self.outlets.iter().map(|outlet| outlet.len() as u64).sum()
    }

    /// Frames that have left, and whose buffers have not been taken back.
    pub(crate) fn unreclaimed(&self) -> u64 {
        self.interfaces.iter().map(|interface| interface.unreclaimed() as u64).sum()
    }
}
