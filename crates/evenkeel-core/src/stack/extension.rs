//! The extension headers of IPv6 (RFC 8200 4): what they lead to, and which are refused.

use super::icmp::problem::Problem;
use crate::wire::IpProtocol;

/// The length of the fixed IPv6 header, in bytes.
pub(super) const FIXED: usize = 40;
/// Extension headers followed in one packet. RFC 8504 5.3 lets a host limit them; honest packets have two or
/// three.
const EXTENSIONS_MAX: usize = 8;

/// The header at which a walk along extension headers ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// At a header of an upper layer, of this protocol, whose name stands at `field`.
    Upper { protocol: u8, at: usize, field: usize },
    /// At a fragment header.
    Fragment { at: usize },
}

/// Why a packet is not processed further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Dropped without a word.
    Silent,
    /// Dropped with a parameter problem.
    Report(Problem),
}

/// A walk along the headers of one packet.
pub(super) struct Walk<'a> {
    /// From the fixed header on.
    pub(super) packet: &'a [u8],
    pub(super) multicast: bool,
}

impl Walk<'_> {
    fn byte(&self, at: usize) -> Result<u8, Refusal> {
        self.packet.get(at).copied().ok_or(Refusal::Silent)
    }

    /// Follows headers from the one named `next` at `at`, up to an upper layer or a fragment header.
    pub(super) fn follow(&self, mut next: u8, mut at: usize, mut field: usize) -> Result<Found, Refusal> {
        for _ in 0..=EXTENSIONS_MAX {
            match IpProtocol::from(next) {
                // Only ever the first (RFC 8200 4.1).
                IpProtocol::HopByHop if at == FIXED => self.check_options(at)?,
                IpProtocol::Ipv6Opts => self.check_options(at)?,
                IpProtocol::Ipv6Route => self.check_routing(at)?,
                IpProtocol::Ipv6Frag => return Ok(Found::Fragment { at }),
                _ => return Ok(Found::Upper { protocol: next, at, field }),
            }
            next = self.byte(at)?;
            field = at;
            at += self.header_len(at)?;
        }
        Err(Refusal::Silent)
    }

    /// Returns the length of an extension header, in bytes. The header must be there whole.
    fn header_len(&self, at: usize) -> Result<usize, Refusal> {
        let len = (usize::from(self.byte(at + 1)?) + 1) * 8;
        if at + len <= self.packet.len() { Ok(len) } else { Err(Refusal::Silent) }
    }

    /// Options of a hop-by-hop or destination options header: unknown ones by their two top bits (RFC 8200
    /// 4.2).
    fn check_options(&self, header: usize) -> Result<(), Refusal> {
        const PAD_ONE: u8 = 0;
        const PAD: u8 = 1;
        const ROUTER_ALERT: u8 = 5;
        let end = header + self.header_len(header)?;
        let mut at = header + 2;
        while at < end {
            let kind = self.byte(at)?;
            if kind == PAD_ONE {
                at += 1;
                continue;
            }
            let len = usize::from(self.byte(at + 1)?) + 2;
            if at + len > end {
                return Err(Refusal::Silent);
            }
            if !matches!(kind, PAD | ROUTER_ALERT) {
                self.check_unknown_option(kind, at)?;
            }
            at += len;
        }
        Ok(())
    }

    fn check_unknown_option(&self, kind: u8, at: usize) -> Result<(), Refusal> {
        let problem = Refusal::Report(Problem::Option { pointer: at as u32 });
        match kind >> 6 {
            0 => Ok(()),
            2 => Err(problem),
            3 if !self.multicast => Err(problem),
            _ => Err(Refusal::Silent),
        }
    }

    /// Checks a routing header. This host is no hop of any source route. Type 0 is treated as any unknown
    /// type (RFC 5095 3): it is skipped if nothing of the route is left, and refused otherwise.
    fn check_routing(&self, at: usize) -> Result<(), Refusal> {
        if self.byte(at + 3)? == 0 {
            return Ok(());
        }
        Err(Refusal::Report(Problem::Header { pointer: at as u32 + 2 }))
    }
}

/// Returns the upper-layer protocol of a packet about which an error may be sent, and the offset of its
/// header. `None` for a fragment that is not the first.
pub(super) fn upper_of(packet: &[u8]) -> Option<(u8, usize)> {
    let mut walk = (*packet.get(6)?, FIXED);
    for _ in 0..=EXTENSIONS_MAX {
        let (next, at) = walk;
        walk = match IpProtocol::from(next) {
            IpProtocol::HopByHop | IpProtocol::Ipv6Opts | IpProtocol::Ipv6Route => {
                (*packet.get(at)?, at + (usize::from(*packet.get(at + 1)?) + 1) * 8)
            }
            IpProtocol::Ipv6Frag => {
                let field = u16::from_be_bytes([*packet.get(at + 2)?, *packet.get(at + 3)?]);
                if field & !7 != 0 {
                    return None;
                }
                (*packet.get(at)?, at + 8)
            }
            _ => return Some((next, at)),
        };
    }
    None
}

/// Returns whether a first fragment has all headers, the upper layer's included (RFC 8200 4.5, RFC 7112
/// 5). If that protocol is unknown here, the first byte of its header is enough.
pub(super) fn has_all_headers(packet: &[u8], next: u8, at: usize) -> bool {
    let walk = Walk { packet, multicast: false };
    match walk.follow(next, at + 8, at) {
        Ok(Found::Upper { protocol, at, .. }) => {
            let needed = match IpProtocol::from(protocol) {
                IpProtocol::Udp | IpProtocol::Icmpv6 => 8,
                // Its options are part of the header (RFC 7112 2).
                IpProtocol::Tcp => {
                    packet.get(at + 12).map_or(20, |offset| usize::from(offset >> 4) * 4).max(20)
                }
                IpProtocol::Ipv6NoNxt => 0,
                _ => 1,
            };
            at + needed <= packet.len()
        }
        // A problem of another kind, which is found once the packet is whole.
        Ok(Found::Fragment { .. }) | Err(Refusal::Report(_)) => true,
        Err(Refusal::Silent) => false,
    }
}
