//! Two ways to measure what either end does: by the clock, and by counting instructions under callgrind.

use std::hint::black_box;
use std::time::Instant;

use crate::instructions::{self, Uncounted};

const TURNS_COUNTED: usize = 20;
const WARM_UP_OF_COUNTING: usize = 60;

/// Two ends that take turns.
pub(crate) trait Scenario {
    /// Returns the names of the two ends.
    fn ends(&self) -> [&'static str; 2];
    /// Runs both ends, each within [`Meter::part`]. Returns the number of things handled.
    fn turn(&mut self, meter: &mut Meter) -> usize;
    /// Formats the rate of a core that handles one thing in so many nanoseconds.
    fn rate(&self, nanos: f64) -> String;
}

#[derive(Clone, Copy)]
enum Mode {
    Idle,
    Timing,
    Counting { end: usize },
}

/// A meter of the time that each end takes.
pub(crate) struct Meter {
    mode: Mode,
    /// Nanoseconds of this turn, by end.
    spent: [f64; 2],
    /// Nanoseconds for one thing, in each turn.
    nanos: [Vec<f64>; 2],
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { mode: Mode::Idle, spent: [0.0; 2], nanos: [Vec::new(), Vec::new()] }
    }

    /// Makes `end` do its part of a turn.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
    pub(crate) fn part(&mut self, end: usize, mut part: impl FnMut()) {
        match self.mode {
            Mode::Timing => {
                let begin = Instant::now();
                part();
                self.spent[end] += begin.elapsed().as_nanos() as f64;
            }
            Mode::Counting { end: counted } if counted == end => counted_part(&mut part),
            Mode::Counting { .. } | Mode::Idle => part(),
        }
    }

    fn run(&mut self, scenario: &mut dyn Scenario, mode: Mode, turns: usize) -> usize {
        self.mode = mode;
        let mut all = 0;
        for _ in 0..turns {
            self.spent = [0.0; 2];
            let things = scenario.turn(self);
            all += things;
            if matches!(mode, Mode::Timing) && things > 0 {
                for (nanos, spent) in self.nanos.iter_mut().zip(self.spent) {
                    nanos.push(spent / things as f64);
                }
            }
        }
        all
    }

    /// Runs some turns that do not count, then as many that do.
    pub(crate) fn time_round(&mut self, scenario: &mut dyn Scenario, warm_up: usize, turns: usize) {
        self.run(scenario, Mode::Idle, warm_up);
        self.run(scenario, Mode::Timing, turns);
    }

    /// Returns the nanoseconds for one item: the median of all turns.
    pub(crate) fn median(&mut self, end: usize) -> f64 {
        let nanos = &mut self.nanos[end];
        nanos.sort_unstable_by(f64::total_cmp);
        nanos.get(nanos.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// Runs one part, and nothing else: callgrind counts inside this function only.
#[inline(never)]
fn counted_part(part: &mut dyn FnMut()) {
    part();
    black_box(());
}

/// Runs the scenario that is counted, in the program that callgrind runs. Prints the number of things
/// handled.
#[expect(clippy::print_stdout, reason = "for the program that started this one")]
pub(crate) fn run_to_be_counted(scenario: &mut dyn Scenario, end: usize) {
    let mut meter = Meter::new();
    meter.run(scenario, Mode::Idle, WARM_UP_OF_COUNTING);
    println!("{}", meter.run(scenario, Mode::Counting { end }, TURNS_COUNTED));
}

/// Counts the instructions for one thing at one end of a scenario, under callgrind.
pub(crate) fn count_instructions(scenario: &str, end: usize) -> Result<f64, Uncounted> {
    instructions::count("counted_part", &[scenario, &end.to_string()])
}
