//! Identifications of packets that are in fragments, or may be cut into fragments on their way.
//!
//! Of one source, destination and protocol none may come twice while fragments of the first are under way
//! (RFC 6864 4.1, RFC 8200 4.5): so they are counted. No other host may foretell those sent to third hosts,
//! or how many there are: it could put fragments of its own among theirs (RFC 4963, RFC 7739 3). So each
//! sequence begins at another number, by a keyed hash (RFC 7739 5.3). Counters are shared, as memory must be
//! bounded; a sender of packets that share one learns how many the others are, but cannot find out whose
//! they are without the secret.
//!
//! Packets that no router may cut ("don't fragment") need none and bear zero (RFC 6864 4.1). So it is only
//! fragments, ICMP and IGMP that count, and no flow of UDP or TCP, however fast, uses up the 65 536
//! identifications of IPv4 within the lifetime of a packet.

use crate::stack::header::Header;
use crate::tcp::Secret;
use crate::wire::IpAddress;

/// 16 KiB. A power of two.
const COUNTERS: usize = 4096;

/// The label of this use of the hash: see [`Secret::hash_for`].
const LABEL: u64 = 1;

/// The counters that identifications are drawn from, indexed by a keyed hash.
#[derive(Debug)]
pub(crate) struct Identifications {
    secret: Secret,
    counters: Box<[u32]>,
}

impl Identifications {
    pub(crate) fn new(secret: Secret) -> Self {
        Self { secret, counters: vec![0; COUNTERS].into_boxed_slice() }
    }

    /// Returns the identification of a packet to be sent. A packet that is whole and remains so has zero:
    /// over IPv6 every packet without a fragment header (RFC 8200 4.5), over IPv4 one that routers may not
    /// fragment (RFC 6864 4.1).
    #[inline]
    pub(crate) fn identify(&mut self, header: &Header, fragmented: bool) -> u32 {
        let is_atomic = header.dont_fragment || matches!(header.source, IpAddress::Ipv6(_));
        if is_atomic && !fragmented {
            return 0;
        }
        self.next(&header.source, &header.destination, header.protocol.into())
    }

    /// Returns the identification of the next packet from `source` to `destination`. Over IPv4 each
    /// `protocol` has its own sequence; over IPv6 all protocols share one.
    fn next(&mut self, source: &IpAddress, destination: &IpAddress, protocol: u8) -> u32 {
        let mut key = [0; 33];
        let (from, rest) = key.split_at_mut(16);
        from.copy_from_slice(&bytes_of(source));
        rest[..16].copy_from_slice(&bytes_of(destination));
        rest[16] = if matches!(source, IpAddress::Ipv4(_)) { protocol } else { 0 };
        let hash = self.secret.hash_for(LABEL, &key);
        let Some(counter) = self.counters.get_mut((hash >> 32) as usize % COUNTERS) else { return 0 };
        *counter = counter.wrapping_add(1);
        (hash as u32).wrapping_add(*counter)
    }
}

fn bytes_of(address: &IpAddress) -> [u8; 16] {
    match address {
        IpAddress::Ipv4(address) => address.to_ipv6_mapped().octets(),
        IpAddress::Ipv6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const US: IpAddress = IpAddress::v4(10, 0, 0, 1);

    fn to(n: u8) -> IpAddress {
        IpAddress::v4(10, 0, 1, n)
    }

    fn of(secret: u8) -> Identifications {
        Identifications::new(Secret::new([secret; 16]))
    }

    #[test]
    fn none_comes_twice_before_all_have_come() {
        let mut ids = of(1);
        let first = ids.next(&US, &to(1), 17) as u16;
        let mut seen = BTreeSet::from([first]);
        for _ in 1..=u16::MAX {
            // Others in between change nothing.
            ids.next(&US, &to(2), 17);
            ids.next(&US, &to(1), 1);
            assert!(seen.insert(ids.next(&US, &to(1), 17) as u16));
        }
        assert_eq!(ids.next(&US, &to(1), 17) as u16, first);
    }

    /// The start of one sequence says nothing about the start of others, nor about its own with another
    /// secret.
    #[test]
    fn each_pair_begins_somewhere_else() {
        let other_source = IpAddress::v4(10, 0, 0, 2);
        let six = |n| IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, n);
        let mut all: Vec<u32> = (0..50)
            .flat_map(|n| {
                let (mut a, mut b) = (of(1), of(2));
                let of_a =
                    [a.next(&US, &to(n), 17), a.next(&US, &to(n), 1), a.next(&other_source, &to(n), 17)];
                [&of_a[..], &[b.next(&US, &to(n), 17), a.next(&six(999), &six(n.into()), 17)]].concat()
            })
            .collect();
        all.sort_unstable();
        // 250 of 2^32: the closest two are some 70 000 apart, the widest gap is some 100 million.
        let gaps: Vec<u32> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (100..300_000_000).contains(gap)), "{gaps:?}");
    }

    #[test]
    fn the_protocol_counts_over_ipv4_only() {
        let (six, other) =
            (IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, 1), IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, 2));
        let mut ids = of(3);
        let first = ids.next(&six, &other, 17);
        assert_eq!(ids.next(&six, &other, 58), first.wrapping_add(1));
        assert_ne!(of(3).next(&US, &to(1), 17), of(3).next(&US, &to(1), 1));
    }
}
