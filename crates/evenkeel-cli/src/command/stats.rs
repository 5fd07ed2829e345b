//! `evenkeel stats`: prints the figures of running commands, which their processes serve on sockets.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use evenkeel::metrics::{self, Frames, Guarded, Interface, Process, Published, Snapshot, Socket, Unreadable};
use evenkeel::raw::time::{Clock, Instant};
use evenkeel_apps::counters::HostCounters;
use evenkeel_apps::quantity::{self, count};
use schemars::JsonSchema;
use serde::Serialize;

use super::{account, guard};
use crate::failure::Failure;
use crate::manual::guide::{Example, Group, Guide};
use crate::manual::texts;
use crate::table::{self, rows};
use crate::terminal;

/// Print the figures of running commands: frames, drops, sockets, processes, and the use of the core.
///
/// Every command that runs a host or a guard serves its figures on a socket for its own user, in
/// $XDG_RUNTIME_DIR/evenkeel or, for root and services without that variable, in /run/evenkeel. Root reads
/// the figures of all services. A command does no work for it while nobody asks. So do programs that open an
/// Endpoint of the library.
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
    files: texts::FIGURES,
    see_also: &["top", "monitor", "schema"],
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
    let guards = now.guards.iter().zip(&earlier.guards).map(|(now, earlier)| now.since(earlier)).collect();
    Some(Published { hosts, guards, ..now })
}

fn process(process: &Published) -> String {
    let hosts = process.hosts.iter().map(host);
    let parts: Vec<String> = hosts.chain(process.guards.iter().map(guarded)).collect();
    let none = if parts.is_empty() { "  no host answered\n" } else { "" };
    format!("{}: {}\n{none}{}", process.pid, process.program, parts.join("\n"))
}

fn guarded(guarded: &Guarded) -> String {
    format!("  behind {}: {}", guarded.interfaces.join(", "), guard::describe(guarded))
}

fn host(snapshot: &Snapshot) -> String {
    let counters = HostCounters::of(snapshot, snapshot.elapsed);
    let seconds = snapshot.elapsed.as_secs_f64();
    // Threads that share a host are not measured: the kernel has their times.
    let is_measured = snapshot.cpu.ran != Duration::ZERO || snapshot.cpu.idle != Duration::ZERO;
    let core = if is_measured { format!(", core {}", account::idle(&counters.cpu)) } else { String::new() };
    let mut tables = vec![frames(snapshot), interfaces(snapshot), processes(snapshot)];
    tables.extend((!snapshot.sockets.is_empty()).then(|| sockets(snapshot)));
    let tables: Vec<String> = tables.iter().map(|rows| table::text(rows)).collect();
    let connections = match snapshot.tcp.connections {
        0 => String::new(),
        open => format!("  {} TCP connections\n", count(open as u64)),
    };
    let (drops, devices) = (account::drops(&counters), account::interfaces(&counters));
    format!("  {seconds:.1} s{core}\n{}{connections}{drops}{devices}", tables.concat())
}

fn frames(snapshot: &Snapshot) -> Vec<Vec<String>> {
    let Frames { received, delivered, consumed, forwarded, queued, originated, transmitted, .. } =
        snapshot.frames;
    let numbers = [received, delivered, consumed, forwarded, queued, originated, transmitted].map(count);
    let [a, b, c, d, e, f, g] = numbers;
    let heading =
        ["", "received", "delivered", "consumed", "forwarded", "queued", "originated", "transmitted"];
    rows(heading, std::iter::once(["frames".to_owned(), a, b, c, d, e, f, g]))
}

fn interfaces(snapshot: &Snapshot) -> Vec<Vec<String>> {
    let row = |Interface { name, received, missed, transmitted, .. }: &Interface| {
        [name.clone(), count(*received), count(*missed), count(*transmitted)]
    };
    rows(["interface", "received", "missed", "transmitted"], snapshot.interfaces.iter().map(row))
}

fn processes(snapshot: &Snapshot) -> Vec<Vec<String>> {
    let time = |time: Duration| quantity::time(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let row = |process: &Process| [process.name.clone(), time(process.used), time(process.charged)];
    rows(["process", "used", "charged"], snapshot.processes.iter().map(row))
}

fn sockets(snapshot: &Snapshot) -> Vec<Vec<String>> {
    let row = |socket: &Socket| {
        let Socket { arrived, discarded, received, dropped, sent, waiting, .. } = *socket;
        let [a, b, c, d, e, f] = [arrived, discarded, received, dropped, sent, waiting as u64].map(count);
        [name(socket), a, b, c, d, e, f]
    };
    let heading = ["socket", "arrived", "discarded", "received", "dropped", "sent", "waiting"];
    rows(heading, snapshot.sockets.iter().map(row))
}

/// Returns the kind of a socket with its address.
pub(super) fn name(socket: &Socket) -> String {
    match (socket.address, socket.port) {
        (_, 0) => socket.kind.to_string(),
        (None, port) => format!("{} *:{port}", socket.kind),
        (Some(address), port) => format!("{} {}", socket.kind, SocketAddr::new(address, port)),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::metrics::{PortAccount, Protocol};

    use super::*;

    #[test]
    fn a_process_of_whose_hosts_none_answers_is_shown() {
        let silent = Published { pid: 7, program: "evenkeel echo".to_owned(), hosts: vec![], guards: vec![] };
        assert_eq!(process(&silent), "7: evenkeel echo\n  no host answered\n");
    }
    #[test]
    fn a_guard_is_shown_with_its_ports() {
        let port = PortAccount { protocol: Protocol::Udp, port: 53, passed: 4, dropped: 3, answered: 0 };
        let (interfaces, ports) = (vec!["g0".to_owned(), "g1".to_owned()], vec![port]);
        let guard = Guarded { seconds: 2.0, interfaces, dropped: 3, passed: 4, ports, ..Guarded::default() };
        let program = "evenkeel guard".to_owned();
        let text = process(&Published { pid: 7, program, hosts: vec![], guards: vec![guard] });
        let expected = "7: evenkeel guard\n  behind g0, g1: 3 dropped, 0 SYNs answered, 4 passed in \
                        2.00 s\n  udp 53                 3 dropped,           0 answered,           4 \
                        passed\n";
        assert_eq!(text, expected);
    }
}
