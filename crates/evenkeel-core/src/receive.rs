//! The receive architectures.
//!
//! An architecture is a set of choices: the level that runs each work item, the queues between work items,
//! and what happens when a queue is full. This module describes these choices as data. The work items are in
//! `net` and do not depend on the architecture.

use core::fmt;
use core::str::FromStr;

/// The receive architecture of a host: the code that processes received frames, and when it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Architecture {
    /// 4.2BSD: device work runs in the interrupt, and protocol input in the software interrupt. One shared IP
    /// queue connects them.
    Eager,
    /// Mogul and Ramakrishnan: interrupts only start polling. The polling thread processes each frame to
    /// completion, with a quota, round robin, and with feedback from full queues.
    Polled,
    /// A control experiment: the interrupt demultiplexes, and discards a frame early if the socket queue or
    /// the accept queue is full. Protocol input is still eager. Segments of connections always reach protocol
    /// input, because their windows limit the sender.
    EarlyDemux,
    /// Lazy receiver processing with demultiplexing in software.
    SoftLrp,
    /// Lazy receiver processing with demultiplexing by the interface.
    NiLrp,
}

impl Architecture {
    /// All five architectures, from the most eager to the laziest.
    pub const ALL: [Self; 5] = [Self::Eager, Self::EarlyDemux, Self::Polled, Self::SoftLrp, Self::NiLrp];

    /// Returns the name used on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Polled => "polled",
            Self::EarlyDemux => "early-demux",
            Self::SoftLrp => "soft-lrp",
            Self::NiLrp => "ni-lrp",
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An architecture name that is none of the five.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownArchitecture(String);

impl fmt::Display for UnknownArchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Architecture::ALL.map(Architecture::name).join(", ");
        write!(f, "unknown receive architecture `{}`: expected one of {names}", self.0)
    }
}

impl core::error::Error for UnknownArchitecture {}

impl FromStr for Architecture {
    type Err = UnknownArchitecture;
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|a| a.name() == name).ok_or_else(|| UnknownArchitecture(name.to_owned()))
    }
}

/// The place where the host takes frames from interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceWork {
    /// In the device interrupt.
    Interrupt,
    /// In the polling thread.
    Polled,
    /// Nowhere on the host: the interface puts frames into channels itself.
    None,
}

/// The next step for a frame after device work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterDevice {
    /// The frame enters the shared IP queue.
    IpQueue,
    /// The frame is demultiplexed. It is dropped if its socket's queue is full, and else enters the shared IP
    /// queue.
    DemultiplexThenIpQueue,
    /// Protocol input processes the frame in the same call, to completion.
    Input,
    /// The frame is demultiplexed into its channel, or dropped if that is full. Protocol input waits for the
    /// receiver.
    Channel,
}

/// The choices that make up an architecture, for the frames of one interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivePath {
    /// The place where device work is done.
    pub(crate) device: DeviceWork,
    /// The step that follows device work.
    pub(crate) after_device: AfterDevice,
}

impl ReceivePath {
    /// The receive path of a driver that cannot poll: that of 4.2BSD, with the shared IP queue.
    pub const LEGACY: Self = Self { device: DeviceWork::Interrupt, after_device: AfterDevice::IpQueue };

    /// Returns the receive path of an architecture. `device_work` applies only to `soft-lrp` and `polled`.
    ///
    /// The paper of `soft-lrp` does device work in the interrupt; both papers suggest polling. Device work of
    /// `polled` at interrupt level is its paper's alternative without a polling thread. [`DeviceWork::None`]
    /// is for `ni-lrp` only, and counts as polled here.
    #[must_use]
    pub const fn of(architecture: Architecture, device_work: DeviceWork) -> Self {
        let device_work = match device_work {
            DeviceWork::Interrupt => DeviceWork::Interrupt,
            DeviceWork::Polled | DeviceWork::None => DeviceWork::Polled,
        };
        let (device, after_device) = match architecture {
            Architecture::Eager => return Self::LEGACY,
            Architecture::Polled => (device_work, AfterDevice::Input),
            Architecture::EarlyDemux => (DeviceWork::Interrupt, AfterDevice::DemultiplexThenIpQueue),
            Architecture::SoftLrp => (device_work, AfterDevice::Channel),
            Architecture::NiLrp => (DeviceWork::None, AfterDevice::Channel),
        };
        Self { device, after_device }
    }

    /// Returns whether the interface demultiplexes. The host then does no device work for received frames.
    #[must_use]
    pub const fn is_on_interface(self) -> bool {
        matches!(self.device, DeviceWork::None)
    }

    /// Returns whether protocol input waits for the receiver.
    #[must_use]
    pub const fn is_lazy(self) -> bool {
        matches!(self.after_device, AfterDevice::Channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for architecture in Architecture::ALL {
            assert_eq!(architecture.name().parse(), Ok(architecture));
        }
        let error = "bsd".parse::<Architecture>().unwrap_err().to_string();
        assert!(error.contains("eager, early-demux, polled, soft-lrp, ni-lrp"), "{error}");
    }
}
