//! Two ways to measure a turn: by the clock, and by counting instructions under callgrind.

use std::hint::black_box;
use std::time::Instant;

use crate::instructions::{self, Uncounted};
use crate::scenarios::{Scenario, Turn};

const ROUNDS: usize = 15;
const TURNS_PER_ROUND: usize = 40;
const TURNS_COUNTED: usize = 8;
/// Memory grows, and branch predictors settle, first.
const TURNS_OF_WARM_UP: usize = 3;

/// One turn, and nothing else: callgrind counts inside this function only.
#[inline(never)]
fn measured_turn(turn: &mut Turn) {
    turn();
}

/// Nanoseconds for one thing of each scenario: the median of all its turns.
pub(crate) fn time(scenarios: &[Scenario]) -> Vec<f64> {
    let mut turns: Vec<Turn> = scenarios.iter().map(|scenario| (scenario.make)()).collect();
    let mut nanos = vec![Vec::with_capacity(ROUNDS * TURNS_PER_ROUND); scenarios.len()];
    for _ in 0..ROUNDS {
        for (turn, nanos) in turns.iter_mut().zip(&mut nanos) {
            time_round(turn, nanos);
        }
    }
    let medians = nanos.iter_mut().map(|nanos| median(nanos));
    medians.zip(scenarios).map(|(nanos, scenario)| nanos / scenario.things as f64).collect()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn time_round(turn: &mut Turn, nanos: &mut Vec<u64>) {
    (0..TURNS_OF_WARM_UP).for_each(|_| turn());
    for _ in 0..TURNS_PER_ROUND {
        let begin = Instant::now();
        measured_turn(black_box(turn));
        nanos.push(begin.elapsed().as_nanos() as u64);
    }
}

fn median(values: &mut [u64]) -> f64 {
    values.sort_unstable();
    values.get(values.len() / 2).map_or(f64::NAN, |&median| median as f64)
}

/// Instructions for one thing.
pub(crate) fn count_instructions(scenario: &str) -> Result<f64, Uncounted> {
    instructions::count("measured_turn", &[scenario])
}

/// What this program does under callgrind. It prints how many things were handled.
#[expect(clippy::print_stdout, reason = "for the program that started this one")]
pub(crate) fn run_to_be_counted(scenario: &Scenario) {
    let mut turn = (scenario.make)();
    (0..TURNS_OF_WARM_UP).for_each(|_| turn());
    (0..TURNS_COUNTED).for_each(|_| measured_turn(black_box(&mut turn)));
    println!("{}", TURNS_COUNTED * scenario.things);
}
