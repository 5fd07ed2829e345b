//! Closes connections that have been idle for a minute, in virtual time: 100 000 connections, each with a
//! timer that every packet postpones.
//!
//! `cargo run -p evenkeel-timers --example idle_connections`
#![allow(clippy::print_stdout, reason = "it shows what it did")]

use evenkeel_base::SplitMix64;
use evenkeel_timers::{Duration, Instant, Timers};

const IDLE: Duration = Duration::from_secs(60);
const BETWEEN_PACKETS: Duration = Duration::from_millis(1);

fn main() {
    let report = serve(100_000, 200_000);
    println!("{} packets postponed a timer; {} connections were closed", report.packets, report.closed);
    println!("the loop woke {} times with nothing to do", report.needless);
}

/// The counters of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) packets: usize,
    pub(crate) closed: usize,
    /// Wake-ups at which neither a packet arrived nor a timer expired.
    pub(crate) needless: usize,
}

/// Serves `connections` until all of them are idle. A packet for one of the first half arrives every
/// millisecond, `packets` in all.
pub(crate) fn serve(connections: u32, packets: usize) -> Report {
    let (mut timers, mut random) = (Timers::new(), SplitMix64::new(1));
    let mut now = Instant::ZERO;
    let idle: Vec<_> = (0..connections).map(|connection| timers.register(connection)).collect();
    idle.iter().for_each(|timer| timers.set(timer, now + IDLE));

    let mut report = Report { packets: 0, closed: 0, needless: 0 };
    let mut next_packet = now + BETWEEN_PACKETS;
    while !timers.is_empty() {
        // An event loop would sleep here.
        now = next_packet.min(timers.next_deadline());
        let before = (report.packets, report.closed);
        while timers.poll_expired(now).is_some() {
            report.closed += 1;
        }
        if now == next_packet {
            let active = &idle[random.remainder(u64::from(connections / 2)) as usize];
            if timers.deadline(active) != Instant::NEVER {
                timers.set(active, now + IDLE);
            }
            report.packets += 1;
            next_packet = if report.packets < packets { now + BETWEEN_PACKETS } else { Instant::NEVER };
        }
        report.needless += usize::from(before == (report.packets, report.closed));
    }
    report
}
