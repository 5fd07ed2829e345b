//! `evenkeel completions`.
//!
//! The scripts are those that clap generates, which know options and the values of enumerations, with a
//! function that names the network interfaces there are. clap's dynamic engine would ask the program at each
//! key instead, but is unstable, and cannot complete `packet:NAME` in bash, which splits words at colons.

use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::terminal;

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
bash, zsh and fish also complete the names of network interfaces.

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
    let script = script(arguments.shell);
    if arguments.json {
        return terminal::print_json(&Completions { shell: arguments.shell.to_string(), script });
    }
    terminal::print(&script)
}

fn script(shell: Shell) -> String {
    let (mut command, mut script) = (crate::Cli::command(), Vec::new());
    clap_complete::generate(shell, &mut command, "evenkeel", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => in_bash(&script),
        Shell::Zsh => in_zsh(&script),
        Shell::Fish => script + include_str!("links.fish") + &links_in_fish(&command),
        _ => script,
    }
}

/// Calls the function within the lists of words, which stand in double quotes.
fn in_bash(script: &str) -> String {
    let named = script
        .replace("any cable", "any $(_evenkeel_links) cable")
        .replace("tap: packet:", "tap: $(_evenkeel_links tap:) packet: $(_evenkeel_links packet:)");
    let (functions, registration) = named.rsplit_once("\nif [[").unwrap_or((&named, ""));
    let registration = registration.replace("-F _evenkeel ", "-F _evenkeel_whole ");
    format!("{functions}{}\nif [[{registration}", include_str!("links.bash"))
}

/// Replaces each list of words in parentheses by a call of the function with these words.
fn in_zsh(script: &str) -> String {
    let lists =
        ["any cable tap\\: packet\\: pcap\\:", "cable tap\\: packet\\: pcap\\:", "cable tap\\: packet\\:"];
    let named = lists.iter().chain(&["tap\\: packet\\:"]).fold(script.to_owned(), |script, list| {
        script.replace(&format!(":({list})"), &format!(":{{_evenkeel_links {list}}}"))
    });
    named.replacen("_evenkeel() {", &format!("{}_evenkeel() {{", include_str!("links.zsh")), 1)
}

/// Returns further completions, with the names, for each argument that is a link.
fn links_in_fish(command: &Command) -> String {
    let mut text = String::new();
    for subcommand in command.get_subcommands() {
        for arg in subcommand.get_arguments() {
            let values: Vec<_> = arg.get_possible_values();
            let has = |name: &str| values.iter().any(|value| value.get_name() == name);
            if !has("packet:") {
                continue;
            }
            let option = arg.get_long().map(|long| format!("-l {long} -r ")).unwrap_or_default();
            let words: String = values
                .iter()
                .filter(|_| option.is_empty())
                .map(|value| format!("{} ", value.get_name()))
                .collect();
            let bare = if has("any") { " (__evenkeel_links)" } else { "" };
            text.push_str(&format!(
                "complete -c evenkeel -n \"__fish_evenkeel_using_subcommand {}\" {option}-f -a \
                 \"{words}(__evenkeel_links packet:){bare}\"\n",
                subcommand.get_name()
            ));
        }
    }
    text
}
