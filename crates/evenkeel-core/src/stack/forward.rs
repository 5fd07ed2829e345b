//! Packets for somebody else: which may be forwarded, and forwarding them (RFC 1812 5, RFC 8200 3).
//!
//! It happens in two steps, so that whoever screens packets can stand between them. [`Stack::input`] looks at
//! the packet alone and gives a [`Transit`]; [`Stack::forward`] finds its way and sends it there, in the
//! frame it came in.

use super::address::{Cast, is_link_local, is_reserved};
use super::fragment::Cutter;
use super::header::{ETHERNET, PACKET_MAX};
use super::hop::Hop;
use super::io::Io;
use super::neighbor::Waiting;
use super::path::{Next, Path};
use super::problem::Problem;
use super::random::Random;
use super::received::Received;
use super::route::Via;
use super::state::Stack;
use super::transit::Transit;
use crate::demux::flow_hash;
use crate::drop::{IpDrop, LinkDrop};
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::wire::{IpAddress, Ipv4Packet, Ipv6Packet};

/// The fields of an IP header that forwarding needs.
#[derive(Debug, Clone, Copy)]
struct Header {
    source: IpAddress,
    destination: IpAddress,
    hop_limit: u8,
    /// Of the whole packet.
    len: usize,
    /// The payload's end, in bytes, within the unfragmented packet. `None` if the packet must not be
    /// fragmented.
    may_cut_to: Option<usize>,
}

impl Header {
    fn of(packet: &[u8]) -> Option<Self> {
        let len = packet.len();
        if packet.first()? >> 4 == 4 {
            let packet = Ipv4Packet::new_checked(packet).ok()?;
            let end = usize::from(packet.frag_offset()) + len - usize::from(packet.header_len());
            Some(Self {
                source: packet.src_addr().into(),
                destination: packet.dst_addr().into(),
                hop_limit: packet.hop_limit(),
                len,
                may_cut_to: (!packet.dont_frag()).then_some(end),
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

/// The next hop of a packet, and the MTU of the way there.
#[derive(Debug, Clone, Copy)]
struct Way {
    hop: Hop,
    mtu: usize,
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

impl Stack {
    /// Checks by its addresses whether a packet that is not for this host may be forwarded.
    ///
    /// The check refuses packets that came by link-layer broadcast or multicast (RFC 1812 5.3.4). It also
    /// refuses multicasts (there is no multicast routing) and broadcasts, directed ones included (RFC
    /// 2644), addresses that no host can have (RFC 1812 5.3.7), and those that are valid on one link only
    /// (RFC 3927 7, RFC 4291 2.5.6).
    pub(super) fn admit_transit(
        &self,
        source: &IpAddress,
        destination: &IpAddress,
        link: Cast,
    ) -> Result<(), IpDrop> {
        if !self.config.forwarding || link != Cast::Unicast {
            return Err(IpDrop::NotLocal);
        }
        if destination.is_multicast() || self.is_broadcast(destination) {
            Err(IpDrop::NotLocal)
        } else if is_reserved(source) || is_reserved(destination) {
            Err(IpDrop::Martian)
        } else if is_link_local(source) || is_link_local(destination) {
            Err(IpDrop::Scope)
        } else {
            Ok(())
        }
    }

    pub(super) fn transit(interface: InterfaceId, frame: Frame, len: usize) -> Received {
        Received::Transit(Transit::new(interface, frame, len))
    }

    /// Forwards a packet: TTL, route, MTU, neighbour. It ends in [`Io::out`], waiting for a neighbour, or
    /// dropped. Its sender is notified as RFC 1812 5.2.7 and RFC 4443 require.
    pub fn forward(&mut self, transit: Transit, io: &mut Io<'_>) {
        let Some(header) = Header::of(transit.packet()) else {
            return io.drop_frame(transit.frame, IpDrop::Malformed);
        };
        match self.way_of(&header, &transit) {
            Ok(way) => {
                if way.hop.interface == transit.interface {
                    self.redirect(transit.packet(), transit.interface, way.hop.neighbor, io);
                }
                self.pass_on(transit, way, &header, io);
            }
            Err(Obstacle { reason, problem }) => {
                if let Some(problem) = problem {
                    self.report(transit.interface, Some(&transit.frame), problem, io);
                }
                io.drop_frame(transit.frame, reason);
            }
        }
    }

    fn way_of(&self, header: &Header, transit: &Transit) -> Result<Way, Obstacle> {
        // First of all: nobody is to be told of a packet that may not be his (RFC 1812 5.3.8).
        if self.config.reverse_path && !self.leads_back(&header.source, transit.interface) {
            return Err(Obstacle::silent(IpDrop::ReversePath));
        }
        if header.hop_limit <= 1 {
            return Err(Obstacle::reported(IpDrop::HopLimit, Problem::HopLimit));
        }
        let hop = self.hop_of(&header.destination, transit.frame())?;
        let mtu = self.addresses_of(hop.interface).map_or(0, |own| own.mtu);
        match header.may_cut_to {
            _ if header.len <= mtu => Ok(Way { hop, mtu }),
            Some(end) if end <= PACKET_MAX => Ok(Way { hop, mtu }),
            Some(_) => Err(Obstacle::silent(IpDrop::FragmentTooBig)),
            None => Err(Obstacle::reported(IpDrop::TooBig, Problem::TooBig { mtu: mtu as u32 })),
        }
    }

    /// Returns whether packets to `source` would, or with several next hops could, leave by the interface
    /// that its packet came by (RFC 3704 2.2, strict).
    pub(super) fn leads_back(&self, source: &IpAddress, came_by: InterfaceId) -> bool {
        self.routes.lookup(source).is_some_and(|via| via.leads_by(came_by))
    }

    /// Returns whether a route leads to `address` that does not discard what takes it.
    pub(super) fn leads_anywhere(&self, address: &IpAddress) -> bool {
        self.routes.lookup(address).is_some_and(|via| via.hops().next().is_some())
    }

    fn hop_of(&self, destination: &IpAddress, frame: &[u8]) -> Result<Hop, Obstacle> {
        let via = self.routes.lookup(destination);
        let via = via.ok_or(Obstacle::reported(IpDrop::NoRoute, Problem::NoRoute))?;
        let flow = || (Random::new(self.flows ^ u64::from(flow_hash(frame))).next() >> 32) as u32;
        via.hop(destination, None, flow).ok_or(match via {
            Via::Prohibit => Obstacle::reported(IpDrop::RouteDiscards, Problem::Prohibited),
            Via::Unreachable => Obstacle::reported(IpDrop::RouteDiscards, Problem::RouteRejects),
            _ => Obstacle::silent(IpDrop::RouteDiscards),
        })
    }

    fn pass_on(&mut self, transit: Transit, way: Way, header: &Header, io: &mut Io<'_>) {
        let Transit { interface, mut frame } = transit;
        let _ = frame.strip(ETHERNET);
        count_hop(frame.bytes_mut());
        let path = Path { interface: way.hop.interface, next: Next::Neighbor(way.hop.neighbor) };
        if header.len <= way.mtu {
            io.ledger.forwarded += 1;
            return self.hand_on(Waiting { frame, came_by: Some(interface) }, path, header.destination, io);
        }
        // A question to the neighbour may need a buffer between the first fragment and the last.
        let room = io.pool.available();
        let Some(mut cutter) = Cutter::new(frame.bytes(), way.mtu).filter(|cutter| cutter.left() < room)
        else {
            return io.drop_frame(frame, LinkDrop::NoBuffer);
        };
        io.ledger.forwarded += 1;
        io.ledger.originated += (cutter.left() as u64).saturating_sub(1);
        while let Some(fragment) = cutter.next(io.pool) {
            let fragment = Waiting { frame: fragment, came_by: Some(interface) };
            self.hand_on(fragment, path, header.destination, io);
        }
        io.pool.recycle(frame);
    }
}

/// Takes one hop off the TTL, and off the header checksum what that changes (RFC 1624), or off the hop limit.
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
