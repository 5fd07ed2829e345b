//! Telling a neighbour that another one on its own link is nearer to where it sends (RFC 1812 5.2.7.2, RFC
//! 4861 8.2).

use super::address::InterfaceAddresses;
use super::header::Header;
use super::icmp::{Offender, offender};
use super::io::Io;
use super::state::Stack;
use crate::id::InterfaceId;
use crate::wire::{EthernetAddress, Icmpv6Message, IpAddress, IpProtocol, Ipv4Address, Ipv6Address};

/// ICMP type and code: redirect datagrams for the host. The codes for networks are not to be used (RFC 1812
/// 5.2.7.2).
const REDIRECT_V4: [u8; 2] = [5, 1];
/// Only a packet that no router has passed on has it (RFC 4861 8.1).
const HOP_LIMIT: u8 = 255;
/// Options of RFC 4861 4.6: type, and length in units of eight bytes.
const TARGET_HARDWARE: [u8; 2] = [2, 1];
const REDIRECTED_HEADER: u8 = 4;
/// The quoted packet is cut so that the message stays within the minimum MTU (RFC 4861 4.6.3).
const QUOTE_V6_MAX: usize = 1280 - 40 - 8 - 32 - 8 - 8;

impl Stack {
    /// Redirects the sender of a packet that came by `interface` and leaves there for `neighbor`, if the
    /// sender is on that link and redirects are on.
    pub(super) fn redirect(
        &mut self,
        packet: &[u8],
        interface: InterfaceId,
        neighbor: IpAddress,
        io: &mut Io<'_>,
    ) {
        if !self.config.redirects {
            return;
        }
        let Some(offender) = offender(packet, false) else { return };
        let is_better = match (offender.source, neighbor) {
            (IpAddress::Ipv4(source), IpAddress::Ipv4(gateway)) => {
                self.share_prefix_v4(source, gateway, interface)
            }
            (IpAddress::Ipv6(source), IpAddress::Ipv6(target)) => {
                self.is_better_v6(source, target, offender.destination, interface)
            }
            _ => false,
        };
        if !is_better || !self.within_rate(&offender.source, io) {
            return;
        }
        match neighbor {
            IpAddress::Ipv4(gateway) => {
                let ([kind, code], [a, b, c, d]) = (REDIRECT_V4, gateway.octets());
                let (head, quote) = ([kind, code, 0, 0, a, b, c, d], core::iter::once(offender.quote));
                self.reply_icmp(interface, offender.source, offender.destination, head, quote, io);
            }
            IpAddress::Ipv6(target) => self.redirect_v6(&offender, target, interface, io),
        }
    }

    /// Returns whether `source` and `gateway` are on the same logical network of `interface`.
    fn share_prefix_v4(&self, source: Ipv4Address, gateway: Ipv4Address, interface: InterfaceId) -> bool {
        self.addresses_of(interface).is_some_and(|own| {
            own.v4.iter().any(|cidr| cidr.contains_addr(&source) && cidr.contains_addr(&gateway))
        })
    }

    /// Returns whether `source` is a neighbour and `target` is a valid redirect target. That is the
    /// destination itself, or a router by its link-local address, by which routers are known (RFC 4861
    /// 8.2).
    fn is_better_v6(
        &self,
        source: Ipv6Address,
        target: Ipv6Address,
        destination: IpAddress,
        interface: InterfaceId,
    ) -> bool {
        let is_neighbor = |own: &InterfaceAddresses| own.v6.iter().any(|cidr| cidr.contains_addr(&source));
        (target.is_unicast_link_local() || destination == IpAddress::Ipv6(target))
            && self.addresses_of(interface).is_some_and(is_neighbor)
    }

    fn redirect_v6(
        &mut self,
        offender: &Offender<'_>,
        target: Ipv6Address,
        interface: InterfaceId,
        io: &mut Io<'_>,
    ) {
        let (to, IpAddress::Ipv6(destination)) = (offender.source, offender.destination) else { return };
        let Some(source) = self.addresses_of(interface).and_then(InterfaceAddresses::link_local) else {
            return;
        };
        let Ok(path) = self.path_to(&to, Some(interface)) else { return };
        let hardware = self.neighbors.hardware((interface, target.into()));
        let quote = offender.quote.get(..offender.quote.len().min(QUOTE_V6_MAX) & !7).unwrap_or_default();
        let mut body = [0; 48];
        let len = fill_body(&mut body, target, destination, hardware, quote.len());
        let chunks = [body.get(..len).unwrap_or_default(), quote];
        let head = [Icmpv6Message::Redirect.into(), 0, 0, 0, 0, 0, 0, 0];
        let protocol = IpProtocol::Icmpv6;
        let header = Header::new(source.into(), to, protocol, HOP_LIMIT);
        self.send_icmp(header, path, head, chunks.into_iter(), io);
    }
}

/// Writes target, destination, the target's hardware address if known, and the head of the option that quotes
/// the packet. Says how long that is.
fn fill_body(
    body: &mut [u8; 48],
    target: Ipv6Address,
    destination: Ipv6Address,
    hardware: Option<EthernetAddress>,
    quote: usize,
) -> usize {
    let (addresses, options) = body.split_at_mut(32);
    addresses[..16].copy_from_slice(&target.octets());
    addresses[16..].copy_from_slice(&destination.octets());
    let (first, second) = options.split_at_mut(8);
    let quoted = [REDIRECTED_HEADER, (quote / 8 + 1) as u8, 0, 0, 0, 0, 0, 0];
    match hardware {
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
    }
}
