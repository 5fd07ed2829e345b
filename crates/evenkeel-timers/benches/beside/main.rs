//! A benchmark of the cost of an event with soft timers, compared with other timer libraries in one run.
//!
//! `cargo bench -p evenkeel-timers --bench beside` prints the tables; `-- 1000` only beside so many pending.
//!
//! Each contender has as many events pending, and the same numbers from the same generator. They take turns,
//! so that a noisy minute hits all of them; the median of the turns counts, and what it is relative to ours
//! says more than the nanoseconds. Ticks are what each counts by: for tokio's wheel milliseconds, whose clock
//! stands still but when it is set, which is not timed.
//!
//! A *check* asks whether something is due when nothing is. *Happens* takes what is due, up to 64 events at
//! once, and schedules each again. Most of them leave something for later of what is cancelled: the heap of
//! the standard library cannot do it at all, so it is marked there, and thrown away when its time comes. So
//! *both* is what it takes in the long run: for each that happens another one was scheduled and cancelled.
//! Where one is pending, each that happens is timed by itself, and reading the clock, some 40 ns, is in
//! everybody's time.
#![allow(clippy::print_stdout, reason = "it prints tables")]
#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures time")]

mod contenders;
#[path = "../random/mod.rs"]
mod random;

use std::hint::black_box;
use std::time::Instant;

use contenders::CONTENDERS;
use random::Random;

const PENDING: [usize; 3] = [1, 1_000, 1_000_000];
/// The number of operations that are timed together.
const BATCH: usize = 64;
/// Ticks from one event to the next, on average.
const GAP: u64 = 20;
/// Batches each time that it is a contender's turn, and turns.
const BATCHES: usize = 200;
const TURNS: usize = 9;

/// Somebody's timers. Who waits is known by a number, of which there is one for each event at a time.
trait Timers {
    fn schedule(&mut self, now: u64, ticks: u64, who: u32);
    fn cancel(&mut self, who: u32);
    /// Returns whether an event is due.
    fn check(&mut self, now: u64) -> bool;
    /// Before it is asked what is due then.
    fn set_clock(&mut self, now: u64) {
        let _ = now;
    }
    /// Takes what is due.
    fn happens(&mut self, now: u64, happened: &mut Vec<u32>);
}

/// Nanoseconds for one of each.
type Times = [f64; 5];
const NAMES: [&str; 5] = ["check", "schedule", "cancel", "happens", "both"];
const EACH: [usize; 5] = [0, 1, 2, 3, 4];

fn main() {
    if std::env::args().any(|argument| ["--check", "--renew"].contains(&&*argument)) {
        println!("no figures are kept of times");
        return;
    }
    let only: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    println!("Nanoseconds for an event, and how many times ours that is.\n");
    for pending in PENDING.into_iter().filter(|n| only.is_empty() || only.contains(n)) {
        compare(pending);
    }
}

fn compare(pending: usize) {
    println!("{:<36}{}", format!("{pending} pending"), NAMES.map(|name| format!("{name:>17}")).concat());
    let mut runs: Vec<_> = CONTENDERS.iter().map(|(_, make)| Run::new(make(), pending)).collect();
    let mut times = vec![Vec::new(); runs.len()];
    for _ in 0..TURNS {
        for (run, times) in runs.iter_mut().zip(&mut times) {
            times.push(run.turn());
        }
    }
    let medians: Vec<Times> = times.iter().map(|times| median(times)).collect();
    for ((name, _), times) in CONTENDERS.iter().zip(&medians) {
        let cells = EACH.map(|n| format!("{:>9.1} {:>6.2}x", times[n], times[n] / medians[0][n]));
        println!("{name:<36}{}", cells.concat());
    }
    println!();
}

fn median(turns: &[Times]) -> Times {
    EACH.map(|n| {
        let mut times: Vec<_> = turns.iter().map(|times| times[n]).collect();
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

struct Run {
    timers: Box<dyn Timers>,
    pending: usize,
    random: Random,
    now: u64,
    happened: Vec<u32>,
}

impl Run {
    fn new(mut timers: Box<dyn Timers>, pending: usize) -> Self {
        let mut random = Random(1);
        for who in 0..pending {
            timers.schedule(0, 1 + random.below(2 * GAP * pending as u64), who as u32);
        }
        Self { timers, pending, random, now: 0, happened: Vec::new() }
    }

    fn ticks(&mut self) -> u64 {
        1 + self.random.below(2 * GAP * self.pending as u64)
    }

    fn turn(&mut self) -> Times {
        let mut sums = Sums::default();
        for _ in 0..BATCHES {
            self.check(&mut sums);
            self.happens(&mut sums, 3);
        }
        for _ in 0..BATCHES {
            self.schedule_and_cancel(&mut sums);
            // As many as were cancelled.
            let happened = sums.events[4];
            while sums.events[4] - happened < BATCH {
                self.happens(&mut sums, 4);
            }
        }
        sums.nanos[4] += sums.nanos[1] + sums.nanos[2];
        EACH.map(|n| sums.nanos[n] / sums.events[n] as f64)
    }

    fn check(&mut self, sums: &mut Sums) {
        let began = Instant::now();
        for _ in 0..BATCH {
            assert!(!self.timers.check(black_box(self.now)));
        }
        sums.add(0, BATCH, began);
    }

    fn schedule_and_cancel(&mut self, sums: &mut Sums) {
        let ticks = [(); BATCH].map(|()| self.ticks());
        let who = self.pending as u32..;
        let began = Instant::now();
        for (who, ticks) in who.clone().zip(ticks) {
            self.timers.schedule(self.now, ticks, who);
        }
        sums.add(1, BATCH, began);
        let began = Instant::now();
        who.take(BATCH).for_each(|who| self.timers.cancel(who));
        sums.add(2, BATCH, began);
    }

    /// Advances time until about a batch of events is due, or all of them.
    fn happens(&mut self, sums: &mut Sums, n: usize) {
        let ticks = [(); BATCH].map(|()| self.ticks());
        self.now += GAP * BATCH.min(self.pending) as u64;
        self.timers.set_clock(self.now);
        let began = Instant::now();
        self.timers.happens(self.now, &mut self.happened);
        for (who, ticks) in self.happened.iter().zip(ticks.iter().cycle()) {
            self.timers.schedule(self.now, *ticks, *who);
        }
        sums.add(n, self.happened.len(), began);
        self.happened.clear();
    }
}

/// By what was timed.
#[derive(Default)]
struct Sums {
    nanos: [f64; 5],
    events: [usize; 5],
}

impl Sums {
    fn add(&mut self, n: usize, events: usize, began: Instant) {
        self.nanos[n] += began.elapsed().as_nanos() as f64;
        self.events[n] += events;
    }
}
