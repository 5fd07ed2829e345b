//! Answers to senders of packets that screening refuses, and the TCP resets among them.

use super::offender::offender;
use crate::stack::extension::upper_of;
use crate::stack::transit::Transit;
use crate::tcp::Checksum;
use crate::wire::{IpAddress, IpProtocol, TcpPacket};

/// The answer to the sender of a packet that screening refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// No answer.
    Silence,
    /// Communication is administratively prohibited (RFC 1812 5.2.7.1, RFC 4443 3.1).
    Prohibited,
    /// The destination is unreachable, with this code of the family's message.
    Unreachable(u8),
    /// A TCP reset; for a packet that is no TCP segment, as [`Reply::Prohibited`].
    Reset,
}

/// Bytes of the reset: a TCP header without options.
pub(crate) const RESET: usize = 20;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// A TCP reset that answers a segment in transit.
#[derive(Debug)]
pub(crate) struct Reset {
    pub(crate) from: IpAddress,
    pub(crate) to: IpAddress,
    pub(crate) header: [u8; RESET],
}

impl Reset {
    /// Returns the reset that answers a segment. A packet that may not be answered by an error may not be
    /// answered by a reset either: a fragment that is not the first, a packet from or to a group.
    pub(crate) fn answering(segment: &Transit) -> Option<Self> {
        let packet = segment.packet();
        let is_group = segment.frame().first()? & 1 == 1;
        let offender = offender(packet, false).filter(|_| !is_group)?;
        let (_, at) = upper(packet)?;
        let header = reset_of(packet.get(at..)?, &offender.source, &offender.destination)?;
        Some(Self { from: offender.destination, to: offender.source, header })
    }
}

/// Returns whether a packet is a TCP segment, or the first part of one.
pub(crate) fn is_tcp(packet: &[u8]) -> bool {
    upper(packet).is_some_and(|(protocol, _)| protocol == u8::from(IpProtocol::Tcp))
}

/// Returns the upper-layer protocol of a packet, and the offset of its header.
fn upper(packet: &[u8]) -> Option<(u8, usize)> {
    let first = *packet.first()?;
    if first >> 4 == 4 { Some((*packet.get(9)?, usize::from(first & 15) * 4)) } else { upper_of(packet) }
}

/// Returns the header of the reset that answers a segment (RFC 9293 3.10.7.1). `None` for a segment that is
/// not answered: a reset, or one whose checksum is wrong or that is cut off.
fn reset_of(segment: &[u8], source: &IpAddress, destination: &IpAddress) -> Option<[u8; RESET]> {
    let tcp = TcpPacket::new_checked(segment).ok()?;
    if tcp.rst() || !tcp.verify_checksum(source, destination) {
        return None;
    }
    let flags = *segment.get(13)?;
    let len = segment.len() - usize::from(tcp.header_len());
    let (seq, ack, answer) = if tcp.ack() {
        (u32::from_be_bytes(*segment.get(8..)?.first_chunk()?), 0, RST)
    } else {
        let seq = u32::from_be_bytes(*segment.get(4..)?.first_chunk()?);
        let phantom = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        (0, seq.wrapping_add(len as u32).wrapping_add(phantom), RST | ACK)
    };
    let mut header = [0; RESET];
    let mut put = |at: usize, bytes: &[u8]| {
        header.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
    };
    put(0, &tcp.dst_port().to_be_bytes());
    put(2, &tcp.src_port().to_be_bytes());
    put(4, &seq.to_be_bytes());
    put(8, &ack.to_be_bytes());
    put(12, &[(RESET as u8 / 4) << 4, answer]);
    let sum = Checksum::pseudo(*destination, *source, IpProtocol::Tcp.into(), RESET).add(&header).finish();
    header.iter_mut().skip(16).zip(sum.to_be_bytes()).for_each(|(to, from)| *to = from);
    Some(header)
}
