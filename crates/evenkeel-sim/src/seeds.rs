//! Tests over many seeds, on all cores.
//!
//! `EVENKEEL_SEED=n` asks for that seed alone, `EVENKEEL_SEEDS=n` for the first `n`. A long run says how far
//! it is, and what fails when it fails.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Seeds to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seeds {
    /// This one: somebody wants to see what it does.
    One(u64),
    /// All from 1 to this.
    UpTo(u64),
}

impl Seeds {
    /// What the environment asks for; if it does not say, the first `many`.
    ///
    /// # Panics
    /// If what it says is no number.
    #[must_use]
    pub fn asked_for(many: u64) -> Self {
        let number = |variable| {
            let text = std::env::var(variable).ok();
            text.map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
        };
        number("EVENKEEL_SEED")
            .map_or_else(|| Self::UpTo(number("EVENKEEL_SEEDS").unwrap_or(many)), Self::One)
    }
}

/// After so many seeds a run says how far it is.
const PROGRESS: u64 = 10_000;
/// Failures that are shown in words.
const SHOWN: usize = 10;

/// Runs the seeds from 1 to `seeds`; what each gave, in their order.
///
/// # Panics
/// If one fails, or panics. The message names the first ones, and says how to run one again, given the `test`
/// that this is.
pub fn run_all<T: Send>(
    test: &str,
    seeds: u64,
    run: impl Fn(u64) -> Result<T, String> + Sync,
) -> impl Iterator<Item = T> {
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
                    let result = catch_unwind(AssertUnwindSafe(|| run(seed)));
                    let result = result.unwrap_or_else(|_| Err("it panics: see above".to_string()));
                    tell(test, seed, seeds, result.as_ref().err());
                    results.lock().unwrap_or_else(PoisonError::into_inner).insert(seed, result);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let failures: Vec<_> =
        results.iter().filter_map(|(seed, result)| Some((seed, result.as_ref().err()?))).collect();
    if let Some((first, _)) = failures.first() {
        let shown: Vec<_> =
            failures.iter().take(SHOWN).map(|(seed, why)| format!("seed {seed}: {why}")).collect();
        panic!(
            "{} of {seeds} seeds fail:\n{}\nReplay the first with\n\n    EVENKEEL_SEED={first} cargo test -p \
             evenkeel-sim --test {test} -- --nocapture\n",
            failures.len(),
            shown.join("\n")
        );
    }
    results.into_values().filter_map(Result::ok)
}

#[expect(clippy::print_stderr, reason = "for whoever waits")]
fn tell(test: &str, seed: u64, seeds: u64, failure: Option<&String>) {
    if let Some(why) = failure {
        eprintln!("{test}: seed {seed} fails: {why}");
    }
    if seed.is_multiple_of(PROGRESS) {
        eprintln!("{test}: {seed} of {seeds}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_run_once_and_they_come_in_order() {
        let results: Vec<_> = run_all("seeds", 100, Ok).collect();
        assert!(results.into_iter().eq(1..=100));
    }

    #[test]
    fn a_seed_that_fails_or_panics_is_named() {
        let run = |seed| match seed {
            7 => Err("it is seven".to_string()),
            9 => panic!("on purpose"),
            _ => Ok(()),
        };
        let what = catch_unwind(|| run_all("seeds", 10, run).count()).expect_err("it panics");
        let what = what.downcast_ref::<String>().expect("in words");
        assert!(what.starts_with("2 of 10 seeds fail:\nseed 7: it is seven\nseed 9: it panics"), "{what}");
        assert!(what.contains("EVENKEEL_SEED=7 "), "{what}");
    }
}
