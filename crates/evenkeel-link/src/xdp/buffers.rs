//! The number of chunks in which a frame may lie, and their size.

use rustix::net::xdp::SocketAddrXdpFlags;

/// Bytes that the kernel keeps free in front of a frame that it receives.
const HEADROOM: usize = 256;
/// Bytes around the largest IP packet of a frame: the Ethernet header, and a VLAN tag.
const AROUND_BYTES: usize = 18;
/// The most chunks of a frame.
pub(super) const PARTS_MAX: usize = 3;

/// The number of chunks in which a frame of a device may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Buffers {
    /// Each frame lies in one chunk of 2 KiB.
    One,
    /// A frame may lie in several chunks of 4 KiB, each with a descriptor (Linux 6.6).
    Several,
}

impl Buffers {
    /// Returns the kind of division for a device with this MTU. `None` if it is too large for either.
    pub(super) const fn for_mtu(mtu: usize) -> Option<Self> {
        match mtu {
            _ if mtu <= Self::One.mtu_max() => Some(Self::One),
            _ if mtu <= Self::Several.mtu_max() => Some(Self::Several),
            _ => None,
        }
    }

    /// Returns the largest MTU.
    pub(super) const fn mtu_max(self) -> usize {
        self.parts_max() * (self.chunk_bytes() - HEADROOM) - AROUND_BYTES
    }

    /// Returns the bytes of the longest frame of a device with this MTU.
    pub(super) const fn longest(mtu: usize) -> usize {
        mtu + AROUND_BYTES
    }

    /// Returns the most chunks of a frame.
    pub(super) const fn parts_max(self) -> usize {
        match self {
            Self::One => 1,
            Self::Several => PARTS_MAX,
        }
    }

    /// Returns the bytes of a chunk, a power of two. No chunk may be larger than a page.
    pub(super) const fn chunk_bytes(self) -> usize {
        match self {
            Self::One => 2048,
            Self::Several => 4096,
        }
    }

    /// Returns the flags with which the first socket of a queue is bound.
    pub(super) const fn flags(self) -> SocketAddrXdpFlags {
        match self {
            Self::One => SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP,
            Self::Several => SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP.union(SocketAddrXdpFlags::XDP_USE_SG),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_the_largest_mtu_fit() {
        let limits = [(1774, Some(Buffers::One)), (1775, Some(Buffers::Several))];
        let others = [(9000, Some(Buffers::Several)), (11_502, Some(Buffers::Several)), (11_503, None)];
        for (mtu, buffers) in limits.into_iter().chain(others) {
            assert_eq!(Buffers::for_mtu(mtu), buffers, "{mtu}");
        }
    }
}
