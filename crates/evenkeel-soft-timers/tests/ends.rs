//! By itself in its process, as it counts threads.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use evenkeel_soft_timers::{Backing, Options, SoftClock};

fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "soft-timers").count()
}

/// For ten seconds at most.
fn wait_for(expected: usize) {
    let came = (0..10_000).any(|_| {
        std::thread::park_timeout(core::time::Duration::from_millis(1));
        threads() == expected
    });
    assert!(came, "{} threads", threads());
}

#[test]
fn with_the_last_clone_the_thread_goes() {
    for backing in [Backing::Deadline, Backing::Periodic] {
        let clock = SoftClock::<evenkeel_soft_timers::Call>::start(Options { backing, ..Options::default() });
        let clone = clock.unwrap().clone();
        wait_for(1);
        drop(clone);
        wait_for(0);
    }
}
