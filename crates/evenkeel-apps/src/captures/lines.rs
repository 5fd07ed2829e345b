//! The sink that shows frames: one line each.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use evenkeel::raw::capture::Captured;

use super::headers::{Detail, Headers, Protocol};
use super::program::{Sink, shared};

/// The size of pieces of text, and the number of pieces that may wait.
const PIECE_BYTES: usize = 16 * 1024;
const PIECES: usize = 16;

/// Prints a line for each frame, by a thread of its own: a terminal that was stopped does not stop the host.
pub struct Lines {
    text: String,
    /// The names of the interfaces, if there are several.
    names: Vec<String>,
    pieces: Option<SyncSender<String>>,
    reader_gone: Arc<AtomicBool>,
    /// The receiver of a message after everything is printed.
    printed: Mutex<Receiver<()>>,
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("text", &self.text.len()).finish_non_exhaustive()
    }
}

impl Lines {
    /// Creates lines that a thread of their own prints to `output`.
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
                // The receiver may be gone.
                let _ = done.send(());
            }
        });
        Self {
            text: String::new(),
            names: Vec::new(),
            pieces: Some(pieces),
            reader_gone,
            printed: Mutex::new(printed),
        }
    }

    /// Adds to each line the name of the interface on which the frame was seen.
    pub(crate) fn name_interfaces(&mut self, names: Vec<String>) {
        self.names = names;
    }

    /// Waits until everything is printed, or for `patience`.
    pub fn finish(&mut self, patience: evenkeel::raw::time::Duration) {
        if let Some(pieces) = self.pieces.take() {
            // If there is no room, the reader has stopped.
            let _ = pieces.try_send(core::mem::take(&mut self.text));
        }
        let _ = shared(&self.printed).recv_timeout(patience);
    }

    /// Passes the text to the printing thread; returns false if there is no room for it.
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
        let name = self.names.get(usize::from(captured.interface.0)).map(String::as_str);
        let headers = Headers::of(captured.link_type, captured.bytes);
        let lengths = [captured.bytes.len(), captured.original_bytes];
        self.text.push_str(&line(&headers, lengths, name, captured.sent, time));
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

/// Writes a line for a frame: time of day (UTC), interface, direction, sender and destination, protocol,
/// content, bytes on the wire, and bytes kept if not all were. For an unknown link type, its number stands
/// in place of everything that a header would say.
fn line(
    &Headers { from, to, protocol, detail }: &Headers,
    [kept, original_bytes]: [usize; 2],
    interface: Option<&str>,
    sent: bool,
    time: u64,
) -> String {
    let (seconds, micros) = (time / 1_000_000_000 % 86_400, time / 1_000 % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let direction = if sent { "Out" } else { "In " };
    let mut line = format!("{hours:02}:{minutes:02}:{seconds:02}.{micros:06} ");
    if let Some(interface) = interface {
        line.push_str(&format!("{interface} "));
    }
    if let Protocol::Link(_) = protocol {
        line.push_str(&format!("{direction} {protocol}, {original_bytes} bytes"));
    } else {
        line.push_str(&format!("{direction} {from} > {to} {protocol} "));
        if detail != Detail::None {
            line.push_str(&format!("{detail} "));
        }
        line.push_str(&original_bytes.to_string());
    }
    if kept < original_bytes {
        line.push_str(&format!(" [|{kept}]"));
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use evenkeel::raw::frame::LinkType;

    use super::*;

    #[test]
    fn a_frame_is_a_line() {
        let frame = [&[2; 6][..], &[3; 6], &[8, 6], &[0; 46]].concat();
        let arp = Headers::of(LinkType::ETHERNET, &frame);
        assert_eq!(
            line(&arp, [60, 60], None, true, 86_400_000_000_000 + 3_723_000_004_999),
            "01:02:03.000004 Out 03:03:03:03:03:03 > 02:02:02:02:02:02 arp 60\n"
        );
        assert_eq!(
            line(&arp, [60, 9_014], Some("eth0"), false, 0),
            "00:00:00.000000 eth0 In  03:03:03:03:03:03 > 02:02:02:02:02:02 arp 9014 [|60]\n"
        );
        let unknown = Headers::of(LinkType(195), &frame);
        assert_eq!(line(&unknown, [60, 60], None, false, 0), "00:00:00.000000 In  link type 195, 60 bytes\n");
    }
}
