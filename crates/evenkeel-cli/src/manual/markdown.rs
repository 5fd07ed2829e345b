//! The page of options in the documentation.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command, CommandFactory as _};

use crate::command::help::{self, PAGES};
use crate::manual;

/// The commands with a guide in the documentation, each with its file.
const GUIDES: [(&str, &str); 15] = [
    ("demo", "demo"),
    ("echo", "echo"),
    ("sink", "echo"),
    ("send", "send"),
    ("http", "http"),
    ("blast", "blast"),
    ("load", "load"),
    ("monitor", "monitor"),
    ("route", "route"),
    ("doctor", "doctor"),
    ("guard", "guard"),
    ("wan", "wan"),
    ("top", "top"),
    ("metrics", "metrics"),
    ("lab run", "lab"),
];

const INTRODUCTION: &str = "\
# Options

This page lists every option of every command, with its default. It is written from the definitions that the
program parses its command line with, so it is complete. `evenkeel COMMAND --help` shows the same text with
examples, and `evenkeel man COMMAND` makes a manual page of it.

A *time* has its unit: `500ns`, `1us`, `2.5ms`, `10s`, `1min`, `1h`. *Rates* and *counts* may have a
suffix: `500k`, `2M`, `1G`. Bits a second have their unit: `64kbit`, `50mbit`, `1gbit`. An option that is
\"repeated for more\" may be given several times. [Configuration files](configuration.md) of `route` and `wan`
have the options of these commands.
";

const END: &str = "
## Where to go next

[Exit status and signals](exit-status.md) says how a command ends. [JSON](json.md) explains what `--json`
prints.
";

/// Returns the page with a section for each command.
fn page() -> String {
    let mut program = manual::grouped(crate::Cli::command(), "");
    program.build();
    let mut page = INTRODUCTION.to_owned();
    for shared in &PAGES {
        let command = (shared.options)(Command::new(shared.name).disable_help_flag(true));
        let args: Vec<&Arg> = command.get_arguments().collect();
        let (heading, commands) = (shared.heading, shared.commands);
        _ = write!(page, "\n## {heading}\n\nThese are options of {commands}.\n\n{}", table(&args));
    }
    of_command(&program, "", &mut page);
    page + END
}

/// Adds a command's section, and those of its subcommands.
fn of_command(command: &Command, words: &str, page: &mut String) {
    if !words.is_empty() && !command.has_subcommands() {
        _ = write!(page, "\n{}", section(command, words));
    }
    for subcommand in
        command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help" || !words.is_empty())
    {
        of_command(subcommand, &manual::words_of(words, subcommand.get_name()), page);
    }
}

fn section(command: &Command, words: &str) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let mut text = format!("## {words}\n\n{}.\n\n```text\n{usage}\n```\n", about.trim_end_matches('.'));
    if let Some((_, guide)) = GUIDES.iter().find(|(name, _)| *name == words) {
        _ = write!(text, "\nThe [guide](../guides/{guide}.md) shows its use.\n");
    }
    let arguments: Vec<&Arg> = command.get_positionals().collect();
    if !arguments.is_empty() {
        _ = write!(text, "\n{}", table(&arguments));
    }
    for group in manual::guide(words).groups {
        let is_in = |arg: &&Arg| group.names().any(|name| arg.get_id() == name);
        let options: Vec<&Arg> = command.get_arguments().filter(is_in).collect();
        _ = write!(text, "\n**{}**\n\n{}", group.heading, table(&options));
    }
    let pages: Vec<String> = help::pages(command).map(|page| link(page.heading)).collect();
    if !pages.is_empty() {
        _ = write!(text, "\nThe command also has the options for {}.\n", pages.join(" and "));
    }
    text
}

/// Returns a link to a section of this page.
fn link(heading: &str) -> String {
    let (anchor, name) = (heading.to_lowercase().replace(' ', "-"), heading.to_lowercase());
    format!("[{}](#{anchor})", name.replace("tcp", "TCP"))
}

fn table(args: &[&Arg]) -> String {
    let rows: String = args.iter().map(|arg| row(arg)).collect();
    format!("| option | default | meaning |\n| --- | --- | --- |\n{rows}")
}

fn row(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let (help, said) = without_default(&help);
    let values: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let takes_value = arg.get_action().takes_values();
    let default = match said {
        Some(said) => said,
        None if values.is_empty() || !takes_value => String::new(),
        None => format!("`{}`", values.join(",")),
    };
    let meaning = format!("{}.{}", help.trim_end_matches('.'), possible_values(arg));
    format!("| {} | {default} | {} |\n", names(arg), meaning.replace('|', "\\|"))
}

/// Returns the text without its default in brackets, and that default.
fn without_default(help: &str) -> (String, Option<String>) {
    let Some((before, rest)) = help.split_once("[default: ") else { return (help.to_owned(), None) };
    let (default, after) = rest.split_once(']').unwrap_or((rest, ""));
    (format!("{}{after}", before.trim_end()), Some(default.to_owned()))
}

fn names(arg: &Arg) -> String {
    let value = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let value = value.filter(|_| arg.get_action().takes_values()).unwrap_or_default();
    let Some(long) = arg.get_long() else { return format!("`{value}`") };
    let long = match value.as_str() {
        "" => format!("--{long}"),
        _ if arg.is_require_equals_set() => format!("--{long}[={value}]"),
        _ => format!("--{long} {value}"),
    };
    let aliases = arg.get_visible_aliases().unwrap_or_default();
    let short = arg.get_short().map(|short| format!("-{short}"));
    let names = short.into_iter().chain([long]).chain(aliases.iter().map(|alias| format!("--{alias}")));
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Returns the sentence about the values of an option, if they are few and each has a meaning.
fn possible_values(arg: &Arg) -> String {
    if arg.is_hide_possible_values_set() || !arg.get_action().takes_values() {
        return String::new();
    }
    let values = arg.get_possible_values();
    let values: Vec<String> = values
        .iter()
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}`: {}", value.get_name(), help.to_string().trim_end_matches('.')),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if values.is_empty() { String::new() } else { format!(" Values: {}.", values.join("; ")) }
}

/// `UPDATE=1 cargo test -p evenkeel-cli --bin evenkeel options` writes the page again.
#[test]
fn the_page_of_options_is_current() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/options.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(file, page).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    let line = page.lines().zip(there.lines()).position(|(new, old)| new != old).map(|line| line + 1);
    assert!(
        there == page,
        "{} is not current, from line {line:?} on: run this test with UPDATE=1",
        file.display()
    );
}
