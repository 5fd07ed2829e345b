//! The source-check cache: the address pairs whose packets last passed the source checks.

use core::cell::Cell;

use crate::id::InterfaceId;

/// The address pair of a packet, its interface, and the generation of the host's addresses. Any change of
/// addresses raises the generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddressPair<T> {
    pub(crate) addresses: T,
    pub(crate) interface: InterfaceId,
    pub(crate) generation: u32,
}

/// The last address pair of each family whose packet passed the source checks and was for this host alone.
/// The next packet most likely has the same pair.
#[derive(Debug, Default)]
pub(crate) struct SourceCheckCache {
    v4: Cell<Option<AddressPair<[u8; 8]>>>,
    v6: Cell<Option<AddressPair<[u8; 32]>>>,
}

impl SourceCheckCache {
    /// Returns whether an IPv4 packet has the cached address pair.
    #[inline(always)]
    pub(crate) fn is_last_v4(&self, pair: &AddressPair<[u8; 8]>) -> bool {
        self.v4.get().as_ref() == Some(pair)
    }

    /// Records an IPv4 address pair whose packet has passed the source checks.
    pub(crate) fn record_v4(&self, pair: AddressPair<[u8; 8]>) {
        self.v4.set(Some(pair));
    }

    /// Returns whether an IPv6 packet has the cached address pair.
    #[inline(always)]
    pub(crate) fn is_last_v6(&self, pair: &AddressPair<[u8; 32]>) -> bool {
        self.v6.get().as_ref() == Some(pair)
    }

    /// Records an IPv6 address pair whose packet has passed the source checks.
    pub(crate) fn record_v6(&self, pair: AddressPair<[u8; 32]>) {
        self.v6.set(Some(pair));
    }
}
