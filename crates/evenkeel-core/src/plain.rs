//! Frames that need nothing special: nearly all of them.

/// A frame that holds one whole IP packet without options or extension headers, with the header of UDP or TCP
/// in it: where what input needs is to be found.
///
/// Neither the destination nor the checksums have been checked. A packet that is not plain takes the long
/// way, which handles everything that IP allows. A plain packet that is refused on the short way takes the
/// long one, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plain {
    /// The offset of the UDP or TCP header in the frame, in bytes.
    transport: u8,
    protocol: u8,
    /// The offset of the packet's end in the frame, in bytes.
    end: u16,
}

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const TCP: u8 = 6;
const UDP: u8 = 17;

impl Plain {
    #[inline]
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        let head: &[u8; ETHERNET + IPV4] = frame.first_chunk()?;
        let (transport, protocol, end) = match head[12..15] {
            [0x08, 0x00, 0x45] => {
                // Neither more fragments to come nor an offset.
                if u16::from_be_bytes([head[20], head[21]]) & 0x3fff != 0 {
                    return None;
                }
                let len = usize::from(u16::from_be_bytes([head[16], head[17]]));
                (ETHERNET + IPV4, head[23], ETHERNET + len)
            }
            [0x86, 0xdd, version] if version >> 4 == 6 => {
                let len = usize::from(u16::from_be_bytes([head[18], head[19]]));
                (ETHERNET + IPV6, head[20], ETHERNET + IPV6 + len)
            }
            _ => return None,
        };
        let header = match protocol {
            UDP => 8,
            TCP => 20,
            _ => return None,
        };
        let is_whole = end <= frame.len() && transport + header <= end;
        is_whole.then_some(Self { transport: transport as u8, protocol, end: end as u16 })
    }

    /// Parses a frame that is known to carry a plain datagram of UDP over IPv4, checking only its length.
    #[inline(always)]
    pub(crate) fn of_udp_v4(frame: &[u8]) -> Option<Self> {
        const TRANSPORT: usize = ETHERNET + IPV4;
        let head: &[u8; TRANSPORT + 8] = frame.first_chunk()?;
        let len = usize::from(u16::from_be_bytes([head[16], head[17]]));
        // One comparison for both: a packet too short for its headers wraps around.
        let is_whole = len.wrapping_sub(IPV4 + 8) <= frame.len() - head.len();
        let end = (ETHERNET + len) as u16;
        is_whole.then_some(Self { transport: TRANSPORT as u8, protocol: UDP, end })
    }

    pub(crate) const fn is_v4(self) -> bool {
        self.transport as usize == ETHERNET + IPV4
    }

    pub(crate) const fn is_udp(self) -> bool {
        self.protocol == UDP
    }

    /// Returns the offset of the UDP or TCP header in the frame, in bytes.
    pub(crate) const fn transport(self) -> usize {
        self.transport as usize
    }

    /// Returns the offset of the IP packet's end in the frame, in bytes.
    pub(crate) const fn end(self) -> usize {
        self.end as usize
    }
}
