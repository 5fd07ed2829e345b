//! `evenkeel completions`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::terminal;

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel completions bash > ~/.local/share/bash-completion/completions/evenkeel
  evenkeel completions zsh > \"${fpath[1]}/_evenkeel\"
  evenkeel completions fish > ~/.config/fish/completions/evenkeel.fish")]
pub(crate) struct Arguments {
    /// The shell.
    shell: Shell,
    /// Print an object with the fields `shell` and `script` instead.
    #[arg(long)]
    json: bool,
}

#[derive(serde::Serialize)]
struct Completions {
    shell: String,
    script: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::Cli::command(), "evenkeel", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    if arguments.json {
        return terminal::print_json(&Completions { shell: arguments.shell.to_string(), script });
    }
    terminal::print(&script)
}
