//! Forwarding by the XDP program: the maps of `bpf/offload.h`, and what is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use aya::Ebpf;
use aya::maps::xdp::DevMapHash;
use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use evenkeel_core::offload::{ACCOUNTS, Flow, FlowHits, FlowScope, FlowVerdict, Offload, OffloadHop};
use evenkeel_core::wire::IpAddress;

use super::program::{End, end, octets};
use crate::bpf::take_map;
use crate::error::LinkError;

/// The number of destinations that the map has room for.
const DESTINATIONS_MAX: usize = 16_384;
/// The number of looks in a row that find a destination unused before it is forgotten.
const IDLE_LOOKS: u8 = 30;
/// The place of the mark in an entry that says that it was used.
const USED: usize = 20;

/// An entry of the map of next hops: device, MTU, the hardware addresses of a frame, and the mark.
type Entry = [u8; 24];

fn entry(hop: &OffloadHop) -> Entry {
    let mut entry = [0; 24];
    entry[..4].copy_from_slice(&hop.device.to_ne_bytes());
    entry[4..8].copy_from_slice(&(hop.mtu as u32).to_ne_bytes());
    entry[8..14].copy_from_slice(&hop.to.0);
    entry[14..USED].copy_from_slice(&hop.from.0);
    entry
}

/// A key of the map of verdicts: both addresses, both ports, the protocol and the family.
type Key = [u8; 40];
/// The place of the ports in a key.
const PORTS: usize = 32;

/// The bit of a verdict that lets the flow pass. Below it is the account, and in the high half the
/// generation.
const PASSES: u64 = 0x1_0000;

fn key(flow: &Flow) -> Key {
    let mut key = [0; 40];
    let ((source, family), (destination, _)) = (octets(flow.source.into()), octets(flow.destination.into()));
    key[..16].copy_from_slice(&source);
    key[16..PORTS].copy_from_slice(&destination);
    key[PORTS..34].copy_from_slice(&flow.source_port.to_be_bytes());
    key[34..36].copy_from_slice(&flow.destination_port.to_be_bytes());
    [key[36], key[37]] = [flow.protocol, family];
    key
}

/// Returns the masks of keys, of each family. Addresses of IPv4 are mapped, and keep what is before them.
fn masks(scope: &FlowScope) -> [Key; 2] {
    let v4 = [scope.source, scope.destination].map(|depth| {
        let mapped = depth.mask_v4().to_ipv6_mapped().octets();
        std::array::from_fn(|at| if at < 12 { u8::MAX } else { mapped[at] })
    });
    let v6 = [scope.source, scope.destination].map(|depth| depth.mask_v6().octets());
    [v4, v6].map(|[source, destination]: [[u8; 16]; 2]| {
        let mut mask = [0; 40];
        mask[..16].copy_from_slice(&source);
        mask[16..PORTS].copy_from_slice(&destination);
        mask[PORTS..34].fill(if scope.source_port { u8::MAX } else { 0 });
        mask[34..36].fill(if scope.destination_port { u8::MAX } else { 0 });
        mask
    })
}

/// The numbers of the program's counters of packets.
const FORWARDED: u32 = 0;
const REFUSED: u32 = 1;

/// The verdicts that the program has.
struct Verdicts {
    map: HashMap<MapData, Key, u64>,
    /// The generation of verdicts that hold, and the masks of their keys.
    screen: Array<MapData, [u8; 84]>,
    /// The present value of `screen`. `None` before the first verdict, until which the program needs none.
    present: Option<(u32, FlowScope)>,
    hits: PerCpuArray<MapData, [u64; 2]>,
    /// The hits that have been reported, of accounts up to the highest that verdicts have named.
    reported: Vec<FlowHits>,
}

impl Verdicts {
    fn take(object: &mut Ebpf) -> Result<Self, LinkError> {
        Ok(Self {
            map: take_map(object, "verdicts")?,
            screen: take_map(object, "screen")?,
            present: None,
            hits: take_map(object, "hits")?,
            reported: Vec::new(),
        })
    }

    /// Begins a generation, of which the program has no verdict yet. Returns whether the program knows.
    fn begin(&mut self, scope: FlowScope) -> bool {
        let generation = self.present.map_or(0, |(generation, _)| generation).wrapping_add(1).max(1);
        let mut screen = [0; 84];
        screen[..4].copy_from_slice(&generation.to_ne_bytes());
        screen[4..].copy_from_slice(masks(&scope).as_flattened());
        let done = self.screen.set(0, screen, 0).is_ok();
        if done {
            self.present = Some((generation, scope));
        }
        done
    }

    fn insert(&mut self, flow: &Flow, scope: &FlowScope, verdict: FlowVerdict) -> bool {
        let is_present = self.present.is_some_and(|(_, present)| present == *scope);
        if verdict.account >= ACCOUNTS || !(is_present || self.begin(*scope)) {
            return false;
        }
        let accounts = self.reported.len().max(usize::from(verdict.account) + 1);
        self.reported.resize(accounts, FlowHits::default());
        let generation = self.present.map_or(0, |(generation, _)| generation);
        let passes = if verdict.passes { PASSES } else { 0 };
        let judged = u64::from(generation) << 32 | passes | u64::from(verdict.account);
        self.map.insert(key(flow), judged, 0).is_ok()
    }

    fn clear(&mut self) {
        if let Some((_, scope)) = self.present {
            // A write into an array does not fail.
            self.begin(scope);
        }
    }

    fn each_hit(&mut self, hit: &mut dyn FnMut(u16, FlowHits)) {
        for (account, reported) in (0..ACCOUNTS).zip(&mut self.reported) {
            let Ok(of_cpus) = self.hits.get(&account.into(), 0) else { continue };
            let sum = |field: usize| of_cpus.iter().map(|of_cpu| of_cpu[field]).sum::<u64>();
            let now = FlowHits { packets: sum(0), bytes: sum(1) };
            if now == *reported {
                continue;
            }
            hit(
                account,
                FlowHits { packets: now.packets - reported.packets, bytes: now.bytes - reported.bytes },
            );
            *reported = now;
        }
    }
}

/// A destination in the map.
#[derive(Debug)]
struct Destination {
    hop: OffloadHop,
    idle_looks: u8,
}

/// The part of the XDP program that forwards packets.
pub(super) struct Forwarder {
    hops: HashMap<MapData, End, Entry>,
    devices: DevMapHash<MapData>,
    outcomes: PerCpuArray<MapData, u64>,
    verdicts: Verdicts,
    locals: HashMap<MapData, End, u8>,
    /// The addresses in that map; `None` if it lacks one, so that nothing can be forwarded.
    addresses: Option<BTreeSet<IpAddress>>,
    destinations: BTreeMap<IpAddress, Destination>,
    /// The devices that are in the map.
    known: BTreeSet<u32>,
}

impl fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarder").field("destinations", &self.destinations).finish_non_exhaustive()
    }
}

impl Forwarder {
    /// Takes the maps of a loaded object. The program forwards nothing yet.
    pub(super) fn take(object: &mut Ebpf) -> Result<Self, LinkError> {
        Ok(Self {
            hops: take_map(object, "hops")?,
            devices: take_map(object, "devices")?,
            outcomes: take_map(object, "outcomes")?,
            verdicts: Verdicts::take(object)?,
            locals: take_map(object, "locals")?,
            addresses: Some(BTreeSet::new()),
            destinations: BTreeMap::new(),
            known: BTreeSet::new(),
        })
    }

    /// Puts a device into the map that packets leave by. Returns whether it is there.
    fn knows(&mut self, device: u32) -> bool {
        self.known.contains(&device)
            || (self.devices.insert(device, device, None, 0).is_ok() && self.known.insert(device))
    }

    /// Returns whether packets to `destination` have left since the last call, and clears the mark of that.
    fn was_used(&mut self, destination: IpAddress, hop: &OffloadHop) -> bool {
        let key = end(destination.into(), 0);
        let is_marked = self.hops.get(&key, 0).is_ok_and(|entry| entry[USED..] != [0; 4]);
        // A packet that is forwarded now may leave no mark. The next one does.
        is_marked && self.hops.insert(key, entry(hop), 0).is_ok()
    }

    /// Returns the number of packets with this outcome.
    fn outcome(&self, outcome: u32) -> u64 {
        self.outcomes.get(&outcome, 0).map_or(0, |of_cpus| of_cpus.iter().sum())
    }

    fn remove(&mut self, destination: IpAddress) {
        // An entry that is not there is as it should be.
        let _ = self.hops.remove(&end(destination.into(), 0));
    }
}

impl Offload for Forwarder {
    fn set_addresses(&mut self, addresses: &mut dyn Iterator<Item = IpAddress>) {
        let new: BTreeSet<_> = addresses.collect();
        let old = self.addresses.take().unwrap_or_default();
        for gone in old.difference(&new) {
            let _ = self.locals.remove(&end((*gone).into(), 0));
        }
        let is_whole = new.iter().all(|address| self.locals.insert(end((*address).into(), 0), 1, 0).is_ok());
        self.addresses = is_whole.then_some(new);
    }

    fn forward(&mut self, destination: IpAddress, next: &OffloadHop) -> bool {
        if self.addresses.is_none() {
            return false;
        }
        let before = self.destinations.get(&destination);
        if before.is_some_and(|before| before.hop == *next) {
            return true;
        }
        let has_room = before.is_some() || self.destinations.len() < DESTINATIONS_MAX;
        if !has_room || !self.knows(next.device) {
            return false;
        }
        let key = end(destination.into(), 0);
        if self.hops.insert(key, entry(next), 0).is_err() {
            return false;
        }
        self.destinations.insert(destination, Destination { hop: *next, idle_looks: 0 });
        true
    }

    fn judge(&mut self, flow: &Flow, scope: &FlowScope, verdict: FlowVerdict) -> bool {
        self.addresses.is_some() && self.verdicts.insert(flow, scope, verdict)
    }

    fn clear(&mut self) {
        self.verdicts.clear();
        for (destination, _) in std::mem::take(&mut self.destinations) {
            self.remove(destination);
        }
    }

    fn each_used(&mut self, used: &mut dyn FnMut(u32)) {
        let mut destinations = std::mem::take(&mut self.destinations);
        destinations.retain(|&destination, Destination { hop, idle_looks }| {
            if self.was_used(destination, hop) {
                *idle_looks = 0;
                used(hop.number);
                return true;
            }
            *idle_looks += 1;
            let stays = *idle_looks < IDLE_LOOKS;
            if !stays {
                self.remove(destination);
            }
            stays
        });
        self.destinations = destinations;
    }

    fn forwarded(&self) -> u64 {
        self.outcome(FORWARDED)
    }

    fn refused(&self) -> u64 {
        self.outcome(REFUSED)
    }

    fn each_hit(&mut self, hit: &mut dyn FnMut(u16, FlowHits)) {
        self.verdicts.each_hit(hit);
    }
}
