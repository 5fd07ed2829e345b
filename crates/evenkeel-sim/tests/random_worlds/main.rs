//! Random worlds: topologies, receive architectures, loads and faults from a seed. A simple model defines
//! what a network of UDP hosts may do, and each world is compared with it.
//!
//! `EVENKEEL_SEED=n` runs that seed alone; `EVENKEEL_SEEDS=n` runs the first `n`.

mod middlemen;
mod model;
mod scenario;

use std::collections::BTreeSet;

use evenkeel_core::drop::{IpDrop, QueueDrop, Reason};
use evenkeel_skip::Seeds;
use model::Rules;
use scenario::Scenario;

/// The seeds. Those of the long tier cover every event.
const SEEDS: Seeds<'_> = Seeds { package: "evenkeel-sim", test: "random_worlds", few: 30, many: 150 };

/// Runs a seed. Returns how many packets were forwarded, and why others were dropped; or what is wrong.
fn run(seed: u64) -> Result<(u64, BTreeSet<Reason>), String> {
    let mut scenario = Scenario::random(seed);
    scenario.run_with_faults();
    scenario.run_without_faults();
    let mut violations = scenario.violations(scenario.rules());
    violations.extend(scenario.judge_rest());
    if violations.is_empty() {
        Ok(scenario.happenings())
    } else {
        Err(format!("{}\n{}", scenario.describe(), violations.join("\n")))
    }
}

#[test]
fn every_world_keeps_to_the_model() {
    if let Some(seed) = Seeds::one() {
        run(seed).unwrap();
        return;
    }
    let worlds = SEEDS.run_all(run);
    if SEEDS.count() < SEEDS.many {
        return;
    }
    let forwarded: u64 = worlds.iter().map(|(forwarded, _)| forwarded).sum();
    assert!(forwarded > 10_000, "{forwarded}");
    let happened = |reason: Reason| worlds.iter().any(|(_, reasons)| reasons.contains(&reason));
    for queue in QueueDrop::ALL {
        assert!(happened(Reason::Queue(*queue)), "no world fills or leaves {queue:?}");
    }
    assert!(happened(IpDrop::Refused.into()));
}

#[test]
fn one_seed_run_twice_leaves_the_same_trace() {
    let trace = |seed| {
        let mut scenario = Scenario::random(seed);
        scenario.run_with_faults();
        (scenario.trace_hash(), scenario.deliveries())
    };
    for seed in 1..=5 {
        assert_eq!(trace(seed), trace(seed), "seed {seed}");
    }
    assert_ne!(trace(1), trace(2));
}

/// A test of the tests: a world that duplicates datagrams must not pass as one that does not.
#[test]
fn a_broken_rule_is_noticed() {
    let mut scenario = Scenario::random(scenario::DUPLICATING_SEED);
    scenario.run_with_faults();
    assert_eq!(scenario.violations(scenario.rules()), Vec::<String>::new());
    let strict = Rules { copies_max: 1, ..scenario.rules() };
    let violations = scenario.violations(strict);
    assert!(violations.iter().any(|v| v.contains("times")), "{violations:?}");
}
