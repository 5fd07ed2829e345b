//! The stack: its parts, and what the rest of a host asks of them.

#[cfg(test)]
use core::cell::Cell;

use super::address::kinds::{ALL_ROUTERS, link_local_of, solicited_node};
use super::address::local::Local;
use super::address::source_check::SourceCheckCache;
use super::config::Config;
use super::error::{GroupError, NeighborError, OutputError, RouteError};
use super::forward::{Forwarding, Way};
use super::fragment::identification::Identifications;
use super::fragment::reassembly::Reassembly;
use super::icmp::control::Control;
use super::icmp::errors::Errors;
use super::icmp::problem::Problem;
use super::icmp::reset::Reply;
use super::input::Input;
use super::io::Io;
use super::multicast::groups::Groups;
use super::neighbor::claims::{AddressConflict, Claims};
use super::neighbor::discovery::{Discovery, ResolvedHop};
use super::neighbor::table::{Due, Neighbor, Neighbors, Waiting, give_up};
use super::neighbor::unresolved::Unresolved;
use super::neighbor::update::{NeighborUpdate, Updates};
use super::output::Output;
use super::plain::PlainInput;
use super::random::Random;
use super::received::Received;
use super::route::handle::RouteHandle;
use super::route::hop::Hop;
use super::route::path_mtu::PathMtus;
use super::route::routing::Routing;
use super::route::table::{Route, Via};
use super::screened::Screened;
use super::tcp::{FirstHop, segment_max};
use super::transit::Transit;
use super::udp::{Datagram, Source, TakesDatagrams};
use crate::deadline::Deadline;
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::plain::Plain;
use crate::segmentation::Segmentation;
use crate::tcp::endpoint::{Egress, Quote, Routes, Transmit};
use crate::tcp::{FourTuple, ReplyLimit, Secret};
use crate::time::Instant;
use crate::timed::Waits;
use crate::wire::{EthernetAddress, IpAddress, IpCidr, IpEndpoint};

/// The protocols below sockets of one host.
///
/// Calls may come in any order, with a time that never goes back. After each of them
/// [`Io::out`](super::Io::out) may have frames to send, and [`Stack::next_deadline`] may have changed;
/// [`Stack::tick`] is to be called when it has come.
#[derive(Debug)]
pub struct Stack {
    pub(super) config: Config,
    /// The interfaces and the routes.
    pub(super) routing: Routing,
    source_checks: SourceCheckCache,
    path_mtus: PathMtus,
    pub(super) neighbors: Neighbors,
    unresolved: Unresolved,
    updates: Updates,
    claims: Claims,
    reassembly: Reassembly,
    pub(super) groups: Groups,
    /// The rate limit of ICMP errors.
    errors: ReplyLimit,
    identifications: Identifications,
    /// Whether every frame must take the long way.
    #[cfg(test)]
    pub(crate) long_way_only: bool,
    /// The number of frames that have taken the long way.
    #[cfg(test)]
    pub(crate) long_ways: Cell<u64>,
}

impl Stack {
    /// Creates a stack without interfaces. Identifications and jitter are derived from `seed`: equal seeds
    /// give equal runs. On a real network, a secret is needed as well ([`Stack::set_secret`]).
    #[must_use]
    pub fn new(config: Config, seed: u64) -> Self {
        Self {
            routing: Routing::new(config.routes, Random::new(!seed).next()),
            source_checks: SourceCheckCache::default(),
            path_mtus: PathMtus::new(config.path_mtus),
            neighbors: Neighbors::new(&config, seed),
            unresolved: Unresolved::new(config.pending_pkts),
            updates: Updates::new(config.neighbor_updates),
            claims: Claims::default(),
            reassembly: Reassembly::new(&config),
            groups: Groups::new(&config, seed),
            errors: error_limit(&config, Secret::of_seed(seed)),
            identifications: Identifications::new(Secret::of_seed(seed)),
            #[cfg(test)]
            long_way_only: false,
            #[cfg(test)]
            long_ways: Cell::new(0),
            config,
        }
    }

    /// Derives from `secret`, from now on: identifications, jitter, the number of ICMP errors that leave,
    /// and the choice of a flow among several next hops.
    pub fn set_secret(&mut self, secret: Secret) {
        let seed = |label| secret.hash_for(label, &[]);
        self.identifications = Identifications::new(secret);
        self.errors = error_limit(&self.config, secret);
        self.neighbors.reseed(seed(2));
        self.groups.reseed(seed(3));
        self.routing.reseed(seed(4));
    }

    /// Returns the largest number of frames that a stack with these limits holds. Its pool must be able to
    /// spare as many.
    #[must_use]
    pub const fn frames_held_max(config: &Config) -> usize {
        config.held_pkts()
    }

    // --- The directions: the parts that a piece of work borrows ---

    /// Returns the parts for output.
    #[inline(always)]
    fn output<'a, 'io>(&'a mut self, io: &'a mut Io<'io>) -> Output<'a, 'io> {
        let Self { config, routing, path_mtus, identifications, neighbors, .. } = self;
        Output { config, routing, path_mtus, identifications, neighbors, io }
    }

    /// Returns the parts for ICMP errors.
    #[inline(always)]
    fn errors<'a, 'io>(&'a mut self, io: &'a mut Io<'io>) -> Errors<'a, 'io> {
        let Self { config, routing, path_mtus, identifications, neighbors, groups, errors: limit, .. } = self;
        let output = Output { config, routing, path_mtus, identifications, neighbors, io };
        Errors { groups, limit, output }
    }

    /// Returns the parts for the exchange with neighbours.
    fn discovery<'a, 'io>(&'a mut self, io: &'a mut Io<'io>) -> Discovery<'a, 'io> {
        let Self { config, routing, path_mtus, identifications, neighbors, claims, updates, .. } = self;
        let output = Output { config, routing, path_mtus, identifications, neighbors, io };
        Discovery { claims, updates, output }
    }

    /// Returns the parts for messages to the host itself.
    fn control<'a, 'io>(&'a mut self, io: &'a mut Io<'io>) -> Control<'a, 'io> {
        self.long_input(io).control
    }

    /// Returns the parts for input of any frame.
    fn long_input<'a, 'io>(&'a mut self, io: &'a mut Io<'io>) -> Input<'a, 'io> {
        let Self { config, routing, path_mtus, identifications, neighbors, .. } = self;
        let output = Output { config, routing, path_mtus, identifications, neighbors, io };
        let Self { claims, updates, groups, errors: limit, reassembly, .. } = self;
        let discovery = Discovery { claims, updates, output };
        Input { reassembly, control: Control { groups, limit, discovery } }
    }

    /// Returns the parts for plain input.
    #[inline(always)]
    const fn plain_input(&self) -> PlainInput<'_> {
        PlainInput {
            config: &self.config,
            routing: &self.routing,
            groups: &self.groups,
            source_checks: &self.source_checks,
            #[cfg(test)]
            long_way_only: self.long_way_only,
        }
    }

    /// Returns the addresses that packets to this host may bear.
    #[inline(always)]
    const fn local(&self) -> Local<'_> {
        Local { interfaces: self.routing.interfaces(), groups: &self.groups }
    }

    // --- Input ---

    /// Takes a received frame through everything below sockets. The frame has been counted as received.
    ///
    /// Returns a datagram when one is complete, or a packet to forward, or that the frame was consumed.
    /// `None` if it was dropped, or waits in reassembly.
    pub fn input(&mut self, interface: InterfaceId, frame: Frame, io: &mut Io<'_>) -> Option<Received> {
        let frame = match Plain::of(frame.bytes()) {
            Some(plain) => match self.input_plain(interface, frame, plain, io) {
                Ok(received) => return received,
                Err(frame) => frame,
            },
            None => frame,
        };
        self.input_any(interface, frame, io)
    }

    /// Receives any frame by the long way.
    #[inline(never)]
    pub(crate) fn input_any(
        &mut self,
        interface: InterfaceId,
        frame: Frame,
        io: &mut Io<'_>,
    ) -> Option<Received> {
        #[cfg(test)]
        self.long_ways.set(self.long_ways.get() + 1);
        self.long_input(io).frame(interface, frame)
    }

    /// Takes a plain frame up. `None` inside if it was dropped.
    ///
    /// # Errors
    /// Gives back a frame that has to take the long way.
    #[inline]
    pub(crate) fn input_plain(
        &self,
        interface: InterfaceId,
        frame: Frame,
        plain: Plain,
        io: &mut Io<'_>,
    ) -> Result<Option<Received>, Frame> {
        self.plain_input().frame(interface, frame, plain, io)
    }

    /// Receives a plain frame that carries UDP, and gives its datagram to `to`. Returns whether there was
    /// one; a datagram with a wrong checksum is dropped.
    ///
    /// # Errors
    /// Gives back a frame that has to take the long way.
    #[inline(always)]
    pub(crate) fn input_plain_udp(
        &self,
        interface: InterfaceId,
        frame: Frame,
        plain: Plain,
        io: &mut Io<'_>,
        to: &mut impl TakesDatagrams,
    ) -> Result<bool, Frame> {
        self.plain_input().udp(interface, frame, plain, io, to)
    }

    /// Sends "port unreachable" to the sender of a datagram that no socket takes, unless the rules forbid
    /// it (RFC 1122 3.2.2, RFC 4443 2.4 e) or the rate limit is reached. The caller drops the datagram
    /// afterwards.
    pub fn port_unreachable(&mut self, datagram: &Datagram, io: &mut Io<'_>) {
        self.errors(io).report(datagram.interface, datagram.payload.first_frame(), Problem::Port);
    }

    // --- Forwarding ---

    /// Forwards a packet: TTL, route, MTU, neighbour. It ends in [`Io::out`], waiting for a neighbour, or
    /// dropped. Its sender is notified as RFC 1812 5.2.7 and RFC 4443 require.
    pub fn forward(&mut self, transit: Transit, io: &mut Io<'_>) {
        Forwarding { errors: self.errors(io) }.forward(transit);
    }

    /// Returns the way of all packets to `destination` that come by an interface, with the neighbour's
    /// hardware address. `None` if they have several or none, or if it depends on more than the destination.
    pub(crate) fn way_of_all(&self, destination: &IpAddress, came_by: InterfaceId) -> Option<Way> {
        let Hop { interface, neighbor, .. } = self.routing.hop_of_all(destination)?;
        // A sender is told of a shorter way, and a forged one by its source.
        if interface == came_by || self.config.reverse_path {
            return None;
        }
        let to = self.neighbors.hardware((interface, neighbor))?;
        let interfaces = self.routing.interfaces();
        let (from, mtu) = (interfaces.of(interface)?.hardware, interfaces.mtu(interface));
        Some(Way { interface, neighbor, mtu, to, from })
    }

    /// Returns the generation of routes, addresses, MTUs and hardware addresses of neighbours.
    pub(crate) fn generation_of_hops(&self) -> u64 {
        u64::from(self.routing.generation()) << 32 | u64::from(self.neighbors.changes())
    }

    /// Records that a packet has left to a neighbour, so that it is probed if it is in doubt.
    pub(crate) fn use_neighbor(&mut self, neighbor: (InterfaceId, IpAddress), now: Instant) {
        self.neighbors.resolve(neighbor, now);
    }

    /// Drops a packet that screening refuses, and answers its sender. Answers are subject to the rate limit
    /// of ICMP errors.
    pub fn refuse_transit(&mut self, transit: Transit, reply: Reply, io: &mut Io<'_>) {
        Forwarding { errors: self.errors(io) }.refuse(transit, reply);
    }

    /// Returns a packet for screening, with the tables that rules may ask about its addresses.
    /// `is_due` says whether the verdict may be handed over.
    pub(crate) const fn screened<'a>(&'a self, transit: &'a mut Transit, is_due: bool) -> Screened<'a> {
        Screened::new(transit, &self.routing, is_due)
    }

    // --- Output ---

    /// Sends a datagram, in fragments if it is larger than the MTU. To a group its TTL or hop limit is 1 (RFC
    /// 1112 6.1). Its sender keeps `route` for the next one.
    ///
    /// # Errors
    /// [`OutputError`]; nothing was sent then.
    pub fn send_udp(
        &mut self,
        source: Source,
        to: IpEndpoint,
        payload: &[u8],
        route: &mut RouteHandle,
        io: &mut Io<'_>,
    ) -> Result<(), OutputError> {
        self.output(io).send_udp(source, to, payload, route)
    }

    /// Returns the address that a datagram to `destination` is sent from.
    ///
    /// # Errors
    /// [`OutputError`], as for [`Stack::send_udp`].
    pub(crate) fn source_to(
        &self,
        source: &Source,
        destination: &IpAddress,
    ) -> Result<IpAddress, OutputError> {
        self.routing.udp_path(source, destination, &mut RouteHandle::default()).map(|(_, address)| address)
    }

    /// Sends the segment in `frame` by its route, which is looked up if there is none.
    ///
    /// # Errors
    /// [`OutputError`]; the segment is lost, and counted as dropped.
    pub(crate) fn send_segment(
        &mut self,
        frame: Frame,
        transmit: &Transmit<FirstHop>,
        io: &mut Io<'_>,
    ) -> Result<(), OutputError> {
        self.output(io).send_segment(frame, transmit)
    }

    /// Returns the source address, the segment size and the first hop of a connection to `destination`. The
    /// address is one of this host, for a connection whose user names none. The size is the number of bytes
    /// that a segment may have behind the 20 bytes of its header, options included. Connections are to a
    /// single host only (RFC 9293 3.9.1.1, MUST-46).
    pub(crate) fn open_to(
        &self,
        source: Option<IpAddress>,
        destination: &IpAddress,
        now: Instant,
    ) -> Result<(IpAddress, u16, FirstHop), OutputError> {
        let path = self.routing.path_again(source, destination)?;
        if path.is_to_several() || self.is_broadcast(destination) {
            return Err(OutputError::NoRoute);
        }
        let source = source.or_else(|| self.routing.source_by(destination, path));
        let mtu = self.routing.interfaces().mtu(path.interface);
        let mtu = self.path_mtus.get(destination, now).map_or(mtu, |known| known.min(mtu));
        let source = source.ok_or(OutputError::NoAddress)?;
        Ok((source, segment_max(mtu, destination), FirstHop::new(Ok(path))))
    }

    /// Returns the maximum segment size, in bytes, that a neighbour's segments can have on the link of
    /// `interface`.
    pub(crate) fn mss_by(&self, interface: InterfaceId, peer: &IpAddress) -> u16 {
        segment_max(self.routing.interfaces().mtu(interface), peer)
    }

    /// Records the finding of a connection that the path to `destination` takes packets of at most `mtu`
    /// bytes. Other connections begin with that.
    pub(crate) fn learn_path_mtu(&mut self, destination: IpAddress, mtu: usize, now: Instant) {
        self.path_mtus.learn(destination, mtu, now);
    }

    /// Returns the next segment of this host that was given up because its next hop does not answer.
    pub(crate) fn next_unresolved(&mut self) -> Option<Quote> {
        self.unresolved.next()
    }

    // --- Time ---

    /// Returns when [`Stack::tick`] has something to do next; [`Instant::NEVER`] if it has nothing.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        let mut next = Instant::NEVER;
        self.each_deadline(|_, deadline| next = next.min(deadline));
        next
    }

    /// Calls `notify` with the next deadline of each part of the stack that needs [`Stack::tick`].
    #[inline]
    pub(crate) fn each_deadline(&self, mut notify: impl FnMut(Deadline, Instant)) {
        notify(Deadline::Reassembly, self.reassembly.next_deadline());
        notify(Deadline::Neighbors, self.neighbors.next_deadline());
        notify(Deadline::Groups, self.groups.next_deadline());
        notify(Deadline::Claims, self.claims.next_deadline());
    }

    /// Does what is due at `io.now`: reassembly timeouts, neighbour retransmissions, membership reports.
    pub fn tick(&mut self, io: &mut Io<'_>) {
        while let Some(expired) = self.reassembly.expire(io.now) {
            let first = expired.first().map(|piece| &piece.frame);
            self.errors(io).report(expired.interface, first, Problem::ReassemblyTime);
            expired.discard(io);
        }
        while let Some(due) = self.neighbors.poll(io.now) {
            match due {
                Due::Ask(question) => self.output(io).solicit(question),
                Due::GaveUp(packets) => packets.into_iter().for_each(|packet| self.give_up(packet, io)),
            }
        }
        self.control(io).tick_groups();
        self.discovery(io).tick();
    }

    /// Drops a packet whose next hop does not answer. The sender of a packet in transit gets an ICMP error
    /// (RFC 1812 5.2.7.1, RFC 4861 7.2.2); a segment of this host is recorded for TCP.
    fn give_up(&mut self, packet: Waiting, io: &mut Io<'_>) {
        match packet.came_by {
            Some(came_by) => self.errors(io).report_packet(came_by, packet.frame.bytes(), Problem::Host),
            None => self.unresolved.record(packet.frame.bytes()),
        }
        give_up(packet, io);
    }

    /// Gives up everything held, for shutdown: fragments end as timed out, waiting frames as unresolved.
    pub fn drain(&mut self, io: &mut Io<'_>) {
        while let Some(expired) = self.reassembly.expire(Instant::NEVER) {
            expired.discard(io);
        }
        self.neighbors.drain(io);
    }

    /// Returns the number of fragments in reassembly: part of the ledger's `queued`.
    #[must_use]
    pub const fn reassembling(&self) -> u64 {
        self.reassembly.held()
    }

    /// Returns the number of frames that wait for a neighbour: the ledger's `held`.
    #[must_use]
    pub const fn held(&self) -> u64 {
        self.neighbors.held()
    }

    // --- Interfaces and their addresses ---

    /// Adds an interface with the hardware address `mac` whose IP packets are of `mtu` bytes at most, and
    /// gives it the IPv6 link-local address of its hardware address (RFC 4291 appendix A).
    ///
    /// The MTU is taken as 576 at least, and at most as what a frame buffer holds: 1906, or more on a host
    /// that has had an interface with a larger one. Of the 256 interfaces that can be named, more are not
    /// added: the last one's name is given again.
    pub fn add_interface(&mut self, mac: EthernetAddress, mtu: usize) -> InterfaceId {
        let Some(interface) = self.routing.add_interface(mac, mtu) else { return InterfaceId(u8::MAX) };
        if self.config.forwarding {
            self.groups.pin(ALL_ROUTERS.into(), interface, Instant::ZERO);
        }
        if !self.config.shared {
            self.put_address(interface, IpCidr::Ipv6(link_local_of(mac)), Instant::ZERO);
        }
        interface
    }

    /// Gives an interface an address; its prefix is on-link from now on.
    pub fn add_address(&mut self, interface: InterfaceId, cidr: IpCidr, io: &mut Io<'_>) {
        self.put_address(interface, cidr, io.now);
        self.control(io).tick_groups();
        self.discovery(io).tick();
    }

    fn put_address(&mut self, interface: InterfaceId, cidr: IpCidr, now: Instant) {
        if !self.routing.add_address(interface, cidr) {
            return;
        }
        self.claim(interface, cidr.address(), now);
        if let IpAddress::Ipv6(address) = cidr.address() {
            self.groups.pin(IpAddress::Ipv6(solicited_node(address)), interface, now);
        }
    }

    fn claim(&mut self, interface: InterfaceId, address: IpAddress, now: Instant) {
        if self.config.announce && !self.config.forward_only && !self.config.shared {
            self.claims.begin(interface, address, now);
        }
    }

    /// Removes an address from an interface, and its prefix from the link unless another address has the
    /// same prefix. Returns whether the address was there. Routes by gateways of that prefix stay.
    pub fn remove_address(&mut self, interface: InterfaceId, cidr: IpCidr) -> bool {
        if !self.routing.remove_address(interface, cidr) {
            return false;
        }
        self.claims.forget(interface, cidr.address());
        if let IpAddress::Ipv6(address) = cidr.address() {
            let group = solicited_node(address);
            let own = self.routing.interfaces().of(interface);
            if !own.is_some_and(|own| own.needs_solicited_node(group)) {
                self.groups.unpin(IpAddress::Ipv6(group), interface);
            }
        }
        true
    }

    /// Raises the largest MTU of interfaces to what buffers of this size hold.
    pub(crate) fn fit(&mut self, buffer_bytes: usize) {
        self.routing.fit(buffer_bytes);
    }

    /// Sets an interface's MTU, within the bounds of [`Stack::add_interface`].
    pub fn set_mtu(&mut self, interface: InterfaceId, mtu: usize) {
        self.routing.set_mtu(interface, mtu);
    }

    /// Sets whether an interface takes large segments, and how large ones.
    pub(crate) fn set_segmentation(&mut self, interface: InterfaceId, segmentation: Option<Segmentation>) {
        self.routing.set_cuts(interface, segmentation.map_or(0, Segmentation::payload_max));
    }

    /// Gives an interface another hardware address, and in place of the link-local address that came with the
    /// earlier one its own.
    pub fn set_hardware(&mut self, interface: InterfaceId, mac: EthernetAddress, io: &mut Io<'_>) {
        if let Some((earlier, own)) = self.routing.set_hardware(interface, mac) {
            self.remove_address(interface, earlier);
            self.add_address(interface, own, io);
        }
    }

    /// Announces all addresses of an interface, as new ones: it has come to another place.
    pub fn announce_again(&mut self, interface: InterfaceId, io: &mut Io<'_>) {
        let Some(own) = self.routing.interfaces().of(interface) else { return };
        let all: Vec<IpAddress> = own.cidrs().map(|cidr| cidr.address()).collect();
        for address in all {
            self.claims.forget(interface, address);
            self.claim(interface, address, io.now);
        }
        self.discovery(io).tick();
    }

    /// Returns the oldest conflict that has not been reported. Conflicts about one address are reported at
    /// most once in ten seconds.
    pub fn next_conflict(&mut self) -> Option<AddressConflict> {
        self.claims.next_conflict()
    }

    /// Returns whether `address` is a unicast address of any interface of this host.
    pub(crate) fn is_own(&self, address: &IpAddress) -> bool {
        self.routing.interfaces().owner_of(address).is_some()
    }

    /// Returns whether `address` is the limited broadcast, or a directed one of any prefix of this host.
    pub(crate) fn is_broadcast(&self, address: &IpAddress) -> bool {
        self.routing.interfaces().is_broadcast(address)
    }

    /// Returns whether a packet to `address` ends here: a unicast address of this host, a broadcast address
    /// of one of its links, or a group that it has joined.
    #[must_use]
    pub fn is_local(&self, address: &IpAddress) -> bool {
        self.local().contains(address)
    }

    /// Returns every address that packets to this host may bear: its own on all interfaces, the directed
    /// broadcasts of its prefixes, the limited broadcast, and the groups it is in. Some may come twice.
    pub fn local_addresses(&self) -> impl Iterator<Item = IpAddress> {
        self.local().addresses()
    }

    // --- Routes ---

    /// Adds a route by a gateway, of metric zero. The longest matching prefix wins; `0.0.0.0/0` and `::/0`
    /// lead to the default gateway.
    ///
    /// # Errors
    /// [`RouteError`]; nothing is changed then.
    pub fn add_route(
        &mut self,
        destination: IpCidr,
        gateway: IpAddress,
        interface: InterfaceId,
    ) -> Result<(), RouteError> {
        self.set_route(Route { to: destination, via: Via::Gateway(interface, gateway), metric: 0 })
    }

    /// Adds a route, or replaces the one with the same prefix, interface and metric. It holds from the next
    /// packet on.
    ///
    /// # Errors
    /// [`RouteError`]; nothing is changed then.
    pub fn set_route(&mut self, route: Route) -> Result<(), RouteError> {
        self.routing.set_route(route)
    }

    /// Removes the route with the prefix, interface and metric of `route`. Returns whether there was one.
    /// Its gateway does not matter.
    pub fn remove_route(&mut self, route: &Route) -> bool {
        self.routing.remove_route(route)
    }

    /// Returns the number of routes, those of this host's own prefixes included.
    #[must_use]
    pub const fn route_count(&self) -> usize {
        self.routing.route_count()
    }

    /// Returns every route, those of this host's own prefixes included.
    pub fn routes(&self) -> impl Iterator<Item = Route> {
        self.routing.routes()
    }

    // --- Neighbours ---

    /// Returns the first hop towards `destination`. Asks for its hardware address if that is neither known
    /// nor asked for; after three questions in three seconds (RFC 4861 10) the neighbour is forgotten.
    ///
    /// # Errors
    /// [`OutputError`]; no question is sent then.
    pub fn first_hop(&mut self, destination: IpAddress, io: &mut Io<'_>) -> Result<ResolvedHop, OutputError> {
        self.discovery(io).first_hop(destination)
    }

    /// Sets a neighbour's hardware address for good: the neighbour is not probed, and its advertisements
    /// change nothing. [`Config::neighbors`](super::Config::neighbors) does not count it.
    ///
    /// # Errors
    /// [`NeighborError`]; nothing is changed then.
    pub fn set_neighbor(
        &mut self,
        interface: InterfaceId,
        address: IpAddress,
        hardware: EthernetAddress,
        io: &mut Io<'_>,
    ) -> Result<(), NeighborError> {
        self.discovery(io).set(interface, address, hardware)
    }

    /// Forgets a neighbour, however it became known. Returns whether it was known. Packets that wait for it
    /// are dropped.
    pub fn remove_neighbor(&mut self, interface: InterfaceId, address: IpAddress, io: &mut Io<'_>) -> bool {
        self.neighbors.forget((interface, address), io)
    }

    /// Forgets what has been learned of the neighbours of an interface, which has come to another place.
    /// Those that were set stay.
    pub fn forget_neighbors(&mut self, interface: InterfaceId, io: &mut Io<'_>) {
        self.neighbors.forget_learned(interface, io);
    }

    /// Returns every neighbour known or solicited, as it stands at `now`.
    pub fn neighbors(&self, now: Instant) -> impl Iterator<Item = Neighbor> {
        self.neighbors.iter(now)
    }

    /// Brings the cache in sync with that of another host, which must have the same interfaces and addresses.
    pub fn sync_neighbor(&mut self, update: NeighborUpdate, io: &mut Io<'_>) {
        self.discovery(io).sync(update);
    }

    /// Returns the oldest update that has not been passed on, if the stack is to keep them
    /// ([`Config::neighbor_updates`](super::Config::neighbor_updates)).
    pub fn next_neighbor_update(&mut self) -> Option<NeighborUpdate> {
        self.updates.next()
    }

    /// Takes the oldest request for a neighbour that the stack which shares the addresses is to resolve.
    pub fn next_neighbor_request(&mut self) -> Option<(InterfaceId, IpAddress)> {
        self.neighbors.next_request()
    }

    // --- Groups ---

    /// Joins a multicast group on an interface; reports it. Joins are counted: each wants its own
    /// [`Stack::leave`].
    ///
    /// # Errors
    /// [`GroupError`]; nothing is changed then.
    pub fn join(
        &mut self,
        group: IpAddress,
        interface: InterfaceId,
        io: &mut Io<'_>,
    ) -> Result<(), GroupError> {
        if !group.is_multicast() {
            return Err(GroupError::NotMulticast);
        }
        self.routing.interfaces().of(interface).ok_or(GroupError::Interface)?;
        if self.groups.join(group, interface, io.now)? {
            self.control(io).tick_groups();
        }
        Ok(())
    }

    /// Undoes one [`Stack::join`]; the last one leaves the group and reports it.
    ///
    /// # Errors
    /// [`GroupError`]; nothing is changed then.
    pub fn leave(
        &mut self,
        group: IpAddress,
        interface: InterfaceId,
        io: &mut Io<'_>,
    ) -> Result<(), GroupError> {
        if let Some(report) = self.groups.leave(group, interface, io.now)? {
            let message = report.message(self.routing.interfaces());
            self.output(io).send_message(&message);
        }
        Ok(())
    }
}

/// Returns the rate limit of ICMP errors.
fn error_limit(config: &Config, secret: Secret) -> ReplyLimit {
    /// The label of this limit among others with the same secret.
    const LABEL: u64 = 2;
    ReplyLimit::new(secret, LABEL, config.icmp_errors_per_s, config.icmp_error_burst)
}

impl Routes for Stack {
    type Route = FirstHop;

    fn generation(&self) -> u32 {
        self.routing.generation()
    }

    fn lookup(&self, tuple: &FourTuple) -> FirstHop {
        FirstHop::new(self.routing.path_again(Some(tuple.local.addr.into()), &tuple.remote.addr.into()))
    }

    fn egress(&self, route: &FirstHop) -> Option<Egress> {
        route.interface().map(InterfaceId::egress)
    }

    fn cuts(&self, route: &FirstHop) -> usize {
        let own = route.interface().and_then(|interface| self.routing.interfaces().of(interface));
        own.map_or(0, |own| own.cuts)
    }
}

impl Waits for Stack {
    fn next_deadline(&self) -> Instant {
        self.next_deadline()
    }
}

#[cfg(test)]
impl Stack {
    /// Checks the invariants that hold between any two calls.
    pub(super) fn check_invariants(&self) {
        self.neighbors.check_invariants(&self.config);
        self.reassembly.check_invariants();
    }
}
