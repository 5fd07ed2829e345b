//! Sleeping in microseconds on tokio's runtimes.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use core::time::Duration;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use evenkeel_soft_timers::{Call, Options, SoftClock, Waits};
use tokio::runtime::{Builder, Runtime};

fn current_thread(clock: &SoftClock) -> Runtime {
    clock.drive(&mut Builder::new_current_thread()).enable_all().build().unwrap()
}

/// Sleeps so often for 50 µs; how late it was each time, in nanoseconds.
async fn naps(clock: SoftClock, count: usize) -> Vec<u64> {
    let mut late = Vec::new();
    for _ in 0..count {
        let sleep = clock.sleep(Duration::from_micros(50));
        let until = sleep.until();
        sleep.await;
        late.push(clock.measure_time().checked_sub(until).expect("it never ends early"));
    }
    late
}

#[test]
fn a_sleep_of_microseconds_never_ends_early_nor_a_millisecond_late() {
    let clock = SoftClock::start(Options::default()).unwrap();
    let runtime = current_thread(&clock);
    let mut late = clock.block_on(&runtime, naps(clock.clone(), 1_000));
    late.sort_unstable();
    // Another program may have had the core half of the time; tokio's own sleep is a millisecond late always.
    assert!(late[late.len() / 4] < 500_000, "{:?}", &late[late.len() / 4..]);
    let counts = clock.counts();
    assert!(counts.triggered > 500, "trigger states took care of most: {counts:?}");
}

#[test]
fn tasks_beside_the_future_have_the_idle_loop_too() {
    let clock = SoftClock::start(Options::default()).unwrap();
    let runtime = current_thread(&clock);
    let napping = clock.clone();
    let late = clock.block_on(&runtime, async { tokio::spawn(naps(napping, 1_000)).await });
    assert_eq!(late.unwrap().len(), 1_000);
    let counts = clock.counts();
    assert!(counts.triggered > 500, "trigger states took care of most: {counts:?}");
}

#[test]
fn sleepers_on_a_runtime_of_two_threads() {
    let clock = SoftClock::start(Options::default()).unwrap();
    let mut builder = Builder::new_multi_thread();
    let runtime = clock.drive(builder.worker_threads(2)).build().unwrap();
    let napping: Vec<_> = (0..10).map(|_| runtime.spawn(naps(clock.clone(), 100))).collect();
    clock.block_on(&runtime, async {
        for naps in napping {
            assert_eq!(naps.await.unwrap().len(), 100);
        }
    });
    assert_eq!(clock.pending(), 0);
    assert!(clock.counts().triggered > 0, "{:?}", clock.counts());
}

/// Nobody waits for the kernel's timer, and nobody polls it.
fn start_without_backing() -> SoftClock {
    SoftClock::start(Options { waits: Waits::Program, ..Options::default() }).unwrap()
}

/// Returns a flag and an event that sets it.
fn flag() -> (Arc<AtomicBool>, Call) {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&flag);
    (flag, Call::new(move |_| raised.store(true, Ordering::Relaxed)))
}

#[test]
fn a_thread_that_parks_is_a_trigger_state() {
    let clock = start_without_backing();
    let runtime = current_thread(&clock);
    let (called, handler) = flag();
    clock.schedule_soft_event(1_000, handler);
    runtime.block_on(async {
        while !called.load(Ordering::Relaxed) {
            // The runtime parks its thread, which the sleeper then wakes.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    assert_eq!(clock.counts().triggered, 1);
}

#[test]
fn a_thread_that_is_woken_is_a_trigger_state_before_its_tasks_run() {
    let clock = start_without_backing();
    let runtime = current_thread(&clock);
    let (called, handler) = flag();
    runtime.block_on(async {
        clock.schedule_soft_event(10_000_000, handler);
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert!(called.load(Ordering::Relaxed));
    });
}

#[test]
fn an_idle_loop_that_sleeps_hears_of_an_event_that_another_thread_schedules() {
    for far_away in [None, Some(3_600_000_000_000)] {
        let clock = start_without_backing();
        let runtime = current_thread(&clock);
        far_away.into_iter().for_each(|ticks| _ = clock.schedule_soft_event(ticks, Call::new(|_| {})));
        let (called, handler) = flag();
        let other = clock.clone();
        let outside = runtime.spawn_blocking(move || {
            // It sleeps by then.
            std::thread::park_timeout(Duration::from_millis(20));
            other.schedule_soft_event(200_000, handler);
            (0..10_000).any(|_| {
                std::thread::park_timeout(Duration::from_millis(1));
                called.load(Ordering::Relaxed)
            })
        });
        assert!(clock.block_on(&runtime, outside).unwrap(), "only the idle loop was there for it");
    }
}

#[test]
fn a_runtime_that_waits_for_long_sleeps_and_is_woken_in_time_to_spin() {
    // It spins for the last tenth of a second.
    let options = Options { interrupt_clock_resolution: 10, ..Options::default() };
    let clock = SoftClock::start(options).unwrap();
    let runtime = current_thread(&clock);
    let mut sleep = Box::pin(clock.sleep(Duration::from_millis(300)));
    let until = sleep.until();
    let polls = Arc::new(Mutex::new(Vec::new()));
    let sleeper = {
        let (clock, polls) = (clock.clone(), Arc::clone(&polls));
        core::future::poll_fn(move |context| {
            polls.lock().unwrap().push(clock.measure_time());
            sleep.as_mut().poll(context)
        })
    };
    clock.block_on(&runtime, sleeper);
    let polls = polls.lock().unwrap();
    assert!(clock.measure_time() >= until);
    // Once to begin with, and then not before it is time, but many times then.
    assert!(polls[1] >= until - 100_000_000, "{} before", until - polls[1]);
    assert!(polls.len() > 3, "{}", polls.len());
    assert!(clock.counts().interrupts >= 1, "it was woken");
}

#[test]
fn other_tasks_and_sockets_are_looked_after_while_somebody_naps() {
    let clock = SoftClock::start(Options::default()).unwrap();
    let runtime = current_thread(&clock);
    clock.block_on(&runtime, async {
        let [here, there] = [0; 2].map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        let there_address = there.local_addr().unwrap();
        here.set_nonblocking(true).unwrap();
        there.set_nonblocking(true).unwrap();
        let there = tokio::net::UdpSocket::from_std(there).unwrap();
        let received = tokio::spawn(async move {
            for _ in 0..100 {
                there.recv(&mut [0; 8]).await.unwrap();
            }
        });
        for _ in 0..100 {
            clock.sleep(Duration::from_micros(20)).await;
            here.send_to(b"packet", there_address).unwrap();
        }
        received.await.unwrap();
    });
}

#[test]
fn a_sleeper_that_is_dropped_or_moved_to_another_task_leaves_nothing() {
    let clock = SoftClock::start(Options::default()).unwrap();
    let runtime = current_thread(&clock);
    clock.block_on(&runtime, async {
        let mut sleep = Box::pin(clock.sleep(Duration::from_millis(20)));
        tokio::select! {
            () = &mut sleep => panic!("it is early"),
            () = clock.sleep(Duration::from_micros(10)) => {}
        }
        assert!(clock.pending() >= 1);
        // Another task waits for it now.
        tokio::spawn(sleep).await.unwrap();
        let forgotten = clock.sleep(Duration::from_secs(3_600));
        let _ = tokio::time::timeout(Duration::from_millis(1), forgotten).await;
    });
    assert_eq!(clock.pending(), 0);
}
