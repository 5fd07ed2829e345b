//! A page as a reader would type it: its steps, in order.

use std::mem;

use crate::compare::Shown;
use crate::markdown::{Block, Document};

/// A page's steps and the mistakes in their notation.
#[derive(Debug, Default)]
pub struct Page {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Mistakes in the notation, each with its line.
    pub mistakes: Vec<(usize, String)>,
}

/// A step of a page.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Writes a file.
    File {
        /// The name.
        name: String,
        /// The content.
        text: String,
    },
    /// Runs commands one after another.
    Run(Vec<Command>),
    /// Runs commands; the last one is left running.
    Background(Vec<Command>),
    /// Ends the command that was left running last, and compares all that it printed.
    Interrupt(Ending),
    /// Runs another command in place of one that takes minutes.
    Instead {
        /// The command in the page.
        shown: Command,
        /// The command to run.
        command: Command,
    },
    /// Runs nothing.
    No {
        /// The commands in the page.
        commands: Vec<Command>,
        /// Why they are not run.
        reason: String,
    },
}

/// A command and what the page says of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// Its line in the page, counted from 1.
    pub line: usize,
    /// The text for the shell.
    pub text: String,
    /// Whether its prompt is that of root.
    pub is_root: bool,
    /// The expected output; `None` if the page shows none.
    pub output: Option<Vec<Shown>>,
    /// The exit status that it must have; `None` for success.
    pub status: Option<i32>,
}

/// The end of the command that was left running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The line of the block, counted from 1.
    pub line: usize,
    /// The output after the signal.
    pub output: Vec<Shown>,
    /// Whether a signal is needed.
    pub by_signal: bool,
    /// The exit status that it must have.
    pub status: Option<i32>,
}

/// The directives before a block.
#[derive(Debug, Default)]
struct Directives {
    file: Option<String>,
    instead: Option<String>,
    no: Option<String>,
    status: Option<i32>,
    background: bool,
    interrupt: bool,
    ends: bool,
}

impl Page {
    /// Reads the steps of a page.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut page = Self::default();
        for block in Document::parse(text).blocks {
            let line = block.line;
            match page.directives(&block).and_then(|directives| directives.step(&block)) {
                Ok(Some(step)) => page.steps.push(step),
                Ok(None) => {}
                Err(mistake) => page.mistakes.push((line, mistake)),
            }
        }
        page
    }

    /// Returns whether anything is to be run in a namespace of its own.
    #[must_use]
    pub fn needs_root(&self) -> bool {
        self.run().any(|command| command.is_root)
    }

    /// Returns the commands that are to be run.
    pub fn run(&self) -> impl Iterator<Item = &Command> {
        self.steps.iter().flat_map(|step| match step {
            Step::Run(commands) | Step::Background(commands) => commands.as_slice(),
            Step::Instead { command, .. } => std::slice::from_ref(command),
            Step::File { .. } | Step::Interrupt(_) | Step::No { .. } => &[],
        })
    }

    fn directives(&self, block: &Block) -> Result<Directives, String> {
        let mut directives = Directives::default();
        for (_, comment) in &block.comments {
            if let Some(text) = comment.strip_prefix("run:") {
                directives.add(text.trim())?;
            }
        }
        Ok(directives)
    }
}

impl Directives {
    fn add(&mut self, text: &str) -> Result<(), String> {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        let wants_more = ["file", "instead", "no", "status"].contains(&word);
        if wants_more == rest.is_empty() {
            return Err(format!(
                "`run: {text}`: {}",
                if wants_more { "something is missing" } else { "too much" }
            ));
        }
        match word {
            "file" => self.file = Some(rest.to_owned()),
            "instead" => self.instead = Some(rest.to_owned()),
            "no" => self.no = Some(rest.to_owned()),
            "status" => self.status = Some(rest.parse().map_err(|_| format!("`run: {text}`: no number"))?),
            "background" => self.background = true,
            "interrupt" => self.interrupt = true,
            "ends" => self.ends = true,
            _ => return Err(format!("`run: {text}`: no such directive")),
        }
        Ok(())
    }

    /// Returns the step of a block; `None` if the block is nothing to run.
    fn step(self, block: &Block) -> Result<Option<Step>, String> {
        if let Some(name) = self.file {
            return Ok(Some(Step::File { name, text: block.text.clone() }));
        }
        if self.interrupt || self.ends {
            let output = shown(block.line, &block.text);
            let ending = Ending { line: block.line, output, by_signal: self.interrupt, status: self.status };
            return Ok(Some(Step::Interrupt(ending)));
        }
        let language = block.language.split([',', ' ']).next().unwrap_or_default();
        let mut commands = match language {
            "console" => console(block)?,
            "sh" => shell(block),
            "bash" | "shell" | "zsh" => return Err(format!("`{language}`: say `console` or `sh`")),
            _ if self.background || self.instead.is_some() || self.status.is_some() => {
                return Err(
                    "a directive for commands, and the block is neither `console` nor `sh`".to_owned()
                );
            }
            _ => return Ok(None),
        };
        if let Some(reason) = self.no {
            return Ok(Some(Step::No { commands, reason }));
        }
        if let Some(last) = commands.last_mut() {
            last.status = self.status;
        }
        if let Some(text) = self.instead {
            let [shown] = commands.as_slice() else {
                return Err("`run: instead` stands for one command, and the block has others".to_owned());
            };
            let command = Command { text, output: None, ..shown.clone() };
            return Ok(Some(Step::Instead { shown: shown.clone(), command }));
        }
        Ok(Some(if self.background { Step::Background(commands) } else { Step::Run(commands) }))
    }
}

/// Returns the lines of a block's text, each with its number in the page.
fn lines(block_line: usize, text: &str) -> impl Iterator<Item = (usize, &str)> {
    (block_line + 1..).zip(text.lines())
}

fn shown(block_line: usize, text: &str) -> Vec<Shown> {
    lines(block_line, text).map(|(line, text)| Shown { line, text: text.to_owned() }).collect()
}

/// Reads a block with prompts.
fn console(block: &Block) -> Result<Vec<Command>, String> {
    let mut commands: Vec<Command> = Vec::new();
    for (line, text) in lines(block.line, &block.text) {
        let prompt = [("$ ", false), ("# ", true)]
            .into_iter()
            .find_map(|(prompt, is_root)| text.strip_prefix(prompt).map(|command| (command, is_root)));
        let last = commands.last_mut();
        match (prompt, last) {
            (_, Some(last)) if continues(&last.text) => append(last, text.strip_prefix("> ").unwrap_or(text)),
            (Some((command, is_root)), _) => {
                let output = Some(Vec::new());
                commands.push(Command { line, text: command.to_owned(), is_root, output, status: None });
            }
            (None, Some(last)) => {
                last.output.get_or_insert_default().push(Shown { line, text: text.to_owned() });
            }
            (None, None) => return Err("a `console` block begins with a prompt, `$ ` or `# `".to_owned()),
        }
    }
    Ok(commands)
}

/// Reads a block without prompts: each line is a command.
fn shell(block: &Block) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    for (line, text) in lines(block.line, &block.text) {
        match commands.last_mut() {
            Some(last) if continues(&last.text) => append(last, text),
            _ if text.trim().is_empty() || text.trim_start().starts_with('#') => {}
            _ => commands.push(Command { line, text: text.to_owned(), ..Command::default() }),
        }
    }
    commands
}

/// Returns whether the next line belongs to a command.
fn continues(command: &str) -> bool {
    command.ends_with('\\')
}

fn append(command: &mut Command, text: &str) {
    let before = mem::take(&mut command.text);
    command.text = format!("{before}\n{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Step {
        let mut page = Page::parse(text);
        assert_eq!((page.mistakes.len(), page.steps.len()), (0, 1), "{:?}", page.mistakes);
        page.steps.remove(0)
    }

    fn mistake(text: &str) -> String {
        Page::parse(text).mistakes.remove(0).1
    }

    #[test]
    fn a_console_block_has_prompts_and_output() {
        let Step::Run(commands) = only("```console\n$ a \\\n>  b\nout\n\nput\n# c\n```\n") else { panic!() };
        assert_eq!((&*commands[0].text, commands[0].is_root), ("a \\\n b", false));
        let output: Vec<(usize, &str)> =
            commands[0].output.iter().flatten().map(|shown| (shown.line, &*shown.text)).collect();
        assert_eq!(output, [(4, "out"), (5, ""), (6, "put")]);
        assert_eq!((&*commands[1].text, commands[1].is_root, commands[1].line), ("c", true, 7));
    }

    #[test]
    fn lines_of_an_sh_block_are_commands() {
        let Step::Run(commands) = only("```sh\na 1\n# why\n\nb # 2\n```\n") else { panic!() };
        let texts: Vec<(usize, &str)> =
            commands.iter().map(|command| (command.line, &*command.text)).collect();
        assert_eq!(texts, [(2, "a 1"), (5, "b # 2")]);
        assert!(commands[0].output.is_none());
    }

    #[test]
    fn directives_say_how_a_block_is_run() {
        assert!(matches!(only("<!-- run: file a/b.toml -->\n```toml\nx = 1\n```\n"),
            Step::File { name, text } if name == "a/b.toml" && text == "x = 1\n"));
        let background = only("<!-- run: background -->\n```sh\na\nb\n```\n");
        assert!(matches!(background, Step::Background(two) if two.len() == 2));
        assert!(matches!(only("<!-- run: interrupt -->\n```console\nend\n```\n"), Step::Interrupt(ending)
            if ending.by_signal && ending.output[0].line == 3));
        let no = only("<!-- run: no a card -->\n```sh\na\n```\n");
        assert!(matches!(no, Step::No { reason, .. } if reason == "a card"));
        let directives = "<!-- run: instead short -->\n<!-- run: status 2 -->\n";
        let instead = only(&format!("{directives}```console\n$ long\nx\n```\n"));
        let Step::Instead { shown, command } = instead else { panic!("{instead:?}") };
        assert_eq!((&*shown.text, &*command.text, command.status), ("long", "short", Some(2)));
        assert!(command.output.is_none());
    }

    #[test]
    fn mistakes_in_the_notation_are_found() {
        assert_eq!(
            mistake("```console\nno prompt\n```\n"),
            "a `console` block begins with a prompt, `$ ` or `# `"
        );
        assert_eq!(mistake("```bash\na\n```\n"), "`bash`: say `console` or `sh`");
        assert_eq!(
            mistake("<!-- run: backround -->\n```sh\na\n```\n"),
            "`run: backround`: no such directive"
        );
        assert_eq!(mistake("<!-- run: no -->\n```sh\na\n```\n"), "`run: no`: something is missing");
        assert!(
            mistake("<!-- run: instead x -->\n```sh\na\nb\n```\n")
                .starts_with("`run: instead` stands for one")
        );
        assert!(
            mistake("<!-- run: background -->\n```text\na\n```\n").starts_with("a directive for commands")
        );
    }
}
