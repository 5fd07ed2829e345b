//! TCP over networks that lose, double, change, reorder and delay: random connections from a seed, in virtual time.
//!
//! `EVENKEEL_SEED=n` runs that seed alone and says what it is, with `EVENKEEL_TRACE=1` segment by segment; `EVENKEEL_SEEDS=n` runs the first `n`.

#![expect(clippy::print_stdout, reason = "what happened is for people")]

mod early;
mod judge;
mod plan;
mod program;
mod referee;
mod run;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use judge::Tally;
use plan::Plan;

/// Seeds run unless the environment says otherwise.
const SEEDS: u64 = 10_000;
/// One seed of so many is run twice.
const TWICE: u64 = 16;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("the variable holds a number"))
}

/// Runs a seed; what happened, or what is wrong.
fn run(seed: u64) -> Result<Tally, String> {
    let plan = Plan::random(seed);
    let result = catch_unwind(AssertUnwindSafe(|| {
        let tally = run::run(&plan)?;
        if seed.is_multiple_of(TWICE) && run::run(&plan)?.digest != tally.digest {
            return Err("run again it is another".to_string());
        }
        Ok(tally)
    }));
    result.unwrap_or_else(|_| Err("it panics: see above".to_string()))
}

/// Runs seeds on as many threads as there are cores; the results by seed.
fn run_all(seeds: u64) -> BTreeMap<u64, Result<Tally, String>> {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(8));
    let (next, results) = (AtomicU64::new(1), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > seeds {
                        return;
                    }
                    let result = run(seed);
                    results.lock().expect("no panic outside of a run").insert(seed, result);
                }
            });
        }
    });
    results.into_inner().expect("no panic outside of a run")
}

#[test]
fn every_octet_arrives_once_and_in_order_or_an_error_is_reported_and_nothing_is_left() {
    if let Some(seed) = number("EVENKEEL_SEED") {
        println!("{:#?}", Plan::random(seed));
        println!("{:#?}", run(seed).unwrap());
        return;
    }
    let seeds = number("EVENKEEL_SEEDS").unwrap_or(SEEDS);
    let results = run_all(seeds);
    let mut sum = Tally::default();
    let mut failures = Vec::new();
    for (seed, result) in results {
        match result {
            Ok(tally) => sum.add(&tally),
            Err(why) => failures.push((seed, why)),
        }
    }
    println!("{sum:#?}");
    let shown: Vec<String> =
        failures.iter().take(10).map(|(seed, why)| format!("seed {seed}: {why}")).collect();
    if let Some((seed, _)) = failures.first() {
        panic!(
            "{} of {seeds} seeds fail:\n{}\nReplay the first with\n\n    EVENKEEL_SEED={seed} cargo test -p evenkeel-sim --test tcp_runs -- --nocapture\n",
            failures.len(),
            shown.join("\n")
        );
    }
    if seeds >= SEEDS {
        sum.assert_everything_happened();
    }
}
