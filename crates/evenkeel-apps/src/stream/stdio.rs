//! The ways in and out of a program: what blocks is done by threads of their own, a bounded distance ahead
//! and behind.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use evenkeel_link::EventFd;

/// Bytes read at a time.
const PIECE: usize = 64 << 10;
/// Pieces that may wait on either side.
const PIECES: usize = 8;

/// Where input comes from and output goes to, and the event that says when either goes on.
#[derive(Debug)]
pub struct Stdio {
    /// Notified when there is input, or its end, or room for output.
    pub(super) event: EventFd,
}

impl Stdio {
    /// Both of them, with nothing opened yet.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self { event: EventFd::new()? })
    }

    /// Reads `from` on a thread, ahead of who takes it.
    ///
    /// The thread ends with the input, or with the process: nobody can wake it from a read.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn input(&self, mut from: impl Read + Send + 'static) -> io::Result<Input> {
        let (give, pieces) = sync_channel(PIECES);
        let event = self.event.clone();
        thread::Builder::new().name("input".to_owned()).spawn(move || {
            // Notified after the sending end is gone, too (locals go in reverse): that is the end of the
            // input.
            let event = NotifyAtEnd(event);
            let give: SyncSender<io::Result<Vec<u8>>> = give;
            loop {
                let mut piece = vec![0; PIECE];
                let read = match from.read(&mut piece) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    read => read,
                };
                let last = !matches!(read, Ok(len) if len > 0);
                let given = match read {
                    Ok(0) => Ok(()),
                    Ok(len) => {
                        piece.truncate(len);
                        give.send(Ok(piece))
                    }
                    Err(error) => give.send(Err(error)),
                };
                event.0.notify();
                if last || given.is_err() {
                    return;
                }
            }
        })?;
        Ok(Input { pieces })
    }

    /// Writes to `to` on a thread, behind who gives it.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn output(&self, mut to: impl Write + Send + 'static) -> io::Result<Output> {
        let (give, pieces) = sync_channel::<Vec<u8>>(PIECES);
        let event = self.event.clone();
        let writing = thread::Builder::new().name("output".to_owned()).spawn(move || {
            let event = NotifyAtEnd(event);
            // Gone before the last notification: whoever gives is to see it.
            let pieces = pieces;
            while let Ok(piece) = pieces.recv() {
                to.write_all(&piece)?;
                // Who reads it may be a person.
                to.flush()?;
                event.0.notify();
            }
            Ok(())
        })?;
        Ok(Output { give: Some(give), writing })
    }
}

/// What is read from outside.
#[derive(Debug)]
pub struct Input {
    pieces: Receiver<io::Result<Vec<u8>>>,
}

/// What there is of an input.
#[derive(Debug)]
pub(super) enum Came {
    Piece(Vec<u8>),
    /// A notification will come.
    NotYet,
    End,
    Failed(io::Error),
}

impl Input {
    pub(super) fn next(&self) -> Came {
        match self.pieces.try_recv() {
            Ok(Ok(piece)) => Came::Piece(piece),
            Ok(Err(error)) => Came::Failed(error),
            Err(TryRecvError::Empty) => Came::NotYet,
            Err(TryRecvError::Disconnected) => Came::End,
        }
    }
}

/// What is written outside.
pub struct Output {
    give: Option<SyncSender<Vec<u8>>>,
    writing: JoinHandle<io::Result<()>>,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Output")
    }
}

/// What became of a piece.
#[derive(Debug)]
pub(super) enum Gave {
    Taken,
    /// Here it is again; a notification will come.
    Full(Vec<u8>),
    /// Nobody takes any more.
    Gone,
}

impl Output {
    pub(super) fn give(&self, piece: Vec<u8>) -> Gave {
        match self.give.as_ref().map(|give| give.try_send(piece)) {
            Some(Ok(())) => Gave::Taken,
            Some(Err(TrySendError::Full(piece))) => Gave::Full(piece),
            Some(Err(TrySendError::Disconnected(_))) | None => Gave::Gone,
        }
    }

    /// Waits until all is written.
    ///
    /// # Errors
    /// If that was not possible.
    pub(super) fn finish(mut self) -> io::Result<()> {
        drop(self.give.take());
        self.writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Rings when it goes.
struct NotifyAtEnd(EventFd);

impl Drop for NotifyAtEnd {
    fn drop(&mut self) {
        self.0.notify();
    }
}
