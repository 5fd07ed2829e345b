//! A host without work uses no processor. The test is alone in its program, whose time it measures.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use evenkeel::net::{Net, TcpListener, TcpStream};
use evenkeel::raw::time::Clock;
use evenkeel_testing::pause;
use rustix::time::{ClockId, clock_gettime};

fn used() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap()
}

/// Returns the number of entries of a folder about this process, such as its threads or descriptors.
fn count(folder: &str) -> usize {
    std::fs::read_dir(format!("/proc/self/{folder}")).unwrap().count()
}

/// Returns a stream whose host has no other handle. Its peer has gone, and has ended its direction only, so
/// that the peer's host waits for the other.
fn half_closed() -> TcpStream {
    let (client, server) = Net::pair().unwrap();
    let listener = TcpListener::bind(&server, "10.0.0.2:7").unwrap();
    let _closed = TcpStream::connect(&client, "10.0.0.2:7").unwrap();
    listener.accept().unwrap().0
}

#[test]
fn hosts_that_are_gone_sleep_until_their_connections_have_ended() {
    let has_now = || (count("task"), count("fd"));
    let had = has_now();
    let open: Vec<_> = (0..20).map(|_| half_closed()).collect();
    let (clock, before) = (Clock::start(), used());
    pause(Duration::from_millis(300));
    let (used, passed) = (used() - before, clock.now().as_secs_f64());
    assert!(used.as_secs_f64() < passed / 3.0, "{used:?} of {passed} s");
    drop(open);
    // Much sooner than after the longest time for which a host lingers, a minute.
    let has_ended = (0..1_500).any(|_| {
        pause(Duration::from_millis(20));
        has_now() == had
    });
    assert!(has_ended, "threads and descriptors: {:?}, before {had:?}", has_now());
}
