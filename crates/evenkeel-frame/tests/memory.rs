//! Tests of allocation: counters in the allocator show what a pool allocates, and when.
#![cfg(not(miri))]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use allocation_counter::measure;
use evenkeel_frame::{BUFFER_BYTES, Pool};

#[test]
fn memory_goes_back_to_the_allocator() {
    let mut pool = Pool::with_limit(10_000);
    pool.grow(100).unwrap();
    let grown = measure(|| (0..50).for_each(|_| pool.grow(128).unwrap()));
    assert!(grown.bytes_current >= (50 * 128 * BUFFER_BYTES) as i64, "{grown:?}");
    let shrunk = measure(|| (0..50).for_each(|_| pool.shrink(128)));
    let lists = 64 * 10_000;
    assert!(shrunk.bytes_current <= lists - (45 * 128 * BUFFER_BYTES) as i64, "{shrunk:?}");
}

#[test]
fn nothing_is_allocated_for_a_frame() {
    let mut pool = Pool::with_limit(100);
    (0..4).for_each(|_| pool.grow(25).unwrap());
    let mut held = Vec::with_capacity(100);
    let allocated = measure(|| {
        for round in 0..100 {
            held.extend(core::iter::from_fn(|| pool.take()).take(100 - round));
            held.drain(..held.len() / 2).for_each(drop);
            held.drain(..).for_each(|frame| pool.recycle(frame));
        }
        // Spare ones and freed regions, too.
        held.extend(core::iter::from_fn(|| pool.take()));
        pool.shrink(75);
        held.drain(..).for_each(|frame| pool.recycle(frame));
    });
    assert_eq!(allocated.count_total, 0, "{allocated:?}");
    assert_eq!((pool.available(), pool.capacity()), (25, 25));
    assert!(pool.allocated() < 100, "regions were freed");
}
