//! Short help, `-h`: one screen with a line for each option that a first use needs, and the names of the
//! others.

use clap::{Arg, Command};

use super::guide::wrapped;
use crate::command::help;
use crate::manual;

/// The least number of columns of a screen.
const WIDTH: usize = 80;
/// Columns of an option, at most, beside which its meaning stands.
const WIDEST: usize = 36;

/// Shortens the help of a program and its commands, as made by [`compact`](help::compact), to one screen.
pub(crate) fn brief(mut program: Command) -> Command {
    program.build();
    shortened(program, "")
}

fn shortened(command: Command, words: &str) -> Command {
    let screen = screen(&command, words);
    command.override_help(screen).mut_subcommands(|subcommand| {
        let words = manual::words_of(words, subcommand.get_name());
        shortened(subcommand, &words)
    })
}

/// A line of the screen.
enum Line {
    /// A heading, and words behind it.
    Heading(&'static str, String),
    /// An option or a command, and the first clause of its meaning.
    Item(String, String),
    /// An argument without a name, and its meaning.
    Argument(String, String),
}

fn screen(command: &Command, words: &str) -> String {
    let mut lines: Vec<Line> = command.get_positionals().map(argument).collect();
    for group in manual::guide(words).groups {
        let others: Vec<String> = group.others.iter().filter_map(|name| named(command, name)).collect();
        let also = if group.first.is_empty() || others.is_empty() { "" } else { "also " };
        let others = format!("{also}{}", others.join(" "));
        lines.push(Line::Heading(group.heading, others));
        lines.extend(group.first.iter().filter_map(|name| explained(command, name)));
    }
    for page in help::pages(command) {
        let shown = named(command, page.shown).unwrap_or_default();
        let more = format!("{shown} (evenkeel help {})", page.name);
        lines.push(Line::Heading(page.heading, more));
    }
    let widths = lines.iter().map(|line| match line {
        Line::Heading(heading, _) => heading.len(),
        Line::Item(name, _) | Line::Argument(name, _) => name.chars().count() + 2,
    });
    let column = widths.max().unwrap_or_default().min(WIDEST) + 2;
    let lines: String = lines.iter().map(|line| line.text(column)).collect();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage();
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = first_clause(&about, WIDTH);
    let version = if command.get_version().is_some() { " --version prints the version." } else { "" };
    let pointer = format!("`{name} --help` explains all, with examples.{version}");
    format!("{about}\n\n{usage}\n\n{lines}{pointer}\n")
}

impl Line {
    fn text(&self, column: usize) -> String {
        match self {
            Self::Heading(heading, more) if more.is_empty() => format!("{heading}\n"),
            Self::Heading(heading, more) => {
                let more = wrapped(more, &" ".repeat(column), WIDTH);
                format!("{heading:<column$}{}", more.trim_start())
            }
            Self::Item(name, meaning) => beside(name, &first_clause(meaning, WIDTH - column), column),
            Self::Argument(name, meaning) => beside(name, &first_sentence(meaning), column),
        }
    }
}

/// Returns a name, and its meaning beside it from `column` on.
fn beside(name: &str, meaning: &str, column: usize) -> String {
    let meaning = wrapped(meaning, &" ".repeat(column), WIDTH);
    format!("  {name:<rest$}{}", meaning.trim_start(), rest = column - 2)
}

/// Returns the name of an option, or of a subcommand, as it is typed.
fn named(command: &Command, name: &str) -> Option<String> {
    let subcommand = command.find_subcommand(name).map(|found| found.get_name().to_owned());
    subcommand.or_else(|| {
        let option = command.get_arguments().find(|arg| arg.get_id() == name)?;
        Some(format!("--{}", option.get_long()?))
    })
}

/// Returns the line about an option or a subcommand.
fn explained(command: &Command, name: &str) -> Option<Line> {
    let option = command.get_arguments().find(|arg| arg.get_id() == name).map(item);
    option.or_else(|| {
        let subcommand = command.find_subcommand(name)?;
        let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
        Some(Line::Item(subcommand.get_name().to_owned(), about))
    })
}

/// Returns the line about an argument without a name.
fn argument(arg: &Arg) -> Line {
    match item(arg) {
        Line::Item(name, help) => Line::Argument(name, help),
        other => other,
    }
}

fn item(arg: &Arg) -> Line {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let value = arg.get_value_names().and_then(|names| names.first()).map(|name| essential(name));
    let value = value.filter(|_| arg.get_action().takes_values()).map(|value| format!("<{value}>"));
    let short = arg.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let name = match arg.get_long() {
        Some(long) => format!("{short}--{long} {}", value.unwrap_or_default()).trim_end().to_owned(),
        None => value.unwrap_or_default(),
    };
    Line::Item(name, help)
}

/// Returns the name of a value without the parts in brackets, which may be left out.
fn essential(name: &str) -> String {
    let mut depth = 0;
    let kept = name.chars().filter(|c| {
        depth += i32::from(*c == '[');
        let keep = depth == 0;
        depth -= i32::from(*c == ']');
        keep
    });
    kept.collect()
}

fn first_sentence(text: &str) -> String {
    let text = text.replace('\n', " ");
    text.split_once(". ").map_or(text.as_str(), |(first, _)| first).trim_end_matches('.').to_owned()
}

/// Returns the first sentence of `help`. A sentence that does not fit `room` ends before its details.
fn first_clause(help: &str, room: usize) -> String {
    /// Characters of a clause, at least.
    const SHORTEST: usize = 15;
    let sentence = first_sentence(help);
    let sentence = sentence.split(" [default").next().unwrap_or_default();
    if sentence.chars().count() <= room {
        return sentence.to_owned();
    }
    let ends = [": ", "; ", ", ", " ("].into_iter().flat_map(|end| sentence.match_indices(end));
    let end = ends.map(|(at, _)| at).filter(|at| (SHORTEST..=room).contains(at)).min();
    sentence[..end.unwrap_or(sentence.len())].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_ends_where_it_goes_into_detail() {
        assert_eq!(first_clause("Port.", 46), "Port");
        assert_eq!(
            first_clause("Stop after this long [default: 10s unless --count is given].", 46),
            "Stop after this long"
        );
        let long = "Our hardware address: own, device (that of packet:NAME), random, or one such as this.";
        assert_eq!(first_clause(long, 46), "Our hardware address");
        let rate =
            "On cable: send requests at this rate, such as 500k or max, which is all that is possible.";
        assert_eq!(first_clause(rate, 46), "On cable: send requests at this rate");
    }

    #[test]
    fn values_are_named_without_what_may_be_left_out() {
        assert_eq!(essential("[NAME=]DEVICE[,ADDRESS/LENGTH...]"), "DEVICE");
        assert_eq!(essential("RATE[/RATE]"), "RATE");
        assert_eq!(essential("FILE"), "FILE");
    }
}
