//! The live view: asks the processes, draws what they answered, and does what keys and signals ask for.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use evenkeel::metrics;
use evenkeel::raw::time::{Clock, Duration, Instant};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::Event;

use super::choice::{Choice, Wish};
use super::model::Model;
use super::sources::{self, Message};
use super::view;
use super::watched::Watched;
use crate::failure::Failure;
use crate::terminal;

/// The terminal while the view has it. Leaving it, also by a panic, restores the terminal.
struct Screen(DefaultTerminal);

impl Screen {
    fn open() -> Result<Self, Failure> {
        // Part of it may be done when it fails.
        ratatui::try_init().map(Self).map_err(|error| {
            let _ = ratatui::try_restore();
            Failure::machine("cannot use the terminal", error)
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = ratatui::try_restore();
    }
}

/// The state of the view between two messages.
struct Live {
    watched: Watched,
    model: Model,
    choice: Choice,
    clock: Clock,
    sender: Sender<Message>,
    /// The time of the next questions.
    next: Instant,
}

/// Shows the processes until a key or a signal asks for the end, or until `duration` is over.
pub(super) fn run(watched: Watched, duration: Option<Duration>) -> Result<(), Failure> {
    watched.check(&metrics::running())?;
    let (clock, (sender, messages)) = (Clock::start(), channel());
    let no_threads = |error: io::Error| Failure::machine("cannot wait for keys and signals", error);
    // A request for a report must not kill a view that has the terminal.
    terminal::reports()?;
    sources::signals(sender.clone(), clock).map_err(no_threads)?;
    let mut screen = Screen::open()?;
    sources::events(sender.clone()).map_err(no_threads)?;
    let (model, choice, next) = (Model::default(), Choice::default(), clock.now());
    let end = duration.map_or(Instant::NEVER, |duration| next + duration);
    Live { watched, model, choice, clock, sender, next }.run(&mut screen, &messages, end)
}

impl Live {
    fn run(mut self, screen: &mut Screen, messages: &Receiver<Message>, end: Instant) -> Result<(), Failure> {
        while self.clock.now() < end {
            self.ask_if_due();
            self.draw(screen)?;
            let wait = self.next.min(end).since(self.clock.now());
            let first = messages.recv_timeout(wait);
            // One picture shows all that has come.
            for message in first.into_iter().chain(messages.try_iter()) {
                if self.take(message)? == Wish::Quit {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn ask_if_due(&mut self) {
        let now = self.clock.now();
        if now >= self.next {
            self.next = now + self.watched.interval;
            self.watched.ask(&mut self.model, now, &self.sender);
        }
        self.model.look(now);
    }

    fn draw(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        let title = self.watched.title(&self.model);
        let drawn = screen.0.draw(|frame| view::draw(frame, &self.model, &mut self.choice, &title));
        drawn.map(drop).map_err(|error| Failure::machine("cannot draw in the terminal", error))
    }

    fn take(&mut self, message: Message) -> Result<Wish, Failure> {
        match message {
            Message::Answer(pid, answer) => self.model.take(pid, answer, self.clock.now()),
            Message::Event(Event::Key(key)) => return Ok(self.choice.key(key, &self.model)),
            // Drawing finds out the new size.
            Message::Event(_) => {}
            Message::Stop => return Ok(Wish::Quit),
            Message::NoTerminal(error) => return Err(Failure::machine("cannot read keys", error)),
        }
        Ok(Wish::Continue)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use evenkeel_skip::{Lack, skip};

    use super::*;

    const NAME: &str = "a_panic_leaves_the_terminal_as_it_was";
    /// The variable with which the test runs itself, to panic in a terminal.
    const PANICS: &str = "EVENKEEL_TEST_TOP_PANICS";

    #[test]
    fn a_panic_leaves_the_terminal_as_it_was() {
        if std::env::var_os(PANICS).is_some() {
            let _screen = Screen::open().unwrap();
            panic!("in the view");
        }
        let test = std::env::current_exe().unwrap();
        let line = format!("{} {NAME} --nocapture; stty -a", test.display());
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).env(PANICS, "1");
        let Ok(mut child) = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
            return skip(NAME, &Lack::Program { program: "script", package: "bsdutils" });
        };
        // The terminal is there as long as its input.
        let _input = child.stdin.take();
        let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let place = |part: &str| output.rfind(part).unwrap_or_else(|| panic!("no {part:?}: {output:?}"));
        let [on, off, said] = ["\x1b[?1049h", "\x1b[?1049l", "in the view"].map(place);
        assert!(on < output.find("\x1b[?1049l").unwrap() && off > on, "{output:?}");
        assert!(output.find("\x1b[?1049l").unwrap() < said, "the message is on the first screen: {output:?}");
        assert!(output.contains(" icanon") && output.contains(" echo "), "{output:?}");
    }
}
