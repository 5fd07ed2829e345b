//! Messages of neighbour discovery (RFC 4861), received and to be sent.

use crate::id::InterfaceId;
use crate::stack::address::kinds::{hardware_group, solicited_node};
use crate::stack::header::Header;
use crate::stack::icmp::message::Message;
use crate::stack::route::path::{Next, Path};
use crate::wire::{EthernetAddress, Icmpv6Message, IpAddress, IpProtocol, Ipv6Address};

/// The hop limit of every message. A packet that a router has passed on has a lower one (RFC 4861 3.1).
pub(crate) const HOP_LIMIT: u8 = 255;
const SOURCE_HARDWARE: u8 = 1;
const TARGET_HARDWARE: u8 = 2;
/// Flags of an advertisement, in the first byte of its second word.
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
/// The group that every node is in.
pub(crate) const ALL_NODES: Ipv6Address = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The hardware addresses among the options of a message.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) source: Option<EthernetAddress>,
    pub(crate) target: Option<EthernetAddress>,
}

impl Options {
    /// Parses the options. Every option is checked for its length; unused ones are skipped (RFC 4861
    /// 7.1.1).
    pub(crate) fn parse(mut bytes: &[u8]) -> Option<Self> {
        let mut found = Self::default();
        while let [kind, len, ..] = *bytes {
            let len = usize::from(len) * 8;
            let option = bytes.get(..len).filter(|option| !option.is_empty())?;
            if matches!(kind, SOURCE_HARDWARE | TARGET_HARDWARE) {
                let hardware = EthernetAddress(option.get(2..8)?.try_into().ok()?);
                if !hardware.is_unicast() {
                    return None;
                }
                if kind == SOURCE_HARDWARE {
                    found.source = Some(hardware);
                } else {
                    found.target = Some(hardware);
                }
            }
            bytes = bytes.get(len..)?;
        }
        bytes.is_empty().then_some(found)
    }
}

/// A solicitation or advertisement that has been received, checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received {
    flags: u8,
    pub(crate) target: Ipv6Address,
    pub(crate) options: Options,
}

impl Received {
    /// Parses a message. Returns `None` if it is invalid.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let flags = *bytes.get(4)?;
        let target: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
        let target = Ipv6Address::from(target);
        let options = Options::parse(bytes.get(24..)?)?;
        (!target.is_multicast()).then_some(Self { flags, target, options })
    }
    /// Returns whether an advertisement answers a solicitation, as it claims.
    pub(crate) const fn is_solicited(&self) -> bool {
        self.flags & SOLICITED != 0
    }

    /// Returns whether an advertisement may replace a known hardware address.
    pub(crate) const fn overrides(&self) -> bool {
        self.flags & OVERRIDE != 0
    }
}

/// Creates a probe for `target`, which does not claim it (RFC 4862 5.4.2).
pub(crate) fn probe(interface: InterfaceId, target: Ipv6Address) -> Message {
    let destination = IpAddress::Ipv6(solicited_node(target));
    let path = Path { interface, next: Next::Group(hardware_group(destination)) };
    let source = IpAddress::Ipv6(Ipv6Address::UNSPECIFIED);
    Message::new(header(source, destination), path, head(Icmpv6Message::NeighborSolicit, 0), &target.octets())
}

/// Creates a solicitation for `target` by a node with the addresses `source` and `own`. It goes to the
/// solicited-node group, or to the node `ask` that had the address.
pub(crate) fn solicitation(
    interface: InterfaceId,
    (source, own): (IpAddress, EthernetAddress),
    target: Ipv6Address,
    ask: Option<EthernetAddress>,
) -> Message {
    let destination = IpAddress::Ipv6(if ask.is_some() { target } else { solicited_node(target) });
    let hardware = ask.unwrap_or_else(|| hardware_group(destination));
    // Not by way of the cache: that is what is being filled.
    let path = Path { interface, next: Next::Group(hardware) };
    let body = body(target, SOURCE_HARDWARE, own);
    Message::new(header(source, destination), path, head(Icmpv6Message::NeighborSolicit, 0), &body)
}

/// An advertisement of an address of this host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Advertised {
    pub(crate) target: Ipv6Address,
    pub(crate) hardware: EthernetAddress,
    pub(crate) is_router: bool,
    /// Whether it answers a solicitation.
    pub(crate) is_solicited: bool,
}

impl Advertised {
    /// Returns the message to `destination`.
    pub(crate) fn message(&self, destination: IpAddress, path: Path) -> Message {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.is_router, ROUTER) | OVERRIDE | flag(self.is_solicited, SOLICITED);
        let head = head(Icmpv6Message::NeighborAdvert, flags);
        let body = body(self.target, TARGET_HARDWARE, self.hardware);
        Message::new(header(self.target.into(), destination), path, head, &body)
    }
}

const fn header(source: IpAddress, destination: IpAddress) -> Header {
    Header::new(source, destination, IpProtocol::Icmpv6, HOP_LIMIT)
}

fn head(kind: Icmpv6Message, flags: u8) -> [u8; 8] {
    [kind.into(), 0, 0, 0, flags, 0, 0, 0]
}

/// Returns the target and an option with a hardware address.
fn body(target: Ipv6Address, option: u8, hardware: EthernetAddress) -> [u8; 24] {
    let mut body = [0; 24];
    let (address, last) = body.split_at_mut(16);
    address.copy_from_slice(&target.octets());
    let [a, b, c, d, e, f] = hardware.0;
    last.copy_from_slice(&[option, 1, a, b, c, d, e, f]);
    body
}
