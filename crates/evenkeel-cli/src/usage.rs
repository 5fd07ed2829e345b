//! One-line messages about bad arguments.

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Arg, Command, CommandFactory as _};

/// Returns clap's error as one line that ends with the command for help.
pub(crate) fn one_line(error: &Error, arguments: &[String]) -> String {
    format!("{}; see `{} --help`", said(error), command(arguments))
}

/// Returns clap's error as one line, without its usage and its hint at help.
pub(crate) fn said(error: &Error) -> String {
    let text = error.render().to_string();
    let said =
        text.lines().map(str::trim).take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more"));
    let said: Vec<&str> =
        said.filter(|l| !l.is_empty()).map(|l| l.strip_prefix("error: ").unwrap_or(l)).collect();
    let separator = if error.kind() == ErrorKind::MissingRequiredArgument { " " } else { "; " };
    expected(said.join(separator))
}

/// Returns a message with what was expected in place of what the libraries say.
pub(crate) fn expected(said: String) -> String {
    EXPECTED.iter().fold(said, |said, (library, ours)| said.replace(library, ours))
}

/// Messages of the standard library and of clap about values that they refuse, each with its replacement.
const EXPECTED: [(&str, &str); 8] = [
    ("invalid digit found in string", "expected a whole number"),
    ("cannot parse integer from empty string", "expected a whole number"),
    ("number too large to fit in target type", "expected a smaller number"),
    ("number too small to fit in target type", "expected a larger number"),
    ("invalid float literal", "expected a number, such as 0.5"),
    ("cannot parse float from empty string", "expected a number, such as 0.5"),
    ("provided string was not `true` or `false`", "expected true or false"),
    // `route` and `wan` take one link in this way, which has both ends.
    ("[possible values: cable]", "expected cable, or two links, each with --link"),
];

/// Returns the error that fits the user's intention. A negative value looks like an unknown option; here the
/// message names the values that its option expects.
pub(crate) fn meant(error: Error, arguments: &[String]) -> Error {
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(unknown)) if error.kind() == ErrorKind::UnknownArgument => unknown,
        _ => return error,
    };
    let is_negative =
        |value: &str| value.strip_prefix('-').is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit()));
    // For `-5s` clap names only `-5`.
    let before = arguments.windows(2).find_map(|pair| match pair {
        [option, value] if is_negative(value) && value.starts_with(unknown.as_str()) => Some(option),
        _ => None,
    });
    let Some(option) = before.and_then(|option| option.strip_prefix('-')) else { return error };
    let is_it = |arg: &Arg| match option.strip_prefix('-') {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| option.chars().eq([short])),
    };
    let takes_hyphens = |arg: Arg| if is_it(&arg) { arg.allow_hyphen_values(true) } else { arg };
    fn everywhere(command: Command, change: &impl Fn(Arg) -> Arg) -> Command {
        command.mut_args(change).mut_subcommands(|command| everywhere(command, change))
    }
    let command = everywhere(crate::Cli::command(), &takes_hyphens);
    command.try_get_matches_from(arguments).err().unwrap_or(error)
}

/// Returns the command that was meant: `evenkeel` and the subcommands that `arguments` name.
fn command(arguments: &[String]) -> String {
    let mut path = "evenkeel".to_owned();
    let mut known = crate::Cli::command();
    for argument in arguments.iter().skip(1) {
        let Some(subcommand) = known.find_subcommand(argument) else { break };
        path = format!("{path} {argument}");
        known = subcommand.clone();
    }
    path
}
