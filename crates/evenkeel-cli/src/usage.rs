//! Bad arguments, in one line.

use clap::error::{Error, ErrorKind};

/// What clap says over several lines, as one, with the way to help.
pub(crate) fn one_line(error: &Error, arguments: &[String]) -> String {
    format!("{}; see `{} --help`", said(error), command(arguments))
}

/// The same without.
pub(crate) fn said(error: &Error) -> String {
    let text = error.render().to_string();
    let said =
        text.lines().map(str::trim).take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more"));
    let said: Vec<&str> =
        said.filter(|l| !l.is_empty()).map(|l| l.strip_prefix("error: ").unwrap_or(l)).collect();
    let separator = if error.kind() == ErrorKind::MissingRequiredArgument { " " } else { "; " };
    said.join(separator)
}

/// The command that was meant: `evenkeel`, and the subcommands that were named.
fn command(arguments: &[String]) -> String {
    let mut path = "evenkeel".to_owned();
    let mut known = <crate::Cli as clap::CommandFactory>::command();
    for argument in arguments.iter().skip(1) {
        let Some(subcommand) = known.find_subcommand(argument) else { break };
        path = format!("{path} {argument}");
        known = subcommand.clone();
    }
    path
}
