//! Capture files in the formats pcap and pcapng: reading, playing and writing.
//!
//! Formats: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng. Reader and writer are our own, a few hundred
//! lines each: available libraries allocate for each frame, misread time stamps in powers of two, or have had
//! no release for years.

mod block;
mod dump;
pub mod encode;
mod files;
mod filter;
pub(crate) mod frames;
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
