//! Between whom packets were last found believable.

use core::cell::Cell;

use crate::id::InterfaceId;

/// Between whom a packet is, as its header says it, and where it came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Between<T> {
    pub(super) addresses: T,
    pub(super) interface: InterfaceId,
    /// Of the stack: any change of addresses raises it.
    pub(super) generation: u32,
}

/// The last ones that were found to be believable, and for us alone, of either family: the next packet is
/// most likely between the same.
#[derive(Debug, Default)]
pub(super) struct Believed {
    v4: Cell<Option<Between<[u8; 8]>>>,
    v6: Cell<Option<Between<[u8; 32]>>>,
}

impl Believed {
    /// Whether a packet is between the last ones.
    #[inline(always)]
    pub(super) fn is_last_v4(&self, between: &Between<[u8; 8]>) -> bool {
        self.v4.get().as_ref() == Some(between)
    }

    /// They were found to be believable.
    pub(super) fn note_v4(&self, between: Between<[u8; 8]>) {
        self.v4.set(Some(between));
    }

    /// The same of IPv6.
    #[inline(always)]
    pub(super) fn is_last_v6(&self, between: &Between<[u8; 32]>) -> bool {
        self.v6.get().as_ref() == Some(between)
    }

    /// The same of IPv6.
    pub(super) fn note_v6(&self, between: Between<[u8; 32]>) {
        self.v6.set(Some(between));
    }
}
