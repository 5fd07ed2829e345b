//! `evenkeel stats`: prints the figures of running commands, which their processes serve on sockets.

use std::time::Duration;

use clap::Args;
use evenkeel::core::time::Instant;
use evenkeel::link::Clock;
use evenkeel::metrics::{self, Interface, Process, Published, Snapshot, Socket, Unreadable};
use evenkeel_apps::counters::HostCounters;
use evenkeel_apps::quantity::{self, count};
use schemars::JsonSchema;
use serde::Serialize;

use super::account;
use crate::failure::Failure;
use crate::manual::guide::{Example, Group, Guide};
use crate::manual::texts;
use crate::terminal;

/// Print the figures of running commands: frames, drops, sockets, processes, and the use of the core.
///
/// Every command that runs a host serves its figures on a socket for its own user, in
/// $XDG_RUNTIME_DIR/evenkeel or, for root without that variable, in /run/evenkeel. A command does no work for
/// it while nobody asks. So do programs that open an Endpoint of the library.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print the figures of this process [default: of all of this user].
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Print what was added in the next TIME, such as 1s, instead of since the start.
    #[arg(long, value_name = "TIME", value_parser = crate::quantity::period)]
    interval: Option<Duration>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// The report that `stats --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Stats {
    /// The running processes, by number.
    processes: Vec<Published>,
}

pub(crate) const GUIDE: Guide = Guide {
    groups: &[Group { heading: "Output", first: &["interval", "json"], others: &[] }],
    examples: &[
        Example {
            says: "Print the figures of all running commands of this user.",
            command: "evenkeel stats",
        },
        Example {
            says: "Print what one process did within a second.",
            command: "evenkeel stats 1234 --interval 1s",
        },
        Example {
            says: "List the sockets that have discarded frames.",
            command: "evenkeel stats --json |\n\
                      \x20 jq '.processes[].hosts[].sockets[] | select(.discarded > 0)'",
        },
    ],
    exit_status: &[
        ("0", "The figures are printed."),
        ("1", "No such process serves its figures to this user, or it does not answer."),
        ("2", texts::BAD_ARGUMENTS),
    ],
    files: &[
        ("$XDG_RUNTIME_DIR/evenkeel/PID", "The socket of a running command."),
        ("/run/evenkeel/PID", "The socket of a command that root runs without XDG_RUNTIME_DIR."),
    ],
    see_also: &["monitor", "schema"],
    ..Guide::EMPTY
};

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut processes = read_all(arguments.pid)?;
    if let Some(interval) = arguments.interval {
        wait(interval);
        let now = read_all(arguments.pid)?;
        processes = now.into_iter().filter_map(|now| since(now, &processes)).collect();
    }
    if arguments.json {
        return terminal::print_json(&Stats { processes });
    }
    terminal::print(&processes.iter().map(process).collect::<Vec<_>>().join("\n"))
}

/// Reads the figures of one process, or of all.
fn read_all(pid: Option<u32>) -> Result<Vec<Published>, Failure> {
    if let Some(pid) = pid {
        let read = metrics::fetch(pid).map_err(|error| Failure::machine(format!("process {pid}"), error));
        return Ok(vec![read?]);
    }
    // A process may end in between.
    let is_there = |read: &Result<_, _>| !matches!(read, Err(Unreadable::NoProcess | Unreadable::Stale));
    let read = metrics::running().into_iter().map(|pid| (pid, metrics::fetch(pid)));
    let read = read.filter(|(_, read)| is_there(read));
    let all: Result<Vec<_>, _> = read
        .map(|(pid, read)| read.map_err(|error| Failure::machine(format!("process {pid}"), error)))
        .collect();
    match all? {
        none if none.is_empty() => {
            Err(Failure::Machine("no running process serves its figures to this user".to_owned()))
        }
        all => Ok(all),
    }
}

fn wait(interval: Duration) {
    let clock = Clock::start();
    let end = Instant::ZERO + interval;
    while clock.now() < end {
        std::thread::park_timeout(end.since(clock.now()));
    }
}

/// Returns what a process has added since its earlier figures; `None` if it has none.
fn since(now: Published, earlier: &[Published]) -> Option<Published> {
    let earlier = earlier.iter().find(|earlier| earlier.pid == now.pid)?;
    let hosts = now.hosts.iter().zip(&earlier.hosts).map(|(now, earlier)| now.since(earlier)).collect();
    Some(Published { hosts, ..now })
}

fn process(process: &Published) -> String {
    let hosts: Vec<String> = process.hosts.iter().map(host).collect();
    let none = if hosts.is_empty() { "  no host answered\n" } else { "" };
    format!("{}: {}\n{none}{}", process.pid, process.program, hosts.join("\n"))
}

fn host(snapshot: &Snapshot) -> String {
    let (counters, frames) = (HostCounters::of(snapshot, snapshot.elapsed), snapshot.frames);
    let mut text = format!(
        "  {:.1} s, core {}\n  frames in: {} received, {} delivered, {} consumed, {} forwarded, {} queued\n  \
         frames out: {} originated, {} transmitted, {} waiting\n",
        snapshot.elapsed.as_secs_f64(),
        account::idle(&counters.cpu),
        count(frames.received),
        count(frames.delivered),
        count(frames.consumed),
        count(frames.forwarded),
        count(frames.queued),
        count(frames.originated),
        count(frames.transmitted),
        count(frames.waiting),
    );
    text.push_str(&account::drops(&counters));
    text.extend(snapshot.interfaces.iter().map(interface));
    text.push_str(&account::interfaces(&counters));
    text.extend(snapshot.processes.iter().map(bill));
    text.extend(snapshot.sockets.iter().map(socket));
    if snapshot.tcp.connections > 0 {
        text.push_str(&format!("  tcp: {} connections\n", count(snapshot.tcp.connections as u64)));
    }
    text
}

fn interface(Interface { name, received, missed, transmitted, .. }: &Interface) -> String {
    let [received, missed, transmitted] = [received, missed, transmitted].map(|frames| count(*frames));
    format!("  interface {name}: {received} received, {missed} missed, {transmitted} transmitted\n")
}

fn bill(Process { name, used, charged, .. }: &Process) -> String {
    let [used, charged] = [used, charged].map(|time| quantity::time(nanos(*time)));
    format!("  process {name}: {used} used, {charged} charged\n")
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn socket(socket: &Socket) -> String {
    let address = socket.address.map_or_else(|| "*".to_owned(), |address| address.to_string());
    let at = if socket.port == 0 { String::new() } else { format!(" {address} port {}", socket.port) };
    format!(
        "  {}{at}: {} arrived, {} discarded, {} received, {} dropped, {} sent, {} waiting\n",
        socket.kind,
        count(socket.arrived),
        count(socket.discarded),
        count(socket.received),
        count(socket.dropped),
        count(socket.sent),
        count(socket.waiting as u64),
    )
}
