//! Here, too, files import one another without a circle.

#[path = "../../evenkeel-core/tests/imports.rs"]
mod imports;
