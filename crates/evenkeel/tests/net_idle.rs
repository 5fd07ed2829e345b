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

#[test]
fn hosts_that_are_gone_sleep_until_their_connections_have_ended() {
    let (client, server) = Net::pair().unwrap();
    let listener = TcpListener::bind(&server, "10.0.0.2:7").unwrap();
    let closed = TcpStream::connect(&client, "10.0.0.2:7").unwrap();
    let (open, _) = listener.accept().unwrap();
    // The client has ended its direction only, and its host has to wait for the other.
    drop((closed, client, listener, server));
    let (clock, before) = (Clock::start(), used());
    pause(Duration::from_millis(300));
    let (used, passed) = (used() - before, clock.now().as_secs_f64());
    assert!(used.as_secs_f64() < passed / 3.0, "{used:?} of {passed} s");
    drop(open);
}
