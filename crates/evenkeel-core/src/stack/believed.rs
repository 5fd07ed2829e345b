//! A cache of the address pairs whose packets last passed the source checks.

use core::cell::Cell;

use crate::id::InterfaceId;

/// The address pair and the interface of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Between<T> {
    pub(super) addresses: T,
    pub(super) interface: InterfaceId,
    /// The generation of the stack's addresses. Any change of them raises it.
    pub(super) generation: u32,
}

/// The last address pair of each family whose packet passed the source checks and was for this host alone.
/// The next packet most likely has the same pair.
#[derive(Debug, Default)]
pub(super) struct Believed {
    v4: Cell<Option<Between<[u8; 8]>>>,
    v6: Cell<Option<Between<[u8; 32]>>>,
}

impl Believed {
    /// Returns whether an IPv4 packet has the cached address pair.
    #[inline(always)]
    pub(super) fn is_last_v4(&self, between: &Between<[u8; 8]>) -> bool {
        self.v4.get().as_ref() == Some(between)
    }

    /// Records an IPv4 address pair whose packet has passed the source checks.
    pub(super) fn note_v4(&self, between: Between<[u8; 8]>) {
        self.v4.set(Some(between));
    }

    /// Returns whether an IPv6 packet has the cached address pair.
    #[inline(always)]
    pub(super) fn is_last_v6(&self, between: &Between<[u8; 32]>) -> bool {
        self.v6.get().as_ref() == Some(between)
    }

    /// Records an IPv6 address pair whose packet has passed the source checks.
    pub(super) fn note_v6(&self, between: Between<[u8; 32]>) {
        self.v6.set(Some(between));
    }
}
