//! The destinations and verdicts that are handed over to interfaces which forward by themselves
//! ([`crate::offload`]).

use crate::id::InterfaceId;
use crate::link::Links;
use crate::offload::{Flow, FlowHits, FlowScope, FlowVerdict, Offload, OffloadHop};
use crate::stack::{Stack, Transit, Way};
use crate::time::{Duration, Instant};
use crate::wire::IpAddress;

/// The number of packets to a destination that the host forwards before the interface does, and of packets of
/// a flow that it screens. To hand over a destination costs as much as to forward a few packets.
const PACKETS: u8 = 8;
/// Destinations and flows that are counted at a time.
const COUNTED: usize = 1024;
/// The time between two looks at which next hops the interfaces have used.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// The destinations whose packets interfaces of a host forward by themselves, and flows with verdicts.
#[derive(Debug, Default)]
pub(crate) struct Offloads {
    interfaces: Vec<Slot>,
    destinations: Counts<IpAddress>,
    flows: Counts<Flow>,
    /// The fields that the screening process distinguishes, if it decides about flows.
    scope: Option<FlowScope>,
    /// Whether an interface may have verdicts.
    has_verdicts: bool,
    /// Hits of devices that have been replaced.
    hits: Vec<(u16, FlowHits)>,
    /// The neighbours that packets leave to, by the number of their next hop.
    neighbors: Vec<(InterfaceId, IpAddress)>,
    /// The generation under which everything was handed over, if interfaces know its addresses.
    generation: Option<Generation>,
    next_look: Instant,
}

/// The generation of everything on which a decision to forward depends: that of the stack, and whether packets
/// are screened.
type Generation = (u64, bool);

/// The part of an interface that forwards by itself, if it can.
#[derive(Debug, Default)]
struct Slot {
    offload: Option<Box<dyn Offload>>,
    /// Whether it forwards only what has a verdict.
    needs_verdicts: bool,
    /// Packets that devices in this place forwarded and refused earlier.
    earlier: (u64, u64),
}

/// The numbers of packets that the host has decided about lately, for some keys.
#[derive(Debug)]
struct Counts<K>(Vec<Count<K>>);

/// The number of packets with a key that came by an interface.
#[derive(Debug, Clone, Copy)]
struct Count<K> {
    key: Option<(InterfaceId, K)>,
    packets: u8,
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Copy + PartialEq> Counts<K> {
    const NONE: Count<K> = Count { key: None, packets: 0 };

    /// Makes room, unless there is some.
    fn reserve(&mut self) {
        self.0.resize(COUNTED, Self::NONE);
    }

    /// Counts a packet. Returns its key with each eighth one. Whoever steers two keys to one place delays
    /// both, and no more than that, so the hash has no secret.
    fn count(&mut self, interface: InterfaceId, key: K, bits: u64) -> Option<K> {
        /// The golden ratio in 64 bits (Knuth, volume 3, 6.4).
        const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
        let place = (bits.wrapping_mul(MULTIPLIER) >> 32) as usize % COUNTED;
        let count = self.0.get_mut(place)?;
        if count.key != Some((interface, key)) {
            *count = Count { key: Some((interface, key)), packets: 0 };
        }
        count.packets += 1;
        if count.packets < PACKETS {
            return None;
        }
        *count = Self::NONE;
        Some(key)
    }
}

impl Offloads {
    /// Sets the part of an interface that forwards by itself, in place of an earlier device's.
    pub(super) fn set(&mut self, interface: InterfaceId, offload: Option<Box<dyn Offload>>) {
        let place = usize::from(interface.0);
        if place >= self.interfaces.len() {
            self.interfaces.resize_with(place + 1, Slot::default);
        }
        if offload.is_some() {
            self.destinations.reserve();
        }
        let slot = &mut self.interfaces[place];
        let hits = &mut self.hits;
        slot.offload.iter_mut().for_each(|offload| offload.each_hit(&mut |to, more| hits.push((to, more))));
        self.generation = None;
        *slot = Slot { earlier: (slot.forwarded(), slot.refused()), offload, needs_verdicts: false };
    }

    /// Sets the fields that the screening process distinguishes in flows; `None` if it decides about each
    /// packet alone. Takes everything back.
    pub(crate) fn set_scope(&mut self, scope: Option<FlowScope>) {
        self.take_back();
        self.scope = scope;
        if scope.is_some() {
            self.flows.reserve();
        }
    }

    /// Counts a packet that is about to be screened. Returns its flow if a verdict about others of the flow may
    /// be handed over to the interface that they come by.
    #[inline]
    pub(crate) fn count_screened(&mut self, transit: &Transit) -> Option<Flow> {
        let scope = self.scope.as_ref()?;
        let interface = transit.interface();
        self.interfaces.get(usize::from(interface.0))?.offload.as_ref()?;
        let flow = scope.cut(&Flow::of(transit.packet())?);
        self.flows.count(interface, flow, bits_of_flow(&flow))
    }

    /// Hands a verdict about a flow over to the interface that its packets come by.
    pub(crate) fn judge(
        &mut self,
        (came_by, flow): (InterfaceId, &Flow),
        verdict: FlowVerdict,
        stack: &Stack,
    ) {
        self.settle(stack, true);
        let slot = self.interfaces.get_mut(usize::from(came_by.0));
        let Some((slot, scope)) = slot.zip(self.scope.as_ref()) else { return };
        let Some(offload) = &mut slot.offload else { return };
        if offload.judge(flow, scope, verdict) {
            slot.needs_verdicts = true;
            self.has_verdicts = true;
        }
    }

    /// Calls `hit` with each account on which interfaces have counted packets of flows since the last call.
    pub(crate) fn each_hit(&mut self, hit: &mut dyn FnMut(u16, FlowHits)) {
        self.hits.drain(..).for_each(|(account, hits)| hit(account, hits));
        self.offloads().for_each(|offload| offload.each_hit(hit));
    }

    /// Counts a packet that the host is about to forward. Returns its destination if others to it may be
    /// forwarded by the interface that it came by.
    #[inline]
    pub(super) fn count(&mut self, transit: &Transit, screened: bool) -> Option<IpAddress> {
        let interface = transit.interface();
        let slot = self.interfaces.get(usize::from(interface.0))?;
        slot.offload.as_ref()?;
        if screened && !slot.needs_verdicts {
            return None;
        }
        let destination = destination_of(transit.packet())?;
        self.destinations.count(interface, destination, bits_of(&destination))
    }

    /// Hands a destination over to the interface that its packets come by, if all of them leave in the same
    /// way, and by a device that the interface can send to.
    pub(super) fn hand_over(
        &mut self,
        (came_by, destination): (InterfaceId, IpAddress),
        (stack, screened): (&Stack, bool),
        links: &Links,
        now: Instant,
    ) {
        let Some(way) = stack.way_of_all(&destination, came_by) else { return };
        let Some(device) = links.properties(way.interface).and_then(|of| of.offload_device) else { return };
        self.settle(stack, screened);
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
        self.settle(stack, screened);
        for neighbor in self.used_neighbors(now) {
            stack.use_neighbor(neighbor, now);
        }
    }

    /// Takes everything back that was handed over under another generation, and begins this one.
    fn settle(&mut self, stack: &Stack, screened: bool) {
        let generation = Some(generation(stack, screened));
        if self.generation != generation {
            self.generation = generation;
            self.take_back();
            self.offloads().for_each(|offload| offload.set_addresses(&mut stack.local_addresses()));
        }
    }

    fn take_back(&mut self) {
        if self.has_any() {
            self.offloads().for_each(|offload| offload.clear());
            self.neighbors.clear();
            self.has_verdicts = false;
        }
    }

    /// Returns whether something may be handed over.
    const fn has_any(&self) -> bool {
        self.has_verdicts || !self.neighbors.is_empty()
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
        if !self.has_any() {
            Instant::NEVER
        } else if self.generation != Some(generation(stack, screened)) {
            Instant::ZERO
        } else if self.neighbors.is_empty() {
            Instant::NEVER
        } else {
            self.next_look
        }
    }

    /// Returns the number of packets that an interface has forwarded by itself.
    pub(crate) fn forwarded(&self, interface: InterfaceId) -> u64 {
        self.interfaces.get(usize::from(interface.0)).map_or(0, Slot::forwarded)
    }

    /// Returns the number of packets that an interface has dropped because of verdicts.
    pub(crate) fn refused(&self, interface: InterfaceId) -> u64 {
        self.interfaces.get(usize::from(interface.0)).map_or(0, Slot::refused)
    }

    fn offloads(&mut self) -> impl Iterator<Item = &mut Box<dyn Offload>> {
        self.interfaces.iter_mut().filter_map(|slot| slot.offload.as_mut())
    }
}

impl Slot {
    fn forwarded(&self) -> u64 {
        self.earlier.0 + self.offload.as_ref().map_or(0, |offload| offload.forwarded())
    }

    fn refused(&self) -> u64 {
        self.earlier.1 + self.offload.as_ref().map_or(0, |offload| offload.refused())
    }
}

fn generation(stack: &Stack, screened: bool) -> Generation {
    (stack.generation_of_hops(), screened)
}

fn destination_of(packet: &[u8]) -> Option<IpAddress> {
    match packet.first()? >> 4 {
        4 => Some(IpAddress::Ipv4(packet.get(16..)?.first_chunk::<4>().map(|&b| b.into())?)),
        _ => Some(IpAddress::Ipv6(packet.get(24..)?.first_chunk::<16>().map(|&b| b.into())?)),
    }
}

/// Returns bits of an address for a hash.
fn bits_of(address: &IpAddress) -> u64 {
    match address {
        IpAddress::Ipv4(address) => u64::from(address.to_bits()),
        IpAddress::Ipv6(address) => {
            let bits = address.to_bits();
            (bits >> 64) as u64 ^ (bits as u64).rotate_left(32)
        }
    }
}

/// Returns bits of a flow for a hash.
fn bits_of_flow(flow: &Flow) -> u64 {
    let ports = u64::from(flow.source_port) << 16 | u64::from(flow.destination_port);
    bits_of(&flow.source).rotate_left(17) ^ bits_of(&flow.destination) ^ ports.rotate_left(29)
}
