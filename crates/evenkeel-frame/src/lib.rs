//! Frames, and the memory they lie in.
//!
//! A *region* is memory cut into chunks of equal size, and a [`Frame`] is one of these chunks: it alone
//! reaches the chunk's bytes, on whatever thread it is. The region lives as long as any of its frames. A
//! dropped frame goes home by itself, to whoever the region belongs to: a [`Pool`], which allocates its
//! regions, or a driver that has a [`Region`] over memory of its own, such as a mapped packet ring.
//!
//! | looking for | file |
//! | --- | --- |
//! | a frame; how it comes home; when a region is freed | `frame.rs` |
//! | the list of those that have come home | `list.rs` |
//! | memory that regions lie over | `memory.rs` |
//! | the frame buffers of a host | `pool.rs` |
//! | a driver's own memory | `region.rs` |
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod frame;
mod list;
mod memory;
mod pool;
mod region;

pub use frame::{BUFFER_BYTES, Frame, HEADROOM, LinkType, Metadata};
pub use memory::Memory;
pub use pool::{Pool, PoolLimit};
pub use region::Region;
