//! Large segments of TCP as the kernel hands them over and takes them: whole, behind a `struct
//! virtio_net_hdr`.

use core::num::NonZeroU16;

use evenkeel_core::frame::Frame;
use evenkeel_core::segmentation::Offload;

use crate::received::{VNET_BYTES, VNET_NEEDS_CSUM, offload_of, unfinished_of};

/// The bit of a header for a packet whose checksum an adaptor has verified.
const VNET_DATA_VALID: u8 = 2;
/// The bit of a kind of segmentation for packets that use explicit congestion notification.
const GSO_ECN: u8 = 0x80;
/// The offset of the checksum in a TCP header, in bytes.
const TCP_CHECKSUM: usize = 16;

/// The bit of a TCP header by which a sender reports that it has reduced its congestion window.
const CONGESTION_WINDOW_REDUCED: u8 = 0x80;

/// The largest packet that is left to segment (64 KiB of IP), with its Ethernet header and a tag.
pub(crate) const LARGE_BYTES: usize = (1 << 16) + 64;

/// Returns the size of segments if the packet behind `vnet` can stay whole: it is one large segment of TCP,
/// and its checksum is unfinished, so that nothing has left the machine, or was verified.
fn segment_bytes(vnet: &[u8; VNET_BYTES], packet: &[u8]) -> Option<NonZeroU16> {
    let offload = offload_of(vnet)?;
    let size = NonZeroU16::new(offload.size)?;
    let found = Offload::of_tcp(packet, size)?;
    let is_tcp = found.kind == offload.kind & !GSO_ECN;
    let is_trusted = match unfinished_of(vnet) {
        Some(unfinished) => {
            unfinished.start == usize::from(found.transport) && unfinished.offset == TCP_CHECKSUM
        }
        None => vnet[0] & VNET_DATA_VALID != 0,
    };
    // Its header is whole.
    let header =
        packet.get(usize::from(found.transport) + 12).map_or(0, |offset| usize::from(offset >> 4) * 4);
    let is_whole = header >= 20 && usize::from(found.transport) + header < packet.len();
    (is_tcp && is_trusted && is_whole).then_some(size)
}

/// Returns the room of a large buffer, all of which becomes its frame.
pub(crate) fn whole_buffer(frame: &mut Frame) -> &mut [u8] {
    let _ = frame.resize(frame.capacity());
    frame.bytes_mut()
}

/// Makes the packet of `len` bytes that was read into a large buffer its frame. Returns whether it lies there
/// as a whole and [can stay whole](segment_bytes), and records the size of segments if so.
pub(crate) fn stays_whole(frame: &mut Frame, vnet: &[u8; VNET_BYTES], len: usize) -> bool {
    if !frame.resize(len) {
        return false;
    }
    let size = segment_bytes(vnet, frame.bytes());
    size.is_some() && frame.set_segment_bytes(size)
}

/// Returns the header that goes in front of a frame: for a large segment, what the kernel is to do; else
/// nothing. `None` if the frame is to be cut and is no segment of TCP.
pub(crate) fn header_of(frame: &Frame) -> Option<[u8; VNET_BYTES]> {
    let Some(size) = frame.segment_bytes() else { return Some([0; VNET_BYTES]) };
    let bytes = frame.bytes();
    let Offload { kind, transport, .. } = Offload::of_tcp(bytes, size)?;
    let tcp = bytes.get(usize::from(transport)..)?;
    let header = u16::from(*tcp.get(12)? >> 4) * 4;
    let ecn = if *tcp.get(13)? & CONGESTION_WINDOW_REDUCED != 0 { GSO_ECN } else { 0 };
    let [h0, h1] = (transport + header).to_ne_bytes();
    let [s0, s1] = size.get().to_ne_bytes();
    let [t0, t1] = transport.to_ne_bytes();
    let [c0, c1] = (TCP_CHECKSUM as u16).to_ne_bytes();
    Some([VNET_NEEDS_CSUM, kind | ecn, h0, h1, s0, s1, t0, t1, c0, c1])
}

#[cfg(test)]
mod tests {
    use evenkeel_core::frame::Pool;

    use super::*;

    const KIND_TCP_V4: u8 = 1;
    const KIND_UDP: u8 = 5;
    const SIZE: u16 = 1000;

    /// Returns a segment of TCP over IPv4 with this many bytes of payload.
    fn packet(payload: usize) -> Vec<u8> {
        let mut frame = vec![7; 54 + payload];
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[16..18].copy_from_slice(&(40 + payload as u16).to_be_bytes());
        frame[23] = 6;
        frame[46..48].copy_from_slice(&[0x50, 0x10]);
        frame
    }

    /// Returns a large frame with this content, in segments of `SIZE` bytes.
    fn frame(bytes: &[u8]) -> Frame {
        let mut pool = Pool::with_limit(1_000);
        pool.grow_large(1).unwrap();
        let mut frame = pool.take_large().unwrap();
        assert!(frame.resize(bytes.len()) && frame.set_segment_bytes(NonZeroU16::new(SIZE)));
        frame.bytes_mut().copy_from_slice(bytes);
        frame
    }

    #[test]
    fn a_header_that_we_write_is_one_that_we_take() {
        let packet = packet(5000);
        let vnet = header_of(&frame(&packet)).unwrap();
        assert_eq!(segment_bytes(&vnet, &packet), NonZeroU16::new(SIZE));
        let mut large = frame(&packet);
        assert!(large.set_segment_bytes(None) && stays_whole(&mut large, &vnet, packet.len()));
        assert_eq!(large.segment_bytes(), NonZeroU16::new(SIZE));
        // Its window is said to be reduced: the kernel is told.
        let mut reduced = packet.clone();
        reduced[47] |= 0x80;
        assert_eq!(header_of(&frame(&reduced)).unwrap()[1], KIND_TCP_V4 | GSO_ECN);
        let mut pool = Pool::new(1);
        assert_eq!(header_of(&pool.take_copy(&packet[..60]).unwrap()), Some([0; VNET_BYTES]));
    }

    #[test]
    fn a_verified_checksum_is_as_good_as_an_unfinished_one_and_nothing_else_is() {
        let packet = packet(5000);
        let mut vnet = header_of(&frame(&packet)).unwrap();
        vnet[0] = VNET_DATA_VALID;
        assert_eq!(segment_bytes(&vnet, &packet), NonZeroU16::new(SIZE));
        vnet[0] = 0;
        assert_eq!(segment_bytes(&vnet, &packet), None);
    }

    #[test]
    fn headers_that_make_no_sense_let_nothing_pass_whole() {
        let packet = packet(5000);
        let good = header_of(&frame(&packet)).unwrap();
        // Kinds: none, UDP, unknown ones, IPv6. A size of zero. Another place of the checksum.
        let kinds = [0, KIND_UDP, 3, 4, 2, 0x7f, 0xff].map(|kind| (1, kind));
        let others = [(6, 33), (6, 0), (7, 1), (8, 15), (8, 0), (9, 1)];
        for (at, byte) in kinds.into_iter().chain(others) {
            let mut vnet = good;
            vnet[at] = byte;
            assert_eq!(segment_bytes(&vnet, &packet), None, "byte {at} is {byte}");
        }
        let mut vnet = good;
        (vnet[4], vnet[5]) = (0, 0);
        assert_eq!(segment_bytes(&vnet, &packet), None);
        // Any size else is that of segments, though larger than the packet: there is one then.
        (vnet[4], vnet[5]) = (0xff, 0xff);
        assert_eq!(segment_bytes(&vnet, &packet), NonZeroU16::new(u16::MAX));
        for len in 0..packet.len() {
            assert_eq!(segment_bytes(&good, &packet[..len]), None, "{len} bytes");
        }
        for (at, byte) in [(12, 9), (14, 0x65), (14, 0x4f), (16, 0), (23, 17), (46, 0x40), (46, 0x10)] {
            let mut wrong = packet.clone();
            wrong[at] = byte;
            assert_eq!(segment_bytes(&good, &wrong), None, "byte {at} is {byte}");
        }
        let mut headers_only = self::packet(0);
        assert_eq!(segment_bytes(&good, &headers_only), None);
        headers_only[46] = 0xf0;
        assert_eq!(segment_bytes(&good, &headers_only), None);
    }

    #[test]
    fn what_is_larger_than_a_large_buffer_does_not_stay_whole() {
        let vnet = header_of(&frame(&packet(5000))).unwrap();
        let mut large = frame(&[]);
        let room = whole_buffer(&mut large).len();
        assert!(!stays_whole(&mut large, &vnet, room + 1) && !stays_whole(&mut large, &vnet, usize::MAX));
        assert!(room >= LARGE_PACKET, "a packet of the kernel's usual size fits: {room}");
    }

    /// 45 segments of an MTU of 1500 bytes with timestamps, with one header.
    const LARGE_PACKET: usize = 14 + 52 + 45 * 1_448;
}
