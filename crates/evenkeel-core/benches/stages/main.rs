//! What each stage costs per frame on a real core: nanoseconds, and instructions.
//!
//! `cargo bench -p evenkeel-core` prints the table; `-- WORD` only the stages with that word in their names.
//!
//! Time is the median of many batches, in rounds in which the stages take turns: a noisy minute hits all of them. Instructions are counted by
//! valgrind; they are the same whatever else the machine is doing, so a change shows in them first. Both are for one frame, with an empty
//! loop subtracted.
#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]

#[path = "../../tests/common/mod.rs"]
mod common;
mod filters;
mod measure;
mod rig;
mod router;
mod stages;
mod tcp;

use std::process::ExitCode;

use measure::{count_instructions, run_to_be_counted, time};
use stages::Stage;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let mut stages = stages::all();
    if let [flag, name] = &arguments[..]
        && flag == measure::COUNT_FLAG
    {
        return match stages.iter_mut().find(|s| s.name == name) {
            Some(stage) => run_to_be_counted(&mut *stage.batch),
            None => ExitCode::FAILURE,
        };
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
    if let Err(why) = loop_instructions {
        println!("instructions: not counted ({why})");
    }
    println!("{:<44} {:>10} {:>14}  goal", "stage, for one frame", "ns", "instructions");
    for (stage, nanos) in stages.iter().zip(nanos.iter().map(|n| n - nanos[0])).skip(1) {
        let counted = loop_instructions.and_then(|subtract| Ok(count_instructions(stage.name)? - subtract));
        let instructions = counted.map_or("-".to_owned(), |count| format!("{count:.0}"));
        let goal = stage.goal_ns.map_or(String::new(), |goal| {
            format!("under {goal} ns: {}", if nanos < goal { "met" } else { "MISSED" })
        });
        println!("{:<44} {nanos:>10.1} {instructions:>14}  {goal}", stage.name);
    }
}
