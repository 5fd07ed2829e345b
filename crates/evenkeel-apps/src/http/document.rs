//! The document of the responder: bytes computed from their offsets.

use evenkeel_base::SplitMix64;

/// A document of `len` bytes, each of which is computed from its offset. No two stretches of it are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Document {
    len: u64,
}

/// The number of bytes that are computed at a time.
const WORD: usize = 8;

impl Document {
    /// Creates a document of `len` bytes.
    #[must_use]
    pub const fn new(len: u64) -> Self {
        Self { len }
    }

    /// Returns the length of the document in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the document has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `to` with the document's bytes from offset `place` on. `to` must not reach beyond the end,
    /// which is not checked.
    pub fn read(&self, place: u64, to: &mut [u8]) {
        // The parts are: bytes up to a word, whole words, and the rest.
        let odd = (place.wrapping_neg() as usize % WORD).min(to.len());
        let (first, rest) = to.split_at_mut(odd);
        first.iter_mut().zip(place..).for_each(|(byte, place)| *byte = byte_at(place));
        let mut place = place + odd as u64;
        let (words, last) = rest.as_chunks_mut::<WORD>();
        for bytes in words {
            *bytes = word(place / WORD as u64).to_le_bytes();
            place += WORD as u64;
        }
        last.iter_mut().zip(place..).for_each(|(byte, place)| *byte = byte_at(place));
    }
}

fn byte_at(place: u64) -> u8 {
    word(place / WORD as u64).to_le_bytes()[place as usize % WORD]
}

/// Returns the eight bytes from offset 8 `n` on: a number of one sequence.
const fn word(n: u64) -> u64 {
    SplitMix64::new(0).nth(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_piece_is_the_piece_of_the_whole() {
        let document = Document::new(100);
        let mut whole = [0; 100];
        document.read(0, &mut whole);
        for (start, end) in (0..100).flat_map(|start| (start..=100).map(move |end| (start, end))) {
            let mut piece = vec![0; end - start];
            document.read(start as u64, &mut piece);
            assert_eq!(piece, whole[start..end]);
        }
    }
}
