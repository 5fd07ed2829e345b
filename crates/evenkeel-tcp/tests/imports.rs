//! Tests that the files of this crate import one another without a cycle.

#[path = "../../evenkeel-core/tests/imports.rs"]
mod imports;
