//! A TCP endpoint against a peer that is not our TCP: the bytes of the input are the choices of the plan, the
//! peer, the network and the programs. The model is that of the test `random_peers` of `evenkeel-tcp`.

#[path = "../../crates/evenkeel-tcp/tests/random_peers/model/mod.rs"]
#[allow(dead_code, reason = "the test has many runs; this has one")]
mod model;

use model::choices::Choices;
use model::endpoint::Alone;
use model::run::Run;

/// Runs one connection; the bytes are its choices.
///
/// # Panics
/// If an invariant does not hold.
pub fn run(input: &[u8]) {
    if let Err(why) = Run::new(Choices::Bytes(input), false, |plan| Alone::new(plan)).run() {
        panic!("{why}");
    }
}
