//! The manual of the program: each command with its guide. It is one source for `-h`, `--help`, the man pages
//! and the page of options in the documentation.

pub(crate) mod brief;
pub(crate) mod guide;
#[cfg(test)]
mod markdown;
pub(crate) mod page;
pub(crate) mod texts;

use clap::{Arg, Command};

use crate::command::stream::{http, send};
use crate::command::{
    blast, completions, demo, doctor, guard, lab, load, metrics, monitor, route, schema, serve, stats, top,
    wan,
};
use guide::{Block, Example, Group, Guide, Section};

/// The guide to the program as a whole.
const PROGRAM: Guide = Guide {
    groups: &[
        Group { heading: "Experiments", first: &["demo", "lab"], others: &[] },
        Group { heading: "Servers", first: &["echo", "sink", "http"], others: &[] },
        Group { heading: "Generators", first: &["send", "blast", "load"], others: &[] },
        Group {
            heading: "Networks",
            first: &["doctor", "guard", "monitor", "route", "wan"],
            others: &["stats", "top", "metrics"],
        },
        Group { heading: "Help", first: &[], others: &["help", "man", "completions", "schema"] },
    ],
    sections: &[
        Section {
            heading: "Signals",
            blocks: &[
                Block::Terms(texts::REREAD_SIGNALS),
                Block::Text(
                    "demo and lab run end at once, without a report, and print their progress at SIGUSR1.",
                ),
            ],
        },
        Section {
            heading: "Shared options",
            blocks: &[Block::Terms(&[
                (
                    "evenkeel help receiving",
                    "Shows the options for receiving packets, which most commands have.",
                ),
                ("evenkeel help sending", "Shows the options for sending over TCP."),
            ])],
        },
    ],
    examples: &[
        Example {
            says: "Show receive livelock and its cure. It needs no root and takes about a minute.",
            command: "evenkeel demo",
        },
        Example {
            says: "Flood a host in memory with 10 million requests a second.",
            command: "evenkeel blast cable --rate 10M --duration 5s",
        },
        Example {
            says: "As root, answer the programs of this machine at 10.77.0.2.",
            command: "evenkeel echo tap:keel0 --kernel-address 10.77.0.1/24",
        },
    ],
    exit_status: &[
        ("0", "Success."),
        ("1", "The machine or a missing privilege prevented the work, or a check failed."),
        ("2", texts::BAD_ARGUMENTS),
    ],
    signals: &[],
    files: &[texts::TUN_FILE],
    see_also: &["demo", "help", "man"],
};

/// The guide to the command that shows help.
const HELP: Guide = Guide {
    examples: &[
        Example { says: "Show the help of a command.", command: "evenkeel help lab run" },
        Example { says: "Show the options for receiving packets.", command: "evenkeel help receiving" },
        Example { says: "Show the options for sending over TCP.", command: "evenkeel help sending" },
    ],
    exit_status: &[("0", "The help is printed."), ("2", "There is no such command or page.")],
    see_also: &["man"],
    ..Guide::EMPTY
};

/// The guide to the command that prints manual pages.
const MAN: Guide = Guide {
    groups: &[Group { heading: "Output", first: &["dir"], others: &[] }],
    examples: &[
        Example { says: "Read the page of a command.", command: "evenkeel man route | man -l -" },
        Example { says: "Read the page of evenkeel itself.", command: "evenkeel man | man -l -" },
        Example {
            says: "As root, install all pages.",
            command: "evenkeel man --dir /usr/local/share/man/man1",
        },
    ],
    exit_status: &[
        ("0", "The page is printed, or all are written."),
        ("1", "A page could not be written."),
        ("2", "There is no such command."),
    ],
    files: &[("DIR/evenkeel-route.1", "The page of a command, written with --dir.")],
    see_also: &["help", "completions", "man(1)"],
    ..Guide::EMPTY
};

/// The guides, each with the words of its command.
const GUIDES: [(&str, &Guide); 23] = [
    ("", &PROGRAM),
    ("demo", &demo::GUIDE),
    ("echo", &serve::ECHO_GUIDE),
    ("sink", &serve::SINK_GUIDE),
    ("send", &send::GUIDE),
    ("http", &http::GUIDE),
    ("blast", &blast::GUIDE),
    ("load", &load::GUIDE),
    ("monitor", &monitor::GUIDE),
    ("doctor", &doctor::GUIDE),
    ("guard", &guard::GUIDE),
    ("route", &route::GUIDE),
    ("wan", &wan::GUIDE),
    ("stats", &stats::GUIDE),
    ("top", &top::GUIDE),
    ("metrics", &metrics::GUIDE),
    ("lab", &lab::GUIDE),
    ("lab list", &lab::LIST_GUIDE),
    ("lab run", &lab::RUN_GUIDE),
    ("completions", &completions::GUIDE),
    ("schema", &schema::GUIDE),
    ("man", &MAN),
    ("help", &HELP),
];

/// Returns the guide to the command with these words, such as `lab run`; those of the program are empty.
pub(crate) fn guide(words: &str) -> &'static Guide {
    GUIDES.iter().find(|(name, _)| *name == words).map_or(&Guide::EMPTY, |(_, guide)| guide)
}

/// Returns the words of the subcommand `name` of the command with these words.
pub(crate) fn words_of(words: &str, name: &str) -> String {
    format!("{words} {name}").trim_start().to_owned()
}

/// Returns the command, which has these words, with its options in the groups of its guide.
pub(crate) fn grouped(command: Command, words: &str) -> Command {
    let guide = guide(words);
    let in_group = |arg: Arg| match guide.group(arg.get_id().as_str()) {
        Some(group) => arg.help_heading(group.heading),
        None => arg,
    };
    command.mut_args(in_group).mut_subcommands(|subcommand| {
        let words = words_of(words, subcommand.get_name());
        grouped(subcommand, &words)
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::command::help;

    /// Calls `see` with every command and its words.
    fn each(command: &Command, words: &str, see: &mut impl FnMut(&Command, &str)) {
        see(command, words);
        for subcommand in command.get_subcommands() {
            each(subcommand, &words_of(words, subcommand.get_name()), see);
        }
    }

    #[test]
    fn every_option_is_in_one_group_and_every_name_of_a_group_is_an_option() {
        each(&crate::Cli::command(), "", &mut |command, words| {
            let has_page = |arg: &Arg| help::PAGES.iter().any(|page| page.has(arg));
            let options = command.get_arguments().filter(|arg| !arg.is_positional() && !has_page(arg));
            let subcommands = command.get_subcommands().map(|subcommand| subcommand.get_name().to_owned());
            let mut there: Vec<String> =
                options.map(|arg| arg.get_id().to_string()).chain(subcommands).collect();
            let mut known: Vec<&str> = guide(words).groups.iter().flat_map(Group::names).collect();
            there.sort();
            known.sort_unstable();
            assert_eq!(there, known, "evenkeel {words}");
        });
    }

    #[test]
    fn completions_suggest_every_command() {
        let mut there = Vec::new();
        each(&crate::Cli::command(), "", &mut |command, words| {
            there.extend((!words.is_empty()).then(|| command.get_name().to_owned()));
        });
        let mut known = crate::suggest::COMMANDS.map(str::to_owned);
        there.sort();
        known.sort();
        assert_eq!(there, known);
    }

    /// Returns the words of a command line without its comments, variables and redirections.
    fn words_of_line(line: &str) -> Vec<String> {
        let (mut words, mut quote) = (vec![String::new()], None);
        for c in line.chars() {
            match (quote, c) {
                (None, ' ') => words.push(String::new()),
                (None, '|' | '>' | ';') => break,
                (None, '"' | '\'') => quote = Some(c),
                (Some(open), _) if open == c => quote = None,
                _ => words.last_mut().unwrap().push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn every_command_has_three_examples_that_it_understands() {
        /// Columns of a screen, without the indent of a command.
        const WIDTH: usize = 76;
        each(&crate::Cli::command(), "", &mut |_, words| {
            let examples = guide(words).examples;
            assert!(examples.len() >= 3, "evenkeel {words}");
            for Example { says, command } in examples {
                assert!(says.ends_with('.') && command.lines().all(|line| line.len() <= WIDTH), "{command}");
                let line = command.replace("\\\n", " ");
                let own = line.lines().filter_map(|line| line.find("evenkeel ").map(|at| &line[at..]));
                for line in own.filter(|_| !command.contains("/evenkeel") || command.starts_with("evenkeel"))
                {
                    let parsed = crate::Cli::command().try_get_matches_from(words_of_line(line));
                    assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
                }
            }
        });
    }

    #[test]
    fn every_page_that_a_guide_refers_to_exists() {
        let program = crate::Cli::command();
        for (words, guide) in GUIDES {
            for name in guide.see_also.iter().filter(|name| !name.contains('(')) {
                let (first, rest) = name.split_once(' ').unwrap_or((name, ""));
                let is_page = first == "help" && help::PAGES.iter().any(|page| page.name == rest);
                let mut found = program.find_subcommand(first);
                if !rest.is_empty() && !is_page {
                    found = found.and_then(|command| command.find_subcommand(rest));
                }
                assert!(found.is_some() && *name != words, "evenkeel {words} refers to {name}");
            }
        }
    }
}
