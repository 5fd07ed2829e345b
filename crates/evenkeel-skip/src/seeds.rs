//! Tests over many seeds, on all cores.
//!
//! `EVENKEEL_SEED=n` asks for that seed alone, `EVENKEEL_SEEDS=n` for the first `n`. A long run reports its
//! progress, and each failure at once.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::is_long;

/// The seeds of a test.
#[derive(Debug, Clone, Copy)]
pub struct Seeds<'a> {
    /// The package and the name of the test, for the command that runs one again.
    pub package: &'a str,
    /// See `package`.
    pub test: &'a str,
    /// The number of seeds that the short tier runs.
    pub few: u64,
    /// The number of seeds that the long tier runs.
    pub many: u64,
}

/// After so many seeds a run reports its progress.
const PROGRESS: u64 = 10_000;
/// Failures that are shown in words.
const SHOWN: usize = 40;

impl Seeds<'_> {
    /// Returns the only seed that the environment asks for.
    ///
    /// # Panics
    /// If what it says is no number.
    #[must_use]
    pub fn one() -> Option<u64> {
        number("EVENKEEL_SEED")
    }

    /// Returns how many seeds are run: as many as the environment asks for, or as the tier has.
    ///
    /// # Panics
    /// If what the environment says is no number.
    #[must_use]
    pub fn count(&self) -> u64 {
        number("EVENKEEL_SEEDS").unwrap_or(if is_long() { self.many } else { self.few })
    }

    /// Runs the seeds from 1 to [`count`](Self::count), and returns what each gave, in their order.
    ///
    /// # Panics
    /// If one fails, or panics. The message names the first ones, and the command that runs one again.
    pub fn run_all<T: Send>(&self, run: impl Fn(u64) -> Result<T, String> + Sync) -> Vec<T> {
        self.run_up_to(self.count(), run)
    }

    fn run_up_to<T: Send>(&self, seeds: u64, run: impl Fn(u64) -> Result<T, String> + Sync) -> Vec<T> {
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(8));
        let (next, results) = (AtomicU64::new(1), Mutex::new(BTreeMap::new()));
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed <= seeds);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(seed) = take() {
                        let result = catch_unwind(AssertUnwindSafe(|| run(seed)));
                        let result = result.unwrap_or_else(|_| Err("it panics: see above".to_owned()));
                        self.tell(seed, seeds, result.as_ref().err());
                        results.lock().unwrap_or_else(PoisonError::into_inner).insert(seed, result);
                    }
                });
            }
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.report(&results);
        results.into_values().filter_map(Result::ok).collect()
    }

    fn report<T>(&self, results: &BTreeMap<u64, Result<T, String>>) {
        let failures: Vec<_> =
            results.iter().filter_map(|(seed, result)| Some((seed, result.as_ref().err()?))).collect();
        let Some((first, _)) = failures.first() else { return };
        let shown: Vec<_> =
            failures.iter().take(SHOWN).map(|(seed, why)| format!("seed {seed}: {why}")).collect();
        panic!(
            "{} of {} seeds fail:\n{}\nReplay the first with\n\n    EVENKEEL_SEED={first} cargo test -p {} \
             --test {} -- --nocapture\n",
            failures.len(),
            results.len(),
            shown.join("\n"),
            self.package,
            self.test,
        );
    }

    fn tell(&self, seed: u64, seeds: u64, failure: Option<&String>) {
        let test = self.test;
        if let Some(why) = failure {
            eprintln!("{test}: seed {seed} fails: {why}");
        }
        if seed.is_multiple_of(PROGRESS) {
            eprintln!("{test}: {seed} of {seeds}");
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: Seeds<'_> = Seeds { package: "evenkeel-skip", test: "seeds", few: 1, many: 2 };

    #[test]
    fn every_seed_is_run_once_and_they_come_in_order() {
        assert!(SEEDS.run_up_to(100, Ok).into_iter().eq(1..=100));
    }

    #[test]
    fn a_seed_that_fails_or_panics_is_named() {
        let run = |seed| match seed {
            7 => Err("it is seven".to_string()),
            9 => panic!("on purpose"),
            _ => Ok(()),
        };
        let what = catch_unwind(|| SEEDS.run_up_to(10, run)).expect_err("two fail");
        let what = what.downcast_ref::<String>().expect("in words");
        assert!(what.starts_with("2 of 10 seeds fail:\nseed 7: it is seven\nseed 9: it panics"), "{what}");
        assert!(what.contains("EVENKEEL_SEED=7 cargo test -p evenkeel-skip "), "{what}");
    }
}
