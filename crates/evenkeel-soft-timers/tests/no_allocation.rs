//! Nothing is allocated for an event.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use allocation_counter::measure;
use evenkeel_soft_timers::{Call, Options, SoftClock, Waits};

#[test]
fn an_event_takes_no_memory_once_there_is_room() {
    // Handlers are called on this thread, on which allocations are counted.
    let clock = SoftClock::start(Options { waits: Waits::Program, ..Options::default() }).unwrap();
    let called = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&called);
    let handler = Call::again(move |clock: &SoftClock, again| {
        count.fetch_add(1, Ordering::Relaxed);
        clock.schedule_with_deadline(100, 200, again);
    });
    let other = Call::new(|_| {});
    (0..8).for_each(|_| _ = clock.schedule_soft_event(0, handler.clone()));
    let go_on = || {
        for ticks in 0..1_000 {
            let event = clock.schedule_with_deadline(ticks, 2 * ticks, other.clone());
            clock.trigger();
            if ticks % 2 == 0 {
                clock.cancel(event);
            }
        }
        let until = called.load(Ordering::Relaxed) + 1_000;
        while called.load(Ordering::Relaxed) < until {
            clock.trigger();
            clock.interrupt();
        }
        clock.pending()
    };
    // As many as are pending at most.
    (0..2_000).for_each(|_| _ = clock.schedule_with_deadline(0, 0, other.clone()));
    go_on();
    let allocated = measure(|| _ = go_on());
    assert_eq!(allocated.count_total, 0);
}
