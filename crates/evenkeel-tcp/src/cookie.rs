//! SYN cookies (RFC 4987, 3.6): a handshake for which the listener keeps no state.
//!
//! The state goes into the numbers of the SYN-ACK, which the last ACK of the handshake brings back:
//!
//! ```text
//!   initial sequence number = base(sockets) + irs + (epoch << 24)
//!                             + (data(sockets, irs, epoch) + index of the MSS) mod 2^24
//!   timestamp               = .......................... E S W W W W     ECN, SACK, window scale (15: none)
//! ```
//!
//! Both functions are keyed hashes, so that a number is hit by chance only: in 2^32 guesses about 16 are
//! right (two epochs, eight MSS), and only while cookies are in use. The layout is D. J. Bernstein's of 1996,
//! and that of the timestamp Linux's.
//!
//! Unlike theirs `data` depends on the peer's number. Else the ACK in a segment of data, if the one byte
//! before it is lost, would look like a good cookie of a peer with a number one higher and the next lower
//! MSS, and the stream would begin a byte late.

use super::secret::{Purpose, Secret};
use super::seq::SeqNumber;
use super::tuple::FourTuple;
use crate::time::{Duration, Instant};

/// The MSS a cookie can tell apart, so that the one used is at most the peer's: what links and tunnels leave
/// of their MTU.
const MSS: [u16; 8] = [216, 536, 1_220, 1_300, 1_400, 1_440, 1_460, 8_940];

/// The length of an epoch. A cookie is valid in its own epoch and the next, that is for one to two epochs.
const EPOCH: Duration = Duration::from_secs(60);
const EPOCHS_GOOD: u8 = 2;

const DATA_BITS: u32 = 24;
const DATA_MASK: u32 = (1 << DATA_BITS) - 1;

/// Makes SYN cookies, and recognizes its own.
///
/// ```
/// use std::net::Ipv4Addr;
///
/// use evenkeel_tcp::cookie::SynCookies;
/// use evenkeel_tcp::time::{Duration, Instant};
/// use evenkeel_tcp::{FourTuple, Secret, SeqNumber};
///
/// let cookies = SynCookies::new(Secret::of_seed(1));
/// let tuple = FourTuple::new((Ipv4Addr::new(192, 0, 2, 1), 80), (Ipv4Addr::new(192, 0, 2, 2), 40_000));
/// let (irs, now) = (SeqNumber::new(1_000), Instant::ZERO);
///
/// // The number of the SYN-ACK. Nothing is kept.
/// let cookie = cookies.make(&tuple, irs, 1_460, now).expect("a real link has such an MSS");
///
/// // The last ACK of the handshake brings it back.
/// let later = now + Duration::from_secs(2);
/// assert_eq!(cookies.check(&tuple, irs, cookie, later), Some(1_460));
/// assert_eq!(cookies.check(&tuple, irs, cookie, now + 2 * SynCookies::LIFETIME), None);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct SynCookies(Secret);

impl SynCookies {
    pub(super) const fn secret(&self) -> Secret {
        self.0
    }

    /// The longest time for which a cookie is valid.
    pub const LIFETIME: Duration = Duration::from_secs(EPOCH.as_secs() * EPOCHS_GOOD as u64);

    /// Creates the maker of cookies that only the holder of `secret` can make.
    #[must_use]
    pub const fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// Returns the initial sequence number to answer a SYN with that has sequence number `irs` and came
    /// from a peer that takes `mss` bytes.
    ///
    /// `None` if `mss` is below the least a cookie can say, which no real link has.
    #[must_use]
    pub fn make(&self, tuple: &FourTuple, irs: SeqNumber, mss: u16, now: Instant) -> Option<SeqNumber> {
        let index = MSS.iter().rposition(|&known| known <= mss)?;
        let epoch = epoch(now);
        let data = self.data(tuple, irs, epoch).wrapping_add(index as u32) & DATA_MASK;
        // The epoch's upper bits fall off, which is what makes it go round after 256 of them.
        let number = (epoch as u32).wrapping_shl(DATA_BITS).wrapping_add(data);
        Some(SeqNumber::new(number) + self.base(tuple) + irs.to_u32())
    }

    /// Returns the MSS of the peer, if `cookie` (the acknowledged number less one) was made for this
    /// connection (`irs`: the sequence number less one), and not too long ago.
    #[must_use]
    pub fn check(&self, tuple: &FourTuple, irs: SeqNumber, cookie: SeqNumber, now: Instant) -> Option<u16> {
        let number = cookie.to_u32().wrapping_sub(self.base(tuple)).wrapping_sub(irs.to_u32());
        let age = (epoch(now) as u8).wrapping_sub((number >> DATA_BITS) as u8);
        if age >= EPOCHS_GOOD {
            return None;
        }
        let made_in = epoch(now).checked_sub(u64::from(age))?;
        let index = number.wrapping_sub(self.data(tuple, irs, made_in)) & DATA_MASK;
        MSS.get(index as usize).copied()
    }

    fn base(&self, tuple: &FourTuple) -> u32 {
        self.0.tuple_hash(Purpose::SynCookieBase, tuple, 0) as u32
    }

    fn data(&self, tuple: &FourTuple, irs: SeqNumber, epoch: u64) -> u32 {
        // Epochs are minutes: as many as the shift leaves are thousands of years.
        self.0.tuple_hash(Purpose::SynCookieData, tuple, epoch << 32 | u64::from(irs.to_u32())) as u32
    }
}

const fn epoch(now: Instant) -> u64 {
    now.as_nanos() / EPOCH.as_nanos() as u64
}

/// The options of a SYN that the low bits of a timestamp encode while cookies are in use. Without
/// timestamps these options are not available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CookieOptions {
    /// The window scale that the peer requested.
    pub window_scale: Option<u8>,
    /// Whether the peer accepts SACK blocks.
    pub sack_permitted: bool,
    /// Whether the peer requested ECN.
    pub ecn: bool,
}

/// The parameters of a listener's SYN-ACKs with cookies, for a device that answers SYNs in its place.
///
/// The device makes numbers and timestamps as [`SynCookies`] and
/// [`InitialSequence`](crate::InitialSequence) do, on the listener's clock or somewhat behind it. The
/// listener accepts the ACK once it [expects](crate::Listener::expect_cookies) cookies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CookieOffer {
    /// The secret of cookies and timestamps.
    pub secret: Secret,
    /// The most bytes that the listener accepts in a segment, whatever the path allows.
    pub mss_max: u16,
    /// The window of the SYN-ACK.
    pub window: u16,
    /// The window scale of the listener, if it has one.
    pub window_scale: Option<u8>,
    /// Whether the listener accepts SACK blocks.
    pub sack_permitted: bool,
    /// Whether the listener uses timestamps.
    pub timestamps: bool,
    /// Whether the listener uses ECN.
    pub ecn: bool,
    /// The TTL or hop limit of the SYN-ACK.
    pub hop_limit: u8,
}

const NO_SCALE: u8 = 15;
const SACK_BIT: u32 = 1 << 4;
const ECN_BIT: u32 = 1 << 5;
const OPTION_BITS: u32 = 6;

impl CookieOptions {
    /// Returns the timestamp for the SYN-ACK: the latest one with these bits that is not after `clock`, so at
    /// most 63 ticks before.
    #[must_use]
    pub fn encode(self, clock: u32) -> u32 {
        let scale = u32::from(self.window_scale.map_or(NO_SCALE, |shift| shift.min(NO_SCALE - 1)));
        let flag = |set, bit| if set { bit } else { 0 };
        let bits = scale | flag(self.sack_permitted, SACK_BIT) | flag(self.ecn, ECN_BIT);
        let behind = clock.wrapping_sub(bits) % (1 << OPTION_BITS);
        clock.wrapping_sub(behind)
    }

    /// Decodes the options from an echoed timestamp. A peer that alters the echo changes only the options
    /// that it asked for.
    #[must_use]
    pub const fn decode(echo: u32) -> Self {
        let scale = (echo & 0xf) as u8;
        Self {
            window_scale: if scale == NO_SCALE { None } else { Some(scale) },
            sack_permitted: echo & SACK_BIT != 0,
            ecn: echo & ECN_BIT != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tuple::tests::tuple;

    const IRS: SeqNumber = SeqNumber::new(0xdead_beef);

    fn cookies() -> SynCookies {
        SynCookies::new(Secret::new([5; 16]))
    }

    #[test]
    fn is_good_for_one_to_two_minutes() {
        for second in [0, 30, 59, 60, 255 * 60, 256 * 60, 1_000_000] {
            let made = Instant::from_millis(second * 1_000);
            let cookie = cookies().make(&tuple(1), IRS, 1_460, made).unwrap();
            let check =
                |seconds| cookies().check(&tuple(1), IRS, cookie, made + Duration::from_secs(seconds));
            assert_eq!((check(0), check(60)), (Some(1_460), Some(1_460)), "made at {second} s");
            assert_eq!(check(SynCookies::LIFETIME.as_secs()), None);
            assert_eq!(check(10_000), None);
        }
    }

    /// After 256 epochs the eight bits of the number are the same again; the epoch in the hash is not.
    #[test]
    fn does_not_come_back_to_life() {
        let cookie = cookies().make(&tuple(1), IRS, 1_460, Instant::ZERO).unwrap();
        for hour in 1..200 {
            let now = Instant::from_millis(hour * 256 * 60_000);
            assert_eq!(cookies().check(&tuple(1), IRS, cookie, now), None);
        }
    }

    #[test]
    fn the_mss_is_never_more_than_the_peers() {
        for mss in 0..=u16::MAX {
            let cookie = cookies().make(&tuple(2), IRS, mss, Instant::ZERO);
            let back = cookie.and_then(|cookie| cookies().check(&tuple(2), IRS, cookie, Instant::ZERO));
            assert_eq!(back, MSS.iter().copied().filter(|&known| known <= mss).max());
        }
    }

    /// Every number near a good one, and many at random: of 2^22 numbers, 16 in 2^32 being right, none should
    /// be.
    #[test]
    fn guessing_does_not_help() {
        let good = cookies().make(&tuple(1), IRS, 1_460, Instant::ZERO).unwrap();
        let check = |number| cookies().check(&tuple(1), IRS, SeqNumber::new(number), Instant::ZERO);
        // Next to it are those of the other MSS.
        let right =
            (0..1 << 20).filter(|n| check(good.to_u32().wrapping_sub(1 << 19).wrapping_add(*n)).is_some());
        assert_eq!(right.count(), MSS.len());
        let right = (0..1_u32 << 20).filter(|n| check(n.wrapping_mul(0x9e37_79b9)).is_some());
        assert_eq!(right.count(), 0);
    }

    proptest! {
        #[test]
        fn is_good_for_its_own_connection_only(
            n: u16,
            other: u16,
            irs: u32,
            wrong: u32,
            nanos: u64,
            secret: [u8; 16],
        ) {
            let now = Instant::from_nanos(nanos / 2);
            let irs = SeqNumber::new(irs);
            let cookie = cookies().make(&tuple(n), irs, 1_300, now).unwrap();
            prop_assert_eq!(cookies().check(&tuple(n), irs, cookie, now), Some(1_300));
            prop_assume!(tuple(other) != tuple(n));
            prop_assert_eq!(cookies().check(&tuple(other), irs, cookie, now), None);
            prop_assert_eq!(SynCookies::new(Secret::new(secret)).check(&tuple(n), irs, cookie, now), None);
            prop_assume!(wrong != 0);
            prop_assert_eq!(cookies().check(&tuple(n), irs + wrong, cookie, now), None);
        }

        #[test]
        fn options_come_back_and_the_clock_does_not_run_ahead(
            clock: u32, window_scale in prop::option::of(0..=14_u8), sack_permitted: bool, ecn: bool,
        ) {
            let options = CookieOptions { window_scale, sack_permitted, ecn };
            let timestamp = options.encode(clock);
            prop_assert_eq!(CookieOptions::decode(timestamp), options);
            prop_assert!(clock.wrapping_sub(timestamp) < 64);
        }
    }
}
