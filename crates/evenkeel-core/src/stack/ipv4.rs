//! Headers of received IPv4 packets (RFC 791, RFC 1122 3.2).

use super::fragment::reassembly::Key;
use super::header::PACKET_MAX;
use crate::drop::IpDrop;
use crate::tcp::{Checksum, Ecn};
use crate::wire::{IpAddress, Ipv4Packet};

/// The fields of an IPv4 header that input needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) source: IpAddress,
    pub(super) destination: IpAddress,
    pub(super) protocol: u8,
    pub(super) header_len: usize,
    pub(super) total_len: usize,
    pub(super) identification: u16,
    pub(super) offset: usize,
    pub(super) more: bool,
    pub(super) ecn: Ecn,
}

impl Header {
    /// Parses the header of a packet, whose checksum must be right.
    ///
    /// # Errors
    /// Returns the reason to drop the packet.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, IpDrop> {
        let packet = Ipv4Packet::new_checked(bytes).map_err(|_| IpDrop::Malformed)?;
        if packet.version() != 4 {
            return Err(IpDrop::Malformed);
        }
        let header_len = usize::from(packet.header_len());
        let header = bytes.get(..header_len).ok_or(IpDrop::Malformed)?;
        if Checksum::default().add(header).finish() != 0 {
            return Err(IpDrop::Checksum);
        }
        check_options(header.get(20..).unwrap_or_default())?;
        Ok(Self {
            source: IpAddress::Ipv4(packet.src_addr()),
            destination: IpAddress::Ipv4(packet.dst_addr()),
            protocol: packet.next_header().into(),
            header_len,
            total_len: usize::from(packet.total_len()),
            identification: packet.ident(),
            offset: usize::from(packet.frag_offset()),
            more: packet.more_frags(),
            ecn: Ecn::from_bits(packet.ecn()),
        })
    }

    /// Returns whether the packet is no fragment.
    pub(super) const fn is_whole(&self) -> bool {
        self.offset == 0 && !self.more
    }

    /// Returns the key of the packet that this one is a fragment of.
    pub(super) fn key(&self) -> Key {
        Key {
            source: self.source,
            destination: self.destination,
            identification: self.identification.into(),
            protocol: self.protocol,
        }
    }

    /// Checks the length of the payload of a fragment.
    ///
    /// # Errors
    /// Returns the reason to drop the fragment.
    pub(super) const fn check_fragment(&self, len: usize) -> Result<(), IpDrop> {
        if len == 0 || (self.more && !len.is_multiple_of(8)) {
            Err(IpDrop::Malformed)
        } else if self.header_len + self.offset + len > PACKET_MAX {
            Err(IpDrop::FragmentTooBig)
        } else {
            Ok(())
        }
    }
}

/// Checks that options can be skipped. Source routes are refused (RFC 7126 4.3, 4.4).
fn check_options(mut options: &[u8]) -> Result<(), IpDrop> {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    while let [kind, rest @ ..] = options {
        options = match *kind {
            END => return Ok(()),
            NOTHING => rest,
            LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE => return Err(IpDrop::Malformed),
            _ => {
                let len = rest.first().copied().map(usize::from).filter(|len| *len >= 2);
                len.and_then(|len| options.get(len..)).ok_or(IpDrop::Malformed)?
            }
        };
    }
    Ok(())
}
