//! Tests of TCP over networks that lose, duplicate, change, reorder and delay: random connections from a
//! seed, in virtual time.
//!
//! `EVENKEEL_SEED=n` runs that seed alone and describes it, with `EVENKEEL_TRACE=1` segment by segment;
//! `EVENKEEL_SEEDS=n` runs the first `n`.

#![expect(clippy::print_stdout, reason = "what happened is for people")]

mod early;
mod judge;
mod plan;
mod program;
mod referee;
mod run;

use evenkeel_skip::Seeds;
use judge::Tally;
use plan::Plan;

/// The seeds. Those of the long tier cover every event.
const SEEDS: Seeds<'_> = Seeds { package: "evenkeel-sim", test: "tcp_runs", few: 1_500, many: 10_000 };
/// One seed in this many is run twice.
const TWICE: u64 = 16;

/// Runs a seed; what happened, or what is wrong.
fn run(seed: u64) -> Result<Tally, String> {
    let plan = Plan::random(seed);
    let tally = run::run(&plan)?;
    if seed.is_multiple_of(TWICE) && run::run(&plan)?.digest != tally.digest {
        return Err("run again it is another".to_string());
    }
    Ok(tally)
}

#[test]
fn every_byte_arrives_once_and_in_order_or_an_error_is_reported_and_nothing_is_left() {
    if let Some(seed) = Seeds::one() {
        println!("{:#?}", Plan::random(seed));
        println!("{:#?}", run(seed).unwrap());
        return;
    }
    let mut sum = Tally::default();
    SEEDS.run_all(run).iter().for_each(|tally| sum.add(tally));
    println!("{sum:#?}");
    if SEEDS.count() >= SEEDS.many {
        sum.assert_everything_happened();
    }
}
