//! The screening queue: packets in transit wait in it for the verdict of a process.

use std::collections::VecDeque;

use super::handle::handle;
use super::state::{System, there_was};
use crate::drop::QueueDrop;
use crate::id::{Fd, QueueId, SocketId};
use crate::net::Net;
use crate::offload::{FlowScope, FlowVerdict};
use crate::poll::Sources;
use crate::queue::Queue;
use crate::screen::Verdict;
use crate::socket::{BindError, Descriptor, Kind, ReceiveError, ScreenQueue, SocketCounters};
use crate::stack::{Received, Screened, Transit};
use crate::time::Instant;
use crate::work::Work;

/// The largest number of frames that one call takes from the forwarding channel.
const FRAMES_PER_CALL: usize = 64;

/// The screening queue. Every packet that the host is to forward waits in it for a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Screen(Fd);

handle!(Screen);

impl Screen {
    /// Opens the screening queue. From now on every packet that the host is to forward waits there for a
    /// verdict of this process. The queue holds at most `limit_pkts` packets. After the process has ended,
    /// nothing is forwarded until another process opens the queue.
    ///
    /// # Errors
    /// [`BindError::InUse`] if the screening queue is open already. [`BindError::NoMemory`] if the host's
    /// memory limit does not allow its packets. [`BindError::TooManyOpen`] if the process has reached its
    /// limit of descriptors.
    pub fn open(system: &mut System<'_>, limit_pkts: usize) -> Result<Self, BindError> {
        system.call();
        let System { net, process, .. } = system;
        if net.sockets.descriptors.screen_id().is_some() {
            return Err(BindError::InUse);
        }
        let limit = limit_pkts.max(1);
        net.pool.grow(2 * limit).map_err(BindError::NoMemory)?;
        let queue = Queue::new(limit, net.rx.gate(limit, &net.config));
        let judging = VecDeque::with_capacity(limit);
        let screen = ScreenQueue { owner: *process, queue, judging, counters: SocketCounters::default() };
        let installed = net.sockets.install(Descriptor::Screen(Box::new(screen)), &mut net.work);
        let id = installed.inspect_err(|_| net.pool.shrink(2 * limit))?;
        net.sockets.screened = true;
        Ok(Self(system.opened(id)))
    }

    /// Ends screening: drops the packets that wait for a verdict, and wakes the forwarding daemon. The daemon
    /// drops the packets in its channel.
    pub(super) fn closed(net: &mut Net, screen: ScreenQueue) {
        net.offloads.set_scope(None);
        net.pool.shrink(2 * screen.queue.limit());
        for transit in screen.judging.into_iter().chain(screen.queue.into_items()) {
            net.ledger.drop_input(QueueDrop::Closed, 1);
            transit.recycle(&mut net.pool);
        }
        let daemon = net.rx.channels.daemons().forwarder();
        daemon.into_iter().for_each(|daemon| net.sockets.ready.wakeups.wake_process(daemon));
    }

    /// Screens the next packet: calls `decide` with it, and applies the [`Verdict`].
    ///
    /// Under the lazy architectures this call does the IP input, and the caller is charged for it.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if no packet waits: return [`crate::process::Step::Wait`].
    /// [`ReceiveError::BadDescriptor`] if the descriptor is no screening queue of this process.
    pub fn decide(
        self,
        system: &mut System<'_>,
        decide: impl FnOnce(&Transit) -> Verdict,
    ) -> Result<(), ReceiveError> {
        self.decide_with(system, |screened| decide(screened.transit()))
    }

    /// Screens the next packet as [`Screen::decide`] does. `decide` may also look up the packet's addresses
    /// in the host's tables, and change the packet.
    ///
    /// # Errors
    /// [`ReceiveError`], as for [`Screen::decide`].
    pub fn decide_with(
        self,
        system: &mut System<'_>,
        decide: impl FnOnce(&mut Screened<'_>) -> Verdict,
    ) -> Result<(), ReceiveError> {
        let id = system.begin(self.0, Kind::Screen)?;
        let System { net, now, .. } = system;
        let mut transit = next_transit(net, id, *now).ok_or(ReceiveError::WouldBlock)?;
        if let Some(Descriptor::Screen(screen)) = net.sockets.descriptors.get_mut(id) {
            screen.counters.received += 1;
        }
        net.work.add(Work::Deliver);
        let due = net.offloads.count_screened(&transit);
        let mut screened = net.stack.screened(&mut transit, due.is_some());
        let verdict = decide(&mut screened);
        if let Some((flow, account)) = due.zip(screened.account()) {
            let passes = match verdict {
                Verdict::Pass => Some(true),
                Verdict::Drop => Some(false),
                Verdict::Reject | Verdict::Unreachable(_) | Verdict::Reset => None,
            };
            let verdict = passes.map(|passes| FlowVerdict { passes, account });
            let of_flow = (transit.interface(), &flow);
            verdict.into_iter().for_each(|verdict| net.offloads.judge(of_flow, verdict, &net.stack));
        }
        net.execute(transit, verdict, *now);
        Ok(())
    }

    /// Announces which fields of a packet the verdicts depend on that [`Screened::settle`] declares to hold
    /// for a flow. Everything that interfaces do by themselves is taken back, so this is also how a changed
    /// opinion takes effect.
    ///
    /// # Errors
    /// [`ReceiveError::BadDescriptor`] if the descriptor is no screening queue of this process.
    pub fn set_scope(self, system: &mut System<'_>, scope: FlowScope) -> Result<(), ReceiveError> {
        system.begin(self.0, Kind::Screen)?;
        system.net.offloads.set_scope(Some(scope));
        Ok(())
    }

    /// Calls `see` with the next packet, and keeps the packet for a later verdict through [`Screen::judge`].
    ///
    /// Use it if another thread decides, so that the program cannot decide at once. Packets that are still
    /// kept when the process ends are dropped.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if no packet waits, or if the queue's limit of packets is kept already.
    /// [`ReceiveError::BadDescriptor`] if the descriptor is no screening queue of this process.
    pub fn show(self, system: &mut System<'_>, see: impl FnOnce(&Transit)) -> Result<(), ReceiveError> {
        let id = system.begin(self.0, Kind::Screen)?;
        let System { net, now, .. } = system;
        let has_room = |screen: &ScreenQueue| screen.judging.len() < screen.queue.limit();
        there_was(net.sockets.descriptors.screen().is_some_and(has_room))?;
        let transit = next_transit(net, id, *now).ok_or(ReceiveError::WouldBlock)?;
        net.work.add(Work::Deliver);
        see(&transit);
        if let Some(Descriptor::Screen(screen)) = net.sockets.descriptors.get_mut(id) {
            screen.judging.push_back(transit);
        }
        Ok(())
    }

    /// Applies a verdict to the oldest packet that [`Screen::show`] has kept.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if no packet is kept. [`ReceiveError::BadDescriptor`] if the descriptor
    /// is no screening queue of this process.
    pub fn judge(self, system: &mut System<'_>, verdict: Verdict) -> Result<(), ReceiveError> {
        let id = system.begin(self.0, Kind::Screen)?;
        let System { net, now, .. } = system;
        let shown = match net.sockets.descriptors.get_mut(id) {
            Some(Descriptor::Screen(screen)) => screen.judging.pop_front(),
            _ => None,
        };
        net.execute(shown.ok_or(ReceiveError::WouldBlock)?, verdict, *now);
        Ok(())
    }
}

/// Returns the next packet to be screened. Under the lazy architectures this function does the IP input, and
/// the screening process is charged for it.
fn next_transit(net: &mut Net, id: SocketId, now: Instant) -> Option<Transit> {
    net.sockets.last_read = Some(id);
    let Descriptor::Screen(screen) = net.sockets.descriptors.get_mut(id)? else { return None };
    if let Some((transit, resume)) = screen.queue.pop() {
        if resume {
            net.poller.resume(QueueId::Socket(id));
        }
        return Some(transit);
    }
    let channel = net.rx.channels.daemons().forward?;
    for _ in 0..FRAMES_PER_CALL {
        let Some(waiting) = net.take_from_channel(channel, now) else { break };
        net.keep_order(now);
        match net.input_frame(waiting, now) {
            Some(Received::Transit(transit)) => return Some(transit),
            // Its destination became ours while it waited.
            received => net.take_up(received, Sources::NONE, now),
        }
    }
    // Or too many frames in a row that are no packets to be screened: there may be more.
    net.readiness().found_empty(id);
    None
}
