//! The kernel's announcements of a host's devices: MTU changes, removal, return.

use std::fmt;
use std::io;

use evenkeel_core::host::Host;
use evenkeel_link::{DeviceChange, DeviceChanges, Halt};

use super::watched::Watched;
use crate::notice::Notice;

/// The callback that receives device notices.
pub(crate) type Tell = Box<dyn FnMut(Notice) + Send>;

/// A subscription to the kernel's announcements of all devices.
pub(crate) struct Following {
    /// The index of its descriptor in the driver's [`Halt`].
    index: usize,
    /// Whether an announcement was there when the descriptor was last polled, and none has been read since.
    readable: bool,
    changes: DeviceChanges,
    tell: Tell,
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Following").field("changes", &self.changes).finish_non_exhaustive()
    }
}

impl Following {
    /// Subscribes to the announcements. `tell` receives the notices that result from them.
    pub(crate) fn open(halt: &mut Halt, tell: Tell) -> io::Result<Self> {
        let changes = DeviceChanges::open()?;
        Ok(Self { index: halt.watch(changes.fd()), readable: false, changes, tell })
    }

    /// Reports a notice to the callback.
    pub(crate) fn report(&mut self, notice: Notice) {
        (self.tell)(notice);
    }

    /// Records that a descriptor was readable when it was polled.
    pub(crate) fn set_readable(&mut self, index: usize) {
        self.readable |= self.index == index;
    }

    /// Reads one announcement, if the descriptor was readable, and reports the notices that result from it.
    /// If announcements were lost, checks every device. Returns whether the descriptor was readable.
    pub(crate) fn read(&mut self, devices: &mut [Watched], host: &mut Host) -> bool {
        if !std::mem::take(&mut self.readable) {
            return false;
        }
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
        true
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
