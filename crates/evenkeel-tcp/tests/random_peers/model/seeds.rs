//! Many runs, on all cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::run::Outcome;

/// Failures that are shown.
const SHOWN: usize = 40;

/// How many seeds by default, and in the long tier; the package and the name of the test, for the command
/// that runs one again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seeds {
    pub(crate) few: u64,
    pub(crate) many: u64,
    pub(crate) package: &'static str,
    pub(crate) test: &'static str,
}

impl Seeds {
    /// Runs the seeds that the environment asks for, and returns what they were like. One alone is traced.
    ///
    /// # Panics
    /// If one fails. The message has the command that runs it again.
    pub(crate) fn run(self, run: impl Fn(u64, bool) -> Result<Outcome, String> + Sync) -> Vec<Outcome> {
        let run = |seed, traced| {
            catch_unwind(AssertUnwindSafe(|| run(seed, traced)))
                .unwrap_or_else(|_| Err("it panics: see above".to_owned()))
        };
        if let Some(seed) = number("EVENKEEL_SEED") {
            println!("{:?}", run(seed, true).unwrap());
            return Vec::new();
        }
        let long = std::env::var_os("EVENKEEL_LONG").is_some();
        let seeds = number("EVENKEEL_SEEDS").unwrap_or(if long { self.many } else { self.few });
        let (next, results) = (AtomicU64::new(1), Mutex::new(Vec::new()));
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(8));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed > seeds {
                            return;
                        }
                        let result = run(seed, false);
                        results.lock().unwrap().push((seed, result));
                    }
                });
            }
        });
        let mut results = results.into_inner().unwrap();
        results.sort_by_key(|(seed, _)| *seed);
        self.report(&results);
        results.into_iter().filter_map(|(_, result)| result.ok()).collect()
    }

    fn report(self, results: &[(u64, Result<Outcome, String>)]) {
        let failures: Vec<_> =
            results.iter().filter_map(|(seed, result)| Some((seed, result.as_ref().err()?))).collect();
        let Some((first, _)) = failures.first() else { return };
        let shown: Vec<_> =
            failures.iter().take(SHOWN).map(|(seed, why)| format!("seed {seed}: {why}")).collect();
        panic!(
            "{} of {} connections fail:\n{}\nReplay the first with\n\n    EVENKEEL_SEED={first} cargo \
             test -p {} --test {} -- --nocapture\n",
            failures.len(),
            results.len(),
            shown.join("\n"),
            self.package,
            self.test,
        );
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}
