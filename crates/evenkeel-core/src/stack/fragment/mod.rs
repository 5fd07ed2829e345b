//! Fragments: packets put together and cut, and the identifications that fragments bear.

pub(crate) mod cutter;
pub(crate) mod identification;
pub(crate) mod reassembly;
