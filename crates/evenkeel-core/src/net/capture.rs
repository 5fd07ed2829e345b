//! Capture queues: sightings on the way in and out, and the calls that read them.

use super::{Net, QueueId};
use crate::capture::{Capture, CaptureCounters, CaptureQueue, Captured, Outcome, Sighting};
use crate::drop::{LinkDrop, QueueDrop};
use crate::frame::Frame;
use crate::poll::{Gate, Sources};
use crate::process::ProcessId;
use crate::socket::{BindError, Descriptor, Queue, SocketId};
use crate::stack::InterfaceId;
use crate::time::Instant;
use crate::work::Work;

impl Net {
    pub(crate) fn open_capture(&mut self, owner: ProcessId, wanted: Capture) -> Result<SocketId, BindError> {
        let limit = wanted.limit_pkts.max(1);
        self.pool.grow(limit).map_err(BindError::NoMemory)?;
        let gate = if wanted.feedback { self.gate(limit) } else { Gate::open() };
        let queue = Queue::new(limit, gate);
        let capture = CaptureQueue::new(owner, wanted, queue);
        let id = self.install_descriptor(Descriptor::Capture(capture));
        self.captures.push(id);
        Ok(id)
    }

    /// Shows a frame to all packet monitors.
    pub(super) fn sight(
        &mut self,
        interface: InterfaceId,
        frame: &Frame,
        fed_by: Option<Sources>,
        now: Instant,
    ) {
        for index in 0..self.captures.len() {
            let Some(&id) = self.captures.get(index) else { continue };
            let Some(Some(Descriptor::Capture(capture))) = self.sockets.get_mut(id.0 as usize) else {
                continue;
            };
            let sighting = Sighting { interface, at: now, sent: fed_by.is_none(), frame };
            let outcome = capture.see(sighting, &mut self.pool);
            if outcome == Outcome::NotShown {
                continue;
            }
            self.work.add(Work::Filter);
            let inhibits = match (outcome, fed_by) {
                (Outcome::NotWanted, _) | (_, None) => None,
                (_, Some(sources)) => capture.queue.inhibits(self.config.scope(sources)),
            };
            if outcome != Outcome::NotWanted {
                self.ledger.duplicated += 1;
            }
            match outcome {
                Outcome::NotShown | Outcome::NotWanted => {}
                Outcome::Full => self.ledger.drop_input(QueueDrop::Capture, 1),
                Outcome::NoBuffer => self.ledger.drop_input(LinkDrop::NoBuffer, 1),
                Outcome::Queued(waiter) => {
                    self.work.add(Work::Append);
                    waiter.into_iter().for_each(|waiter| self.wake(waiter));
                }
            }
            if let Some(sources) = inhibits {
                self.poller.inhibit(QueueId::Socket(id), sources, now);
            }
        }
    }

    pub(crate) fn captured(&mut self, id: SocketId) -> Option<Captured> {
        let Descriptor::Capture(capture) = self.descriptor_mut(id)? else { return None };
        let (captured, resume) = capture.queue.pop()?;
        capture.counters.delivered += 1;
        self.ledger.delivered += 1;
        self.work.add(Work::Deliver);
        if resume {
            self.poller.resume(QueueId::Socket(id));
        }
        Some(captured)
    }

    pub(crate) fn capture_counters(&self, id: SocketId) -> Option<CaptureCounters> {
        match self.sockets.get(id.0 as usize)?.as_ref()? {
            Descriptor::Capture(capture) => Some(capture.counters),
            Descriptor::Udp(_) | Descriptor::Screen(_) => None,
        }
    }
}
