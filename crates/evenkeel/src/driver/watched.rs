//! A device of the operating system that serves an interface of a host.

use std::mem;

use evenkeel_core::host::Host;
use evenkeel_core::stack::InterfaceId;
use evenkeel_link::{Device, DeviceChange, DeviceState, Halt, KernelWork, MTU_MAX, Status, device_now};

use crate::notice::Notice;

/// A device of an engine.
#[derive(Debug)]
pub(crate) struct Watched {
    /// The number of the device in the engine's [`Halt`](evenkeel_link::Halt).
    number_in_halt: usize,
    interface: InterfaceId,
    status: Status,
    name: String,
    /// The kernel's interface index of it, or zero once it is removed; `None` if it is not a network
    /// device.
    number: Option<u32>,
    mtu: usize,
    /// The largest MTU that its frames and the host's buffers allow.
    mtu_max: usize,
    rings_in_memory: bool,
}

impl Watched {
    /// Describes `device`, which serves `interface` and has a number in the engine's `Halt`.
    pub(crate) fn new(device: &dyn Device, interface: InterfaceId, number_in_halt: usize) -> Self {
        let (properties, info) = (device.properties(), device.info());
        Self {
            number_in_halt,
            interface,
            status: info.status,
            name: properties.name.clone(),
            number: info.index,
            mtu: properties.mtu,
            mtu_max: MTU_MAX.max(properties.mtu),
            rings_in_memory: info.rings_in_memory,
        }
    }

    /// Returns this device with its interface, and with its number in the engine's `Halt`.
    pub(crate) fn placed(self, interface: InterfaceId, number_in_halt: usize) -> Self {
        Self { number_in_halt, interface, ..self }
    }

    pub(crate) fn interface(&self) -> InterfaceId {
        self.interface
    }

    /// Returns the number of the device in the engine's `Halt`.
    pub(crate) fn number_in_halt(&self) -> usize {
        self.number_in_halt
    }

    /// Makes the rings readable whose descriptors ended the last sleep.
    pub(crate) fn set_readable(&self, halt: &Halt, host: &mut Host) {
        let Some(interface) = host.interface_mut(self.interface) else { return };
        halt.readable_of(self.number_in_halt).for_each(|number| interface.set_readable(number));
    }

    pub(crate) fn rings_in_memory(&self) -> bool {
        self.rings_in_memory
    }

    pub(crate) fn is_running(&self) -> bool {
        self.status.state() == DeviceState::Running
    }

    /// Takes the next report about work of the kernel's stack on frames of the host.
    pub(crate) fn next_kernel_work(&self) -> Option<KernelWork> {
        self.status.next_kernel_work()
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
                host.set_mtu(self.interface, (*mtu).min(self.mtu_max));
                Some(Notice::Mtu { name: self.name.clone(), mtu: *mtu, max: self.mtu_max })
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
