//! Measurements that are repeated over several seeds, on all cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Seeds, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    /// The first seed.
    pub first: u64,
    /// The number of consecutive seeds.
    pub count: u32,
}

impl Seeds {
    fn nth(self, nth: usize) -> u64 {
        self.first.wrapping_add(nth as u64)
    }
}

/// Measures with each seed, and returns the outcomes in the order of the seeds. Calls `progress` with the
/// number of finished runs and of all runs.
pub(crate) fn each<T: Clone + Send>(
    seeds: Seeds,
    measure: fn(u64) -> T,
    progress: &mut dyn FnMut(usize, usize),
) -> Vec<T> {
    let count = seeds.count as usize;
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(count);
    let next = AtomicUsize::new(0);
    let mut outcomes: Vec<Option<T>> = vec![None; count];
    thread::scope(|scope| {
        let (done, of_each) = mpsc::channel();
        for _ in 0..threads {
            let (done, next) = (done.clone(), &next);
            scope.spawn(move || {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    // The receiver is gone only if another thread has panicked.
                    if nth >= count || done.send((nth, measure(seeds.nth(nth)))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        for (finished, (nth, outcome)) in of_each.iter().enumerate() {
            outcomes[nth] = Some(outcome);
            progress(finished + 1, count);
        }
    });
    outcomes.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;

    fn measure(seed: u64) -> Outcome {
        let points = vec![crate::Point::new("a", 0.0, seed as f64)];
        Outcome::new("", "", points, Vec::new())
    }

    #[test]
    fn outcomes_come_in_the_order_of_the_seeds_and_all_are_heard_of() {
        let mut heard = Vec::new();
        let outcomes = each(Seeds { first: 5, count: 40 }, measure, &mut |done, of| heard.push((done, of)));
        let seeds: Vec<f64> = outcomes.iter().map(|o| o.points[0].y).collect();
        assert_eq!(seeds, (5..45).map(f64::from).collect::<Vec<_>>());
        assert_eq!(heard, (1..=40).map(|done| (done, 40)).collect::<Vec<_>>());
    }
}
