//! Everything of a host but its processes: interfaces, channels, sockets, protocol state, and the units of work on them.

mod capture;
mod device;
mod input;
mod output;
mod screen;
mod sockets;
mod tcp;

use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::channel::Channel;
use crate::config::Config;
use crate::demux::{Binding, Change, Table};
use crate::drop::Reason;
use crate::frame::{Frame, Pool, PoolLimit};
use crate::id::{ChannelId, InterfaceId, ProcessId, QueueId, SocketId};
use crate::interface::Interface;
use crate::ledger::Ledger;
use crate::poll::{FeedbackBy, Gate, Poller, SourceId, Sources};
use crate::ready::ReadyTable;
use crate::receive::{AfterDevice, DeviceWork, Plan};
use crate::socket::{Descriptor, Socket};
use crate::stack::{Datagram, Io, Stack};
use crate::time::{Duration, Instant};
use crate::wire::{IpAddress, IpCidr};
use crate::work::{Work, WorkLog};

use crate::transmit::TransmitQueue;
use tcp::Tcp;

/// Fragments without their first part are looked at this often while the core is busy.
const FRAGMENT_PERIOD: Duration = Duration::from_millis(100);
/// Frame buffers for what one unit of work sends.
const OUTPUT_PKTS: usize = 256;
/// An interface that cannot send, and will not say when it can, is tried again after this time.
const STALL_PERIOD: Duration = Duration::from_millis(1);

/// A side of an interface that the host serves.
#[derive(Debug, Clone, Copy)]
struct Port {
    interface: InterfaceId,
    side: Side,
    source: SourceId,
    /// How its frames are received. All ports of a host have the host's plan, but for those of legacy drivers.
    plan: Plan,
    /// Of what has come to it, as [`Net::come`] counts, what its handler has noted. Of use to handlers that only set a flag.
    noted: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// A receive ring.
    Receive(usize),
    /// Frames that have left, whose buffers come back.
    Transmit,
}

#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) plan: Plan,
    pub(crate) config: Config,
    pub(crate) pool: Pool,
    pub(crate) ledger: Ledger,
    pub(crate) stack: Stack,
    pub(crate) work: WorkLog,
    pub(crate) poller: Poller<QueueId>,
    polled: Option<device::Polled>,
    pub(crate) ready: ReadyTable,
    interfaces: Vec<Box<dyn Interface>>,
    /// By the number of their source.
    ports: Vec<Port>,
    next_port_served: u16,
    /// Of interfaces that demultiplex.
    next_interface_served: usize,
    /// Sources that neither feedback nor the cycle limit holds back, because their driver does its work in the interrupt.
    unlimited: Sources,
    table: Table,
    channels: Vec<Option<Channel>>,
    sockets: Vec<Option<Descriptor>>,
    /// Places in `sockets` that are free.
    free_sockets: BinaryHeap<Reverse<u32>>,
    pub(crate) tcp: Tcp,
    /// The queue that a process read last in the step that runs.
    pub(crate) last_read: Option<SocketId>,
    captures: Vec<SocketId>,
    screen: Option<SocketId>,
    /// Somebody has asked for screening: from then on nothing passes unscreened.
    screened: bool,
    ip_queue: VecDeque<(InterfaceId, Frame)>,
    ip_queue_gate: Gate,
    /// What the unit that runs sends.
    out: VecDeque<(InterfaceId, Frame)>,
    /// Of each interface.
    outlets: Vec<TransmitQueue>,
    retry_output_at: Instant,
    /// Device interrupts taken.
    pub(crate) interrupts: u64,
    next_tick: Instant,
    /// Sources that were given to by the last tick of clocked interrupts and are not empty yet.
    ticked: Sources,
    /// Of these, the ones that have interrupted since.
    entered: Sources,
    /// The port whose interrupt is being served.
    interrupting: Option<Port>,
    /// Channels that have work for the idle level.
    active: VecDeque<ChannelId>,
    /// Channels on interfaces whose interrupt is not enabled.
    disarmed: Vec<ChannelId>,
    /// Channels that raised their interrupt.
    rung: VecDeque<ChannelId>,
    neighbor_channel: Option<ChannelId>,
    control_channel: Option<ChannelId>,
    fragment_channel: Option<ChannelId>,
    forward_channel: Option<ChannelId>,
    /// The processes that read the channels of traffic without a socket.
    daemons: Vec<(ChannelId, ProcessId)>,
    next_fragment_look: Instant,
    next_port: u16,
}
impl Net {
    pub(crate) fn new(config: Config) -> Result<Self, PoolLimit> {
        let plan = Plan::of(config.architecture, config.device_work);
        let mut pool = Pool::with_limit(config.memory_pkts);
        pool.grow(config.ip_queue_pkts + OUTPUT_PKTS + Stack::frames_held_max(&config.stack))?;
        let mut net = Self {
            plan,
            pool,
            ledger: Ledger::default(),
            stack: Stack::new(config.stack.clone(), config.seed),
            work: WorkLog::default(),
            poller: poller(&config),
            polled: None,
            ready: ReadyTable::new(),
            interfaces: Vec::new(),
            ports: Vec::new(),
            next_port_served: 0,
            next_interface_served: 0,
            unlimited: Sources::NONE,
            table: Table::new(config.seed),
            channels: Vec::new(),
            sockets: Vec::new(),
            free_sockets: BinaryHeap::new(),
            tcp: Tcp::new(&config),
            last_read: None,
            captures: Vec::new(),
            screen: None,
            screened: false,
            ip_queue: VecDeque::with_capacity(config.ip_queue_pkts),
            ip_queue_gate: Gate::open(),
            out: VecDeque::with_capacity(OUTPUT_PKTS),
            outlets: Vec::new(),
            retry_output_at: Instant::NEVER,
            interrupts: 0,
            next_tick: if config.clocked_interrupts.is_some() { Instant::ZERO } else { Instant::NEVER },
            ticked: Sources::NONE,
            entered: Sources::NONE,
            interrupting: None,
            active: VecDeque::new(),
            disarmed: Vec::new(),
            rung: VecDeque::new(),
            neighbor_channel: None,
            control_channel: None,
            fragment_channel: None,
            forward_channel: None,
            daemons: Vec::new(),
            next_fragment_look: Instant::ZERO,
            next_port: sockets::EPHEMERAL_FIRST,
            config,
        };
        if let Some(secret) = net.config.secret {
            net.stack.set_secret(secret);
            net.table.set_secret(secret);
        }
        if plan.is_lazy() {
            net.neighbor_channel = Some(net.open_daemon_channel(Binding::Neighbor)?);
            net.control_channel = Some(net.open_daemon_channel(Binding::Control)?);
            net.fragment_channel = Some(net.open_daemon_channel(Binding::Fragment)?);
        }
        if net.config.stack.forwarding
            && matches!(plan.then, AfterDevice::Channel | AfterDevice::DemultiplexThenIpQueue)
        {
            net.forward_channel = Some(net.open_daemon_channel(Binding::Forward)?);
        }
        if net.config.limit_interrupts {
            net.ip_queue_gate = net.gate(net.config.ip_queue_pkts);
        }
        Ok(net)
    }

    /// A channel of traffic without sockets, before there is any interface.
    fn open_daemon_channel(&mut self, binding: Binding) -> Result<ChannelId, PoolLimit> {
        let channel = self.promised_channel()?;
        let id = self.free_channel_id();
        self.install(id, channel, binding);
        Ok(id)
    }

    /// The channels of the proxy daemons, under the lazy architectures.
    pub(crate) fn daemon_channels(&self) -> impl Iterator<Item = (&'static str, i8, ChannelId)> + use<> {
        let neighbor = self.neighbor_channel.map(|c| ("arpd", 0, c));
        let control = self.control_channel.map(|c| ("icmpd", 0, c));
        let nice = self.config.forward_nice;
        let forward = self.forward_channel.filter(|_| self.plan.is_lazy()).map(|c| ("forwardd", nice, c));
        neighbor.into_iter().chain(control).chain(forward)
    }

    /// Makes `process` the reader of a daemon's channel.
    pub(crate) fn set_daemon(&mut self, channel: ChannelId, process: ProcessId) {
        self.daemons.push((channel, process));
    }

    fn daemon(&self, channel: ChannelId) -> Option<ProcessId> {
        self.daemons.iter().find(|(c, _)| *c == channel).map(|&(_, process)| process)
    }

    // --- Interfaces and addresses ---

    pub(crate) fn add_interface(
        &mut self,
        mut interface: Box<dyn Interface>,
        addresses: &[IpCidr],
        plan: Plan,
        now: Instant,
    ) -> Result<InterfaceId, AddInterfaceError> {
        let demultiplexes = interface.demultiplexer().is_some();
        if self.plan.device == DeviceWork::None && !demultiplexes {
            return Err(AddInterfaceError::CannotDemultiplex);
        }
        if self.ports.len() + interface.queues() + 1 > Sources::MAX {
            return Err(AddInterfaceError::TooManyQueues);
        }
        interface.attach(&mut self.pool).map_err(AddInterfaceError::NoMemory)?;
        let limit = self.config.output_queue_pkts.max(1);
        self.pool.grow(limit).map_err(AddInterfaceError::NoMemory)?;
        let gate = if self.config.output_feedback { self.gate(limit) } else { Gate::open() };
        self.outlets.push(TransmitQueue::new(limit, gate));
        let id = self.stack.add_interface(interface.address(), interface.mtu());
        self.update(Change::Hardware(interface.address()));
        let queues = interface.queues();
        self.interfaces.push(interface);
        if self.plan.device == DeviceWork::None {
            self.open_rings_on(id)?;
        } else {
            for queue in 0..queues {
                self.serve(id, Side::Receive(queue), plan)?;
            }
        }
        self.serve(id, Side::Transmit, plan)?;
        for &address in addresses {
            self.with_stack(now, |stack, io| stack.add_address(id, address, io));
        }
        self.follow_addresses();
        Ok(id)
    }

    /// Puts another device in the place of an interface's: its addresses, routes, queues and limits stay. Its hardware address and MTU are
    /// the new one's. What the earlier one held goes back to the pool.
    pub(crate) fn replace_interface(
        &mut self,
        id: InterfaceId,
        mut interface: Box<dyn Interface>,
        now: Instant,
    ) -> Result<(), AddInterfaceError> {
        let place = self.interfaces.get_mut(usize::from(id.0)).ok_or(AddInterfaceError::CannotReplace)?;
        let demultiplex = interface.demultiplexer().is_some() || place.demultiplexer().is_some();
        if demultiplex || interface.queues() != place.queues() {
            return Err(AddInterfaceError::CannotReplace);
        }
        interface.attach(&mut self.pool).map_err(AddInterfaceError::NoMemory)?;
        let (hardware, mtu) = (interface.address(), interface.mtu());
        let mut earlier = core::mem::replace(place, interface);
        earlier.detach(&mut self.pool);
        let others = self.interfaces.iter().any(|other| other.address() == earlier.address());
        if !others {
            self.update(Change::NoHardware(earlier.address()));
        }
        self.update(Change::Hardware(hardware));
        for port in self.ports.iter_mut().filter(|port| port.interface == id) {
            port.noted = 0;
        }
        self.stack.set_mtu(id, mtu);
        self.with_stack(now, |stack, io| {
            stack.forget_neighbors(id, io);
            stack.set_hardware(id, hardware, io);
            stack.announce_again(id, io);
        });
        self.follow_addresses();
        Ok(())
    }

    pub(crate) fn add_address(&mut self, interface: InterfaceId, address: IpCidr, now: Instant) {
        self.with_stack(now, |stack, io| stack.add_address(interface, address, io));
        self.follow_addresses();
    }

    pub(crate) fn remove_address(&mut self, interface: InterfaceId, address: IpCidr) -> bool {
        let removed = self.stack.remove_address(interface, address);
        self.follow_addresses();
        removed
    }

    fn serve(&mut self, interface: InterfaceId, side: Side, plan: Plan) -> Result<(), AddInterfaceError> {
        let source = self.poller.register(side != Side::Transmit).ok_or(AddInterfaceError::TooManyQueues)?;
        if plan.device == DeviceWork::Interrupt && !self.config.limit_interrupts {
            self.unlimited = self.unlimited.union(Sources::one(source));
        }
        self.ports.push(Port { interface, side, source, plan, noted: 0 });
        Ok(())
    }

    /// Gives every open channel a ring on a new interface that demultiplexes, and the interface a copy of the table.
    fn open_rings_on(&mut self, id: InterfaceId) -> Result<(), AddInterfaceError> {
        let interface = self.interfaces.last_mut().ok_or(AddInterfaceError::CannotDemultiplex)?;
        let address = interface.address();
        let demultiplexer = interface.demultiplexer().ok_or(AddInterfaceError::CannotDemultiplex)?;
        demultiplexer.update(Change::Hardware(address));
        for change in self.table.contents() {
            demultiplexer.update(change);
        }
        for (index, channel) in self.channels.iter_mut().enumerate() {
            let Some(channel) = channel else { continue };
            let channel_id = ChannelId(index as u32);
            // The buffers were promised when the channel was opened; every further interface needs its own.
            if channel.has_rings() {
                self.pool.grow(channel.capacity_pkts()).map_err(AddInterfaceError::NoMemory)?;
            }
            let ring = demultiplexer.open(channel_id, channel.capacity_pkts(), &mut self.pool);
            channel.add_ring(id, ring.ok_or(AddInterfaceError::CannotDemultiplex)?);
            if channel.feed.is_none() {
                self.disarmed.push(channel_id);
            } else if channel.arm() {
                self.rung.push_back(channel_id);
            }
        }
        Ok(())
    }

    /// Tells the demultiplexing tables which addresses the stack now answers to.
    fn follow_addresses(&mut self) {
        let current: Vec<IpAddress> = self.stack.local_addresses().collect();
        let gone: Vec<IpAddress> = self.table.addresses().filter(|a| !current.contains(a)).collect();
        for address in gone {
            self.update(Change::RemoveAddress(address));
        }
        for address in current {
            self.update(Change::AddAddress(address));
        }
    }

    fn update(&mut self, change: Change) {
        self.table.apply(change);
        for interface in &mut self.interfaces {
            if let (DeviceWork::None, Some(demultiplexer)) = (self.plan.device, interface.demultiplexer()) {
                // An interface has its own hardware address and need not know the others'.
                if !matches!(change, Change::Hardware(_) | Change::NoHardware(_)) {
                    demultiplexer.update(change);
                }
            }
        }
    }

    pub(crate) fn with_stack<T>(&mut self, now: Instant, f: impl FnOnce(&mut Stack, &mut Io<'_>) -> T) -> T {
        let mut io = Io { now, pool: &mut self.pool, ledger: &mut self.ledger, out: &mut self.out };
        f(&mut self.stack, &mut io)
    }

    // --- Time and books ---

    pub(crate) fn next_deadline(&self) -> Instant {
        let own = self.next_tick.min(self.retry_output_at);
        self.stack.next_deadline().min(self.poller.next_deadline()).min(own).min(self.tcp_deadline())
    }

    /// Whether a look at the special fragment channel is due: only while the core is too busy for the idle level to look.
    pub(crate) fn fragments_due(&self, now: Instant) -> bool {
        now >= self.next_fragment_look
            && self.fragment_channel.and_then(|c| self.channel(c)).is_some_and(|c| !c.is_empty())
    }

    /// The clock interrupt: whatever is due.
    pub(crate) fn clock(&mut self, now: Instant) {
        self.work.add(Work::Clock);
        while let Some((queue, sources)) = self.poller.expire(now) {
            if self.reopen(queue) {
                self.poller.grant(sources);
            }
        }
        self.tick(now);
        if now >= self.retry_output_at {
            self.retry_output(now);
        }
        if now >= self.stack.next_deadline() {
            self.with_stack(now, |stack, io| stack.tick(io));
        }
        self.advance_tcp(now);
        if self.fragments_due(now) {
            self.next_fragment_look = now + FRAGMENT_PERIOD;
            self.input_fragments(now);
        }
    }

    /// Reopens the gate of a queue. Returns whether its consumer hangs.
    fn reopen(&mut self, queue: QueueId) -> bool {
        match queue {
            QueueId::Socket(id) => self.descriptor_mut(id).is_some_and(Descriptor::reopen),
            QueueId::Channel(id) => self.channel_mut(id).is_some_and(Channel::reopen),
            QueueId::IpQueue => self.ip_queue_gate.reopen(self.ip_queue.len()),
            QueueId::Output(id) => self.outlets.get_mut(usize::from(id.0)).is_some_and(TransmitQueue::reopen),
        }
    }

    /// Enables every interrupt. Returns whether something is pending after all, so that the core must not halt.
    pub(crate) fn arm(&mut self) -> bool {
        let mut pending = false;
        let armed = if self.config.clocked_interrupts.is_some() { Sources::NONE } else { self.enabled() };
        for port in &self.ports {
            if let Side::Receive(queue) = port.side
                && armed.contains(port.source)
                && let Some(interface) = self.interfaces.get_mut(usize::from(port.interface.0))
            {
                pending |= interface.queue_mut(queue).arm();
            }
        }
        let mut disarmed = core::mem::take(&mut self.disarmed);
        disarmed.retain(|&id| {
            let waiting = self.channel_mut(id).is_some_and(Channel::arm);
            if waiting && let Some(feed) = self.channel(id).and_then(|channel| channel.feed) {
                self.activate(id, feed);
                pending = true;
                return false;
            }
            // Not listed while the idle level could not take anything: the core would go round and round instead of halting.
            if waiting && self.idle_could_take(id) {
                self.list(id);
                pending = true;
            }
            waiting
        });
        self.disarmed = disarmed;
        pending
    }

    fn idle_could_take(&self, id: ChannelId) -> bool {
        let room = |&m: &SocketId| self.socket(m).is_none_or(Socket::has_room);
        self.daemon(id).is_none() && self.channel(id).is_some_and(|c| c.members.iter().all(room))
    }

    pub(crate) fn drop_input(&mut self, frame: Frame, reason: impl Into<Reason>) {
        self.ledger.drop_input(reason, 1);
        self.pool.recycle(frame);
    }

    /// Frames queued on the way up.
    pub(crate) fn queued(&self) -> u64 {
        let channels: u64 = self.channels.iter().flatten().map(|c| c.queued() as u64).sum();
        let sockets: u64 = self.sockets.iter().flatten().map(queued_in).sum();
        self.ip_queue.len() as u64 + channels + sockets + self.stack.reassembling()
    }

    /// Frames in receive rings and in channels on interfaces.
    pub(crate) fn in_rings(&self) -> u64 {
        let channels: usize = self.channels.iter().flatten().map(|c| c.len() - c.queued()).sum();
        let mut rings = 0;
        for interface in &self.interfaces {
            rings += (0..interface.queues()).map(|q| interface.queue(q).pending()).sum::<usize>();
        }
        (channels + rings) as u64
    }

    /// Frames that receive rings hold back for the moment.
    pub(crate) fn coming(&self) -> u64 {
        let queues = |interface: &Box<dyn Interface>| {
            (0..interface.queues()).map(|queue| interface.queue(queue).coming()).sum::<u64>()
        };
        self.interfaces.iter().map(queues).sum()
    }

    pub(crate) fn interfaces(&self) -> impl Iterator<Item = &dyn Interface> {
        self.interfaces.iter().map(|i| &**i)
    }

    pub(crate) fn interface_mut(&mut self, id: InterfaceId) -> Option<&mut (dyn Interface + 'static)> {
        Some(&mut **self.interfaces.get_mut(usize::from(id.0))?)
    }
}

/// The polling thread with the policies that are asked for.
fn poller(config: &Config) -> Poller<QueueId> {
    let timeout = config.feedback.map_or(Duration::MAX, |f| f.timeout);
    let mut poller =
        Poller::new(config.quota, timeout, config.cycle_limit).with_inhibition(config.inhibition);
    if let Some(sampling) = config.tick_sampling {
        poller = poller.with_tick_sampling(sampling);
    }
    if config.feedback.is_some_and(|f| f.by == FeedbackBy::Length) {
        poller = poller.with_queue_lengths(timeout);
    }
    if let Some(weights) = config.real_time_tasks {
        poller = poller.with_tasks(weights);
    }
    poller
}

fn queued_in(descriptor: &Descriptor) -> u64 {
    match descriptor {
        Descriptor::Udp(socket) => socket.ready.iter().map(Datagram::frames).sum(),
        Descriptor::Screen(screen) => (screen.queue.len() + screen.judging.len()) as u64,
        Descriptor::Capture(capture) => capture.len() as u64,
        Descriptor::Listener(_) | Descriptor::Stream(_) | Descriptor::Events(_) => 0,
    }
}

/// An interface could not be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddInterfaceError {
    /// `ni-lrp` needs an interface that demultiplexes. Choose `soft-lrp` for this one.
    CannotDemultiplex,
    /// A host serves at most [`Sources::MAX`] receive rings and transmit sides.
    TooManyQueues,
    /// The host's memory limit does not allow its rings.
    NoMemory(PoolLimit),
    /// There is no such interface to take the place of, or one of another shape: more receive rings, or fewer, or it demultiplexes.
    CannotReplace,
}

impl core::fmt::Display for AddInterfaceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::CannotDemultiplex => f.write_str(
                "ni-lrp needs an interface that demultiplexes by itself; use soft-lrp on this one",
            ),
            Self::TooManyQueues => {
                write!(f, "a host serves at most {} receive rings and transmit sides", Sources::MAX)
            }
            Self::NoMemory(limit) => limit.fmt(f),
            Self::CannotReplace => f.write_str("it cannot take the place of an interface of another shape"),
        }
    }
}

impl core::error::Error for AddInterfaceError {}
