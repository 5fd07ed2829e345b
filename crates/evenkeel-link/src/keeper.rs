//! Keeping the kernel's stack off the frames of a host that has the device's own hardware address.
//!
//! Packet sockets get copies, and the kernel's stack works on each such frame, too. The program is
//! `bpf/keep.c`. It runs after the packet sockets have their copies, and drops frames to addresses of the
//! host. Since Linux 6.6 it is attached by a link, which goes away with the process. Before, it is a filter
//! of traffic control, which does nothing once the process is gone, and which the next start removes.

use core::fmt;
use std::collections::BTreeSet;

use aya::maps::{HashMap, MapData, ProgramArray};
use aya::programs::tc::{NlOptions, TcAttachOptions, qdisc_add_clsact, qdisc_detach_program};
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use evenkeel_core::wire::IpAddress;

use crate::bpf::{LOAD, error_of, missing, take_map};
use crate::device::{KernelWork, Status};
use crate::error::LinkError;
use crate::kept::Kept;
use crate::refuser::octets;
use crate::rtnetlink::addresses::kernel_addresses;

static OBJECT: &[u8] = include_bytes_aligned!("../bpf/keep.o");

const PROGRAM: &str = "keep";

/// The name of the filter, by which the next start finds it.
const FILTER: &str = "evenkeel_keep";

/// The operation of attaching, in errors.
const ATTACH: &str = "attach a program of traffic control";

/// The part of a device that keeps the kernel's stack off frames to addresses of the host.
#[derive(Debug)]
pub(crate) struct Keeper {
    device: String,
    status: Status,
    state: State,
    /// The addresses of the host.
    addresses: BTreeSet<IpAddress>,
    /// The addresses of the host that the kernel has, too. Frames to them are left to both.
    of_both: BTreeSet<IpAddress>,
}

#[derive(Debug)]
enum State {
    /// The host has had no address yet.
    Idle,
    Keeping(Box<Program>),
    Failed,
}

impl Keeper {
    /// Creates the keeper of the device called `device`. It loads nothing before the host has an address.
    pub(crate) fn of(device: &str, status: Status) -> Self {
        let (addresses, of_both) = Default::default();
        Self { device: device.to_owned(), status, state: State::Idle, addresses, of_both }
    }

    /// Keeps the kernel off frames to these addresses from now on, and not off frames to others. Addresses
    /// that the kernel has, too, are left to it, and reported.
    pub(crate) fn set_addresses(&mut self, addresses: &BTreeSet<IpAddress>) {
        let is_done = *addresses == self.addresses || matches!(self.state, State::Failed);
        if !is_done && let Err(error) = self.follow(addresses) {
            self.state = State::Failed;
            self.status.report(KernelWork::OnAll { why: error.to_string() });
        }
    }

    fn follow(&mut self, addresses: &BTreeSet<IpAddress>) -> Result<(), LinkError> {
        let kernel = kernel_addresses().map_err(|error| error_of("list the kernel's addresses", error))?;
        self.program()?.set(addresses - &kernel);
        self.addresses.clone_from(addresses);
        let of_both = addresses & &kernel;
        of_both.difference(&self.of_both).for_each(|&new| self.status.report(KernelWork::On(new)));
        self.of_both = of_both;
        Ok(())
    }

    /// Returns the program, which is loaded and attached the first time.
    fn program(&mut self) -> Result<&mut Program, LinkError> {
        if !matches!(self.state, State::Keeping(_)) {
            let (program, kept) = Program::load(&self.device, &Attaching::ALL)?;
            self.status.set_kept(kept);
            self.state = State::Keeping(Box::new(program));
        }
        match &mut self.state {
            State::Keeping(program) => Ok(program),
            State::Idle | State::Failed => Err(missing(PROGRAM)),
        }
    }
}

/// A way to attach the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attaching {
    /// By a link of tcx, in front of other programs: one that lets a frame pass ends the series.
    Link,
    /// As a filter of clsact, in front of other filters.
    Filter,
}

impl Attaching {
    const ALL: [Self; 2] = [Self::Link, Self::Filter];
}

/// The loaded and attached program, with its maps.
struct Program {
    _object: Ebpf,
    /// The map that the kernel empties when the process ends, if the program is attached as a filter.
    _running: Option<ProgramArray<MapData>>,
    addresses: HashMap<MapData, [u8; 16], u8>,
    present: BTreeSet<IpAddress>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("present", &self.present).finish_non_exhaustive()
    }
}

impl Program {
    fn load(device: &str, ways: &[Attaching]) -> Result<(Self, Kept), LinkError> {
        let mut object = EbpfLoader::new().load(OBJECT).map_err(|error| error_of(LOAD, error))?;
        let addresses = take_map(&mut object, "addresses")?;
        let kept = Kept::of(take_map(&mut object, "kept")?);
        load(&mut object, PROGRAM)?;
        let running = attach(&mut object, device, ways)?;
        Ok((Self { _object: object, _running: running, addresses, present: BTreeSet::new() }, kept))
    }

    fn set(&mut self, addresses: BTreeSet<IpAddress>) {
        // Frames to an address that is missing in the map are left to the kernel, too.
        for &gone in self.present.difference(&addresses) {
            let _ = self.addresses.remove(&octets(gone));
        }
        for &new in addresses.difference(&self.present) {
            let _ = self.addresses.insert(octets(new), 1, 0);
        }
        self.present = addresses;
    }
}

fn program<'a>(object: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier, LinkError> {
    let program = object.program_mut(name).ok_or_else(|| missing(name))?;
    program.try_into().map_err(|error| error_of(LOAD, error))
}

fn load<'a>(object: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier, LinkError> {
    let program = program(object, name)?;
    program.load().map_err(|error| error_of(LOAD, error))?;
    Ok(program)
}

/// Attaches the loaded program to a device in the first of these ways that the kernel has. Returns the map
/// that is to live as long as the process, if there is one.
fn attach(
    object: &mut Ebpf,
    device: &str,
    ways: &[Attaching],
) -> Result<Option<ProgramArray<MapData>>, LinkError> {
    let mut result = Err(missing(PROGRAM));
    for way in ways {
        result = match way {
            Attaching::Link => attach_link(object, device).map(|()| None),
            Attaching::Filter => attach_filter(object, device).map(Some),
        };
        // Without the privilege the other way is no better.
        if !matches!(result, Err(LinkError::Os { .. })) {
            break;
        }
    }
    result
}

fn attach_link(object: &mut Ebpf, device: &str) -> Result<(), LinkError> {
    let first = TcAttachOptions::TcxOrder(LinkOrder::first());
    let attached = program(object, PROGRAM)?.attach_with_options(device, TcAttachType::Ingress, first);
    attached.map(drop).map_err(|error| error_of(ATTACH, error))
}

/// Attaches a filter that calls the program while this process lives. A filter of an earlier process is
/// removed: the claim of the hardware address says that there is no other one.
fn attach_filter(object: &mut Ebpf, device: &str) -> Result<ProgramArray<MapData>, LinkError> {
    // If it is there already, that is as well; if not, attaching fails.
    let _ = qdisc_add_clsact(device);
    let _ = qdisc_detach_program(device, TcAttachType::Ingress, FILTER);
    let keep = program(object, PROGRAM)?.fd().and_then(|fd| Ok(fd.try_clone()?));
    let keep = keep.map_err(|error| error_of(LOAD, error))?;
    let mut running: ProgramArray<MapData> = take_map(object, "running")?;
    running.set(0, &keep, 0).map_err(|error| error_of(LOAD, error))?;
    let options = TcAttachOptions::Netlink(NlOptions::default());
    let attached = load(object, FILTER)?.attach_with_options(device, TcAttachType::Ingress, options);
    attached.map_err(|error| error_of(ATTACH, error))?;
    Ok(running)
}

#[cfg(test)]
mod tests;
