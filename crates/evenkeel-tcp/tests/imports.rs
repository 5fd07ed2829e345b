#[path = "../../evenkeel-core/tests/imports.rs"]
mod imports;
