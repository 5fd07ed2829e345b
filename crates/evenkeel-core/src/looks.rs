//! A count of accesses to the tables of channels and descriptors, for tests of what an operation costs.

/// Counts an access to a channel or a descriptor.
#[inline]
pub(crate) fn count_look() {
    #[cfg(test)]
    LOOKS.with(|looks| looks.set(looks.get() + 1));
}

#[cfg(test)]
thread_local! {
    /// The accesses of this thread.
    pub(crate) static LOOKS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}
