//! Membership in multicast groups, reported by IGMP (RFC 2236, RFC 3376) and MLD (RFC 2710, RFC 3810).
//!
//! Reports are of version 3 (MLD: 2) unless an older querier was heard not long ago. Sources are not
//! filtered: a member wants a group from everybody.

use core::time::Duration;

use super::address::{InterfaceAddresses, hardware_group, is_link_scope};
use super::error::GroupError;
use super::groups::{Report, is_everybody, is_reported};
use super::header::Header;
use super::io::Io;
use super::packet::Packet;
use super::path::{Next, Path};
use super::received::Received;
use super::state::Stack;
use crate::drop::IpDrop;
use crate::id::InterfaceId;
use crate::tcp::Checksum;
use crate::time::Instant;
use crate::wire::{IpAddress, IpProtocol, Ipv4Address, Ipv6Address};

/// Unsolicited reports are repeated within this time (RFC 3376 8.11, RFC 3810 9.11).
const UNSOLICITED: Duration = Duration::from_secs(1);
/// The time for which the host defers to a querier of the old version (RFC 3376 8.12: 2 x 125 s + 10 s).
const OLD_QUERIER: Duration = Duration::from_secs(260);
/// Longest delay of an answer to IGMPv1 queriers, which name none (RFC 2236 4).
const IGMP_V1_DELAY: Duration = Duration::from_secs(10);

const ALL_ROUTERS: Ipv4Address = Ipv4Address::new(224, 0, 0, 2);
const IGMP_V3_ROUTERS: Ipv4Address = Ipv4Address::new(224, 0, 0, 22);
const ALL_ROUTERS_V6: Ipv6Address = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const MLD_V2_ROUTERS: Ipv6Address = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

const IGMP_QUERY: u8 = 0x11;
const IGMP_V2_REPORT: u8 = 0x16;
const IGMP_V2_LEAVE: u8 = 0x17;
const IGMP_V3_REPORT: u8 = 0x22;
const MLD_V1_REPORT: u8 = 131;
const MLD_V1_DONE: u8 = 132;
const MLD_V2_REPORT: u8 = 143;

/// A query, of either protocol and any version.
#[derive(Debug, Clone, Copy)]
struct Query {
    /// `None` asks for all groups.
    group: Option<IpAddress>,
    max_delay: Duration,
    old: bool,
}

/// The "floating-point" times of RFC 3376 4.1.1 and RFC 3810 5.1.3: a bit that says so, exponent of 3,
/// mantissa.
const fn floating(code: u32, mantissa_bits: u32) -> u32 {
    let flag = 1 << (mantissa_bits + 3);
    if code < flag {
        return code;
    }
    let mantissa = code & ((1 << mantissa_bits) - 1) | 1 << mantissa_bits;
    mantissa << (((code >> mantissa_bits) & 7) + 3)
}

fn parse_igmp_query(bytes: &[u8]) -> Option<Query> {
    let &[_, code, _, _, a, b, c, d, ref rest @ ..] = bytes else { return None };
    let group = Ipv4Address::new(a, b, c, d);
    if !group.is_unspecified() && !group.is_multicast() {
        return None;
    }
    let old = rest.is_empty();
    if !old && rest.len() < 4 {
        return None;
    }
    let tenths = if old { code.into() } else { floating(code.into(), 4) };
    let max_delay = if old && code == 0 { IGMP_V1_DELAY } else { Duration::from_millis(100) * tenths };
    Some(Query { group: (!group.is_unspecified()).then_some(group.into()), max_delay, old })
}

fn parse_mld_query(bytes: &[u8]) -> Option<Query> {
    let code = u16::from_be_bytes([*bytes.get(4)?, *bytes.get(5)?]);
    let group: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
    let group = Ipv6Address::from(group);
    if !group.is_unspecified() && !group.is_multicast() {
        return None;
    }
    let old = bytes.len() == 24;
    if !old && bytes.len() < 28 {
        return None;
    }
    let millis = if old { code.into() } else { floating(code.into(), 12) };
    let max_delay = Duration::from_millis(millis.into());
    Some(Query { group: (!group.is_unspecified()).then_some(group.into()), max_delay, old })
}

impl Stack {
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

    pub(super) fn join_group(
        &mut self,
        group: IpAddress,
        interface: InterfaceId,
        io: &mut Io<'_>,
    ) -> Result<(), GroupError> {
        if !group.is_multicast() {
            return Err(GroupError::NotMulticast);
        }
        self.addresses_of(interface).ok_or(GroupError::Interface)?;
        if !self.groups.is_member(group, interface) && self.groups.count() >= self.config.groups {
            return Err(GroupError::Full);
        }
        if !is_everybody(&group) {
            self.groups.join(group, interface, io.now, self.config.report_groups);
            self.tick_groups(io);
        }
        Ok(())
    }

    pub(super) fn leave_group(
        &mut self,
        group: IpAddress,
        interface: InterfaceId,
        io: &mut Io<'_>,
    ) -> Result<(), GroupError> {
        if is_everybody(&group) {
            return Ok(());
        }
        let last = self.groups.leave(group, interface)?;
        if last && self.config.report_groups && is_reported(&group) {
            self.send_report(group, interface, Report::Left, io);
        }
        Ok(())
    }

    pub(super) fn tick_groups(&mut self, io: &mut Io<'_>) {
        loop {
            let jitter = self.random.up_to(UNSOLICITED);
            let Some((group, interface, report)) = self.groups.poll(io.now, jitter) else { return };
            self.send_report(group, interface, report, io);
        }
    }

    pub(super) fn input_igmp(&mut self, packet: Packet, io: &mut Io<'_>) -> Option<Received> {
        let sum = packet.payload.chunks().fold(Checksum::default(), Checksum::add).finish();
        let head = packet.payload.head();
        if sum != 0 || head.len() < 8 {
            io.drop_payload(packet.payload, IpDrop::BadIcmp);
            return None;
        }
        if head.first() == Some(&IGMP_QUERY) {
            let Some(query) = parse_igmp_query(head) else {
                io.drop_payload(packet.payload, IpDrop::BadIcmp);
                return None;
            };
            if query.old {
                self.groups.querier(packet.interface).0 = io.now + OLD_QUERIER;
            }
            self.queried(packet.interface, query, true, io.now);
        }
        Some(Received::consumed(packet.payload, io))
    }

    pub(super) fn input_mld(&mut self, packet: Packet, io: &mut Io<'_>) -> Option<Received> {
        // RFC 2710 3, RFC 3810 5.1.14: from a neighbour, which a router cannot forge for another link.
        let from_link = matches!(packet.source, IpAddress::Ipv6(source) if source.is_unicast_link_local());
        let query = parse_mld_query(packet.payload.head()).filter(|_| from_link && packet.hop_limit == 1);
        let Some(query) = query else {
            io.drop_payload(packet.payload, IpDrop::BadIcmp);
            return None;
        };
        if query.old {
            self.groups.querier(packet.interface).1 = io.now + OLD_QUERIER;
        }
        self.queried(packet.interface, query, false, io.now);
        Some(Received::consumed(packet.payload, io))
    }

    /// Schedules answers, each at a moment of its own (RFC 3376 5.2): many members would answer at once
    /// otherwise.
    fn queried(&mut self, interface: InterfaceId, query: Query, v4: bool, now: Instant) {
        if !self.config.report_groups {
            return;
        }
        for member in &mut self.groups.members {
            let asked = member.interface == interface
                && matches!(member.group, IpAddress::Ipv4(_)) == v4
                && is_reported(&member.group)
                && query.group.is_none_or(|group| group == member.group);
            if asked {
                member.due = member.due.min(now + self.random.up_to(query.max_delay));
            }
        }
        self.groups.reschedule();
    }

    fn send_report(&mut self, group: IpAddress, interface: InterfaceId, report: Report, io: &mut Io<'_>) {
        match group {
            IpAddress::Ipv4(group) => self.send_igmp(group, interface, report, io),
            IpAddress::Ipv6(group) => self.send_mld(group, interface, report, io),
        }
    }

    fn send_igmp(&mut self, group: Ipv4Address, interface: InterfaceId, report: Report, io: &mut Io<'_>) {
        let old = self.groups.querier(interface).0 > io.now;
        let [a, b, c, d] = group.octets();
        let (destination, head, body): (_, _, &[u8]) = match (old, report) {
            (true, Report::Left) => (ALL_ROUTERS, [IGMP_V2_LEAVE, 0, 0, 0, a, b, c, d], &[]),
            (true, _) => (group, [IGMP_V2_REPORT, 0, 0, 0, a, b, c, d], &[]),
            (false, _) => {
                (IGMP_V3_ROUTERS, [IGMP_V3_REPORT, 0, 0, 0, 0, 0, 0, 1], &[report as u8, 0, 0, 0, a, b, c, d])
            }
        };
        let source = self.addresses_of(interface).and_then(|own| own.v4.first());
        let source = source.map_or(Ipv4Address::UNSPECIFIED, |cidr| cidr.address());
        let addresses = (IpAddress::Ipv4(source), IpAddress::Ipv4(destination));
        self.send_membership(interface, addresses, IpProtocol::Igmp, head, body, io);
    }

    fn send_mld(&mut self, group: Ipv6Address, interface: InterfaceId, report: Report, io: &mut Io<'_>) {
        let old = self.groups.querier(interface).1 > io.now;
        let mut record = [0; 20];
        record[0] = report as u8;
        record[4..].copy_from_slice(&group.octets());
        let group_only = group.octets();
        let (destination, head, body): (_, _, &[u8]) = match (old, report) {
            (true, Report::Left) => (ALL_ROUTERS_V6, [MLD_V1_DONE, 0, 0, 0, 0, 0, 0, 0], &group_only),
            (true, _) => (group, [MLD_V1_REPORT, 0, 0, 0, 0, 0, 0, 0], &group_only),
            (false, _) => (MLD_V2_ROUTERS, [MLD_V2_REPORT, 0, 0, 0, 0, 0, 0, 1], &record),
        };
        let source = self.addresses_of(interface).and_then(InterfaceAddresses::link_local);
        let source = source.unwrap_or(Ipv6Address::UNSPECIFIED);
        debug_assert!(is_link_scope(source) || source.is_unspecified(), "RFC 2710 3");
        let addresses = (IpAddress::Ipv6(source), IpAddress::Ipv6(destination));
        self.send_membership(interface, addresses, IpProtocol::Icmpv6, head, body, io);
    }

    fn send_membership(
        &mut self,
        interface: InterfaceId,
        (source, destination): (IpAddress, IpAddress),
        protocol: IpProtocol,
        head: [u8; 8],
        body: &[u8],
        io: &mut Io<'_>,
    ) {
        let header = Header { router_alert: true, ..Header::new(source, destination, protocol, 1) };
        let path = Path { interface, next: Next::Group(hardware_group(destination)) };
        self.send_icmp(header, path, head, core::iter::once(body), io);
    }
}
