//! Redirects: a neighbour learns that another one on its own link is nearer to a destination (RFC 1812
//! 5.2.7.2, RFC 4861 8.2).

use super::offender::{Offender, offender};
use crate::id::InterfaceId;
use crate::stack::address::interfaces::Interfaces;
use crate::stack::header::Header;
use crate::wire::{EthernetAddress, Icmpv6Message, IpAddress, IpProtocol, Ipv4Address, Ipv6Address};

/// ICMP type and code: redirect datagrams for the host. The codes for networks are not to be used (RFC 1812
/// 5.2.7.2).
const REDIRECT_V4: [u8; 2] = [5, 1];
/// The hop limit of a redirect. A packet that a router has passed on has a lower one (RFC 4861 8.1).
const HOP_LIMIT: u8 = 255;
/// Options of RFC 4861 4.6: type, and length in units of eight bytes.
const TARGET_HARDWARE: [u8; 2] = [2, 1];
const REDIRECTED_HEADER: u8 = 4;
/// The quoted packet is cut so that the message stays within the minimum MTU (RFC 4861 4.6.3).
const QUOTE_V6_MAX: usize = 1280 - 40 - 8 - 32 - 8 - 8;

/// A redirect of the sender of a packet to a neighbour on its own link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Redirect<'a> {
    pub(crate) offender: Offender<'a>,
    /// The neighbour that is nearer to the packet's destination.
    pub(crate) target: IpAddress,
}

impl<'a> Redirect<'a> {
    /// Returns the redirect of the sender of a packet that came by `interface` and leaves there for `target`,
    /// if the sender is on that link.
    pub(crate) fn of(
        packet: &'a [u8],
        interface: InterfaceId,
        target: IpAddress,
        interfaces: &Interfaces,
    ) -> Option<Self> {
        let offender = offender(packet, false)?;
        let own = interfaces.of(interface)?;
        let is_better = match (offender.source, target) {
            (IpAddress::Ipv4(source), IpAddress::Ipv4(gateway)) => own.share_prefix(source, gateway),
            // A valid target is the destination itself, or a router by its link-local address, by which
            // routers are known (RFC 4861 8.2).
            (IpAddress::Ipv6(source), IpAddress::Ipv6(router)) => {
                (router.is_unicast_link_local() || offender.destination == target) && own.reaches_v6(source)
            }
            _ => false,
        };
        is_better.then_some(Self { offender, target })
    }

    /// Returns the head of a redirect of ICMP.
    pub(crate) const fn head_v4(gateway: Ipv4Address) -> [u8; 8] {
        let ([kind, code], [a, b, c, d]) = (REDIRECT_V4, gateway.octets());
        [kind, code, 0, 0, a, b, c, d]
    }

    /// Returns the head of a redirect of ICMPv6.
    pub(crate) fn head_v6() -> [u8; 8] {
        [Icmpv6Message::Redirect.into(), 0, 0, 0, 0, 0, 0, 0]
    }

    /// Returns the header of a redirect of ICMPv6.
    pub(crate) const fn header_v6(source: Ipv6Address, to: IpAddress) -> Header {
        Header::new(IpAddress::Ipv6(source), to, IpProtocol::Icmpv6, HOP_LIMIT)
    }

    /// Returns the part of the packet that a redirect of ICMPv6 quotes.
    pub(crate) fn quote_v6(&self) -> &'a [u8] {
        let quote = self.offender.quote;
        quote.get(..quote.len().min(QUOTE_V6_MAX) & !7).unwrap_or_default()
    }

    /// Returns the body of a redirect of ICMPv6 as far as the quoted packet, and its length: the target, the
    /// destination, the target's hardware address if known, and the head of the option that quotes it.
    pub(crate) fn body_v6(
        &self,
        target: Ipv6Address,
        hardware: Option<EthernetAddress>,
    ) -> ([u8; 48], usize) {
        let mut body = [0; 48];
        let (addresses, options) = body.split_at_mut(32);
        addresses[..16].copy_from_slice(&target.octets());
        if let IpAddress::Ipv6(destination) = self.offender.destination {
            addresses[16..].copy_from_slice(&destination.octets());
        }
        let (first, second) = options.split_at_mut(8);
        let quoted = [REDIRECTED_HEADER, (self.quote_v6().len() / 8 + 1) as u8, 0, 0, 0, 0, 0, 0];
        let len = match hardware {
            Some(hardware) => {
                first[..2].copy_from_slice(&TARGET_HARDWARE);
                first[2..].copy_from_slice(&hardware.0);
                second.copy_from_slice(&quoted);
                48
            }
            None => {
                first.copy_from_slice(&quoted);
                40
            }
        };
        (body, len)
    }
}
