//! UDP sockets: binding, multicast groups, receiving and sending.

use core::num::NonZeroU8;

use super::handle::handle;
use super::lazy_receive::Receiver;
use super::state::{System, there_was};
use crate::demux::{Binding, Change};
use crate::drop::QueueDrop;
use crate::error::ChannelError;
use crate::id::{ChannelId, Fd, ProcessId, SocketId};
use crate::net::Net;
use crate::poll::Gate;
use crate::queue::Queue;
use crate::socket::{
    BadDescriptor, BindError, Datagrams, Descriptor, Kind, Peer, PeerError, ReceiveError, SendError, Socket,
    SocketCounters, UdpOption,
};
use crate::stack::{Datagram, Io, IpEndpoint, Origin, OutputError, RouteHandle, Source};
use crate::time::Instant;
use crate::wire::IpAddress;
use crate::work::Work;

/// A UDP socket, which sends and receives datagrams at one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UdpSocket(Fd);

handle!(UdpSocket);

impl UdpSocket {
    // --- Open and close ---

    /// Opens a UDP socket bound to `port` of `address`, or of all the host's addresses if `address` is
    /// `None`. An unspecified address stands for all of its family. Port 0 lets the host choose a free port.
    ///
    /// Two sockets cannot be bound to a port if a datagram could be for both of them.
    ///
    /// A socket bound to a multicast group joins that group and receives only its datagrams. Any number of
    /// sockets may bind to one group and port.
    ///
    /// # Errors
    /// [`BindError`] if the address or the port cannot be used, or a limit is reached. No socket is open
    /// then.
    pub fn bind(system: &mut System<'_>, address: Option<IpAddress>, port: u16) -> Result<Self, BindError> {
        system.call();
        let id = Self::open(system.net, Some(system.process), address, port, system.now)?;
        Ok(Self(system.opened(id)))
    }

    /// Opens a socket of `owner`. A socket bound to a multicast group joins it, and shares a channel with the
    /// other sockets of that group and port.
    pub(crate) fn open(
        net: &mut Net,
        owner: Option<ProcessId>,
        address: Option<IpAddress>,
        port: u16,
        now: Instant,
    ) -> Result<SocketId, BindError> {
        let group = address.filter(IpAddress::is_multicast);
        let is_foreign = |address: IpAddress| !address.is_unspecified() && !net.stack.is_local(&address);
        if group.is_none() && address.is_some_and(is_foreign) {
            return Err(BindError::NotLocal);
        }
        let port = if port == 0 { net.rx.free_port(address).ok_or(BindError::NoPort)? } else { port };
        if group.is_none() && net.rx.table.conflicts(address, port) {
            return Err(BindError::InUse);
        }
        let limit = net.config.socket_queue_pkts;
        net.pool.grow(limit).map_err(BindError::NoMemory)?;
        // Under the lazy architectures receivers fill their own queues.
        let gate = if net.plan.is_lazy() { Gate::open() } else { net.rx.gate(limit, &net.config) };
        let installed = net.sockets.install(
            Descriptor::Udp(Box::new(Socket {
                owner,
                address,
                source: address.filter(|address| net.stack.is_own(address)),
                port,
                peer: None,
                error: None,
                hop_limit: None,
                no_broadcast: false,
                channels: Vec::new(),
                next_channel: 0,
                ready: Queue::new(limit, gate),
                lacks_buffers: false,
                route: RouteHandle::default(),
                counters: SocketCounters::default(),
            })),
            &mut net.work,
        );
        let id = installed.inspect_err(|_| net.pool.shrink(limit))?;
        let opened = match group {
            Some(group) => Self::join_group(net, id, port, group, now),
            None => Self::receive_at(net, id, port, address, None),
        };
        if let Err(error) = opened {
            net.sockets.remove(id);
            net.pool.shrink(limit);
            return Err(error.into());
        }
        Ok(id)
    }

    /// Adds the socket to the receivers of the channel for `address` and `port`. Opens that channel if there
    /// is none yet.
    fn receive_at(
        net: &mut Net,
        id: SocketId,
        port: u16,
        address: Option<IpAddress>,
        group: Option<IpAddress>,
    ) -> Result<(), ChannelError> {
        let channel = match group.and_then(|group| net.rx.table.udp(&group, port)) {
            Some(channel) => channel,
            None => net.channels().open(Binding::Udp { address, port })?,
        };
        if let Some(channel) = net.rx.channels.get_mut(channel) {
            channel.members.push(id);
        }
        if let Some(socket) = net.sockets.descriptors.udp_mut(id) {
            socket.channels.push((channel, group));
        }
        Ok(())
    }

    /// Closes a socket: drops its queued datagrams, leaves its groups, and closes channels that no other
    /// socket shares.
    pub(super) fn closed(net: &mut Net, id: SocketId, socket: Socket, now: Instant) {
        net.pool.shrink(socket.ready.limit());
        for datagram in socket.ready.into_items() {
            net.ledger.drop_input(QueueDrop::Closed, datagram.frames());
            datagram.recycle(&mut net.pool);
        }
        for (channel, group) in socket.channels {
            let binding = Binding::Udp { address: group.or(socket.address), port: socket.port };
            Self::stop_receiving_at(net, id, (channel, group), binding, now);
        }
        net.follow_addresses();
    }

    /// Takes a channel from a socket, and leaves the channel's group. Closes the channel if no other socket
    /// shares it.
    fn stop_receiving_at(
        net: &mut Net,
        id: SocketId,
        (channel, group): (ChannelId, Option<IpAddress>),
        binding: Binding,
        now: Instant,
    ) {
        if let Some(group) = group {
            // An interface that never joined has nothing to leave.
            net.each_interface(now, |stack, interface, io| {
                let _ = stack.leave(group, interface, io);
            });
        }
        let Some(members) = net.rx.channels.get_mut(channel).map(|c| &mut c.members) else { return };
        members.retain(|&m| m != id);
        if members.is_empty() {
            net.close_channel(channel, binding, now);
        }
    }

    // --- Groups ---

    /// Joins a multicast group on every interface. The socket then receives the group's datagrams to its
    /// port. All sockets of a group and port share one channel.
    ///
    /// # Errors
    /// [`BindError`] if `group` is no multicast address, if its channel cannot be opened, or if the
    /// descriptor is no UDP socket of this process. The socket is unchanged then.
    pub fn join(self, system: &mut System<'_>, group: IpAddress) -> Result<(), BindError> {
        let id = system.begin(self.0, Kind::Udp)?;
        let port = self.port(system)?;
        if !group.is_multicast() {
            return Err(BindError::NotMulticast);
        }
        Ok(Self::join_group(system.net, id, port, group, system.now)?)
    }

    /// Leaves a multicast group that the socket has joined. Datagrams of the group that the socket has not
    /// received yet are dropped, unless protocol work was done on them or another socket shares them.
    ///
    /// # Errors
    /// [`BindError::NotJoined`], or [`BindError::BadDescriptor`] if the descriptor is no UDP socket of this
    /// process.
    pub fn leave(self, system: &mut System<'_>, group: IpAddress) -> Result<(), BindError> {
        let id = system.begin(self.0, Kind::Udp)?;
        let System { net, now, .. } = system;
        let socket = net.sockets.descriptors.udp_mut(id).ok_or(BadDescriptor::OtherKind)?;
        let joined = socket.channels.iter().position(|&(_, joined)| joined == Some(group));
        let left = socket.channels.remove(joined.ok_or(BindError::NotJoined)?);
        let binding = Binding::Udp { address: Some(group), port: socket.port };
        Self::stop_receiving_at(net, id, left, binding, *now);
        net.follow_addresses();
        Ok(())
    }

    /// Adds a socket, bound to `port`, to the receivers of a multicast group. Does nothing if it has joined
    /// already.
    fn join_group(
        net: &mut Net,
        id: SocketId,
        port: u16,
        group: IpAddress,
        now: Instant,
    ) -> Result<(), ChannelError> {
        let joined = |socket: &Socket| socket.channels.iter().any(|&(_, joined)| joined == Some(group));
        if net.sockets.descriptors.udp(id).is_some_and(joined) {
            return Ok(());
        }
        Self::receive_at(net, id, port, Some(group), Some(group))?;
        // A group that an interface cannot join (no address of that family) is simply not received there.
        net.each_interface(now, |stack, interface, io| {
            let _ = stack.join(group, interface, io);
        });
        net.follow_addresses();
        Ok(())
    }

    // --- Peer ---

    /// Connects the socket to `peer`, or to another one than before. From now on only datagrams from there
    /// are received: for other senders the port is closed. Unless the socket is bound to one address, its
    /// datagrams leave from the address that now suits the route.
    ///
    /// If an ICMP error says that the peer takes no datagrams of the socket, the next call that receives or
    /// sends reports it, once.
    ///
    /// # Errors
    /// [`SendError`] if no datagram could be sent there, or if the descriptor is no UDP socket of this
    /// process. The socket is unchanged then.
    pub fn connect(self, system: &mut System<'_>, peer: IpEndpoint) -> Result<(), SendError> {
        let id = system.begin(self.0, Kind::Udp)?;
        Self::connect_to(system.net, id, peer)
    }

    /// Connects a socket to a peer.
    pub(crate) fn connect_to(net: &mut Net, id: SocketId, peer: IpEndpoint) -> Result<(), SendError> {
        let Net { sockets, stack, .. } = &mut *net;
        let socket = sockets.descriptors.udp_mut(id).ok_or(BadDescriptor::OtherKind)?;
        if !socket.suits(&peer.addr) {
            return Err(SendError::Family);
        }
        let address = socket.address.filter(|address| stack.is_own(address));
        let source = Source {
            origin: Origin { address, interface: None },
            no_broadcast: socket.no_broadcast,
            ..Source::default()
        };
        socket.source = Some(stack.source_to(&source, &peer.addr)?);
        socket.peer = Some(Peer { at: peer, sent_before: socket.counters.sent });
        socket.error = None;
        let (channels, port) = (socket.channels.first().copied(), socket.port);
        // The channel of a group is shared with others.
        if let Some((own, None)) = channels {
            net.channels().update(Change::Connect(own, port, peer));
        }
        Ok(())
    }

    /// Returns the peer that the socket is connected to.
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no UDP socket of this process.
    pub fn peer(self, system: &System<'_>) -> Result<Option<IpEndpoint>, BadDescriptor> {
        Ok(self.socket(system)?.peer.map(|peer| peer.at))
    }

    /// Returns the error about a datagram to the peer that no call has reported yet, and forgets it.
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no UDP socket of this process.
    pub fn take_error(self, system: &mut System<'_>) -> Result<Option<PeerError>, BadDescriptor> {
        let id = system.begin(self.0, Kind::Udp)?;
        Ok(system.net.sockets.take_error(id))
    }

    // --- Receive ---

    /// Receives a datagram.
    ///
    /// Under the lazy architectures this call does the protocol input, and the caller is charged for it. The
    /// datagram stays in the frames that it arrived in. Dropping the datagram returns their buffers;
    /// [`System::recycle`] returns them faster.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if no datagram is available: return [`crate::process::Step::Wait`].
    /// [`ReceiveError::Failed`] if the peer of a connected socket takes no datagrams.
    /// [`ReceiveError::BadDescriptor`] if the descriptor is no UDP socket of this process.
    pub fn receive(self, system: &mut System<'_>) -> Result<Datagram, ReceiveError> {
        let id = system.begin(self.0, Kind::Udp)?;
        let mut datagram = None;
        Receiver::new(system.net, id, system.now).receive(&mut datagram)?;
        datagram.ok_or(ReceiveError::WouldBlock)
    }

    /// Receives as many datagrams as are available and `datagrams` has room for. One call takes at most 64
    /// frames from a channel. Datagrams that `datagrams` held before are recycled first.
    ///
    /// A burst costs a fraction of as many calls of [`UdpSocket::receive`]. Answers to the burst leave
    /// together.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if no datagram is available: return [`crate::process::Step::Wait`].
    /// [`ReceiveError::Failed`] if the peer of a connected socket takes no datagrams.
    /// [`ReceiveError::BadDescriptor`] if the descriptor is no UDP socket of this process.
    pub fn receive_burst(
        self,
        system: &mut System<'_>,
        datagrams: &mut Datagrams,
    ) -> Result<(), ReceiveError> {
        datagrams.recycle(&mut system.net.pool);
        let id = system.begin(self.0, Kind::Udp)?;
        Receiver::new(system.net, id, system.now).receive(datagrams)?;
        there_was(!datagrams.is_empty())
    }

    // --- Send ---

    /// Sends a datagram from the socket's address and port. The payload is copied once, into the frame that
    /// leaves.
    ///
    /// If the host has too few free buffers, the call fails with [`SendError::NoBuffer`]. The socket is then
    /// not writable until enough buffers are free. [`System::wait`] and the other waiting calls report when
    /// it is.
    ///
    /// A socket that is bound to no address sends from the host's address that suits the route. Use this for
    /// requests only: [`UdpSocket::reply`] sends an answer from the address that its request came to.
    ///
    /// # Errors
    /// [`SendError`] if the host has no route, no suitable address or too few buffers, if the payload is too
    /// long, or if the destination is the host itself, or a broadcast address for a socket that may not
    /// broadcast. [`SendError::Failed`] if the peer of a connected socket takes no datagrams. Also if the
    /// descriptor is no UDP socket of this process. Nothing was sent then.
    pub fn send(self, system: &mut System<'_>, to: IpEndpoint, payload: &[u8]) -> Result<(), SendError> {
        self.send_from(system, Origin::default(), to, payload)
    }

    /// Answers the datagram `request`: sends `payload` to its sender. The answer leaves from the address that
    /// the request was sent to, through the interface that received it ([`Datagram::reply_origin`]).
    ///
    /// # Errors
    /// [`SendError`], as for [`UdpSocket::send_from`]; nothing was sent then.
    pub fn reply(self, system: &mut System<'_>, request: &Datagram, payload: &[u8]) -> Result<(), SendError> {
        self.send_from(system, request.reply_origin(), request.source(), payload)
    }

    /// Sends a datagram from an address and through an interface that the caller chooses, as `IP_PKTINFO`
    /// does. Use it for answers that are sent in a later step than the one that received the request.
    ///
    /// # Errors
    /// [`SendError`], as for [`UdpSocket::send`]. [`SendError::NotLocal`] if the address in `from` is no
    /// address of this host, or differs from the address that the socket is bound to. Nothing was sent then.
    pub fn send_from(
        self,
        system: &mut System<'_>,
        from: Origin,
        to: IpEndpoint,
        payload: &[u8],
    ) -> Result<(), SendError> {
        let id = system.begin(self.0, Kind::Udp)?;
        let Net { sockets, stack, links, pool, ledger, work, .. } = &mut *system.net;
        let Some(socket) = sockets.descriptors.udp_mut(id) else {
            return Err(BadDescriptor::OtherKind.into());
        };
        if !socket.suits(&to.addr) {
            return Err(SendError::Family);
        }
        if let Some(error) = socket.error.take() {
            return Err(SendError::Failed(error));
        }
        let source = socket.source(from)?;
        work.add(Work::Output);
        let mut io = Io { now: system.now, pool, ledger, out: links.out() };
        match stack.send_udp(source, to, payload, &mut socket.route, &mut io) {
            Ok(()) => {
                socket.counters.sent += 1;
                Ok(())
            }
            Err(OutputError::NoAddress) if from.address.is_some_and(|asked| !stack.is_own(&asked)) => {
                Err(SendError::NotLocal)
            }
            Err(error) => {
                if error == OutputError::NoBuffer {
                    sockets.senders.block(id, socket, payload.len(), pool.capacity(), system.now);
                }
                Err(error.into())
            }
        }
    }

    // --- Settings and questions ---

    /// Sets an option of the socket.
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no UDP socket of this process.
    pub fn set(self, system: &mut System<'_>, option: UdpOption) -> Result<(), BadDescriptor> {
        let id = system.begin(self.0, Kind::Udp)?;
        let socket = system.net.sockets.descriptors.udp_mut(id).ok_or(BadDescriptor::OtherKind)?;
        match option {
            UdpOption::HopLimit(limit) => socket.hop_limit = Some(limit),
            UdpOption::Broadcast(allowed) => socket.no_broadcast = !allowed,
        }
        Ok(())
    }

    /// Returns the TTL or hop limit of datagrams to single hosts and broadcasts.
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no UDP socket of this process.
    pub fn hop_limit(self, system: &System<'_>) -> Result<u8, BadDescriptor> {
        let own = self.socket(system)?.hop_limit.map(NonZeroU8::get);
        Ok(own.unwrap_or(system.net.config.stack.hop_limit))
    }

    /// Returns the port that the socket is bound to.
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no UDP socket of this process.
    pub fn port(self, system: &System<'_>) -> Result<u16, BadDescriptor> {
        Ok(self.socket(system)?.port)
    }

    /// Returns the address that datagrams of the socket leave from; `None` if the route of each decides.
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no UDP socket of this process.
    pub fn source(self, system: &System<'_>) -> Result<Option<IpAddress>, BadDescriptor> {
        Ok(self.socket(system)?.source)
    }

    fn socket<'a>(self, system: &'a System<'_>) -> Result<&'a Socket, BadDescriptor> {
        match system.descriptor(self.0)?.1 {
            Descriptor::Udp(socket) => Ok(socket),
            _ => Err(BadDescriptor::OtherKind),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::close;
    use super::*;
    use crate::config::Config;
    use crate::host::{NotReserved, OtherStack, Resolved};
    use crate::id::InterfaceId;
    use crate::looks::LOOKS;
    use crate::other_stack::Sharing;
    use crate::receive::Architecture;
    use crate::socket::ListenError;
    use crate::system::TcpListener;
    use crate::tcp::ListenerConfig;
    use crate::tcp::endpoint::ListenAt;

    /// Descriptors and channels looked at, and ports tried, by so many binds to a port that is chosen.
    fn cost(net: &mut Net, binds: u32) -> (u64, u16) {
        let (looks, port) = (LOOKS.get(), net.rx.next_port);
        for _ in 0..binds {
            UdpSocket::open(net, Some(ProcessId(9)), None, 0, Instant::ZERO).expect("there are ports");
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

    /// A datagram that waits for another socket keeps its verdict until the table changes.
    #[test]
    fn a_socket_that_comes_and_goes_is_one_change_each_of_the_table() {
        let mut net = Net::new(Config::of(Architecture::SoftLrp)).expect("there is memory");
        let (interface, _) =
            crate::cable::pair(crate::cable::Options::new("here", 1), crate::cable::Options::new("there", 2));
        let addresses = ["10.0.0.1/24", "fd00::1/64"].map(|address| address.parse().expect("an address"));
        net.add_interface(Box::new(interface), &addresses, None, Instant::ZERO).expect("there is memory");
        let before = net.rx.table.generation();
        let socket = UdpSocket::open(&mut net, Some(ProcessId(9)), None, 7, Instant::ZERO).expect("a socket");
        assert_eq!(net.rx.table.generation(), before + 1);
        close(&mut net, socket, Instant::ZERO);
        assert_eq!(net.rx.table.generation(), before + 2);
    }

    /// Has the ports that another stack uses, and those that were reserved there.
    #[derive(Debug, Default)]
    struct Theirs(Arc<Mutex<Vec<Binding>>>);

    impl OtherStack for Theirs {
        fn reserve(&mut self, binding: &Binding) -> Result<(), NotReserved> {
            match binding {
                Binding::Udp { port: 53, .. } | Binding::Tcp { port: 22, .. } => Err(NotReserved::InUse),
                Binding::Udp { port: 52, .. } | Binding::Tcp { port: 21, .. } => Err(NotReserved::Privilege),
                _ => {
                    self.0.lock().unwrap().push(*binding);
                    Ok(())
                }
            }
        }

        fn release(&mut self, binding: &Binding) {
            self.0.lock().unwrap().retain(|reserved| reserved != binding);
        }

        fn resolve(&mut self, _interface: InterfaceId, _address: IpAddress) -> Option<Resolved> {
            None
        }
    }

    #[test]
    fn ports_are_reserved_with_the_stack_that_shares_the_addresses() {
        let mut net = Net::new(Config::of(Architecture::NiLrp)).expect("there is memory");
        let theirs = Theirs::default();
        let reserved = Arc::clone(&theirs.0);
        net.rx.sharing = Sharing(Some(Box::new(theirs)));
        let mut open = |port| UdpSocket::open(&mut net, Some(ProcessId(9)), None, port, Instant::ZERO);
        assert_eq!([53, 52].map(&mut open), [Err(BindError::InUse), Err(BindError::Privilege)]);
        let socket = open(54).expect("a socket");
        assert_eq!(*reserved.lock().unwrap(), [Binding::Udp { address: None, port: 54 }]);
        close(&mut net, socket, Instant::ZERO);
        assert_eq!(reserved.lock().unwrap().len(), 0);
        let mut listen = |port| {
            let at = ListenAt { address: None, port };
            TcpListener::open(&mut net, ProcessId(9), at, &ListenerConfig::default(), None)
        };
        assert_eq!([22, 21].map(&mut listen), [Err(ListenError::InUse), Err(ListenError::Privilege)]);
        let listener = listen(80).expect("a listener");
        let opening = Binding::Tcp { address: None, port: 80, opens: true };
        assert!(reserved.lock().unwrap().contains(&opening));
        close(&mut net, listener, Instant::ZERO);
        assert_eq!(reserved.lock().unwrap().len(), 0);
    }
}
