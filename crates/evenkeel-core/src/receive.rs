//! The receive architectures.
//!
//! An architecture is nothing but a choice: which level runs which unit of work, where queues stand between
//! them, and what happens when one is full. The choices are written down here, as data; the units themselves
//! are in `net` and know of no architecture.

use core::fmt;
use core::str::FromStr;

/// The receive architecture of a host: the code that processes received frames, and when it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Architecture {
    /// 4.2BSD: device work in the interrupt, protocol input in the software interrupt, through one shared IP
    /// queue.
    Eager,
    /// Mogul and Ramakrishnan: interrupts only start polling; the polling thread processes each frame to
    /// completion, with a quota, round robin, and feedback from full queues.
    Polled,
    /// Demultiplexing in the interrupt, early discard if the socket queue or the accept queue is full,
    /// protocol input still eager. Segments of connections always reach protocol input: their windows limit
    /// the sender. A control experiment.
    EarlyDemux,
    /// Lazy receiver processing with demultiplexing in software.
    SoftLrp,
    /// Lazy receiver processing with demultiplexing by the interface.
    NiLrp,
}

impl Architecture {
    /// All five, from the most eager to the laziest.
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

/// The name is none of the five.
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
    /// Nowhere: the interface puts frames into channels itself.
    None,
}

/// The next step for a frame after device work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterDevice {
    /// Into the shared IP queue.
    IpQueue,
    /// Demultiplexed; dropped if its socket's queue is full; else into the shared IP queue.
    DemultiplexThenIpQueue,
    /// Protocol input in the same call, to completion.
    Input,
    /// Demultiplexed into its channel, or dropped if that is full. Protocol input waits for the receiver.
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
    /// A driver that knows nothing of polling: 4.2BSD's, with the shared IP queue.
    pub const LEGACY: Self = Self { device: DeviceWork::Interrupt, after_device: AfterDevice::IpQueue };

    /// Returns the receive path of an architecture. Two architectures leave open where device work is done:
    /// `soft-lrp` (in the interrupt, as in its paper, or polled, as both papers suggest) and `polled` (all
    /// of it at interrupt level is the paper's alternative without a polling thread). For these,
    /// [`DeviceWork::None`], which is for `ni-lrp` only, counts as polled.
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

    /// Returns whether the interface demultiplexes, and the host does no device work for the frames it
    /// receives.
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
