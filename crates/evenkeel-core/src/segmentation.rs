//! Large segments: packets of TCP (or UDP) that are still to be cut into segments (TSO; USO for UDP).
//!
//! Over a veth, over a TAP, or between containers, the kernel hands over packets of at most 64 KiB with the
//! size of their segments, and takes such packets. A segment has the headers of the packet, with its own
//! lengths, sequence number, identification and checksums.
//!
//! A large segment of TCP stays whole if a frame can hold it. The frame has the size of segments
//! ([`Frame::segment_bytes`]) and an unfinished checksum. What has to see segments as they are on the wire
//! has the packet cut here.

use core::num::NonZeroU16;

use crate::frame::{Frame, Pool};

/// The ability of an interface to send large segments of TCP, which it cuts and whose checksums it completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segmentation {
    /// The largest IP packet that it takes for that, in bytes.
    pub most: usize,
}

/// The largest IP packet of a large segment: that of IPv4, as far as a large buffer has room for it behind
/// the Ethernet header.
pub const LARGE_PACKET_MAX: usize = 65_408 - crate::frame::HEADROOM - ETHERNET;

/// Headers of IP and TCP, at their longest here: of IPv6 without extensions, and of TCP.
const HEADERS_MAX: usize = 40 + 60;

impl Segmentation {
    /// Returns the payload in bytes that a large segment has room for, whatever its headers are.
    pub(crate) const fn payload_max(self) -> usize {
        self.most.saturating_sub(HEADERS_MAX)
    }
}

/// The requested segmentation in `struct virtio_net_hdr` (virtio 1.2, 5.1.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offload {
    /// The kind of packet: `VIRTIO_NET_HDR_GSO_*`.
    pub kind: u8,
    /// Bytes of payload in each segment.
    pub size: u16,
    /// The offset of the transport header in the frame, in bytes.
    pub transport: u16,
}

impl Offload {
    /// Returns the segmentation of a frame with exactly one large segment of TCP, in segments of `size` bytes
    /// of payload, over IPv4 or over IPv6 without extension headers. `None` if it is anything else.
    #[must_use]
    pub fn of_tcp(frame: &[u8], size: NonZeroU16) -> Option<Self> {
        const TCP: u8 = 6;
        let (kind, transport, protocol, len) = match *frame.get(12..15)? {
            [0x08, 0x00, first] if first >> 4 == 4 => {
                let transport = ETHERNET + usize::from(first & 15) * 4;
                (TCP_V4, transport, frame.get(23)?, ETHERNET + usize::from(get(frame, ETHERNET + 2)?))
            }
            [0x86, 0xdd, first] if first >> 4 == 6 => {
                let len = ETHERNET + 40 + usize::from(get(frame, ETHERNET + 4)?);
                (TCP_V6, ETHERNET + 40, frame.get(20)?, len)
            }
            _ => return None,
        };
        let is_segment = *protocol == TCP && len == frame.len();
        is_segment.then_some(Self { kind, size: size.get(), transport: transport as u16 })
    }

    /// Returns whether this asks for segments of TCP.
    #[must_use]
    pub const fn is_tcp(self) -> bool {
        matches!(self.kind & !ECN, TCP_V4 | TCP_V6)
    }
}

/// Returns the length of `segment`, from the TCP header on, as it is on the wire: if it is a large one, the
/// length of each of the segments that it is to be cut into.
#[inline]
pub(crate) fn len_of_segment(segment: &[u8], segment_bytes: Option<NonZeroU16>) -> usize {
    let Some(size) = segment_bytes else { return segment.len() };
    let header = segment.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
    segment.len().min(header + usize::from(size.get()))
}

/// Returns the length of `packet`, from the IP header on, as it is on the wire: if it is a large segment, the
/// length of each of the packets that it is to be cut into.
#[inline]
pub(crate) fn len_of_packet(packet: &[u8], segment_bytes: Option<NonZeroU16>) -> usize {
    if segment_bytes.is_none() {
        return packet.len();
    }
    let ip = match packet.first() {
        Some(first) if first >> 4 == 4 => usize::from(first & 15) * 4,
        _ => 40,
    };
    let ip = ip.min(packet.len());
    ip + len_of_segment(packet.get(ip..).unwrap_or_default(), segment_bytes)
}

const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP: u8 = 5;
/// The sender uses explicit congestion notification.
const ECN: u8 = 0x80;

const ETHERNET: usize = 14;
const FIN_AND_PUSH: u8 = 0x09;
const CONGESTION_WINDOW_REDUCED: u8 = 0x80;

/// The progress of cutting a packet into segments.
#[derive(Debug, Default, Clone, Copy)]
pub struct Cuts {
    /// Bytes of the whole packet, from the Ethernet header on.
    len: usize,
    /// Bytes of all headers.
    headers: usize,
    transport: usize,
    size: usize,
    /// Bytes of payload in segments so far.
    done: usize,
    number: u16,
    is_udp: bool,
    is_v6: bool,
}

impl Cuts {
    /// Returns the cuts of a packet, from its Ethernet header on. `None` if it cannot be cut so.
    #[must_use]
    pub fn of(packet: &[u8], offload: Offload) -> Option<Self> {
        let Offload { kind, size, transport } = offload;
        let transport = usize::from(transport);
        let (is_udp, is_v6) = match (kind & !ECN, packet.get(ETHERNET)? >> 4) {
            (TCP_V4, 4) => (false, false),
            (TCP_V6, 6) => (false, true),
            (UDP, 4) => (true, false),
            (UDP, 6) => (true, true),
            _ => return None,
        };
        let least = if is_v6 { ETHERNET + 40 } else { ETHERNET + 20 };
        let header = if is_udp { 8 } else { usize::from(*packet.get(transport + 12)? >> 4) * 4 };
        let headers = transport + header;
        let is_whole = transport >= least && headers < packet.len() && (is_udp || header >= 20);
        let size = usize::from(size);
        let cuts = Self { len: packet.len(), headers, transport, size, done: 0, number: 0, is_udp, is_v6 };
        (is_whole && size > 0).then_some(cuts)
    }

    /// Returns the cuts of the large segment in `frame`. `None` if there is none.
    pub(crate) fn of_large(frame: &Frame) -> Option<Self> {
        let offload = Offload::of_tcp(frame.bytes(), frame.segment_bytes()?)?;
        Self::of(frame.bytes(), offload)
    }

    /// Returns a copy of the next segment of `frame`, of which these are the cuts. `None` if there is none,
    /// or no buffer.
    pub(crate) fn copy_next(&mut self, frame: &Frame, pool: &mut Pool) -> Option<Frame> {
        let len = self.next_len()?;
        let mut segment = pool.take()?;
        if segment.resize(len) && self.next(frame.bytes(), segment.bytes_mut()) {
            return Some(segment);
        }
        pool.recycle(segment);
        None
    }

    /// Returns the length of the next segment; `None` if there is none.
    #[must_use]
    pub fn next_len(&self) -> Option<usize> {
        let left = self.len.checked_sub(self.headers + self.done).filter(|left| *left > 0)?;
        Some(self.headers + left.min(self.size))
    }

    /// Writes the next segment of `packet`, of which these are the cuts, to `to`, which has its length.
    /// Returns false if there is none.
    #[must_use]
    pub fn next(&mut self, packet: &[u8], to: &mut [u8]) -> bool {
        let payload = self.headers + self.done;
        let filled = (|| {
            let (head, body) = to.split_at_mut_checked(self.headers)?;
            head.copy_from_slice(packet.get(..self.headers)?);
            body.copy_from_slice(packet.get(payload..payload + body.len())?);
            let is_last = payload + body.len() == self.len;
            self.adapt(to, is_last)
        })();
        self.done += to.len().saturating_sub(self.headers);
        self.number = self.number.wrapping_add(1);
        filled.is_some()
    }

    /// Adapts the headers to one segment.
    fn adapt(&self, segment: &mut [u8], is_last: bool) -> Option<()> {
        let (ip, transport_len) = (segment.len() - ETHERNET, segment.len() - self.transport);
        if self.is_v6 {
            put(segment, ETHERNET + 4, u16::try_from(ip.checked_sub(40)?).ok()?)?;
        } else {
            put(segment, ETHERNET + 2, u16::try_from(ip).ok()?)?;
            let identification = get(segment, ETHERNET + 4)?.wrapping_add(self.number);
            put(segment, ETHERNET + 4, identification)?;
            put(segment, ETHERNET + 10, 0)?;
            let sum = !folded_sum(segment.get(ETHERNET..self.transport)?);
            put(segment, ETHERNET + 10, sum)?;
        }
        let checksum = if self.is_udp {
            put(segment, self.transport + 4, u16::try_from(transport_len).ok()?)?;
            self.transport + 6
        } else {
            let at = self.transport + 4;
            let sequence =
                u32::from_be_bytes(*segment.get(at..)?.first_chunk()?).wrapping_add(self.done as u32);
            *segment.get_mut(at..)?.first_chunk_mut()? = sequence.to_be_bytes();
            let flags = segment.get_mut(self.transport + 13)?;
            if !is_last {
                *flags &= !FIN_AND_PUSH;
            }
            if self.number > 0 {
                *flags &= !CONGESTION_WINDOW_REDUCED;
            }
            self.transport + 16
        };
        put(segment, checksum, 0)?;
        let sum = !self.sum(segment, transport_len)?;
        // In UDP zero means no checksum, and all ones is the same number.
        put(segment, checksum, if sum == 0 && self.is_udp { 0xffff } else { sum })
    }

    /// Returns the sum over the pseudo-header and all bytes from the transport header on.
    fn sum(&self, segment: &[u8], transport_len: usize) -> Option<u16> {
        let addresses = if self.is_v6 { ETHERNET + 8..ETHERNET + 40 } else { ETHERNET + 12..ETHERNET + 20 };
        let protocol: u32 = if self.is_udp { 17 } else { 6 };
        let parts = [
            u32::from(folded_sum(segment.get(addresses)?)),
            protocol,
            u32::try_from(transport_len).ok()?,
            u32::from(folded_sum(segment.get(self.transport..)?)),
        ];
        let mut sum: u32 = parts.iter().sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        Some(sum as u16)
    }
}

fn get(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn put(bytes: &mut [u8], at: usize, value: u16) -> Option<()> {
    *bytes.get_mut(at..)?.first_chunk_mut()? = value.to_be_bytes();
    Some(())
}

/// Returns the ones' complement sum of 16-bit words. An odd byte at the end is padded with zero.
#[must_use]
pub fn folded_sum(bytes: &[u8]) -> u16 {
    let (words, odd) = bytes.as_chunks::<4>();
    let words: u64 = words.iter().map(|&word| u64::from(u32::from_be_bytes(word))).sum();
    let mut rest = [0; 4];
    for (to, &from) in rest.iter_mut().zip(odd) {
        *to = from;
    }
    // 2^32 sums of 32 bits fit, and a frame has fewer. Sums of 32-bit words fold to the sum of their halves.
    let mut sum = words + u64::from(u32::from_be_bytes(rest));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{IpAddress, Ipv4Packet, Ipv6Packet, TcpPacket, UdpPacket};

    /// Returns a packet as the kernel hands it over, with unfinished checksums.
    fn packet(is_v6: bool, is_udp: bool, payload: usize) -> (Vec<u8>, Offload) {
        let mut bytes = vec![2; 12];
        bytes.extend(if is_v6 { [0x86, 0xdd] } else { [8, 0] });
        let protocol = if is_udp { 17 } else { 6 };
        if is_v6 {
            bytes.extend([0x60, 0, 0, 0, 0xff, 0xff, protocol, 64]);
            bytes.extend([0xfd; 32]);
        } else {
            bytes.extend([
                0x45, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
            ]);
        }
        let transport = bytes.len() as u16;
        if is_udp {
            bytes.extend([0, 1, 0, 2, 0, 0, 0xab, 0xcd]);
        } else {
            // The sequence number is near its end; the flags are FIN, PSH, ACK and CWR; there are twelve
            // bytes of options.
            bytes
                .extend([0, 1, 0, 2, 0xff, 0xff, 0xff, 0x00, 0, 0, 0, 0, 0x80, 0x99, 1, 0, 0xab, 0xcd, 0, 0]);
            bytes.extend([1; 12]);
        }
        bytes.extend((0..payload).map(|n| n as u8));
        let kind = match (is_udp, is_v6) {
            (true, _) => UDP,
            (false, true) => TCP_V6 | ECN,
            (false, false) => TCP_V4,
        };
        (bytes, Offload { kind, size: 1000, transport })
    }

    fn segments(packet: &[u8], offload: Offload) -> Vec<Vec<u8>> {
        let mut cuts = Cuts::of(packet, offload).unwrap();
        let mut all = Vec::new();
        while let Some(len) = cuts.next_len() {
            let mut segment = vec![0; len];
            assert!(cuts.next(packet, &mut segment));
            all.push(segment);
        }
        all
    }

    #[test]
    fn segments_have_right_lengths_checksums_and_payload() {
        for (is_v6, is_udp) in [(false, false), (false, true), (true, false), (true, true)] {
            let (whole, offload) = packet(is_v6, is_udp, 2500);
            let all = segments(&whole, offload);
            assert_eq!(all.len(), 3);
            let mut payload = Vec::new();
            for (number, segment) in all.iter().enumerate() {
                let ip = &segment[ETHERNET..];
                let (source, destination, above): (IpAddress, IpAddress, &[u8]) = if is_v6 {
                    let packet = Ipv6Packet::new_checked(ip).unwrap();
                    (
                        packet.src_addr().into(),
                        packet.dst_addr().into(),
                        &ip[40..40 + usize::from(packet.payload_len())],
                    )
                } else {
                    let packet = Ipv4Packet::new_checked(ip).unwrap();
                    assert!(packet.verify_checksum());
                    assert_eq!(packet.ident(), 0xffff_u16.wrapping_add(number as u16));
                    (
                        packet.src_addr().into(),
                        packet.dst_addr().into(),
                        &ip[20..usize::from(packet.total_len())],
                    )
                };
                assert_eq!(above.len() + usize::from(offload.transport), segment.len());
                if is_udp {
                    let packet = UdpPacket::new_checked(above).unwrap();
                    assert!(packet.verify_checksum(&source, &destination));
                    payload.extend_from_slice(packet.payload());
                } else {
                    let packet = TcpPacket::new_checked(above).unwrap();
                    assert!(packet.verify_checksum(&source, &destination));
                    assert_eq!(
                        packet.seq_number().0 as u32,
                        0xffff_ff00_u32.wrapping_add(number as u32 * 1000)
                    );
                    assert_eq!((packet.fin(), packet.psh()), (number == 2, number == 2));
                    assert_eq!(packet.cwr(), number == 0);
                    payload.extend_from_slice(packet.payload());
                }
            }
            assert_eq!(payload, whole[whole.len() - 2500..]);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let (whole, offload) = packet(false, false, 2000);
        for wrong in [
            Offload { kind: 3, ..offload },
            Offload { kind: TCP_V6, ..offload },
            Offload { size: 0, ..offload },
            Offload { transport: 10, ..offload },
            Offload { transport: u16::MAX, ..offload },
        ] {
            assert!(Cuts::of(&whole, wrong).is_none(), "{wrong:?}");
        }
        for len in 0..usize::from(offload.transport) + 32 {
            assert!(Cuts::of(&whole[..len], offload).is_none(), "{len}");
        }
        let mut bad_offset = whole.clone();
        bad_offset[usize::from(offload.transport) + 12] = 0x10;
        assert!(Cuts::of(&bad_offset, offload).is_none());
    }
}
