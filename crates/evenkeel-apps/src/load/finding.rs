//! The choice among the server's addresses: the first to which a connection is established is used (RFC
//! 8305).

use evenkeel::raw::time::{Duration, Instant};

use super::account::Failure;

/// The time after which the next attempt begins although the last one is still in progress (RFC 8305, 5:
/// Connection Attempt Delay).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The attempts to connect to the server's addresses.
#[derive(Debug)]
pub(super) struct Finding {
    addresses: usize,
    /// The index of the address that is tried next.
    next: usize,
    /// The latest time at which the next address is tried.
    next_at: Instant,
    under_way: usize,
    /// The index of the address that is used.
    pub(super) found: Option<usize>,
    /// The indices of the addresses that failed, with the failures.
    pub(super) unreached: Vec<(usize, Failure)>,
}

impl Finding {
    pub(super) const fn new(addresses: usize) -> Self {
        let (next, next_at, under_way) = (0, Instant::ZERO, 0);
        Self { addresses, next, next_at, under_way, found: None, unreached: Vec::new() }
    }

    /// Returns when the next address is to be tried; [`Instant::ZERO`] for at once.
    pub(super) const fn next(&self) -> Instant {
        match self.under_way {
            0 => Instant::ZERO,
            _ if self.next < self.addresses => self.next_at,
            _ => Instant::NEVER,
        }
    }

    /// Returns the address that is to be tried now, if one is.
    pub(super) fn take(&mut self, now: Instant) -> Option<usize> {
        if self.next >= self.addresses || self.next() > now {
            return None;
        }
        self.next += 1;
        self.under_way += 1;
        self.next_at = now + ATTEMPT_DELAY;
        Some(self.next - 1)
    }

    /// Records that a connection to an address will not be established. The next one is tried at once.
    pub(super) fn failed(&mut self, address: usize, failure: Failure) {
        self.under_way -= 1;
        self.next_at = Instant::ZERO;
        self.unreached.push((address, failure));
    }

    /// Returns whether all addresses were tried and failed.
    pub(super) const fn is_hopeless(&self) -> bool {
        self.under_way == 0 && self.next >= self.addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_address_is_tried_after_a_failure_or_a_while() {
        let at = Instant::from_millis;
        let mut finding = Finding::new(3);
        assert_eq!((finding.next(), finding.take(at(5))), (Instant::ZERO, Some(0)));
        assert_eq!((finding.next(), finding.take(at(200))), (at(255), None));
        assert_eq!((finding.take(at(255)), finding.next()), (Some(1), at(505)));
        finding.failed(0, Failure::Refused);
        assert_eq!((finding.take(at(300)), finding.next()), (Some(2), Instant::NEVER));
        finding.failed(2, Failure::Refused);
        assert!(finding.take(at(900)).is_none() && !finding.is_hopeless());
        finding.failed(1, Failure::ConnectTimeout);
        assert!(finding.is_hopeless() && finding.take(at(900)).is_none());
        let unreached = [(0, Failure::Refused), (2, Failure::Refused), (1, Failure::ConnectTimeout)];
        assert_eq!(finding.unreached, unreached);
    }
}
