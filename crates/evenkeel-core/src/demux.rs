//! The demultiplexing function: from a frame to a channel, before any protocol work.
//!
//! The function is pure: a frame and a table always give one channel. It allocates nothing, and classifies
//! every frame of the TCP/IP family, fragments included. Source: early demultiplexing, Druschel
//! and Banga, OSDI 1996, section 3.

use std::net::IpAddr;

use crate::drop::{IpDrop, LinkDrop, Reason};
use crate::frame::Frame;
use crate::id::ChannelId;
use crate::plain::Plain;
use crate::tcp::cookie::CookieOffer;
use crate::tcp::{AddrPort, Flags, FourTuple, Secret, Table as Connections};
use crate::wire::{EthernetAddress, IpAddress, IpEndpoint, Ipv4Address, Ipv6Address};

/// A set of frames that can be bound to a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// UDP datagrams to this port; `address` `None` means any of the host's addresses.
    Udp {
        /// Local address, unicast or multicast. An unspecified one means any of its family.
        address: Option<IpAddress>,
        /// Local port.
        port: u16,
    },
    /// TCP segments to this port that belong to no connection.
    Tcp {
        /// Local address; `None` means any of the host's, and an unspecified one any of its family.
        address: Option<IpAddress>,
        /// Local port.
        port: u16,
        /// Whether these are segments that open a connection (SYN without ACK), or all others.
        opens: bool,
    },
    /// Segments of a connection. For adaptors only: a host that demultiplexes itself looks among its
    /// connections.
    Connection(FourTuple),
    /// Neighbour resolution: ARP and NDP, kept apart from other ICMP so that a ping flood cannot silence it.
    /// Its messages are processed ahead of frames that came after them, within a bound.
    Neighbor,
    /// Reports of path MTUs ("fragmentation needed", "packet too big"): the same, and as they come from
    /// anywhere, kept apart from those of neighbours. Bound to no channel, they are control traffic.
    PathMtu,
    /// Everything else that has no socket: ICMP, IGMP, MLD, unknown protocols, UDP to an unbound port.
    Control,
    /// The special channel of fragments whose first part has not come.
    Fragment,
    /// Packets for other hosts, which the host forwards.
    Forward,
}

/// A change of a [`DemuxTable`]. Interfaces that demultiplex apply the same changes to their copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Frames that match the binding go to the channel.
    Bind(Binding, ChannelId),
    /// Frames that match the binding no longer go to a channel.
    Unbind(Binding),
    /// Datagrams to this port go to the channel only if they are from the peer.
    Connect(ChannelId, u16, IpEndpoint),
    /// The SYNs of a listener lead to the channel, and an interface may answer them with SYN cookies. This
    /// ends when they no longer lead there. An interface that cannot do that ignores it.
    AnswerSyns(ChannelId, CookieOffer),
    /// The host has this unicast address, or has joined this group.
    AddAddress(IpAddress),
    /// The host has this broadcast address. No connection is opened to it.
    AddBroadcast(IpAddress),
    /// The host no longer has this address.
    RemoveAddress(IpAddress),
    /// The host's hardware address on this interface.
    Hardware(EthernetAddress),
    /// The hardware address is no longer the host's.
    NoHardware(EthernetAddress),
}

/// The result of demultiplexing a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The frame goes to this channel.
    Channel(ChannelId),
    /// The frame goes to this channel, and so do the later fragments of the same datagram: the caller then
    /// calls [`DemuxTable::record_fragment`].
    FirstFragment(ChannelId, FragmentKey),
    /// A segment. It goes to the channel of its connection, if the caller knows of a connection that the
    /// table does not; else to `channel`, if there is one.
    Segment {
        /// The addresses and ports of both peers; the host's are the local ones.
        tuple: FourTuple,
        /// It wants to open a connection.
        opens: bool,
        /// The channel of the segment's connection, of its listener, or of control traffic.
        channel: Option<ChannelId>,
    },
    /// Nowhere.
    Discard(Reason),
}

/// The fields that all fragments of one datagram share (RFC 791 section 3.2; RFC 8200 section 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentKey {
    source: [u8; 16],
    destination: [u8; 16],
    identification: u32,
    protocol: u8,
}

/// Datagrams in fragments that can be followed at the same time; an older one is forgotten, its later
/// fragments then take the special channel, which is slower but not wrong.
const FRAGMENT_SLOTS: usize = 1024;

/// The largest number of headers behind the fixed one of IPv6 that are parsed. It is as many as IP input
/// follows: eight in front of a fragment header, that header, and eight behind it; then the transport's.
const HEADERS_MAX: usize = 18;

/// Connections that can have a channel of their own on an adaptor.
const CONNECTIONS_MAX: usize = 1 << 16;

const NO_CHANNEL: ChannelId = ChannelId(u32::MAX);

/// The table the demultiplexing function looks into.
#[derive(Debug, Clone)]
pub struct DemuxTable {
    hardware: Vec<EthernetAddress>,
    addresses: Addresses,
    udp: Ports,
    /// TCP segments that open connections, and those that do not.
    opening: Ports,
    other: Ports,
    connections: Connections<ChannelId>,
    /// The channels whose SYNs an interface may answer.
    offers: Vec<(ChannelId, CookieOffer)>,
    neighbor: ChannelId,
    control: ChannelId,
    path: ChannelId,
    fragment: ChannelId,
    forward: ChannelId,
    fragments: Box<[Option<(FragmentKey, ChannelId)>]>,
    secret: Secret,
    /// A number that changes with every change of the table: results of another generation may be outdated.
    generation: u32,
}

/// The class of the last plain datagram over IPv4: the next one most often goes to the same channel. Valid
/// as long as the table does not change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastClass {
    head: Head,
    channel: ChannelId,
}

/// The words of a frame's first bytes that show that it is a plain datagram over IPv4, and its destination,
/// without the other bits.
type Head = [u64; 4];

/// Hardware address; type, version and length of the header; fragment's flags and offset, protocol; address
/// and port of the destination.
const HEAD: Head = [
    u64::from_ne_bytes([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    u64::from_ne_bytes([0xff, 0xff, 0xff, 0, 0, 0, 0, 0]),
    u64::from_ne_bytes([0x3f, 0xff, 0, 0xff, 0, 0, 0, 0]),
    u64::from_ne_bytes([0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff]),
];

/// Returns the words of a frame to which the mask [`HEAD`] applies.
#[inline(always)]
fn head_of(frame: &[u8]) -> Option<Head> {
    let bytes: &[u8; 38] = frame.first_chunk()?;
    let word = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    Some([word(0)?, word(12)?, word(20)?, word(30)?])
}

impl LastClass {
    /// Parses `frame` if it is a plain datagram to the same destination as the last one.
    #[inline(always)]
    pub(crate) fn next(&self, frame: &[u8]) -> Option<Plain> {
        let head = head_of(frame)?;
        let other = |word: usize| head[word] & HEAD[word] ^ self.head[word];
        if other(0) | other(1) | other(2) | other(3) != 0 {
            return None;
        }
        Plain::of_udp_v4(frame)
    }

    /// Returns whether `frame` is a plain datagram to the same destination as the last one.
    #[inline(always)]
    pub(crate) fn is_of(&self, frame: &[u8]) -> bool {
        self.next(frame).is_some()
    }

    /// Returns the number of frames at the front of `frames` that are of this class.
    // A function of its own, so that what it compares stays in registers.
    #[inline(never)]
    pub(crate) fn run_of(&self, frames: &[Frame]) -> usize {
        frames.iter().take_while(|frame| self.is_of(frame.bytes())).count()
    }

    pub(crate) const fn channel(&self) -> ChannelId {
        self.channel
    }
}

/// Recognises the plain datagrams that lead to one channel.
#[derive(Debug)]
pub(crate) struct PlainTo<'a> {
    table: &'a DemuxTable,
    channel: ChannelId,
    last: Option<LastClass>,
}

impl<'a> PlainTo<'a> {
    pub(crate) const fn new(table: &'a DemuxTable, channel: ChannelId) -> Self {
        Self { table, channel, last: None }
    }

    /// Parses `frame` if it is a plain datagram that leads to the channel.
    #[inline]
    pub(crate) fn parse(&mut self, frame: &[u8]) -> Option<Plain> {
        if let Some(plain) = self.last.and_then(|last| last.next(frame)) {
            return Some(plain);
        }
        let plain = Plain::of(frame)?;
        if self.table.classify_plain(frame, plain)? != self.channel {
            return None;
        }
        self.last = self.table.last_class(frame, plain, self.channel);
        Some(plain)
    }
}

/// The addresses the host answers to. They are few.
#[derive(Debug, Clone, Default)]
struct Addresses {
    v4: Vec<Ipv4Address>,
    v6: Vec<Ipv6Address>,
    /// Those of them that are broadcasts.
    broadcasts: Vec<IpAddress>,
}

impl Addresses {
    fn add(&mut self, address: IpAddress) {
        self.remove(address);
        match address {
            IpAddress::Ipv4(address) => self.v4.push(address),
            IpAddress::Ipv6(address) => self.v6.push(address),
        }
    }

    fn remove(&mut self, address: IpAddress) {
        match address {
            IpAddress::Ipv4(address) => self.v4.retain(|&other| other != address),
            IpAddress::Ipv6(address) => self.v6.retain(|&other| other != address),
        }
        self.broadcasts.retain(|&other| other != address);
    }

    /// Returns the change that adds an address of these.
    fn added(&self, address: IpAddress) -> Change {
        if self.broadcasts.contains(&address) {
            Change::AddBroadcast(address)
        } else {
            Change::AddAddress(address)
        }
    }

    fn iter(&self) -> impl Iterator<Item = IpAddress> {
        let v6 = self.v6.iter().copied().map(IpAddress::Ipv6);
        self.v4.iter().copied().map(IpAddress::Ipv4).chain(v6)
    }
}

/// Channels by port and address.
#[derive(Debug, Clone)]
struct Ports {
    /// Index into `ports` by port number, 0 for an unbound port. One load for the common case, and no
    /// hashing. Empty until a port is bound.
    by_port: Box<[u16]>,
    ports: Vec<Port>,
    /// The number of channels with peers, at all ports.
    connected: usize,
}

#[derive(Debug, Clone, Default)]
struct Port {
    /// The channel of any address of IPv4, and that of any address of IPv6.
    any: [Option<ChannelId>; 2],
    /// The channels by address; at most as many as the host has addresses and groups.
    exact: Vec<(IpAddress, ChannelId)>,
    /// The channels to which only datagrams of a peer lead, with the peers.
    peers: Vec<(ChannelId, IpEndpoint)>,
}

impl Port {
    #[inline]
    fn find(&self, address: &IpAddress) -> Option<ChannelId> {
        if self.exact.is_empty() && !address.is_multicast() {
            return self.any[family(address)];
        }
        let exact = self.exact.iter().find(|(a, _)| a == address).map(|&(_, channel)| channel);
        // A socket bound to a group gets that group only; one bound to no address gets no group it has not
        // joined.
        exact.or(if address.is_multicast() { None } else { self.any[family(address)] })
    }

    /// Sets the peer of a channel. Returns whether it had none.
    fn connect(&mut self, channel: ChannelId, peer: IpEndpoint) -> bool {
        match self.peers.iter_mut().find(|(other, _)| *other == channel) {
            Some((_, known)) => {
                *known = peer;
                false
            }
            None => {
                self.peers.push((channel, peer));
                true
            }
        }
    }

    /// Forgets the peers of channels that nothing leads to any more. Returns their number.
    fn forget_peers(&mut self) -> usize {
        let Self { any, exact, peers } = self;
        let before = peers.len();
        peers.retain(|(channel, _)| {
            any.contains(&Some(*channel)) || exact.iter().any(|(_, bound)| bound == channel)
        });
        before - peers.len()
    }

    /// Returns whether the channel takes datagrams from `source`.
    fn admits(&self, channel: ChannelId, source: IpEndpoint) -> bool {
        self.peers.iter().all(|(other, peer)| *other != channel || *peer == source)
    }

    /// Returns the places in `any` of a binding: both for no address, one for an unspecified address, and
    /// none for a specific one.
    fn any_mut(&mut self, address: Option<IpAddress>) -> Option<&mut [Option<ChannelId>]> {
        match address {
            None => Some(&mut self.any),
            Some(address) if address.is_unspecified() => {
                Some(core::slice::from_mut(&mut self.any[family(&address)]))
            }
            Some(_) => None,
        }
    }

    /// Returns whether a binding to `address` would get frames of one that is there. Groups are shared.
    fn conflicts(&self, address: Option<IpAddress>) -> bool {
        let is_of = |of: usize| address.is_none_or(|address| family(&address) == of);
        let any = (0..self.any.len()).any(|of| is_of(of) && self.any[of].is_some());
        any || self.exact.iter().any(|(other, _)| match address {
            Some(address) if !address.is_unspecified() => *other == address,
            _ => is_of(family(other)) && !other.is_multicast(),
        })
    }
}

/// Returns the number of an address's family.
#[inline]
const fn family(address: &IpAddress) -> usize {
    match address {
        IpAddress::Ipv4(_) => 0,
        IpAddress::Ipv6(_) => 1,
    }
}

impl Ports {
    fn new() -> Self {
        Self { by_port: Box::default(), ports: vec![Port::default()], connected: 0 }
    }

    fn bind(&mut self, address: Option<IpAddress>, port: u16, channel: ChannelId) {
        if self.by_port.is_empty() {
            self.by_port = vec![0; 1 << 16].into_boxed_slice();
        }
        let slot = &mut self.by_port[usize::from(port)];
        if *slot == 0 {
            // At most 65 535 ports can be bound besides port 0, so the index fits.
            *slot = u16::try_from(self.ports.len()).unwrap_or(0);
            self.ports.push(Port::default());
        }
        let entry = &mut self.ports[usize::from(*slot)];
        if let Some(any) = entry.any_mut(address) {
            any.fill(Some(channel));
        } else if let Some(address) = address {
            entry.exact.retain(|&(a, _)| a != address);
            entry.exact.push((address, channel));
        }
    }

    fn unbind(&mut self, address: Option<IpAddress>, port: u16) {
        let Some(&slot) = self.by_port.get(usize::from(port)) else { return };
        let entry = &mut self.ports[usize::from(slot)];
        if let Some(any) = entry.any_mut(address) {
            any.fill(None);
        } else if let Some(address) = address {
            entry.exact.retain(|&(a, _)| a != address);
        }
        self.connected -= entry.forget_peers();
        // The slot stays with its port: ports are bound again and again, and there are at most 65 536 of
        // them.
    }

    /// Returns whether a binding leads to the channel.
    fn leads_to(&self, channel: ChannelId) -> bool {
        let leads = |port: &Port| {
            port.any.contains(&Some(channel)) || port.exact.iter().any(|(_, bound)| *bound == channel)
        };
        self.ports.iter().any(leads)
    }

    #[inline]
    fn get(&self, port: u16) -> Option<&Port> {
        self.ports.get(usize::from(*self.by_port.get(usize::from(port))?))
    }

    #[inline]
    fn find(&self, address: &IpAddress, port: u16) -> Option<ChannelId> {
        self.get(port)?.find(address)
    }

    /// Returns the channel of a datagram, whose `source` only connected sockets ask for.
    #[inline]
    fn find_from(
        &self,
        source: impl FnOnce() -> IpEndpoint,
        address: &IpAddress,
        port: u16,
    ) -> Option<ChannelId> {
        let entry = self.get(port)?;
        let channel = entry.find(address)?;
        (self.connected == 0 || entry.admits(channel, source())).then_some(channel)
    }

    /// Returns whether the channels of a port take datagrams from everybody.
    #[inline]
    fn is_open(&self, port: u16) -> bool {
        self.connected == 0 || self.get(port).is_some_and(|entry| entry.peers.is_empty())
    }

    fn connect(&mut self, channel: ChannelId, port: u16, peer: IpEndpoint) {
        let slot = self.by_port.get(usize::from(port)).copied().filter(|&slot| slot != 0);
        if let Some(entry) = slot.and_then(|slot| self.ports.get_mut(usize::from(slot))) {
            self.connected += usize::from(entry.connect(channel, peer));
        }
    }

    fn conflicts(&self, address: Option<IpAddress>, port: u16) -> bool {
        let slot = self.by_port.get(usize::from(port)).copied().filter(|&slot| slot != 0);
        slot.and_then(|slot| self.ports.get(usize::from(slot))).is_some_and(|entry| entry.conflicts(address))
    }

    fn contents(&self, binding: impl Fn(Option<IpAddress>, u16) -> Binding) -> Vec<Change> {
        let mut changes = Vec::new();
        for (port, &slot) in self.by_port.iter().enumerate().filter(|&(_, &slot)| slot != 0) {
            let (port, entry) = (port as u16, &self.ports[usize::from(slot)]);
            changes.extend(match entry.any {
                [Some(v4), Some(v6)] if v4 == v6 => vec![Change::Bind(binding(None, port), v4)],
                [v4, v6] => {
                    let unspecified = [Ipv4Address::UNSPECIFIED.into(), Ipv6Address::UNSPECIFIED.into()];
                    let bind = |(address, channel)| Change::Bind(binding(Some(address), port), channel);
                    let of_families = unspecified.into_iter().zip([v4, v6]);
                    of_families.filter_map(|(address, channel)| Some(bind((address, channel?)))).collect()
                }
            });
            let exact = entry.exact.iter();
            changes.extend(exact.map(|&(a, channel)| Change::Bind(binding(Some(a), port), channel)));
            changes.extend(entry.peers.iter().map(|&(channel, peer)| Change::Connect(channel, port, peer)));
        }
        changes
    }
}

impl DemuxTable {
    /// Creates an empty table, for a network that knows the seed anyway; for any other, see
    /// [`DemuxTable::set_secret`].
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let secret = Secret::of_seed(seed);
        Self {
            hardware: Vec::new(),
            addresses: Addresses::default(),
            udp: Ports::new(),
            opening: Ports::new(),
            other: Ports::new(),
            connections: Connections::new(secret, CONNECTIONS_MAX),
            offers: Vec::new(),
            forward: NO_CHANNEL,
            neighbor: NO_CHANNEL,
            control: NO_CHANNEL,
            path: NO_CHANNEL,
            fragment: NO_CHANNEL,
            fragments: vec![None; FRAGMENT_SLOTS].into_boxed_slice(),
            secret,
            generation: 0,
        }
    }

    /// Sets the secret that places the entries of datagrams in fragments. A sender that does not know it
    /// cannot choose fragments that push out those of others. Datagrams followed now are forgotten.
    pub fn set_secret(&mut self, secret: Secret) {
        self.secret = secret;
        self.fragments.fill(None);
    }

    /// Applies a change. Allocates; not for the per-frame path.
    pub fn apply(&mut self, change: Change) {
        self.generation = self.generation.wrapping_add(1);
        match change {
            Change::Bind(Binding::Udp { address, port }, channel) => self.udp.bind(address, port, channel),
            Change::Unbind(Binding::Udp { address, port }) => self.udp.unbind(address, port),
            Change::Bind(Binding::Tcp { address, port, opens }, channel) => {
                self.listening(opens).bind(address, port, channel);
            }
            Change::Unbind(Binding::Tcp { address, port, opens }) => {
                self.listening(opens).unbind(address, port);
                let Self { opening, offers, .. } = self;
                offers.retain(|(channel, _)| opening.leads_to(*channel));
            }
            Change::Bind(Binding::Connection(tuple), channel) => {
                // A connection that finds no room has its listener's channel.
                let _ = self.connections.insert(tuple, channel);
            }
            Change::Unbind(Binding::Connection(tuple)) => {
                if let Some(id) = self.connections.find(&tuple) {
                    self.connections.remove(id);
                }
            }
            Change::Bind(Binding::Neighbor, channel) => self.neighbor = channel,
            Change::Bind(Binding::Control, channel) => self.control = channel,
            Change::Bind(Binding::PathMtu, channel) => self.path = channel,
            Change::Bind(Binding::Fragment, channel) => self.fragment = channel,
            Change::Bind(Binding::Forward, channel) => self.forward = channel,
            Change::Unbind(Binding::Forward) => self.forward = NO_CHANNEL,
            Change::Unbind(Binding::Neighbor) => self.neighbor = NO_CHANNEL,
            Change::Unbind(Binding::Control) => self.control = NO_CHANNEL,
            Change::Unbind(Binding::PathMtu) => self.path = NO_CHANNEL,
            Change::Unbind(Binding::Fragment) => self.fragment = NO_CHANNEL,
            Change::Connect(channel, port, peer) => self.udp.connect(channel, port, peer),
            Change::AnswerSyns(channel, offer) => {
                self.offers.retain(|(other, _)| *other != channel);
                self.offers.push((channel, offer));
            }
            Change::AddAddress(address) => self.addresses.add(address),
            Change::AddBroadcast(address) => {
                self.addresses.add(address);
                self.addresses.broadcasts.push(address);
            }
            Change::RemoveAddress(address) => self.addresses.remove(address),
            Change::Hardware(address) => {
                if !self.hardware.contains(&address) {
                    self.hardware.push(address);
                }
            }
            Change::NoHardware(address) => self.hardware.retain(|own| *own != address),
        }
    }

    const fn listening(&mut self, opens: bool) -> &mut Ports {
        if opens { &mut self.opening } else { &mut self.other }
    }

    /// Returns the changes that would make an empty table like this one, without hardware addresses and
    /// followed fragments.
    pub fn contents(&self) -> Vec<Change> {
        let special = [
            (Binding::Neighbor, self.neighbor),
            (Binding::Control, self.control),
            (Binding::PathMtu, self.path),
            (Binding::Fragment, self.fragment),
            (Binding::Forward, self.forward),
        ];
        let mut changes: Vec<_> =
            self.addresses.iter().map(|address| self.addresses.added(address)).collect();
        changes
            .extend(special.into_iter().filter(|&(_, c)| c != NO_CHANNEL).map(|(b, c)| Change::Bind(b, c)));
        changes.extend(self.udp.contents(|address, port| Binding::Udp { address, port }));
        for (ports, opens) in [(&self.opening, true), (&self.other, false)] {
            changes.extend(ports.contents(|address, port| Binding::Tcp { address, port, opens }));
        }
        let offers = self.offers.iter();
        changes.extend(offers.map(|&(channel, offer)| Change::AnswerSyns(channel, offer)));
        let connections = self.connections.iter();
        changes.extend(
            connections.map(|(_, &tuple, &channel)| Change::Bind(Binding::Connection(tuple), channel)),
        );
        changes
    }

    /// Returns an iterator over the addresses the host answers to.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddress> {
        self.addresses.iter()
    }

    /// Returns whether a UDP socket that is bound to `port` is in the way of another one at `address`: both
    /// would be bound to one address, or one of them to all addresses of a family. Groups are in nobody's
    /// way.
    #[must_use]
    pub fn conflicts(&self, address: Option<IpAddress>, port: u16) -> bool {
        self.udp.conflicts(address, port)
    }

    /// Returns the channel of UDP datagrams to `address` and `port`, if a socket is bound to them.
    #[must_use]
    pub fn udp(&self, address: &IpAddress, port: u16) -> Option<ChannelId> {
        self.udp.find(address, port)
    }

    /// Returns the channels of all datagrams to `port` at unicast addresses of IPv4, and of IPv6. `None` for
    /// a family if the address decides, or the sender.
    #[must_use]
    pub fn channels_of_port(&self, port: u16) -> [Option<ChannelId>; 2] {
        match self.udp.get(port) {
            Some(Port { any, exact, peers })
                if peers.is_empty() && exact.iter().all(|(address, _)| address.is_multicast()) =>
            {
                *any
            }
            _ => [None; 2],
        }
    }

    /// Returns the generation of the table, which is another one after every change.
    #[inline]
    pub(crate) const fn generation(&self) -> u32 {
        self.generation
    }

    /// Demultiplexes the most frequent frames: a plain datagram to a bound port. Agrees with
    /// [`DemuxTable::classify`] for these, and returns `None` for all others.
    #[inline]
    pub(crate) fn classify_plain(&self, frame: &[u8], plain: Plain) -> Option<ChannelId> {
        if !plain.is_udp() {
            return None;
        }
        let [source, destination] = self.ends_of_plain(frame, plain)?;
        self.udp.find_from(|| source, &destination.addr, destination.port)
    }

    /// Returns the class of a plain datagram over IPv4 that led to `channel`, whoever sends the next one;
    /// `None` for any other packet, and if the port is a connected socket's.
    pub(crate) fn last_class(&self, frame: &[u8], plain: Plain, channel: ChannelId) -> Option<LastClass> {
        if !plain.is_v4() || !plain.is_udp() {
            return None;
        }
        let words = head_of(frame)?;
        let head = core::array::from_fn(|word| words[word] & HEAD[word]);
        let &[p0, p1] = frame.get(plain.transport() + 2..)?.first_chunk()?;
        self.udp.is_open(u16::from_be_bytes([p0, p1])).then_some(LastClass { head, channel })
    }

    /// Returns the addresses and ports, and the flags, of a plain TCP segment to an address of the host.
    #[inline]
    pub(crate) fn plain_segment(&self, frame: &[u8], plain: Plain) -> Option<(FourTuple, Flags)> {
        if plain.is_udp() {
            return None;
        }
        let ends = self.ends_of_plain(frame, plain)?;
        let [source, destination] = ends.map(|end| AddrPort::from((end.addr, end.port)));
        let &flags = frame.get(plain.transport() + 13)?;
        Some((FourTuple::new(destination, source), Flags::from_bits(flags)))
    }

    /// Returns the source and the destination of a plain packet, if the destination is an address of the
    /// host.
    #[inline(always)]
    fn ends_of_plain(&self, frame: &[u8], plain: Plain) -> Option<[IpEndpoint; 2]> {
        let &[d0, d1, d2, d3, d4, d5] = frame.first_chunk()?;
        if d0 & 1 == 0 && !self.hardware.contains(&EthernetAddress([d0, d1, d2, d3, d4, d5])) {
            return None;
        }
        let &[s0, s1, p0, p1] = frame.get(plain.transport()..)?.first_chunk()?;
        let (is_local, addresses) = if plain.is_v4() {
            let &[a, b, c, d, e, f, g, h] = frame.get(26..)?.first_chunk()?;
            let (source, to) = (Ipv4Address::new(a, b, c, d), Ipv4Address::new(e, f, g, h));
            (self.addresses.v4.contains(&to), [IpAddress::Ipv4(source), IpAddress::Ipv4(to)])
        } else {
            let source = Ipv6Address::from_octets(*frame.get(22..)?.first_chunk()?);
            let to = Ipv6Address::from_octets(*frame.get(38..)?.first_chunk()?);
            (self.addresses.v6.contains(&to), [IpAddress::Ipv6(source), IpAddress::Ipv6(to)])
        };
        let [source, to] = addresses;
        let ends = [
            IpEndpoint::new(source, u16::from_be_bytes([s0, s1])),
            IpEndpoint::new(to, u16::from_be_bytes([p0, p1])),
        ];
        is_local.then_some(ends)
    }

    /// Demultiplexes any frame, from its Ethernet header on.
    #[must_use]
    pub fn classify(&self, frame: &[u8]) -> Class {
        let Some((ethernet, payload)) = frame.split_first_chunk::<14>() else {
            return Class::Discard(LinkDrop::Truncated.into());
        };
        let [d0, d1, d2, d3, d4, d5, ..] = *ethernet;
        let destination = EthernetAddress([d0, d1, d2, d3, d4, d5]);
        if d0 & 1 == 0 && !self.hardware.contains(&destination) {
            return Class::Discard(LinkDrop::NotForUs.into());
        }
        match u16::from_be_bytes([ethernet[12], ethernet[13]]) {
            0x0800 => self.classify_ipv4(payload),
            0x86dd => self.classify_ipv6(payload),
            0x0806 => self.channel(self.neighbor),
            _ => Class::Discard(LinkDrop::UnknownEtherType.into()),
        }
    }

    fn channel(&self, channel: ChannelId) -> Class {
        if channel == NO_CHANNEL {
            return Class::Discard(IpDrop::UnknownProtocol.into());
        }
        Class::Channel(channel)
    }

    fn classify_ipv4(&self, packet: &[u8]) -> Class {
        const MALFORMED: Class = Class::Discard(Reason::Ip(IpDrop::Malformed));
        let Some((header, _)) = packet.split_first_chunk::<20>() else { return MALFORMED };
        let header_len = usize::from(header[0] & 0x0f) * 4;
        let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header[0] >> 4 != 4 || header_len < 20 || total_len < header_len {
            return MALFORMED;
        }
        let Some(payload) = packet.get(header_len..total_len) else { return MALFORMED };
        let destination = Ipv4Address::new(header[16], header[17], header[18], header[19]);
        let local = IpAddress::Ipv4(destination);
        if !self.addresses.v4.contains(&destination) {
            return self.in_transit(local);
        }
        let protocol = header[9];
        let flags_offset = u16::from_be_bytes([header[6], header[7]]);
        let (more, offset) = (flags_offset & 0x2000 != 0, flags_offset & 0x1fff);
        let key = (more || offset != 0).then(|| FragmentKey {
            source: Ipv4Address::new(header[12], header[13], header[14], header[15])
                .to_ipv6_mapped()
                .octets(),
            destination: destination.to_ipv6_mapped().octets(),
            identification: u32::from(u16::from_be_bytes([header[4], header[5]])),
            protocol,
        });
        if offset != 0 {
            return self.later_fragment(key);
        }
        let source = IpAddress::Ipv4(Ipv4Address::new(header[12], header[13], header[14], header[15]));
        self.classify_transport(source, local, protocol, payload, key)
    }

    fn classify_ipv6(&self, packet: &[u8]) -> Class {
        const MALFORMED: Class = Class::Discard(Reason::Ip(IpDrop::Malformed));
        let Some((header, rest)) = packet.split_first_chunk::<40>() else { return MALFORMED };
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let Some(payload) = rest.get(..len) else { return MALFORMED };
        if header[0] >> 4 != 6 {
            return MALFORMED;
        }
        let mut addresses = [[0; 16]; 2];
        addresses[0].copy_from_slice(&header[8..24]);
        addresses[1].copy_from_slice(&header[24..40]);
        let ours = self.addresses.v6.contains(&Ipv6Address::from_octets(addresses[1]));
        let [source, destination] = addresses.map(|bytes| IpAddress::Ipv6(Ipv6Address::from_octets(bytes)));
        // What is behind the fixed header of a packet for somebody else is no business of ours (RFC 8200 4).
        if !ours {
            return self.in_transit(destination);
        }
        let chain = HeaderChain::follow(header[6], payload);
        let fragment = chain.fragment.filter(|fragment| !fragment.is_atomic());
        let key = fragment.map(|fragment| FragmentKey {
            source: addresses[0],
            destination: addresses[1],
            identification: fragment.identification,
            protocol: 0,
        });
        match chain.upper {
            _ if fragment.is_some_and(|fragment| !fragment.is_first()) => self.later_fragment(key),
            // Not discovery behind a fragment header, which is to be ignored (RFC 6980 5).
            Some((58, _)) if chain.fragment.is_some() => self.noting(self.control, key),
            Some((protocol, payload)) => self.classify_transport(source, destination, protocol, payload, key),
            // Not for us to discard: protocol input may have to report it (RFC 8200 4.2, 4.5, RFC 7112 5).
            None => self.noting(self.control, key),
        }
    }

    /// Returns the class of a packet for another host: the channel of the forwarding daemon. Without one,
    /// and if the destination is no single host, the packet is discarded.
    fn in_transit(&self, destination: IpAddress) -> Class {
        if self.forward == NO_CHANNEL || destination.is_multicast() || destination.is_broadcast() {
            return Class::Discard(IpDrop::NotLocal.into());
        }
        Class::Channel(self.forward)
    }

    /// Returns the class of a fragment without transport header: that of the first fragment, if it is known;
    /// else that of fragments in general.
    fn later_fragment(&self, key: Option<FragmentKey>) -> Class {
        let known = key.and_then(|key| self.fragment_channel(&key));
        self.channel(known.unwrap_or(self.fragment))
    }

    /// Returns the class of a packet for `channel`. With a `key`, it is a first fragment, whose later ones
    /// follow it.
    fn noting(&self, channel: ChannelId, key: Option<FragmentKey>) -> Class {
        match (self.channel(channel), key) {
            (Class::Channel(channel), Some(key)) => Class::FirstFragment(channel, key),
            (class, _) => class,
        }
    }

    /// Demultiplexes by `payload`, which starts at the transport header. With a `key` it is a first
    /// fragment.
    fn classify_transport(
        &self,
        source: IpAddress,
        destination: IpAddress,
        protocol: u8,
        payload: &[u8],
        key: Option<FragmentKey>,
    ) -> Class {
        let channel = match (protocol, payload) {
            (6, &[s0, s1, d0, d1, _, _, _, _, _, _, _, _, _, flags, ..]) if key.is_none() => {
                let end = |address, port| AddrPort::from((address, u16::from_be_bytes(port)));
                let tuple = FourTuple::new(end(destination, [d0, d1]), end(source, [s0, s1]));
                return self.classify_segment(tuple, flags);
            }
            (17, &[s0, s1, p0, p1, ..]) => {
                let from = || IpEndpoint::new(source, u16::from_be_bytes([s0, s1]));
                let port = u16::from_be_bytes([p0, p1]);
                self.udp.find_from(from, &destination, port).unwrap_or(self.control)
            }
            // NDP: router solicitation to redirect (RFC 4861 section 4).
            (58, &[133..=137, ..]) => self.neighbor,
            // "Fragmentation needed" (RFC 1191 4), "packet too big" (RFC 4443 3.2).
            (1, &[3, 4, ..]) | (58, &[2, ..]) if key.is_none() && self.path != NO_CHANNEL => self.path,
            _ => self.control,
        };
        self.noting(channel, key)
    }

    fn classify_segment(&self, tuple: FourTuple, flags: u8) -> Class {
        let opens = Flags::from_bits(flags).opens();
        let connection = self.connections.find(&tuple).and_then(|id| self.connections.get(id)).copied();
        let channel = connection.or_else(|| self.segments_for_nobody(&tuple, opens));
        Class::Segment { tuple, opens, channel }
    }

    /// Returns the channel of a segment that belongs to no connection: the listener's, or else that of
    /// control traffic, where the segment is refused.
    pub(crate) fn segments_for_nobody(&self, tuple: &FourTuple, opens: bool) -> Option<ChannelId> {
        let ports = if opens { &self.opening } else { &self.other };
        let listening = ports.find(&tuple.local.addr.into(), tuple.local.port);
        listening.or((self.control != NO_CHANNEL).then_some(self.control))
    }

    /// Remembers where the later fragments of a datagram go. Overwrites an older datagram that fell into the
    /// same slot.
    pub fn record_fragment(&mut self, key: FragmentKey, channel: ChannelId) {
        let slot = self.fragment_slot(&key);
        if let Some(place) = self.fragments.get_mut(slot) {
            *place = Some((key, channel));
        }
    }

    fn fragment_channel(&self, key: &FragmentKey) -> Option<ChannelId> {
        let (held, channel) = (*self.fragments.get(self.fragment_slot(key))?)?;
        (held == *key).then_some(channel)
    }

    fn fragment_slot(&self, key: &FragmentKey) -> usize {
        const LABEL: u64 = 5;
        let mut bytes = [0; 37];
        let (addresses, rest) = bytes.split_at_mut(32);
        addresses[..16].copy_from_slice(&key.source);
        addresses[16..].copy_from_slice(&key.destination);
        rest[..4].copy_from_slice(&key.identification.to_be_bytes());
        rest[4] = key.protocol;
        (self.secret.hash_for(LABEL, &bytes) % FRAGMENT_SLOTS as u64) as usize
    }
}

/// The fragment header of IPv6 (RFC 8200 4.5).
#[derive(Debug, Clone, Copy)]
struct FragmentHeader {
    identification: u32,
    /// Offset and flags, as they stand there.
    field: u16,
}

impl FragmentHeader {
    /// Returns whether the packet is whole although it has a fragment header (RFC 6946).
    const fn is_atomic(self) -> bool {
        self.field & 0xfff9 == 0
    }

    const fn is_first(self) -> bool {
        self.field & 0xfff8 == 0
    }
}

/// The headers that follow the fixed header of an IPv6 packet.
#[derive(Debug, Default)]
struct HeaderChain<'a> {
    /// The upper layer's protocol, and what begins with its header; `None` if it could not be reached.
    upper: Option<(u8, &'a [u8])>,
    fragment: Option<FragmentHeader>,
}

impl<'a> HeaderChain<'a> {
    /// Follows the headers of `payload`, of which the first is named `next`, as far as they are there: to the
    /// upper layer, or to the fragment header of a later fragment.
    fn follow(mut next: u8, mut payload: &'a [u8]) -> Self {
        let mut chain = Self::default();
        for _ in 0..HEADERS_MAX {
            match (next, payload) {
                // Hop-by-hop options, routing, destination options: in units of 8 bytes, the first not
                // counted (RFC 8200 4).
                (0 | 43 | 60, &[following, units, ..]) => {
                    let Some(rest) = payload.get((usize::from(units) + 1) * 8..) else { return chain };
                    (next, payload) = (following, rest);
                }
                (44, &[following, _, f0, f1, i0, i1, i2, i3, ref rest @ ..]) if chain.fragment.is_none() => {
                    let identification = u32::from_be_bytes([i0, i1, i2, i3]);
                    let header = FragmentHeader { identification, field: u16::from_be_bytes([f0, f1]) };
                    chain.fragment = Some(header);
                    if !header.is_first() {
                        return chain;
                    }
                    (next, payload) = (following, rest);
                }
                (0 | 43 | 44 | 60, _) => return chain,
                _ => {
                    chain.upper = Some((next, payload));
                    return chain;
                }
            }
        }
        chain
    }
}

/// Mixes 64 bits: the two halves of a 128-bit product, added without carry.
const fn fold(value: u64) -> u64 {
    let product = (value ^ 0x9e37_79b9_7f4a_7c15) as u128 * 0xd6e8_feb8_6659_fd93_u128;
    (product as u64) ^ ((product >> 64) as u64)
}

/// Returns the hash by which receive-side scaling chooses a queue: of the destination address and, for UDP
/// and TCP that is not in fragments, the destination port. An Ethernet adaptor that is set to hash the
/// destination fields only uses these fields.
#[must_use]
pub fn steering_hash(frame: &[u8]) -> u32 {
    end_of_flow::<DESTINATION>(frame).map_or(0, steered)
}

/// Returns the hash by which receive-side scaling spreads load: of both addresses and, for UDP and TCP that
/// is not in fragments, both ports. All packets of a flow have the same hash. A frame that is not IP has
/// zero.
#[must_use]
pub fn flow_hash(frame: &[u8]) -> u32 {
    end_of_flow::<SOURCE>(frame).map_or(0, |source| flow_between(source, steering_hash(frame)))
}

/// Returns the [`flow_hash`] of the packets received on a connection, so that its source port can be chosen
/// to steer it to a certain queue.
#[must_use]
pub fn flow_hash_to(flow: &FourTuple) -> u32 {
    let word = |end: &AddrPort| match end.addr {
        IpAddr::V4(address) => ipv4_word(address.to_bits(), end.port),
        IpAddr::V6(address) => ipv6_word(&address.octets(), end.port),
    };
    flow_between(word(&flow.remote), steered(word(&flow.local)))
}

/// The ends of a flow, by their place in headers.
const SOURCE: usize = 0;
const DESTINATION: usize = 1;

const fn steered(destination: u64) -> u32 {
    (fold(destination) >> 32) as u32
}

const fn flow_between(source: u64, steered: u32) -> u32 {
    (fold(fold(source) ^ (steered as u64) << 32) >> 32) as u32
}

/// Address and port of one end of a packet's flow in one word.
#[inline(always)]
fn end_of_flow<const END: usize>(frame: &[u8]) -> Option<u64> {
    match frame {
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x08, 0x00, packet @ ..] => {
            let header = packet.first_chunk::<20>()?;
            let at = 12 + 4 * END;
            let address = u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
            let whole = u16::from_be_bytes([header[6], header[7]]) & 0x3fff == 0;
            let transport = packet.get(usize::from(header[0] & 0x0f) * 4..)?;
            Some(ipv4_word(address, port::<END>(header[9], whole, transport)))
        }
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x86, 0xdd, packet @ ..] => {
            let (header, transport) = packet.split_first_chunk::<40>()?;
            let address = header[8..].as_chunks::<16>().0.get(END)?;
            Some(ipv6_word(address, port::<END>(header[6], true, transport)))
        }
        _ => None,
    }
}

const fn ipv4_word(address: u32, port: u16) -> u64 {
    (address as u64) << 16 | port as u64
}

fn ipv6_word(address: &[u8; 16], port: u16) -> u64 {
    let (halves, _) = address.as_chunks();
    let hash = halves.iter().fold(0, |hash, half| fold(hash ^ u64::from_be_bytes(*half)));
    hash ^ u64::from(port)
}

/// Returns the port of one end, if the packet has ports and they are within its bytes; else 0.
#[inline(always)]
const fn port<const END: usize>(protocol: u8, whole: bool, transport: &[u8]) -> u16 {
    match (protocol, whole, transport) {
        (6 | 17, true, &[s0, s1, d0, d1, ..]) => match END {
            SOURCE => u16::from_be_bytes([s0, s1]),
            _ => u16::from_be_bytes([d0, d1]),
        },
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
