//! Forwarding: packets for other hosts are forwarded (RFC 1812 5, RFC 8200 3).
//!
//! This happens in two steps, so that a screening process can stand between them. Input looks at the packet
//! alone and returns a [`Transit`]. [`Forwarding`] finds its path and sends it in the frame it came in.

use super::fragment::cutter::Cutter;
use super::header::{ETHERNET, PACKET_MAX};
use super::icmp::errors::Errors;
use super::icmp::problem::Problem;
use super::icmp::reset::{Reply, Reset, is_tcp};
use super::neighbor::table::Waiting;
use super::output::Output;
use super::route::hop::Hop;
use super::route::path::{Next, Path};
use super::route::table::Via;
use super::transit::Transit;
use crate::drop::{IpDrop, LinkDrop};
use crate::id::InterfaceId;
use crate::segmentation::len_of_packet;
use crate::wire::{EthernetAddress, IpAddress, Ipv4Packet, Ipv6Packet};

/// The fields of an IP header that forwarding needs.
#[derive(Debug, Clone, Copy)]
struct Header {
    source: IpAddress,
    destination: IpAddress,
    hop_limit: u8,
    /// Of the whole packet, or of each segment of a large one.
    len: usize,
    /// The payload's end, in bytes, within the unfragmented packet. `None` if the packet must not be
    /// fragmented.
    may_cut_to: Option<usize>,
}

impl Header {
    fn of(transit: &Transit) -> Option<Self> {
        let packet = transit.packet();
        let segment_bytes = transit.frame.segment_bytes();
        let len = len_of_packet(packet, segment_bytes);
        if packet.first()? >> 4 == 4 {
            let packet = Ipv4Packet::new_checked(packet).ok()?;
            let end = usize::from(packet.frag_offset()) + len - usize::from(packet.header_len());
            Some(Self {
                source: packet.src_addr().into(),
                destination: packet.dst_addr().into(),
                hop_limit: packet.hop_limit(),
                len,
                // The segments of a large one are not fragmented.
                may_cut_to: (!packet.dont_frag() && segment_bytes.is_none()).then_some(end),
            })
        } else {
            let packet = Ipv6Packet::new_checked(packet).ok()?;
            Some(Self {
                source: packet.src_addr().into(),
                destination: packet.dst_addr().into(),
                hop_limit: packet.hop_limit(),
                len,
                may_cut_to: None,
            })
        }
    }
}

/// The next hop of a packet, and the MTU of the link there.
#[derive(Debug, Clone, Copy)]
struct NextLink {
    hop: Hop,
    mtu: usize,
}

/// The way of packets to a neighbour, as far as the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) interface: InterfaceId,
    pub(crate) neighbor: IpAddress,
    pub(crate) mtu: usize,
    pub(crate) to: EthernetAddress,
    pub(crate) from: EthernetAddress,
}

/// The reason why a packet is not forwarded, and the problem that its sender is notified of.
#[derive(Debug, Clone, Copy)]
struct Obstacle {
    reason: IpDrop,
    problem: Option<Problem>,
}

impl Obstacle {
    const fn silent(reason: IpDrop) -> Self {
        Self { reason, problem: None }
    }

    const fn reported(reason: IpDrop, problem: Problem) -> Self {
        Self { reason, problem: Some(problem) }
    }
}

impl From<Option<&Via>> for Obstacle {
    /// Returns the obstacle that a route is which discards packets, or the lack of a route.
    fn from(route: Option<&Via>) -> Self {
        match route {
            None => Self::reported(IpDrop::NoRoute, Problem::NoRoute),
            Some(Via::Prohibit) => Self::reported(IpDrop::RouteDiscards, Problem::Prohibited),
            Some(Via::Unreachable) => Self::reported(IpDrop::RouteDiscards, Problem::RouteRejects),
            Some(_) => Self::silent(IpDrop::RouteDiscards),
        }
    }
}

/// Forwarding in one work item: the parts of a stack that a packet in transit needs.
pub(super) struct Forwarding<'a, 'io> {
    pub(super) errors: Errors<'a, 'io>,
}

impl Forwarding<'_, '_> {
    /// Forwards a packet: TTL, route, MTU, neighbour. It ends in [`Io::out`](super::io::Io::out), waiting for
    /// a neighbour, or dropped. Its sender is notified as RFC 1812 5.2.7 and RFC 4443 require.
    #[inline]
    pub(super) fn forward(&mut self, transit: Transit) {
        let Some(header) = Header::of(&transit) else {
            return self.errors.output.io.drop_frame(transit.frame, IpDrop::Malformed);
        };
        match self.next_link(&header, &transit) {
            Ok(link) => {
                if link.hop.interface == transit.interface {
                    self.errors.redirect(transit.packet(), transit.interface, link.hop.neighbor);
                }
                self.pass_on(transit, link, &header);
            }
            Err(Obstacle { reason, problem }) => self.discard(transit, reason, problem),
        }
    }

    /// Drops a packet that screening refuses, and answers its sender. Answers are subject to the rate limit
    /// of ICMP errors.
    pub(super) fn refuse(&mut self, transit: Transit, reply: Reply) {
        let problem = match reply {
            Reply::Silence => None,
            Reply::Prohibited => Some(Problem::Prohibited),
            Reply::Unreachable(code) => Some(Problem::Refused { code }),
            Reply::Reset if is_tcp(transit.packet()) => {
                self.reset(&transit);
                None
            }
            Reply::Reset => Some(Problem::Prohibited),
        };
        self.discard(transit, IpDrop::Refused, problem);
    }

    /// Drops a packet, and notifies its sender of a problem.
    fn discard(&mut self, transit: Transit, reason: IpDrop, problem: Option<Problem>) {
        if let Some(problem) = problem {
            self.errors.report(transit.interface, Some(&transit.frame), problem);
        }
        self.errors.output.io.drop_frame(transit.frame, reason);
    }

    fn reset(&mut self, segment: &Transit) {
        if let Some(reset) = Reset::answering(segment)
            && self.errors.within_rate(&reset.to)
        {
            self.errors.output.send_reset(&reset);
        }
    }

    fn next_link(&self, header: &Header, transit: &Transit) -> Result<NextLink, Obstacle> {
        let Output { config, routing, .. } = self.errors.output;
        // First of all: the sender in the header may be forged, so no host is notified (RFC 1812 5.3.8).
        if config.reverse_path && !routing.leads_back(&header.source, transit.interface) {
            return Err(Obstacle::silent(IpDrop::ReversePath));
        }
        if header.hop_limit <= 1 {
            return Err(Obstacle::reported(IpDrop::HopLimit, Problem::HopLimit));
        }
        let hop = routing.hop_of(&header.destination, transit.frame()).map_err(Obstacle::from)?;
        let mtu = routing.interfaces().mtu(hop.interface);
        match header.may_cut_to {
            _ if header.len <= mtu => Ok(NextLink { hop, mtu }),
            Some(end) if end <= PACKET_MAX => Ok(NextLink { hop, mtu }),
            Some(_) => Err(Obstacle::silent(IpDrop::FragmentTooBig)),
            None => Err(Obstacle::reported(IpDrop::TooBig, Problem::TooBig { mtu: mtu as u32 })),
        }
    }

    fn pass_on(&mut self, transit: Transit, NextLink { hop, mtu }: NextLink, header: &Header) {
        let output = &mut self.errors.output;
        let Transit { interface, mut frame } = transit;
        let _ = frame.strip(ETHERNET);
        count_hop(frame.bytes_mut());
        let path = Path { interface: hop.interface, next: Next::Neighbor(hop.neighbor) };
        if header.len <= mtu {
            output.io.ledger.forwarded += 1;
            return output.hand_on(Waiting { frame, came_by: Some(interface) }, path, header.destination);
        }
        // A question to the neighbour may need a buffer between the first fragment and the last.
        let room = output.io.pool.available();
        let Some(mut cutter) = Cutter::new(frame.bytes(), mtu).filter(|cutter| cutter.left() < room) else {
            return output.io.drop_frame(frame, LinkDrop::NoBuffer);
        };
        output.io.ledger.forwarded += 1;
        output.io.ledger.originated += (cutter.left() as u64).saturating_sub(1);
        while let Some(fragment) = cutter.next(output.io.pool) {
            let fragment = Waiting { frame: fragment, came_by: Some(interface) };
            output.hand_on(fragment, path, header.destination);
        }
        output.io.pool.recycle(frame);
    }
}

/// Takes one off the TTL and corrects the header checksum (RFC 1624), or takes one off the hop limit.
pub(super) fn count_hop(packet: &mut [u8]) {
    match packet {
        [first, _, _, _, _, _, _, _, ttl, _, sum_high, sum_low, ..] if *first >> 4 == 4 => {
            *ttl = ttl.saturating_sub(1);
            // HC' = ~(~HC + ~m + m') (RFC 1624 3), where m' - m is -0x0100: adding ~m + m' adds 0xfeff.
            let sum = u32::from(!u16::from_be_bytes([*sum_high, *sum_low])) + 0xfeff;
            let folded = (sum & 0xffff) + (sum >> 16);
            [*sum_high, *sum_low] = (!(folded as u16)).to_be_bytes();
        }
        [_, _, _, _, _, _, _, hop_limit, ..] => *hop_limit = hop_limit.saturating_sub(1),
        _ => {}
    }
}
