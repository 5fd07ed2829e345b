//! The input and output of a program. Blocking calls run on threads of their own, a bounded number of
//! pieces ahead of or behind the program.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use evenkeel::raw::wait::EventFd;

/// The maximum number of bytes of a piece of input.
const PIECE: usize = 64 << 10;
/// The maximum number of pieces that wait in each direction.
const PIECES: usize = 8;

/// The source of input and output threads, with the event that they notify when the program can go on.
#[derive(Debug)]
pub struct Stdio {
    /// The event that is notified when there is input, or its end, or room for output.
    pub(crate) event: EventFd,
}

impl Stdio {
    /// Creates the event. No thread runs yet.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self { event: EventFd::new()? })
    }

    /// Reads `from` on a thread, ahead of the program.
    ///
    /// The thread ends with the input, or with the process, because nothing can wake it from a read.
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

    /// Writes to `to` on a thread, behind the program.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn output(&self, mut to: impl Write + Send + 'static) -> io::Result<Output> {
        let (give, pieces) = sync_channel::<Vec<u8>>(PIECES);
        let event = self.event.clone();
        let writing = thread::Builder::new().name("output".to_owned()).spawn(move || {
            let event = NotifyAtEnd(event);
            // This is dropped before the last notification, so that the program sees the end.
            let pieces = pieces;
            while let Ok(piece) = pieces.recv() {
                to.write_all(&piece)?;
                // A person may be reading the output.
                to.flush()?;
                event.0.notify();
            }
            Ok(())
        })?;
        Ok(Output { give: Some(give), writing })
    }
}

/// The program's end of an input that a thread reads.
#[derive(Debug)]
pub struct Input {
    pieces: Receiver<io::Result<Vec<u8>>>,
}

/// The result of asking an [`Input`] for its next piece.
#[derive(Debug)]
pub(super) enum Came {
    Piece(Vec<u8>),
    /// No piece is there yet; the event will be notified.
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

/// The program's end of an output that a thread writes.
pub struct Output {
    give: Option<SyncSender<Vec<u8>>>,
    writing: JoinHandle<io::Result<()>>,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Output")
    }
}

/// The result of passing a piece to an [`Output`].
#[derive(Debug)]
pub(super) enum Gave {
    Taken,
    /// The queue was full, and the piece is returned; the event will be notified.
    Full(Vec<u8>),
    /// The writing thread has ended, so the output takes nothing any more.
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

    /// Waits until everything is written.
    ///
    /// # Errors
    /// The output could not be written.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        drop(self.give.take());
        self.writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// A guard that notifies the event when it is dropped.
struct NotifyAtEnd(EventFd);

impl Drop for NotifyAtEnd {
    fn drop(&mut self) {
        self.0.notify();
    }
}
