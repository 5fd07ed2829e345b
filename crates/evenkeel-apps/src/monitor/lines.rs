//! The sink that shows frames: one line each.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use evenkeel_core::capture::Captured;

use super::headers::Headers;
use super::program::{Sink, shared};

/// Text is handed over in pieces of this size, so many of them at a time.
const PIECE_BYTES: usize = 16 * 1024;
const PIECES: usize = 16;

/// Prints a line for each frame, by a thread of its own: a terminal that was stopped does not stop the host.
pub struct Lines {
    text: String,
    pieces: Option<SyncSender<String>>,
    reader_gone: Arc<AtomicBool>,
    /// Holds a message when everything is printed.
    printed: Mutex<Receiver<()>>,
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("text", &self.text.len()).finish_non_exhaustive()
    }
}

impl Lines {
    /// Prints to `output`.
    #[must_use]
    pub fn to(mut output: impl Write + Send + 'static) -> Self {
        let (pieces, to_print) = sync_channel::<String>(PIECES);
        let (done, printed) = sync_channel(1);
        let reader_gone = Arc::new(AtomicBool::new(false));
        thread::spawn({
            let reader_gone = Arc::clone(&reader_gone);
            move || {
                let result = to_print
                    .iter()
                    .try_for_each(|piece| output.write_all(piece.as_bytes()).and_then(|()| output.flush()));
                reader_gone.store(result.is_err(), Ordering::Relaxed);
                // Nobody may be waiting any more.
                let _ = done.send(());
            }
        });
        Self { text: String::new(), pieces: Some(pieces), reader_gone, printed: Mutex::new(printed) }
    }

    /// Waits until everything is printed, or for `patience`.
    pub fn finish(&mut self, patience: evenkeel_core::time::Duration) {
        if let Some(pieces) = self.pieces.take() {
            // If there is no room, nobody reads.
            let _ = pieces.try_send(core::mem::take(&mut self.text));
        }
        let _ = shared(&self.printed).recv_timeout(patience);
    }

    /// Hands the text over; false if there is no room for it.
    fn hand_over(&mut self) -> bool {
        let (Some(pieces), false) = (&self.pieces, self.text.is_empty()) else { return true };
        match pieces.try_send(core::mem::take(&mut self.text)) {
            Ok(()) => true,
            Err(TrySendError::Full(text) | TrySendError::Disconnected(text)) => {
                self.text = text;
                false
            }
        }
    }
}

impl Sink for Lines {
    fn take(&mut self, captured: &Captured<'_>, time: u64) -> bool {
        if self.text.len() >= PIECE_BYTES && !self.hand_over() {
            return false;
        }
        self.text.push_str(&line(captured.bytes, captured.original_bytes, captured.sent, time));
        true
    }

    fn discard(&mut self, _captured: &Captured<'_>) {}

    fn flush(&mut self) -> bool {
        !self.hand_over()
    }

    fn is_over(&self) -> bool {
        self.reader_gone.load(Ordering::Relaxed)
    }
}

/// Time of day (UTC), direction, who to whom, protocol, octets on the wire.
fn line(bytes: &[u8], original_bytes: usize, sent: bool, time: u64) -> String {
    let Headers { from, to, protocol } = Headers::of(bytes);
    let (seconds, micros) = (time / 1_000_000_000 % 86_400, time / 1_000 % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let direction = if sent { "Out" } else { "In " };
    format!(
        "{hours:02}:{minutes:02}:{seconds:02}.{micros:06} {direction} {from} > {to} {protocol} {original_bytes}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_line() {
        let frame = [&[2; 6][..], &[3; 6], &[8, 6], &[0; 46]].concat();
        assert_eq!(
            line(&frame, 60, true, 86_400_000_000_000 + 3_723_000_004_999),
            "01:02:03.000004 Out 03:03:03:03:03:03 > 02:02:02:02:02:02 arp 60\n"
        );
    }
}
