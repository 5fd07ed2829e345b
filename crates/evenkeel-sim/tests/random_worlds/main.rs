//! Random worlds: topologies, receive architectures, loads and faults from a seed, held against a simple
//! model of what a network of UDP hosts may do.
//!
//! `EVENKEEL_SEED=n` runs that seed alone; `EVENKEEL_SEEDS=n` runs the first `n`.

mod middlemen;
mod model;
mod scenario;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use evenkeel_core::drop::{IpDrop, QueueDrop, Reason};
use evenkeel_skip::is_long;
use model::Rules;
use scenario::Scenario;

/// Seeds of the long tier, in which everything happens that can.
const SEEDS: u64 = 150;
/// Seeds of the short tier.
const FEW_SEEDS: u64 = 30;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("the variable holds a number"))
}

fn seeds() -> Vec<u64> {
    match number("EVENKEEL_SEED") {
        Some(seed) => vec![seed],
        None => {
            let tier = if is_long() { SEEDS } else { FEW_SEEDS };
            (1..=number("EVENKEEL_SEEDS").unwrap_or(tier)).collect()
        }
    }
}

/// Runs `check` for every seed; a failure says how to see it again.
fn for_every_seed(check: impl Fn(u64)) {
    for seed in seeds() {
        if catch_unwind(AssertUnwindSafe(|| check(seed))).is_err() {
            panic!(
                "seed {seed} fails; replay it with\n\n    EVENKEEL_SEED={seed} cargo test -p evenkeel-sim \
                 --test random_worlds\n"
            );
        }
    }
}

#[test]
fn every_world_keeps_to_the_model() {
    let happened = RefCell::new((0, BTreeSet::new()));
    for_every_seed(|seed| {
        let mut scenario = Scenario::random(seed);
        scenario.run_with_faults();
        scenario.run_without_faults();
        let mut violations = scenario.violations(scenario.rules());
        violations.extend(scenario.judge_rest());
        assert!(violations.is_empty(), "{}\n{}", scenario.describe(), violations.join("\n"));
        let (forwarded, reasons) = scenario.happenings();
        let mut happened = happened.borrow_mut();
        happened.0 += forwarded;
        happened.1.extend(reasons);
    });
    let (forwarded, reasons) = happened.into_inner();
    if seeds().len() >= SEEDS as usize {
        assert!(forwarded > 10_000, "{forwarded}");
        for queue in QueueDrop::ALL {
            assert!(reasons.contains(&Reason::Queue(*queue)), "no world fills or leaves {queue:?}");
        }
        assert!(reasons.contains(&IpDrop::Refused.into()));
    }
}

#[test]
fn one_seed_run_twice_leaves_the_same_trace() {
    let trace = |seed| {
        let mut scenario = Scenario::random(seed);
        scenario.run_with_faults();
        (scenario.trace_hash(), scenario.deliveries())
    };
    for seed in seeds().into_iter().take(5) {
        assert_eq!(trace(seed), trace(seed), "seed {seed}");
    }
    assert_ne!(trace(1), trace(2));
}

/// A test of the tests: a world that doubles datagrams must not pass for one that does not.
#[test]
fn a_broken_rule_is_noticed() {
    let mut scenario = Scenario::random(scenario::DUPLICATING_SEED);
    scenario.run_with_faults();
    assert_eq!(scenario.violations(scenario.rules()), Vec::<String>::new());
    let strict = Rules { copies_max: 1, ..scenario.rules() };
    let violations = scenario.violations(strict);
    assert!(violations.iter().any(|v| v.contains("times")), "{violations:?}");
}
