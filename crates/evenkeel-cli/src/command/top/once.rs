//! One interval as text or JSON.

use std::sync::mpsc::{Receiver, Sender, channel};

use evenkeel::raw::time::{Clock, Duration, Instant};
use schemars::JsonSchema;
use serde::Serialize;

use super::guard_rates::GuardRates;
use super::model::{Model, Process, State};
use super::rates::HostRates;
use super::sources::Message;
use super::text::{self, Line, Order};
use super::watched::Watched;
use crate::failure::Failure;
use crate::terminal;

/// The time after which a question counts as unanswered. A reading thread gives up after five seconds, unless
/// it cannot even connect.
const PATIENCE: Duration = Duration::from_secs(6);

/// The report that `top --once --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Top {
    /// The running processes, by number.
    processes: Vec<ProcessRates>,
}

/// The hosts and guards of a process, each with its rates.
#[derive(Debug, Serialize, JsonSchema)]
struct ProcessRates {
    /// The number of the process.
    pid: u32,
    /// The program that the process runs, as it calls itself; empty if it has not answered.
    program: String,
    /// The reason why the process shows no hosts; `None` if it answered.
    silent: Option<String>,
    /// The hosts of the process. A host that no thread ran within a second is not among them.
    hosts: Vec<HostRates>,
    /// The guards of the process in front of the kernel's own sockets.
    guards: Vec<GuardRates>,
}

/// Reads the figures at both ends of one interval, and prints the rates.
pub(super) fn run(watched: &Watched, is_json: bool) -> Result<(), Failure> {
    let (clock, (sender, messages), mut model) = (Clock::start(), channel(), Model::default());
    read(watched, &mut model, clock, &sender, &messages);
    watched.check_any(&model)?;
    let end = clock.now() + watched.interval;
    while clock.now() < end {
        std::thread::park_timeout(end.since(clock.now()));
    }
    read(watched, &mut model, clock, &sender, &messages);
    watched.check_any(&model)?;
    print(&model, is_json)
}

/// Asks all processes, and waits for their answers.
fn read(
    watched: &Watched,
    model: &mut Model,
    clock: Clock,
    sender: &Sender<Message>,
    messages: &Receiver<Message>,
) {
    let begin = clock.now();
    watched.ask(model, begin, sender);
    let rest = |now: Instant| (begin + PATIENCE).since(now);
    while model.is_waiting() {
        let Ok(message) = messages.recv_timeout(rest(clock.now())) else { break };
        if let Message::Answer(pid, answer) = message {
            model.take(pid, answer, clock.now());
        }
    }
    model.look(clock.now());
}

fn print(model: &Model, is_json: bool) -> Result<(), Failure> {
    let processes = model.processes.iter();
    if is_json {
        let processes = processes.map(|(pid, process)| ProcessRates::of(*pid, process)).collect();
        return terminal::print_json(&Top { processes });
    }
    let all: Vec<String> = processes.map(|(pid, process)| describe(*pid, process)).collect();
    terminal::print(&all.join("\n"))
}

impl ProcessRates {
    fn of(pid: u32, process: &Process) -> Self {
        let hosts = process.hosts.iter().filter_map(|host| host.rates.clone()).collect();
        let guards = process.guards.iter().filter_map(|guard| guard.rates.clone()).collect();
        Self { pid, program: process.program.clone(), silent: silent(process), hosts, guards }
    }
}

/// Returns the reason why a process has not answered; `None` if it has.
fn silent(process: &Process) -> Option<String> {
    match &process.state {
        State::Answers => None,
        State::New | State::Silent(_) => Some("it does not answer".to_owned()),
        State::Unreadable(why) => Some(why.clone()),
    }
}

fn describe(pid: u32, process: &Process) -> String {
    let hosts = process.hosts.iter().filter_map(|host| host.rates.as_ref()).map(describe_host);
    let guards = process.guards.iter().filter_map(|guard| guard.rates.as_ref()).map(describe_guard);
    let parts: Vec<String> = hosts.chain(guards).collect();
    let none = match silent(process) {
        Some(why) => format!("  {why}\n"),
        None if parts.is_empty() => "  no host answered twice\n".to_owned(),
        None => String::new(),
    };
    format!("{pid}: {}\n{none}{}", process.program, parts.join("\n"))
}

fn describe_host(rates: &HostRates) -> String {
    whole(rates.seconds, text::host(rates, Order::default()))
}

fn describe_guard(rates: &GuardRates) -> String {
    whole(rates.seconds, text::guard(rates))
}

fn whole(seconds: f64, lines: Vec<Line>) -> String {
    let lines: String = lines.into_iter().map(|line| line.text + "\n").collect();
    format!("  {seconds:.2} s\n{lines}")
}
