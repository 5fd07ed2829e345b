//! A limit on the rate of answers to unverified senders: resets for unknown connections, ICMP errors.
//!
//! Without a limit a flood to closed ports makes the host send as much. A single bucket would be a side
//! channel: an attacker who forges a segment and then counts the answers to his own segments learns whether
//! the forged one was answered, and so whether there is a connection or an open port (CVE-2016-5696; Man et
//! al., "DNS Cache Poisoning Attack Reloaded", CCS 2020). An attacker who empties the bucket also suppresses
//! `connection refused` for all hosts. Two measures counter that:
//!
//! - An answer takes none, one or two tokens, by a keyed hash of how many there were before: one on average.
//!   Linux does the same (`icmp_global_consume`).
//! - Each prefix of addresses, by a keyed hash, has a bucket of its own with a part of the rate.
//!
//! Three weaknesses remain. An attacker can empty the common bucket from several prefixes, or by forging
//! them; no host is answered then. An attacker can average the noise away with some million answers for one
//! bit at a limit of a thousand a second. One prefix in 256 shares the bucket of another.

use alloc::boxed::Box;
use core::net::IpAddr;

use super::secret::{Purpose, Secret};
use crate::time::Instant;
use evenkeel_timers::{Bucket, RateLimit};

/// The number of buckets for prefixes.
const PREFIXES: usize = 256;
/// The part of the rate that one prefix has.
const SHARE: u32 = 4;
/// A burst is not made smaller than that: a traceroute sends a few at once.
const BURST_MIN: u32 = 8;

/// A rate limit of answers to unverified senders.
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
///
/// use evenkeel_tcp::time::Instant;
/// use evenkeel_tcp::{ReplyLimit, Secret};
///
/// // 1000 answers per second on average, and 200 at once. One prefix has a quarter of that.
/// let mut limit = ReplyLimit::new(Secret::of_seed(1), 0, 1_000, 200);
/// let attacker = IpAddr::from(Ipv4Addr::new(203, 0, 113, 5));
/// let passed = (0..10_000).filter(|_| limit.pass(&attacker, Instant::ZERO)).count();
/// assert!((20..100).contains(&passed));
/// assert!(limit.pass(&IpAddr::from(Ipv4Addr::new(198, 51, 100, 1)), Instant::ZERO));
/// ```
#[derive(Debug)]
pub struct ReplyLimit {
    secret: Secret,
    /// The label that distinguishes limits with the same secret.
    label: u64,
    /// Answers that left.
    count: u64,
    all: RateLimit,
    bucket: Bucket,
    each: RateLimit,
    by_prefix: Box<[Bucket; PREFIXES]>,
}

impl ReplyLimit {
    /// Creates a limit of `per_s` answers per second on average and `burst` at once. If either is zero, no
    /// answer passes. Limits with one secret need different labels, of 56 bits.
    #[must_use]
    pub fn new(secret: Secret, label: u64, per_s: u32, burst: u32) -> Self {
        Self {
            secret,
            label,
            count: 0,
            all: RateLimit::new(per_s, burst),
            bucket: Bucket::default(),
            each: RateLimit::new(per_s.div_ceil(SHARE), (burst / SHARE).max(BURST_MIN).min(burst)),
            by_prefix: Box::new([Bucket::default(); PREFIXES]),
        }
    }

    /// Returns whether one more answer may be sent to `to` now. Does not count it.
    #[must_use]
    pub fn may_pass(&self, to: &IpAddr, now: Instant) -> bool {
        self.place_with_tokens(to, now).is_some()
    }

    /// Returns the place of the prefix's bucket, if there are tokens in it, and in that of all.
    fn place_with_tokens(&self, to: &IpAddr, now: Instant) -> Option<usize> {
        if !self.all.has_token(&self.bucket, now) {
            return None;
        }
        let place = self.secret.hash(Purpose::ReplyPrefix, &prefix(to), self.label) as usize % PREFIXES;
        let bucket = self.by_prefix.get(place)?;
        self.each.has_token(bucket, now).then_some(place)
    }

    /// Returns whether one more answer may be sent to `to`. If so, counts it as sent.
    pub fn pass(&mut self, to: &IpAddr, now: Instant) -> bool {
        let Some(place) = self.place_with_tokens(to, now) else { return false };
        let draw = self.secret.hash(Purpose::ReplyTokens, &self.count.to_be_bytes(), self.label);
        let tokens = (draw % 3) as u32;
        self.count = self.count.wrapping_add(1);
        if let Some(bucket) = self.by_prefix.get_mut(place) {
            self.each.take(bucket, tokens, now);
        }
        self.all.take(&mut self.bucket, tokens, now);
        true
    }
}

/// Returns the prefix of a site: 24 bits of an IPv4 address, 48 of an IPv6 address (RFC 6177).
fn prefix(address: &IpAddr) -> [u8; 6] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            [a, b, c, 0, 0, 0]
        }
        IpAddr::V6(address) => {
            let [a, b, c, d, e, f, ..] = address.octets();
            [a, b, c, d, e, f]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;
    use core::net::{Ipv4Addr, Ipv6Addr};

    fn limit(secret: u8, per_s: u32, burst: u32) -> ReplyLimit {
        ReplyLimit::new(Secret::new([secret; 16]), 7, per_s, burst)
    }

    /// Returns how many packets of a flood of 100 000 in a second, from this many prefixes, pass the limit.
    fn passed(limit: &mut ReplyLimit, prefixes: u32) -> u32 {
        let from = |n: u32| {
            let [_, b, c, _] = ((n % prefixes) << 8).to_be_bytes();
            IpAddr::V4(Ipv4Addr::new(11, b, c, 1))
        };
        let at = |n: u32| Instant::from_millis(1_000) + Duration::from_micros(10) * n;
        (0..100_000).map(|n| u32::from(limit.pass(&from(n), at(n)))).sum()
    }

    #[test]
    fn the_rate_holds_on_average_and_how_many_pass_nobody_can_tell_before() {
        let counts: Vec<u32> = (0..20).map(|secret| passed(&mut limit(secret, 1_000, 200), 1_000)).collect();
        let average = counts.iter().sum::<u32>() / 20;
        assert!((1_180..=1_220).contains(&average), "{average} of 1200: {counts:?}");
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least > 40, "{counts:?}");
        assert_eq!(passed(&mut limit(3, 1_000, 200), 1_000), counts[3], "but with the same secret the same");
        assert_eq!(passed(&mut limit(1, 0, 200), 9) + passed(&mut limit(1, 1_000, 0), 9), 0);
    }

    #[test]
    fn limits_with_one_secret_do_not_tell_of_one_another() {
        let with_label = |label| passed(&mut ReplyLimit::new(Secret::new([1; 16]), label, 1_000, 200), 1_000);
        assert_ne!(with_label(1), with_label(2));
    }

    #[test]
    fn a_prefix_has_its_part_and_leaves_the_rest_to_others() {
        let mut limit = limit(1, 1_000, 200);
        let of_one = passed(&mut limit, 1);
        assert!((250..=350).contains(&of_one), "{of_one} of 300");
        let end = Instant::from_millis(2_000);
        let answered =
            (0..50u8).filter(|n| limit.pass(&IpAddr::V4(Ipv4Addr::new(12, 0, *n, 1)), end)).count();
        assert!(answered >= 49, "one prefix in 256 shares the bucket that is empty: {answered}");
        let site = |host| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, host, 0, 0, 0, host));
        let of_a_site = (0..1_000).filter(|host| limit.pass(&site(*host), end)).count();
        assert!(of_a_site < 100, "an IPv6 site is one: {of_a_site}");
    }
}
