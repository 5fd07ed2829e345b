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

/// The last ones that were found to be believable, and for us alone, of either family: the next packet is most
/// likely between the same.
#[derive(Debug, Default)]
pub(super) struct Believed {
    v4: Cell<Option<Between<[u8; 8]>>>,
    v6: Cell<Option<Between<[u8; 32]>>>,
}

impl Believed {
    /// Whether a packet between them is believable; finds it out if they are not the last ones.
    #[inline(always)]
    pub(super) fn v4(&self, between: Between<[u8; 8]>, find_out: impl FnOnce() -> bool) -> bool {
        is_believed(&self.v4, between, find_out)
    }

    /// The same of IPv6.
    #[inline(always)]
    pub(super) fn v6(&self, between: Between<[u8; 32]>, find_out: impl FnOnce() -> bool) -> bool {
        is_believed(&self.v6, between, find_out)
    }
}

#[inline(always)]
fn is_believed<T: Copy + PartialEq>(
    last: &Cell<Option<Between<T>>>,
    between: Between<T>,
    find_out: impl FnOnce() -> bool,
) -> bool {
    let believed = last.get() == Some(between) || find_out();
    if believed {
        last.set(Some(between));
    }
    believed
}
