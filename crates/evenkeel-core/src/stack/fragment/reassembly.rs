//! Putting fragments together again, of either family, in any order (RFC 791 3.2, RFC 8200 4.5, RFC 5722).
//!
//! Fragments stay in the frames they came in. What is held is bounded three ways: packets, fragments a
//! packet, fragments altogether; the oldest packet makes room, so no flood of first fragments can lock others
//! out. A packet with overlapping fragments is discarded as a whole, and remembered until its time is over,
//! so that what still comes of it is discarded too (RFC 5722 4; done for IPv4 as well, where overlaps are
//! never honest either).

use crate::drop::IpDrop;
use crate::id::InterfaceId;
use crate::stack::config::Config;
use crate::stack::io::Io;
use crate::stack::packet::{Payload, Piece};
use crate::tcp::Ecn;
use crate::time::Instant;
use crate::wire::IpAddress;

/// The key that all fragments of one packet share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) source: IpAddress,
    pub(crate) destination: IpAddress,
    pub(crate) identification: u32,
    /// Part of the key over IPv4; zero over IPv6.
    pub(crate) protocol: u8,
}

/// A fragment of a packet in reassembly.
#[derive(Debug)]
pub(crate) struct Fragment {
    pub(crate) piece: Piece,
    /// Bytes of the packet before it.
    pub(crate) offset: usize,
    /// Whether more come behind it.
    pub(crate) more: bool,
    /// The protocol number of its payload's first header, if the fragment is the packet's first.
    pub(crate) next_header: u8,
    /// The ECN field of its IP header.
    pub(crate) ecn: Ecn,
}

impl Fragment {
    const fn end(&self) -> usize {
        self.offset + self.piece.len()
    }

    /// Returns whether `other` is a duplicate of this fragment, as networks that duplicate packets deliver
    /// it.
    fn is_same(&self, other: &Self) -> bool {
        self.offset == other.offset && self.more == other.more && self.piece.bytes() == other.piece.bytes()
    }
}

/// A packet put together.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) payload: Payload,
    pub(crate) next_header: u8,
    pub(crate) ecn: Ecn,
}

/// Returns the ECN field of a packet whose fragments have these; `None` if they contradict each other.
///
/// A congestion mark of any fragment is kept, and no mark is invented for a transport that does not know
/// ECN (RFC 3168 5.3). A packet with only some fragments capable of ECN is no honest one either, and is
/// discarded as in Linux.
fn ecn_of(fragments: &[Fragment]) -> Option<Ecn> {
    let of_all = |ecn| fragments.iter().all(|fragment| fragment.ecn == ecn);
    let of_any = |ecn| fragments.iter().any(|fragment| fragment.ecn == ecn);
    if of_any(Ecn::NotCapable) {
        of_all(Ecn::NotCapable).then_some(Ecn::NotCapable)
    } else if of_any(Ecn::Experienced) {
        Some(Ecn::Experienced)
    } else {
        fragments.first().map(|first| first.ecn)
    }
}

/// A packet whose time is over.
#[derive(Debug)]
pub(crate) struct Expired {
    pub(crate) interface: InterfaceId,
    fragments: Vec<Fragment>,
}

impl Expired {
    /// Returns the first fragment, if it came. Only then is an error due (RFC 792, RFC 8200 4.5).
    pub(crate) fn first(&self) -> Option<&Piece> {
        self.fragments.first().filter(|fragment| fragment.offset == 0).map(|fragment| &fragment.piece)
    }

    pub(crate) fn discard(self, io: &mut Io<'_>) {
        discard(self.fragments, IpDrop::FragmentTimeout, io);
    }
}

#[derive(Debug)]
struct Assembly {
    key: Key,
    interface: InterfaceId,
    deadline: Instant,
    /// Sorted by offset, without overlap.
    fragments: Vec<Fragment>,
    /// Bytes held.
    bytes: usize,
    /// Bytes of the packet, once its last fragment has come.
    total: Option<usize>,
    /// An overlap was seen: everything else that comes is discarded.
    condemned: bool,
}

/// The place of a fragment among those of its packet, or the reason why it has none.
enum Fit {
    At(usize),
    Duplicate,
    Overlap,
}

impl Assembly {
    fn new(key: Key, interface: InterfaceId, deadline: Instant) -> Self {
        Self { key, interface, deadline, fragments: Vec::new(), bytes: 0, total: None, condemned: false }
    }

    fn fit(&self, new: &Fragment) -> Fit {
        let place = self.fragments.partition_point(|held| held.offset < new.offset);
        let (before, behind) = self.fragments.split_at(place);
        if behind.first().is_some_and(|held| held.is_same(new)) {
            return Fit::Duplicate;
        }
        let overlaps = before.last().is_some_and(|held| held.end() > new.offset)
            || behind.first().is_some_and(|held| held.offset < new.end());
        let ends_elsewhere = match self.total {
            Some(total) => new.end() > total || (!new.more && new.end() != total),
            None => !new.more && !behind.is_empty(),
        };
        if overlaps || ends_elsewhere { Fit::Overlap } else { Fit::At(place) }
    }

    fn is_whole(&self) -> bool {
        self.total == Some(self.bytes)
    }

    /// Returns the packet, unless the ECN fields of its fragments contradict each other.
    fn into_whole(self, io: &mut Io<'_>) -> Option<Whole> {
        let next_header = self.fragments.first().map_or(0, |first| first.next_header);
        let Some(ecn) = ecn_of(&self.fragments) else {
            discard(self.fragments, IpDrop::FragmentEcn, io);
            return None;
        };
        let pieces = self.fragments.into_iter().map(|fragment| fragment.piece).collect();
        Some(Whole { payload: Payload::Many(pieces), next_header, ecn })
    }
}

fn discard(fragments: Vec<Fragment>, reason: IpDrop, io: &mut Io<'_>) {
    for fragment in fragments {
        io.drop_frame(fragment.piece.frame, reason);
    }
}

/// All packets in reassembly.
#[derive(Debug)]
pub(crate) struct Reassembly {
    /// In order of their first arrival.
    assemblies: Vec<Assembly>,
    fragments: usize,
    next_deadline: Instant,
    packets_max: usize,
    fragments_max: usize,
    fragments_per_packet: usize,
    v4: core::time::Duration,
    v6: core::time::Duration,
}

impl Reassembly {
    pub(crate) const fn new(config: &Config) -> Self {
        Self {
            assemblies: Vec::new(),
            fragments: 0,
            next_deadline: Instant::NEVER,
            packets_max: config.reassembly_packets,
            fragments_max: config.fragment_pkts,
            fragments_per_packet: config.fragments_per_packet,
            v4: config.reassembly_v4,
            v6: config.reassembly_v6,
        }
    }

    /// Returns the number of frames in reassembly.
    pub(crate) const fn held(&self) -> u64 {
        self.fragments as u64
    }

    /// Returns when the next packet times out.
    pub(crate) const fn next_deadline(&self) -> Instant {
        self.next_deadline
    }

    /// Takes a fragment; gives the packet if it was the missing one.
    ///
    /// The fragment is not empty, and does not reach beyond 65 535 bytes: the family's input has checked.
    pub(crate) fn insert(
        &mut self,
        key: Key,
        interface: InterfaceId,
        fragment: Fragment,
        io: &mut Io<'_>,
    ) -> Option<Whole> {
        let Some(index) = self.find_or_begin(key, interface, io) else {
            io.drop_frame(fragment.piece.frame, IpDrop::FragmentLimit);
            return None;
        };
        let assembly = self.assemblies.get_mut(index)?;
        if assembly.condemned {
            io.drop_frame(fragment.piece.frame, IpDrop::FragmentOverlap);
            return None;
        }
        match assembly.fit(&fragment) {
            Fit::Duplicate => {
                io.drop_frame(fragment.piece.frame, IpDrop::FragmentOverlap);
                None
            }
            Fit::Overlap => {
                io.drop_frame(fragment.piece.frame, IpDrop::FragmentOverlap);
                self.condemn(index, IpDrop::FragmentOverlap, io);
                None
            }
            Fit::At(_) if assembly.fragments.len() >= self.fragments_per_packet => {
                io.drop_frame(fragment.piece.frame, IpDrop::FragmentLimit);
                self.condemn(index, IpDrop::FragmentLimit, io);
                None
            }
            Fit::At(place) => self.hold(index, place, fragment, io),
        }
    }

    fn hold(&mut self, index: usize, place: usize, fragment: Fragment, io: &mut Io<'_>) -> Option<Whole> {
        let assembly = self.assemblies.get_mut(index)?;
        assembly.bytes += fragment.piece.len();
        if !fragment.more {
            assembly.total = Some(fragment.end());
        }
        assembly.fragments.insert(place, fragment);
        self.fragments += 1;
        if assembly.is_whole() {
            return self.remove(index).into_whole(io);
        }
        if self.fragments > self.fragments_max {
            let oldest = self.assemblies.iter().position(|assembly| !assembly.fragments.is_empty())?;
            self.evict(oldest, io);
        }
        None
    }

    /// The place of the packet `key`, which may begin now. `None` if nothing may be held at all.
    fn find_or_begin(&mut self, key: Key, interface: InterfaceId, io: &mut Io<'_>) -> Option<usize> {
        let found = self.assemblies.iter().position(|assembly| assembly.key == key);
        if found.is_some() {
            return found;
        }
        if self.packets_max == 0 {
            return None;
        }
        if self.assemblies.len() >= self.packets_max {
            self.evict(0, io);
        }
        let timeout = if matches!(key.source, IpAddress::Ipv4(_)) { self.v4 } else { self.v6 };
        let deadline = io.now + timeout;
        self.next_deadline = self.next_deadline.min(deadline);
        self.assemblies.push(Assembly::new(key, interface, deadline));
        Some(self.assemblies.len() - 1)
    }

    /// Discards what is held of a packet, and whatever of it still comes.
    fn condemn(&mut self, index: usize, reason: IpDrop, io: &mut Io<'_>) {
        if let Some(assembly) = self.assemblies.get_mut(index) {
            assembly.condemned = true;
            let fragments = core::mem::take(&mut assembly.fragments);
            self.fragments -= fragments.len();
            discard(fragments, reason, io);
        }
    }

    fn evict(&mut self, index: usize, io: &mut Io<'_>) {
        discard(self.remove(index).fragments, IpDrop::FragmentLimit, io);
    }

    fn remove(&mut self, index: usize) -> Assembly {
        let assembly = self.assemblies.remove(index);
        self.fragments -= assembly.fragments.len();
        self.next_deadline = self.assemblies.iter().map(|a| a.deadline).min().unwrap_or(Instant::NEVER);
        assembly
    }

    /// Takes out a packet whose time is over at `now`.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Expired> {
        if now < self.next_deadline {
            return None;
        }
        let index = self.assemblies.iter().position(|assembly| assembly.deadline <= now)?;
        let assembly = self.remove(index);
        Some(Expired { interface: assembly.interface, fragments: assembly.fragments })
    }
}

#[cfg(test)]
impl Reassembly {
    pub(crate) fn check_invariants(&self) {
        let held = self.assemblies.iter().map(|assembly| assembly.fragments.len()).sum::<usize>();
        assert_eq!(held, self.fragments);
        assert!(held <= self.fragments_max && self.assemblies.len() <= self.packets_max);
        let first = self.assemblies.iter().map(|assembly| assembly.deadline).min();
        assert_eq!(first.unwrap_or(Instant::NEVER), self.next_deadline);
        for assembly in &self.assemblies {
            assert!(assembly.fragments.len() <= self.fragments_per_packet);
            assert!(assembly.fragments.windows(2).all(|pair| pair[0].end() <= pair[1].offset));
        }
    }
}
