//! The sizes of frame buffers, and of the packets that fit into them.

use evenkeel_core::frame::{BUFFER_BYTES, HEADROOM};

/// The largest IP packet that a frame buffer can hold, with an Ethernet header and a VLAN tag in front, and a
/// byte to spare: a read that fills the buffer is taken to be cut off.
pub const MTU_MAX: usize = BUFFER_BYTES - HEADROOM - 14 - 4 - 1;

/// Returns the size of the pool's buffers ([`Pool::of_buffers`](evenkeel_core::frame::Pool::of_buffers)) that
/// hold the frames of a device with this MTU, as [`MTU_MAX`] says of the default.
#[must_use]
pub const fn buffer_bytes_for(mtu: usize) -> usize {
    if mtu <= MTU_MAX { BUFFER_BYTES } else { mtu - MTU_MAX + BUFFER_BYTES }
}
