//! The cost of TCP on a real core: alone, as two endpoints with memory between them, without IP, links or a
//! scheduler; and as part of two hosts on a cable.
//!
//! `cargo bench -p evenkeel-core --bench tcp` prints the table; `-- WORD` only the scenarios with that word
//! in their names; `-- --profile NAME` just runs one, for a profiler; `-- --check` and `-- --renew` compare
//! instructions with the figures in `benches/instructions`, and write them.
//!
//! Both ends are in one thread and take turns, so each is measured apart: what a core could do that had only
//! this end to run. Time is the median of many turns, in rounds in which the scenarios alternate: a noisy
//! minute hits all of them. Instructions are counted by valgrind; they are the same whatever else the machine
//! is doing.
#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]

mod bulk;
mod calls;
mod ends;
mod hosts;
#[path = "../instructions/mod.rs"]
mod instructions;
mod meter;

use std::process::ExitCode;

use evenkeel_core::receive::Architecture;
use hosts::{Conversation, Hosts};
use instructions::COUNT_FLAG;
use instructions::kept::{Figures, Task};
use meter::{Meter, Scenario, count_instructions};

/// Turns of each scenario in a round.
const TURNS: usize = 200;
const ROUNDS: usize = 25;
/// Windows open, tables fill and branch predictors settle first.
const WARM_UP: usize = 100;

/// Runs a scenario, whose name follows, for some seconds: for a profiler that samples.
const PROFILE_FLAG: &str = "--profile";
const PROFILED: usize = 50_000;

/// The numbers of idle connections, each with the words that it adds to a scenario's name.
const IDLE: [(&str, usize); 3] =
    [("", 0), (", 1 000 idle connections beside", 1_000), (", 100 000 idle connections beside", 100_000)];

/// Makes a scenario when it is needed: not each of the others, under callgrind, too.
type Make = Box<dyn Fn() -> Box<dyn Scenario>>;

fn scenarios() -> Vec<(String, Make)> {
    let mut all: Vec<(String, Make)> = Vec::new();
    for (beside, idle) in IDLE {
        all.push((format!("bulk{beside}"), Box::new(move || Box::new(bulk::Bulk::new(idle)))));
        all.push((format!("request{beside}"), Box::new(move || Box::new(calls::Requests::new(idle)))));
        all.push((format!("connection{beside}"), Box::new(move || Box::new(calls::Connections::new(idle)))));
    }
    for architecture in [Architecture::SoftLrp, Architecture::Eager] {
        for (what, conversation) in
            [("request", Conversation::Request), ("connection", Conversation::Connection)]
        {
            let name = format!("{what}, hosts with {architecture}");
            all.push((name, Box::new(move || Box::new(Hosts::new(architecture, conversation)))));
        }
    }
    all
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let mut scenarios = scenarios();
    if let [flag, name, end] = &arguments[..]
        && flag == COUNT_FLAG
    {
        meter::run_to_be_counted(&mut *make(&scenarios, name), end.parse().unwrap());
        return ExitCode::SUCCESS;
    }
    if let [flag, name] = &arguments[..]
        && flag == PROFILE_FLAG
    {
        Meter::new().time_round(&mut *make(&scenarios, name), PROFILED, 0);
        return ExitCode::SUCCESS;
    }
    if let Some(task) = Task::of(&arguments) {
        return keep(task, &scenarios);
    }
    scenarios.retain(|(name, _)| arguments.iter().all(|word| name.contains(word.as_str())));
    report(&scenarios);
    ExitCode::SUCCESS
}

fn make(scenarios: &[(String, Make)], name: &str) -> Box<dyn Scenario> {
    scenarios.iter().find(|(known, _)| known == name).unwrap().1()
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn report(scenarios: &[(String, Make)]) {
    let mut made: Vec<_> = scenarios.iter().map(|(_, make)| (make(), Meter::new())).collect();
    for _ in 0..ROUNDS {
        for (scenario, meter) in &mut made {
            meter.time_round(&mut **scenario, WARM_UP, TURNS);
        }
    }
    println!("{:<44} {:>8} {:>10} {:>14} {:>16}", "one of", "end", "ns", "instructions", "a core's rate");
    for ((name, _), (scenario, meter)) in scenarios.iter().zip(&mut made) {
        for (end, what) in scenario.ends().into_iter().enumerate() {
            let nanos = meter.median(end);
            let counted = count_instructions(name, end);
            let instructions = counted.map_or_else(|why| why.why().to_owned(), |count| format!("{count:.0}"));
            let rate = scenario.rate(nanos);
            println!("{name:<44} {what:>8} {nanos:>10.1} {instructions:>14} {rate:>16}");
        }
    }
}

/// Checks or renews the figures, one for each end of each scenario.
fn keep(task: Task, scenarios: &[(String, Make)]) -> ExitCode {
    let ends = |(name, make): &(String, Make)| make().ends().map(|end| (name.clone(), end));
    let counted: Vec<_> = scenarios.iter().flat_map(ends).collect();
    let names = counted.iter().map(|(name, end)| format!("{name}; {end}")).collect();
    let of = "one segment, request or connection";
    Figures { bench: "tcp", of, names }.run(task, |n| count_instructions(&counted[n].0, n % 2))
}
