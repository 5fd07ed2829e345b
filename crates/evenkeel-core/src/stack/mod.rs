//! Everything of IP below sockets: Ethernet, ARP, NDP, IPv4, IPv6, ICMP, group membership, routes, reassembly, UDP.
//!
//! [`Stack`] takes one received frame at a time and gives UDP datagrams, and packets to forward; it takes datagrams and
//! gives frames. Time comes in, deadlines go out. It holds frames in two places only, both bounded: fragments in reassembly, and frames that wait
//! for a neighbour's hardware address.

mod address;
mod arp;
mod config;
mod conflict;
mod forward;
mod fragment;
mod icmp;
mod icmpv6;
mod identification;
mod ipv4;
mod ipv6;
mod multicast;
mod multipath;
mod ndp;
mod neighbor;
mod neighbor_update;
mod output;
mod packet;
mod path_mtu;
pub(crate) mod random;
mod rate;
mod reassembly;
mod redirect;
mod route;
mod route_cache;
mod tcp;
mod udp;

use std::collections::VecDeque;

use crate::deadline::Deadline;
use crate::drop::{LinkDrop, Reason};
use crate::frame::{BUFFER_BYTES, Frame, HEADROOM, Pool};
use crate::ledger::Ledger;
use crate::tcp::{Ecn, Secret};
use crate::time::Instant;
use crate::wire::{EthernetAddress, EthernetFrame, EthernetProtocol, IpAddress, IpCidr, Ipv4Address};

pub use crate::wire::IpEndpoint as Endpoint;
use address::{ALL_ROUTERS, Attachment, Cast, link_local_of, solicited_node};
pub use config::Config;
pub use conflict::AddressConflict;
use conflict::Claims;
pub use forward::Transit;
use icmp::Problem;
use identification::Identifications;
use multicast::Groups;
pub use multipath::{Multipath, NextHop};
use neighbor::Neighbors;
pub use neighbor::{Neighbor, NeighborState};
pub use neighbor_update::NeighborUpdate;
use neighbor_update::Updates;
use packet::Payload;
use path_mtu::PathMtus;
use random::Random;
use rate::RateLimit;
use reassembly::Reassembly;
use route::Routes;
pub use route::{Route, Via};
use route_cache::RouteCache;
pub(crate) use tcp::segment_max;
pub use tcp::{IcmpError, IcmpErrorKind, TcpPacket};
pub use udp::{Datagram, SendError, Source};

pub use crate::id::InterfaceId;

/// What protocol work needs from the host around it.
///
/// Every frame put into `out` counts in [`Ledger::originated`] or [`Ledger::forwarded`] already; the host counts [`Ledger::transmitted`] when an
/// interface has taken it.
#[derive(Debug)]
pub struct Io<'a> {
    /// The time of this piece of work.
    pub now: Instant,
    /// Where frames come from and go back to.
    pub pool: &'a mut Pool,
    /// Where every frame is accounted for.
    pub ledger: &'a mut Ledger,
    /// Frames ready for transmission, Ethernet header included.
    pub out: &'a mut VecDeque<(InterfaceId, Frame)>,
}

impl Io<'_> {
    /// Ends a received frame as dropped.
    fn drop_frame(&mut self, frame: Frame, reason: impl Into<Reason>) {
        self.ledger.drop_input(reason, 1);
        self.pool.recycle(frame);
    }

    /// Ends the frames of a received packet as dropped.
    fn drop_payload(&mut self, payload: Payload, reason: impl Into<Reason>) {
        self.ledger.drop_input(reason, payload.frames());
        payload.recycle(self.pool);
    }

    /// Ends the frames of a received packet as consumed by the host itself.
    fn consume(&mut self, payload: Payload) {
        self.ledger.consumed += payload.frames();
        payload.recycle(self.pool);
    }
}

/// Why a route cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteError {
    /// The destination is of IPv6 and the gateway of IPv4.
    Family,
    /// No such interface.
    Interface,
    /// The gateway is an address of ours, or of no single neighbour.
    Gateway,
    /// The table is full ([`Config::routes`]).
    Full,
}

/// Why a neighbour cannot be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighborError {
    /// No such interface.
    Interface,
    /// One of its addresses is not unicast.
    NotUnicast,
}

impl core::fmt::Display for RouteError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Family => "a route of IPv6 has no gateway of IPv4",
            Self::Interface => "no such interface",
            Self::Gateway => "the gateway is an address of this host, or of no single neighbour",
            Self::Full => "the table is full",
        })
    }
}

impl core::error::Error for RouteError {}

impl core::fmt::Display for NeighborError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Interface => "no such interface",
            Self::NotUnicast => "its addresses must be those of one host",
        })
    }
}

impl core::error::Error for NeighborError {}

/// Why a group cannot be joined or left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupError {
    /// Not a multicast address.
    NotMulticast,
    /// No such interface.
    Interface,
    /// As many groups as may be are joined ([`Config::groups`]).
    Full,
    /// To be left, but not joined.
    NotJoined,
}

/// What a received frame comes to, if it does not end inside.
#[derive(Debug)]
pub enum Received {
    /// A whole datagram for a socket.
    Datagram(Datagram),
    /// A segment for a connection or a listener.
    Segment(TcpPacket),
    /// What ICMP says of a segment that we have sent. Its frame is consumed.
    IcmpError(IcmpError),
    /// A packet for somebody else; only if [`Config::forwarding`].
    Transit(Transit),
}

/// A packet addressed to us, without its IP header.
#[derive(Debug)]
struct Packet {
    interface: InterfaceId,
    source: IpAddress,
    destination: IpAddress,
    cast: Cast,
    /// Of IPv6 only: NDP and MLD look at it.
    hop_limit: u8,
    /// It came behind a fragment header of IPv6, if only as an atomic fragment: NDP looks at it.
    fragmented: bool,
    ecn: Ecn,
    payload: Payload,
}

/// The protocols below sockets of one host.
///
/// Calls may come in any order, with a time that never goes back. After each of them [`Io::out`] may have frames to send,
/// and [`Stack::next_deadline`] may have changed; [`Stack::tick`] is to be called when it has come.
#[derive(Debug)]
pub struct Stack {
    config: Config,
    attachments: Vec<Attachment>,
    routes: Routes,
    route_cache: RouteCache,
    path_mtus: PathMtus,
    neighbors: Neighbors,
    updates: Updates,
    claims: Claims,
    reassembly: Reassembly,
    groups: Groups,
    errors: RateLimit,
    random: Random,
    identifications: Identifications,
    /// Which flows take which of several next hops.
    flows: u64,
}

/// Frames larger than a pool's buffers cannot be held, so no MTU is larger; the least is what IPv4 hosts must take.
const MTU_MAX: usize = BUFFER_BYTES - HEADROOM;
const MTU_MIN: usize = 576;

impl Stack {
    /// A stack without interfaces. `seed` is where identifications and jitter come from: equal seeds, equal
    /// runs. On a real network it wants a secret besides ([`Stack::set_secret`]).
    #[must_use]
    pub fn new(config: Config, seed: u64) -> Self {
        Self {
            attachments: Vec::new(),
            routes: Routes::default(),
            route_cache: RouteCache::default(),
            path_mtus: PathMtus::default(),
            neighbors: Neighbors::new(&config, seed),
            updates: Updates::new(config.neighbor_updates),
            claims: Claims::default(),
            reassembly: Reassembly::new(&config),
            groups: Groups::default(),
            errors: RateLimit::new(config.icmp_errors_per_s, config.icmp_error_burst),
            identifications: Identifications::new(Secret::of_seed(seed)),
            // As other routers choose by the same hash, each mixes in something of its own: or all flows that come to one would go on together.
            flows: Random::new(!seed).next(),
            random: Random::new(seed),
            config,
        }
    }

    /// From now on identifications, jitter, and what flows take which of several next hops come from
    /// `secret`.
    pub fn set_secret(&mut self, secret: Secret) {
        let seed = |label| secret.hash_for(label, &[]);
        self.identifications = Identifications::new(secret);
        self.neighbors.reseed(seed(2));
        self.random = Random::new(seed(3));
        self.flows = seed(4);
    }

    /// The limits it was made with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Adds an interface with the hardware address `mac` whose IP packets are of `mtu` octets at most, and gives it the
    /// IPv6 link-local address of its hardware address (RFC 4291 appendix A).
    ///
    /// The MTU is taken as 576 at least and 1920 at most (what a frame buffer holds). Of the 256 interfaces that can be
    /// named, more are not added: the last one's name is given again.
    pub fn add_interface(&mut self, mac: EthernetAddress, mtu: usize) -> InterfaceId {
        let Ok(number) = u8::try_from(self.attachments.len()) else { return InterfaceId(u8::MAX) };
        let mtu = mtu.clamp(MTU_MIN, MTU_MAX);
        self.attachments.push(Attachment { hardware: mac, mtu, v4: Vec::new(), v6: Vec::new() });
        let interface = InterfaceId(number);
        if self.config.forwarding {
            self.groups.pin(ALL_ROUTERS.into(), interface, Instant::ZERO, self.config.report_groups);
        }
        self.put_address(interface, IpCidr::Ipv6(link_local_of(mac)), Instant::ZERO);
        interface
    }

    /// Gives an interface an address; its prefix is on-link from now on.
    pub fn add_address(&mut self, interface: InterfaceId, cidr: IpCidr, io: &mut Io<'_>) {
        self.put_address(interface, cidr, io.now);
        self.tick_groups(io);
        self.tick_claims(io);
    }

    /// Takes an address away from an interface, and its prefix off the link unless another address has the same. Says whether it was
    /// there. Routes by gateways of that prefix stay.
    pub fn remove_address(&mut self, interface: InterfaceId, cidr: IpCidr) -> bool {
        let Some(attachment) = self.attachments.get_mut(usize::from(interface.0)) else { return false };
        let removed = match cidr {
            IpCidr::Ipv4(cidr) => remove_one(&mut attachment.v4, cidr),
            IpCidr::Ipv6(cidr) => remove_one(&mut attachment.v6, cidr),
        };
        if !removed {
            return false;
        }
        self.route_cache.forget();
        self.claims.forget(interface, cidr.address());
        if !attachment.has_prefix(&cidr) {
            self.routes.remove_on_link(cidr, interface);
        }
        if let IpAddress::Ipv6(address) = cidr.address()
            && !attachment.v6.iter().any(|other| solicited_node(other.address()) == solicited_node(address))
        {
            self.groups.unpin(IpAddress::Ipv6(solicited_node(address)), interface);
        }
        true
    }

    /// Sets an interface's MTU, within the bounds of [`Stack::add_interface`].
    pub fn set_mtu(&mut self, interface: InterfaceId, mtu: usize) {
        if let Some(attachment) = self.attachments.get_mut(usize::from(interface.0)) {
            attachment.mtu = mtu.clamp(MTU_MIN, MTU_MAX);
        }
    }

    /// Gives an interface another hardware address, and in place of the link-local address that came with the earlier one its own.
    pub fn set_hardware(&mut self, interface: InterfaceId, mac: EthernetAddress, io: &mut Io<'_>) {
        let Some(attachment) = self.attachments.get_mut(usize::from(interface.0)) else { return };
        let earlier = core::mem::replace(&mut attachment.hardware, mac);
        if earlier != mac {
            self.remove_address(interface, IpCidr::Ipv6(link_local_of(earlier)));
            self.add_address(interface, IpCidr::Ipv6(link_local_of(mac)), io);
        }
    }

    /// Announces all addresses of an interface, as new ones: it has come to another place.
    pub fn announce_again(&mut self, interface: InterfaceId, io: &mut Io<'_>) {
        let Some(attachment) = self.attachment(interface) else { return };
        let v4 = attachment.v4.iter().map(|cidr| IpAddress::Ipv4(cidr.address()));
        let all: Vec<_> = v4.chain(attachment.v6.iter().map(|cidr| cidr.address().into())).collect();
        for address in all {
            self.claims.forget(interface, address);
            self.claim(interface, address, io.now);
        }
        self.tick_claims(io);
    }

    fn claim(&mut self, interface: InterfaceId, address: IpAddress, now: Instant) {
        if self.config.announce && !self.config.forward_only {
            self.claims.begin(interface, address, now);
        }
    }

    fn put_address(&mut self, interface: InterfaceId, cidr: IpCidr, now: Instant) {
        let Some(attachment) = self.attachments.get_mut(usize::from(interface.0)) else { return };
        let new = match cidr {
            IpCidr::Ipv4(cidr) => push_new(&mut attachment.v4, cidr),
            IpCidr::Ipv6(cidr) => push_new(&mut attachment.v6, cidr),
        };
        if !new {
            return;
        }
        self.route_cache.forget();
        self.claim(interface, cidr.address(), now);
        self.routes.add_on_link(cidr, interface);
        if let IpAddress::Ipv6(address) = cidr.address() {
            let group = IpAddress::Ipv6(solicited_node(address));
            self.groups.pin(group, interface, now, self.config.report_groups);
        }
    }

    /// Adds a route by a gateway, of metric zero. The longest matching prefix wins; `0.0.0.0/0` and `::/0` lead to the default
    /// gateway.
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

    /// Whether a packet to `address` ends here: a unicast address of ours, a broadcast of ours, or a joined group.
    #[must_use]
    pub fn is_local(&self, address: &IpAddress) -> bool {
        if address.is_multicast() {
            return self.groups.is_member_anywhere(address);
        }
        (0..self.attachments.len()).any(|i| self.cast(address, InterfaceId(i as u8)).is_some())
    }

    /// Every address that packets to this host may bear: its own on all interfaces, the directed broadcasts of its
    /// prefixes, the limited broadcast, and the groups it is in. Some may come twice.
    pub fn local_addresses(&self) -> impl Iterator<Item = IpAddress> {
        let v4 = self.attachments.iter().flat_map(|attachment| &attachment.v4);
        let v6 = self.attachments.iter().flat_map(|attachment| &attachment.v6);
        let own = v4.clone().map(|cidr| cidr.address().into()).chain(v6.map(|cidr| cidr.address().into()));
        let broadcasts = v4.filter_map(|cidr| cidr.broadcast().map(Into::into));
        own.chain(broadcasts).chain([Ipv4Address::BROADCAST.into()]).chain(self.groups.addresses())
    }

    /// Frames a stack with these limits holds at most: what its pool must be able to spare.
    #[must_use]
    pub const fn frames_held_max(config: &Config) -> usize {
        config.held_pkts()
    }

    /// Takes a received frame through everything below sockets. The frame has been counted as received.
    ///
    /// Gives a datagram when one is complete, or a packet to forward. Everything else ends inside: consumed, dropped, or held in reassembly.
    pub fn input(&mut self, interface: InterfaceId, frame: Frame, io: &mut Io<'_>) -> Option<Received> {
        let Ok(ethernet) = EthernetFrame::new_checked(frame.bytes()) else {
            io.drop_frame(frame, LinkDrop::Truncated);
            return None;
        };
        let Some(link) = self.link_cast(interface, ethernet.dst_addr()) else {
            io.drop_frame(frame, LinkDrop::NotForUs);
            return None;
        };
        match ethernet.ethertype() {
            EthernetProtocol::Ipv4 => return self.input_v4(interface, link, frame, io),
            EthernetProtocol::Ipv6 => return self.input_v6(interface, link, frame, io),
            EthernetProtocol::Arp => self.input_arp(interface, frame, io),
            EthernetProtocol::Unknown(_) => io.drop_frame(frame, LinkDrop::UnknownEtherType),
        }
        None
    }

    /// How a frame is addressed to us, if it is. Which groups are joined, IP sees to.
    fn link_cast(&self, interface: InterfaceId, destination: EthernetAddress) -> Option<Cast> {
        let attachment = self.attachment(interface)?;
        if destination == attachment.hardware {
            Some(Cast::Unicast)
        } else if destination.is_broadcast() {
            Some(Cast::Broadcast)
        } else {
            destination.is_multicast().then_some(Cast::Multicast)
        }
    }

    /// Says "port unreachable" to the sender of a datagram that no socket takes, unless the rules forbid it
    /// (RFC 1122 3.2.2, RFC 4443 2.4 e) or the rate limit is reached. The caller drops the datagram afterwards.
    pub fn port_unreachable(&mut self, datagram: &Datagram, io: &mut Io<'_>) {
        self.report(datagram.interface, datagram.payload.first_frame(), Problem::Port, io);
    }

    /// Sends a datagram, in fragments if it is larger than the MTU. To a group its TTL or hop limit is 1 (RFC 1112 6.1).
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent then.
    pub fn send_udp(
        &mut self,
        source: Source,
        to: Endpoint,
        payload: &[u8],
        io: &mut Io<'_>,
    ) -> Result<(), SendError> {
        self.output_udp(source, to, payload, io)
    }

    /// Joins a multicast group on an interface; reports it. Joins are counted: each wants its own [`Stack::leave`].
    ///
    /// # Errors
    /// [`GroupError`]; nothing is changed then.
    pub fn join(
        &mut self,
        group: IpAddress,
        interface: InterfaceId,
        io: &mut Io<'_>,
    ) -> Result<(), GroupError> {
        self.join_group(group, interface, io)
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
        self.leave_group(group, interface, io)
    }

    /// Does what is due at `io.now`: reassembly timeouts, neighbour retransmissions, membership reports.
    pub fn tick(&mut self, io: &mut Io<'_>) {
        while let Some(expired) = self.reassembly.expire(io.now) {
            let first = expired.first().map(|piece| &piece.frame);
            self.report(expired.interface, first, Problem::ReassemblyTime, io);
            expired.discard(io);
        }
        self.tick_neighbors(io);
        self.tick_groups(io);
        self.tick_claims(io);
    }

    /// When [`Stack::tick`] has something to do next; [`Instant::NEVER`] if it has nothing.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        self.deadlines().into_iter().map(|(_, deadline)| deadline).fold(Instant::NEVER, Instant::min)
    }

    /// Who wants [`Stack::tick`] to be called.
    pub(crate) const DEADLINES: [Deadline; 4] =
        [Deadline::Reassembly, Deadline::Neighbors, Deadline::Groups, Deadline::Claims];

    /// When each of them next does.
    pub(crate) fn deadlines(&self) -> [(Deadline, Instant); 4] {
        [
            (Deadline::Reassembly, self.reassembly.next_deadline()),
            (Deadline::Neighbors, self.neighbors.next_deadline()),
            (Deadline::Groups, self.groups.next_deadline()),
            (Deadline::Claims, self.claims.next_deadline()),
        ]
    }

    /// Fragments held in reassembly: part of the ledger's `queued`.
    #[must_use]
    pub fn reassembling(&self) -> u64 {
        self.reassembly.held()
    }

    /// Frames that wait for a neighbour: the ledger's `held`.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.neighbors.held()
    }

    /// Gives up everything held, for shutdown: fragments end as timed out, waiting frames as unresolved.
    pub fn drain(&mut self, io: &mut Io<'_>) {
        while let Some(expired) = self.reassembly.expire(Instant::NEVER) {
            expired.discard(io);
        }
        self.neighbors.drain(io);
    }
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) -> bool {
    let new = !list.contains(&item);
    if new {
        list.push(item);
    }
    new
}

fn remove_one<T: PartialEq>(list: &mut Vec<T>, item: T) -> bool {
    let place = list.iter().position(|other| *other == item);
    place.map(|place| list.remove(place)).is_some()
}

#[cfg(test)]
impl Stack {
    /// What must hold between any two calls.
    fn check_invariants(&self) {
        self.neighbors.check_invariants(&self.config);
        self.reassembly.check_invariants();
    }
}

#[cfg(test)]
mod tests;
