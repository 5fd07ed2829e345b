//! Compares the cost of an event and of a descriptor's number with the kernel's own calls, in one run.
//!
//! `cargo bench -p evenkeel-ready --bench kernel` prints both tables; `-- 1000 100000` limits them to these
//! numbers of idle descriptors. The kernel has as many descriptors as their limit allows; the benchmark
//! raises the limit if it may.
//!
//! The kernel's descriptors are eventfds, ours are counters in this process: our calls make no system call.
//! So the tables compare what a program pays, not two implementations in the kernel. In each round
//! something arrives for a few descriptors, chosen at random; one call finds out for which; they are read.
//! The time of the call includes what the program must do before and after it: classic `select` overwrites
//! its sets, and `poll` leaves the search to its caller. Arrivals and reading are timed separately.
#![allow(clippy::print_stdout, reason = "it prints tables")]
#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]
#![allow(clippy::disallowed_methods, reason = "the kernel is measured by the clock")]

mod kernel;
mod numbers;
mod ours;

use std::time::{Duration, Instant};

/// Descriptors for which nothing arrives.
const IDLE: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
/// Those for which something does, in each round.
const HOT: [usize; 3] = [1, 10, 100];
/// Each contender has so much time, so many times, in turn with the others. The median counts.
const TURN: Duration = Duration::from_millis(40);
const TURNS: usize = 5;

/// A way to wait for events, with all descriptors open.
trait Contender {
    /// Makes something arrive for these descriptors.
    fn arrive(&mut self, hot: &[usize]);
    /// Finds the descriptors for which something has arrived, and appends them to `found`.
    fn call(&mut self, found: &mut Vec<usize>);
    /// Reads what arrived for these descriptors.
    fn read(&mut self, hot: &[usize]);
}

type Open = fn(usize) -> Result<Box<dyn Contender>, String>;

const CONTENDERS: [(&str, Open); 9] = [
    ("evenkeel event queue", ours::event_queue),
    ("evenkeel select, remembers", ours::select),
    ("evenkeel poll, remembers", ours::poll),
    ("evenkeel select, classic", ours::classic_select),
    ("kernel epoll", kernel::epoll),
    ("kernel epoll, edge", kernel::epoll_edge),
    ("kernel io_uring, multishot poll", kernel::io_uring),
    ("kernel select", kernel::select),
    ("kernel poll", kernel::poll),
];

/// Time for an event, in nanoseconds: of the call, and of arrival and reading.
type Times = (f64, f64);

fn main() {
    if std::env::args().any(|argument| ["--check", "--renew"].contains(&&*argument)) {
        println!("no figures are kept of times");
        return;
    }
    let only: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let idle: Vec<usize> = IDLE.into_iter().filter(|n| only.is_empty() || only.contains(n)).collect();
    println!("Nanoseconds for an event: the call that finds it / arrival and reading.\n");
    for idle in &idle {
        compare(*idle);
    }
    numbers::compare(&idle);
}

fn compare(idle: usize) {
    println!("{:<34}{}", format!("{idle} idle, hot:"), HOT.map(|hot| format!("{hot:>19}")).concat());
    // With 100 hot among 100 none would be idle.
    let all = idle + HOT[HOT.len() - 1];
    let mut times = CONTENDERS.map(|_| Ok(HOT.map(|_| Vec::new())));
    let mut random = Random(1);
    for _ in 0..TURNS {
        for ((_, open), times) in CONTENDERS.iter().zip(&mut times) {
            // One has its descriptors open at a time: the limit counts for all of them together.
            match (open(all), times.as_mut()) {
                (Ok(mut contender), Ok(times)) => {
                    for (hot, times) in HOT.into_iter().zip(times) {
                        times.push(turn(contender.as_mut(), hot, all, &mut random));
                    }
                }
                (Err(why), _) => *times = Err(why),
                (_, Err(_)) => {}
            }
        }
    }
    for ((name, _), times) in CONTENDERS.iter().zip(times) {
        match times {
            Ok(mut times) => println!("{name:<34}{}", times.each_mut().map(|times| cell(times)).concat()),
            Err(why) => println!("{name:<34}{why}"),
        }
    }
    println!();
}

fn cell(times: &mut [Times]) -> String {
    let mut median = |of: fn(&Times) -> f64| {
        times.sort_by(|a, b| of(a).total_cmp(&of(b)));
        of(&times[times.len() / 2])
    };
    format!("{:>11.0} /{:>6.0}", median(|times| times.0), median(|times| times.1))
}

/// Rounds until time is up.
fn turn(contender: &mut dyn Contender, hot: usize, all: usize, random: &mut Random) -> Times {
    let (mut calls, mut rest, mut events) = (Duration::ZERO, Duration::ZERO, 0);
    let (mut chosen, mut found) = (Vec::with_capacity(hot), Vec::with_capacity(hot));
    // One round to know what it knows in the long run.
    for round in 0.. {
        random.choose(hot, all, &mut chosen);
        let began = Instant::now();
        contender.arrive(&chosen);
        let arrived = Instant::now();
        found.clear();
        contender.call(&mut found);
        let called = Instant::now();
        contender.read(&chosen);
        let read = Instant::now();
        chosen.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, chosen, "it finds what has arrived, and nothing else");
        if round > 0 {
            calls += called - arrived;
            rest += (arrived - began) + (read - called);
            events += hot;
        }
        if events > 0 && calls + rest > TURN {
            break;
        }
    }
    let each = |time: Duration| time.as_secs_f64() * 1e9 / events as f64;
    (each(calls), each(rest))
}

/// Numbers that are the same in each run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    /// So many different ones.
    fn choose(&mut self, count: usize, end: usize, chosen: &mut Vec<usize>) {
        chosen.clear();
        while chosen.len() < count {
            let next = self.below(end);
            if !chosen.contains(&next) {
                chosen.push(next);
            }
        }
    }
}
