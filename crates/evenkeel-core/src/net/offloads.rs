//! The destinations that are handed over to interfaces which forward by themselves ([`crate::offload`]).

use crate::id::InterfaceId;
use crate::link::Links;
use crate::offload::{Offload, OffloadHop};
use crate::stack::{Stack, Transit, Way};
use crate::time::{Duration, Instant};
use crate::wire::IpAddress;

/// The number of packets to a destination that the host forwards before the interface does. To hand over a
/// destination costs as much as to forward a few packets.
const PACKETS: u8 = 8;
/// Destinations that are counted at a time.
const COUNTED: usize = 1024;
/// The time between two looks at which next hops the interfaces have used.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// The destinations whose packets interfaces of a host forward by themselves.
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
    pub(super) fn set(&mut self, interface: InterfaceId, offload: Option<Box<dyn Offload>>) {
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
    pub(super) fn count(&mut self, transit: &Transit) -> Option<IpAddress> {
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

    /// Hands a destination over to the interface that its packets come by, if all of them leave in the same way,
    /// and by a device that the interface can send to.
    pub(super) fn hand_over(
        &mut self,
        (came_by, destination): (InterfaceId, IpAddress),
        stack: &Stack,
        links: &Links,
        now: Instant,
    ) {
        let Some(way) = stack.way_of_all(&destination, came_by) else { return };
        let Some(device) = links.properties(way.interface).and_then(|of| of.offload_device) else { return };
        self.settle(generation(stack, false));
        let key = (way.interface, way.neighbor);
        let known = self.neighbors.iter().position(|neighbor| *neighbor == key);
        let number = known.unwrap_or(self.neighbors.len());
        let Way { mtu, to, from, .. } = way;
        let next = OffloadHop { number: number as u32, device, mtu, to, from };
        let slot = self.interfaces.get_mut(usize::from(came_by.0));
        let Some(offload) = slot.and_then(|slot| slot.offload.as_mut()) else { return };
        if !offload.forward(destination, &next) || known.is_some() {
            return;
        }
        if self.neighbors.is_empty() {
            self.next_look = now + LOOK_PERIOD;
        }
        self.neighbors.push(key);
    }

    /// Takes everything back if something has changed, and has the neighbours probed that interfaces send to.
    pub(super) fn look(&mut self, stack: &mut Stack, screened: bool, now: Instant) {
        self.settle(generation(stack, screened));
        for neighbor in self.used_neighbors(now) {
            stack.use_neighbor(neighbor, now);
        }
    }

    /// Takes everything back that was handed over under another generation.
    fn settle(&mut self, generation: u64) {
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
    fn used_neighbors(&mut self, now: Instant) -> Vec<(InterfaceId, IpAddress)> {
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
    pub(super) fn deadline(&self, stack: &Stack, screened: bool) -> Instant {
        if self.neighbors.is_empty() {
            Instant::NEVER
        } else if self.generation != generation(stack, screened) {
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

/// Returns the generation of everything on which a decision to forward depends. Under screening, no decision is
/// for others.
fn generation(stack: &Stack, screened: bool) -> u64 {
    if screened { u64::MAX } else { stack.generation_of_hops() }
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
