//! The document of the responder: bytes computed from their offsets.

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

/// Returns the output of SplitMix64 (Steele, Lea and Flood, 2014) for the state `n`.
const fn word(n: u64) -> u64 {
    let z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the authors' generator with seed 0.
    #[test]
    fn is_splitmix() {
        assert_eq!(
            [word(0), word(1), word(2)],
            [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]
        );
    }

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
