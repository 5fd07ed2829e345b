//! The claims of this host to its addresses, and those of other hosts: address conflict detection of IPv4
//! (RFC 5227), and its counterpart over neighbour discovery.
//!
//! Addresses are configured, and used at once. A probe at the start asks whether another host has the address
//! (RFC 5227 2.1.1, RFC 4862 5.4.2). A second later, if none has answered, two announcements let neighbours
//! correct their caches (RFC 5227 2.3, RFC 4861 7.2.6). From then on an address is defended (RFC 5227 2.4 c):
//! it is never given up, but announced again, at most every ten seconds.

use std::collections::VecDeque;

use crate::id::InterfaceId;
use crate::time::{Duration, Instant};
use crate::wire::{EthernetAddress, IpAddress};

/// Between the probe and the first announcement: so long an answer may take (RFC 5227 1.1, PROBE_MIN; RFC
/// 4861 10, RETRANS_TIMER).
const ANSWER: Duration = Duration::from_secs(1);
/// Between announcements (RFC 5227 1.1, ANNOUNCE_INTERVAL).
const ANNOUNCE: Duration = Duration::from_secs(2);
/// An address is not defended more often (RFC 5227 1.1, DEFEND_INTERVAL), and a conflict not reported more
/// often.
const DEFEND: Duration = Duration::from_secs(10);
/// Conflicts that may wait to be reported.
const WAITING: usize = 16;

/// A report that another host uses an address of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddressConflict {
    /// The interface by which the other host's claim came.
    pub interface: InterfaceId,
    /// The address in conflict.
    pub address: IpAddress,
    /// The hardware address of the other host.
    pub hardware: EthernetAddress,
}

/// The packet that is sent next for a new address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Probe,
    Announce,
    AnnounceAgain,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    due: Instant,
    pub(crate) interface: InterfaceId,
    pub(crate) address: IpAddress,
    pub(crate) step: Step,
}

/// The addresses that are probed or announced, and the recent claims of other hosts.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pending: Vec<Pending>,
    /// The time of the last claim by another host to each address, kept while it is recent.
    claimed: Vec<(InterfaceId, IpAddress, Instant)>,
    waiting: VecDeque<AddressConflict>,
}

impl Claims {
    /// Begins to probe for an address and to announce it.
    pub(crate) fn begin(&mut self, interface: InterfaceId, address: IpAddress, now: Instant) {
        self.pending.push(Pending { due: now, interface, address, step: Step::Probe });
    }

    /// Forgets an address that this host no longer has, with the claims of others to it.
    pub(crate) fn forget(&mut self, interface: InterfaceId, address: IpAddress) {
        self.pending.retain(|p| (p.interface, p.address) != (interface, address));
        self.claimed.retain(|&(i, a, _)| (i, a) != (interface, address));
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        self.pending.iter().map(|p| p.due).min().unwrap_or(Instant::NEVER)
    }

    /// Takes the oldest conflict that has not been reported. Conflicts about one address are reported at most
    /// once in ten seconds.
    pub(crate) fn next_conflict(&mut self) -> Option<AddressConflict> {
        self.waiting.pop_front()
    }

    /// Takes the next due step, and schedules the one that follows it.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Pending> {
        let place = self.pending.iter().position(|p| p.due <= now)?;
        let pending = self.pending.get_mut(place)?;
        let taken = *pending;
        let (step, after) = match taken.step {
            Step::Probe => (Step::Announce, ANSWER),
            Step::Announce => (Step::AnnounceAgain, ANNOUNCE),
            Step::AnnounceAgain => {
                self.pending.remove(place);
                return Some(taken);
            }
        };
        (pending.step, pending.due) = (step, now + after);
        Some(taken)
    }

    /// Records that another host claims an address of this host. Returns `None` if that is already known.
    /// Else returns whether the address is to be defended: not while it is only probed for, when the other
    /// host was first.
    pub(crate) fn claimed(&mut self, conflict: AddressConflict, now: Instant) -> Option<bool> {
        let AddressConflict { interface, address, .. } = conflict;
        self.claimed.retain(|&(_, _, at)| now < at + DEFEND);
        if self.claimed.iter().any(|&(i, a, _)| (i, a) == (interface, address)) {
            return None;
        }
        // One entry for each address of ours at most.
        self.claimed.push((interface, address, now));
        if self.waiting.len() < WAITING {
            self.waiting.push_back(conflict);
        }
        let known = self.pending.len();
        self.pending
            .retain(|p| (p.interface, p.address) != (interface, address) || p.step == Step::AnnounceAgain);
        Some(self.pending.len() == known)
    }
}
