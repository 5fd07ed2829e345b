//! Path MTUs that routers have reported.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::time::Instant;
use crate::wire::IpAddress;

/// The time for which a reduced path MTU is used (RFC 8201 5.3, RFC 1191 6.3).
const PATH_MTU_LIFE: Duration = Duration::from_secs(600);

/// The smallest path MTU of IPv4: every host takes packets of so many bytes (RFC 791 3.2).
const MIN_V4: usize = 576;
/// The smallest path MTU of IPv6: every link takes such packets (RFC 8200 5).
pub(crate) const MIN_V6: usize = 1280;

/// Path MTUs that routers have reported, a limited number, the oldest forgotten first.
#[derive(Debug)]
pub(crate) struct PathMtus {
    /// The path MTU to each destination, in bytes, and the time at which it expires.
    known: BTreeMap<IpAddress, (usize, Instant)>,
    limit: usize,
}

impl PathMtus {
    /// Creates an empty table of at most `limit` destinations.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { known: BTreeMap::new(), limit }
    }

    /// Records a path MTU that a router has reported. A value below the minimum of every link is raised to
    /// that minimum, because old routers report zero (RFC 1191 5). A value above the known one is ignored
    /// (RFC 8201 4): the estimate grows only by expiry.
    pub(crate) fn learn(&mut self, destination: IpAddress, mtu: usize, now: Instant) {
        let least = if matches!(destination, IpAddress::Ipv4(_)) { MIN_V4 } else { MIN_V6 };
        let mtu = mtu.max(least);
        if self.limit == 0 || self.get(&destination, now).is_some_and(|known| known < mtu) {
            return;
        }
        if self.known.len() >= self.limit && !self.known.contains_key(&destination) {
            self.make_room(now);
        }
        self.known.insert(destination, (mtu, now + PATH_MTU_LIFE));
    }

    /// Forgets what is over, or at least the oldest.
    fn make_room(&mut self, now: Instant) {
        self.known.retain(|_, (_, until)| *until > now);
        while self.known.len() >= self.limit
            && let Some(oldest) =
                self.known.iter().min_by_key(|(_, (_, until))| *until).map(|(known, _)| *known)
        {
            self.known.remove(&oldest);
        }
    }

    /// Returns the path MTU to `destination`, if one is known that is not over.
    pub(crate) fn get(&self, destination: &IpAddress, now: Instant) -> Option<usize> {
        self.known.get(destination).filter(|(_, until)| *until > now).map(|(mtu, _)| *mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8201 4, RFC 1191 3: the contents of a report never make the estimate larger. Time does.
    #[test]
    fn a_report_makes_no_path_wider() {
        let (mut mtus, host) = (PathMtus::new(4), IpAddress::v4(10, 0, 0, 1));
        mtus.learn(host, 1300, Instant::ZERO);
        mtus.learn(host, 1400, Instant::from_millis(300_000));
        assert_eq!(mtus.get(&host, Instant::from_millis(599_000)), Some(1300));
        mtus.learn(host, 1400, Instant::from_millis(601_000));
        assert_eq!(mtus.get(&host, Instant::from_millis(602_000)), Some(1400));
    }

    #[test]
    fn path_mtus_age_and_are_bounded() {
        let mut mtus = PathMtus::new(4);
        let host = |n| IpAddress::v4(10, 0, 0, n);
        for n in 0..10 {
            mtus.learn(host(n), 1300 + n as usize, Instant::from_nanos(n.into()));
            assert!(mtus.known.len() <= 4);
        }
        assert_eq!(mtus.get(&host(5), Instant::ZERO), None);
        assert_eq!(mtus.get(&host(9), Instant::from_millis(599_000)), Some(1309));
        assert_eq!(mtus.get(&host(9), Instant::from_millis(601_000)), None);
        mtus.learn(host(1), 0, Instant::ZERO);
        assert_eq!(mtus.get(&host(1), Instant::ZERO), Some(576));
    }
}
