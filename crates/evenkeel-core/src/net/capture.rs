//! Capture queues: sightings on the way in and out, and the calls that read them.

use super::{Net, QueueId};
use crate::capture::{Capture, CaptureCounters, CaptureQueue, Captured, Outcome, Shown, Sighting};
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

    /// Shows a received frame to all packet monitors. Where nobody else is to get it the last of them may keep what is in it: `frame` then
    /// is an empty one.
    pub(super) fn sight_received(
        &mut self,
        interface: InterfaceId,
        frame: &mut Frame,
        fed_by: Sources,
        now: Instant,
    ) {
        let copies = self.captures.len() - usize::from(self.config.listen_only && !self.captures.is_empty());
        for index in 0..self.captures.len() {
            let shown = if index < copies { Shown::ToCopy(frame) } else { Shown::ToKeep(frame) };
            self.show(index, Sighting { interface, at: now, sent: false, frame: shown }, fed_by);
        }
    }

    /// Shows a frame that is sent to all packet monitors.
    pub(super) fn sight_sent(&mut self, interface: InterfaceId, frame: &Frame, now: Instant) {
        for index in 0..self.captures.len() {
            let shown = Shown::ToCopy(frame);
            self.show(index, Sighting { interface, at: now, sent: true, frame: shown }, Sources::NONE);
        }
    }

    /// Shows a frame to one of the packet monitors. What is sent is fed by nothing that could be held back.
    fn show(&mut self, index: usize, sighting: Sighting<'_>, fed_by: Sources) {
        let Some(&id) = self.captures.get(index) else { return };
        let Some(Some(Descriptor::Capture(capture))) = self.sockets.get_mut(id.0 as usize) else { return };
        let now = sighting.at;
        let outcome = capture.see(sighting, &mut self.pool);
        if outcome == Outcome::NotShown {
            return;
        }
        self.work.add(Work::Filter);
        if outcome != Outcome::NotWanted {
            let (gate, waiting) = capture.queue.gate();
            self.poller.enqueued(QueueId::Socket(id), gate, waiting, self.config.scope(fed_by), now);
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
    }

    pub(crate) fn captured(&mut self, id: SocketId) -> Option<Captured> {
        self.last_read = Some(id);
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
