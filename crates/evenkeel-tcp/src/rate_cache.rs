//! A cache of the rates to destinations (RFC 9040, temporal sharing), for connections that
//! [start](crate::recovery::Start::Remembered) from there.

use alloc::boxed::Box;
use alloc::vec;
use core::net::IpAddr;

use super::rate::Rate;
use super::secret::{Purpose, Secret};
use crate::time::{Duration, Instant};

/// Entries that one hash value leads to.
const WAYS: usize = 4;
/// Older ones tell nothing any more: paths change, and so does who else uses them. (Careful Resume,
/// draft-ietf-tsvwg-careful-resume, leaves the time to whoever keeps them, and wants it bounded.)
const LIFETIME: Duration = Duration::from_secs(600);

/// The remembered rate and round trip of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Remembered {
    pub(super) rate: Rate,
    /// The shortest round trip.
    pub(super) rtt: Duration,
    /// The time at which data was last sent to the destination.
    pub(super) at: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    local: IpAddr,
    remote: IpAddr,
    remembered: Remembered,
}

/// Bounded, and never searched: an address leads to four entries, of which the oldest gives way.
#[derive(Debug)]
pub(super) struct RateCache {
    secret: Secret,
    sets: Box<[[Option<Entry>; WAYS]]>,
}

impl RateCache {
    /// Creates a cache for about `destinations` destinations, 72 bytes each. All its memory is allocated
    /// now.
    pub(super) fn new(secret: Secret, destinations: usize) -> Self {
        let sets = destinations.div_ceil(WAYS).max(1);
        Self { secret, sets: vec![[None; WAYS]; sets].into_boxed_slice() }
    }

    /// A connection is over.
    pub(super) fn remember(&mut self, local: &IpAddr, remote: &IpAddr, remembered: Remembered) {
        let place = self.place(local, remote);
        let Some(set) = self.sets.get_mut(place) else { return };
        let same = |entry: &Option<Entry>| entry.is_some_and(|e| e.local == *local && e.remote == *remote);
        let way = set.iter().position(same).unwrap_or_else(|| {
            let age = |way: &usize| set[*way].map(|entry| entry.remembered.at);
            (0..WAYS).min_by_key(age).unwrap_or_default()
        });
        set[way] = Some(Entry { local: *local, remote: *remote, remembered });
    }

    /// Returns the remembered rate of a destination, if it is not too old.
    pub(super) fn recall(&self, local: &IpAddr, remote: &IpAddr, now: Instant) -> Option<Remembered> {
        let same = |entry: &&Entry| entry.local == *local && entry.remote == *remote;
        let entry = self.sets.get(self.place(local, remote))?.iter().flatten().find(same)?;
        (now.since(entry.remembered.at) <= LIFETIME).then_some(entry.remembered)
    }

    fn place(&self, local: &IpAddr, remote: &IpAddr) -> usize {
        let hash = self.secret.pair_hash(Purpose::RateCache, local, remote);
        (hash % self.sets.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn there(n: u16) -> IpAddr {
        let [high, low] = n.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(192, 168, high, low))
    }

    fn remembered(n: u16) -> Remembered {
        let at = Instant::from_millis(1_000 + u64::from(n));
        Remembered { rate: Rate::bytes_per_s(u64::from(n) + 1), rtt: Duration::from_millis(10), at }
    }

    #[test]
    fn the_last_rate_to_a_destination_is_remembered_for_ten_minutes() {
        let mut cache = RateCache::new(Secret::of_seed(1), 16);
        let now = Instant::from_millis(2_000);
        assert_eq!(cache.recall(&HERE, &there(1), now), None);
        cache.remember(&HERE, &there(1), remembered(1));
        cache.remember(&HERE, &there(1), remembered(2));
        assert_eq!(cache.recall(&HERE, &there(1), now), Some(remembered(2)));
        assert_eq!(cache.recall(&there(1), &HERE, now), None);
        assert_eq!(cache.recall(&HERE, &there(1), Instant::from_millis(601_003)), None);
    }

    #[test]
    fn an_entry_takes_72_bytes() {
        assert_eq!(size_of::<Option<Entry>>(), 72);
    }

    #[test]
    fn it_never_grows_and_forgets_the_oldest() {
        let mut cache = RateCache::new(Secret::of_seed(1), 4);
        (0..1_000).for_each(|n| cache.remember(&HERE, &there(n), remembered(n)));
        let now = Instant::from_millis(3_000);
        let known: Vec<u16> = (0..1_000).filter(|n| cache.recall(&HERE, &there(*n), now).is_some()).collect();
        assert_eq!(known, [996, 997, 998, 999]);
    }
}
