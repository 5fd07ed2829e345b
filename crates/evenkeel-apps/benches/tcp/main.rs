//! TCP between two processors: two of our hosts on a cable, two of smoltcp's on such a cable, and the
//! kernel's loopback.
//!
//! `cargo bench -p evenkeel-apps --bench tcp` prints the table. `-- --rounds 5` gives more rounds, and `--
//! WORD` selects contenders with that word in their names. `-- --profile NAME WORKLOAD SECONDS` only runs one
//! of them, for a profiler. The kernel's part needs root, `ip` and `ethtool`. It has its own network
//! namespace, whose loopback is also measured like the other contenders: with an MTU of 1500 bytes and
//! without segmentation offload.
//!
//! Client and server have a processor each. The contenders alternate, so that a noisy minute affects all, and
//! the table shows medians. Only their ratios matter.
//!
//! | workload | what is counted |
//! | --- | --- |
//! | bulk | bytes that the receiving program has read, of one connection |
//! | connections | opened, used for one byte in each direction, closed; 32 at a time |
//! | requests | of one byte, answered by one, on 32 connections that stay |
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may fail, and prints its table")]

mod kernel;
mod ours;
mod peer;
mod shared;

use std::process::ExitCode;
use std::sync::Arc;

use evenkeel::raw::cpu::cpus;
use evenkeel::raw::kernel::enter_new_network;
use evenkeel::raw::receive::Architecture;
use ours::Rest;
use shared::{Workload, measure};

/// The function that runs the two ends of a workload, each on a thread, until the run is over.
type Run = Box<dyn Fn(Workload, &Arc<shared::Progress>)>;

struct Contender {
    name: &'static str,
    run: Run,
}

fn contender(name: &'static str, run: impl Fn(Workload, &Arc<shared::Progress>) + 'static) -> Contender {
    Contender { name, run: Box::new(run) }
}

fn contenders(kernel: bool) -> Vec<Contender> {
    let mut all = Vec::new();
    for (name, architecture, rest, idle) in [
        ("evenkeel, soft-lrp", Architecture::SoftLrp, Rest::Halt, 0),
        ("evenkeel, soft-lrp, 100 000 idle", Architecture::SoftLrp, Rest::Halt, 100_000),
        ("evenkeel, eager", Architecture::Eager, Rest::Halt, 0),
        ("evenkeel, soft-lrp, never halting", Architecture::SoftLrp, Rest::Look, 0),
    ] {
        all.push(contender(name, move |workload, progress| {
            ours::run((architecture, rest), idle, workload, progress);
        }));
    }
    for (name, idle) in [("smoltcp", 0), ("smoltcp, 1 000 idle", 1_000)] {
        all.push(contender(name, move |workload, progress| peer::run(idle, workload, progress)));
    }
    if kernel {
        for (name, frames) in
            [("kernel, loopback as it comes", false), ("kernel, MTU 1500, no offload", true)]
        {
            all.push(contender(name, move |workload, progress| {
                kernel::set_loopback(frames);
                kernel::run(workload, progress);
            }));
        }
    }
    all
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if cpus().len() < 2 {
        println!("SKIPPED (one processor is not enough): tcp");
        return ExitCode::SUCCESS;
    }
    // Threads started from here are in the namespace, too.
    let kernel = enter_new_network().is_ok() && kernel::prepare();
    if !kernel {
        println!("SKIPPED (needs root, `ip` and `ethtool`): the kernel's loopback");
    }
    let mut contenders = contenders(kernel);
    if let [flag, name, workload, seconds] = &arguments[..]
        && flag == "--profile"
    {
        let contender = contenders.iter().find(|contender| contender.name == *name).unwrap();
        let workload = *Workload::ALL.iter().find(|known| known.name() == workload).unwrap();
        println!("{}", measure(workload, seconds.parse().unwrap(), &*contender.run));
        return ExitCode::SUCCESS;
    }
    let (rounds, words) = match &arguments[..] {
        [words @ .., flag, rounds] if flag == "--rounds" => (rounds.parse().unwrap(), words),
        words => (3, words),
    };
    contenders.retain(|contender| words.iter().all(|word| contender.name.contains(word.as_str())));
    compare(&contenders, rounds);
    ExitCode::SUCCESS
}

fn compare(contenders: &[Contender], rounds: usize) {
    for workload in Workload::ALL {
        let mut rates = vec![Vec::new(); contenders.len()];
        for _ in 0..rounds {
            for (contender, rates) in contenders.iter().zip(&mut rates) {
                rates.push(measure(workload, 0.5, &*contender.run));
            }
        }
        let medians: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
        println!("\n{:<36} {:>12} {:>22}", workload.name(), workload.unit(), "ours is so many times");
        for (contender, rate) in contenders.iter().zip(&medians) {
            let ratio = medians[0] / rate;
            println!("{:<36} {:>12.2} {ratio:>22.2}", contender.name, rate / workload.scale());
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
