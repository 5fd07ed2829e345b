//! The operating system's devices under a host, and what becomes of them while it runs: MTU, removal, return.

use core::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use evenkeel_core::host::{AddInterfaceError, Host};
use evenkeel_core::stack::{AddressConflict, InterfaceId};
use evenkeel_core::wire::IpAddress;
use evenkeel_link::{
    Address, Device, DeviceChange, DeviceChanges, DeviceState, MTU_MAX, Notifier, Status, device_now,
};

/// Something that happened to a host from outside, for whoever runs it to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A device has another MTU, and from now on packets are made to fit.
    Mtu {
        /// The device.
        name: String,
        /// Its MTU.
        mtu: usize,
    },
    /// A device was removed.
    Removed {
        /// Its name.
        name: String,
    },
    /// A device of the same name as one that was removed is there.
    Returned {
        /// Whose place it could take.
        interface: InterfaceId,
        /// Its name.
        name: String,
        /// The kernel's number for it.
        index: u32,
    },
    /// A device has taken the place of the one that was removed, or could not.
    Replaced {
        /// Its name.
        name: String,
        /// Why it could not.
        error: Option<AddInterfaceError>,
    },
    /// Somebody else uses an address of ours.
    Conflict {
        /// Where.
        name: String,
        /// Which, and by whom.
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
    /// The first of its queues in the engine's [`Halt`](evenkeel_link::Halt); the others follow.
    pub(crate) first: usize,
    queues: usize,
    pub(crate) interface: InterfaceId,
    pub(crate) status: Status,
    name: String,
    /// The kernel's number for it; none if it is not a network device.
    number: Option<u32>,
    mtu: usize,
    rings_in_memory: bool,
}

impl Watched {
    pub(crate) fn new(first: usize, interface: InterfaceId, device: &dyn Device) -> Self {
        Self {
            first,
            queues: device.queues(),
            interface,
            status: device.status(),
            name: device.name().to_owned(),
            number: device.index(),
            mtu: device.mtu(),
            rings_in_memory: device.rings_in_memory(),
        }
    }

    /// The same, once its places are known.
    pub(crate) fn placed(self, first: usize, interface: InterfaceId) -> Self {
        Self { first, interface, ..self }
    }

    /// The interface and its queue behind a descriptor, if it is one of its queues.
    pub(crate) fn queue_of(&self, index: usize) -> Option<(InterfaceId, usize)> {
        let queue = index.checked_sub(self.first).filter(|&queue| queue < self.queues)?;
        Some((self.interface, queue))
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

    /// Its name, and why no frame comes from it any more, if that was not foreseen.
    pub(crate) fn failure(&self) -> Option<String> {
        Some(format!("{}: {}", self.name, self.status.reason()?))
    }

    /// Takes note of what the kernel says of some device; gives what is to be told of it.
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

    /// What would have been announced if nothing had been lost.
    fn changes_now(&self) -> Vec<DeviceChange> {
        let now = device_now(&self.name);
        let there = matches!(&now, Some(DeviceChange::Is { index, .. }) if Some(*index) == self.number);
        let gone = self.number.filter(|_| !there).map(|index| DeviceChange::Gone { index });
        gone.into_iter().chain(now).collect()
    }
}

/// Who is told.
pub(crate) type Tell = Box<dyn FnMut(Notice) + Send>;

/// What the kernel announces of all devices.
pub(crate) struct Following {
    pub(crate) index: usize,
    /// There was an announcement when the descriptor was last asked, and none has been read since.
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

    /// Reads one announcement.
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

    /// Looks at each device as it is now.
    pub(crate) fn look(&mut self, devices: &mut [Watched], host: &mut Host) {
        for device in devices {
            for change in device.changes_now() {
                device.follow(&change, host).into_iter().for_each(&mut self.tell);
            }
        }
    }
}

/// Gives an engine devices in place of those that were removed, from another thread; copies are the same.
/// Opening a device takes the kernel longer than a core that has packets to see to may be kept from it.
#[derive(Debug, Clone)]
pub struct Replacer {
    devices: Sender<(InterfaceId, Box<dyn Device>)>,
    wake: Arc<Notifier>,
}

impl Replacer {
    /// Has the engine put `device` in the place of an interface's, between two units of work.
    /// [`Notice::Replaced`] tells what came of it.
    pub fn replace(&self, interface: InterfaceId, device: Box<dyn Device>) {
        // An engine that is gone needs no device.
        let _ = self.devices.send((interface, device));
        self.wake.notify();
    }
}

/// Where an engine gets such devices.
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
