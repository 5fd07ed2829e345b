//! Packet buffers: frames, and the memory in which they lie.
//!
//! A *region* is memory that is cut into chunks of equal size. A [`Frame`] owns one chunk: no other code
//! reaches its bytes, on whatever thread it is. A dropped frame returns to the owner of its region by itself.
//! There are two kinds of owner:
//!
//! - A [`Pool`] allocates regions. It is the usual source of frames, with a limit on its memory.
//! - A [`Region`] lies over memory of a driver, such as a packet ring that the kernel maps ([`Memory`]).
//!
//! A region lives as long as any of its frames, even after its owner is gone.
//!
//! ```
//! use evenkeel_frame::{HEADROOM, Pool};
//!
//! let mut pool = Pool::new(64);
//! let mut frame = pool.take_copy(b"payload").expect("a new pool has frames");
//!
//! // A header goes in front, into the headroom.
//! assert!(frame.prepend(4));
//! frame.bytes_mut()[..4].copy_from_slice(b"head");
//! assert_eq!(frame.bytes(), b"headpayload");
//! assert!(!frame.prepend(HEADROOM), "no more than the headroom");
//!
//! drop(frame);
//! assert_eq!(pool.available(), 64);
//! ```
//!
//! Nothing is allocated for a frame once its pool has grown. A frame is two words, and taking it or giving it
//! back touches no reference count.
//!
//! The crate is `no_std` with `alloc`, and has neither features nor dependencies.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod frame;
mod list;
mod memory;
mod pool;
mod region;
mod ring;

pub use frame::{BUFFER_BYTES, Frame, HEADROOM, LinkType, Metadata};
pub use memory::Memory;
pub use pool::{Pool, PoolLimit};
pub use region::Region;
pub use ring::{RingReceiver, RingSender, ring};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
