//! Strays: packets without a socket here, which may belong to another host of the group.
//!
//! The hosts of a group have the same addresses, and each has a queue of its own of every interface. A packet
//! may come by the queue of another host than its socket's: the kernel's hash is unknown, has changed, or the
//! packet is an ICMP error. It then goes from host to host, until one has a socket for it. The last one
//! answers it, with a reset or an ICMP error, as a host alone would.
//!
//! Packets that come by the right queue cost nothing more. A flood of strays is cut to [`STRAYS_PER_SLICE`],
//! so it takes little of other hosts' cores.

use std::collections::VecDeque;

use crate::drop::QueueDrop;
use crate::id::InterfaceId;
use crate::stack::IcmpError;
use crate::time::{Duration, Instant};

/// The number of strays that wait for the next host at most.
const WAITING_MAX: usize = 1024;
/// The time in which a host hands over [`STRAYS_PER_SLICE`] at most.
const SLICE: Duration = Duration::from_millis(10);
/// The number of strays in each slice of time: 50 000 in a second.
const STRAYS_PER_SLICE: usize = 500;

/// A packet that has come to a host without a socket for it, on its way to the next host of the group.
#[derive(Debug)]
pub struct Stray {
    pub(crate) content: Content,
    /// The number of hosts that it may still visit behind the next one.
    pub(crate) hosts_left: u8,
}

/// The packet of a stray.
#[derive(Debug)]
pub(crate) enum Content {
    /// A frame as it came by an interface.
    Frame(InterfaceId, Box<[u8]>),
    /// An ICMP error about a packet that no socket here has sent.
    Error(IcmpError),
}

/// The place of a host in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    index: u16,
    hosts: u16,
}

impl Default for Place {
    fn default() -> Self {
        Self { index: 0, hosts: 1 }
    }
}

impl Place {
    /// Returns whether this host may choose a local port. Hosts of a group choose different ones, so that no
    /// two open the same flow.
    pub(crate) const fn has_port(self, port: u16) -> bool {
        port % self.hosts == self.index
    }
}

/// The strays of a host.
#[derive(Debug)]
pub(crate) struct Strays {
    place: Place,
    /// The number of hosts that the packets of the present work item may visit.
    hosts_left: u8,
    waiting: VecDeque<Stray>,
    /// The end of the present slice of time, and the strays that may be handed over until then.
    slice: (Instant, usize),
}

impl Default for Strays {
    fn default() -> Self {
        Self { place: Place::default(), hosts_left: 0, waiting: VecDeque::new(), slice: (Instant::ZERO, 0) }
    }
}

impl Strays {
    /// Makes the host one of `hosts`, the one with this index.
    pub(crate) fn join(&mut self, index: usize, hosts: usize) {
        let hosts = hosts.clamp(1, usize::from(u8::MAX));
        self.place = Place { index: (index % hosts) as u16, hosts: hosts as u16 };
        self.hosts_left = (hosts - 1) as u8;
    }

    pub(crate) const fn place(&self) -> Place {
        self.place
    }

    /// Returns whether there is another host for the packets of the present work item.
    pub(crate) const fn may_hand_over(&self) -> bool {
        self.hosts_left > 0
    }

    /// Sets the number of hosts that the packets of the present work item may visit; `None` for packets that
    /// came by an interface.
    pub(crate) fn set_hosts_left(&mut self, hosts_left: Option<u8>) {
        self.hosts_left = hosts_left.unwrap_or((self.place.hosts - 1) as u8);
    }

    /// Hands over the frames of a packet. Returns the reason under which they are counted.
    pub(crate) fn hand_over<'a>(
        &mut self,
        interface: InterfaceId,
        frames: impl Iterator<Item = &'a [u8]>,
        now: Instant,
    ) -> QueueDrop {
        for frame in frames {
            if !self.may_add(now) {
                return QueueDrop::Handover;
            }
            self.add(Content::Frame(interface, frame.into()));
        }
        QueueDrop::HandedOver
    }

    /// Hands over an ICMP error.
    pub(crate) fn hand_over_error(&mut self, error: IcmpError, now: Instant) {
        if self.may_hand_over() && self.may_add(now) {
            self.add(Content::Error(error));
        }
    }

    fn may_add(&mut self, now: Instant) -> bool {
        let (end, left) = &mut self.slice;
        if now >= *end {
            (*end, *left) = (now + SLICE, STRAYS_PER_SLICE);
        }
        let may_add = *left > 0 && self.waiting.len() < WAITING_MAX;
        *left -= usize::from(may_add);
        may_add
    }

    fn add(&mut self, content: Content) {
        self.waiting.push_back(Stray { content, hosts_left: self.hosts_left - 1 });
    }

    /// Removes and returns the stray that has waited longest.
    pub(crate) fn next(&mut self) -> Option<Stray> {
        self.waiting.pop_front()
    }
}
