//! The kernel's tables, followed by rtnetlink (rtnetlink(7)): addresses, routes, neighbours.
//!
//! One socket hears of every change, and asks for whole tables: at the beginning, and again whenever
//! announcements were lost or a change may have had others in its wake that are not announced (Linux takes
//! routes away with their link or address without a word).

use core::ops::Range;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use evenkeel_core::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address, Ipv6Address};
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteNextHop, RouteNextHopFlags,
    RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily as Family, RouteNetlinkMessage as Message};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with, sockopt,
};

/// An entry of one of the kernel's tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An address of the kernel's on a device.
    Address {
        /// The device.
        index: u32,
        /// The address and the prefix that is on its link.
        address: IpCidr,
    },
    /// A route of the main table.
    Route(KernelRoute),
    /// A neighbour.
    Neighbor {
        /// The device.
        index: u32,
        /// Its address.
        address: IpAddress,
        /// Its hardware address, if the kernel is sure of it: entered by hand, or confirmed.
        hardware: Option<EthernetAddress>,
    },
}

/// A route of the kernel's main table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelRoute {
    /// Destinations.
    pub to: IpCidr,
    /// Where it leads.
    pub way: KernelWay,
    /// Of several routes to the same prefix the lowest counts.
    pub metric: u32,
}

/// Where a route of the kernel leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelWay {
    /// To neighbours, or gateways, by any of several devices. None of those that have no carrier.
    Unicast(Vec<KernelHop>),
    /// Nowhere, without a word.
    Blackhole,
    /// Nowhere; senders are told.
    Unreachable,
    /// Nowhere; senders are told that it is prohibited.
    Prohibit,
}

/// One next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelHop {
    /// The device.
    pub index: u32,
    /// The gateway; `None` if destinations are on the link. That of an IPv4 route may be of IPv6.
    pub gateway: Option<IpAddress>,
    /// Its share of the flows, in proportion to the others'.
    pub weight: u16,
}

/// What the kernel said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// All tables are told from the beginning.
    Begins,
    /// All have been told: what has not been since [`News::Begins`] is not there any more.
    Complete,
    /// An entry is there.
    Is {
        /// Which.
        entry: Entry,
        /// It takes the place of others with the same key.
        replaces: bool,
    },
    /// An entry is gone.
    Gone(Entry),
}

/// The kernel's tables, in the network namespace they were opened in.
#[derive(Debug)]
pub struct KernelTables {
    socket: Arc<OwnedFd>,
    buffer: Vec<u8>,
    /// Of the buffer, what has been received and not been read yet.
    unread: Range<usize>,
    /// Tables that are still to be asked for in this round.
    to_ask: VecDeque<Table>,
    /// The request that is being answered.
    asked: Option<u32>,
    /// Nothing of this round has been told yet: what comes before it is older than it.
    fresh: bool,
    /// What was said in this round is not the whole truth: another one follows.
    torn: bool,
    /// Links without carrier, as far as has been announced.
    down: BTreeSet<u32>,
    sequence: u32,
    resyncs: u64,
}

#[derive(Debug, Clone, Copy)]
enum Table {
    Addresses,
    Routes(Family),
    Neighbors,
}

const TABLES: [Table; 4] =
    [Table::Addresses, Table::Routes(Family::Inet), Table::Routes(Family::Inet6), Table::Neighbors];

/// Groups of announcements: links, neighbours, and addresses and routes of both families (linux/rtnetlink.h,
/// RTMGRP_*).
const GROUPS: u32 = 0x1 | 0x4 | 0x10 | 0x40 | 0x100 | 0x400;

/// `NLM_F_DUMP_INTR`: the table changed while it was told.
const DUMP_INTERRUPTED: u16 = 0x10;
/// The largest piece that the kernel hands over at a time.
const BUFFER_BYTES: usize = 64 * 1024;
/// Announcements that may wait: a routing daemon's whole table comes at once.
const RECEIVE_BYTES: usize = 8 << 20;
/// `RTA_TABLE` of the main table.
const MAIN: u32 = 254;

impl KernelTables {
    /// Begins to listen, and asks for everything.
    ///
    /// # Errors
    /// If the kernel gives no such socket.
    pub fn open() -> io::Result<Self> {
        let socket = open_socket(GROUPS, RECEIVE_BYTES)?;
        let mut tables = Self {
            socket: Arc::new(socket),
            buffer: vec![0; BUFFER_BYTES],
            unread: 0..0,
            to_ask: VecDeque::new(),
            asked: None,
            fresh: false,
            torn: true,
            down: BTreeSet::new(),
            sequence: 0,
            resyncs: 0,
        };
        tables.ask()?;
        Ok(tables)
    }

    /// Readable when there are news.
    #[must_use]
    pub fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket)
    }

    /// How often the tables were asked for again.
    #[must_use]
    pub fn resyncs(&self) -> u64 {
        self.resyncs
    }

    /// Reads what waits and tells it, `limit` messages at most, so that a large table does not keep its
    /// reader from other work. False if there was nothing to read; else there may be more, which the socket
    /// need not show.
    ///
    /// # Errors
    /// If the socket fails, other than by having lost announcements.
    pub fn read(&mut self, limit: usize, mut tell: impl FnMut(News)) -> io::Result<bool> {
        if self.unread.is_empty() {
            match recv(&*self.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((len, _)) => self.unread = 0..len.min(self.buffer.len()),
                Err(rustix::io::Errno::AGAIN) => return Ok(false),
                Err(rustix::io::Errno::INTR) => return Ok(true),
                Err(rustix::io::Errno::NOBUFS) => {
                    self.torn = true;
                    self.ask_if_idle()?;
                    return Ok(true);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let buffer = core::mem::take(&mut self.buffer);
        let told = self.messages(&buffer, limit, &mut tell);
        self.buffer = buffer;
        told?;
        self.ask_if_idle()?;
        Ok(true)
    }

    /// Asks for everything again.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn read_again(&mut self) -> io::Result<()> {
        self.torn = true;
        self.ask_if_idle()
    }

    /// Reads until the tables are complete: at the beginning, when there is nothing else to do.
    ///
    /// # Errors
    /// As [`KernelTables::read`].
    pub fn read_all(&mut self, mut tell: impl FnMut(News)) -> io::Result<()> {
        let mut complete = false;
        while !complete {
            let mut waiting = [PollFd::new(&*self.socket, PollFlags::IN)];
            poll(&mut waiting, None)?;
            self.read(usize::MAX, |news| {
                complete |= news == News::Complete;
                tell(news);
            })?;
        }
        Ok(())
    }

    fn ask_if_idle(&mut self) -> io::Result<()> {
        if self.asked.is_some() {
            return Ok(());
        }
        if self.to_ask.is_empty() && !self.torn {
            return Ok(());
        }
        self.resyncs += u64::from(self.to_ask.is_empty());
        self.ask()
    }

    /// Asks for the next table of the round, or begins one.
    fn ask(&mut self) -> io::Result<()> {
        if self.to_ask.is_empty() {
            self.to_ask.extend(TABLES);
            (self.torn, self.fresh) = (false, true);
        }
        let Some(table) = self.to_ask.pop_front() else { return Ok(()) };
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(table.request()));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        sendto(self.socket.as_fd(), &bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        self.asked = Some(self.sequence);
        Ok(())
    }

    fn messages(&mut self, buffer: &[u8], limit: usize, tell: &mut impl FnMut(News)) -> io::Result<()> {
        for _ in 0..limit {
            let bytes = buffer.get(self.unread.clone()).unwrap_or_default();
            let Some(message) = message_len(bytes).and_then(|len| bytes.get(..len)) else {
                self.unread = 0..0;
                break;
            };
            self.unread.start = (self.unread.start + message.len().next_multiple_of(4)).min(self.unread.end);
            // What cannot be understood is of a kind, or has an attribute, that is newer than the library.
            if let Ok(message) = NetlinkMessage::<Message>::deserialize(message) {
                self.message(message, tell)?;
            }
        }
        Ok(())
    }

    fn message(&mut self, message: NetlinkMessage<Message>, tell: &mut impl FnMut(News)) -> io::Result<()> {
        let NetlinkHeader { flags, sequence_number, .. } = message.header;
        let answers = Some(sequence_number) == self.asked;
        if answers && core::mem::take(&mut self.fresh) {
            tell(News::Begins);
        }
        if answers && flags & DUMP_INTERRUPTED != 0 {
            self.torn = true;
        }
        match message.payload {
            NetlinkPayload::Done(_) if answers => self.table_ends(tell),
            NetlinkPayload::Error(error) if answers => return Err(error.to_io()),
            NetlinkPayload::Overrun(_) => self.torn = true,
            NetlinkPayload::InnerMessage(message) => self.entry(message, flags & NLM_F_REPLACE != 0, tell),
            _ => {}
        }
        Ok(())
    }

    fn table_ends(&mut self, tell: &mut impl FnMut(News)) {
        self.asked = None;
        if self.to_ask.is_empty() && !self.torn {
            tell(News::Complete);
        }
    }

    fn entry(&mut self, message: Message, replaces: bool, tell: &mut impl FnMut(News)) {
        match message {
            Message::NewAddress(m) => {
                address(&m).into_iter().for_each(|entry| tell(News::Is { entry, replaces }))
            }
            Message::NewRoute(m) => {
                route(&m).into_iter().for_each(|entry| tell(News::Is { entry, replaces }))
            }
            Message::NewNeighbour(m) => {
                neighbor(&m).into_iter().for_each(|entry| tell(News::Is { entry, replaces }))
            }
            Message::DelRoute(m) => route(&m).into_iter().for_each(|entry| tell(News::Gone(entry))),
            Message::DelNeighbour(m) => neighbor(&m).into_iter().for_each(|entry| tell(News::Gone(entry))),
            // Routes may have gone with it, unannounced.
            Message::DelAddress(m) => {
                address(&m).into_iter().for_each(|entry| tell(News::Gone(entry)));
                self.torn = true;
            }
            Message::NewLink(m) => self.link(&m),
            Message::DelLink(m) => {
                self.down.remove(&m.header.index);
                self.torn = true;
            }
            _ => {}
        }
    }

    /// Routes go out of use with their link, and come into use with it again, and of neither there is a word.
    fn link(&mut self, message: &LinkMessage) {
        let was_down = self.down.remove(&message.header.index);
        if !is_up(message) {
            self.down.insert(message.header.index);
        }
        self.torn |= was_down || !is_up(message);
    }
}

/// A socket that hears the announcements of `groups`, of which `room` bytes may wait.
pub(crate) fn open_socket(groups: u32, room: usize) -> io::Result<OwnedFd> {
    // The protocol with number zero is NETLINK_ROUTE.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, room).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, room)?;
    }
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// The length of the first message, if it is one and is all there.
pub(crate) fn message_len(bytes: &[u8]) -> Option<usize> {
    const HEADER: usize = 16;
    let len = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    (HEADER..=bytes.len()).contains(&len).then_some(len)
}

impl Table {
    fn request(self) -> Message {
        match self {
            Self::Addresses => Message::GetAddress(AddressMessage::default()),
            Self::Neighbors => Message::GetNeighbour(NeighbourMessage::default()),
            Self::Routes(family) => {
                let mut message = RouteMessage::default();
                message.header.address_family = family;
                Message::GetRoute(message)
            }
        }
    }
}

fn is_up(message: &LinkMessage) -> bool {
    message.header.flags.contains(LinkFlags::Up) && message.header.flags.contains(LinkFlags::LowerUp)
}

fn address(message: &AddressMessage) -> Option<Entry> {
    // Of IPv4 on a point-to-point link the local address differs from the other one; of IPv6 there is usually
    // only the other one.
    let mut found = None;
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(address) => found = Some(*address),
            AddressAttribute::Address(address) if found.is_none() => found = Some(*address),
            _ => {}
        }
    }
    let address = IpCidr::new(found?.into(), message.header.prefix_len);
    Some(Entry::Address { index: message.header.index, address })
}

fn route(message: &RouteMessage) -> Option<Entry> {
    let header = &message.header;
    let mut table = u32::from(header.table);
    let (mut to, mut gateway, mut index, mut metric, mut several) = (None, None, None, 0, Vec::new());
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Destination(address) => to = Some(ip(address)?),
            RouteAttribute::Gateway(address) => gateway = ip(address),
            RouteAttribute::Via(address) => gateway = via(address),
            RouteAttribute::Oif(number) => index = Some(*number),
            RouteAttribute::Priority(priority) => metric = *priority,
            RouteAttribute::MultiPath(hops) => several.extend(hops.iter().filter_map(next_hop)),
            _ => {}
        }
    }
    if table != MAIN || header.flags.contains(RouteFlags::Cloned) || header.tos != 0 {
        return None;
    }
    let way = match header.kind {
        RouteType::Unicast => {
            several.extend(index.map(|index| KernelHop { index, gateway, weight: 1 }));
            KernelWay::Unicast(several)
        }
        RouteType::BlackHole => KernelWay::Blackhole,
        RouteType::Unreachable => KernelWay::Unreachable,
        RouteType::Prohibit => KernelWay::Prohibit,
        _ => return None,
    };
    let to = to.or_else(|| everything(header))?;
    Some(Entry::Route(KernelRoute { to: IpCidr::new(to, header.destination_prefix_length), way, metric }))
}

/// One of several next hops, unless it is out of use.
fn next_hop(hop: &RouteNextHop) -> Option<KernelHop> {
    if hop.flags.intersects(RouteNextHopFlags::Dead | RouteNextHopFlags::Linkdown) {
        return None;
    }
    let gateway = hop.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(address) => ip(address),
        RouteAttribute::Via(address) => via(address),
        _ => None,
    });
    // The kernel says how many times more than once it counts.
    Some(KernelHop { index: hop.interface_index, gateway, weight: u16::from(hop.hops) + 1 })
}

/// A gateway of any family (`RTA_VIA`).
fn via(address: &RouteVia) -> Option<IpAddress> {
    match address {
        RouteVia::Inet(v4) => Some((*v4).into()),
        RouteVia::Inet6(v6) => Some((*v6).into()),
        _ => None,
    }
}

/// The destination of a default route, which has none.
fn everything(header: &RouteHeader) -> Option<IpAddress> {
    match header.address_family {
        Family::Inet => Some(Ipv4Address::UNSPECIFIED.into()),
        Family::Inet6 => Some(Ipv6Address::UNSPECIFIED.into()),
        _ => None,
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddress> {
    match address {
        RouteAddress::Inet(v4) => Some((*v4).into()),
        RouteAddress::Inet6(v6) => Some((*v6).into()),
        _ => None,
    }
}

fn neighbor(message: &NeighbourMessage) -> Option<Entry> {
    let (mut address, mut hardware) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => {
                address = Some(IpAddress::Ipv4(*v4))
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => {
                address = Some(IpAddress::Ipv6(*v6))
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => {
                hardware = <[u8; 6]>::try_from(bytes.as_slice()).ok().map(EthernetAddress);
            }
            _ => {}
        }
    }
    let sure = matches!(message.header.state, NeighbourState::Permanent | NeighbourState::Reachable);
    Some(Entry::Neighbor {
        index: message.header.ifindex,
        address: address?,
        hardware: hardware.filter(|_| sure),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loopback device and its address are everywhere.
    #[test]
    fn the_tables_are_read_as_a_whole() {
        let mut tables = KernelTables::open().unwrap();
        let (mut entries, mut complete) = (Vec::new(), 0);
        tables
            .read_all(|news| match news {
                News::Is { entry, .. } => entries.push(entry),
                News::Complete => complete += 1,
                News::Begins | News::Gone(_) => {}
            })
            .unwrap();
        assert_eq!(complete, 1);
        let loopback = IpCidr::new(IpAddress::v4(127, 0, 0, 1), 8);
        let has = |e: &Entry| matches!(e, Entry::Address { address, .. } if *address == loopback);
        // A new network namespace has its loopback down, and without address.
        let up = std::fs::read_to_string("/sys/class/net/lo/flags").is_ok_and(|flags| flags.trim() == "0x9");
        assert!(entries.iter().any(has) || !up, "{entries:?}");
    }

    #[test]
    fn malformed_messages_end_the_reading() {
        assert_eq!(message_len(&[]), None);
        assert_eq!(message_len(&[15, 0, 0, 0]), None, "shorter than a header");
        assert_eq!(
            message_len(&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            None,
            "longer than what is there"
        );
    }
}
