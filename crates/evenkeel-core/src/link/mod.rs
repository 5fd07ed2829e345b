//! Links: the interfaces of a host, the sides of them that it serves, and what waits to leave by each.
//!
//! Work items of the coordinator ask the links for frames. The coordinator decides what happens to a frame,
//! and which work item runs next.

mod moderation;
mod port;
mod traffic;
pub(crate) mod transmit;
mod untaken;

use std::collections::VecDeque;

use crate::config::{Config, TransmitService};
use crate::context::Cx;
use crate::drop::QueueDrop;
use crate::frame::{Frame, PoolLimit};
use crate::id::{ChannelId, InterfaceId, QueueId};
use crate::interface::{Demultiplexer, Flows, Interface, Properties, RxQueue, TxQueue};
use crate::ledger::Ledger;
use crate::poll::{Gate, Poller, SourceId, Sources};
use crate::receive::{DeviceWork, ReceivePath};
use crate::refuser::Refuser;
use crate::segmentation::Segmentation;
use crate::tcp::Fault;
use crate::tcp::endpoint::{Egress, EgressSet};
use crate::time::{Duration, Instant};
use crate::work::Work;

use moderation::{Flags, Moderation};
use port::{End, Polled};
pub(crate) use port::{Port, Side, Taken};
pub(crate) use traffic::RingTraffic;
pub(crate) use transmit::OutputRoom;
pub use transmit::Traffic;
use transmit::TransmitQueue;
pub use untaken::Untaken;

/// Frames for what one unit of work sends.
pub(crate) const OUTPUT_PKTS: usize = 256;
/// The longest time for which frames are batched before they are handed over.
const GATHER_PERIOD: Duration = Duration::from_micros(50);
/// An interface that cannot send, and will not say when it can, is tried again after this time.
const STALL_PERIOD: Duration = Duration::from_millis(1);

/// An interface could not be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddInterfaceError {
    /// `ni-lrp` was asked for, which needs an interface that demultiplexes. Choose `soft-lrp` for this one.
    CannotDemultiplex,
    /// The interface demultiplexes and has no receive rings, so the host cannot. Choose `ni-lrp` for this
    /// one.
    Demultiplexes,
    /// A lazy plan was requested on a host whose own architecture is not lazy, where no process would read
    /// the channels.
    NotLazy,
    /// The interface has fewer rings than the host has channels.
    NoRing,
    /// A host serves at most 64 receive rings and transmit sides.
    TooManyQueues,
    /// The host's memory limit does not allow its rings.
    NoMemory(PoolLimit),
    /// It cannot take the place of the other one: they have not as many rings, or the other demultiplexes.
    CannotReplace,
}

impl core::fmt::Display for AddInterfaceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::CannotDemultiplex => f.write_str(
                "ni-lrp needs an interface that demultiplexes by itself; use soft-lrp on this one",
            ),
            Self::Demultiplexes => {
                f.write_str("the interface demultiplexes by itself; use ni-lrp on this one")
            }
            Self::NotLazy => f.write_str("only a host with soft-lrp or ni-lrp can use these on an interface"),
            Self::NoRing => f.write_str("the interface has not enough rings for the sockets that are open"),
            Self::TooManyQueues => {
                write!(f, "a host serves at most {} receive rings and transmit sides", Sources::MAX)
            }
            Self::NoMemory(limit) => limit.fmt(f),
            Self::CannotReplace => f.write_str("one that has other rings cannot take its place"),
        }
    }
}

impl core::error::Error for AddInterfaceError {}

impl AddInterfaceError {
    /// Whose fault it is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::CannotDemultiplex | Self::Demultiplexes | Self::NotLazy | Self::CannotReplace => {
                Fault::Misuse
            }
            Self::NoRing | Self::TooManyQueues | Self::NoMemory(_) => Fault::Limit,
        }
    }
}

/// An interface with its place in the host.
#[derive(Debug)]
struct Link {
    interface: Box<dyn Interface>,
    /// The interface's demultiplexer, if its frames are received through that.
    demultiplexer: Option<Box<dyn Demultiplexer>>,
    /// The part of the interface that refuses frames for full channels, if the host demultiplexes.
    refuser: Option<Box<dyn Refuser>>,
    plan: ReceivePath,
    /// Whether large segments leave by it whole.
    takes_large: bool,
    output: TransmitQueue,
    /// Frames taken from its receive rings.
    received: u64,
    /// Frames shed by rings of closed channels, or dropped by devices that this one has replaced.
    untaken: Untaken,
}

/// The links of a host.
#[derive(Debug)]
pub(crate) struct Links {
    /// By the number of the interface.
    links: Vec<Link>,
    /// By the number of their source.
    ports: Vec<Port>,
    /// Of each port that is a receive ring: whose traffic comes by it.
    traffic: Vec<RingTraffic>,
    next_port_served: u16,
    /// Those of interfaces that never have anything to say: they send at once.
    silent: Sources,
    /// The number of interfaces that demultiplex.
    demultiplexing: usize,
    /// Of the interfaces that demultiplex, the one whose channels interrupt next.
    next_interface_served: usize,
    /// Sources that neither feedback nor the cycle limit pauses, because their driver does its work in the
    /// interrupt.
    unlimited: Sources,
    moderation: Option<Box<Moderation>>,
    polled: Option<Polled>,
    /// The frames that the current work item sends.
    out: VecDeque<(InterfaceId, Frame)>,
    /// The time when waiting frames are handed over without a notification: frames in a batch, and frames
    /// that an interface could not send.
    next_start: Instant,
    /// Whether frames are batched in a transmit queue.
    coalesces: bool,
    /// Device interrupts taken.
    interrupts: u64,
}

impl Links {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            links: Vec::new(),
            ports: Vec::new(),
            traffic: Vec::new(),
            next_port_served: 0,
            silent: Sources::NONE,
            demultiplexing: 0,
            next_interface_served: 0,
            unlimited: Sources::NONE,
            moderation: Moderation::of(config),
            polled: None,
            out: VecDeque::with_capacity(OUTPUT_PKTS),
            next_start: Instant::NEVER,
            coalesces: false,
            interrupts: 0,
        }
    }

    // --- Interfaces ---

    /// Adds an interface that is attached, whose frames are received as `plan` says, and registers its ports.
    /// `gate` is its transmit queue's, whose buffers are reserved. `None` if there are [not enough
    /// ports](Self::has_ports_for).
    pub(crate) fn add(
        &mut self,
        interface: Box<dyn Interface>,
        demultiplexer: Option<Box<dyn Demultiplexer>>,
        plan: ReceivePath,
        gate: Gate,
        config: &Config,
        poller: &mut Poller<QueueId>,
    ) -> Option<InterfaceId> {
        let id = self.next_id();
        let limit = config.transmit_queue_pkts();
        let queues = interface.properties().queues;
        let output = TransmitQueue::new(limit, gate, config.paper_policies.transmit);
        self.demultiplexing += usize::from(plan.is_on_interface());
        self.links.push(Link {
            interface,
            demultiplexer,
            refuser: None,
            plan,
            takes_large: false,
            output,
            received: 0,
            untaken: Untaken::default(),
        });
        for side in (0..queues).map(Side::Receive).chain([Side::Transmit]) {
            let source = poller.register(side != Side::Transmit)?;
            // The host demultiplexes the frames of rings that channels share.
            let is_shared = plan.is_on_interface() && side != Side::Transmit;
            let plan = if is_shared { config.plan_for(false) } else { plan };
            if plan.device == DeviceWork::Interrupt && !config.paper_policies.limit_interrupts {
                self.unlimited = self.unlimited.union(Sources::one(source));
            }
            self.ports.push(Port { interface: id, side, source, plan });
            self.traffic.push(RingTraffic::default());
            self.find_silent();
            if let Some(flags) = self.moderation.as_mut().and_then(|moderation| moderation.flags.as_mut()) {
                flags.add();
            }
        }
        Some(id)
    }

    /// Returns whether an interface may replace another: the host demultiplexes the frames of the earlier
    /// one, and so those of its successor, and both have the same number of receive queues.
    pub(crate) fn can_replace(&self, id: InterfaceId, interface: &dyn Interface) -> bool {
        let queues = interface.properties().queues;
        let alike =
            |link: &Link| !link.plan.is_on_interface() && link.interface.properties().queues == queues;
        self.link(id).is_some_and(alike)
    }

    /// Puts an interface that is attached in the place of another, and gives that back.
    pub(crate) fn replace(
        &mut self,
        id: InterfaceId,
        interface: Box<dyn Interface>,
    ) -> Option<Box<dyn Interface>> {
        let link = self.links.get_mut(usize::from(id.0))?;
        let earlier = core::mem::replace(&mut link.interface, interface);
        earlier.dropped().into_iter().for_each(|(reason, frames)| link.untaken.drop(reason, frames));
        self.find_silent();
        let link = self.links.get_mut(usize::from(id.0))?;
        // What the earlier one was sending, nobody will say any more that it has left.
        link.output.sent();
        if let Some(flags) = self.moderation.as_mut().and_then(|moderation| moderation.flags.as_mut()) {
            for port in self.ports.iter().filter(|port| port.interface == id) {
                flags.note(port.source, 0);
            }
        }
        Some(earlier)
    }

    /// Sets whether large segments leave by an interface whole.
    pub(crate) fn set_segmentation(&mut self, id: InterfaceId, segmentation: Option<Segmentation>) {
        if let Some(link) = self.links.get_mut(usize::from(id.0)) {
            link.takes_large = segmentation.is_some();
        }
    }

    /// Returns whether large segments leave by an interface whole.
    pub(crate) fn takes_large(&self, id: InterfaceId) -> bool {
        self.link(id).is_some_and(|link| link.takes_large)
    }

    /// Finds the transmit sides that never interrupt.
    fn find_silent(&mut self) {
        let is_silent = |port: &&Port| {
            port.is_transmit()
                && self.link(port.interface).is_none_or(|link| link.interface.unreclaimed().is_none())
        };
        let silent = self.ports.iter().filter(is_silent);
        self.silent = silent.fold(Sources::NONE, |all, port| all.union(Sources::one(port.source)));
    }

    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// Returns where frames of a channel wait: whether in the host's own queue, and in how many rings on
    /// interfaces.
    pub(crate) fn places(&self) -> (bool, usize) {
        (self.links.is_empty() || self.links.iter().any(Link::has_rings), self.demultiplexing)
    }

    /// Returns the result of [`Links::places`] if one more interface with `queues` receive rings were added
    /// that is received from as `plan` says.
    pub(crate) fn places_with(&self, plan: ReceivePath, queues: usize) -> (bool, usize) {
        let rings = self.demultiplexing + usize::from(plan.is_on_interface());
        (queues > 0 || self.links.iter().any(Link::has_rings), rings)
    }

    /// Returns whether any interface demultiplexes.
    pub(crate) const fn has_demultiplexer(&self) -> bool {
        self.demultiplexing > 0
    }

    /// Returns whether the interface of `egress` demultiplexes.
    pub(crate) fn demultiplexes(&self, egress: Egress) -> bool {
        let mut links = self.links.iter().zip(0..);
        links.any(|(link, number)| link.plan.is_on_interface() && InterfaceId(number).egress() == egress)
    }

    /// Returns the flows whose frames arrive at this host by the interface `id`.
    pub(crate) fn flows(&self, id: InterfaceId) -> Flows {
        self.link(id).map_or(Flows::All, |link| link.interface.properties().flows)
    }

    /// Returns whether there is an interface whose frames the host puts into channels.
    pub(crate) fn has_host_channels(&self) -> bool {
        self.links.iter().any(|link| link.plan.is_lazy() && link.has_rings())
    }

    /// Returns the number that the next interface gets.
    pub(crate) fn next_id(&self) -> InterfaceId {
        InterfaceId(self.links.len() as u8)
    }

    /// Returns whether an interface with `queues` receive rings can be added.
    fn has_ports_for(&self, queues: usize) -> bool {
        self.ports.len() + queues < Sources::MAX
    }

    /// Checks that a host that follows `host` can follow `plan` with one more interface, which has `queues`
    /// receive rings and may demultiplex.
    pub(crate) fn check_plan(
        &self,
        plan: ReceivePath,
        host: ReceivePath,
        queues: usize,
        demultiplexes: bool,
    ) -> Result<(), AddInterfaceError> {
        if !self.has_ports_for(queues) {
            return Err(AddInterfaceError::TooManyQueues);
        }
        match (plan.is_on_interface(), demultiplexes) {
            (true, false) => Err(AddInterfaceError::CannotDemultiplex),
            (false, true) if queues == 0 => Err(AddInterfaceError::Demultiplexes),
            _ if plan.is_lazy() && !host.is_lazy() => Err(AddInterfaceError::NotLazy),
            _ => Ok(()),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn Interface> {
        self.links.iter().map(|link| &*link.interface)
    }

    pub(crate) fn interfaces_mut(&mut self) -> impl Iterator<Item = &mut (dyn Interface + 'static)> {
        self.links.iter_mut().map(|link| &mut *link.interface)
    }

    pub(crate) fn interface_mut(&mut self, id: InterfaceId) -> Option<&mut (dyn Interface + 'static)> {
        Some(&mut *self.link_mut(id)?.interface)
    }

    pub(crate) fn properties(&self, id: InterfaceId) -> Option<&Properties> {
        self.link(id).map(|link| link.interface.properties())
    }

    fn link(&self, id: InterfaceId) -> Option<&Link> {
        self.links.get(usize::from(id.0))
    }

    fn link_mut(&mut self, id: InterfaceId) -> Option<&mut Link> {
        self.links.get_mut(usize::from(id.0))
    }

    /// Returns the interfaces that put frames into channels themselves, each with its demultiplexer.
    pub(crate) fn demultiplexers(
        &mut self,
    ) -> impl Iterator<Item = (InterfaceId, &mut (dyn Demultiplexer + 'static))> {
        self.links
            .iter_mut()
            .zip(0..)
            .filter_map(|(link, number)| Some((InterfaceId(number), &mut **link.demultiplexer.as_mut()?)))
    }

    /// Returns the interfaces that refuse frames for full channels, each with its part that does.
    pub(crate) fn refusers(&mut self) -> impl Iterator<Item = (InterfaceId, &mut (dyn Refuser + 'static))> {
        self.links
            .iter_mut()
            .zip(0..)
            .filter_map(|(link, number)| Some((InterfaceId(number), &mut **link.refuser.as_mut()?)))
    }

    /// Returns the part of an interface that refuses frames, if it has one.
    pub(crate) fn refuser(&mut self, id: InterfaceId) -> Option<&mut (dyn Refuser + 'static)> {
        self.link_mut(id)?.refuser.as_deref_mut()
    }

    /// Asks an interface for its part that refuses frames, in place of an earlier device's, if the host
    /// demultiplexes the frames of the interface.
    pub(crate) fn find_refuser(&mut self, id: InterfaceId) {
        if let Some(link) = self.link_mut(id) {
            let is_of_use = link.plan.is_lazy() && !link.plan.is_on_interface();
            link.refuser = if is_of_use { link.interface.refuser() } else { None };
        }
    }

    /// Returns the counters of an interface's traffic. `None` if there is no such interface.
    pub(crate) fn traffic(&self, id: InterfaceId) -> Option<Traffic> {
        let link = self.link(id)?;
        Some(Traffic { received: link.received, ..link.output.traffic() })
    }

    /// Records that a channel is closed, with its ring on an interface.
    pub(crate) fn count_closed_ring(&mut self, id: InterfaceId, ring: &dyn RxQueue) {
        if let Some(link) = self.link_mut(id) {
            link.untaken.add_closed_ring(ring);
        }
    }

    /// Returns the frames of an interface that the host has not taken, without those of channels' rings.
    pub(crate) fn untaken(&self, id: InterfaceId) -> Untaken {
        let Some(link) = self.link(id) else { return Untaken::default() };
        let mut untaken = link.untaken.clone();
        link.rings().for_each(|ring| untaken.add_ring(ring));
        link.interface.dropped().into_iter().for_each(|(reason, frames)| untaken.drop(reason, frames));
        untaken
    }

    /// Returns the number of device interrupts taken.
    pub(crate) const fn interrupts(&self) -> u64 {
        self.interrupts
    }

    /// Returns the number of frames in receive rings.
    pub(crate) fn pending(&self) -> usize {
        self.rings().map(RxQueue::pending).sum()
    }

    /// Returns the number of frames that receive rings buffer and do not yet show as pending.
    pub(crate) fn buffered(&self) -> u64 {
        self.rings().map(<dyn RxQueue>::buffered).sum()
    }

    fn rings(&self) -> impl Iterator<Item = &dyn RxQueue> {
        self.links.iter().flat_map(Link::rings)
    }

    // --- Time ---

    /// Returns when clocked interrupts tick next; [`Instant::NEVER`] if they are off.
    #[inline]
    pub(crate) fn next_tick(&self) -> Instant {
        self.clocked().map_or(Instant::NEVER, moderation::Clocked::next_tick)
    }

    /// Processes the tick of clocked interrupts, or a poll.
    pub(crate) fn tick(&mut self, now: Instant) {
        let asking = self.asking();
        self.clocked_mut(|clocked| clocked.tick(asking, now));
    }

    /// Returns the sources that have a reason to interrupt.
    fn asking(&self) -> Sources {
        let asking = self.ports.iter().filter(|&&port| self.asks(port));
        asking.fold(Sources::NONE, |all, port| all.union(Sources::one(port.source)))
    }

    /// Records that the core is idle. If interfaces are polled while the core is busy, interrupts are on
    /// from now on. Returns whether that changed anything.
    #[inline]
    pub(crate) fn enter_idle(&mut self) -> bool {
        if self.moderation.is_none() || !self.polls() {
            return false;
        }
        self.clocked_mut(moderation::Clocked::enter_idle);
        true
    }

    /// Records that the core has work. If interfaces are polled on a busy core, polling begins.
    #[inline]
    pub(crate) fn leave_idle(&mut self, now: Instant) {
        if self.moderation.is_none() || !self.clocked().is_some_and(moderation::Clocked::is_off) {
            return;
        }
        let asking = self.asking();
        self.clocked_mut(|clocked| clocked.leave_idle(asking, now));
    }

    /// Returns whether interfaces are polled at the moment, and would not be if the core were idle.
    fn polls(&self) -> bool {
        self.clocked().is_some_and(|clocked| clocked.is_off_when_idle() && !clocked.is_off())
    }

    /// Returns when the batched frames are handed over, and when an interface that could not send is tried
    /// again.
    #[inline]
    pub(crate) const fn next_start(&self) -> Instant {
        self.next_start
    }

    /// Returns whether frames are batched in a transmit queue.
    #[inline]
    pub(crate) const fn coalesces(&self) -> bool {
        self.coalesces
    }

    #[inline]
    fn clocked(&self) -> Option<&moderation::Clocked> {
        self.moderation.as_ref().and_then(|moderation| moderation.clocked.as_ref())
    }

    fn clocked_mut<T>(&mut self, with: impl FnOnce(&mut moderation::Clocked) -> T) -> Option<T> {
        self.moderation.as_mut().and_then(|moderation| moderation.clocked.as_mut()).map(with)
    }

    // --- Interrupts ---

    /// Returns the sources whose interrupts are enabled. A polled source interrupts only between two
    /// polling episodes. Drivers that do not poll are never paused.
    fn enabled(&self, poller: &Poller<QueueId>) -> Sources {
        poller.may_interrupt().union(self.unlimited).without(self.silent)
    }

    /// Returns the port whose interrupt is taken next. Ports take turns.
    #[inline]
    pub(crate) fn interrupting_port(&self, poller: &Poller<QueueId>) -> Option<usize> {
        let enabled = self.enabled(poller);
        let Some(moderation) = &self.moderation else {
            return self.next_port(enabled, |port| self.waiting(port) > 0);
        };
        let enabled = enabled.and(moderation.may_interrupt());
        let next = |sources: Sources| self.next_port(sources, |port| self.asks(port));
        let (receive, transmit) = (enabled.and(poller.inputs()), enabled.without(poller.inputs()));
        match moderation.service {
            TransmitService::InTurn => next(enabled),
            TransmitService::ReceiveFirst => next(receive).or_else(|| next(transmit)),
            TransmitService::LowerLevel => next(receive),
        }
    }

    /// Returns the port whose interrupt would be taken next if the core were idle. `None` unless interfaces
    /// are polled now and would not be on an idle core.
    #[inline]
    pub(crate) fn interrupting_port_when_idle(&self, poller: &Poller<QueueId>) -> Option<usize> {
        if self.moderation.is_none() || !self.polls() {
            return None;
        }
        self.next_port(self.enabled(poller), |port| self.asks(port))
    }

    /// Returns the port whose interrupt is taken next at a lower level, if there is such a level.
    #[inline(always)]
    pub(crate) fn low_interrupting_port(&self, poller: &Poller<QueueId>) -> Option<usize> {
        let moderation = self.moderation.as_ref()?;
        if moderation.service != TransmitService::LowerLevel {
            return None;
        }
        let transmit = self.enabled(poller).and(moderation.may_interrupt()).without(poller.inputs());
        self.next_port(transmit, |port| self.asks(port))
    }

    fn next_port(&self, mut sources: Sources, asks: impl Fn(Port) -> bool) -> Option<usize> {
        while let Some(source) = sources.next(self.next_port_served) {
            let index = usize::from(source.0);
            if self.ports.get(index).copied().is_some_and(&asks) {
                return Some(index);
            }
            sources = sources.without(Sources::one(source));
        }
        None
    }

    /// Returns the number of frames that a port has work with.
    fn waiting(&self, port: Port) -> usize {
        let Some(link) = self.link(port.interface) else { return 0 };
        match port.side {
            Side::Receive(queue) => link.interface.queue(queue).pending(),
            Side::Transmit => link.interface.unreclaimed().unwrap_or(0),
        }
    }

    /// Returns the number of frames that a port's ring had no room for.
    fn missed(&self, port: Port) -> u64 {
        match (port.side, self.link(port.interface)) {
            (Side::Receive(queue), Some(link)) => link.interface.queue(queue).missed(),
            _ => 0,
        }
    }

    /// Returns whether a port has a reason to interrupt: waiting frames, or new ones if its handler only
    /// sets a flag.
    fn asks(&self, port: Port) -> bool {
        match self.flags(port) {
            Some(flags) => self.come(port) > flags.last_count(port.source),
            None => self.waiting(port) > 0,
        }
    }

    /// Returns the number of frames that wait at a port, plus those that its ring had no room for. Both are
    /// reasons to interrupt.
    fn come(&self, port: Port) -> u64 {
        self.waiting(port) as u64 + self.missed(port)
    }

    /// Returns the flags of the handlers, if the handler of the port only sets a flag.
    fn flags(&self, port: Port) -> Option<&Flags> {
        self.moderation.as_ref()?.flags.as_ref().filter(|_| port.is_polled())
    }

    fn flags_mut(&mut self) -> Option<&mut Flags> {
        self.moderation.as_mut()?.flags.as_mut()
    }

    /// Returns whether the interrupt of a port only starts the polling thread.
    pub(crate) fn is_polled(&self, index: usize) -> bool {
        self.ports.get(index).is_some_and(|port| port.is_polled())
    }

    /// Processes the interrupt of a port. Returns the port if its device work is to be done in the handler,
    /// and not by the polling thread.
    pub(crate) fn interrupt(&mut self, index: usize, cx: &mut Cx<'_>) -> Option<Port> {
        let port = *self.ports.get(index)?;
        self.next_port_served = port.source.0 + 1;
        let is_new = self.moderation.is_none()
            || self.clocked_mut(|clocked| clocked.enter(port.source)).unwrap_or(true);
        if is_new {
            cx.work.add(Work::Interrupt);
            self.interrupts += 1;
        }
        if !port.is_polled() {
            self.clocked_mut(|clocked| clocked.serve(port.source));
            return Some(port);
        }
        self.clocked_mut(|clocked| clocked.settle(port.source));
        cx.poller.interrupt(port.source);
        if self.flags(port).is_some() {
            let come = self.come(port);
            self.flags_mut().into_iter().for_each(|flags| flags.note(port.source, come));
        }
        None
    }

    /// Records that a handler has done its device work.
    pub(crate) fn interrupt_served(&mut self, port: Port, cx: &mut Cx<'_>) {
        if port.is_transmit() {
            self.restart(port.interface, cx);
        }
        cx.poller.callback_over(port.source);
    }

    /// Records that the handler returns, after its time has passed.
    #[inline]
    pub(crate) fn finish_interrupt(&mut self) {
        if self.moderation.is_none() {
            return;
        }
        let Some(source) = self.clocked_mut(moderation::Clocked::leave).flatten() else { return };
        if self.ports.get(usize::from(source.0)).is_some_and(|&port| !self.asks(port)) {
            self.clocked_mut(|clocked| clocked.settle(source));
        }
    }

    /// Enables every interrupt. Returns whether something is pending after all.
    pub(crate) fn arm(&mut self, poller: &Poller<QueueId>) -> bool {
        if self.clocked().is_some_and(|clocked| !clocked.is_off_when_idle()) {
            return false;
        }
        let armed = self.enabled(poller);
        let mut pending = false;
        for port in &self.ports {
            if let Side::Receive(queue) = port.side
                && armed.contains(port.source)
                && let Some(link) = self.links.get_mut(usize::from(port.interface.0))
            {
                pending |= link.interface.queue_mut(queue).arm();
            }
        }
        pending
    }

    /// Returns whether a channel on an interface interrupts.
    pub(crate) fn has_channel_interrupt(&self) -> bool {
        self.demultiplexing > 0
            && self.links.iter().filter_map(|link| link.demultiplexer.as_ref()).any(|it| it.has_interrupt())
    }

    /// Returns the next channel that interrupts. Interfaces take turns.
    pub(crate) fn next_channel_interrupt(&mut self) -> Option<ChannelId> {
        for _ in 0..self.links.len() {
            let next = self.next_interface_served % self.links.len();
            self.next_interface_served = next + 1;
            let link = self.links.get_mut(next)?;
            let interrupt = link.demultiplexer.as_mut().and_then(|d| d.interrupt());
            if interrupt.is_some() {
                return interrupt;
            }
        }
        None
    }

    // --- The polling thread ---

    /// Returns the port to serve now, and the number of frames that may still be taken from it.
    pub(crate) fn begin_poll(&self, cx: &mut Cx<'_>) -> Option<(Port, usize)> {
        let (source, left, begins) = cx.poller.turn(cx.now)?;
        if begins {
            cx.work.add(Work::PollRound);
        }
        Some((*self.ports.get(usize::from(source.0))?, left))
    }

    /// Records the frames `taken` in a poll of a port, whose quota had `left` frames and which was to give
    /// at most `limit`.
    pub(crate) fn end_poll(&mut self, port: Port, left: usize, limit: usize, taken: Taken, cx: &mut Cx<'_>) {
        let Taken { done, discarded, full } = taken;
        let end = if done >= left {
            End::UsedUp
        } else if done >= limit || self.stops(port, cx.poller) {
            End::Open
        } else {
            End::Empty
        };
        if port.is_transmit() && (end != End::Open || self.waiting(port) == 0) {
            self.restart(port.interface, cx);
        }
        if let Some(flags) = self.flags_mut() {
            flags.taken(port.source, done);
        }
        self.polled = Some(Polled { port, done, discarded, full, end });
    }

    /// Returns what of the time that has passed in the turn it spent on frames that were discarded, from
    /// which source they came, and the channel that was full.
    pub(crate) fn spent_on_discards(
        &self,
        elapsed: Duration,
    ) -> Option<(SourceId, Duration, Option<ChannelId>)> {
        let Polled { port, done, discarded, full, .. } = self.polled.filter(|polled| polled.discarded > 0)?;
        Some((port.source, elapsed * discarded as u32 / done.max(1) as u32, full))
    }

    /// Ends a poll when its time has passed. A callback that used its quota stays marked (TOCS 1997,
    /// section 6.4), and so does one that may go on while frames wait. Otherwise the source gets its
    /// interrupt back.
    pub(crate) fn finish_poll(&mut self, poller: &mut Poller<QueueId>, now: Instant) {
        let Some(Polled { port, done, discarded, full, end }) = self.polled.take() else { return };
        let more = end == End::UsedUp || (end == End::Open && self.waiting(port) > 0);
        if discarded > 0 && poller.takes_extra() && !self.keeps_up(port, done, more, now) {
            poller.keep_to_share();
        }
        if full.is_some() && !more {
            poller.gather(port.source, now);
        }
        // Asking what the ring had no room for may take a system call.
        if !more && self.flags(port).is_some() {
            // The flag is cleared: what has come since it was looked at interrupts again.
            let missed = self.missed(port);
            self.flags_mut().into_iter().for_each(|flags| flags.note(port.source, missed));
        }
        poller.served(port.source, done, more, now);
    }

    /// Returns whether the ring of a port is read as fast as it fills, while frames of it are discarded.
    fn keeps_up(&mut self, port: Port, done: usize, more: bool, now: Instant) -> bool {
        let Side::Receive(queue) = port.side else { return true };
        let Self { links, traffic, .. } = self;
        let Some(link) = links.get(usize::from(port.interface.0)) else { return true };
        let Some(traffic) = traffic.get_mut(usize::from(port.source.0)) else { return true };
        traffic.keeps_up(done, more, now, || link.interface.queue(queue).missed_by_now())
    }

    /// Returns whether feedback or a limit stops the port now, so that nothing more is to be taken from it.
    /// A driver that does its work in the interrupt is never stopped.
    #[inline]
    pub(crate) fn stops(&self, port: Port, poller: &Poller<QueueId>) -> bool {
        poller.stops(port.source) && !self.unlimited.contains(port.source)
    }

    /// Returns the source of a port, if feedback or a limit may pause it; the empty set otherwise.
    pub(crate) fn throttled(&self, port: Port) -> Sources {
        Sources::one(port.source).without(self.unlimited)
    }

    // --- Input ---

    /// Returns the ring of a port, to take frames from, and its recent traffic.
    #[inline]
    pub(crate) fn ring(&mut self, port: Port, queue: usize) -> Option<(&mut dyn RxQueue, &mut RingTraffic)> {
        let Self { links, traffic, .. } = self;
        let link = links.get_mut(usize::from(port.interface.0))?;
        Some((link.interface.queue_mut(queue), traffic.get_mut(usize::from(port.source.0))?))
    }

    /// Counts frames that came by an interface.
    pub(crate) fn count_received(&mut self, id: InterfaceId, frames: u64, ledger: &mut Ledger) {
        ledger.received += frames;
        if self.moderation.is_some() {
            self.clocked_mut(|clocked| clocked.taken(frames as usize));
        }
        if let Some(link) = self.link_mut(id) {
            link.received += frames;
        }
    }

    // --- Output ---

    /// Returns the frames that the current work item sends, to append to.
    pub(crate) const fn out(&mut self) -> &mut VecDeque<(InterfaceId, Frame)> {
        &mut self.out
    }

    /// Returns whether the transmit queue of an interface has room. If it is full, first hands frames over
    /// to the interface.
    #[inline]
    pub(crate) fn make_room(&mut self, id: InterfaceId, cx: &mut Cx<'_>) -> bool {
        let Some(link) = self.links.get_mut(usize::from(id.0)) else { return false };
        if link.output.is_full() {
            // The last attempt before giving up: descriptors may be free that nobody has asked for yet.
            link.start(id, cx);
        }
        !link.output.is_full()
    }

    /// Puts a frame into the transmit queue of an interface, or drops it if that is full.
    pub(crate) fn enqueue(&mut self, id: InterfaceId, frame: Frame, cx: &mut Cx<'_>) {
        let Some(link) = self.links.get_mut(usize::from(id.0)) else { return cx.pool.recycle(frame) };
        if let Err(frame) = link.output.push(frame) {
            cx.ledger.drop_output(QueueDrop::Output);
            cx.pool.recycle(frame);
            cx.poller.wasted();
        }
        let waiting = link.output.len();
        cx.poller.enqueued(QueueId::Output(id), link.output.gate(), waiting, Sources::ALL, cx.now);
    }

    /// Hands over to every interface what it has descriptors for. Those that cannot send, and will not say
    /// when they can, are tried again after a while.
    pub(crate) fn start_all(&mut self, cx: &mut Cx<'_>) {
        (self.next_start, self.coalesces) = (Instant::NEVER, false);
        self.start_if(|_| true, cx);
    }

    /// Hands over the transmit queues that hold a batch. Smaller numbers of frames wait for a while,
    /// because other work items follow soon.
    pub(crate) fn coalesce(&mut self, cx: &mut Cx<'_>) {
        self.start_if(Link::has_batch, cx);
        if self.links.iter().any(|link| !link.output.is_empty() && !link.has_batch()) {
            self.coalesces = true;
            self.next_start = self.next_start.min(cx.now + GATHER_PERIOD);
        }
    }

    fn start_if(&mut self, ready: impl Fn(&Link) -> bool, cx: &mut Cx<'_>) {
        for (link, number) in self.links.iter_mut().zip(0..).filter(|(link, _)| ready(link)) {
            link.start(InterfaceId(number), cx);
            if link.output.is_stalled() {
                self.next_start = self.next_start.min(cx.now + STALL_PERIOD);
            }
        }
    }

    /// Returns the room in the transmit queues for further frames of this work item. An interface that
    /// cannot send at all counts as having room: frames for it are lost, so that connections notice and
    /// fail in time instead of waiting without end.
    pub(crate) fn output_room(&self) -> OutputRoom {
        let sending = self.out.len();
        let most = OUTPUT_PKTS.saturating_sub(sending);
        let (mut full, mut least) = (EgressSet::NONE, None);
        for (link, id) in self.links.iter().zip(0..) {
            let left = (link.output.limit_pkts() * 3 / 4).saturating_sub(link.output.len() + sending);
            if left > 0 || link.output.is_stalled() {
                let left = if left > 0 { left } else { most };
                least = Some(least.map_or(left, |least: usize| least.min(left)));
            } else {
                full = full.union(EgressSet::one(InterfaceId(id).egress()));
            }
        }
        OutputRoom { full, pkts: least.map_or(0, |least| least.min(most)) }
    }

    /// Takes back the buffers of at most `limit` frames that have left. This is the first half of the
    /// service of the transmit side.
    pub(crate) fn reclaim(&mut self, id: InterfaceId, limit: usize, cx: &mut Cx<'_>) -> usize {
        let Some(link) = self.link_mut(id) else { return 0 };
        let reclaimed = link.interface.reclaim(cx.pool, limit);
        cx.work.add_times(Work::Reclaim, reclaimed as u32);
        reclaimed
    }

    /// Hands over the waiting frames, once a callback or an interrupt handler is through with
    /// [`Links::reclaim`]. A callback may take many work items. Frames handed over in between would have
    /// left before its end, so that it would go on for ever.
    fn restart(&mut self, id: InterfaceId, cx: &mut Cx<'_>) {
        let Some(link) = self.link_mut(id) else { return };
        link.output.sent();
        link.hand_over(id, cx);
    }

    /// Reopens the gate of a transmit queue. Returns whether its consumer hangs.
    pub(crate) fn reopen(&mut self, id: InterfaceId) -> bool {
        self.link_mut(id).is_some_and(|link| link.output.reopen())
    }

    /// Returns the number of frames in transmit queues.
    pub(crate) fn output_queued(&self) -> u64 {
        self.links.iter().map(|link| link.output.len() as u64).sum()
    }

    /// Returns the number of frames that have left and whose buffers have not been taken back.
    pub(crate) fn unreclaimed(&self) -> u64 {
        self.iter().filter_map(TxQueue::unreclaimed).map(|frames| frames as u64).sum()
    }
}

impl Link {
    /// Returns whether the interface has receive rings from which the host takes frames.
    fn has_rings(&self) -> bool {
        self.interface.properties().queues > 0
    }

    fn rings(&self) -> impl Iterator<Item = &dyn RxQueue> {
        (0..self.interface.properties().queues).map(|queue| self.interface.queue(queue))
    }

    /// Returns whether the transmit queue holds a batch: as many frames as the interface takes at a time,
    /// but at most a quarter of the queue's limit. TCP takes a queue that fills for an interface that
    /// cannot send.
    fn has_batch(&self) -> bool {
        let batch = self.interface.properties().transmit_batch.min(self.output.limit_pkts() / 4).max(1);
        self.output.len() >= batch
    }

    /// Starts the interface, unless it is active and is to be left alone then.
    fn start(&mut self, id: InterfaceId, cx: &mut Cx<'_>) {
        if !self.output.is_active() {
            self.hand_over(id, cx);
        }
    }

    fn hand_over(&mut self, id: InterfaceId, cx: &mut Cx<'_>) {
        if self.output.is_empty() {
            return;
        }
        let (count, resume) = self.output.hand_over(&mut *self.interface, cx.pool);
        cx.ledger.transmitted += count as u64;
        cx.work.add_times(Work::Transmit, count as u32);
        if resume {
            cx.poller.resume(QueueId::Output(id));
        }
    }
}
