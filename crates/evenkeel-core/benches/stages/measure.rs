//! Two ways to measure a batch of frames: by the clock, and by counting instructions under callgrind.

use std::hint::black_box;
use std::time::Instant;

use crate::batch::{Batch, Stage};
use crate::instructions::{self, Uncounted};

const ROUNDS: usize = 25;
const BATCHES_PER_ROUND: usize = 200;
const BATCHES_COUNTED: usize = 50;
/// Queues fill, tables are learned and branch predictors settle first.
const BATCHES_OF_WARM_UP: usize = 50;

/// Runs one batch, and nothing else: callgrind counts inside this function only.
#[inline(never)]
fn measured_batch(batch: &mut dyn Batch) {
    batch.run();
}

fn run(batch: &mut dyn Batch) {
    batch.prepare();
    batch.run();
}

/// Returns the nanoseconds per frame of each stage: the median of all its batches, so that disturbed batches
/// do not count.
pub(crate) fn time(stages: &mut [Stage]) -> Vec<f64> {
    let mut batches: Vec<Vec<u64>> = vec![Vec::with_capacity(ROUNDS * BATCHES_PER_ROUND); stages.len()];
    for _ in 0..ROUNDS {
        for (stage, batches) in stages.iter_mut().zip(&mut batches) {
            time_round(stage.batch(), batches);
        }
    }
    let frames: Vec<_> = stages.iter_mut().map(|stage| stage.batch().frames()).collect();
    batches.iter_mut().zip(frames).map(|(batches, frames)| median(batches) / frames as f64).collect()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn time_round(batch: &mut dyn Batch, nanos: &mut Vec<u64>) {
    (0..BATCHES_OF_WARM_UP).for_each(|_| run(batch));
    for _ in 0..BATCHES_PER_ROUND {
        batch.prepare();
        let begin = Instant::now();
        measured_batch(black_box(batch));
        nanos.push(begin.elapsed().as_nanos() as u64);
    }
}

fn median(values: &mut [u64]) -> f64 {
    values.sort_unstable();
    values.get(values.len() / 2).map_or(f64::NAN, |&median| median as f64)
}

/// Counts the instructions of a stage per frame, under callgrind.
pub(crate) fn count_instructions(stage: &str) -> Result<f64, Uncounted> {
    instructions::count("measured_batch", &[stage])
}

/// Runs the batches that are counted, in the program that callgrind runs. Prints the number of frames
/// handled.
#[expect(clippy::print_stdout, reason = "for the program that started this one")]
pub(crate) fn run_to_be_counted(batch: &mut dyn Batch) {
    (0..BATCHES_OF_WARM_UP).for_each(|_| run(batch));
    for _ in 0..BATCHES_COUNTED {
        batch.prepare();
        measured_batch(black_box(batch));
    }
    println!("{}", BATCHES_COUNTED * batch.frames());
}
