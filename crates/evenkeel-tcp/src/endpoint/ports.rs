//! The order in which ports are tried if the user leaves the choice open (RFC 6056).

use core::net::IpAddr;
use core::ops::RangeInclusive;

use crate::time::{Duration, Instant};
use crate::tuple::AddrPort;

/// The time for which the search for a port is not repeated where there was none, unless a connection
/// ends.
const EXHAUSTED: Duration = Duration::from_millis(10);

/// The progress through the ports to choose from.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// `next_ephemeral` of RFC 6056, 3.3.3, common to all peers.
    pub(super) next: u32,
    /// The number of connections that are gone, each of which may have freed a port.
    gone: u64,
    exhausted: Option<Exhausted>,
}

/// The addresses between which no port was free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Exhausted {
    local: IpAddr,
    remote: AddrPort,
    gone: u64,
    until: Instant,
}

impl Ports {
    /// Records that a connection is gone, and may have freed a port.
    pub(super) const fn on_gone(&mut self) {
        self.gone += 1;
    }

    /// Returns whether a search between these addresses would be in vain again.
    pub(super) fn is_exhausted(&self, local: IpAddr, remote: AddrPort, now: Instant) -> bool {
        let in_vain = |was: Exhausted| {
            was == Exhausted { local, remote, gone: self.gone, until: was.until } && now < was.until
        };
        self.exhausted.is_some_and(in_vain)
    }

    /// Records that no port is free between these addresses.
    pub(super) fn on_exhausted(&mut self, local: IpAddr, remote: AddrPort, now: Instant) {
        self.exhausted = Some(Exhausted { local, remote, gone: self.gone, until: now + EXHAUSTED });
    }

    /// Returns the first result of `test` for the ports of `range`, with algorithm 3 of RFC 6056, 3.3.3:
    /// ports follow each other, from a secret `offset` that differs from peer to peer.
    ///
    /// While a share of `u` of the ports to a peer is in use, this tries about 1/(1-u) of them.
    pub(super) fn find<T>(
        &mut self,
        range: &RangeInclusive<u16>,
        offset: u64,
        test: impl Fn(u16) -> Option<T>,
    ) -> Option<T> {
        let (first, last) = (*range.start(), *range.end());
        let count = u32::from(last.checked_sub(first)?) + 1;
        let offset = offset as u32 % count;
        for _ in 0..count {
            let place = (self.next % count + offset) % count;
            // The number stays within the range, so that consecutive ports cover all of it wherever they
            // begin.
            self.next = (self.next + 1) % count;
            let port = first.saturating_add(place as u16);
            let free = if port == 0 { None } else { test(port) };
            if free.is_some() {
                return free;
            }
        }
        None
    }
}
