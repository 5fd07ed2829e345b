//! `evenkeel top`: shows in the terminal what running commands do, as `evenkeel stats` reads it.
//!
//! | subject | file |
//! | --- | --- |
//! | rates of a host, and of a guard, over an interval | `rates.rs`; `guard_rates.rs` |
//! | what is known of all processes: answers, histories, silence | `model.rs` |
//! | the lines about a host | `text.rs` |
//! | keys, and what the user chose to see; the picture | `choice.rs`; `view.rs` |
//! | threads that wait: questions, keys, signals | `sources.rs` |
//! | which processes are asked, and when | `watched.rs` |
//! | the live view; one interval as text or JSON | `live.rs`; `once.rs` |

mod choice;
mod guard_rates;
mod live;
mod model;
mod once;
mod rates;
#[cfg(test)]
mod samples;
mod sources;
mod text;
mod view;
mod watched;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;

use crate::failure::Failure;
use crate::manual::guide::{Block, Example, Group, Guide, Section};
use crate::manual::texts;
use crate::quantity;
pub(crate) use once::Top;
use watched::Watched;

/// The shortest interval. Each question costs the asked host some microseconds.
const SHORTEST: Duration = Duration::from_millis(100);

/// Show in the terminal what running commands do: frames, drops, flooded sockets, and who pays for the core.
///
/// The command reads the figures that every command with a host or a guard serves, as `evenkeel stats` does,
/// and shows how they grow. It needs no root to watch the processes of its own user. It follows those that
/// come and go.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Watch these processes [default: all of this user].
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pids: Vec<u32>,
    /// Read the figures every TIME, at least 100ms.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Stop after TIME, such as 10s [default: at q or Ctrl-C].
    #[arg(long, value_name = "TIME", value_parser = quantity::time, conflicts_with = "once")]
    duration: Option<Duration>,
    /// Print one interval as text, and end.
    #[arg(long)]
    once: bool,
    /// With --once: print one JSON object instead of text.
    #[arg(long, requires = "once")]
    json: bool,
}

pub(crate) const GUIDE: Guide = Guide {
    groups: &[
        Group { heading: "Run", first: &["interval", "duration"], others: &[] },
        Group { heading: "Output", first: &["once", "json"], others: &[] },
    ],
    sections: &[Section {
        heading: "Keys",
        blocks: &[Block::Terms(&[
            ("q, Esc, Ctrl-C", "Quit."),
            ("p", "Pause the picture. Figures are still read."),
            ("Tab, 1 to 9", "Choose a host or a guard."),
            ("arrows, PgUp", "Scroll, as PgDn, Home and End do."),
            ("s", "Sort the sockets by lost, delivered or waiting frames, or by name."),
            ("?", "Explain the keys and the figures."),
        ])],
    }],
    examples: &[
        Example { says: "Watch all running commands of this user.", command: "evenkeel top" },
        Example {
            says: "Watch one process, five times a second.",
            command: "evenkeel top 1234 --interval 200ms",
        },
        Example {
            says: "List the flooded sockets.",
            command: "evenkeel top --once --json |\n\
                      \x20 jq '.processes[].hosts[].sockets[] | select(.flooded).name'",
        },
    ],
    exit_status: &[
        ("0", "A key, a signal or --duration ended the view, or the interval is printed."),
        (
            "1",
            "No such process serves its figures to this user, or the terminal cannot be used. Without a PID, \
             only --once needs a running process.",
        ),
        ("2", "An argument is wrong, or standard output is no terminal and --once is missing."),
    ],
    signals: &[("SIGINT, SIGTERM, SIGHUP", "End the view and restore the terminal.")],
    files: texts::FIGURES,
    see_also: &["stats", "schema"],
};

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let watched = Watched { pids: arguments.pids.clone(), interval: arguments.interval };
    if arguments.once {
        return once::run(&watched, arguments.json);
    }
    if !io::stdout().is_terminal() {
        let line = "standard output is no terminal: `evenkeel top --once` prints one interval as text";
        return Err(Failure::Usage(line.to_owned()));
    }
    live::run(watched, arguments.duration)
}

/// Reads the time between two questions.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = quantity::time(text).ok().filter(|time| *time >= SHORTEST);
    interval.ok_or_else(|| "expected a time of at least 100ms, such as 200ms or 1s".to_owned())
}
