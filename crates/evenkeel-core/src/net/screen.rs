//! The screening queue: packets to be forwarded wait in it for a process's verdict.

use std::collections::VecDeque;

use super::state::Net;
use crate::drop::QueueDrop;
use crate::id::{ProcessId, QueueId, SocketId};
use crate::poll::Sources;
use crate::queue::Queue;
use crate::ready::Kinds;
use crate::screen::Verdict;
use crate::socket::{BindError, Descriptor, Screen, SocketCounters};
use crate::stack::{Received, Reply, Screened, Transit};
use crate::time::Instant;
use crate::work::Work;

/// Frames of the forwarding channel that one call looks at, at most.
const FRAMES_PER_CALL: usize = 64;

impl Net {
    pub(crate) fn open_screen(&mut self, owner: ProcessId, limit_pkts: usize) -> Result<SocketId, BindError> {
        if self.sockets.descriptors.screen_id().is_some() {
            return Err(BindError::InUse);
        }
        let limit = limit_pkts.max(1);
        self.pool.grow(2 * limit).map_err(BindError::NoMemory)?;
        let queue = Queue::new(limit, self.rx.gate(limit, &self.config));
        let judging = VecDeque::with_capacity(limit);
        let screen = Screen { owner, queue, judging, counters: SocketCounters::default() };
        let installed = self.sockets.install(Descriptor::Screen(Box::new(screen)), &mut self.work);
        let id = installed.inspect_err(|_| self.pool.shrink(2 * limit))?;
        self.sockets.screened = true;
        Ok(id)
    }

    /// Forwards a packet for another host at once, or puts it into the screening queue.
    pub(super) fn transit(&mut self, transit: Transit, fed_by: Sources, now: Instant) {
        if !self.sockets.screened {
            return self.forward(transit, now);
        }
        let fed_by = self.config.scope(fed_by);
        let Some((id, screen)) = self.sockets.descriptors.screen_mut() else {
            // Whoever asked for screening is gone. Nothing passes until somebody screens again.
            self.ledger.drop_input(QueueDrop::Unscreened, 1);
            return transit.recycle(&mut self.pool);
        };
        self.work.add(Work::Screen);
        if screen.queue.has_room() {
            screen.queue.push(transit);
            self.sockets.ready.raise(id, Kinds::READABLE);
        } else {
            screen.counters.dropped += 1;
            self.ledger.drop_input(QueueDrop::Screen, 1);
            transit.recycle(&mut self.pool);
        }
        let (gate, waiting) = screen.queue.gate();
        self.poller.enqueued(QueueId::Socket(id), gate, waiting, fed_by, now);
    }

    /// Ends screening: drops the packets that wait for a verdict, and wakes the forwarding daemon, which
    /// drops those in its channel.
    pub(super) fn close_screen(&mut self, screen: Screen) {
        self.pool.shrink(2 * screen.queue.limit());
        for transit in screen.judging.into_iter().chain(screen.queue.into_items()) {
            self.ledger.drop_input(QueueDrop::Closed, 1);
            transit.recycle(&mut self.pool);
        }
        let daemon = self.rx.channels.daemons().forwarder();
        daemon.into_iter().for_each(|daemon| self.sockets.ready.wakeups.wake_process(daemon));
    }

    pub(super) fn forward(&mut self, transit: Transit, now: Instant) {
        self.work.add(Work::Forward);
        self.with_stack(now, |stack, io| stack.forward(transit, io));
    }

    /// Takes a packet from the screening queue and does with it as `decide` says. Returns whether there was
    /// one.
    pub(crate) fn screen(
        &mut self,
        id: SocketId,
        now: Instant,
        decide: impl FnOnce(&mut Screened<'_>) -> Verdict,
    ) -> bool {
        let Some(mut transit) = self.next_to_screen(id, now) else { return false };
        if let Some(Descriptor::Screen(screen)) = self.sockets.descriptors.get_mut(id) {
            screen.counters.received += 1;
        }
        self.work.add(Work::Deliver);
        let verdict = decide(&mut self.stack.screened(&mut transit));
        self.execute(transit, verdict, now);
        true
    }

    fn execute(&mut self, transit: Transit, verdict: Verdict, now: Instant) {
        let reply = match verdict {
            Verdict::Pass => return self.forward(transit, now),
            Verdict::Drop => Reply::Silence,
            Verdict::Reject => Reply::Prohibited,
            Verdict::Unreachable(code) => Reply::Unreachable(code),
            Verdict::Reset => Reply::Reset,
        };
        self.with_stack(now, |stack, io| stack.refuse_transit(transit, reply, io));
    }

    /// Takes a packet from the screening queue to be judged later, and shows it. Returns whether there was
    /// one, and room for it.
    pub(crate) fn show_screened(&mut self, id: SocketId, now: Instant, see: impl FnOnce(&Transit)) -> bool {
        let has_room = |screen: &Screen| screen.judging.len() < screen.queue.limit();
        let room = self.sockets.descriptors.screen().is_some_and(has_room);
        let Some(transit) = room.then(|| self.next_to_screen(id, now)).flatten() else { return false };
        self.work.add(Work::Deliver);
        see(&transit);
        if let Some(Descriptor::Screen(screen)) = self.sockets.descriptors.get_mut(id) {
            screen.judging.push_back(transit);
        }
        true
    }

    /// Applies a verdict to the packet that has been judged for longest. Returns whether there was one.
    pub(crate) fn judge_screened(&mut self, id: SocketId, verdict: Verdict, now: Instant) -> bool {
        let Some(Descriptor::Screen(screen)) = self.sockets.descriptors.get_mut(id) else { return false };
        let Some(transit) = screen.judging.pop_front() else { return false };
        self.execute(transit, verdict, now);
        true
    }

    /// Under the lazy architectures IP input happens here, on the bill of the process that screens.
    fn next_to_screen(&mut self, id: SocketId, now: Instant) -> Option<Transit> {
        self.sockets.last_read = Some(id);
        let Descriptor::Screen(screen) = self.sockets.descriptors.get_mut(id)? else { return None };
        if let Some((transit, resume)) = screen.queue.pop() {
            if resume {
                self.poller.resume(QueueId::Socket(id));
            }
            return Some(transit);
        }
        let channel = self.rx.channels.daemons().forward?;
        for _ in 0..FRAMES_PER_CALL {
            let Some(waiting) = self.take_from_channel(channel, now) else { break };
            self.keep_order(now);
            match self.input_frame(waiting, now) {
                Some(Received::Transit(transit)) => return Some(transit),
                // Its destination became ours while it waited.
                Some(Received::Datagram(datagram)) => self.dispatch(datagram, Sources::NONE, now),
                Some(Received::Segment(packet)) => self.segments(now).input(packet, None),
                Some(Received::IcmpError(error)) => self.segments(now).input_icmp_error(error),
                Some(Received::Control) | None => {}
            }
        }
        // Or too many frames in a row that are no packets to be screened: there may be more.
        self.readiness().found_empty(id);
        None
    }
}
