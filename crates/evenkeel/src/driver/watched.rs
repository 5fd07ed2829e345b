//! A device of the operating system that serves an interface of a host.

use std::mem;

use evenkeel_core::host::Host;
use evenkeel_core::stack::InterfaceId;
use evenkeel_link::{Device, DeviceChange, DeviceState, MTU_MAX, Status, device_now};

use crate::notice::Notice;

/// A device of an engine.
#[derive(Debug)]
pub(crate) struct Watched {
    /// The index of its first queue in the engine's [`Halt`](evenkeel_link::Halt); its other queues follow.
    first: usize,
    queues: usize,
    interface: InterfaceId,
    status: Status,
    name: String,
    /// The kernel's interface index of it, or zero once it is removed; `None` if it is not a network
    /// device.
    number: Option<u32>,
    mtu: usize,
    rings_in_memory: bool,
}

impl Watched {
    /// Describes `device`, which serves `interface`. `first` is the index of its first queue.
    pub(crate) fn new(device: &dyn Device, interface: InterfaceId, first: usize) -> Self {
        let (properties, info) = (device.properties(), device.info());
        Self {
            first,
            queues: properties.queues,
            interface,
            status: info.status,
            name: properties.name.clone(),
            number: info.index,
            mtu: properties.mtu,
            rings_in_memory: info.rings_in_memory,
        }
    }

    /// Returns this device with `first` as the index of its first queue, and with its interface.
    pub(crate) fn placed(self, interface: InterfaceId, first: usize) -> Self {
        Self { first, interface, ..self }
    }

    pub(crate) fn interface(&self) -> InterfaceId {
        self.interface
    }

    /// Returns the index of the first queue.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// Makes the queue behind the descriptor with this index readable. Returns false if the descriptor is
    /// not one of this device.
    pub(crate) fn set_readable(&self, index: usize, host: &mut Host) -> bool {
        let Some(queue) = index.checked_sub(self.first).filter(|&queue| queue < self.queues) else {
            return false;
        };
        if let Some(interface) = host.interface_mut(self.interface) {
            interface.set_readable(queue);
        }
        true
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
                if mem::replace(&mut self.mtu, *mtu) == *mtu {
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
    pub(crate) fn changes_now(&self) -> Vec<DeviceChange> {
        let now = device_now(&self.name);
        let there = matches!(&now, Some(DeviceChange::Is { index, .. }) if Some(*index) == self.number);
        let gone = self.number.filter(|_| !there).map(|index| DeviceChange::Gone { index });
        gone.into_iter().chain(now).collect()
    }
}
