//! Short help, `-h`: one screen with a line for each option that a first use needs, and the names of the
//! others.

use clap::{Arg, Command};

/// The least number of columns of a screen.
const WIDTH: usize = 80;
/// The indent of the list of the other options' names.
const INDENT: &str = "  ";

/// The options that `-h` explains, for each command in the order of the command line. Arguments without a
/// name are always explained.
const SHOWN: [(&str, &[&str]); 12] = [
    ("demo", &["quick", "work", "architectures", "queues", "no_kernel", "report", "no_report", "json"]),
    ("echo", HOSTED),
    ("sink", HOSTED),
    ("http", &["size", "address", "kernel_address", "duration", "json"]),
    ("send", &["bytes", "output", "to", "from", "kernel_address", "gateway", "duration", "json"]),
    ("blast", &["rate", "to", "from", "kernel_address", "gateway", "flows", "count", "duration", "json"]),
    ("load", &["rate", "duration", "closed", "connections", "close", "timeout", "on", "json"]),
    ("monitor", &["write", "snaplen", "count", "print", "duration", "file_size", "json"]),
    ("route", &["link", "route", "rules", "config", "kernel_routes", "check", "duration", "json"]),
    ("wan", &["delay", "loss", "rate", "duration", "json"]),
    ("run", &["seeds", "real", "on", "csv", "markdown", "no_files", "json"]),
    ("completions", &["json"]),
];

const HOSTED: &[&str] = &["address", "kernel_address", "port", "duration", "json"];

/// Shortens the help of a command and its subcommands, as made by [`compact`](super::help::compact), to one
/// screen.
pub(crate) fn brief(command: Command) -> Command {
    let command = command.mut_subcommands(brief);
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let shown = SHOWN.iter().find(|(name, _)| *name == command.get_name()).map(|(_, shown)| *shown);
    let is_shown = |arg: &Arg| match shown {
        _ if arg.is_positional() || arg.get_id() == "help" => true,
        Some(shown) => shown.iter().any(|shown| arg.get_id() == shown),
        None => true,
    };
    let others = command.get_opts().chain(command.get_arguments().filter(|arg| is_flag(arg)));
    let mut others: Vec<String> = others
        .filter(|arg| !is_shown(arg))
        .filter_map(|arg| Some(format!("--{}", arg.get_long()?)))
        .collect();
    others.sort();
    others.dedup();
    let more =
        if others.is_empty() { String::new() } else { format!("More options:\n{}\n", columns(&others)) };
    let explained = "--help explains all, with examples.";
    command
        .about(first_clause(&about))
        .after_help(format!("{more}{explained}"))
        .mut_args(move |arg| if is_shown(&arg) { short(arg) } else { arg.hide(true) })
}

fn is_flag(arg: &Arg) -> bool {
    !arg.is_positional() && !arg.get_action().takes_values()
}

/// Returns the argument with only the first sentence of its help, and no list of values.
fn short(arg: Arg) -> Arg {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let hides_values = arg.get_action().takes_values();
    let arg = arg.help(first_clause(&help)).help_heading(None::<&str>);
    if hides_values { arg.hide_possible_values(true) } else { arg }
}

fn first_sentence(text: &str) -> String {
    let text = text.replace('\n', " ");
    text.split_once(". ").map_or(text.as_str(), |(first, _)| first).trim_end_matches('.').to_owned()
}

/// Returns the first sentence of `help`. A sentence that does not fit beside the option's name ends before
/// its details.
fn first_clause(help: &str) -> String {
    const ROOM: usize = WIDTH - 34;
    let sentence = first_sentence(help);
    let sentence = sentence.split(" [default").next().unwrap_or_default();
    if sentence.chars().count() <= ROOM {
        return sentence.to_owned();
    }
    let ends = [": ", "; ", ", ", " ("].into_iter().filter_map(|end| sentence.find(end));
    let clause = &sentence[..ends.filter(|&end| end <= ROOM).max().unwrap_or(sentence.len())];
    clause.trim_end_matches([',', ':', ';']).to_owned()
}

/// Returns the words in lines that fit the width of a screen.
fn columns(words: &[String]) -> String {
    let mut text = INDENT.to_owned();
    let mut column = INDENT.len();
    for (n, word) in words.iter().enumerate() {
        if n > 0 && column + 1 + word.len() > WIDTH {
            text.push('\n');
            text.push_str(INDENT);
            column = INDENT.len();
        } else if n > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.len();
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::command::help::compact;

    #[test]
    fn the_options_to_show_are_there() {
        let command = compact(crate::Cli::command());
        let lab = command.find_subcommand("lab").unwrap();
        for (name, shown) in SHOWN {
            let of = command.find_subcommand(name).or_else(|| lab.find_subcommand(name)).unwrap();
            for id in shown {
                assert!(of.get_arguments().any(|arg| arg.get_id() == id), "{name} has no {id}");
            }
        }
    }

    #[test]
    fn help_ends_where_it_goes_into_detail() {
        assert_eq!(first_clause("Port."), "Port");
        assert_eq!(
            first_clause("Stop after this long [default: 10s unless --count is given]."),
            "Stop after this long"
        );
        let long = "Our hardware address: own, device (that of packet:NAME), random, or one such as this.";
        assert_eq!(first_clause(long), "Our hardware address: own, device");
    }

    #[test]
    fn names_of_others_stand_in_lines_of_a_screen() {
        let words: Vec<String> = (0..40).map(|n| format!("--option-{n}")).collect();
        assert!(columns(&words).lines().all(|line| line.len() <= WIDTH && line.starts_with("  --")));
        assert_eq!(columns(&words).split_whitespace().count(), 40);
    }
}
