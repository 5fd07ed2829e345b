//! Tests of one endpoint of ours with a random peer that is not our TCP, in virtual time.
//!
//! The peer is small and odd: its windows shrink, its acknowledgments are late, partial, lost or wrong, it
//! repeats its SYNs, reneges, and more (`model/peer.rs`). The network loses, duplicates, delays and reorders,
//! until both become calm. `model/invariants.rs` has the invariants and their times: data leaves whenever it
//! may be sent, no byte is wrong, nothing is beyond the window, and nothing is left at the end.
//!
//! `EVENKEEL_SEED=n` runs that seed alone and prints it, segment by segment; `EVENKEEL_SEEDS=n` runs the
//! first `n`; `EVENKEEL_LONG=1` runs 100 000.

#![allow(
    clippy::incompatible_msrv,
    reason = "the oldest Rust is for those who use the crate, not for its tests"
)]
#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::print_stdout, reason = "what happened is for people")]

mod model;

use std::path::Path;

use evenkeel_skip::Seeds;
use model::choices::Choices;
use model::endpoint::Alone;
use model::run::{Outcome, Run, Summary};

const SEEDS: Seeds<'_> = Seeds { few: 3_000, many: 100_000, package: "evenkeel-tcp", test: "random_peers" };

fn run(choices: Choices<'_>, traced: bool) -> Result<Outcome, String> {
    Run::new(choices, traced, |plan| Alone::new(plan)).run()
}

#[test]
fn with_any_peer_what_may_leave_leaves_in_time_and_every_byte_arrives_once() {
    if let Some(seed) = Seeds::one() {
        println!("{:?}", run(Choices::of_seed(seed), true).unwrap());
        return;
    }
    let runs = SEEDS.run_all(|seed| run(Choices::of_seed(seed), false));
    let all = Summary::of(&runs);
    println!("{all}");
    if all.runs >= SEEDS.few {
        all.assert_varied();
    }
}

/// The seeds of the fuzz target run on every toolchain.
#[test]
fn what_holds_for_random_peers_holds_for_the_seeds_of_the_fuzz_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/tcp_peers");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        run(Choices::Bytes(&bytes), false).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    }
}
