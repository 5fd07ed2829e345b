//! A program that uses three crates of evenkeel by their packages: a client and an echo server over a pipe in
//! memory. Readiness tells the server which connections have data, and timers tell both ends when to look
//! at their deadlines.

use std::collections::VecDeque;
use std::time::Duration;

use evenkeel_ready::{Allocation, Event, Interest, Kinds, Readiness, Trigger, Wait};
use evenkeel_tcp::endpoint::{ListenAt, Packet};
use evenkeel_tcp::wire::{IpAddress, IpEndpoint};
use evenkeel_tcp::{Endpoint, EndpointConfig, FourTuple, ListenerConfig, Secret};
use evenkeel_timers::{Instant, Timers};

fn main() {
    println!("TODO");
}
