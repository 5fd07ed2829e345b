//! Forwarding by an interface itself: what the host has decided about a destination, the interface does with
//! the packets that follow.
//!
//! The host decides about the first packets to a destination. The interface then forwards others by itself,
//! until a route, an address, an MTU or a neighbour changes: then it forgets everything, and the host decides
//! anew. Every second the interface reports which next hops it has used, so that their neighbours are probed
//! as if the host had sent the packets (RFC 4861 7.3).

use core::fmt;

use crate::id::InterfaceId;
use crate::stack::Transit;
use crate::time::{Duration, Instant};
use crate::wire::{EthernetAddress, IpAddress};

/// The number of packets to a destination that the host forwards before the interface does. To hand over a
/// destination costs as much as to forward a few packets.
const PACKETS: u8 = 8;
/// Destinations that are counted at a time.
const COUNTED: usize = 1024;
/// The time between two looks at which next hops the interfaces have used.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// The part of an interface that forwards packets by itself.
///
/// It forwards only what the host would forward in the same way: whole packets without options whose TTL or
/// hop limit is at least 2, from a source that a host can have, and no larger than the MTU. All others go to
/// the host.
pub trait Offload: fmt::Debug + Send {
    /// Forwards packets to `destination` that arrive at this interface, from now on. Returns whether it does:
    /// it may have no room, or no way to the device of the next hop.
    fn forward(&mut self, destination: IpAddress, next: &OffloadHop) -> bool;

    /// Forgets all destinations: their packets go to the host again.
    fn clear(&mut self);

    /// Calls `used` with the number of each next hop by which packets have left since the last call. May
    /// forget destinations that have had no packets for some time.
    fn each_used(&mut self, used: &mut dyn FnMut(u32));

    /// Returns the number of packets that it has forwarded so far.
    fn forwarded(&self) -> u64;
}

/// The way of packets to a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadHop {
    /// The host's number of it, for [`Offload::each_used`].
    pub number: u32,
    /// The device by which packets leave: see
    /// [`Properties::offload_device`](crate::interface::Properties::offload_device).
    pub device: u32,
    /// The size of the largest IP packet that may leave there, in bytes.
    pub mtu: usize,
    /// The hardware address of the neighbour.
    pub to: EthernetAddress,
    /// The hardware address of the host on that device.
    pub from: EthernetAddress,
}

/// A neighbour, and the way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) interface: InterfaceId,
    pub(crate) neighbor: IpAddress,
    pub(crate) mtu: usize,
    pub(crate) to: EthernetAddress,
    pub(crate) from: EthernetAddress,
}

/// What the interfaces of a host forward by themselves.
#[derive(Debug, Default)]
pub(crate) struct Offloads {
    interfaces: Vec<Slot>,
    counts: Vec<Count>,
    /// The neighbours that packets leave to, by the number of their next hop.
    neighbors: Vec<(InterfaceId, IpAddress)>,
    /// The generation of the stack under which everything was handed over.
    generation: u64,
    next_look: Instant,
}

/// The part of an interface that forwards by itself, if it can.
#[derive(Debug, Default)]
struct Slot {
    offload: Option<Box<dyn Offload>>,
    /// Packets that devices in this place forwarded earlier.
    earlier: u64,
}

/// The number of packets that the host has forwarded to a destination lately.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    destination: Option<(InterfaceId, IpAddress)>,
    packets: u8,
}

impl Offloads {
    /// Sets the part of an interface that forwards by itself, in place of an earlier device's.
    pub(crate) fn set(&mut self, interface: InterfaceId, offload: Option<Box<dyn Offload>>) {
        let place = usize::from(interface.0);
        if place >= self.interfaces.len() {
            self.interfaces.resize_with(place + 1, Slot::default);
        }
        if offload.is_some() {
            self.counts.resize(COUNTED, Count::default());
        }
        let slot = &mut self.interfaces[place];
        slot.earlier = slot.forwarded();
        slot.offload = offload;
    }

    /// Counts a packet that the host is about to forward. Returns its destination if others to it may be
    /// forwarded by the interface that it came by.
    #[inline]
    pub(crate) fn count(&mut self, transit: &Transit) -> Option<IpAddress> {
        let interface = transit.interface();
        self.interfaces.get(usize::from(interface.0))?.offload.as_ref()?;
        self.count_to(interface, destination_of(transit.packet())?)
    }

    fn count_to(&mut self, interface: InterfaceId, destination: IpAddress) -> Option<IpAddress> {
        let place = place_of(&destination);
        let count = self.counts.get_mut(place)?;
        if count.destination != Some((interface, destination)) {
            *count = Count { destination: Some((interface, destination)), packets: 0 };
        }
        count.packets += 1;
        if count.packets < PACKETS {
            return None;
        }
        *count = Count::default();
        Some(destination)
    }

    /// Hands a destination over to an interface, as decided under `generation`.
    pub(crate) fn hand_over(
        &mut self,
        interface: InterfaceId,
        destination: IpAddress,
        way: &Way,
        device: u32,
        (generation, now): (u64, Instant),
    ) {
        self.settle(generation);
        let key = (way.interface, way.neighbor);
        let known = self.neighbors.iter().position(|neighbor| *neighbor == key);
        let number = known.unwrap_or(self.neighbors.len());
        let &Way { mtu, to, from, .. } = way;
        let next = OffloadHop { number: number as u32, device, mtu, to, from };
        let slot = self.interfaces.get_mut(usize::from(interface.0));
        let Some(offload) = slot.and_then(|slot| slot.offload.as_mut()) else { return };
        if !offload.forward(destination, &next) || known.is_some() {
            return;
        }
        if self.neighbors.is_empty() {
            self.next_look = now + LOOK_PERIOD;
        }
        self.neighbors.push(key);
    }

    /// Takes everything back that was handed over under another generation.
    pub(crate) fn settle(&mut self, generation: u64) {
        if self.generation == generation {
            return;
        }
        self.generation = generation;
        if !self.neighbors.is_empty() {
            self.offloads().for_each(|offload| offload.clear());
            self.neighbors.clear();
        }
    }

    /// Returns the neighbours that interfaces have sent packets to since the last call, each once.
    pub(crate) fn used_neighbors(&mut self, now: Instant) -> Vec<(InterfaceId, IpAddress)> {
        self.next_look = now + LOOK_PERIOD;
        let mut used = vec![false; self.neighbors.len()];
        let mut mark = |number: u32| {
            if let Some(used) = used.get_mut(number as usize) {
                *used = true;
            }
        };
        self.offloads().for_each(|offload| offload.each_used(&mut mark));
        let neighbors = self.neighbors.iter().zip(used);
        neighbors.filter_map(|(neighbor, used)| used.then_some(*neighbor)).collect()
    }

    /// Returns the time of the next look. It is now if everything is to be taken back, because the stack has
    /// another generation.
    #[inline]
    pub(crate) fn deadline(&self, generation: u64) -> Instant {
        if self.neighbors.is_empty() {
            Instant::NEVER
        } else if self.generation != generation {
            Instant::ZERO
        } else {
            self.next_look
        }
    }

    /// Returns the number of packets that an interface has forwarded by itself.
    pub(crate) fn forwarded(&self, interface: InterfaceId) -> u64 {
        self.interfaces.get(usize::from(interface.0)).map_or(0, Slot::forwarded)
    }

    fn offloads(&mut self) -> impl Iterator<Item = &mut Box<dyn Offload>> {
        self.interfaces.iter_mut().filter_map(|slot| slot.offload.as_mut())
    }
}

impl Slot {
    fn forwarded(&self) -> u64 {
        self.earlier + self.offload.as_ref().map_or(0, |offload| offload.forwarded())
    }
}

fn destination_of(packet: &[u8]) -> Option<IpAddress> {
    match packet.first()? >> 4 {
        4 => Some(IpAddress::Ipv4(packet.get(16..)?.first_chunk::<4>().map(|&b| b.into())?)),
        _ => Some(IpAddress::Ipv6(packet.get(24..)?.first_chunk::<16>().map(|&b| b.into())?)),
    }
}

/// Returns the place of a destination's count. Whoever steers two destinations to one place delays both, and no
/// more than that, so the hash has no secret.
fn place_of(destination: &IpAddress) -> usize {
    /// The golden ratio in 64 bits (Knuth, volume 3, 6.4).
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let bits = match destination {
        IpAddress::Ipv4(address) => u64::from(address.to_bits()),
        IpAddress::Ipv6(address) => {
            let bits = address.to_bits();
            (bits >> 64) as u64 ^ (bits as u64).rotate_left(32)
        }
    };
    (bits.wrapping_mul(MULTIPLIER) >> 32) as usize % COUNTED
}
