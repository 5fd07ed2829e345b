//! The hash by which tables and devices know connections.

use super::secret::Secret;
use super::tuple::FourTuple;

/// The hash of a four-tuple under a secret: the same for all tables that have the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TupleHash(u32);

impl TupleHash {
    pub(super) fn new(secret: &Secret, tuple: &FourTuple) -> Self {
        Self(secret.table_hash(tuple) as u32)
    }

    pub(super) const fn of_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    /// As `hashbrown` wants it: from the lowest bits on it takes the bucket, from the highest what tells
    /// entries of neighbouring buckets apart.
    pub(super) const fn spread(self) -> u64 {
        self.0 as u64 | (self.0 as u64) << 32
    }
}
