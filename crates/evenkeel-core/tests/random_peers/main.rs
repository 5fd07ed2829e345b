//! A whole host under each receive architecture against a random peer that is not our TCP, in virtual time.
//!
//! Peer, network, program and what must hold are those of the test `random_peers` of `evenkeel-tcp`. There
//! our side is a bare endpoint, here a process of a host (`hosted.rs`): segments come by an interface, wait
//! where the architecture has them wait, and are processed when it says. The times that are stated must hold
//! all the same, as a unit of work takes no time.
//!
//! `EVENKEEL_SEED=n` runs that seed alone and prints it, segment by segment; `EVENKEEL_SEEDS=n` runs the
//! first `n`. Seeds take `HOSTS` in turn.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::print_stdout, reason = "what happened is for people")]

mod hosted;
#[path = "../../../evenkeel-tcp/tests/random_peers/model/mod.rs"]
#[allow(dead_code, reason = "the endpoint without a host is for its own test")]
mod model;

use evenkeel_core::host::Config;
use evenkeel_core::receive::{Architecture, DeviceWork};

use evenkeel_skip::Seeds;
use hosted::Hosted;
use model::choices::Choices;
use model::run::{Outcome, Run, Summary};

const SEEDS: Seeds<'_> = Seeds { few: 300, many: 20_000, package: "evenkeel-core", test: "random_peers" };

/// Every architecture, and both ways to do device work where that is a choice.
const HOSTS: [(Architecture, DeviceWork); 7] = [
    (Architecture::Eager, DeviceWork::Interrupt),
    (Architecture::EarlyDemux, DeviceWork::Interrupt),
    (Architecture::Polled, DeviceWork::Polled),
    (Architecture::Polled, DeviceWork::Interrupt),
    (Architecture::SoftLrp, DeviceWork::Polled),
    (Architecture::SoftLrp, DeviceWork::Interrupt),
    (Architecture::NiLrp, DeviceWork::None),
];

fn run(seed: u64, traced: bool) -> Result<Outcome, String> {
    let (architecture, device_work) = HOSTS[(seed % HOSTS.len() as u64) as usize];
    let config = Config { device_work, ..Config::of(architecture) };
    Run::new(Choices::of_seed(seed), traced, |plan| Hosted::new(plan, config))
        .run()
        .map_err(|why| format!("under {architecture}, device work {device_work:?}: {why}"))
}

#[test]
fn with_any_peer_and_architecture_what_may_leave_leaves_in_time_and_every_byte_arrives_once() {
    if let Some(seed) = Seeds::one() {
        println!("{:?}", run(seed, true).unwrap());
        return;
    }
    let runs = SEEDS.run_all(|seed| run(seed, false));
    let all = Summary::of(&runs);
    println!("{all}");
    if all.runs >= SEEDS.few {
        all.assert_varied();
    }
}
