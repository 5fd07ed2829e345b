//! What soft timers cost on a real core, beside so many events that are pending.
//!
//! `cargo bench -p evenkeel-timers --bench soft` prints the table; `-- WORD` only the lines with that word in
//! their names; `-- --check` and `-- --renew` compare instructions with the figures in
//! `benches/instructions`, and write them.
//!
//! Time is the median of many turns, in rounds in which the scenarios take turns: a noisy minute hits all of
//! them. Instructions are counted by valgrind; they are the same whatever else the machine is doing.
#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]

#[path = "../../../evenkeel-core/benches/instructions/mod.rs"]
mod instructions;
#[path = "../../../evenkeel-ready/benches/ready/meter.rs"]
mod meter;
mod scenarios;

use std::process::ExitCode;

use instructions::COUNT_FLAG;
use instructions::kept::{Figures, Task};
use meter::{count_instructions, run_to_be_counted, time};
use scenarios::Scenario;

fn main() -> ExitCode {
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
        let figures = Figures { bench: "soft", of: "one check or event", names };
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
