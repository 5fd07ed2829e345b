//! The programs of the two users of a connection, and their progress.

use evenkeel_core::tcp::connection::Error;
use evenkeel_core::tcp::table::Id;
use evenkeel_core::time::Duration;

/// The program of one user of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// The number of bytes to send.
    pub(crate) bytes: u64,
    /// The bytes of each call, and in the next field the pause after each.
    pub(crate) write_chunk: usize,
    pub(crate) write_pause: Option<Duration>,
    pub(crate) read_chunk: usize,
    pub(crate) read_pause: Option<Duration>,
    pub(crate) ending: Ending,
    pub(crate) nagle: bool,
}

/// The way in which a user ends its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Shuts down when all is written, and reads to the end.
    Shutdown,
    /// Shuts down when all is written and the other user has shut down; reads to the end.
    ShutdownLast,
    /// Closes when all is written, whatever arrives.
    Close,
    /// Closes at this time, whatever is written.
    CloseAt(Duration),
    /// Aborts at this time.
    AbortAt(Duration),
}

impl Program {
    /// Returns whether the user does nothing that may keep the other user's data from arriving.
    pub(crate) const fn is_orderly(&self) -> bool {
        matches!(self.ending, Ending::Shutdown | Ending::ShutdownLast)
    }
}

/// The outcome of a connection for a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// All data was written, and the end was read.
    Complete,
    /// The user closed or aborted by itself.
    Left,
    /// The connection failed with this error.
    Failed(Error),
}

/// The progress of a user.
#[derive(Debug, Default)]
pub(crate) struct Side {
    pub(crate) id: Option<Id>,
    pub(crate) written: u64,
    pub(crate) read: u64,
    /// Whether the user has announced its end.
    pub(crate) ended: bool,
    /// Whether the user has read the end.
    pub(crate) saw_end: bool,
    pub(crate) fate: Option<Fate>,
    pub(crate) write_paused: bool,
    pub(crate) read_paused: bool,
    /// The number of observed tail loss probes.
    pub(crate) probes: u32,
}

/// The bytes of a stream. Each byte identifies its connection, its direction, and its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream(u64);

impl Stream {
    pub(crate) fn new(seed: u64, connection: usize, side: usize) -> Self {
        Self(mixed(seed ^ mixed((connection * 2 + side) as u64)))
    }

    /// Fills `to` with the bytes from `place` on.
    pub(crate) fn fill(self, place: u64, to: &mut [u8]) {
        let (mut block, mut skip) = (place / 8, (place % 8) as usize);
        let mut rest = to;
        while !rest.is_empty() {
            let bytes = mixed(self.0 ^ block).to_le_bytes();
            let len = rest.len().min(8 - skip);
            let (now, later) = rest.split_at_mut(len);
            now.copy_from_slice(&bytes[skip..skip + len]);
            (rest, block, skip) = (later, block + 1, 0);
        }
    }

    /// Returns whether `bytes` are those that begin at `place`.
    pub(crate) fn matches(self, place: u64, bytes: &[u8]) -> bool {
        let mut expected = [0; 2_048];
        let mut place = place;
        bytes.chunks(expected.len()).all(|chunk| {
            let expected = &mut expected[..chunk.len()];
            self.fill(place, expected);
            place += chunk.len() as u64;
            expected == chunk
        })
    }
}

fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
