//! Devices that replace removed ones, handed to a running engine by another thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use evenkeel_core::stack::InterfaceId;
use evenkeel_link::{Device, Notifier};

/// A handle that gives an engine devices in place of removed ones. It is cloneable, and meant for another
/// thread: opening a device may take the kernel longer than a core with pending packets may be blocked.
#[derive(Debug, Clone)]
pub struct Replacer {
    devices: Sender<(InterfaceId, Box<dyn Device>)>,
    wake: Arc<Notifier>,
}

impl Replacer {
    /// Has the engine replace the device of an interface with `device`, between two units of work.
    /// [`Notice::Replaced`](crate::Notice::Replaced) reports the result.
    pub fn replace(&self, interface: InterfaceId, device: Box<dyn Device>) {
        // An engine that is gone needs no device.
        let _ = self.devices.send((interface, device));
        self.wake.notify();
    }
}

/// The channel through which an engine receives devices that replace removed ones.
#[derive(Debug)]
pub(crate) struct Replacements {
    devices: Receiver<(InterfaceId, Box<dyn Device>)>,
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

    /// Returns the next device, with the interface that it is for.
    pub(crate) fn next(&self) -> Option<(InterfaceId, Box<dyn Device>)> {
        self.devices.try_recv().ok()
    }
}
