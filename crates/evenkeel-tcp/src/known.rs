//! Copies that devices keep of which ends the host has state for.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;

use super::tuple_hash::TupleHash;

/// A device's record of the pairs of ends between which the host keeps a connection, also a half-open one or
/// one in TIME-WAIT. Segments between others are for a listener at most.
///
/// Ends are recorded by their hash, the lower half of SipHash-1-3 of both under the host's
/// [`Secret`](crate::Secret). Several pairs may have one hash, and a pair may be recorded more than once.
pub trait KnownEnds: fmt::Debug + Send + Sync {
    /// Adds one pair of ends that has this hash.
    fn add(&self, hash: u32);

    /// Removes one pair of ends that has this hash.
    fn remove(&self, hash: u32);
}

/// The records that follow a table. A copy of the table has none.
#[derive(Default)]
pub(super) struct Records(Vec<Weak<dyn KnownEnds>>);

impl Records {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a record, and forgets those whose devices are gone. Returns whether the record is a new one.
    pub(super) fn follow(&mut self, record: &Arc<dyn KnownEnds>) -> bool {
        self.0.retain(|other| other.strong_count() > 0);
        let is_new = !self.0.iter().any(|other| core::ptr::addr_eq(other.as_ptr(), Arc::as_ptr(record)));
        if is_new {
            self.0.push(Arc::downgrade(record));
        }
        is_new
    }

    /// Returns the records whose devices are there.
    pub(super) fn iter(&self) -> impl Iterator<Item = Arc<dyn KnownEnds>> {
        self.0.iter().filter_map(Weak::upgrade)
    }

    #[inline]
    pub(super) fn add(&self, hash: TupleHash) {
        self.iter().for_each(|record| record.add(hash.bits()));
    }

    #[inline]
    pub(super) fn remove(&self, hash: TupleHash) {
        self.iter().for_each(|record| record.remove(hash.bits()));
    }
}

impl Clone for Records {
    fn clone(&self) -> Self {
        Self::new()
    }
}
