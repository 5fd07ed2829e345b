//! Reports of membership in groups, by IGMP and MLD.

use crate::id::InterfaceId;
use crate::stack::address::interfaces::{InterfaceAddresses, Interfaces};
use crate::stack::address::kinds::{hardware_group, is_link_scope};
use crate::stack::header::Header;
use crate::stack::icmp::message::Message;
use crate::stack::route::path::{Next, Path};
use crate::wire::{IpAddress, IpProtocol, Ipv4Address, Ipv6Address};

const ALL_ROUTERS: Ipv4Address = Ipv4Address::new(224, 0, 0, 2);
const IGMP_V3_ROUTERS: Ipv4Address = Ipv4Address::new(224, 0, 0, 22);
const ALL_ROUTERS_V6: Ipv6Address = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const MLD_V2_ROUTERS: Ipv6Address = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

const IGMP_V2_REPORT: u8 = 0x16;
const IGMP_V2_LEAVE: u8 = 0x17;
const IGMP_V3_REPORT: u8 = 0x22;
const MLD_V1_REPORT: u8 = 131;
const MLD_V1_DONE: u8 = 132;
const MLD_V2_REPORT: u8 = 143;

/// The content of a report. The numbers are the record types of RFC 3376 4.2.12 and RFC 3810 5.2.12.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    /// An answer: member, of every source.
    IsMember = 2,
    /// Left: now of no source.
    Left = 3,
    /// Joined: now of every source.
    Joined = 4,
}

/// A report to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    pub(crate) group: IpAddress,
    pub(crate) interface: InterfaceId,
    pub(crate) record: Record,
    /// Whether a querier of the old version is deferred to.
    pub(crate) old: bool,
}

impl Report {
    /// Returns the report's message, from an address of its interface.
    pub(crate) fn message(&self, interfaces: &Interfaces) -> Message {
        let own = interfaces.of(self.interface);
        match self.group {
            IpAddress::Ipv4(group) => self.igmp(group, own),
            IpAddress::Ipv6(group) => self.mld(group, own),
        }
    }

    fn igmp(&self, group: Ipv4Address, own: Option<&InterfaceAddresses>) -> Message {
        let [a, b, c, d] = group.octets();
        let record = [self.record as u8, 0, 0, 0, a, b, c, d];
        let (destination, head, body): (_, _, &[u8]) = match (self.old, self.record) {
            (true, Record::Left) => (ALL_ROUTERS, [IGMP_V2_LEAVE, 0, 0, 0, a, b, c, d], &[]),
            (true, _) => (group, [IGMP_V2_REPORT, 0, 0, 0, a, b, c, d], &[]),
            (false, _) => (IGMP_V3_ROUTERS, [IGMP_V3_REPORT, 0, 0, 0, 0, 0, 0, 1], &record),
        };
        let source = own.and_then(|own| own.v4.first());
        let source = source.map_or(Ipv4Address::UNSPECIFIED, |cidr| cidr.address());
        self.put(source.into(), destination.into(), IpProtocol::Igmp, head, body)
    }

    fn mld(&self, group: Ipv6Address, own: Option<&InterfaceAddresses>) -> Message {
        let mut record = [0; 20];
        record[0] = self.record as u8;
        record[4..].copy_from_slice(&group.octets());
        let group_only = group.octets();
        let (destination, head, body): (_, _, &[u8]) = match (self.old, self.record) {
            (true, Record::Left) => (ALL_ROUTERS_V6, [MLD_V1_DONE, 0, 0, 0, 0, 0, 0, 0], &group_only),
            (true, _) => (group, [MLD_V1_REPORT, 0, 0, 0, 0, 0, 0, 0], &group_only),
            (false, _) => (MLD_V2_ROUTERS, [MLD_V2_REPORT, 0, 0, 0, 0, 0, 0, 1], &record),
        };
        let source = own.and_then(InterfaceAddresses::link_local).unwrap_or(Ipv6Address::UNSPECIFIED);
        debug_assert!(is_link_scope(source) || source.is_unspecified(), "RFC 2710 3");
        self.put(source.into(), destination.into(), IpProtocol::Icmpv6, head, body)
    }

    fn put(
        &self,
        source: IpAddress,
        destination: IpAddress,
        protocol: IpProtocol,
        head: [u8; 8],
        body: &[u8],
    ) -> Message {
        let header = Header { router_alert: true, ..Header::new(source, destination, protocol, 1) };
        let path = Path { interface: self.interface, next: Next::Group(hardware_group(destination)) };
        Message::new(header, path, head, body)
    }
}
