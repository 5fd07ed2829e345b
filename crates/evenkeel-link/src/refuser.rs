//! Refusal of frames for full channels, in front of a packet socket or a TAP.
//!
//! The program is `bpf/refuse.c`. It runs before the kernel puts a frame into our ring. What it needs to know
//! lies in maps that are memory of this process, too: an allowance is a store. It is attached when a channel
//! is limited for the first time, so other hosts do not pay for it.

use core::fmt;
use core::sync::atomic::{AtomicI32, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, Once};

use aya::maps::{HashMap, MapData};
use aya::programs::SocketFilter;
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use evenkeel_core::demux::{Binding, Change, DemuxTable};
use evenkeel_core::id::ChannelId;
use evenkeel_core::refuser::{Allowance, Refuser};
use evenkeel_core::wire::{EthernetAddress, IpAddress};

use crate::bpf::{LOAD, error_of, missing, take_array, take_map};
use crate::error::LinkError;
use crate::received::Memory as _;
use crate::sys::Mapping;

static OBJECT: &[u8] = include_bytes_aligned!("../bpf/refuse.o");

/// The number of channels that can have an allowance.
const SLOTS: usize = 1024;
const PORTS: usize = 1 << 16;
/// The bytes of an entry in the map of ports: the kernel rounds up to eight.
const PORT_BYTES: usize = 8;

/// The state of the whole device in memory: `struct settings` of the program.
#[derive(Debug)]
#[repr(C)]
struct Settings {
    hardware: AtomicU64,
    /// The number of slots with a limit. While there is none, the program looks at nothing.
    limited: AtomicU32,
}

/// An allowance in memory: `struct slot` of the program.
#[derive(Debug)]
#[repr(C, align(64))]
struct Slot {
    /// Whether there is a limit. Otherwise all frames pass.
    limits: AtomicU32,
    left: AtomicI32,
    refused: AtomicU64,
    probed_at: AtomicU64,
}

/// Attaches a program to where the frames of a device come from.
pub(crate) type Attach = Box<dyn Fn(BorrowedFd<'_>) + Send + Sync>;

/// The program of a device, with the memory that it shares with us.
pub(crate) struct Filter {
    settings: Mapping,
    slots: Mapping,
    ports: Mapping,
    program: Ebpf,
    attach: Attach,
    attached: Once,
}

// SAFETY: the memory is accessed by atomic operations only.
unsafe impl Sync for Filter {}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("is_attached", &self.attached.is_completed()).finish_non_exhaustive()
    }
}

impl Filter {
    /// Returns the number of frames that the program has refused.
    pub(crate) fn refused(&self) -> u64 {
        (0..SLOTS).map(|number| self.slot(number).refused.load(Ordering::Relaxed)).sum()
    }

    fn settings(&self) -> &Settings {
        // SAFETY: the mapping begins at a page and holds them. All its bytes are initialized, and both sides
        // access them only atomically.
        unsafe { &*self.settings.base().cast::<Settings>() }
    }

    /// Sets the limit of a slot, or lifts it.
    fn set_limit(&self, number: usize, frames: Option<u32>) {
        let (Slot { limits, left, .. }, limited) = (self.slot(number), &self.settings().limited);
        if let Some(frames) = frames {
            left.store(i32::try_from(frames).unwrap_or(i32::MAX), Ordering::Release);
        }
        match (limits.swap(frames.is_some().into(), Ordering::AcqRel), frames) {
            (0, Some(_)) => limited.fetch_add(1, Ordering::Release),
            (1, None) => limited.fetch_sub(1, Ordering::Release),
            _ => return,
        };
        self.attach();
    }

    fn slot(&self, number: usize) -> &Slot {
        assert!(number < SLOTS, "a slot without memory");
        // SAFETY: the mapping begins at a page and has as many slots. All its bytes are initialized, and both
        // sides access them only atomically.
        unsafe { &*self.slots.base().cast::<Slot>().add(number) }
    }

    /// Sets the slots of a port by family, each plus one; zero is none.
    fn set_port(&self, port: u16, slots: [u16; 2]) {
        let at = usize::from(port) * PORT_BYTES;
        for (family, slot) in slots.into_iter().enumerate() {
            // SAFETY: as for `slot`: the mapping has an entry for each port, which begins with two such
            // numbers.
            let entry = unsafe { &*self.ports.base().add(at).cast::<AtomicU16>().add(family) };
            entry.store(slot, Ordering::Release);
        }
    }

    /// Attaches the program if it is not yet.
    fn attach(&self) {
        self.attached.call_once(|| {
            let program = self.program.program(PROGRAM).and_then(|program| program.fd().ok());
            program.into_iter().for_each(|program| (self.attach)(program.as_fd()));
        });
    }
}

const PROGRAM: &str = "refuse";

/// The part of a device that refuses frames, and the table by which the program finds their channels.
#[derive(Debug)]
pub(crate) struct KernelRefuser {
    filter: Arc<Filter>,
    table: DemuxTable,
    addresses: Addresses,
    slots: BTreeMap<ChannelId, usize>,
    vacant: Vec<usize>,
}

/// The addresses of the host in the kernel's map.
struct Addresses(HashMap<MapData, [u8; 16], u8>);

impl fmt::Debug for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Addresses").finish_non_exhaustive()
    }
}

/// Returns an address as it is in the map.
pub(crate) fn octets(address: IpAddress) -> [u8; 16] {
    match IpAddr::from(address) {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

impl KernelRefuser {
    /// Loads the program for a device with this hardware address. It refuses nothing yet.
    ///
    /// # Errors
    /// [`LinkError`] if the kernel allows no BPF programs, or none like this.
    pub(crate) fn load(hardware: EthernetAddress, attach: Attach) -> Result<Self, LinkError> {
        let mut object = EbpfLoader::new().load(OBJECT).map_err(|error| error_of(LOAD, error))?;
        let program = object.program_mut(PROGRAM).ok_or_else(|| missing(PROGRAM))?;
        let program: &mut SocketFilter = program.try_into().map_err(|error| error_of(LOAD, error))?;
        program.load().map_err(|error| error_of(LOAD, error))?;
        let addresses = Addresses(take_map(&mut object, "addresses")?);
        let filter = Filter {
            settings: map(&mut object, "settings", size_of::<Settings>())?,
            slots: map(&mut object, "slots", SLOTS * size_of::<Slot>())?,
            ports: map(&mut object, "ports", PORTS * PORT_BYTES)?,
            program: object,
            attach,
            attached: Once::new(),
        };
        let mut padded = [0; 8];
        padded[..6].copy_from_slice(&hardware.0);
        filter.settings().hardware.store(u64::from_ne_bytes(padded), Ordering::Release);
        let (filter, table) = (Arc::new(filter), DemuxTable::new(0));
        let vacant = (0..SLOTS).rev().collect();
        Ok(Self { filter, table, addresses, slots: BTreeMap::new(), vacant })
    }

    /// Returns the program, which counts.
    pub(crate) fn filter(&self) -> Arc<Filter> {
        Arc::clone(&self.filter)
    }

    /// Tells the program to which slots the datagrams to a port lead.
    fn update_port(&self, port: u16) {
        let slot = |channel| Some(*self.slots.get(&channel)? as u16 + 1);
        let channels = self.table.channels_of_port(port);
        self.filter.set_port(port, channels.map(|channel| channel.and_then(slot).unwrap_or(0)));
    }
}

fn map(object: &mut Ebpf, name: &str, bytes: usize) -> Result<Mapping, LinkError> {
    let data = take_array(object, name)?;
    Mapping::at(data.fd().as_fd(), 0, bytes).map_err(|error| error_of("map the memory of a BPF map", error))
}

impl Refuser for KernelRefuser {
    fn open(&mut self, channel: ChannelId) -> Option<Box<dyn Allowance>> {
        let number = self.vacant.pop()?;
        self.slots.insert(channel, number);
        let filter = Arc::clone(&self.filter);
        let refused_before = filter.slot(number).refused.load(Ordering::Relaxed);
        Some(Box::new(KernelAllowance { filter, number, refused_before }))
    }

    fn close(&mut self, channel: ChannelId) {
        if let Some(number) = self.slots.remove(&channel) {
            self.filter.set_limit(number, None);
            self.vacant.push(number);
        }
    }

    fn update(&mut self, change: Change) {
        self.table.apply(change);
        // Without an entry the program passes what it might refuse.
        match change {
            Change::Bind(Binding::Udp { port, .. }, _)
            | Change::Unbind(Binding::Udp { port, .. })
            | Change::Connect(_, port, _) => self.update_port(port),
            Change::AddAddress(address) if !address.is_multicast() => {
                let _ = self.addresses.0.insert(octets(address), 1, 0);
            }
            Change::RemoveAddress(address) => {
                let _ = self.addresses.0.remove(&octets(address));
            }
            _ => {}
        }
    }
}

/// The allowance of one channel.
#[derive(Debug)]
struct KernelAllowance {
    filter: Arc<Filter>,
    number: usize,
    /// The frames refused for earlier channels in this slot.
    refused_before: u64,
}

impl Allowance for KernelAllowance {
    fn set(&mut self, frames: Option<u32>) {
        self.filter.set_limit(self.number, frames);
    }

    fn left(&self) -> u32 {
        self.filter.slot(self.number).left.load(Ordering::Acquire).try_into().unwrap_or(0)
    }

    fn refused(&self) -> u64 {
        self.filter.slot(self.number).refused.load(Ordering::Acquire) - self.refused_before
    }
}

#[cfg(test)]
mod tests;
