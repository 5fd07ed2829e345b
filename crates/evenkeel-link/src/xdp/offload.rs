//! Forwarding by the XDP program: the maps of `bpf/offload.h`, and what is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use aya::Ebpf;
use aya::maps::xdp::DevMapHash;
use aya::maps::{HashMap, MapData, PerCpuArray};
use evenkeel_core::offload::{Offload, OffloadHop};
use evenkeel_core::wire::IpAddress;

use super::program::{End, end};
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
    forwarded: PerCpuArray<MapData, u64>,
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
            forwarded: take_map(object, "forwarded")?,
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

    fn remove(&mut self, destination: IpAddress) {
        // An entry that is not there is as it should be.
        let _ = self.hops.remove(&end(destination.into(), 0));
    }
}

impl Offload for Forwarder {
    fn forward(&mut self, destination: IpAddress, next: &OffloadHop) -> bool {
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

    fn clear(&mut self) {
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
        self.forwarded.get(&0, 0).map_or(0, |of_cpus| of_cpus.iter().sum())
    }
}
