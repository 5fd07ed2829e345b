//! One endpoint of ours against a random peer that is not our TCP, in virtual time.
//!
//! The peer is small and odd: its windows shrink, its acknowledgments are late, partial, lost or wrong, it
//! repeats its SYNs, reneges, and more (`peer.rs`). The network loses, doubles, delays and reorders, until
//! both become calm. What must hold, with the stated times, is in `invariants.rs`: whenever something may be
//! sent, it leaves; no byte is wrong; nothing is beyond the window; nothing is left at the end.
//!
//! `EVENKEEL_SEED=n` runs that seed alone and prints it, segment by segment; `EVENKEEL_SEEDS=n` runs the
//! first `n`; `EVENKEEL_LONG=1` runs 100 000.

mod choices;
mod invariants;
mod network;
mod peer;
mod plan;
mod run;
mod user;
mod wire;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use choices::Choices;
use run::{Outcome, Run};

/// Connections by default, and in the long tier.
const SEEDS: u64 = 3_000;
const SEEDS_LONG: u64 = 100_000;
/// Failures that are shown.
const SHOWN: usize = 20;

fn run(seed: u64, traced: bool) -> Result<Outcome, String> {
    let choices = Choices::Seed(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    catch_unwind(AssertUnwindSafe(|| Run::new(choices, traced).run()))
        .unwrap_or_else(|_| Err("it panics: see above".to_owned()))
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

#[test]
fn with_any_peer_what_may_leave_leaves_in_time_and_every_byte_arrives_once() {
    if let Some(seed) = number("EVENKEEL_SEED") {
        println!("{:?}", run(seed, true).unwrap());
        return;
    }
    let long = std::env::var_os("EVENKEEL_LONG").is_some();
    let seeds = number("EVENKEEL_SEEDS").unwrap_or(if long { SEEDS_LONG } else { SEEDS });
    let (next, results) = (AtomicU64::new(1), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(8));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > seeds {
                        return;
                    }
                    let result = run(seed, false);
                    results.lock().unwrap().push((seed, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(seed, _)| *seed);
    let failures: Vec<_> =
        results.iter().filter_map(|(seed, result)| Some((seed, result.as_ref().err()?))).collect();
    if let Some((first, _)) = failures.first() {
        let shown: Vec<_> =
            failures.iter().take(SHOWN).map(|(seed, why)| format!("seed {seed}: {why}")).collect();
        panic!(
            "{} of {seeds} connections fail:\n{}\nReplay the first with\n\n    EVENKEEL_SEED={first} cargo test \
             -p evenkeel-tcp --test random_peers -- --nocapture\n",
            failures.len(),
            shown.join("\n")
        );
    }
    let sum = |of: fn(&Outcome) -> u64| -> u64 { results.iter().flat_map(|(_, r)| r).map(of).sum() };
    let completed = sum(|run| u64::from(run.completed));
    println!(
        "{seeds} connections: {completed} completed, {} reset, {} with Fast Open, {} accepted; {} segments of \
         ours, {} bytes",
        sum(|run| u64::from(run.reset)),
        sum(|run| u64::from(run.fast_open)),
        sum(|run| u64::from(run.accepted)),
        sum(|run| run.segments),
        sum(|run| run.bytes),
    );
    if seeds >= SEEDS {
        assert!(completed > seeds / 10 * 8, "too few are completed");
        assert!(sum(|run| u64::from(run.fast_open)) > seeds / 50, "too few open with data");
        assert!(sum(|run| u64::from(run.reset)) > seeds / 50, "too few are reset");
    }
}
