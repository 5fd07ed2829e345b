//! `evenkeel help`, and how help looks: a line or two for each option, and what many commands share on a page
//! of its own.

use clap::{Arg, ArgAction, Args as _, Command, CommandFactory as _};

use crate::failure::Failure;
use crate::receiving::{HEADING, Receiving};
use crate::{Cli, terminal};

/// The page about how packets are received.
const RECEIVING: &str = "receiving";
const POINTER: &str = "How packets are received can be chosen in more ways: evenkeel help receiving";

/// Show the help of a command, or a page about what several commands share: receiving.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  evenkeel help echo
  evenkeel help lab run
  evenkeel help receiving")]
pub(crate) struct Arguments {
    /// The command, or the page.
    #[arg(value_name = "TOPIC")]
    topic: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.topic == [RECEIVING] {
        return terminal::print(&receiving());
    }
    let mut command = compact(Cli::command().bin_name("evenkeel"));
    command.build();
    let mut shown = &mut command;
    for name in &arguments.topic {
        let found = shown.find_subcommand_mut(name);
        shown = found.ok_or_else(|| {
            Failure::Usage(format!("no command is called `{name}`, and no page; see `evenkeel --help`"))
        })?;
    }
    terminal::print(&shown.render_help().to_string())
}

/// All there is to choose about how packets are received.
fn receiving() -> String {
    let command = Command::new("receiving").disable_help_flag(true).help_template("{all-args}");
    let options = Receiving::augment_args(command).render_long_help();
    format!(
        "How packets are received: options of echo, sink, send, http, blast, load, monitor and \
         route.\n\n{options}"
    )
}

/// The command with help that fits onto a page: no empty lines between options, none of what has a page of
/// its own. What the description says beyond its first sentence, and examples, come last.
pub(crate) fn compact(command: Command) -> Command {
    let receives = command.get_arguments().any(is_about_receiving);
    let details = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    let details = details.split_once("\n\n").map(|(_, details)| details.to_owned());
    let pointer = receives.then(|| POINTER.to_owned());
    let examples = command.get_after_long_help().map(ToString::to_string);
    let after: Vec<String> = pointer.into_iter().chain(details).chain(examples).collect();
    let help = Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::HelpShort)
        .help("Print help")
        .help_heading(None::<&str>);
    let mut command = command.disable_help_flag(true).disable_help_subcommand(true).arg(help);
    if !after.is_empty() {
        command = command.after_help(after.join("\n\n"));
    }
    let hidden = |arg: Arg| {
        let hide = is_about_receiving(&arg) && arg.get_id() != "architecture";
        if hide { arg.hide(true) } else { arg }
    };
    command.mut_args(hidden).mut_subcommands(compact)
}

fn is_about_receiving(arg: &Arg) -> bool {
    arg.get_help_heading() == Some(HEADING)
}
