//! The cost of each stage per frame on a real core, in nanoseconds and in instructions.
//!
//! `cargo bench -p evenkeel-core --bench stages` prints the table; `-- WORD` only the stages with that word
//! in their names; `-- --check` and `-- --renew` compare instructions with the figures in
//! `benches/instructions`, and write them.
//!
//! Time is the median of many batches, in rounds in which the stages take turns: a noisy minute hits all of
//! them. Instructions are counted by valgrind; they are the same whatever else the machine is doing, so a
//! change shows in them first. Both are for one frame, with an empty loop subtracted.
#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]

mod batch;
#[path = "../../tests/common/mod.rs"]
mod common;
mod filters;
#[path = "../instructions/mod.rs"]
mod instructions;
mod measure;
mod ready;
mod rig;
mod router;
mod stages;
mod tcp;

use std::process::ExitCode;

use batch::Stage;
use instructions::COUNT_FLAG;
use instructions::kept::{Figures, Task};
use measure::{count_instructions, run_to_be_counted, time};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let mut stages = stages::all();
    if let [flag, name] = &arguments[..]
        && flag == COUNT_FLAG
    {
        run_to_be_counted(stages.iter_mut().find(|s| s.name == name).unwrap().batch());
        return ExitCode::SUCCESS;
    }
    if let Some(task) = Task::of(&arguments) {
        return keep(task, &stages);
    }
    // The empty loop stays: it is subtracted from the others.
    stages.retain(|s| s.name == stages::EMPTY || arguments.iter().all(|word| s.name.contains(word.as_str())));
    report(&mut stages);
    ExitCode::SUCCESS
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn report(stages: &mut [Stage]) {
    let nanos = time(stages);
    let loop_instructions = count_instructions(stages::EMPTY);
    if let Err(uncounted) = loop_instructions {
        println!("instructions: not counted ({})", uncounted.why());
    }
    println!("{:<44} {:>10} {:>14}  goal", "stage, for one frame or event", "ns", "instructions");
    for (stage, nanos) in stages.iter().zip(nanos.iter().map(|n| n - nanos[0])).skip(1) {
        let counted = loop_instructions.and_then(|subtract| Ok(count_instructions(stage.name)? - subtract));
        let instructions = counted.map_or("-".to_owned(), |count| format!("{count:.0}"));
        let goal = stage.goal_ns.map_or(String::new(), |goal| {
            format!("under {goal} ns: {}", if nanos < goal { "met" } else { "MISSED" })
        });
        println!("{:<44} {nanos:>10.1} {instructions:>14}  {goal}", stage.name);
    }
}

/// Checks or renews the figures, one for each stage.
fn keep(task: Task, stages: &[Stage]) -> ExitCode {
    let names = stages.iter().map(|s| s.name.to_owned()).filter(|name| name != stages::EMPTY).collect();
    let figures = Figures { bench: "stages", of: "one frame in each stage", names };
    let subtract = count_instructions(stages::EMPTY);
    figures.run(task, |n| Ok(count_instructions(&figures.names[n])? - subtract?))
}
