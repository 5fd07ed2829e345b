//! The `evenkeel` command line program.
#![forbid(unsafe_code)]

mod address;
mod command;
mod failure;
mod manual;
mod message;
mod output_file;
mod published;
mod quantity;
mod receiving;
mod sending;
mod suggest;
mod supervision;
mod table;
mod terminal;
mod usage;
mod user;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use command::{
    blast, completions, demo, doctor, guard, help, lab, load, man, metrics, monitor, route, schema, serve,
    stats, stream, top, wan,
};
use failure::Failure;
use manual::brief::brief;

/// A network subsystem for servers that get more packets than they can take.
///
/// evenkeel decides early and cheaply which packets a program can still take. It does the costly work only
/// for those, and charges it to the receiving program. So delivered load keeps its peak where a flood has a
/// receive queue of its own; elsewhere the report says how much is lost.
///
/// Start with `evenkeel demo`: it needs no root and takes about a minute.
#[derive(Debug, Parser)]
#[command(
    name = "evenkeel",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Arguments),
    Echo(Box<serve::EchoArguments>),
    Sink(Box<serve::SinkArguments>),
    Send(Box<stream::send::Arguments>),
    Http(Box<stream::http::Arguments>),
    Blast(blast::Arguments),
    Load(Box<load::Arguments>),
    Monitor(monitor::Arguments),
    Doctor(doctor::Arguments),
    Guard(guard::Arguments),
    Route(Box<route::Arguments>),
    Wan(Box<wan::Arguments>),
    Stats(stats::Arguments),
    Top(top::Arguments),
    Metrics(metrics::Arguments),
    Lab(lab::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
    Schema(schema::Arguments),
    Help(help::Arguments),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect();
    let command = help::compact(Cli::command());
    // `-h` fits one screen; `--help` shows everything.
    let is_brief = arguments.iter().any(|argument| argument == "-h");
    let command = if is_brief { brief(command) } else { command };
    let matches = command.try_get_matches();
    match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => {
            let done = run(cli.command);
            supervision::stopping();
            published::close();
            done.map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
        }
        Err(error) => explain(error, &arguments),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Echo(arguments) => serve::echo(&arguments),
        Command::Sink(arguments) => serve::sink(&arguments),
        Command::Send(arguments) => stream::send::run(&arguments),
        Command::Http(arguments) => stream::http::run(&arguments),
        Command::Blast(arguments) => blast::run(&arguments),
        Command::Load(arguments) => load::run(&arguments),
        Command::Monitor(arguments) => monitor::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Guard(arguments) => guard::run(&arguments),
        Command::Route(arguments) => route::run(&arguments),
        Command::Wan(arguments) => wan::run(&arguments),
        Command::Stats(arguments) => stats::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Metrics(arguments) => metrics::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Man(arguments) => man::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Help(arguments) => help::run(&arguments),
    }
}

/// Prints help or the version if they were requested, and otherwise the error in one line.
fn explain(error: clap::Error, arguments: &[String]) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // clap colours help for a terminal.
            let printed = error.print().and_then(|()| io::stdout().flush());
            printed.map_or_else(|error| Failure::from(error).report(), |()| ExitCode::SUCCESS)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        _ => Failure::Usage(usage::one_line(&usage::meant(error, arguments), arguments)).report(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory as _;
        let command = super::help::compact(super::Cli::command());
        command.clone().debug_assert();
        super::brief(command).debug_assert();
    }
}
