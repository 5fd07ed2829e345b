//! Two ways to measure a turn: by the clock, and by counting instructions under callgrind.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use crate::instructions::kept::{Figures, Task};
use crate::instructions::{self, COUNT_FLAG, Uncounted};
use crate::scenarios::{self, Scenario, Turn};

const ROUNDS: usize = 15;
const TURNS_PER_ROUND: usize = 40;
const TURNS_COUNTED: usize = 8;
/// Memory grows, and branch predictors settle, first.
const TURNS_OF_WARM_UP: usize = 3;

/// All that such a benchmark does, as its arguments say. Its figures are kept by the name `bench`; each is
/// `of` that.
pub(crate) fn measure(bench: &'static str, of: &'static str) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let mut scenarios = scenarios::all();
    if let [flag, name] = &arguments[..]
        && flag == COUNT_FLAG
    {
        run_to_be_counted(scenarios.iter().find(|s| s.name == *name).unwrap());
        return ExitCode::SUCCESS;
    }
    if let Some(task) = Task::of(&arguments) {
        let names = scenarios.into_iter().map(|scenario| scenario.name).collect();
        let figures = Figures { bench, of, names };
        return figures.run(task, |n| count_instructions(&figures.names[n]));
    }
    scenarios.retain(|s| arguments.iter().all(|word| s.name.contains(word.as_str())));
    report(&scenarios);
    ExitCode::SUCCESS
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn report(scenarios: &[Scenario]) {
    println!("{:<60} {:>10} {:>14}", "one of", "ns", "instructions");
    for (scenario, nanos) in scenarios.iter().zip(time(scenarios)) {
        let counted = count_instructions(&scenario.name);
        let counted = counted.map_or_else(|why| why.why().to_owned(), |count| format!("{count:.0}"));
        println!("{:<60} {nanos:>10.1} {counted:>14}", scenario.name);
    }
}

/// Runs one turn, and nothing else: callgrind counts inside this function only.
#[inline(never)]
fn measured_turn(turn: &mut Turn) {
    turn();
}

/// Returns the nanoseconds for one item of each scenario: the median of all its turns.
fn time(scenarios: &[Scenario]) -> Vec<f64> {
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
fn count_instructions(scenario: &str) -> Result<f64, Uncounted> {
    instructions::count("measured_turn", &[scenario])
}

/// Runs a scenario under callgrind, and prints how many things were handled.
#[expect(clippy::print_stdout, reason = "for the program that started this one")]
fn run_to_be_counted(scenario: &Scenario) {
    let mut turn = (scenario.make)();
    (0..TURNS_OF_WARM_UP).for_each(|_| turn());
    (0..TURNS_COUNTED).for_each(|_| measured_turn(black_box(&mut turn)));
    println!("{}", TURNS_COUNTED * scenario.things);
}
