//! Packets that screening refuses, and the notification of their senders.

use super::extension::upper_of;
use super::header::Header;
use super::icmp::offender;
use super::io::Io;
use super::problem::Problem;
use super::state::Stack;
use super::transit::Transit;
use crate::drop::IpDrop;
use crate::tcp::Checksum;
use crate::wire::{IpAddress, IpProtocol, TcpPacket};

/// The answer to the sender of a packet that screening refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// None.
    Silence,
    /// Communication is administratively prohibited (RFC 1812 5.2.7.1, RFC 4443 3.1).
    Prohibited,
    /// The destination is unreachable, with this code of the family's message.
    Unreachable(u8),
    /// A TCP reset; for a packet that is no TCP segment, as [`Reply::Prohibited`].
    Reset,
}

/// Bytes of the reset: a TCP header without options.
const RESET: usize = 20;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

impl Stack {
    /// Drops a packet that screening refuses, and answers its sender. Answers are subject to the rate limit
    /// of ICMP errors.
    pub fn refuse_transit(&mut self, transit: Transit, reply: Reply, io: &mut Io<'_>) {
        let problem = match reply {
            Reply::Silence => None,
            Reply::Prohibited => Some(Problem::Prohibited),
            Reply::Unreachable(code) => Some(Problem::Refused { code }),
            Reply::Reset => self.reset(&transit, io),
        };
        if let Some(problem) = problem {
            self.report(transit.interface, Some(&transit.frame), problem, io);
        }
        io.drop_frame(transit.frame, IpDrop::Refused);
    }

    /// Answers a TCP segment with a reset; returns what else to report if it is none.
    fn reset(&mut self, transit: &Transit, io: &mut Io<'_>) -> Option<Problem> {
        let packet = transit.packet();
        let is_v4 = packet.first()? >> 4 == 4;
        let protocol = if is_v4 { packet.get(9).copied() } else { upper_of(packet).map(|(next, _)| next) };
        if protocol != Some(IpProtocol::Tcp.into()) {
            return Some(Problem::Prohibited);
        }
        // Whatever may not be answered by an error may not be answered by a reset: fragments that are not the
        // first, packets from or to a group.
        let is_group = transit.frame().first()? & 1 == 1;
        let offender = offender(packet, false).filter(|_| !is_group)?;
        let at = if is_v4 { usize::from(packet.first()? & 15) * 4 } else { upper_of(packet)?.1 };
        let header = reset_of(packet.get(at..)?, &offender.source, &offender.destination)?;
        if self.within_rate(&offender.source, io) {
            self.send_reset(offender.destination, offender.source, header, io);
        }
        None
    }

    fn send_reset(&mut self, from: IpAddress, to: IpAddress, header: [u8; RESET], io: &mut Io<'_>) {
        let (Some((head, rest)), Ok(path)) = (header.split_first_chunk(), self.path_to(&to, None)) else {
            return;
        };
        let ip =
            Header { dont_fragment: true, ..Header::new(from, to, IpProtocol::Tcp, self.config.hop_limit) };
        // No buffer: the sender will ask again.
        let _ = self.send_packet(ip, path, RESET, head, core::iter::once(rest), io);
    }
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
    let sum = Checksum::pseudo(destination, source, IpProtocol::Tcp.into(), RESET).add(&header).finish();
    header.iter_mut().skip(16).zip(sum.to_be_bytes()).for_each(|(to, from)| *to = from);
    Some(header)
}
