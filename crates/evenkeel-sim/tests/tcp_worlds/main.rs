//! Tests of TCP between whole hosts over bad networks: random worlds from a seed, under every receive
//! architecture.
//!
//! `EVENKEEL_SEED=n` runs that seed alone and describes it; `EVENKEEL_SEEDS=n` runs the first `n`, each five
//! times.

mod plan;
mod run;
mod tally;

use evenkeel_core::receive::Architecture;
use evenkeel_skip::Seeds;
use plan::Plan;
use tally::Tally;

/// The seeds. Those of the long tier cover every event.
const SEEDS: Seeds<'_> = Seeds { package: "evenkeel-sim", test: "tcp_worlds", few: 60, many: 300 };
/// One seed in this many is run twice.
const TWICE: u64 = 16;

/// Runs a seed under every architecture; what happened, or what is wrong.
fn run(seed: u64) -> Result<Tally, String> {
    let plan = Plan::random(seed);
    let mut sum = Tally::default();
    for architecture in Architecture::ALL {
        let wrong = |why| format!("under {architecture}: {why}");
        let tally = run::run(&plan, architecture).map_err(wrong)?;
        if seed.is_multiple_of(TWICE) && run::run(&plan, architecture).map_err(wrong)? != tally {
            return Err(wrong("run again it is another".to_string()));
        }
        sum.add(&tally);
    }
    Ok(sum)
}

#[test]
fn every_byte_comes_back_or_an_error_is_reported_and_nothing_is_left() {
    if let Some(seed) = Seeds::one() {
        println!("{:#?}", Plan::random(seed));
        println!("{}", run(seed).unwrap());
        return;
    }
    let mut sum = Tally::default();
    SEEDS.run_all(run).iter().for_each(|tally| sum.add(tally));
    println!("{sum}");
    if SEEDS.count() >= SEEDS.many {
        sum.assert_everything_happened();
    }
}
