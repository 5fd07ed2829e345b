//! The operating system's devices of a host, and their events while the host runs: MTU changes, removal,
//! return.

use core::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use evenkeel_core::host::{AddInterfaceError, Host};
use evenkeel_core::stack::{AddressConflict, InterfaceId};
use evenkeel_core::wire::IpAddress;
use evenkeel_link::{
    Address, Device, DeviceChange, DeviceChanges, DeviceState, MTU_MAX, Notifier, Status, device_now,
};

/// An external event that concerns a host, for the program that runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The MTU of a device has changed. From now on packets are limited to the new MTU.
    Mtu {
        /// The device.
        name: String,
        /// The new MTU, in bytes.
        mtu: usize,
    },
    /// A device was removed.
    Removed {
        /// The name of the device.
        name: String,
    },
    /// A device has appeared under the name of a device that was removed.
    Returned {
        /// The interface whose device it can replace.
        interface: InterfaceId,
        /// The name of the device.
        name: String,
        /// The kernel's number for it.
        index: u32,
    },
    /// A new device has replaced a removed one, or could not replace it.
    Replaced {
        /// The name of the device.
        name: String,
        /// The reason why it could not; `None` if it did.
        error: Option<AddInterfaceError>,
    },
    /// Another host uses an address of this host.
    Conflict {
        /// The name of the device on which the conflict was seen.
        name: String,
        /// The address, and the hardware address of the other host.
        conflict: AddressConflict,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mtu { name, mtu } if *mtu > MTU_MAX => write!(
                f,
                "{name}: the MTU is {mtu} now, and frames of more than {MTU_MAX} bytes of IP are lost: ip \
                 link set {name} mtu 1500"
            ),
            Self::Mtu { name, mtu } => write!(f, "{name}: the MTU is {mtu} now"),
            Self::Removed { name } => write!(f, "{name}: the device was removed"),
            Self::Returned { name, .. } => write!(f, "{name}: a device of this name is there"),
            Self::Replaced { name, error: None } => write!(f, "{name}: the device is in use again"),
            Self::Replaced { name, error: Some(error) } => {
                write!(f, "{name}: the device cannot be used: {error}")
            }
            Self::Conflict { name, conflict } => {
                let who = Address::Fixed(conflict.hardware);
                let protocol = if matches!(conflict.address, IpAddress::Ipv4(_)) { "ARP" } else { "NDP" };
                let address = conflict.address;
                write!(
                    f,
                    "{name}: {who} also says by {protocol} that it has our address {address}; only one may"
                )
            }
        }
    }
}

/// A device of an engine.
#[derive(Debug)]
pub(crate) struct Watched {
    /// The number of the device in the engine's [`Halt`](evenkeel_link::Halt).
    pub(crate) number_in_halt: usize,
    pub(crate) interface: InterfaceId,
    pub(crate) status: Status,
    name: String,
    /// The kernel's interface index of it, or zero once it is removed; `None` if it is not a network
    /// device.
    number: Option<u32>,
    mtu: usize,
    rings_in_memory: bool,
}

impl Watched {
    pub(crate) fn new(number_in_halt: usize, interface: InterfaceId, device: &dyn Device) -> Self {
        let (properties, info) = (device.properties(), device.info());
        Self {
            number_in_halt,
            interface,
            status: info.status,
            name: properties.name.clone(),
            number: info.index,
            mtu: properties.mtu,
            rings_in_memory: info.rings_in_memory,
        }
    }

    /// Returns the device with its number in the engine's `Halt`, and with its interface.
    pub(crate) fn placed(self, number_in_halt: usize, interface: InterfaceId) -> Self {
        Self { number_in_halt, interface, ..self }
    }

    pub(crate) fn rings_in_memory(&self) -> bool {
        self.rings_in_memory
    }

    pub(crate) fn is_running(&self) -> bool {
        self.status.state() == DeviceState::Running
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the device and the reason why no more frames come from it, if that was not
    /// foreseen.
    pub(crate) fn failure(&self) -> Option<String> {
        Some(format!("{}: {}", self.name, self.status.reason()?))
    }

    /// Applies a kernel announcement of any device to this one. Returns the notice that results, if any.
    pub(crate) fn follow(&mut self, change: &DeviceChange, host: &mut Host) -> Option<Notice> {
        let number = self.number?;
        match change {
            DeviceChange::Is { index, mtu, .. } if *index == number => {
                if core::mem::replace(&mut self.mtu, *mtu) == *mtu {
                    return None;
                }
                host.set_mtu(self.interface, (*mtu).min(MTU_MAX));
                Some(Notice::Mtu { name: self.name.clone(), mtu: *mtu })
            }
            DeviceChange::Is { index, name, up: true, .. } if *name == self.name && !self.is_running() => {
                Some(Notice::Returned { interface: self.interface, name: name.clone(), index: *index })
            }
            DeviceChange::Gone { index } if *index == number => {
                // No other device has had this number before.
                self.number = Some(0);
                self.status.fail("the device was removed".to_owned());
                Some(Notice::Removed { name: self.name.clone() })
            }
            DeviceChange::Is { .. } | DeviceChange::Gone { .. } | DeviceChange::Lost => None,
        }
    }

    /// Returns the announcements that describe the present state of the device, in place of any that were
    /// lost.
    fn changes_now(&self) -> Vec<DeviceChange> {
        let now = device_now(&self.name);
        let there = matches!(&now, Some(DeviceChange::Is { index, .. }) if Some(*index) == self.number);
        let gone = self.number.filter(|_| !there).map(|index| DeviceChange::Gone { index });
        gone.into_iter().chain(now).collect()
    }
}

/// The callback that receives device notices.
pub(crate) type Tell = Box<dyn FnMut(Notice) + Send>;

/// A subscription to the kernel's announcements of all devices.
pub(crate) struct Following {
    pub(crate) index: usize,
    /// Whether an announcement was there when the descriptor was last polled, and none has been read since.
    pub(crate) readable: bool,
    changes: DeviceChanges,
    pub(crate) tell: Tell,
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Following").field("changes", &self.changes).finish_non_exhaustive()
    }
}

impl Following {
    pub(crate) fn new(index: usize, changes: DeviceChanges, tell: Tell) -> Self {
        Self { index, readable: false, changes, tell }
    }

    /// Reads one announcement and reports the notices that result from it. If announcements were lost,
    /// checks every device.
    pub(crate) fn read(&mut self, devices: &mut [Watched], host: &mut Host) {
        let mut heard = Vec::new();
        // A socket that fails otherwise than by losing announcements does not get better.
        let _ = self.changes.read(|change| heard.push(change));
        for change in heard {
            if change == DeviceChange::Lost {
                self.look(devices, host);
                continue;
            }
            for device in &mut *devices {
                device.follow(&change, host).into_iter().for_each(&mut self.tell);
            }
        }
    }

    /// Checks the present state of each device and reports the notices that result from it.
    pub(crate) fn look(&mut self, devices: &mut [Watched], host: &mut Host) {
        for device in devices {
            for change in device.changes_now() {
                device.follow(&change, host).into_iter().for_each(&mut self.tell);
            }
        }
    }
}

/// A handle that gives an engine devices in place of removed ones. It is cloneable, and meant for another
/// thread: opening a device may take the kernel longer than a core with pending packets may be blocked.
#[derive(Debug, Clone)]
pub struct Replacer {
    devices: Sender<(InterfaceId, Box<dyn Device>)>,
    wake: Arc<Notifier>,
}

impl Replacer {
    /// Has the engine replace the device of an interface with `device`, between two units of work.
    /// [`Notice::Replaced`] reports the result.
    pub fn replace(&self, interface: InterfaceId, device: Box<dyn Device>) {
        // An engine that is gone needs no device.
        let _ = self.devices.send((interface, device));
        self.wake.notify();
    }
}

/// The channel through which an engine receives devices that replace removed ones.
#[derive(Debug)]
pub(crate) struct Replacements {
    pub(crate) devices: Receiver<(InterfaceId, Box<dyn Device>)>,
    replacer: Replacer,
}

impl Replacements {
    pub(crate) fn new(wake: Arc<Notifier>) -> Self {
        let (send, devices) = channel();
        Self { devices, replacer: Replacer { devices: send, wake } }
    }

    pub(crate) fn replacer(&self) -> Replacer {
        self.replacer.clone()
    }
}
