//! The tables of the XDP program: a copy of the host's demultiplexing table, in maps of the kernel.
//!
//! The maps have the slots of channels, so that the program finds a frame's ring without another lookup. The
//! layout of keys and values is that of `bpf/demux.c`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, MapError};
use evenkeel_core::demux::{Binding, Change};
use evenkeel_core::id::ChannelId;
use evenkeel_core::tcp::cookie::CookieOffer;
use evenkeel_core::tcp::{AddrPort, FourTuple};
use evenkeel_core::wire::{EthernetAddress, IpAddress, IpEndpoint};

use super::super::buffers::Buffers;
use crate::bpf::{error_of, os_error, take_map};
use crate::clock::has_machine_clock;
use crate::error::LinkError;

/// A channel in a map: the number of its slot plus one, or zero for no channel.
type Entry = u32;

/// The entry of a port whose bindings are in the map `bindings`.
const IN_BINDINGS: Entry = u32::MAX;

/// The uses of the map of ports, and of the bindings' keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Udp,
    Opening,
    Other,
}

/// An address and a port in a key of a map: the address, the port, its use, and the family.
pub(in crate::xdp) type End = [u8; 20];

/// Returns the octets of an address as they are in keys, and the number of its family.
pub(in crate::xdp) fn octets(address: IpAddr) -> ([u8; 16], u8) {
    match address {
        IpAddr::V4(address) => (address.to_ipv6_mapped().octets(), 0),
        IpAddr::V6(address) => (address.octets(), 1),
    }
}

fn end_of(octets: [u8; 16], family: u8, port: u16, usage: u8) -> End {
    let mut end = [0; 20];
    end[..16].copy_from_slice(&octets);
    end[16..18].copy_from_slice(&port.to_be_bytes());
    [end[18], end[19]] = [usage, family];
    end
}

/// Returns the end with this address, without a use.
pub(in crate::xdp) fn end(address: IpAddr, port: u16) -> End {
    let (octets, family) = octets(address);
    end_of(octets, family, port, 0)
}

/// Returns the key of a connection: both ends.
fn connection(tuple: &FourTuple) -> [End; 2] {
    let end = |of: AddrPort| end(of.addr, of.port);
    [end(tuple.local), end(tuple.remote)]
}

/// Returns a hardware address, padded.
fn hardware(address: EthernetAddress) -> [u8; 8] {
    let mut padded = [0; 8];
    padded[..6].copy_from_slice(&address.0);
    padded
}

/// The kinds of addresses in their map. Groups are with the first: no listener is bound to one.
const UNICAST: u8 = 1;
const BROADCAST: u8 = 2;

/// The MTU of a device that has not said another one.
const MTU_DEFAULT: usize = 1500;

/// No hardware address, padded.
const NO_HARDWARE: [u8; 8] = [0xff; 8];

/// The places that one binding takes: an address, or any address of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Any(u8),
    Exact(IpAddress),
}

impl Place {
    /// Returns the places of a binding to an address, where `None` and unspecified addresses mean any.
    fn of(address: Option<IpAddress>) -> Vec<Self> {
        match address {
            None => vec![Self::Any(0), Self::Any(1)],
            Some(address) if address.is_unspecified() => vec![Self::Any(octets(address.into()).1)],
            Some(address) => vec![Self::Exact(address)],
        }
    }

    fn family(self) -> u8 {
        match self {
            Self::Any(family) => family,
            Self::Exact(address) => octets(address.into()).1,
        }
    }

    /// Returns the key in the map of bindings.
    fn key(self, usage: Use, port: u16) -> End {
        let octets = match self {
            Self::Any(_) => [0; 16],
            Self::Exact(address) => octets(address.into()).0,
        };
        end_of(octets, self.family(), port, usage as u8)
    }
}

/// The bindings of one port.
#[derive(Debug, Default)]
struct Port {
    bound: BTreeMap<Place, ChannelId>,
    /// The peers of connected sockets.
    peers: BTreeMap<ChannelId, IpEndpoint>,
    /// The places that the map of bindings may have.
    written: BTreeSet<Place>,
}

impl Port {
    fn unbind(&mut self, places: &[Place]) {
        self.bound.retain(|place, _| !places.contains(place));
        let Self { bound, peers, .. } = self;
        peers.retain(|channel, _| bound.values().any(|other| other == channel));
    }

    fn has(&self, channel: ChannelId) -> bool {
        self.bound.values().any(|other| *other == channel)
    }

    /// Returns whether more than its port decides about a packet of a family.
    fn needs_bindings(&self, family: u8) -> bool {
        let is_exact = |place: &Place| matches!(place, Place::Exact(_)) && place.family() == family;
        !self.peers.is_empty() || self.bound.keys().any(is_exact)
    }
}

/// The addresses that the kernel shares with this host, by the numbers that the program knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sharing {
    /// None: frames to our hardware address are for this host.
    #[default]
    Nothing,
    /// The hardware address. The kernel gets what the host has no use for.
    Mac,
    /// All addresses. The host gets what its sockets are bound to, and errors about what they have sent.
    Addresses,
}

/// The program's settings: the channels that are not bound to ports, in their order there, and the rest.
#[derive(Debug, Default)]
struct Settings {
    channels: [Option<ChannelId>; 5],
    sharing: Sharing,
    /// Whether the host leaves demultiplexing to the program.
    demultiplexes: bool,
    hardware: Vec<EthernetAddress>,
}

impl Settings {
    /// Returns the place of such a channel.
    fn channel(&mut self, binding: Binding) -> Option<&mut Option<ChannelId>> {
        let place = match binding {
            Binding::Neighbor => 0,
            Binding::Control => 1,
            Binding::PathMtu => 2,
            Binding::Fragment => 3,
            Binding::Forward => 4,
            Binding::Udp { .. } | Binding::Tcp { .. } | Binding::Connection(_) => return None,
        };
        self.channels.get_mut(place)
    }
}

/// The slots of channels that have a ring of their own.
#[derive(Debug, Default)]
struct Slots(BTreeMap<ChannelId, u32>);

impl Slots {
    /// Returns the entry of a channel: that of the shared ring if it has no other.
    fn entry(&self, channel: ChannelId) -> Entry {
        self.0.get(&channel).copied().unwrap_or(0) + 1
    }
}

/// The segments in a ring for which the program uses cookies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CookiesFor {
    /// SYNs, which it answers.
    Syns,
    /// Segments of no connection, which it refuses if they bring no good one.
    Others,
}

impl CookiesFor {
    const fn usage(self) -> Use {
        match self {
            Self::Syns => Use::Opening,
            Self::Others => Use::Other,
        }
    }
}

/// The parameters of SYN-ACKs with cookies in a map: `struct offer` of `cookies.h`.
type Offer = [u8; 32];

/// No offer: no SYN is answered, and no segment refused.
const NO_OFFER: Offer = [0; 32];

/// Returns the value of an offer on a device that takes packets of at most `mtu` bytes.
fn offer_on(mtu: usize, cookies_for: CookiesFor, offer: &CookieOffer) -> Offer {
    /// Bytes of the headers of IP and TCP, for each family.
    const HEADERS: [usize; 2] = [40, 60];
    let mut value = NO_OFFER;
    value[..16].copy_from_slice(&offer.secret.to_bits());
    for (field, headers) in value[16..20].chunks_exact_mut(2).zip(HEADERS) {
        let mss = u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX);
        field.copy_from_slice(&mss.min(offer.mss_max).to_ne_bytes());
    }
    value[20..22].copy_from_slice(&offer.window.to_ne_bytes());
    value[22] = offer.window_scale.unwrap_or(0);
    let flags = [offer.window_scale.is_some(), offer.sack_permitted, offer.timestamps, offer.ecn];
    value[23..27].copy_from_slice(&flags.map(u8::from));
    value[27] = offer.hop_limit;
    value[28] = u8::from(cookies_for == CookiesFor::Others);
    value
}

/// The maps of the kernel in which the program looks.
struct Maps {
    settings: Array<MapData, [u8; 40]>,
    hardware: HashMap<MapData, [u8; 8], u8>,
    addresses: HashMap<MapData, End, u8>,
    ports: Array<MapData, [Entry; 2]>,
    bindings: HashMap<MapData, End, [u8; 28]>,
    connections: HashMap<MapData, [End; 2], Entry>,
    fragments: HashMap<MapData, [u8; 40], Entry>,
    offers: Array<MapData, Offer>,
}

impl Maps {
    /// Takes the maps of a loaded object.
    fn take(object: &mut Ebpf) -> Result<Self, LinkError> {
        Ok(Self {
            settings: take_map(object, "settings")?,
            hardware: take_map(object, "hardware")?,
            addresses: take_map(object, "addresses")?,
            ports: take_map(object, "ports")?,
            bindings: take_map(object, "bindings")?,
            connections: take_map(object, "connections")?,
            fragments: take_map(object, "fragments")?,
            offers: take_map(object, "offers")?,
        })
    }
}

/// The maps that decide about frames, and what they are written from.
pub(super) struct Table {
    maps: Maps,
    settings: Settings,
    ports: BTreeMap<(Use, u16), Port>,
    connections: BTreeMap<FourTuple, ChannelId>,
    slots: Slots,
    /// The cookies with which SYNs for a channel are answered, or that others for it are to bring.
    offers: BTreeMap<ChannelId, (CookiesFor, CookieOffer)>,
    mtu: usize,
    /// Whether cookies may be used: this process has the clock that the program reads.
    has_clock: bool,
    /// Whether SYNs may be answered: answers leave.
    answers_syns: bool,
}

impl Table {
    /// Takes the maps of a loaded object. Nothing is bound, and the host has no address.
    pub(super) fn new(object: &mut Ebpf, sharing: Sharing) -> Result<Self, LinkError> {
        let mut table = Self {
            maps: Maps::take(object)?,
            settings: Settings { sharing, ..Settings::default() },
            ports: BTreeMap::new(),
            connections: BTreeMap::new(),
            slots: Slots::default(),
            offers: BTreeMap::new(),
            mtu: MTU_DEFAULT,
            has_clock: has_machine_clock(),
            answers_syns: true,
        };
        table.write_settings().map_err(refused)?;
        Ok(table)
    }

    /// Sets the addresses that the kernel shares with this host.
    #[cfg(test)]
    pub(super) fn share(&mut self, sharing: Sharing) {
        self.settings.sharing = sharing;
        self.write_settings().unwrap();
    }

    /// Leaves all SYNs to the host from now on.
    pub(super) fn leave_syns(&mut self) {
        self.answers_syns = false;
    }

    /// Makes the program demultiplex by these tables. Before, all frames to the host go to the shared ring.
    pub(super) fn demultiplex(&mut self) -> Result<(), LinkError> {
        self.settings.demultiplexes = true;
        self.write_settings().map_err(refused)
    }

    /// Sets the size of the largest packet of the device.
    pub(super) fn set_mtu(&mut self, mtu: usize) -> Result<(), LinkError> {
        self.mtu = mtu;
        self.write_settings().map_err(refused)?;
        for channel in self.offers.keys().copied().collect::<Vec<_>>() {
            let _ = self.write_offer(channel);
        }
        Ok(())
    }

    /// Makes frames for `channel` go to `slot`.
    pub(super) fn open(&mut self, channel: ChannelId, slot: u32) {
        self.slots.0.insert(channel, slot);
        self.write_all_of(channel);
    }

    /// Makes frames for `channel` go to the shared ring. The program forgets datagrams in fragments that it
    /// follows to the slot, which may soon be another channel's.
    pub(super) fn close(&mut self, channel: ChannelId) {
        let entry = self.slots.entry(channel);
        if let Some(slot) = self.slots.0.remove(&channel) {
            let _ = self.maps.offers.set(slot, NO_OFFER, 0);
        }
        self.write_all_of(channel);
        self.forget_fragments(|to| to == entry);
    }

    /// Forgets the datagrams in fragments whose entry is such a one.
    pub(super) fn forget_fragments(&mut self, is_such: impl Fn(Entry) -> bool) {
        let followed: Vec<_> = self.maps.fragments.iter().flatten().filter(|(_, to)| is_such(*to)).collect();
        for (key, _) in followed {
            // An entry that the program has replaced meanwhile is gone.
            let _ = self.maps.fragments.remove(&key);
        }
    }

    /// Applies a change of the host's table.
    pub(super) fn apply(&mut self, change: Change) -> Result<(), LinkError> {
        self.write_change(change).map_err(refused)
    }

    fn write_change(&mut self, change: Change) -> Result<(), MapError> {
        match change {
            Change::Bind(binding, channel) => self.bind(binding, channel),
            Change::Unbind(binding) => self.unbind(binding),
            Change::Connect(channel, port, peer) => self.connect(channel, port, peer),
            Change::AnswerSyns(channel, offer) => {
                let others = self.others_of(channel).into_iter().map(|other| (other, CookiesFor::Others));
                for (channel, cookies_for) in others.chain([(channel, CookiesFor::Syns)]).collect::<Vec<_>>()
                {
                    self.offers.insert(channel, (cookies_for, offer));
                    self.write_offer(channel)?;
                }
                Ok(())
            }
            Change::AddAddress(address) => self.maps.addresses.insert(end(address.into(), 0), UNICAST, 0),
            Change::AddBroadcast(address) => self.maps.addresses.insert(end(address.into(), 0), BROADCAST, 0),
            Change::RemoveAddress(address) => {
                absent_is_removed(self.maps.addresses.remove(&end(address.into(), 0)))
            }
            Change::Hardware(address) => {
                self.settings.hardware.push(address);
                self.maps.hardware.insert(hardware(address), 1, 0)?;
                self.write_settings()
            }
            Change::NoHardware(address) => {
                self.settings.hardware.retain(|own| *own != address);
                absent_is_removed(self.maps.hardware.remove(&hardware(address)))?;
                self.write_settings()
            }
        }
    }

    fn bind(&mut self, binding: Binding, channel: ChannelId) -> Result<(), MapError> {
        match binding {
            Binding::Connection(tuple) => {
                // A connection keeps the channel that it was bound to first.
                self.connections.entry(tuple).or_insert(channel);
                self.write_connection(&tuple)
            }
            _ => match end_of_binding(binding) {
                Some((usage, address, port)) => {
                    let entry = self.ports.entry((usage, port)).or_default();
                    entry.bound.extend(Place::of(address).into_iter().map(|place| (place, channel)));
                    self.write_port(usage, port)
                }
                None => self.set(binding, Some(channel)),
            },
        }
    }

    fn unbind(&mut self, binding: Binding) -> Result<(), MapError> {
        match binding {
            Binding::Connection(tuple) => {
                self.connections.remove(&tuple);
                absent_is_removed(self.maps.connections.remove(&connection(&tuple)))
            }
            _ => match end_of_binding(binding) {
                Some((usage, address, port)) => {
                    if let Some(entry) = self.ports.get_mut(&(usage, port)) {
                        entry.unbind(&Place::of(address));
                    }
                    self.forget_offers(usage)?;
                    self.write_port(usage, port)
                }
                None => self.set(binding, None),
            },
        }
    }

    fn connect(&mut self, channel: ChannelId, port: u16, peer: IpEndpoint) -> Result<(), MapError> {
        if let Some(entry) = self.ports.get_mut(&(Use::Udp, port)) {
            entry.peers.insert(channel, peer);
        }
        self.write_port(Use::Udp, port)
    }

    fn set(&mut self, binding: Binding, channel: Option<ChannelId>) -> Result<(), MapError> {
        if let Some(place) = self.settings.channel(binding) {
            *place = channel;
        }
        self.write_settings()
    }

    /// Writes every entry of a channel, whose slot is another one now. Each entry is there already, so the
    /// kernel has memory for it.
    fn write_all_of(&mut self, channel: ChannelId) {
        let ports: Vec<_> =
            self.ports.iter().filter(|(_, port)| port.has(channel)).map(|(at, _)| *at).collect();
        let connections: Vec<_> =
            self.connections.iter().filter(|(_, of)| **of == channel).map(|(tuple, _)| *tuple).collect();
        let _ = self.write_settings();
        let _ = self.write_offer(channel);
        for (usage, port) in ports {
            let _ = self.write_port(usage, port);
        }
        for tuple in connections {
            let _ = self.write_connection(&tuple);
        }
    }

    fn write_settings(&mut self) -> Result<(), MapError> {
        let settings = &self.settings;
        let mut value = [0; 40];
        for (entry, channel) in value.chunks_exact_mut(4).zip(settings.channels) {
            entry.copy_from_slice(&channel.map_or(0, |channel| self.slots.entry(channel)).to_ne_bytes());
        }
        value[20..22].copy_from_slice(&(settings.sharing as u16).to_ne_bytes());
        value[22..24].copy_from_slice(&u16::from(settings.demultiplexes).to_ne_bytes());
        value[32..36].copy_from_slice(&(Buffers::longest(self.mtu) as u32).to_ne_bytes());
        value[24..32].copy_from_slice(&settings.hardware.first().map_or(NO_HARDWARE, |own| hardware(*own)));
        self.maps.settings.set(0, value, 0)
    }

    /// Writes the offer of a channel that has a slot of its own.
    fn write_offer(&mut self, channel: ChannelId) -> Result<(), MapError> {
        let Some(&slot) = self.slots.0.get(&channel) else { return Ok(()) };
        let is_used = |(cookies_for, _): &&(CookiesFor, _)| {
            self.has_clock && (self.answers_syns || *cookies_for == CookiesFor::Others)
        };
        let offer = self.offers.get(&channel).filter(is_used);
        let offer = offer.map_or(NO_OFFER, |(cookies_for, offer)| offer_on(self.mtu, *cookies_for, offer));
        self.maps.offers.set(slot, offer, 0)
    }

    /// Returns the channels of the segments of no connection to the places whose SYNs go to `syns`.
    fn others_of(&self, syns: ChannelId) -> BTreeSet<ChannelId> {
        let opening = self.ports.iter().filter(|((usage, _), _)| *usage == Use::Opening);
        let places = opening.flat_map(|(&(_, number), port)| {
            port.bound.iter().filter(|(_, channel)| **channel == syns).map(move |(place, _)| (number, place))
        });
        places
            .filter_map(|(number, place)| self.ports.get(&(Use::Other, number))?.bound.get(place))
            .copied()
            .collect()
    }

    /// Forgets the offer of a channel to which no segment of its kind leads any more, after such a binding
    /// has gone.
    fn forget_offers(&mut self, usage: Use) -> Result<(), MapError> {
        let leads = |channel| self.ports.iter().any(|((of, _), port)| *of == usage && port.has(channel));
        let of_usage = self.offers.iter().filter(|(_, (cookies_for, _))| cookies_for.usage() == usage);
        let gone = of_usage.map(|(channel, _)| *channel).find(|channel| !leads(*channel));
        let Some(channel) = gone else { return Ok(()) };
        self.offers.remove(&channel);
        self.write_offer(channel)
    }

    /// Writes the entry of a connection. One that finds no room has its listener's channel.
    fn write_connection(&mut self, tuple: &FourTuple) -> Result<(), MapError> {
        let Some(channel) = self.connections.get(tuple) else { return Ok(()) };
        match self.maps.connections.insert(connection(tuple), self.slots.entry(*channel), 0) {
            Err(error) if os_error(&error) == Some(libc::E2BIG) => {
                self.connections.remove(tuple);
                Ok(())
            }
            written => written,
        }
    }

    /// Writes the entries of a port. At no moment does a frame that is bound find no binding.
    fn write_port(&mut self, usage: Use, port: u16) -> Result<(), MapError> {
        let Some(entry) = self.ports.get_mut(&(usage, port)) else { return Ok(()) };
        let wanted: BTreeMap<_, _> =
            entry.bound.iter().filter(|(place, _)| entry.needs_bindings(place.family())).collect();
        entry.written.extend(wanted.keys().map(|place| **place));
        for (place, channel) in &wanted {
            let peer = entry.peers.get(channel);
            let value = binding(self.slots.entry(**channel), peer);
            self.maps.bindings.insert(place.key(usage, port), value, 0)?;
        }
        let any = |family| match entry.bound.get(&Place::Any(family)) {
            _ if entry.needs_bindings(family) => IN_BINDINGS,
            Some(channel) => self.slots.entry(*channel),
            None => 0,
        };
        self.maps.ports.set((usage as u32) << 16 | u32::from(port), [any(0), any(1)], 0)?;
        let wanted: BTreeSet<_> = wanted.into_keys().copied().collect();
        for place in entry.written.difference(&wanted) {
            absent_is_removed(self.maps.bindings.remove(&place.key(usage, port)))?;
        }
        entry.written = wanted;
        Ok(())
    }
}

/// Returns the use, the address and the port of a binding to a port.
fn end_of_binding(binding: Binding) -> Option<(Use, Option<IpAddress>, u16)> {
    match binding {
        Binding::Udp { address, port } => Some((Use::Udp, address, port)),
        Binding::Tcp { address, port, opens: true } => Some((Use::Opening, address, port)),
        Binding::Tcp { address, port, opens: false } => Some((Use::Other, address, port)),
        _ => None,
    }
}

/// Returns the value of a binding: the channel, whether its socket is connected, and the peer.
fn binding(entry: Entry, peer: Option<&IpEndpoint>) -> [u8; 28] {
    let mut value = [0; 28];
    value[..4].copy_from_slice(&entry.to_ne_bytes());
    if let Some(peer) = peer {
        value[4] = 1;
        value[8..].copy_from_slice(&end(peer.addr.into(), peer.port));
    }
    value
}

/// Returns the result of removing a key, which may have been absent.
fn absent_is_removed(removed: Result<(), MapError>) -> Result<(), MapError> {
    match removed {
        Err(MapError::KeyNotFound) => Ok(()),
        Err(error) if os_error(&error) == Some(libc::ENOENT) => Ok(()),
        other => other,
    }
}

fn refused(error: MapError) -> LinkError {
    error_of("change the tables of the XDP program", error)
}
