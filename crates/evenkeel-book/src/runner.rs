//! Runs a page and says where it is wrong.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use crate::compare::{ANY, Comparison, Shown, alike};
use crate::page::{Command, Ending, Page, Step};
use crate::session::{Ended, Limit, Running, Session};
use crate::shell;

/// The settings for running a page.
#[derive(Debug)]
pub struct Options<'a> {
    /// The binary that is on the search path as `evenkeel`.
    pub evenkeel: &'a Path,
    /// The root of the repository, for paths in commands that are not run.
    pub repository: &'a Path,
    /// Seconds that a command may take.
    pub limit: u32,
    /// Is given each command and what it printed.
    pub observe: fn(&Command, &str),
}

/// Seconds until a command that is left running must have printed its first line.
const FIRST_LINE: u32 = 20;

/// The outcome of running a page.
#[derive(Debug, Default)]
pub struct Report {
    /// The mistakes, for people: each begins with page and line.
    pub failures: Vec<String>,
    /// Blocks that were not run, each with its line and the reason.
    pub not_run: Vec<(usize, String)>,
    /// The number of commands that were run.
    pub commands: usize,
}

/// Runs a page in a session of its own, up to the first command whose exit status is wrong.
///
/// # Errors
/// If there is no session to be had.
pub fn run(name: &str, page: &Page, options: &Options<'_>) -> io::Result<Report> {
    let session = Session::new(options.evenkeel, page.needs_root())?;
    let mut run = Run { name, options, session, background: Vec::new(), report: Report::default() };
    for (line, mistake) in &page.mistakes {
        run.fail(*line, mistake);
    }
    for step in &page.steps {
        if run.step(step)? == Flow::Stop {
            break;
        }
    }
    run.end_all();
    Ok(run.report)
}

/// Whether a page's next step is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    /// The page ends here: later steps would only fail for the same cause.
    Stop,
}

/// A page that is being run.
struct Run<'a> {
    name: &'a str,
    options: &'a Options<'a>,
    session: Session,
    /// The commands that were left running, the last one at the end.
    background: Vec<(Command, Running)>,
    report: Report,
}

impl Run<'_> {
    fn step(&mut self, step: &Step) -> io::Result<Flow> {
        match step {
            Step::File { name, text } => self.session.write(name, text).map(|()| Flow::On),
            Step::Run(commands) => self.all(commands),
            Step::Background(commands) => match commands.split_last() {
                Some((last, before)) => {
                    let flow = self.all(before)?;
                    if flow == Flow::On { self.leave_running(last) } else { Ok(flow) }
                }
                None => Ok(Flow::On),
            },
            Step::Interrupt(ending) => Ok(self.end(ending)),
            Step::Instead { shown, command } => {
                self.parse(shown)?;
                self.command(command)
            }
            Step::No { commands, reason } => {
                let line = commands.first().map_or(0, |command| command.line);
                self.report.not_run.push((line, reason.clone()));
                commands.iter().try_for_each(|command| self.parse(command)).map(|()| Flow::On)
            }
        }
    }

    fn all(&mut self, commands: &[Command]) -> io::Result<Flow> {
        for command in commands {
            if self.command(command)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::On)
    }

    fn command(&mut self, command: &Command) -> io::Result<Flow> {
        let text = as_installed(&command.text);
        if is_cargo(&text) {
            self.parse(command)?;
            return Ok(Flow::On);
        }
        self.report.commands += 1;
        let mut running = self.session.run(&text)?;
        let ended = running.wait(Limit::seconds(self.options.limit));
        running.kill();
        let printed = running.printed();
        (self.options.observe)(command, &printed);
        let is_right = self.judge_status(command, ended, command.status.unwrap_or(0), &printed);
        if is_right && let Some(shown) = &command.output {
            self.compare(command, shown, &printed);
        }
        Ok(if is_right { Flow::On } else { Flow::Stop })
    }

    fn leave_running(&mut self, command: &Command) -> io::Result<Flow> {
        self.report.commands += 1;
        let mut running = self.session.leave_running(&as_installed(&command.text))?;
        let first = command.output.iter().flatten().find(|shown| shown.text.trim() != ANY);
        let limit = Limit::seconds(self.options.limit.min(FIRST_LINE));
        let Some(first) = first else {
            running.wait_until_waiting(limit);
            self.background.push((command.clone(), running));
            return Ok(Flow::On);
        };
        let wanted = alike(&first.text);
        if running.wait_for(limit, |printed| printed.lines().any(|line| alike(line) == wanted)) {
            self.background.push((command.clone(), running));
            return Ok(Flow::On);
        }
        let ended = running.ended().map_or_else(
            || "it still runs".to_owned(),
            |status| format!("it ended with exit status {status}"),
        );
        let printed = running.printed();
        self.fail(command.line, &said(command, &format!("does not print its first line; {ended}"), &printed));
        running.kill();
        Ok(Flow::Stop)
    }

    /// Ends the command that was left running last.
    fn end(&mut self, ending: &Ending) -> Flow {
        let Some((command, mut running)) = self.background.pop() else {
            self.fail(ending.line, "nothing is running in the background");
            return Flow::Stop;
        };
        if ending.by_signal {
            running.interrupt();
        }
        let ended = running.wait(Limit::seconds(self.options.limit));
        running.kill();
        let printed = running.printed();
        (self.options.observe)(&command, &printed);
        // Who does not catch the signal is ended by it, as a user sees it end.
        let status = match ended {
            Ended::Status(130) if ending.by_signal && ending.status.is_none() => 130,
            _ => ending.status.unwrap_or(0),
        };
        let at = Command { line: ending.line, ..command.clone() };
        let is_right = self.judge_status(&at, ended, status, &printed);
        let mut shown = command.output.clone().unwrap_or_default();
        // A terminal shows what was typed.
        shown.extend(ending.output.iter().map(|line| Shown {
            line: line.line,
            text: line.text.strip_prefix("^C").unwrap_or(&line.text).to_owned(),
        }));
        if is_right {
            self.compare(&at, &shown, &printed);
        }
        if is_right { Flow::On } else { Flow::Stop }
    }

    /// Interrupts what still runs at the end of the page. The page shows how its output begins.
    fn end_all(&mut self) {
        while let Some((command, mut running)) = self.background.pop() {
            running.interrupt();
            running.wait(Limit::seconds(10));
            running.kill();
            let printed = running.printed();
            (self.options.observe)(&command, &printed);
            if let Some(mut shown) = command.output.clone() {
                shown.push(Shown { line: command.line, text: ANY.to_owned() });
                self.compare(&command, &shown, &printed);
            }
        }
    }

    fn judge_status(&mut self, command: &Command, ended: Ended, wanted: i32, printed: &str) -> bool {
        let wrong = match ended {
            Ended::Status(status) if status == wanted => return true,
            Ended::Status(status) => format!("exit status {status}, not {wanted}"),
            Ended::Hanging => format!("did not end within {} s", self.options.limit),
        };
        self.fail(command.line, &said(command, &wrong, printed));
        false
    }

    fn compare(&mut self, command: &Command, shown: &[Shown], printed: &str) {
        let comparison = Comparison::new(shown, printed);
        if !comparison.is_alike() {
            let line = comparison.first_wrong().unwrap_or(command.line);
            let what = "prints something else (- page, + printed; numbers do not count)";
            self.fail(line, &format!("`{}` {what}\n{}", command.text, comparison.diff()));
        }
    }

    /// Parses the calls of `evenkeel` in a command that is not run, and looks for paths that cargo is given.
    fn parse(&mut self, command: &Command) -> io::Result<()> {
        let text = as_installed(&command.text);
        for mut arguments in shell::calls_of("evenkeel", &text) {
            // Arguments before it are parsed first, and whatever they lack it does not miss.
            arguments.push("--help".to_owned());
            let output = std::process::Command::new(self.options.evenkeel).args(&arguments).output()?;
            if !output.status.success() {
                let printed = String::from_utf8_lossy(&output.stderr);
                self.fail(command.line, &said(command, "is not understood", &printed));
            }
        }
        for arguments in shell::calls_of("cargo", &text) {
            for missing in missing_in_repository(self.options.repository, &arguments) {
                self.fail(command.line, &format!("`{}`: there is no {missing}", command.text));
            }
        }
        Ok(())
    }

    fn fail(&mut self, line: usize, what: &str) {
        self.report.failures.push(format!("{}:{line}: {}", self.name, what.trim_end()));
    }
}

fn said(command: &Command, what: &str, printed: &str) -> String {
    let mut text = format!("`{}` {what}", command.text);
    if !printed.trim().is_empty() {
        text.push_str("; it printed:");
        for line in printed.trim_end().lines() {
            let _ = write!(text, "\n    {line}");
        }
    }
    text
}

/// Returns a command as it is after installation: `cargo run -- X` is `evenkeel X`.
fn as_installed(command: &str) -> String {
    let Some((cargo, rest)) = command.split_once(" -- ") else { return command.to_owned() };
    let words: Vec<&str> = cargo.split_whitespace().collect();
    match words.as_slice() {
        ["cargo", "run", options @ ..] if options.iter().all(|option| PLAIN.contains(option)) => {
            format!("evenkeel {rest}")
        }
        _ => command.to_owned(),
    }
}

/// Options of `cargo run` that do not select another program.
const PLAIN: [&str; 4] = ["--release", "--locked", "--quiet", "-q"];

fn is_cargo(command: &str) -> bool {
    command.split_whitespace().next() == Some("cargo")
}

/// Returns what arguments of cargo name and the repository has not.
fn missing_in_repository(repository: &Path, arguments: &[String]) -> Vec<String> {
    let pairs = arguments.windows(2).filter_map(|pair| match pair {
        [option, value] => Some((option.as_str(), value.as_str())),
        _ => None,
    });
    let packages: Vec<&str> = pairs
        .clone()
        .filter(|(option, _)| ["-p", "--package"].contains(option))
        .map(|(_, name)| name)
        .collect();
    let is_target = |folder: &str, name: &str| {
        packages.iter().any(|package| {
            let path = repository.join("crates").join(package).join(folder).join(name);
            path.with_extension("rs").exists() || path.exists()
        })
    };
    let missing = pairs.filter_map(|(option, value)| match option {
        "--path" | "--manifest-path" => (!repository.join(value).exists()).then(|| value.to_owned()),
        "-p" | "--package" => {
            (!repository.join("crates").join(value).exists()).then(|| format!("package {value}"))
        }
        "--example" => (!is_target("examples", value)).then(|| format!("example {value}")),
        "--bench" => (!is_target("benches", value)).then(|| format!("benchmark {value}")),
        "--test" => (!is_target("tests", value)).then(|| format!("test {value}")),
        _ => None,
    });
    missing.collect()
}
