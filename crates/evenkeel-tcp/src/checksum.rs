//! The Internet checksum (RFC 1071), over data that may lie in several places.

use crate::wire::IpAddress;

/// A ones' complement sum in the making.
///
/// It adds native-endian 32-bit words into 64 bits and folds once at the end (RFC 1071 2 B and C): a 64-bit
/// sum cannot overflow on anything that fits an IP packet, and the compiler turns the loop into vector
/// additions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Checksum {
    sum: u64,
    /// Whether an odd number of bytes was added, so that the next byte is the low half of a 16-bit word.
    odd: bool,
}

impl Checksum {
    /// The sum over the pseudo header of `len` bytes of `protocol` (RFC 768, RFC 8200 8.1).
    ///
    /// IPv4 and IPv6 differ only in the addresses: the other fields add up to the same.
    #[inline]
    pub fn pseudo(source: &IpAddress, destination: &IpAddress, protocol: u8, len: usize) -> Self {
        let with_address = |sum: Self, address: &IpAddress| match address {
            IpAddress::Ipv4(a) => sum.add(&a.octets()),
            IpAddress::Ipv6(a) => sum.add(&a.octets()),
        };
        let sum = with_address(with_address(Self::default(), source), destination);
        sum.add(&(len as u32).to_be_bytes()).add(&[0, protocol])
    }

    /// The sum with `bytes` appended.
    #[must_use]
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it adds to a sum, and a slice is no checksum")]
    pub fn add(self, bytes: &[u8]) -> Self {
        let words = sum_words(bytes);
        let sum = if self.odd { u64::from(fold(words).swap_bytes()) } else { words };
        Self { sum: self.sum + sum, odd: self.odd ^ (bytes.len() % 2 == 1) }
    }

    /// What goes into the checksum field: the complement. Zero if the sum covered data with a right checksum
    /// in it.
    #[must_use]
    pub fn finish(self) -> u16 {
        u16::from_be(!fold(self.sum))
    }
}

fn sum_words(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    sum += u64::from(u32::from_ne_bytes(last));
    sum
}

fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
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
            prop_assert_eq!(sum.finish(), !crate::wire::checksum::data(&bytes));
        }
    }

    #[test]
    fn the_largest_sum_folds() {
        assert_eq!(Checksum::default().add(&vec![0xff; 65_535]).finish(), 0x00ff);
        assert_eq!(Checksum::default().add(&vec![0xff; 65_534]).finish(), 0);
    }
}
