//! Headers of received IPv6 packets (RFC 8200).

use super::extension::{FIXED, Refusal, has_all_headers};
use super::fragment::reassembly::Key;
use super::header::PACKET_MAX;
use super::icmp::problem::Problem;
use crate::drop::IpDrop;
use crate::tcp::Ecn;
use crate::wire::{IpAddress, Ipv6Packet};

/// The fields of the fixed header that input needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) source: IpAddress,
    pub(super) destination: IpAddress,
    pub(super) next: u8,
    pub(super) hop_limit: u8,
    pub(super) ecn: Ecn,
    pub(super) total_len: usize,
}

impl Header {
    /// Parses the fixed header of a packet. Returns `None` if it is malformed.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let packet = Ipv6Packet::new_checked(bytes).ok().filter(|packet| packet.version() == 6)?;
        Some(Self {
            source: IpAddress::Ipv6(packet.src_addr()),
            destination: IpAddress::Ipv6(packet.dst_addr()),
            next: packet.next_header().into(),
            hop_limit: packet.hop_limit(),
            ecn: Ecn::from_bits(packet.traffic_class()),
            total_len: packet.total_len(),
        })
    }
}

/// The fields of a received fragment header.
#[derive(Debug, Clone, Copy)]
pub(super) struct FragmentHeader {
    pub(super) next: u8,
    pub(super) offset: usize,
    pub(super) more: bool,
    identification: u32,
}

/// The reason why a fragment is dropped, and the problem that its sender is notified of.
#[derive(Debug, Clone, Copy)]
pub(super) struct BadFragment {
    pub(super) refusal: Refusal,
    pub(super) reason: IpDrop,
}

impl FragmentHeader {
    pub(super) const LEN: usize = 8;

    /// Parses the fragment header at `at` of a packet. Returns `None` if it is cut off.
    pub(super) fn parse(packet: &[u8], at: usize) -> Option<Self> {
        let &[next, _, high, low, a, b, c, d] = packet.get(at..)?.first_chunk()?;
        let field = u16::from_be_bytes([high, low]);
        let (offset, more) = (usize::from(field & !7), field & 1 == 1);
        Some(Self { next, offset, more, identification: u32::from_be_bytes([a, b, c, d]) })
    }

    /// Returns whether the fragment is a packet of its own, whatever else has its identification (RFC 6946
    /// 4).
    pub(super) const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }

    /// Returns the key of the packet that this one is a fragment of.
    pub(super) const fn key(&self, header: &Header) -> Key {
        let Header { source, destination, .. } = *header;
        Key { source, destination, identification: self.identification, protocol: 0 }
    }

    /// Checks the fragment of a packet whose fragment header is at `at`.
    ///
    /// # Errors
    /// Returns why the fragment is dropped.
    pub(super) fn check(&self, packet: &[u8], at: usize) -> Result<(), BadFragment> {
        let malformed = |refusal| Err(BadFragment { refusal, reason: IpDrop::Malformed });
        let len = packet.len() - (at + Self::LEN);
        if len == 0 {
            malformed(Refusal::Silent)
        } else if self.more && !len.is_multiple_of(8) {
            malformed(Refusal::Report(Problem::Header { pointer: 4 }))
        } else if self.offset == 0 && !has_all_headers(packet, self.next, at) {
            malformed(Refusal::Report(Problem::Incomplete))
        } else if (at - FIXED) + self.offset + len > PACKET_MAX {
            let problem = Problem::Header { pointer: at as u32 + 2 };
            Err(BadFragment { refusal: Refusal::Report(problem), reason: IpDrop::FragmentTooBig })
        } else {
            Ok(())
        }
    }
}
