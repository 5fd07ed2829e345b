//! `evenkeel man`: prints the manual pages, or writes them to a directory.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory as _, ValueHint};

use crate::failure::Failure;
use crate::manual::page::Page;
use crate::{manual, suggest, terminal};

/// Print the manual page of a command, or write all pages to a directory.
///
/// The pages are made from the definitions that --help is made from.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print the page of this command, such as route or lab run [default: that of evenkeel].
    #[arg(
        value_name = "COMMAND", conflicts_with = "dir", value_parser = suggest::command(&[]),
        hide_possible_values = true
    )]
    command: Vec<String>,
    /// Write all pages to DIR, which is created if it does not exist.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut program = manual::grouped(crate::Cli::command(), "").disable_help_subcommand(true);
    program.build();
    if let Some(directory) = &arguments.dir {
        fs::create_dir_all(directory).map_err(|error| cannot(directory, &error))?;
        return write(&program, "", directory);
    }
    let mut command = &program;
    for name in &arguments.command {
        command = command.find_subcommand(name).ok_or_else(|| super::help::unknown(name, command))?;
    }
    terminal::print(&Page::of(command, &arguments.command.join(" ")).text)
}

/// Writes the pages of a command and its subcommands.
fn write(command: &Command, words: &str, directory: &Path) -> Result<(), Failure> {
    let page = Page::of(command, words);
    let path = directory.join(&page.file);
    fs::write(&path, page.text).map_err(|error| cannot(&path, &error))?;
    command.get_subcommands().try_for_each(|subcommand| {
        write(subcommand, &manual::words_of(words, subcommand.get_name()), directory)
    })
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::machine(format!("cannot write {}", path.display()), error)
}
