//! Tests that the examples work as described.

#[path = "../examples/device_memory.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod device_memory;

#[test]
fn a_few_chunks_carry_many_packets() {
    assert_eq!(device_memory::run(100), 100_000);
}
