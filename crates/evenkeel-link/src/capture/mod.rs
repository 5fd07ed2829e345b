//! Capture files in the formats pcap and pcapng: reading, playing and writing.
//!
//! Formats: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng. Reader and writer are our own, a few hundred
//! lines each: available libraries allocate for each frame, misread time stamps in powers of two, or have had
//! no release for years.

mod dump;
pub mod encode;
mod files;
mod filter;
mod frames;
mod libpcap;
mod output;
mod read;
mod recorded;
mod replay;

pub use dump::Dump;
pub use encode::{Described, Direction, Packet, Totals, begin, packet, statistics};
pub use files::Row;
pub use filter::{Judge, PassedOver};
pub use frames::Frames;
pub use libpcap::{Expression, FilterError};
pub use output::{Output, Target, Writing, stdout_takes_a_capture};
pub use read::{CaptureError, Reader};
pub use recorded::{Recorded, Recording};
pub use replay::{Pace, Replay, ReplayOptions};

/// Block types of pcapng.
mod block {
    pub(super) const SECTION: u32 = 0x0a0d_0d0a;
    pub(super) const INTERFACE: u32 = 1;
    pub(super) const PACKET: u32 = 2;
    pub(super) const SIMPLE_PACKET: u32 = 3;
    pub(super) const STATISTICS: u32 = 5;
    pub(super) const ENHANCED_PACKET: u32 = 6;
    /// The byte-order magic: its own byte order in the file is the byte order of the section.
    pub(super) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
}
