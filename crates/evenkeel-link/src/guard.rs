//! A guard in front of the kernel's own UDP sockets: early discard for programs that stay on them.
//!
//! The program is `bpf/guard.c`. It looks at the queue of the socket that a datagram is for, and drops the
//! datagram in front of the kernel's stack if the queue has no room. Everything else is the kernel's.

use core::fmt;

use aya::maps::{Array, MapData, PerCpuHashMap};
use aya::{EbpfLoader, include_bytes_aligned};

use crate::attached::{Attached, attach, load, xdp};
use crate::bpf::{error_of, take_map};
use crate::error::LinkError;

static OBJECT: &[u8] = include_bytes_aligned!("../bpf/guard.o");
/// The name of the program in the object.
const PROGRAM: &str = "guard";
/// The operation in errors.
const LOAD: &str = "load the guard";

/// The sockets that a [`Guard`] protects, and what it does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuardOptions {
    /// The UDP ports whose sockets are guarded; all if there is none.
    pub ports: Vec<u16>,
    /// Whether datagrams are only counted that would be dropped.
    pub counts_only: bool,
}

/// The account of a guarded UDP port, since the guard was attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardedPort {
    /// The port.
    pub port: u16,
    /// Datagrams that the kernel got.
    pub passed: u64,
    /// Datagrams that were dropped because a socket's queue was full.
    pub dropped: u64,
}

/// A guard at devices of the kernel. It is detached when it is dropped, and when the process ends, even by
/// SIGKILL.
pub struct Guard {
    devices: Vec<(String, Attached)>,
    /// By port: datagrams passed and dropped.
    accounts: PerCpuHashMap<MapData, u32, [u64; 2]>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("devices", &self.devices).finish_non_exhaustive()
    }
}

impl Guard {
    /// Attaches a guard to devices: in their drivers, or behind those that have no XDP.
    ///
    /// # Errors
    /// The process lacks a capability, the kernel cannot run the program, there is no such device, or it has
    /// another XDP program.
    pub fn attach(devices: &[String], options: &GuardOptions) -> Result<Self, LinkError> {
        let mut object = EbpfLoader::new().load(OBJECT).map_err(|error| error_of(LOAD, error))?;
        let failed = |error| error_of(LOAD, error);
        let mut selected: Array<MapData, u8> = take_map(&mut object, "selected")?;
        for &port in &options.ports {
            selected.set(port.into(), 1, 0).map_err(failed)?;
        }
        let mut settings: Array<MapData, [u32; 2]> = take_map(&mut object, "settings")?;
        let selects = !options.ports.is_empty();
        settings.set(0, [options.counts_only.into(), selects.into()], 0).map_err(failed)?;
        load(xdp(&mut object, PROGRAM)?).map_err(|error| error_of(LOAD, error))?;
        let attached = |device: &String| {
            let (_, attached) = attach(&mut object, PROGRAM, device)?;
            Ok((device.clone(), attached))
        };
        let devices = devices.iter().map(attached).collect::<Result<_, LinkError>>()?;
        Ok(Self { devices, accounts: take_map(&mut object, "accounts")? })
    }

    /// Returns the accounts of all ports at which datagrams for sockets have come, in the order of ports.
    ///
    /// # Errors
    /// None that a caller can expect.
    pub fn ports(&self) -> Result<Vec<GuardedPort>, LinkError> {
        let mut ports = Vec::new();
        for account in self.accounts.iter() {
            let (port, by_cpu) = account.map_err(|error| error_of("read the guard's accounts", error))?;
            let sum = |at: usize| by_cpu.iter().filter_map(|counts| counts.get(at)).sum();
            ports.push(GuardedPort { port: port as u16, passed: sum(0), dropped: sum(1) });
        }
        ports.sort_unstable_by_key(|account| account.port);
        Ok(ports)
    }
}
