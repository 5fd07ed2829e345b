//! The threads that wait, so that nothing else does: for the answers of processes, for keys, for signals.
//! Each sends a message.
//!
//! Each question has a thread of its own. So a process that answers late, because its host is under a flood,
//! holds up neither the others nor the terminal. The model asks a process again only after its answer, so
//! there is at most one thread for each.

use std::sync::mpsc::Sender;
use std::{io, thread};

use evenkeel::metrics::{self, Unreadable};
use evenkeel::raw::signal::Stop;
use evenkeel::raw::time::{Clock, Instant};
use evenkeel::raw::wait::Halt;
use ratatui::crossterm::event::{self, Event};

use super::model::Answer;

/// An event that a thread waited for.
#[derive(Debug)]
pub(super) enum Message {
    /// The answer of a process.
    Answer(u32, Answer),
    /// A key, or the terminal's new size.
    Event(Event),
    /// A signal asks for the end.
    Stop,
    /// The terminal is gone.
    NoTerminal(io::Error),
}

/// Reads the figures of a process on a thread of its own.
pub(super) fn ask(pid: u32, to: &Sender<Message>) {
    let sender = to.clone();
    // The receiver is gone at the end of the program.
    let wait = move || drop(sender.send(Message::Answer(pid, read(pid))));
    if let Err(error) = thread::Builder::new().name(format!("figures of {pid}")).spawn(wait) {
        let _ = to.send(Message::Answer(pid, Answer::Unreadable(error.to_string())));
    }
}

fn read(pid: u32) -> Answer {
    match metrics::fetch(pid) {
        Ok(published) => Answer::Figures(published),
        Err(Unreadable::NoProcess | Unreadable::Stale) => Answer::Gone,
        Err(Unreadable::Io(error)) if is_late(&error) => Answer::Late,
        // The process ended while it answered.
        Err(Unreadable::Malformed(error)) if error.is_eof() => Answer::Late,
        Err(error) => Answer::Unreadable(error.to_string()),
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::ConnectionReset
    )
}

/// Sends every event of the terminal.
pub(super) fn events(to: Sender<Message>) -> io::Result<()> {
    let wait = move || {
        loop {
            let message = event::read().map_or_else(Message::NoTerminal, Message::Event);
            let is_last = matches!(message, Message::NoTerminal(_));
            if to.send(message).is_err() || is_last {
                return;
            }
        }
    };
    thread::Builder::new().name("keys".to_owned()).spawn(wait).map(drop)
}

/// Sends a message when a signal asks for the end.
pub(super) fn signals(to: Sender<Message>, clock: Clock) -> io::Result<()> {
    let (stop, mut halt) = (Stop::on_signals()?, Halt::new()?);
    halt.watch(stop.fd());
    let wait = move || {
        while !stop.requested() && halt.until(&clock, Instant::NEVER).is_ok() {}
        let _ = to.send(Message::Stop);
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
}
