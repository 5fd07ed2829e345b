//! A guard in front of the kernel's own sockets: early discard for programs that stay on them.
//!
//! The program is `bpf/guard.c`. It looks at the queue of the socket that a datagram is for, and drops the
//! datagram in front of the kernel's stack if the queue has no room. It answers SYNs for a listener whose
//! queue of SYNs is full with the kernel's cookies, and limits what the kernel refuses because there is no
//! socket or connection, and requests for an echo. Everything else is the kernel's.

mod groups;
mod learning;

use core::fmt;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use aya::maps::{Array, HashMap, MapData, PerCpuArray, PerCpuHashMap};
use aya::programs::links::{FdLink, LinkOrder};
use aya::programs::tc::TcAttachOptions;
use aya::programs::{SchedClassifier, TcAttachType};
use aya::{Btf, Ebpf, EbpfLoader, include_bytes_aligned};
use evenkeel_core::wire::IpAddress;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use self::learning::{Backlogs, LOAD, learn};
use crate::attached::{Attached, Mode, attach, load, xdp};
use crate::bpf::{error_of, missing, take_map};
use crate::claim::Claim;
use crate::error::LinkError;
use crate::netdev::device_index;
use crate::rtnetlink::addresses::kernel_addresses;
use crate::rtnetlink::{open_socket, sends_back};

static OBJECT: &[u8] = include_bytes_aligned!("../bpf/guard.o");
/// The name of the program in the object.
const PROGRAM: &str = "guard";
/// The name of the same program for devices whose XDP program is another's.
const BEHIND: &str = "guard_skb";
/// The program that learns where the kernel's backlogs are, and its tracepoint.
const BACKLOGS: [&str; 2] = ["learn", "napi_poll"];
/// The programs that learn for which ports the kernel refuses packets, and their tracepoints. Before Linux
/// 6.9 only the second one sees what a listener refuses, and after that only the first.
const REFUSALS: [[&str; 2]; 2] = [["remember", "kfree_skb"], ["remember_reset", "tcp_send_reset"]];
/// The operation of following addresses, in errors.
const FOLLOW: &str = "follow the machine's addresses";

fn following(source: io::Error) -> LinkError {
    LinkError::Os { what: FOLLOW.to_owned(), source }
}

/// Returns the key of an address in the program's map: four words and whether it is of IPv6.
fn key(address: IpAddress) -> [u32; 5] {
    match address {
        IpAddress::Ipv4(address) => [u32::from_ne_bytes(address.octets()), 0, 0, 0, 0],
        IpAddress::Ipv6(address) => {
            let octets = address.octets();
            let (words, _) = octets.as_chunks::<4>();
            let word = |at: usize| words.get(at).map_or(0, |word| u32::from_ne_bytes(*word));
            [word(0), word(1), word(2), word(3), 1]
        }
    }
}

/// The sockets that a [`Guard`] protects, and what it does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuardOptions {
    /// The ports of UDP and TCP whose sockets are guarded; all if there is none.
    pub ports: Vec<u16>,
    /// Whether packets are only counted that would be dropped or answered.
    pub counts_only: bool,
}

/// An account of packets that the guard has judged, since it was attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardAccount {
    /// The packets that it is of.
    pub of: Judged,
    /// Packets that the kernel got.
    pub passed: u64,
    /// Packets that were dropped: because a socket's queue or a listener's queue of connections was full, or
    /// because what is [limited](Judged) was spent.
    pub dropped: u64,
    /// SYNs that were answered by a cookie, because a listener's queue of SYNs was full.
    pub answered: u64,
}

/// The packets that have an account of their own. All but those for a port are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judged {
    /// Datagrams for the sockets, or SYNs for the listeners, at a port.
    Port(Transport, u16),
    /// Datagrams, or SYNs, for all ports without one.
    Closed(Transport),
    /// Segments of TCP that belong to no connection, while there are many.
    Strays,
    /// Requests for an echo (ping).
    Echoes,
}

impl Judged {
    /// Returns what a key of the program's map of accounts stands for.
    fn of(key: u32) -> Self {
        // `OTHER_THAN_PORTS` and `enum limit` in the program's source.
        match (key >> 16, key as u16) {
            (258, _) => Self::Strays,
            (259, _) => Self::Echoes,
            (protocol, 0) => Self::Closed(Transport::of(protocol)),
            (protocol, port) => Self::Port(Transport::of(protocol), port),
        }
    }
}

/// The protocol that a port belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

impl Transport {
    /// Returns the transport of a number of the Internet protocol that the program counts by.
    fn of(number: u32) -> Self {
        if number == 6 { Self::Tcp } else { Self::Udp }
    }
}

/// The multicast groups of announcements about addresses: `RTMGRP_IPV4_IFADDR` and `RTMGRP_IPV6_IFADDR`
/// (linux/rtnetlink.h).
const ADDRESSES: u32 = 0x10 | 0x100;
/// The size in bytes of the queue of announcements. If some are lost, the addresses are listed all the same.
const ANNOUNCED_BYTES: usize = 64 * 1024;

/// A guard at devices of the kernel, for datagrams and SYNs to the machine's own addresses. It is detached
/// when it is dropped, and when the process ends, even by SIGKILL.
pub struct Guard {
    devices: Vec<GuardedDevice>,
    /// By protocol and port: packets passed, dropped and answered.
    accounts: PerCpuHashMap<MapData, u32, [u64; 3]>,
    /// Datagrams for all sockets: passed, dropped and answered.
    datagrams: PerCpuArray<MapData, [u64; 3]>,
    addresses: HashMap<MapData, [u32; 5], u8>,
    /// By index: devices on which the kernel answers all SYNs, of those with the guard in XDP.
    mute: HashMap<MapData, u32, u8>,
    /// By index: devices at which datagrams for groups end here.
    groups: HashMap<MapData, u32, u8>,
    shown: BTreeSet<IpAddress>,
    announcements: Arc<OwnedFd>,
    settings: Array<MapData, [u32; 2]>,
    /// By port: whether its sockets are guarded.
    selected: Array<MapData, u8>,
    options: GuardOptions,
    /// Learns where the kernel's backlogs are; `None` before the guard is attached.
    backlogs: Option<Backlogs>,
    /// Learns for which ports the kernel refuses packets; ends with the guard.
    refusals: Vec<FdLink>,
}

#[derive(Debug)]
struct GuardedDevice {
    name: String,
    index: u32,
    place: Place,
    is_mute: bool,
    has_groups: bool,
    _claim: Claim,
}

/// The place of the guard on a device, and its link there.
#[derive(Debug)]
enum Place {
    Xdp {
        mode: Mode,
        _attached: Attached,
    },
    /// Behind the XDP program of somebody else.
    Behind {
        _link: FdLink,
    },
}

impl GuardedDevice {
    /// Returns whether the device sends what the program answers.
    fn sends(&self) -> bool {
        match self.place {
            Place::Xdp { mode: Mode::Generic, .. } => true,
            Place::Xdp { mode: Mode::Native, .. } => sends_back(self.index).unwrap_or(false),
            Place::Behind { .. } => false,
        }
    }
}

/// Attaches the guard to a device: to its XDP, or behind the XDP program that is there already.
fn place(object: &mut Ebpf, device: &str) -> Result<Place, LinkError> {
    match attach(object, PROGRAM, device) {
        Ok((mode, _attached)) => Ok(Place::Xdp { mode, _attached }),
        Err(busy @ LinkError::Busy { .. }) => {
            // Kernels before 6.6 have no such place that a killed process leaves.
            let _link = attach_behind(object, device).map_err(|error| match error {
                LinkError::Os { source, .. } if source.raw_os_error() == Some(libc::EINVAL) => busy,
                other => other,
            })?;
            Ok(Place::Behind { _link })
        }
        Err(other) => Err(other),
    }
}

/// Returns the program for devices whose XDP program is another's.
fn behind(object: &mut Ebpf) -> Result<&mut SchedClassifier, LinkError> {
    let program = object.program_mut(BEHIND).ok_or_else(|| missing(BEHIND))?;
    program.try_into().map_err(|error| error_of(LOAD, error))
}

/// Attaches the guard to the place where a device's packets enter the kernel's stack (tcx).
fn attach_behind(object: &mut Ebpf, device: &str) -> Result<FdLink, LinkError> {
    const WHAT: &str = "attach the guard behind an XDP program";
    let order = TcAttachOptions::TcxOrder(LinkOrder::default());
    let program = behind(object)?;
    let id = program
        .attach_with_options(device, TcAttachType::Ingress, order)
        .map_err(|error| error_of(WHAT, error))?;
    let link = program.take_link(id).map_err(|error| error_of(WHAT, error))?;
    FdLink::try_from(link).map_err(|error| error_of(WHAT, error))
}

/// Lets the program learn for which ports the kernel refuses packets, until the links are dropped.
fn learn_refusals(object: &mut Ebpf) -> Result<Vec<FdLink>, LinkError> {
    REFUSALS.into_iter().map(|program| learn(object, program)).collect()
}

/// Shows the program whether a device is among those of a map, if that has changed.
fn show(map: &mut HashMap<MapData, u32, u8>, device: u32, was: &mut bool, is: bool) -> Result<(), LinkError> {
    if is == *was {
        return Ok(());
    }
    let shown = if is { map.insert(device, 1, 0) } else { map.remove(&device) };
    shown.map_err(|error| error_of("show the guard its devices", error))?;
    *was = is;
    Ok(())
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("devices", &self.devices).finish_non_exhaustive()
    }
}

impl Guard {
    /// Attaches a guard to devices: in their drivers, or behind those that have no XDP. If a device has
    /// another XDP program, the guard is behind that one, where the kernel has made a packet of each frame.
    ///
    /// # Errors
    /// The process lacks a capability, the kernel cannot run the program or does not show its types, there is
    /// no such device, or it has another guard, or another XDP program and the kernel is older than Linux
    /// 6.6.
    pub fn attach(devices: &[String], options: &GuardOptions) -> Result<Self, LinkError> {
        let (mut object, mut guard) = Self::load(options)?;
        guard.backlogs = Some(Backlogs::learn(&mut object, BACKLOGS)?);
        guard.refusals = learn_refusals(&mut object)?;
        for name in devices {
            let index = device_index(name)?;
            // Until it is known that it sends.
            guard.mute.insert(index, 1, 0).map_err(|error| error_of(LOAD, error))?;
            let _claim = Claim::of_guard(name, index)?;
            let place = place(&mut object, name)?;
            let name = name.clone();
            guard.devices.push(GuardedDevice {
                name,
                index,
                place,
                is_mute: true,
                has_groups: false,
                _claim,
            });
        }
        guard.show_devices()?;
        Ok(guard)
    }

    /// Loads the program, which knows the addresses of the machine then.
    fn load(options: &GuardOptions) -> Result<(Ebpf, Self), LinkError> {
        // Without them it would be loaded, and read the fields of its own declarations.
        let types = Btf::from_sys_fs().map_err(|error| LinkError::NoTypes { why: error.to_string() })?;
        let mut loader = EbpfLoader::new();
        let mut object = loader.btf(Some(&types)).load(OBJECT).map_err(|error| error_of(LOAD, error))?;
        load(xdp(&mut object, PROGRAM)?).map_err(|error| error_of(LOAD, error))?;
        behind(&mut object)?.load().map_err(|error| error_of(LOAD, error))?;
        let announcements = open_socket(ADDRESSES, ANNOUNCED_BYTES).map_err(following)?;
        let mut guard = Self {
            devices: Vec::new(),
            accounts: take_map(&mut object, "accounts")?,
            datagrams: take_map(&mut object, "datagrams")?,
            addresses: take_map(&mut object, "addresses")?,
            mute: take_map(&mut object, "mute")?,
            groups: take_map(&mut object, "groups")?,
            shown: BTreeSet::new(),
            announcements: Arc::new(announcements),
            settings: take_map(&mut object, "settings")?,
            selected: take_map(&mut object, "selected")?,
            options: GuardOptions::default(),
            backlogs: None,
            refusals: Vec::new(),
        };
        guard.set(options)?;
        guard.show_addresses()?;
        Ok((object, guard))
    }

    /// Changes which sockets are guarded, and whether packets are only counted. Accounts go on.
    ///
    /// # Errors
    /// None that a caller can expect.
    pub fn set(&mut self, options: &GuardOptions) -> Result<(), LinkError> {
        let failed = |error| error_of("set the guard", error);
        // A port that was guarded before and will be is guarded all the time.
        for &port in &options.ports {
            self.selected.set(port.into(), 1, 0).map_err(failed)?;
        }
        let selects = !options.ports.is_empty();
        self.settings.set(0, [options.counts_only.into(), selects.into()], 0).map_err(failed)?;
        for &port in self.options.ports.iter().filter(|port| !options.ports.contains(port)) {
            self.selected.set(port.into(), 0, 0).map_err(failed)?;
        }
        self.options.clone_from(options);
        Ok(())
    }

    /// Returns the sockets that are guarded, and what is done.
    #[must_use]
    pub const fn options(&self) -> &GuardOptions {
        &self.options
    }

    /// Returns the devices on which the kernel answers all SYNs: the guard is [behind](Guard::behind) another
    /// program there, or the device would drop its answers. A veth does, while its other end has no XDP
    /// program.
    pub fn mute(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().filter(|device| device.is_mute).map(|device| device.name.as_str())
    }

    /// Returns the devices that have another XDP program, behind which the guard is.
    pub fn behind(&self) -> impl Iterator<Item = &str> {
        let behind = self.devices.iter().filter(|device| matches!(device.place, Place::Behind { .. }));
        behind.map(|device| device.name.as_str())
    }

    /// Returns a descriptor that is readable when addresses have changed, which [`Guard::follow`] follows.
    #[must_use]
    pub fn announcements(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.announcements)
    }

    /// Follows the addresses of the machine, if they have changed, which devices send answers, and which have
    /// others on top, and ends what has been learnt. The kernel announces none but the first, so this is to
    /// be called from time to time.
    ///
    /// # Errors
    /// The kernel does not list its addresses, or the program has no room for them.
    pub fn follow(&mut self) -> Result<(), LinkError> {
        let mut has_changed = false;
        loop {
            match recv(&*self.announcements, &mut [0; 64], RecvFlags::empty()) {
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                // Lost ones are changes as well.
                Ok(_) | Err(Errno::NOBUFS) => has_changed = true,
                Err(error) => return Err(following(error.into())),
            }
        }
        if has_changed {
            self.show_addresses()?;
        }
        self.backlogs.iter_mut().for_each(Backlogs::follow);
        self.show_devices()
    }

    /// Shows the program which devices would drop its answers, and at which ones datagrams for groups end.
    fn show_devices(&mut self) -> Result<(), LinkError> {
        for device in &mut self.devices {
            let is_mute = !device.sends();
            show(&mut self.mute, device.index, &mut device.is_mute, is_mute)?;
            let has_groups = groups::end_at(&device.name);
            show(&mut self.groups, device.index, &mut device.has_groups, has_groups)?;
        }
        Ok(())
    }

    /// Shows the program the addresses that the machine has now.
    fn show_addresses(&mut self) -> Result<(), LinkError> {
        let now = kernel_addresses().map_err(following)?;
        for address in self.shown.difference(&now) {
            // It may be gone with its device.
            let _ = self.addresses.remove(&key(*address));
        }
        for address in now.difference(&self.shown) {
            let shown = self.addresses.insert(key(*address), 1, 0);
            shown.map_err(|error| error_of(FOLLOW, error))?;
        }
        self.shown = now;
        Ok(())
    }

    /// Returns how many datagrams for sockets have passed since the guard was attached, and how many were
    /// dropped.
    ///
    /// # Errors
    /// None that a caller can expect.
    pub fn datagrams(&self) -> Result<[u64; 2], LinkError> {
        let failed = |error| error_of("read the guard's accounts", error);
        let by_cpu = self.datagrams.get(&0, 0).map_err(failed)?;
        Ok([0, 1].map(|at| by_cpu.iter().filter_map(|counts| counts.get(at)).sum()))
    }

    /// Returns the accounts of all packets that have come, of ports first.
    ///
    /// # Errors
    /// None that a caller can expect.
    pub fn accounts(&self) -> Result<Vec<GuardAccount>, LinkError> {
        let mut accounts = Vec::new();
        for account in self.accounts.iter() {
            let (key, by_cpu) = account.map_err(|error| error_of("read the guard's accounts", error))?;
            let sum = |at: usize| by_cpu.iter().filter_map(|counts| counts.get(at)).sum();
            accounts.push(GuardAccount {
                of: Judged::of(key),
                passed: sum(0),
                dropped: sum(1),
                answered: sum(2),
            });
        }
        accounts.sort_unstable_by_key(|account| account.of);
        Ok(accounts)
    }
}

#[cfg(test)]
mod tests;
