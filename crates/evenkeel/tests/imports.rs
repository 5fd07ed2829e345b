//! The files of this crate import one another without a circle.

use evenkeel_skip::Sources;

#[test]
fn files_import_one_another_without_a_circle() {
    Sources::read(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).assert_no_circle(15, 40);
}
