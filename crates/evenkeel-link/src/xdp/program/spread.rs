//! The program of a device that several hosts share: it calls the program of the host that has the queue.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aya::maps::{MapData, ProgramArray};
use aya::programs::{ProgramFd, Xdp};
use aya::{Ebpf, EbpfLoader};

use super::super::buffers::Buffers;
use super::object::OBJECT;
use crate::attached::{Attached, Mode, attach, load, number_of, xdp};
use crate::bpf::{error_of, take_map};
use crate::device::QUEUES_MAX;
use crate::error::LinkError;

/// The place in the map of hosts for queues that no host has.
const OTHERS: u32 = QUEUES_MAX as u32;

/// Returns the name of the program in the object.
const fn program(buffers: Buffers) -> &'static str {
    match buffers {
        Buffers::One => "spread",
        Buffers::Several => "spread_several",
    }
}

/// A loaded program that calls those of hosts. It stays attached to its device as long as one of the hosts
/// that share it lives. All clones are one program.
#[derive(Debug, Clone)]
pub(in crate::xdp) struct Spread(Arc<Mutex<Loaded>>);

struct Loaded {
    object: Ebpf,
    name: &'static str,
    hosts: ProgramArray<MapData>,
    /// Whether a host has joined.
    has_hosts: bool,
    attached: Option<Attached>,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").field("attached", &self.attached).finish_non_exhaustive()
    }
}

impl Spread {
    /// Loads the program, without hosts.
    pub(in crate::xdp) fn load(buffers: Buffers) -> Result<Self, LinkError> {
        const WHAT: &str = "load the XDP program";
        let name = program(buffers);
        let mut object = EbpfLoader::new().load(OBJECT).map_err(|error| error_of(WHAT, error))?;
        load(xdp(&mut object, name)?).map_err(|error| error_of(WHAT, error))?;
        let hosts = take_map(&mut object, "hosts")?;
        Ok(Self(Arc::new(Mutex::new(Loaded { object, name, hosts, has_hosts: false, attached: None }))))
    }

    /// Leaves the frames of these queues to the program of a host. That of the first host also gets the
    /// frames of queues that no host has, and drops those that are for the hosts.
    pub(super) fn join(&self, queues: &[u32], program: &Xdp) -> Result<(), LinkError> {
        const WHAT: &str = "share the XDP program";
        let fd = program.fd().map_err(|error| error_of(WHAT, error))?;
        let Loaded { hosts, has_hosts, .. } = &mut *self.lock();
        let mut set = |at, fd: &ProgramFd| hosts.set(at, fd, 0).map_err(|error| error_of(WHAT, error));
        if !core::mem::replace(has_hosts, true) {
            set(OTHERS, fd)?;
        }
        queues.iter().try_for_each(|&queue| set(queue, fd))
    }

    /// Takes queues from a host that is gone.
    pub(super) fn leave(&self, queues: &[u32]) {
        let hosts = &mut self.lock().hosts;
        for queue in queues {
            let _ = hosts.clear_index(queue);
        }
    }

    /// Attaches the program to a device.
    pub(super) fn attach(&self, device: &str) -> Result<Mode, LinkError> {
        let Loaded { object, name, attached, .. } = &mut *self.lock();
        let (mode, link) = attach(object, name, device)?;
        *attached = Some(link);
        Ok(mode)
    }

    /// Returns the kernel's number for the program, if it is attached.
    pub(super) fn attached_number(&self) -> Option<u32> {
        let Loaded { object, name, attached, .. } = &mut *self.lock();
        attached.as_ref().and_then(|_| number_of(object, name))
    }

    /// Detaches the program from its device, for all hosts.
    pub(super) fn detach(&self) {
        self.lock().attached = None;
    }

    fn lock(&self) -> MutexGuard<'_, Loaded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
