//! `evenkeel guard`: early discard in front of the kernel's own sockets.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use evenkeel::metrics::{Guarded, LimitedAccount, PortAccount, ThreadShare};
use evenkeel::raw::kernel::{Guard, GuardOptions};
use evenkeel::raw::privilege::CapabilitySet;
use evenkeel_apps::guard::{self, GuardError, Plan, Reread};
use evenkeel_apps::host_setup::Occasion;
use evenkeel_apps::quantity::{count, three_digits};

use super::config_file;
use crate::failure::Failure;
use crate::manual::guide::{Block, Example, Group, Guide, Section};
use crate::manual::texts;
use crate::supervision::{self, ServiceArguments};
use crate::terminal::{self, Progress};
use crate::{published, quantity};

/// Protect programs that stay on the kernel's sockets from floods.
///
/// The guard looks at the queue of the socket that a datagram is for. If the queue is full, the datagram is
/// dropped before the kernel works on it. So a flooded server gets time to read what it has, and the sockets
/// next to it keep theirs. If a TCP listener has a full queue of SYNs, the guard answers them in its place by
/// SYN cookies. Programs need no change.
#[derive(Debug, Clone, Args)]
#[command(args_override_self = true)]
pub(crate) struct Arguments {
    /// Guard the sockets behind network interface NAME.
    #[arg(value_name = "NAME", required = true)]
    interfaces: Vec<String>,
    /// Read options from a TOML file; read it again on SIGHUP.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Guard only sockets at these ports of UDP and TCP [default: all].
    #[arg(short, long, value_name = "PORT,...", value_delimiter = ',')]
    port: Vec<u16>,
    /// Drop and answer nothing; count what would be.
    #[arg(long)]
    dry_run: bool,
    /// Have threads do the interfaces' work, which get SHARE percent of a core while sockets are flooded
    /// [default: 10].
    #[arg(
        long,
        value_name = "SHARE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10",
        value_parser = clap::value_parser!(u8).range(1..=50),
        conflicts_with = "dry_run"
    )]
    threaded: Option<u8>,
    /// Stop after TIME, such as 10s [default: at Ctrl-C].
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    duration: Option<Duration>,
    #[command(flatten)]
    service: ServiceArguments,
    /// Report progress every TIME.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::period)]
    stats_interval: Duration,
    /// Print the final counters as one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) const GUIDE: Guide = Guide {
    groups: &[
        Group { heading: "Guard", first: &["port", "threaded", "dry_run"], others: &["config"] },
        Group { heading: "Run", first: &["duration"], others: &["user"] },
        Group { heading: "Output", first: &["json"], others: &["stats_interval"] },
    ],
    sections: &[
        Section {
            heading: "Interfaces",
            blocks: &[Block::Text(
                "It needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON) and /sys/kernel/btf/vmlinux. Behind \
             another XDP program, from Linux 6.6 on, it answers no SYNs. What the kernel would only refuse \
             (closed ports, segments of no connection) and requests for an echo are limited. Connections, \
             fragments, IP options, tunnels, groups with several sockets, and what is for other machines \
             go on to the kernel.",
            )],
        },
        Section {
            heading: "Threads",
            blocks: &[Block::Text(
                "Without --threaded the guard changes no setting of an interface. With it threads of the \
                 kernel do the work of the interface (threaded NAPI), and no other processor helps (RPS), \
                 until the guard ends. They run on any core that has time. While sockets are full, they \
                 have less weight than programs, so a server on the same core gets the rest. The \
                 interface loses more frames then, also those for other sockets. This needs CAP_SYS_NICE \
                 and a /sys that may be written.",
            )],
        },
    ],
    examples: &[
        Example {
            says: "As root, see for ten seconds what would be dropped.",
            command: "evenkeel guard eth0 --dry-run --duration 10s",
        },
        Example {
            says: "As root, protect a DNS and a web server.",
            command: "evenkeel guard eth0 --port 53,443",
        },
        Example {
            says: "As root, keep the work of the interface from taking a server's core.",
            command: "evenkeel guard eth0 --threaded",
        },
        Example {
            says: "As root, list the ports that were flooded.",
            command: "evenkeel guard eth0 eth1 --json | jq '.ports[] | select(.dropped > 0)'",
        },
    ],
    exit_status: texts::EXIT_STATUS,
    signals: texts::REREAD_SIGNALS,
    files: &[
        ("guard.toml", "A file of --config: options of the command line, in TOML."),
        ("/run/evenkeel/settings/PID", "The settings that --threaded has changed, as they were before."),
    ],
    see_also: &["top", "metrics", "monitor", "udp(7)", "tcp(7)", "ss(8)"],
};

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (given, arguments) = (arguments, &arguments.complete()?);
    let kept = if arguments.threaded.is_some() { CapabilitySet::SYS_NICE } else { CapabilitySet::empty() };
    arguments.service.begin(kept)?;
    let limits = published::limits(arguments.duration, Some(arguments.stats_interval))?;
    let mut progress = if arguments.json { Progress::silent() } else { Progress::new() };
    let began = |guard: &Guard| {
        supervision::say(&began(arguments));
        let behind: Vec<_> = guard.behind().collect();
        behind.iter().for_each(|interface| supervision::say(&second(interface)));
        let mute = guard.mute().filter(|interface| !behind.contains(interface));
        mute.for_each(|interface| supervision::say(&unanswered(interface)));
    };
    let watch = |occasion, guarded: &Guarded| match occasion {
        Occasion::Interval => progress.show(&line(guarded)),
        Occasion::Request => {
            progress.clear();
            // The error is ignored: if the reader has gone, the final report fails, too.
            let _ = arguments.print(guarded);
        }
    };
    let plan = Plan {
        interfaces: arguments.interfaces.clone(),
        options: arguments.options(),
        share: arguments.threaded,
        reread: given.config.is_some().then(|| -> Reread<'_> { Box::new(|| arguments.changed(given)) }),
    };
    let guarded = guard::run(plan, limits, supervision::say, began, published::publish_guard, watch)?;
    drop(progress);
    arguments.print(&guarded)
}

impl From<GuardError> for Failure {
    fn from(error: GuardError) -> Self {
        match error {
            GuardError::Link(error) => error.into(),
            GuardError::Machine(_) => Self::Machine(error.to_string()),
        }
    }
}

impl Arguments {
    /// Returns these arguments with the current options of the configuration file before them.
    fn complete(&self) -> Result<Self, Failure> {
        let Some(path) = &self.config else { return Ok(self.clone()) };
        match config_file::complete(path, "guard", &[])? {
            (crate::Command::Guard(arguments), _) => Ok(arguments),
            _ => Err(config_file::misplaced("guard")),
        }
    }

    fn options(&self) -> GuardOptions {
        GuardOptions { ports: self.port.clone(), counts_only: self.dry_run }
    }

    /// Reads the configuration file of the arguments as they were `given` again, which were these at the
    /// start. Returns the options that can change, and the line about them.
    fn changed(&self, given: &Self) -> Result<(GuardOptions, String), String> {
        let again = given.complete().map_err(|failure| failure.to_string())?;
        if again.threaded != self.threaded {
            return Err("`threaded` cannot change while the guard runs".to_owned());
        }
        Ok((again.options(), began(&again)))
    }

    fn print(&self, guarded: &Guarded) -> Result<(), Failure> {
        if self.json { terminal::print_json(guarded) } else { terminal::print(&describe(guarded)) }
    }
}

/// Returns the line that says what is guarded.
fn began(arguments: &Arguments) -> String {
    let sockets = match arguments.port.as_slice() {
        [] => "all sockets".to_owned(),
        ports => {
            let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
            format!("sockets at {} {}", if ports.len() == 1 { "port" } else { "ports" }, ports.join(", "))
        }
    };
    let only = if arguments.dry_run { ", and dropping nothing" } else { "" };
    let threads = if arguments.threaded.is_some() { ", whose work threads do" } else { "" };
    format!("guarding {sockets} behind {}{threads}{only}", arguments.interfaces.join(", "))
}

/// Returns the line that says that an interface has an XDP program of somebody else.
fn second(interface: &str) -> String {
    format!(
        "{interface} has another XDP program: guarding behind it, at a higher cost, and SYNs are left to the \
         kernel"
    )
}

/// Returns the line that says why the kernel answers all SYNs that come through an interface.
fn unanswered(interface: &str) -> String {
    format!(
        "SYNs at {interface} are left to the kernel: a veth drops answers unless its other end has an XDP \
         program"
    )
}

fn line(guarded: &Guarded) -> String {
    let Guarded { seconds, passed, dropped, answered, .. } = guarded;
    format!(
        "{seconds:>6.1} s  {} dropped, {} SYNs answered, {} passed",
        count(*dropped),
        count(*answered),
        count(*passed)
    )
}

/// The most ports that the report lists.
const LISTED: usize = 20;

/// Returns the account as text: the ports with most drops first.
pub(super) fn describe(guarded: &Guarded) -> String {
    let Guarded { seconds, dry_run, passed, dropped, answered, ports, limited, threads, .. } = guarded;
    let would = if *dry_run { "would have been: " } else { "" };
    let mut text = format!(
        "{would}{} dropped, {} SYNs answered, {} passed in {} s\n",
        count(*dropped),
        count(*answered),
        count(*passed),
        three_digits(*seconds)
    );
    for PortAccount { protocol, port, passed, dropped, answered } in
        guarded.worst_first().into_iter().take(LISTED)
    {
        let name = format!("{} {port}", protocol.name());
        text.push_str(&row(&name, *dropped, *answered, *passed));
    }
    if ports.len() > LISTED {
        text.push_str(&format!("  and {} other ports\n", ports.len() - LISTED));
    }
    for LimitedAccount { kind, passed, dropped } in limited {
        text.push_str(&row(kind.label(), *dropped, 0, *passed));
    }
    if let Some(ThreadShare { percent, lowered_seconds }) = threads {
        let seconds = three_digits(*lowered_seconds);
        text.push_str(&format!(
            "  the interface's threads were held to {percent} % of a core for {seconds} s\n"
        ));
    }
    text
}

fn row(name: &str, dropped: u64, answered: u64, passed: u64) -> String {
    let [dropped, answered, passed] = [dropped, answered, passed].map(count);
    format!("  {name:<11}  {dropped:>11} dropped, {answered:>11} answered, {passed:>11} passed\n")
}
