//! The content of an answer, read from its file piece by piece.

use core::ops::Range;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use super::activity::InFlight;
use super::counters::Counters;
use super::log::Entry;

/// The bytes that are read from a file at a time for a connection with one request at a time.
pub(super) const PIECE_BYTES: u64 = 64 * 1024;

/// The bytes that are read at a time if requests share the connection: a frame of HTTP/2.
pub(super) const FRAME_BYTES: u64 = 16 * 1024;

/// The content of an answer: texts, and ranges of one file, which are read as they are sent.
///
/// A file that has become shorter is an error, which ends the connection (HTTP/1) or the stream (HTTP/2): the
/// announced length cannot be sent any more.
#[derive(Debug)]
pub struct Body {
    file: Option<File>,
    /// The offset that the file's next read has.
    offset: u64,
    parts: VecDeque<Part>,
    piece_bytes: u64,
    request: Option<InFlight>,
    entry: Option<Entry>,
    counters: Option<Arc<Counters>>,
}

#[derive(Debug)]
enum Part {
    Text(Bytes),
    /// A range of the file, which is not empty.
    File(Range<u64>),
}

impl Body {
    /// Creates an empty content.
    pub(super) const fn empty() -> Self {
        let parts = VecDeque::new();
        let piece_bytes = PIECE_BYTES;
        Self { file: None, offset: 0, parts, piece_bytes, request: None, entry: None, counters: None }
    }

    /// Creates the content of a text.
    pub(super) fn text(text: impl Into<Bytes>) -> Self {
        let mut body = Self::empty();
        body.push_text(text);
        body
    }

    /// Creates an empty content that can have ranges of `file`.
    pub(super) fn of_file(file: File) -> Self {
        Self { file: Some(file), ..Self::empty() }
    }

    /// Appends a text to the content.
    pub(super) fn push_text(&mut self, text: impl Into<Bytes>) {
        let text = text.into();
        if !text.is_empty() {
            self.parts.push_back(Part::Text(text));
        }
    }

    /// Appends a range of the file to the content.
    pub(super) fn push_range(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.parts.push_back(Part::File(range));
        }
    }

    /// Returns the bytes that are still to be sent.
    pub(super) fn len(&self) -> u64 {
        let len = |part: &Part| match part {
            Part::Text(text) => text.len() as u64,
            Part::File(range) => range.end - range.start,
        };
        self.parts.iter().map(len).sum()
    }

    /// Removes all content: the answer has only a head.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
        self.file = None;
    }

    /// Makes this the content of the answer to `request`, which ends with it. It is counted in `counters` and
    /// logged in `entry`.
    pub(super) fn attach(&mut self, request: InFlight, counters: &Arc<Counters>, entry: Option<Entry>) {
        self.request = Some(request);
        self.counters = Some(Arc::clone(counters));
        self.entry = entry;
    }

    /// Makes the file be read in pieces of `bytes`.
    pub(super) const fn set_piece_bytes(&mut self, bytes: u64) {
        self.piece_bytes = bytes;
    }

    /// Returns the next piece, or `None` at the end.
    fn next_piece(&mut self) -> io::Result<Option<Bytes>> {
        let Some(part) = self.parts.pop_front() else { return Ok(None) };
        let range = match part {
            Part::Text(text) => return Ok(Some(text)),
            Part::File(range) => range,
        };
        let piece = self.read(range.start, self.piece_bytes.min(range.end - range.start))?;
        let next = range.start + piece.len() as u64;
        if next < range.end {
            self.parts.push_front(Part::File(next..range.end));
        }
        Ok(Some(piece))
    }

    /// Reads `len` bytes of the file.
    fn read(&mut self, offset: u64, len: u64) -> io::Result<Bytes> {
        let mut file = self.file.as_ref().ok_or(io::ErrorKind::UnexpectedEof)?;
        if offset != self.offset {
            self.offset = file.seek(SeekFrom::Start(offset))?;
        }
        let mut piece = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
        file.take(len).read_to_end(&mut piece)?;
        self.offset += piece.len() as u64;
        if (piece.len() as u64) < len {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"));
        }
        Ok(piece.into())
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let piece = self.next_piece();
        if let Ok(Some(piece)) = &piece {
            let bytes = piece.len() as u64;
            self.request.iter().for_each(InFlight::progress);
            self.entry.iter_mut().for_each(|entry| entry.sent(bytes));
            self.counters.iter().for_each(|counters| counters.sent(bytes));
        }
        Poll::Ready(piece.transpose().map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, bytes: &[u8]) -> (File, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!("evenkeel-body-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        (File::open(&path).unwrap(), path)
    }

    fn pieces(body: &mut Body) -> io::Result<Vec<Bytes>> {
        core::iter::from_fn(|| body.next_piece().transpose()).collect()
    }

    #[test]
    fn a_large_file_is_read_in_bounded_pieces() {
        let content: Vec<u8> = (0..3 * PIECE_BYTES + 5).map(|at| (at % 251) as u8).collect();
        let (file, path) = file("pieces", &content);
        std::fs::remove_file(path).unwrap();
        let mut body = Body::of_file(file);
        body.push_range(1..content.len() as u64);
        assert_eq!(body.len(), content.len() as u64 - 1);
        let pieces = pieces(&mut body).unwrap();
        assert!(pieces.iter().all(|piece| piece.len() as u64 <= PIECE_BYTES));
        assert_eq!(pieces.concat(), &content[1..]);
        assert_eq!(body.len(), 0);
    }

    #[test]
    fn texts_and_ranges_come_in_their_order() {
        let (file, path) = file("parts", b"0123456789");
        std::fs::remove_file(path).unwrap();
        let mut body = Body::of_file(file);
        for (text, range) in [("a", 8..10), ("b", 0..0), ("c", 2..4), ("", 4..5)] {
            body.push_text(text);
            body.push_range(range);
        }
        assert_eq!(body.len(), 8);
        assert_eq!(pieces(&mut body).unwrap().concat(), b"a89bc234");
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let (file, path) = file("shorter", &[7; 100_000]);
        let mut body = Body::of_file(file);
        body.push_range(0..100_000);
        assert_eq!(body.next_piece().unwrap().unwrap().len() as u64, PIECE_BYTES);
        std::fs::write(&path, [7; 80_000]).unwrap();
        assert_eq!(body.next_piece().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        std::fs::remove_file(path).unwrap();
    }
}
