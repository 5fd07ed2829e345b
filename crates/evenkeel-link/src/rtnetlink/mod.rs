//! The kernel's tables, followed through rtnetlink (rtnetlink(7)): links, addresses, next-hop objects, rules,
//! routes and neighbours.
//!
//! One socket receives all announcements, and requests whole tables: at the beginning, and whenever
//! announcements were lost or a change may have caused others without an announcement. (Linux removes IPv4
//! routes with their link or address without announcing it.)

pub(crate) mod addresses;
mod change;
mod entry;
mod parse;
mod socket;

use core::ops::Range;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{EthernetAddress, IpAddress, IpCidr};
use netlink_packet_core::{
    NLM_F_APPEND, NLM_F_DUMP, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SendFlags, getsockname, recv, sendto};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::{Clock, sys};

pub(crate) use change::{add_address, resolve_neighbor, sends_back, xdp_program};
pub use entry::{
    ALL_LINKS, Entry, KernelHop, KernelNexthop, KernelRoute, KernelRule, KernelWay, News, NexthopKind, Place,
    RuleAction,
};
pub(crate) use socket::open_socket;

/// The kernel's tables in one network namespace.
#[derive(Debug)]
pub struct KernelTables {
    socket: Arc<OwnedFd>,
    /// A timer that expires when a deferred round may begin.
    timer: Arc<OwnedFd>,
    /// The socket's own address. Announcements caused by other processes have their addresses.
    port: u32,
    buffer: Vec<u8>,
    /// The part of the buffer that has been received and not yet read.
    unread: Range<usize>,
    /// Tables still to be requested in this round.
    to_ask: VecDeque<Table>,
    /// The pending request, and its table.
    asked: Option<(u32, Table)>,
    /// The destination that was listed last.
    listed: Option<IpAddress>,
    /// Whether no message of this round has been read yet. Messages before the first one are older than the
    /// round.
    fresh: bool,
    /// Whether the answers of this round are incomplete, so that another round must follow.
    torn: bool,
    /// Links that were announced with a carrier last.
    up: entry::Up,
    began: Instant,
    clock: Clock,
    /// The earliest time for the next round.
    not_before: Instant,
    sequence: u32,
    resyncs: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Links,
    /// Devices' settings for a family.
    Settings(u8),
    Addresses,
    Nexthops,
    Rules(u8),
    Routes(u8),
    Neighbors,
}

const INET: u8 = libc::AF_INET as u8;
const INET6: u8 = libc::AF_INET6 as u8;

/// The order of requests: objects come before the routes that refer to them.
const TABLES: [Table; 10] = [
    Table::Links,
    Table::Settings(INET),
    Table::Settings(INET6),
    Table::Addresses,
    Table::Nexthops,
    Table::Rules(INET),
    Table::Rules(INET6),
    Table::Routes(INET),
    Table::Routes(INET6),
    Table::Neighbors,
];

/// Groups of announcements (linux/rtnetlink.h, `RTNLGRP_*`): links, neighbours, addresses, routes, rules and
/// settings of both families, and next-hop objects.
const GROUPS: u32 =
    1 | 1 << 2 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 18 | 1 << 23 | 1 << 24 | 1 << 31;

/// The flag of a listing during which the table changed (`NLM_F_DUMP_INTR`).
const DUMP_INTERRUPTED: u16 = 0x10;
/// The largest piece that the kernel returns at a time.
const BUFFER_BYTES: usize = 64 * 1024;
/// Room for waiting announcements: a routing daemon's whole table arrives at once.
const RECEIVE_BYTES: usize = 8 << 20;
/// The size of a netlink header in bytes.
const HEADER: usize = 16;

/// The bounds of the pause between two rounds. Within them it is [`PAUSES`] times as long as the last round.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSES: u32 = 3;

impl KernelTables {
    /// Opens the socket, and requests all tables.
    ///
    /// # Errors
    /// If the kernel provides no such socket.
    pub fn open() -> io::Result<Self> {
        let socket = open_socket(GROUPS, RECEIVE_BYTES)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let port = SocketAddrNetlink::try_from(getsockname(&socket)?)?.pid();
        let clock = Clock::start_monotonic();
        let now = clock.now();
        let mut tables = Self {
            socket: Arc::new(socket),
            timer: Arc::new(timer),
            port,
            buffer: vec![0; BUFFER_BYTES],
            unread: 0..0,
            to_ask: VecDeque::new(),
            asked: None,
            listed: None,
            fresh: false,
            torn: true,
            up: entry::Up::new(),
            began: now,
            clock,
            not_before: now,
            sequence: 0,
            resyncs: 0,
        };
        tables.ask()?;
        Ok(tables)
    }

    /// Returns the descriptors that are readable when there is something to read.
    #[must_use]
    pub fn fds(&self) -> [Arc<OwnedFd>; 2] {
        [Arc::clone(&self.socket), Arc::clone(&self.timer)]
    }

    /// Returns the number of rounds after the first one.
    #[must_use]
    pub fn resyncs(&self) -> u64 {
        self.resyncs
    }

    /// Returns whether all announcements, and the tables that they may have changed, have been read.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.torn && self.asked.is_none() && self.unread.is_empty()
    }

    /// Reads at most `limit` waiting messages and passes them to `tell`. The limit leaves the reader time for
    /// other work. Returns false if there was nothing to read. Otherwise there may be more, which the socket
    /// need not show.
    ///
    /// # Errors
    /// If the socket fails, except for lost announcements.
    pub fn read(&mut self, limit: usize, mut tell: impl FnMut(News)) -> io::Result<bool> {
        if self.unread.is_empty() {
            match recv(&*self.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((len, _)) => self.unread = 0..len.min(self.buffer.len()),
                Err(rustix::io::Errno::AGAIN) => {
                    // Expired or not, the clock decides what is due.
                    let _ = rustix::io::read(&*self.timer, &mut [0; 8]);
                    self.ask_if_idle()?;
                    return Ok(false);
                }
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

    /// Requests all tables again, at once or when the pause after the last round is over. The pause is three
    /// times as long as that round, but at most a second.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn read_again(&mut self) -> io::Result<()> {
        self.torn = true;
        self.ask_if_idle()
    }

    /// Reads until the tables are complete. For the start, when there is no other work.
    ///
    /// # Errors
    /// As [`KernelTables::read`].
    pub fn read_all(&mut self, mut tell: impl FnMut(News)) -> io::Result<()> {
        let mut complete = false;
        while !complete {
            let mut waiting =
                [PollFd::new(&*self.socket, PollFlags::IN), PollFd::new(&*self.timer, PollFlags::IN)];
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
        if self.to_ask.is_empty() {
            if !self.torn {
                return Ok(());
            }
            let pause = self.not_before.since(self.clock.now());
            if pause > Duration::ZERO {
                let once =
                    Itimerspec { it_interval: sys::timespec(Duration::ZERO), it_value: sys::timespec(pause) };
                timerfd_settime(&*self.timer, TimerfdTimerFlags::empty(), &once)?;
                return Ok(());
            }
            self.resyncs += 1;
        }
        self.ask()
    }

    /// Requests the next table of the round, or begins one.
    fn ask(&mut self) -> io::Result<()> {
        if self.to_ask.is_empty() {
            self.to_ask.extend(TABLES);
            (self.torn, self.fresh, self.began) = (false, true, self.clock.now());
        }
        let Some(table) = self.to_ask.pop_front() else { return Ok(()) };
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let request = table.request(self.sequence);
        sendto(self.socket.as_fd(), &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        self.asked = Some((self.sequence, table));
        self.listed = None;
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
            self.message(message, tell)?;
        }
        if self.unread.is_empty() {
            self.unread = 0..0;
        }
        Ok(())
    }

    fn message(&mut self, message: &[u8], tell: &mut impl FnMut(News)) -> io::Result<()> {
        let &[_, _, _, _, k0, k1, f0, f1, s0, s1, s2, s3, p0, p1, p2, p3, ref body @ ..] = message else {
            return Ok(());
        };
        let (kind, flags) = (u16::from_ne_bytes([k0, k1]), u16::from_ne_bytes([f0, f1]));
        let (sequence, port) = (u32::from_ne_bytes([s0, s1, s2, s3]), u32::from_ne_bytes([p0, p1, p2, p3]));
        let asked = self.asked.filter(|(asked, _)| *asked == sequence && port == self.port);
        let answers = asked.is_some();
        if answers && core::mem::take(&mut self.fresh) {
            tell(News::Begins);
        }
        self.torn |= answers && flags & DUMP_INTERRUPTED != 0;
        match (i32::from(kind), asked) {
            (libc::NLMSG_DONE, Some(_)) => self.table_ends(tell),
            (libc::NLMSG_ERROR, Some((_, table))) => {
                let error = io::Error::from_raw_os_error(error_of(body));
                // The kernel lacks this feature.
                let lacks = matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT));
                if !lacks {
                    return Err(error);
                }
                if let Table::Rules(family) = table {
                    rules_of_old(family).into_iter().for_each(|rule| {
                        tell(News::Is { entry: Entry::Rule(rule), place: Place::Listed });
                    });
                }
                self.table_ends(tell);
            }
            (libc::NLMSG_OVERRUN, _) => self.torn = true,
            _ => {
                let place = match flags {
                    _ if answers => Place::Listed,
                    flags if flags & NLM_F_REPLACE != 0 => Place::Replaces,
                    flags if flags & NLM_F_APPEND != 0 => Place::Last,
                    _ => Place::First,
                };
                self.entry(kind, message, place, tell);
            }
        }
        Ok(())
    }

    fn table_ends(&mut self, tell: &mut impl FnMut(News)) {
        self.asked = None;
        if self.to_ask.is_empty() {
            let now = self.clock.now();
            let took = now.since(self.began);
            self.not_before = now + (took * PAUSES).clamp(PAUSE_MIN, PAUSE_MAX);
            if !self.torn {
                tell(News::Complete);
            }
        }
    }

    fn entry(&mut self, kind: u16, message: &[u8], place: Place, tell: &mut impl FnMut(News)) {
        const RTM_NEWNETCONF: u16 = 80;
        const RTM_NEWNEXTHOP: u16 = 104;
        const RTM_DELNEXTHOP: u16 = 105;
        let body = message.get(HEADER..).unwrap_or_default();
        let is_new = !matches!(
            kind,
            libc::RTM_DELLINK
                | libc::RTM_DELADDR
                | libc::RTM_DELROUTE
                | libc::RTM_DELNEIGH
                | libc::RTM_DELRULE
                | RTM_DELNEXTHOP
        );
        let entry = match kind {
            libc::RTM_NEWLINK | libc::RTM_DELLINK => {
                Ok(parse::link(body).map(|(link, is_up)| self.link(link, is_up && is_new, place)))
            }
            RTM_NEWNETCONF => {
                let setting = parse::setting(body);
                self.torn |= setting.is_some() && place != Place::Listed;
                Ok(setting)
            }
            RTM_NEWNEXTHOP | RTM_DELNEXTHOP => Ok(parse::nexthop(body)),
            libc::RTM_NEWRULE | libc::RTM_DELRULE => parse::rule(body),
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
                let route = parse::route(body);
                self.consider_listing(&route, is_new, place);
                route
            }
            libc::RTM_NEWADDR | libc::RTM_DELADDR | libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => {
                by_library(message)
            }
            _ => Ok(None),
        };
        match entry {
            Ok(Some(entry)) => {
                // The change may have added or removed routes without an announcement.
                self.torn |= match entry {
                    Entry::Address { address: IpCidr::Ipv4(_), .. } => place != Place::Listed,
                    Entry::Address { .. } | Entry::Link { .. } => !is_new,
                    _ => false,
                };
                tell(if is_new { News::Is { entry, place } } else { News::Gone(entry) });
            }
            Ok(None) => {}
            Err(()) => tell(News::Unreadable),
        }
    }

    /// Records the link's state. Routes go out of use with their link, and come back into use with it,
    /// without an announcement. A link may be listed as up before its routes are in use again; the
    /// announcement follows later.
    fn link(&mut self, link: Entry, is_up: bool, place: Place) -> Entry {
        if let Entry::Link { index, .. } = link {
            let was_up = if is_up { self.up.contains(&index) } else { self.up.remove(&index) };
            if place != Place::Listed {
                self.torn |= !(was_up && is_up);
                if is_up {
                    self.up.insert(index);
                }
            }
        }
        link
    }

    /// Checks whether a listing may have missed a route. A route that is removed during the listing may hide
    /// another one, because the kernel counts its position. In IPv4 it counts within an address, in IPv6
    /// within the table.
    fn consider_listing(&mut self, route: &Result<Option<Entry>, ()>, is_new: bool, place: Place) {
        let Ok(Some(Entry::Route(route))) = route else { return };
        if place == Place::Listed && is_new {
            self.listed = Some(route.to.address());
            return;
        }
        let family = if matches!(route.to, IpCidr::Ipv4(_)) { INET } else { INET6 };
        let is_told = self.asked.is_some_and(|(_, table)| table == Table::Routes(family));
        self.torn |= is_told
            && (self.listed == Some(route.to.address())
                || (family == INET6 && (!is_new || place == Place::Replaces)));
    }
}

/// Returns the error number in an error message.
fn error_of(body: &[u8]) -> i32 {
    body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code).saturating_neg())
}

/// Returns the rules of a kernel that has none: the tables that always exist.
fn rules_of_old(family: u8) -> Vec<KernelRule> {
    const MAIN: u32 = libc::RT_TABLE_MAIN as u32;
    const LOCAL: u32 = libc::RT_TABLE_LOCAL as u32;
    let six = family == INET6;
    vec![KernelRule::table(six, 0, LOCAL), KernelRule::table(six, 32_766, MAIN)]
}

/// Parses a message about an address or a neighbour with the netlink library; `None` for other messages.
fn by_library(message: &[u8]) -> Result<Option<Entry>, ()> {
    let message = NetlinkMessage::<Message>::deserialize(message).map_err(|_| ())?;
    Ok(match message.payload {
        NetlinkPayload::InnerMessage(Message::NewAddress(m) | Message::DelAddress(m)) => address(&m),
        NetlinkPayload::InnerMessage(Message::NewNeighbour(m) | Message::DelNeighbour(m)) => neighbor(&m),
        _ => None,
    })
}

/// Returns the length of the first message; `None` if it is malformed or incomplete.
pub(crate) fn message_len(bytes: &[u8]) -> Option<usize> {
    const HEADER: usize = 16;
    let len = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    (HEADER..=bytes.len()).contains(&len).then_some(len)
}

impl Table {
    /// Returns a request for the whole table: a header, and a body of zeros that begins with the family.
    fn request(self, sequence: u32) -> Vec<u8> {
        const RTM_GETNETCONF: u16 = 82;
        const RTM_GETNEXTHOP: u16 = 106;
        let (kind, family, len) = match self {
            Self::Links => (libc::RTM_GETLINK, 0, 16),
            Self::Settings(family) => (RTM_GETNETCONF, family, 4),
            Self::Addresses => (libc::RTM_GETADDR, 0, 8),
            Self::Nexthops => (RTM_GETNEXTHOP, 0, 8),
            Self::Rules(family) => (libc::RTM_GETRULE, family, 12),
            Self::Routes(family) => (libc::RTM_GETROUTE, family, 12),
            Self::Neighbors => (libc::RTM_GETNEIGH, 0, 12),
        };
        let mut request = vec![0; HEADER + len];
        let mut put = |at: usize, bytes: &[u8]| {
            request.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
        };
        put(0, &((HEADER + len) as u32).to_ne_bytes());
        put(4, &kind.to_ne_bytes());
        put(6, &(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
        put(8, &sequence.to_ne_bytes());
        put(HEADER, &[family]);
        request
    }
}

fn address(message: &AddressMessage) -> Option<Entry> {
    // For IPv4 on a point-to-point link the local address differs from the other one, which has the prefix.
    // For IPv6 there is usually only the other one.
    let (mut local, mut other) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(*address),
            AddressAttribute::Address(address) => other = Some(*address),
            _ => {}
        }
    }
    let own: IpAddress = local.or(other)?.into();
    let longest = if matches!(own, IpAddress::Ipv4(_)) { 32 } else { 128 };
    let length = if local == other || local.is_none() { message.header.prefix_len } else { longest };
    Some(Entry::Address { index: message.header.index, address: IpCidr::new(own, length) })
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

    /// Every namespace has the loopback device and its address.
    #[test]
    fn the_tables_are_read_as_a_whole() {
        let mut tables = KernelTables::open().unwrap();
        let (mut entries, mut complete) = (Vec::new(), 0);
        tables
            .read_all(|news| match news {
                News::Is { entry, .. } => entries.push(entry),
                News::Complete => complete += 1,
                News::Begins | News::Gone(_) | News::Unreadable => {}
            })
            .unwrap();
        assert_eq!(complete, 1);
        let loopback = IpCidr::new(IpAddress::v4(127, 0, 0, 1), 8);
        let has = |e: &Entry| matches!(e, Entry::Address { address, .. } if *address == loopback);
        // In a new network namespace the loopback device is down, and has no address.
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
