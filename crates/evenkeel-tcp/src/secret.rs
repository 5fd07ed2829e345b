//! The key of everything that another host must not be able to guess or to steer.
//!
//! The hash is SipHash (Aumasson and Bernstein, 2012), which was made for this: keyed, short inputs, fast.
//! RFC 6528 suggests MD5, which is slower and no stronger here; Linux and the BSDs went to SipHash, too.

use core::fmt;
use core::hash::Hasher;
use core::net::IpAddr;

use siphasher::sip::{SipHasher13, SipHasher24};

use super::tuple::{FourTuple, bytes_of};

/// 128 random bits. The program draws new ones at each start, from the operating system, and keeps them
/// secret.
///
/// ```
/// use evenkeel_tcp::Secret;
///
/// # fn os_random(bits: &mut [u8]) {
/// #     bits.fill(7);
/// # }
/// let mut bits = [0; 16];
/// os_random(&mut bits); // For example `getrandom::fill`.
/// let secret = Secret::new(bits);
/// # let _ = secret;
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; 16]);

/// The purpose of a hash. Each purpose has its own inputs, so that no two ever share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    InitialSequence = 1,
    TimestampOffset,
    SynCookieBase,
    SynCookieData,
    FastOpenServer,
    FastOpenCache,
    EphemeralPort,
    ReplyPrefix,
    ReplyTokens,
    /// Not TCP's.
    Other,
    RateCache,
}

impl Secret {
    /// Creates a secret of these bits.
    #[must_use]
    pub const fn new(bits: [u8; 16]) -> Self {
        Self(bits)
    }

    /// Returns the bits, for a device that makes the same hashes. They must not leave this machine.
    #[must_use]
    pub const fn to_bits(&self) -> [u8; 16] {
        self.0
    }

    /// Creates a secret from a seed that is no secret: for simulations, tests, and tables that no other
    /// host can probe.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let (first, second) = (seed ^ 0x7463_7020_6b65_7973, seed.rotate_left(32) ^ 0x6f66_2061_2073_6565);
        let mut bits = [0; 16];
        let (low, high) = bits.split_at_mut(8);
        for (part, key) in [(low, first), (high, second)] {
            let mut hasher = SipHasher24::new_with_keys(key, !key);
            hasher.write_u64(seed);
            part.copy_from_slice(&hasher.finish().to_le_bytes());
        }
        Self(bits)
    }

    /// Hashes a tuple for a table, where a collision costs only time: SipHash-1-3.
    pub(super) fn table_hash(&self, tuple: &FourTuple) -> u64 {
        tuple.hash_with(|bytes| SipHasher13::new_with_key(&self.0).hash(bytes))
    }

    /// Hashes a tuple for values that travel over the network and must not be guessed: SipHash-2-4.
    pub(super) fn tuple_hash(&self, purpose: Purpose, tuple: &FourTuple, more: u64) -> u64 {
        tuple.hash_with(|bytes| self.hash(purpose, bytes, more))
    }

    /// Hashes a pair of addresses with SipHash-2-4, for values that must not be guessed.
    pub(super) fn pair_hash(&self, purpose: Purpose, from: &IpAddr, to: &IpAddr) -> u64 {
        let mut buffer = [0; 32];
        let (first, second) = buffer.split_at_mut(16);
        first.copy_from_slice(&bytes_of(from));
        second.copy_from_slice(&bytes_of(to));
        self.hash(purpose, &buffer, 0)
    }

    /// Hashes `bytes` for a purpose other than TCP that this secret protects. `label`, of 56 bits, names
    /// the purpose.
    #[must_use]
    pub fn hash_for(&self, label: u64, bytes: &[u8]) -> u64 {
        self.hash(Purpose::Other, bytes, label)
    }

    pub(super) fn hash(&self, purpose: Purpose, bytes: &[u8], more: u64) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        // As one word, so that what follows stays aligned.
        hasher.write_u64(more << 8 | purpose as u64);
        hasher.write(bytes);
        hasher.finish()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first vectors of the authors' reference implementation: key 00..0f, inputs empty, 00, 00 01.
    #[test]
    fn is_the_authors_siphash_2_4() {
        let key = core::array::from_fn(|i| i as u8);
        for (len, expected) in
            [(0, 0x726f_db47_dd0e_0e31_u64), (1, 0x74f8_39c5_93dc_67fd), (2, 0x0d6c_8009_d9a9_4f5a)]
        {
            let mut hasher = SipHasher24::new_with_key(&key);
            hasher.write(&[0, 1][..len]);
            assert_eq!(hasher.finish(), expected);
        }
    }

    #[test]
    fn does_not_print_itself() {
        assert_eq!(format!("{:?}", Secret::new([7; 16])), "Secret");
    }
}
