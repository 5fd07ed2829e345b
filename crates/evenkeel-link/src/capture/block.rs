//! Block types of pcapng.

pub(super) const SECTION: u32 = 0x0a0d_0d0a;
pub(super) const INTERFACE: u32 = 1;
pub(super) const PACKET: u32 = 2;
pub(super) const SIMPLE_PACKET: u32 = 3;
pub(super) const STATISTICS: u32 = 5;
pub(super) const ENHANCED_PACKET: u32 = 6;
/// The byte-order magic: its own byte order in the file is the byte order of the section.
pub(super) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
