//! An HTTP server that is independent of the implementation of its sockets and of its calls for waiting. As
//! in the paper it has a connection for each document.

use evenkeel::raw::time::Duration;

/// The end of a request's head. A request here has nothing else.
const BLANK_LINE: &[u8; 4] = b"\r\n\r\n";
const CHUNK: usize = 4 << 10;

/// The calls that a server makes for a connection. None of them blocks.
pub(super) trait Sockets {
    /// Accepts a connection, if one is there, and waits for it from now on.
    fn accept(&mut self) -> Option<u32>;

    /// Reads the bytes that have arrived.
    fn read(&mut self, stream: u32, to: &mut [u8]) -> Read;

    /// Writes `bytes`. Returns whether all were taken.
    fn write(&mut self, stream: u32, bytes: &[u8]) -> bool;

    /// Closes a connection, and waits for it no more.
    fn close(&mut self, stream: u32);

    /// Computes for this time.
    fn compute(&mut self, time: Duration);
}

/// The result of a call of [`Sockets::read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    Nothing,
    Bytes(usize),
    /// The stream has ended.
    End,
}

/// The server, without its sockets.
#[derive(Debug)]
pub(super) struct Httpd {
    answer: Vec<u8>,
    work: Duration,
    /// The length of the blank line's beginning that was read last, by connection.
    heard: Vec<u8>,
    /// Open connections, and the most at a time.
    open: usize,
    most: usize,
    answered: u64,
}

impl Httpd {
    /// Creates a server that answers every request with `bytes` bytes, after `work`.
    pub(super) fn new(bytes: usize, work: Duration) -> Self {
        let mut answer =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n").into_bytes();
        answer.resize(answer.len() + bytes, b'.');
        Self { answer, work, heard: Vec::new(), open: 0, most: 0, answered: 0 }
    }

    /// Accepts all waiting connections.
    pub(super) fn accept(&mut self, sockets: &mut impl Sockets) {
        while let Some(stream) = sockets.accept() {
            let index = stream as usize;
            if index >= self.heard.len() {
                self.heard.resize(index + 1, 0);
            }
            self.heard[index] = 0;
            self.open += 1;
            self.most = self.most.max(self.open);
        }
    }

    /// Reads from a connection once, and answers a complete request.
    pub(super) fn serve(&mut self, stream: u32, sockets: &mut impl Sockets) {
        let mut chunk = [0; CHUNK];
        match sockets.read(stream, &mut chunk) {
            Read::Nothing => {}
            Read::Bytes(len) => {
                if self.has_asked(stream, chunk.get(..len).unwrap_or_default()) {
                    sockets.compute(self.work);
                    // A connection that has sent nothing yet has room for more than that. If not, its client
                    // detects that bytes are missing.
                    if sockets.write(stream, &self.answer) {
                        self.answered += 1;
                    }
                    self.close(stream, sockets);
                }
            }
            Read::End => self.close(stream, sockets),
        }
    }

    fn close(&mut self, stream: u32, sockets: &mut impl Sockets) {
        sockets.close(stream);
        self.open -= 1;
    }

    fn has_asked(&mut self, stream: u32, bytes: &[u8]) -> bool {
        let Some(heard) = self.heard.get_mut(stream as usize) else { return false };
        for &byte in bytes {
            *heard = match BLANK_LINE.get(usize::from(*heard)) {
                Some(&next) if next == byte => *heard + 1,
                _ => u8::from(byte == BLANK_LINE[0]),
            };
            if usize::from(*heard) == BLANK_LINE.len() {
                return true;
            }
        }
        false
    }

    /// Returns the greatest number of simultaneous connections.
    pub(super) const fn most(&self) -> usize {
        self.most
    }

    /// Returns the number of answered requests.
    pub(super) const fn answered(&self) -> u64 {
        self.answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection on which pieces of a request have arrived.
    #[derive(Default)]
    struct Said {
        pieces: Vec<&'static [u8]>,
        room: usize,
        written: Vec<u8>,
        closed: bool,
        computed: Duration,
        accepted: bool,
    }

    impl Sockets for Said {
        fn accept(&mut self) -> Option<u32> {
            (!std::mem::replace(&mut self.accepted, true)).then_some(7)
        }

        fn read(&mut self, stream: u32, to: &mut [u8]) -> Read {
            assert_eq!(stream, 7);
            if self.pieces.is_empty() {
                return Read::End;
            }
            let piece = self.pieces.remove(0);
            to[..piece.len()].copy_from_slice(piece);
            if piece.is_empty() { Read::Nothing } else { Read::Bytes(piece.len()) }
        }

        fn write(&mut self, _: u32, bytes: &[u8]) -> bool {
            self.written.extend(bytes.iter().take(self.room));
            bytes.len() <= self.room
        }

        fn close(&mut self, _: u32) {
            assert!(!self.closed);
            self.closed = true;
        }

        fn compute(&mut self, time: Duration) {
            self.computed += time;
        }
    }

    fn served(pieces: &[&'static [u8]], room: usize) -> (Httpd, Said) {
        let mut said = Said { pieces: pieces.to_vec(), room, ..Said::default() };
        let mut httpd = Httpd::new(1_259, Duration::from_micros(5));
        httpd.accept(&mut said);
        assert_eq!((httpd.open, httpd.most()), (1, 1));
        pieces.iter().for_each(|_| httpd.serve(7, &mut said));
        (httpd, said)
    }

    #[test]
    fn a_request_in_pieces_is_answered_when_it_is_whole() {
        let (httpd, said) = served(&[b"GET / HTTP/1.1\r\n", b"", b"Host: a\r\n\r", b"\n"], 9_999);
        let answer = String::from_utf8(said.written).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("Content-Length: 1259") && body.len() == 1_259, "{head}");
        assert!(said.closed && said.computed == Duration::from_micros(5));
        assert_eq!((httpd.answered(), httpd.open), (1, 0));
    }

    #[test]
    fn what_is_no_request_or_cannot_be_answered_is_not_counted() {
        let (httpd, said) = served(&[b"GET / HTTP/1.1\r\n", b"\r"], 9_999);
        assert!(!said.closed && httpd.answered() == 0 && httpd.open == 1);
        let (httpd, said) = served(&[b"GET / HTTP/1.1\r\n\r\n"], 100);
        assert!(said.closed && httpd.answered() == 0 && httpd.open == 0);
    }

    #[test]
    fn a_connection_that_ends_is_closed() {
        let mut said = Said::default();
        let mut httpd = Httpd::new(10, Duration::ZERO);
        httpd.accept(&mut said);
        httpd.serve(7, &mut said);
        assert!(said.closed && httpd.open == 0);
    }
}
