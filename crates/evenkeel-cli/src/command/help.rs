//! `evenkeel help`, and the layout of help: a line or two for each option. Options of many commands have
//! pages of their own.

use clap::{Arg, ArgAction, Args as _, Command, CommandFactory as _};
use evenkeel_apps::text::nearest;

use crate::failure::Failure;
use crate::receiving::{self, Receiving};
use crate::sending::{self, Sending};
use crate::{Cli, terminal};

/// A help page for options that several commands share.
struct Page {
    name: &'static str,
    heading: &'static str,
    /// The one option of the page that each command shows.
    shown: &'static str,
    options: fn(Command) -> Command,
    commands: &'static str,
}

const PAGES: [Page; 2] = [
    Page {
        name: "receiving",
        heading: receiving::HEADING,
        shown: "architecture",
        options: Receiving::augment_args,
        commands: "echo, sink, send, http, blast, load, monitor and route",
    },
    Page {
        name: "sending",
        heading: sending::HEADING,
        shown: "limit_rate",
        options: Sending::augment_args,
        commands: "echo, sink, send and http",
    },
];

/// Show the help of a command, or a page about options that several commands share: receiving, or sending.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  evenkeel help echo
  evenkeel help lab run
  evenkeel help receiving
  evenkeel help sending")]
pub(crate) struct Arguments {
    /// Show the help of this command, or this page.
    #[arg(value_name = "TOPIC")]
    topic: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(page) = PAGES.iter().find(|page| arguments.topic == [page.name]) {
        return terminal::print(&page.text());
    }
    let mut command = compact(Cli::command().bin_name("evenkeel"));
    command.build();
    let mut known = &command;
    for name in &arguments.topic {
        known = known.find_subcommand(name).ok_or_else(|| unknown(name, known))?;
    }
    let mut shown = known.clone();
    terminal::print(&shown.render_help().to_string())
}

/// Returns the error that `name` is neither a command nor a page, with similar topics if there are any.
fn unknown(name: &str, among: &Command) -> Failure {
    let topics = among.get_subcommands().map(Command::get_name).chain(PAGES.iter().map(|page| page.name));
    let hint = match &nearest(name, topics)[..] {
        [] => String::new(),
        nearest => format!("; nearest: {}", nearest.join(", ")),
    };
    Failure::Usage(format!("no command is called `{name}`, and no page{hint}; see `evenkeel --help`"))
}

impl Page {
    /// Returns the page as text: all of its options, and the commands that have them.
    fn text(&self) -> String {
        let command = Command::new(self.name).disable_help_flag(true).help_template("{all-args}");
        let options = (self.options)(command).render_long_help();
        format!("{}: options of {}.\n\n{options}", self.heading, self.commands)
    }

    /// Returns the line of a command's help that points to this page.
    fn pointer(&self) -> String {
        format!("{}: more options in evenkeel help {}", self.heading, self.name)
    }

    fn has(&self, arg: &Arg) -> bool {
        arg.get_help_heading() == Some(self.heading)
    }
}

/// Returns the command with help that fits a page: no empty lines between options, and no options that have a
/// page of their own. The description beyond its first sentence comes last, with the examples.
pub(crate) fn compact(command: Command) -> Command {
    let pages = PAGES.iter().filter(|page| command.get_arguments().any(|arg| page.has(arg)));
    let pointers: Vec<String> = pages.map(Page::pointer).collect();
    let pointers = (!pointers.is_empty()).then(|| pointers.join("\n"));
    let details = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    let details = details.split_once("\n\n").map(|(_, details)| details.to_owned());
    let examples = command.get_after_long_help().map(ToString::to_string);
    let after: Vec<String> = pointers.into_iter().chain(details).chain(examples).collect();
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
        let hide = PAGES.iter().any(|page| page.has(&arg) && arg.get_id() != page.shown);
        if hide { arg.hide(true) } else { arg }
    };
    command.mut_args(hidden).mut_subcommands(compact)
}
