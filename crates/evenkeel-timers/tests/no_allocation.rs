//! Nothing is allocated for an event once there were as many before; and how much memory it takes.

use allocation_counter::measure;
use evenkeel_timers::SoftTimers;

const MANY: u64 = 10_000;

/// Events come and go: some happen, some are cancelled, some are overdue.
fn go_on(events: &mut SoftTimers<u64>, from: u64) {
    let (mut happened, mut random) = (0, from);
    for now in from..from + MANY {
        let due = core::iter::from_fn(|| events.poll_event(now)).count();
        happened += due + core::iter::from_fn(|| events.poll_overdue(now)).count();
        while events.len() < MANY as usize {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let ticks = (random >> 33) % 20_000;
            events.schedule_soft_event(now, ticks, now);
            let event = events.schedule_with_deadline(now, ticks, ticks + 20, now);
            if now % 3 == 0 {
                assert_eq!(events.cancel(event), Some(now));
            }
        }
    }
    assert!(happened > 1_000, "{happened}");
}

#[test]
fn an_event_takes_no_memory_once_there_is_room() {
    let mut events = SoftTimers::new(1_000_000, 1_000);
    go_on(&mut events, 0);
    let allocated = measure(|| go_on(&mut events, MANY));
    assert_eq!(allocated.count_total, 0);
}

/// Of which 32 are the wheel's. Tables double or grow by an eighth, so at times there is more.
#[test]
fn an_event_takes_56_bytes_beside_who_waits_and_32_more_with_a_deadline() {
    const FULL: u64 = 1 << 16;
    let bytes = |latest: Option<u64>| {
        let mut events = SoftTimers::new(1_000_000, 1_000);
        let allocated = measure(|| {
            for now in 0..FULL {
                _ = match latest {
                    Some(latest) => events.schedule_with_deadline(0, now, now + latest, now),
                    None => events.schedule_soft_event(0, now, now),
                };
            }
        });
        allocated.bytes_current.unsigned_abs() / FULL
    };
    let (plain, with_deadline) = (bytes(None), bytes(Some(20)));
    assert!((56..=60).contains(&plain), "{plain}");
    assert!((88..=96).contains(&with_deadline), "{with_deadline}");
}
