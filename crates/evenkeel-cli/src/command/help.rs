//! `evenkeel help`, and the layout of `--help`: a line or two for each option. Options of many commands have
//! pages of their own.

use clap::{Arg, ArgAction, Args as _, Command, CommandFactory as _};
use evenkeel_apps::text::nearest;

use crate::failure::Failure;
use crate::receiving::{self, Receiving};
use crate::sending::{self, Sending};
use crate::{Cli, manual, suggest, terminal};

/// A help page for options that several commands share.
pub(crate) struct Page {
    pub(crate) name: &'static str,
    pub(crate) heading: &'static str,
    /// The one option of the page that each command shows.
    pub(crate) shown: &'static str,
    pub(crate) options: fn(Command) -> Command,
    pub(crate) commands: &'static str,
}

pub(crate) const PAGES: [Page; 2] = [
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
pub(crate) struct Arguments {
    /// Show the help of this command, or this page.
    #[arg(
        value_name = "TOPIC", value_parser = suggest::command(&["receiving", "sending"]),
        hide_possible_values = true
    )]
    topic: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(page) = PAGES.iter().find(|page| arguments.topic == [page.name]) {
        return terminal::print(&page.text());
    }
    let mut command = compact(Cli::command());
    command.build();
    let mut known = &command;
    for name in &arguments.topic {
        known = known.find_subcommand(name).ok_or_else(|| unknown(name, known))?;
    }
    let mut shown = known.clone();
    terminal::print(&shown.render_help().to_string())
}

/// Returns the error that `name` is neither a command nor a page, with similar topics if there are any.
pub(crate) fn unknown(name: &str, among: &Command) -> Failure {
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

    pub(crate) fn has(&self, arg: &Arg) -> bool {
        arg.get_help_heading() == Some(self.heading)
    }
}

/// The layout of `--help`: what the command is for, examples, options, and sections.
const TEMPLATE: &str = "{about-section}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

/// Returns the program with the help of `--help`: options in groups, without those that have a page of their
/// own, between the parts of the guides.
pub(crate) fn compact(program: Command) -> Command {
    laid_out(manual::grouped(program, ""), "", terminal::help_width())
}

/// Lays out the help of the command with these words, and of its subcommands.
fn laid_out(command: Command, words: &str, width: usize) -> Command {
    let guide = manual::guide(words);
    let details = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    let details = details.split_once("\n\n").map(|(_, details)| details.to_owned());
    let before: Vec<String> = details.into_iter().chain([guide.examples(width)]).collect();
    let pointers: Vec<String> = pages(&command).map(Page::pointer).collect();
    let after: Vec<String> = [pointers.join("\n"), guide.sections(width)].into();
    let text = |parts: Vec<String>| {
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("\n\n").trim_end().to_owned()
    };
    let heading = guide.group("json").map(|group| group.heading);
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
    let command = command
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .arg(help.help_heading(heading))
        .term_width(width)
        .help_template(TEMPLATE)
        .before_help(text(before))
        .after_help(text(after));
    let hidden = |arg: Arg| {
        let hide = PAGES.iter().any(|page| page.has(&arg) && arg.get_id() != page.shown);
        if hide { arg.hide(true) } else { arg }
    };
    command.mut_args(hidden).mut_subcommands(|subcommand| {
        let words = manual::words_of(words, subcommand.get_name());
        laid_out(subcommand, &words, width)
    })
}

/// Returns the pages that have options of a command.
pub(crate) fn pages(command: &Command) -> impl Iterator<Item = &'static Page> {
    PAGES.iter().filter(|page| command.get_arguments().any(|arg| page.has(arg)))
}
