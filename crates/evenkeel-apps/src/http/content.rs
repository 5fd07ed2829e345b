//! The content of a message. It is read and discarded, so that the connection can be kept (RFC 9112, 6 and
//! 7.1).

use super::head::{is_text, is_token};

/// The maximum number of bytes of a request's content that are read and discarded.
pub(super) const CONTENT_BYTES_MAX: u64 = 64 << 10;
/// The maximum number of bytes in the line of a chunk's size, with its extensions, which are ignored.
const LINE_BYTES_MAX: u64 = 256;
/// The maximum number of bytes of all trailer fields together.
const TRAILER_BYTES_MAX: u64 = 8 << 10;

/// The part of a message's content that is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Content of known length, with the number of bytes still to come.
    Length(u64),
    /// Content in chunks, with trailer fields.
    Chunked(Chunked),
}

/// An error of a content that is malformed or too long. Its end is unknown, and so is the start of the next
/// message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable;

impl Content {
    pub(super) const NONE: Self = Self::Length(0);

    pub(super) fn is_over(self) -> bool {
        match self {
            Self::Length(left) => left == 0,
            Self::Chunked(chunked) => chunked.at == At::End,
        }
    }

    /// Reads and discards those of `bytes` that belong to the content. Returns their number.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> Result<usize, Unreadable> {
        match self {
            Self::Length(left) => {
                let passed = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= passed as u64;
                Ok(passed)
            }
            Self::Chunked(chunked) => chunked.pass(bytes),
        }
    }
}

/// The state of reading a chunked content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunked {
    at: At,
    /// Whether oddities of servers are accepted: blanks behind a size, and trailer lines that are no
    /// fields.
    lenient: bool,
    /// The size of the chunk as far as it was read, then the number of its bytes that are still to come.
    left: u64,
    /// The maximum number of bytes of all chunks that are still to come.
    room: u64,
    /// The number of bytes of the current size line, or of the trailer.
    line: u64,
}

/// The next element that is expected in a chunked content. Lines must end with CR and LF. A server that
/// accepts less as an end of line would see other chunks than another server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// The first digit of a size.
    Size,
    /// Another digit, or the end of the size.
    Digits,
    /// Blanks behind the size, and the semicolon of an extension.
    Blank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// The beginning of a trailer field, or the empty line that ends it all.
    Trailer,
    Name,
    Field,
    FieldLf,
    LastLf,
    End,
}

impl Chunked {
    /// Returns the state at the start of a request's chunked content, of at most `room` bytes in all.
    pub(super) const fn strict(room: u64) -> Self {
        Self { at: At::Size, lenient: false, left: 0, room, line: 0 }
    }

    /// Returns the state at the start of a response's chunked content, of any length.
    pub(super) const fn lenient() -> Self {
        Self { lenient: true, ..Self::strict(u64::MAX) }
    }

    fn pass(&mut self, bytes: &[u8]) -> Result<usize, Unreadable> {
        let mut passed = 0;
        while let Some(&byte) = bytes.get(passed).filter(|_| self.at != At::End) {
            if self.at == At::Data {
                let run = (bytes.len() - passed).min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= run as u64;
                passed += run;
                if self.left == 0 {
                    self.at = At::DataCr;
                }
            } else {
                self.at = self.step(byte).ok_or(Unreadable)?;
                passed += 1;
            }
        }
        Ok(passed)
    }

    /// Returns the state after `byte`, which is not part of a chunk's data; `None` if the byte is not
    /// allowed here.
    fn step(&mut self, byte: u8) -> Option<At> {
        self.line += 1;
        let trailing = matches!(self.at, At::Trailer | At::Name | At::Field | At::FieldLf | At::LastLf);
        if self.line > if trailing { TRAILER_BYTES_MAX } else { LINE_BYTES_MAX } {
            return None;
        }
        match (self.at, byte) {
            (At::Size | At::Digits, digit) if digit.is_ascii_hexdigit() => self.digit(digit),
            (At::Digits | At::Extension, b'\r') => Some(At::SizeLf),
            // There may be blanks before an extension, and nowhere else (RFC 9112, 7.1.1). Some servers pad
            // sizes to columns.
            (At::Blank, b'\r') if self.lenient => Some(At::SizeLf),
            (At::Digits | At::Blank, b' ' | b'\t') => Some(At::Blank),
            (At::Digits | At::Blank, b';') => Some(At::Extension),
            (At::Extension, other) if is_text(other) => Some(At::Extension),
            (At::SizeLf, b'\n') => self.chunk(),
            (At::DataCr, b'\r') => Some(At::DataLf),
            (At::DataLf, b'\n') => {
                self.line = 0;
                Some(At::Size)
            }
            (At::Trailer, b'\r') => Some(At::LastLf),
            (At::Field, b'\r') => Some(At::FieldLf),
            (At::Trailer, other) if self.lenient && is_text(other) => Some(At::Field),
            (At::Trailer | At::Name, letter) if is_token(letter) => Some(At::Name),
            (At::Name, b':') => Some(At::Field),
            (At::Field, other) if is_text(other) => Some(At::Field),
            (At::FieldLf, b'\n') => Some(At::Trailer),
            (At::LastLf, b'\n') => Some(At::End),
            _ => None,
        }
    }

    fn digit(&mut self, digit: u8) -> Option<At> {
        let value = char::from(digit).to_digit(16)?;
        self.left = self.left.checked_mul(16)?.checked_add(value.into())?;
        Some(At::Digits)
    }

    /// Begins the chunk, or the trailer after the last chunk, at the end of the size line.
    fn chunk(&mut self) -> Option<At> {
        self.line = 0;
        self.room = self.room.checked_sub(self.left)?;
        Some(if self.left == 0 { At::Trailer } else { At::Data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the length of a chunked content with its framing; `None` if it is incomplete.
    fn len(bytes: &[u8], piece: usize) -> Result<Option<usize>, Unreadable> {
        let (mut content, mut passed) = (Content::Chunked(Chunked::strict(CONTENT_BYTES_MAX)), 0);
        while passed < bytes.len() && !content.is_over() {
            let end = bytes.len().min(passed.saturating_add(piece));
            passed += content.pass(&bytes[passed..end])?;
        }
        Ok(content.is_over().then_some(passed))
    }

    #[test]
    fn chunks_are_passed_to_the_end_of_the_trailer_and_no_further() {
        let whole =
            b"5\r\nhello\r\n0A ; name=\"value\"\r\n0123456789\r\n000\r\nTrailer: x\r\nOther: y\r\n\r\n";
        for piece in [1, 2, 3, 7, usize::MAX] {
            let followed = [&whole[..], b"GET / HTTP/1.1"].concat();
            assert_eq!(len(&followed, piece), Ok(Some(whole.len())), "pieces of {piece}");
        }
        assert_eq!(len(b"0\r\n\r\n", 9), Ok(Some(5)));
        (0..whole.len()).for_each(|cut| assert_eq!(len(&whole[..cut], 5), Ok(None), "{cut}"));
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for wrong in [
            &b"\r\n"[..],
            b"x\r\n",
            b";\r\n",
            b" 5\r\n",
            b"+5\r\n",
            b"0x5\r\n",
            b"5\n",
            b"5\rx",
            b"5 5\r\n",
            b"5 \r\n",
            b"0\r\nno colon\r\n",
            b"0\r\n: b\r\n",
            b"0\r\n A: b\r\n",
            b"5;\n",
            b"1\r\nab\r\n",
            b"1\r\na\n",
            b"0\r\n\n",
            b"0\r\nA: b\n",
            b"0\r\nA\0",
            b"10000000000000000\r\n",
            b"ffffffffffffffff\r\n",
            b"10001\r\n",
        ] {
            assert_eq!(len(wrong, 4), Err(Unreadable), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn oddities_of_servers_are_let_pass() {
        for odd in [&b"5 \r\nhello\r\n0\t\r\n\r\n"[..], b"0\r\nno colon\r\n\r\n"] {
            let mut content = Content::Chunked(Chunked::lenient());
            assert_eq!(content.pass(odd), Ok(odd.len()), "{}", odd.escape_ascii());
            assert!(content.is_over());
        }
        for wrong in [&b"5 5\r\n"[..], b"5 x\r\n", b"x\r\n", b"5\n"] {
            assert_eq!(Content::Chunked(Chunked::lenient()).pass(wrong), Err(Unreadable));
        }
    }

    #[test]
    fn bounds_are_kept() {
        let chunks = |of: usize, times: usize| {
            let chunk = [format!("{of:x}\r\n").as_bytes(), &vec![b'x'; of], b"\r\n"].concat();
            len(&[&chunk.repeat(times)[..], b"0\r\n\r\n"].concat(), usize::MAX)
        };
        assert!(chunks(64 << 10, 1).is_ok_and(|len| len.is_some()));
        assert_eq!(chunks(1 << 10, 65), Err(Unreadable));
        let endless = [&b"5;"[..], &[b'a'; 300]].concat();
        assert_eq!(len(&endless, 10), Err(Unreadable));
        let trailer = [&b"0\r\n"[..], &b"A: b\r\n".repeat(10_000)].concat();
        assert_eq!(len(&trailer, 10), Err(Unreadable));
    }
}
