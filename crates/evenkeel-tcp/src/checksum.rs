//! The Internet checksum (RFC 1071), over data that may lie in several places.

use core::net::IpAddr;

/// A ones' complement sum that data is added to.
///
/// It adds native-endian 64-bit words, with the carry brought round, and folds once at the end (RFC 1071 2 B
/// and C).
///
/// ```
/// use std::net::Ipv4Addr;
///
/// use evenkeel_tcp::Checksum;
///
/// // A UDP header and its payload, which lie in two places.
/// let (source, destination) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
/// let mut header = [0x9c, 0x40, 0, 7, 0, 13, 0, 0];
/// let payload = b"hello";
/// let sum = Checksum::pseudo(source, destination, 17, header.len() + payload.len());
/// let checksum = sum.add(&header).add(payload).finish();
/// header[6..].copy_from_slice(&checksum.to_be_bytes());
///
/// // With a correct checksum in the data, the result is zero.
/// assert_eq!(sum.add(&header).add(payload).finish(), 0);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Checksum {
    sum: u64,
    /// Whether an odd number of bytes was added, so that the next byte is the low half of a 16-bit word.
    odd: bool,
}

impl Checksum {
    /// Returns the sum over the pseudo header of `len` bytes of `protocol` (RFC 768, RFC 8200 8.1).
    ///
    /// IPv4 and IPv6 differ only in the addresses: the other fields add up to the same.
    #[inline]
    pub fn pseudo(
        source: impl Into<IpAddr>,
        destination: impl Into<IpAddr>,
        protocol: u8,
        len: usize,
    ) -> Self {
        let with_address = |sum: Self, address| match address {
            IpAddr::V4(a) => sum.add(&a.octets()),
            IpAddr::V6(a) => sum.add(&a.octets()),
        };
        let sum = with_address(with_address(Self::default(), source.into()), destination.into());
        let rest = u64::from((len as u32).to_be()) + u64::from(u16::from(protocol).to_be());
        Self { sum: add_word(sum.sum, rest), ..sum }
    }

    /// Returns the sum with `bytes` appended.
    #[must_use]
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it adds to a sum, and a slice is no checksum")]
    pub fn add(self, bytes: &[u8]) -> Self {
        let words = sum_words(bytes);
        let sum = if self.odd { u64::from(fold(words).swap_bytes()) } else { words };
        Self { sum: add_word(self.sum, sum), odd: self.odd ^ (bytes.len() % 2 == 1) }
    }

    /// Returns the sum with `bytes` appended, and copies them to `to`, which has their length. Summing each
    /// word takes no longer than moving it.
    #[must_use]
    #[inline]
    pub fn add_copied(self, bytes: &[u8], to: &mut [u8]) -> Self {
        let words = copy_words(bytes, to);
        let sum = if self.odd { u64::from(fold(words).swap_bytes()) } else { words };
        Self { sum: add_word(self.sum, sum), odd: self.odd ^ (bytes.len() % 2 == 1) }
    }

    /// Returns the sum with an array of `bytes` appended, to an even number of bytes. The compiler unrolls
    /// it.
    #[must_use]
    #[inline(always)]
    pub fn add_array<const N: usize>(self, bytes: &[u8; N]) -> Self {
        const { assert!(N % 4 == 0) };
        let (words, rest) = chunks(bytes);
        let sum = words.fold(self.sum, |sum, word| add_word(sum, u64::from_ne_bytes(*word)));
        let half = rest.first_chunk().map_or(0, |half| u32::from_ne_bytes(*half));
        Self { sum: add_word(sum, u64::from(half)), ..self }
    }

    /// Returns the sum with words appended, to an even number of bytes, that go out in network byte order.
    #[must_use]
    #[inline(always)]
    pub fn add_words<const N: usize>(self, words: &[u32; N]) -> Self {
        let sum = words.iter().fold(self.sum, |sum, word| add_word(sum, u64::from(word.to_be())));
        Self { sum, ..self }
    }

    /// Returns the value for the checksum field: the complement of the sum. It is zero if the sum covered
    /// data with a correct checksum in it.
    #[must_use]
    #[inline(always)]
    pub fn finish(self) -> u16 {
        u16::from_be(!fold(self.sum))
    }
}

/// Returns the ones' complement sum of native-endian words. Folded, it does not depend on their width
/// (RFC 1071 2 B). The next carry goes in with the next word, so a block takes one addition for each word.
fn sum_words(bytes: &[u8]) -> u64 {
    let (blocks, rest) = chunks::<128>(bytes);
    let sum = blocks.fold(0, add_block);
    let (blocks, mut rest) = chunks::<32>(rest);
    let mut sum = blocks.fold(sum, add_block);
    // The number is known, so the loop is unrolled: it is most of what a short payload costs.
    for _ in 0..3 {
        let Some((word, after)) = rest.split_first_chunk() else { break };
        (sum, rest) = (add_word(sum, u64::from_ne_bytes(*word)), after);
    }
    add_word(sum, last_word(bytes, rest.len()))
}

/// Returns the parts of `bytes` that have N bytes each, and what is left at the end.
#[inline(always)]
fn chunks<const N: usize>(bytes: &[u8]) -> (impl Iterator<Item = &[u8; N]>, &[u8]) {
    let chunks = bytes.chunks_exact(N);
    let rest = chunks.remainder();
    (chunks.filter_map(<[u8]>::first_chunk), rest)
}

/// Sums words while copying the bytes to `to`.
#[inline]
fn copy_words(bytes: &[u8], to: &mut [u8]) -> u64 {
    const BLOCK: usize = 128;
    let (blocks, rest) = bytes.split_at(bytes.len() / BLOCK * BLOCK);
    let pairs = blocks.chunks_exact(BLOCK).zip(to.chunks_exact_mut(BLOCK));
    let sum = pairs.fold(0, |sum, (block, room)| copy_block(sum, block, room));
    if let Some(room) = to.get_mut(blocks.len()..bytes.len()) {
        room.copy_from_slice(rest);
    }
    add_word(sum, sum_words(rest))
}

/// Returns the last bytes, fewer than eight, as a word that ends with zeros.
#[inline(always)]
fn last_word(bytes: &[u8], len: usize) -> u64 {
    let word = match bytes.last_chunk() {
        // The bytes before are shifted out.
        Some(last) if len > 0 => u64::from_le_bytes(*last) >> (64 - 8 * len),
        Some(_) => 0,
        None => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    word.to_le()
}

#[inline(always)]
fn add_block<const BYTES: usize>(sum: u64, block: &[u8; BYTES]) -> u64 {
    let add = |(sum, carry), word: &[u8; 8]| add_with_carry(sum, u64::from_ne_bytes(*word), carry);
    let (sum, carry) = chunks(block).0.fold((sum, false), add);
    add_word(sum, u64::from(carry))
}

#[inline(always)]
fn copy_block(sum: u64, block: &[u8], to: &mut [u8]) -> u64 {
    let (mut sum, mut carry) = (sum, false);
    for (word, room) in block.chunks_exact(8).zip(to.chunks_exact_mut(8)) {
        room.copy_from_slice(word);
        let word = word.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        (sum, carry) = add_with_carry(sum, word, carry);
    }
    add_word(sum, u64::from(carry))
}

/// Adds two words and a carry. Returns the sum and its carry.
#[inline(always)]
const fn add_with_carry(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let (sum, first) = a.overflowing_add(b);
    let (sum, second) = sum.overflowing_add(carry as u64);
    (sum, first | second)
}

/// Adds a word to a sum. The carry comes back in at the low end.
#[inline(always)]
const fn add_word(sum: u64, word: u64) -> u64 {
    let (sum, carry) = sum.overflowing_add(word);
    sum.wrapping_add(carry as u64)
}

#[inline(always)]
const fn fold(sum: u64) -> u16 {
    // Added to itself with the halves exchanged, a number has its ones' complement sum in the upper half.
    let sum = (sum.wrapping_add(sum.rotate_right(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_right(16)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_smoltcp_however_the_data_is_cut(
            bytes in proptest::collection::vec(any::<u8>(), 0..3000),
            cuts in proptest::collection::vec(any::<u16>(), 0..4),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|c| *c as usize % (bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let sum = cuts.windows(2).fold(Checksum::default(), |sum, w| sum.add(&bytes[w[0]..w[1]]));
            prop_assert_eq!(sum.finish(), !smoltcp::wire::checksum::data(&bytes));
        }
    }

    proptest! {
        #[test]
        fn what_is_copied_on_the_way_is_summed(
            bytes in proptest::collection::vec(any::<u8>(), 0..700),
            first in 0..200_usize,
        ) {
            let (a, b) = bytes.split_at(first.min(bytes.len()));
            let mut copy = vec![0; bytes.len()];
            let (to_a, to_b) = copy.split_at_mut(a.len());
            let sum = Checksum::default().add_copied(a, to_a).add_copied(b, to_b);
            prop_assert_eq!(sum.finish(), !smoltcp::wire::checksum::data(&bytes));
            prop_assert_eq!(copy, bytes);
        }

        #[test]
        fn arrays_add_up_like_slices(head in any::<[u8; 8]>(), rest in any::<[u8; 20]>()) {
            let arrays = Checksum::default().add_array(&head).add_array(&rest);
            prop_assert_eq!(arrays.finish(), Checksum::default().add(&head).add(&rest).finish());
            let words: [u32; 5] = core::array::from_fn(|n| u32::from_be_bytes(rest.as_chunks().0[n]));
            prop_assert_eq!(arrays.finish(), Checksum::default().add(&head).add_words(&words).finish());
        }
    }

    #[test]
    fn the_largest_sum_folds() {
        assert_eq!(Checksum::default().add(&vec![0xff; 65_535]).finish(), 0x00ff);
        assert_eq!(Checksum::default().add(&vec![0xff; 65_534]).finish(), 0);
    }
}
