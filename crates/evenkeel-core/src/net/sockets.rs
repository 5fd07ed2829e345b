//! Sockets and channels come and go.

use super::state::Net;
use crate::capture::{Capture, CaptureQueue};
use crate::demux::{Binding, Change};
use crate::drop::QueueDrop;
use crate::error::{ChannelError, DupError};
use crate::id::QueueId;
use crate::id::{ChannelId, Fd, InterfaceId, ProcessId, SocketId};
use crate::poll::Gate;
use crate::queue::Queue;
use crate::rx::Channels;
use crate::socket::{BindError, Descriptor, Socket, SocketCounters};
use crate::sockets::Readiness;
use crate::stack::{Io, RouteHandle, Stack};
use crate::time::Instant;
use crate::wire::IpAddress;

impl Net {
    /// Returns the channels, to open and close some.
    pub(super) fn channels(&mut self) -> Channels<'_> {
        let Self { rx, links, pool, config, plan, .. } = self;
        Channels { rx, links, pool, config, plan: *plan }
    }

    /// Returns the calls that say which descriptors are ready.
    #[inline(always)]
    pub(crate) fn readiness(&mut self) -> Readiness<'_> {
        let Self { sockets, rx, tcp, plan, work, .. } = self;
        Readiness { sockets, channels: &mut rx.channels, tcp: &tcp.endpoint, is_lazy: plan.is_lazy(), work }
    }

    /// Makes the number `new` refer to the descriptor of `fd`, too. The descriptor that `new` referred to
    /// before is closed.
    pub(crate) fn dup2(&mut self, process: ProcessId, fd: Fd, new: Fd, now: Instant) -> Result<(), DupError> {
        if let Some(displaced) = self.readiness().dup2(process, fd, new)? {
            self.close(displaced, now);
        }
        Ok(())
    }

    /// Closes a descriptor number, and with the last number its descriptor. Returns whether it was open.
    pub(crate) fn close_descriptor(&mut self, process: ProcessId, fd: Fd, now: Instant) -> bool {
        let closed = self.sockets.ready.close(process, fd);
        if let Some((id, true)) = closed {
            self.close(id, now);
        }
        closed.is_some()
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
        let port = if port == 0 { self.rx.free_port(address).ok_or(BindError::NoPort)? } else { port };
        if group.is_none() && self.rx.table.is_bound(address, port) {
            return Err(BindError::InUse);
        }
        let limit = self.config.socket_queue_pkts;
        self.pool.grow(limit).map_err(BindError::NoMemory)?;
        // Under the lazy architectures receivers fill their own queues.
        let gate = if self.plan.is_lazy() { Gate::open() } else { self.rx.gate(limit, &self.config) };
        let installed = self.sockets.install(
            Descriptor::Udp(Box::new(Socket {
                owner,
                address,
                source: address.filter(|address| self.stack.is_own(address)),
                port,
                channels: Vec::new(),
                next_channel: 0,
                ready: Queue::new(limit, gate),
                route: RouteHandle::default(),
                counters: SocketCounters::default(),
            })),
            &mut self.work,
        );
        let id = installed.inspect_err(|_| self.pool.shrink(limit))?;
        let opened = match group {
            Some(group) => self.join(id, port, group, now),
            None => self.receive_at(id, port, address, None),
        };
        if let Err(error) = opened {
            self.sockets.remove(id);
            self.pool.shrink(limit);
            return Err(error.into());
        }
        Ok(id)
    }

    /// Opens the capture queue of a packet monitor.
    pub(crate) fn open_capture(&mut self, owner: ProcessId, wanted: Capture) -> Result<SocketId, BindError> {
        let limit = wanted.limit_pkts.max(1);
        self.pool.set_aside(limit).map_err(BindError::NoMemory)?;
        let gate = if wanted.feedback { self.rx.gate(limit, &self.config) } else { Gate::open() };
        let installed = self
            .sockets
            .install(Descriptor::Capture(Box::new(CaptureQueue::new(owner, wanted, gate))), &mut self.work);
        Ok(installed.inspect_err(|_| self.pool.take_back(limit))?)
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
        let channel = match group.and_then(|group| self.rx.table.udp(&group, port)) {
            Some(channel) => channel,
            None => self.channels().open(Binding::Udp { address, port })?,
        };
        if let Some(channel) = self.rx.channels.get_mut(channel) {
            channel.members.push(id);
        }
        if let Some(socket) = self.sockets.descriptors.udp_mut(id) {
            socket.channels.push((channel, group));
        }
        Ok(())
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
        if self.sockets.descriptors.udp(id).is_some_and(joined) {
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
        let Some(descriptor) = self.sockets.remove(id) else { return };
        self.poller.forget(QueueId::Socket(id));
        match descriptor {
            Descriptor::Udp(socket) => self.close_socket(id, *socket, now),
            Descriptor::Screen(screen) => self.close_screen(*screen),
            Descriptor::Listener(listener) => self.close_listener(id, &listener, now),
            Descriptor::Stream(stream) => self.tcp.close_stream(stream.id, now),
            Descriptor::Queue(_) | Descriptor::UserEvent(_) => {}
            Descriptor::Timer(timer) => {
                self.sockets.release_timer(*timer);
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
            let Some(members) = self.rx.channels.get_mut(channel).map(|c| &mut c.members) else { continue };
            members.retain(|&m| m != id);
            if members.is_empty() {
                let binding = Binding::Udp { address: group.or(socket.address), port: socket.port };
                self.close_channel(channel, binding, now);
            }
        }
        self.follow_addresses();
    }

    pub(super) fn close_channel(&mut self, id: ChannelId, binding: Binding, now: Instant) {
        self.channels().update(Change::Unbind(binding));
        while let Some(waiting) = self.take_from_channel(id, now) {
            self.drop_input(waiting.frame, QueueDrop::Closed);
        }
        self.channels().close(id);
        self.poller.forget(QueueId::Channel(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::looks::LOOKS;
    use crate::receive::Architecture;

    /// Descriptors and channels looked at, and ports tried, by so many binds to a port that is chosen.
    fn cost(net: &mut Net, binds: u32) -> (u64, u16) {
        let (looks, port) = (LOOKS.get(), net.rx.next_port);
        for _ in 0..binds {
            net.bind(Some(ProcessId(9)), None, 0, Instant::ZERO).expect("there are ports");
        }
        (LOOKS.get() - looks, net.rx.next_port - port)
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
        let before = net.rx.table.generation();
        let socket = net.bind(Some(ProcessId(9)), None, 7, Instant::ZERO).expect("a socket");
        assert_eq!(net.rx.table.generation(), before + 1);
        net.close(socket, Instant::ZERO);
        assert_eq!(net.rx.table.generation(), before + 2);
    }
}
