//! Sockets and channels come and go.

use super::state::{EPHEMERAL_FIRST, Net};
use crate::channel::Channel;
use crate::demux::{Binding, Change};
use crate::drop::QueueDrop;
use crate::error::{ChannelError, TooManyOpen};
use crate::id::QueueId;
use crate::id::{ChannelId, InterfaceId, ProcessId, SocketId};
use crate::interface::Opened;
use crate::poll::Gate;
use crate::queue::Queue;
use crate::receive::DeviceWork;
use crate::socket::{BindError, Descriptor, Socket, SocketCounters};
use crate::stack::{Io, RouteHandle, Stack};
use crate::time::Instant;
use crate::wire::IpAddress;

impl Net {
    /// Opens a channel that `binding` leads to, with a ring on each interface that demultiplexes.
    pub(super) fn open_channel(&mut self, binding: Binding) -> Result<ChannelId, ChannelError> {
        let channel = self.new_channel();
        self.add_channel(channel, binding)
    }

    pub(super) fn new_channel(&self) -> Channel {
        let capacity = self.config.channel_pkts;
        let gate = if self.plan.is_lazy() { self.gate(capacity) } else { Gate::open() };
        Channel::new(capacity, gate)
    }

    /// Opens an existing channel that `binding` leads to, with a ring on each interface that demultiplexes.
    /// Reserves its buffers.
    pub(super) fn add_channel(
        &mut self,
        mut channel: Channel,
        binding: Binding,
    ) -> Result<ChannelId, ChannelError> {
        self.reserve_channel(&mut channel)?;
        Ok(self.install(channel, binding))
    }

    /// Opens the rings of a channel, and reserves its buffers. It is to be [installed](Self::install) or
    /// [given up](Self::give_up_channel) next.
    pub(super) fn reserve_channel(&mut self, channel: &mut Channel) -> Result<(), ChannelError> {
        self.pool.grow(channel.reserved_pkts(self.links.places())).map_err(ChannelError::NoMemory)?;
        let id = self.channels.vacant();
        if !self.open_rings(id, channel) {
            self.give_up_channel(channel);
            return Err(ChannelError::NoRing);
        }
        if channel.has_rings() {
            self.channels.disarm(id);
        }
        Ok(())
    }

    /// Closes the rings of a channel that is not installed, and returns its buffers.
    pub(super) fn give_up_channel(&mut self, channel: &Channel) {
        self.close_rings(self.channels.vacant());
        self.pool.shrink(channel.reserved_pkts(self.links.places()));
    }

    /// Installs a channel whose buffers are reserved.
    pub(super) fn install(&mut self, channel: Channel, binding: Binding) -> ChannelId {
        let id = self.channels.insert(channel);
        self.update(Change::Bind(binding, id));
        id
    }

    /// Opens a ring for a channel on each interface that demultiplexes, or has the channel share rings there.
    /// Returns false if an interface can do neither.
    fn open_rings(&mut self, id: ChannelId, channel: &mut Channel) -> bool {
        for (interface, demultiplexer) in self.links.demultiplexers() {
            match demultiplexer.open(id, channel.ring_pkts(), &mut self.pool) {
                Opened::Own(ring) => channel.add_ring(interface, ring),
                Opened::Shared => {}
                Opened::Refused => return false,
            }
        }
        true
    }

    fn close_rings(&mut self, id: ChannelId) {
        self.links.demultiplexers().for_each(|(_, demultiplexer)| demultiplexer.close(id));
    }

    /// Creates the gate of a queue that device work fills. It gives feedback if that is configured and if
    /// there is input to be paused.
    pub(super) fn gate(&self, limit_pkts: usize) -> Gate {
        let held_back = self.config.plan_for(false).device == DeviceWork::Polled
            || self.config.alternatives.limit_interrupts;
        match self.config.feedback {
            Some(feedback) if held_back => Gate::new(&feedback, limit_pkts),
            _ => Gate::open(),
        }
    }

    /// Returns the fill level, in percent, of the queue that a process reads or of the channel before it,
    /// whichever is fuller. A queue that gives no feedback counts as empty.
    pub(crate) fn filled_percent(&self, id: SocketId) -> u8 {
        let Some(descriptor) = self.descriptor(id) else { return 0 };
        let channel = match descriptor {
            Descriptor::Udp(socket) => socket.channels.first().map(|(channel, _)| *channel),
            Descriptor::Screen(_) => self.channels.daemons().forward,
            _ => None,
        };
        descriptor.filled_percent().max(channel.map_or(0, |id| self.channels.filled_percent(id)))
    }

    pub(crate) fn channel_filled_percent(&self, id: ChannelId) -> u8 {
        self.channels.filled_percent(id)
    }

    /// Opens a descriptor: the lowest free number of its owner refers to it.
    pub(super) fn install_descriptor(&mut self, descriptor: Descriptor) -> Result<SocketId, TooManyOpen> {
        let owner = descriptor.owner();
        let id = self.reserve_descriptor(owner, matches!(descriptor, Descriptor::Queue(_)))?;
        self.descriptors.insert(descriptor);
        Ok(id)
    }

    /// Reserves the lowest free number of `owner` for the next descriptor to be inserted.
    pub(super) fn reserve_descriptor(
        &mut self,
        owner: Option<ProcessId>,
        is_queue: bool,
    ) -> Result<SocketId, TooManyOpen> {
        let id = self.descriptors.vacant();
        let looks = owner.map(|owner| (owner, self.ready.looks(owner)));
        match owner {
            Some(owner) if is_queue => self.ready.open_queue(id, owner)?,
            owner => self.ready.open(id, owner)?,
        }
        if let Some((owner, looks)) = looks {
            self.count_looks(owner, looks);
        }
        Ok(id)
    }

    /// Takes a descriptor out; its place is free.
    pub(super) fn remove_descriptor(&mut self, id: SocketId) -> Option<Descriptor> {
        let descriptor = self.descriptors.remove(id)?;
        self.ready.retire(id);
        Some(descriptor)
    }

    /// Opens a socket. Bound to a multicast group it joins the group, and shares the channel of the sockets
    /// that have.
    pub(crate) fn bind(
        &mut self,
        owner: Option<ProcessId>,
        address: Option<IpAddress>,
        port: u16,
        now: Instant,
    ) -> Result<SocketId, BindError> {
        let group = address.filter(IpAddress::is_multicast);
        if group.is_none() && address.is_some_and(|a| !self.stack.is_local(&a)) {
            return Err(BindError::NotLocal);
        }
        let port = if port == 0 { self.ephemeral_port(address)? } else { port };
        if group.is_none() && self.is_taken(address, port) {
            return Err(BindError::InUse);
        }
        let limit = self.config.socket_queue_pkts;
        self.pool.grow(limit).map_err(BindError::NoMemory)?;
        // Under the lazy architectures receivers fill their own queues.
        let gate = if self.plan.is_lazy() { Gate::open() } else { self.gate(limit) };
        let installed = self.install_descriptor(Descriptor::Udp(Box::new(Socket {
            owner,
            address,
            source: address.filter(|address| self.stack.is_own(address)),
            port,
            channels: Vec::new(),
            next_channel: 0,
            ready: Queue::new(limit, gate),
            route: RouteHandle::default(),
            counters: SocketCounters::default(),
        })));
        let id = installed.inspect_err(|_| self.pool.shrink(limit))?;
        let opened = match group {
            Some(group) => self.join(id, port, group, now),
            None => self.receive_at(id, port, address, None),
        };
        if let Err(error) = opened {
            self.remove_descriptor(id);
            self.pool.shrink(limit);
            return Err(error.into());
        }
        Ok(id)
    }

    /// Lets the socket receive from the channel of `address` and `port`, which is opened if there is none
    /// yet.
    pub(super) fn receive_at(
        &mut self,
        id: SocketId,
        port: u16,
        address: Option<IpAddress>,
        group: Option<IpAddress>,
    ) -> Result<(), ChannelError> {
        let channel = match group.and_then(|group| self.table.udp(&group, port)) {
            Some(channel) => channel,
            None => self.open_channel(Binding::Udp { address, port })?,
        };
        if let Some(channel) = self.channel_mut(channel) {
            channel.members.push(id);
        }
        if let Some(socket) = self.socket_mut(id) {
            socket.channels.push((channel, group));
        }
        Ok(())
    }

    pub(super) fn is_taken(&self, address: Option<IpAddress>, port: u16) -> bool {
        self.table.is_bound(address, port)
    }

    pub(super) fn ephemeral_port(&mut self, address: Option<IpAddress>) -> Result<u16, BindError> {
        for _ in EPHEMERAL_FIRST..=u16::MAX {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(EPHEMERAL_FIRST);
            if !self.is_taken(address, port) {
                return Ok(port);
            }
        }
        Err(BindError::NoPort)
    }

    /// Lets a socket, which is bound to `port`, receive what is sent to a group.
    pub(crate) fn join(
        &mut self,
        id: SocketId,
        port: u16,
        group: IpAddress,
        now: Instant,
    ) -> Result<(), ChannelError> {
        let joined = |socket: &Socket| socket.channels.iter().any(|&(_, joined)| joined == Some(group));
        if self.socket(id).is_some_and(joined) {
            return Ok(());
        }
        self.receive_at(id, port, Some(group), Some(group))?;
        self.each_interface(
            |stack, interface, io| {
                // A group that an interface cannot join (no address of that family) is simply not received
                // there.
                let _ = stack.join(group, interface, io);
            },
            now,
        );
        self.follow_addresses();
        Ok(())
    }

    pub(super) fn each_interface(
        &mut self,
        mut f: impl FnMut(&mut Stack, InterfaceId, &mut Io<'_>),
        now: Instant,
    ) {
        for index in 0..self.links.len() {
            self.with_stack(now, |stack, io| f(stack, InterfaceId(index as u8), io));
        }
    }

    pub(crate) fn close(&mut self, id: SocketId, now: Instant) {
        let Some(descriptor) = self.remove_descriptor(id) else { return };
        self.poller.forget(QueueId::Socket(id));
        match descriptor {
            Descriptor::Udp(socket) => self.close_socket(id, *socket, now),
            Descriptor::Screen(screen) => self.close_screen(*screen),
            Descriptor::Listener(listener) => self.close_listener(id, &listener, now),
            Descriptor::Stream(stream) => self.close_stream(stream.id, now),
            Descriptor::Queue(_) | Descriptor::UserEvent(_) => {}
            Descriptor::Timer(timer) => {
                if let Some(timer) = timer.timer {
                    self.timers.release(timer);
                }
            }
            Descriptor::Capture(capture) => {
                self.pool.take_back(capture.limit());
                self.ledger.drop_input(QueueDrop::Closed, capture.len() as u64);
            }
        }
    }

    fn close_socket(&mut self, id: SocketId, socket: Socket, now: Instant) {
        self.pool.shrink(socket.ready.limit());
        for datagram in socket.ready.into_items() {
            self.ledger.drop_input(QueueDrop::Closed, datagram.frames());
            datagram.recycle(&mut self.pool);
        }
        for (channel, group) in socket.channels {
            if let Some(group) = group {
                self.each_interface(
                    |stack, interface, io| {
                        // An interface that never joined has nothing to leave.
                        let _ = stack.leave(group, interface, io);
                    },
                    now,
                );
            }
            let Some(members) = self.channel_mut(channel).map(|c| &mut c.members) else { continue };
            members.retain(|&m| m != id);
            if members.is_empty() {
                let binding = Binding::Udp { address: group.or(socket.address), port: socket.port };
                self.close_channel(channel, binding, now);
            }
        }
        self.follow_addresses();
    }

    pub(super) fn close_channel(&mut self, id: ChannelId, binding: Binding, now: Instant) {
        self.update(Change::Unbind(binding));
        while let Some(waiting) = self.take_from_channel(id, now) {
            self.drop_input(waiting.frame, QueueDrop::Closed);
        }
        let Some(channel) = self.channels.remove(id) else { return };
        if channel.ring_pkts() > 0 {
            self.close_rings(id);
        }
        self.pool.shrink(channel.reserved_pkts(self.links.places()));
        self.poller.forget(QueueId::Channel(id));
    }

    pub(crate) fn descriptor(&self, id: SocketId) -> Option<&Descriptor> {
        self.descriptors.get(id)
    }

    pub(crate) fn descriptor_mut(&mut self, id: SocketId) -> Option<&mut Descriptor> {
        self.descriptors.get_mut(id)
    }

    pub(crate) fn socket(&self, id: SocketId) -> Option<&Socket> {
        self.descriptors.udp(id)
    }

    pub(crate) fn socket_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        self.descriptors.udp_mut(id)
    }

    pub(crate) fn sockets_of(&self, owner: ProcessId) -> Vec<SocketId> {
        self.descriptors.of(owner).collect()
    }

    pub(crate) fn channel(&self, id: ChannelId) -> Option<&Channel> {
        self.channels.get(id)
    }

    pub(crate) fn channel_count(&self) -> usize {
        self.channels.len()
    }

    pub(super) fn channel_mut(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.channels.get_mut(id)
    }

    /// Arms the channels of a daemon that goes to sleep. Returns whether frames wait.
    pub(crate) fn arm_channel(&mut self, id: ChannelId) -> bool {
        if self.is_screened(id) {
            return false;
        }
        let other = self.channels.daemons().read_along_with(id);
        let waits = [Some(id), other].into_iter().flatten();
        waits.fold(false, |any, id| any | self.channel_mut(id).is_none_or(Channel::arm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::receive::Architecture;
    use crate::slab::tests::LOOKS;

    /// Descriptors and channels looked at, and ports tried, by so many binds to a port that is chosen.
    fn cost(net: &mut Net, binds: u32) -> (u64, u16) {
        let (looks, port) = (LOOKS.get(), net.next_port);
        for _ in 0..binds {
            net.bind(Some(ProcessId(9)), None, 0, Instant::ZERO).expect("there are ports");
        }
        (LOOKS.get() - looks, net.next_port - port)
    }

    #[test]
    fn a_bind_to_any_port_looks_at_as_much_with_ten_thousand_sockets_as_with_none() {
        for architecture in Architecture::ALL {
            let small = Config { socket_queue_pkts: 1, channel_pkts: 1, ..Config::of(architecture) };
            let mut net = Net::new(small).expect("there is memory");
            let first = cost(&mut net, 10);
            assert_eq!(first.1, 10, "ports tried, each once");
            cost(&mut net, 10_000);
            assert_eq!(cost(&mut net, 10), first, "{architecture}");
        }
    }

    /// A datagram that waits for somebody else keeps its verdict until the table changes.
    #[test]
    fn a_socket_that_comes_and_goes_is_one_change_each_of_the_table() {
        let mut net = Net::new(Config::of(Architecture::SoftLrp)).expect("there is memory");
        let (interface, _) =
            crate::cable::pair(crate::cable::Options::new("here", 1), crate::cable::Options::new("there", 2));
        let addresses = ["10.0.0.1/24", "fd00::1/64"].map(|address| address.parse().expect("an address"));
        net.add_interface(Box::new(interface), &addresses, None, Instant::ZERO).expect("there is memory");
        let before = net.table.generation();
        let socket = net.bind(Some(ProcessId(9)), None, 7, Instant::ZERO).expect("a socket");
        assert_eq!(net.table.generation(), before + 1);
        net.close(socket, Instant::ZERO);
        assert_eq!(net.table.generation(), before + 2);
    }
}
