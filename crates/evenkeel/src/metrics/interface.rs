//! The figures of an interface.

use evenkeel_core::host::Host;
use evenkeel_core::stack::InterfaceId;
use evenkeel_link::KernelCounts;

use crate::observer::DeviceCounters;

/// The figures of an interface of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interface {
    /// The number of the interface in its host.
    pub number: u8,
    /// The name of the interface.
    pub name: String,
    /// Frames that the host took from the receive rings.
    pub received: u64,
    /// Frames that found the receive rings full, those of channels included, or no buffer.
    pub missed: u64,
    /// Frames that the interface dropped for another reason, before the host had them.
    #[cfg_attr(feature = "json", serde(default))]
    pub discarded: u64,
    /// Frames in the receive rings now, as far as they show without being taken.
    #[cfg_attr(feature = "json", serde(default))]
    pub in_rings: u64,
    /// Packets that the interface forwarded by itself, which the host did not see: in XDP.
    #[cfg_attr(feature = "json", serde(default))]
    pub offloaded: u64,
    /// Packets that the interface dropped by itself, as the screening process drops their flows: in XDP.
    #[cfg_attr(feature = "json", serde(default))]
    pub offload_refused: u64,
    /// Frames that the host handed to the interface.
    pub transmitted: u64,
    /// Frames that found the output queue full.
    pub output_full: u64,
    /// Frames in the output queue now.
    pub queued: u64,
    /// The operating system's counters of the device; `None` for a cable.
    pub device: Option<Device>,
}

/// The operating system's counters of a device, including those of the devices that it has replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Device {
    /// Frames handed to the operating system.
    pub sent: u64,
    /// The number of system calls that sent these frames.
    pub send_calls: u64,
    /// Frames that the operating system refused.
    pub refused: u64,
    /// The frames lost in the kernel since the device was opened; `None` if it is no network device.
    pub kernel: Option<KernelDrops>,
    /// Frames for the host that the kernel's stack did not get, though the host has the device's own hardware
    /// address; `None` if nothing keeps the kernel off them.
    #[cfg_attr(feature = "json", serde(default))]
    pub kept_from_kernel: Option<u64>,
}

/// Frames that a network device lost, before they reached us or after they left us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelDrops {
    /// Errors on reception.
    pub rx_errors: u64,
    /// Received frames that were not passed on.
    pub rx_dropped: u64,
    /// Overruns of the device's own queue.
    pub rx_fifo_errors: u64,
    /// Errors in transmission.
    pub tx_errors: u64,
    /// Frames that were to be transmitted and were dropped. For a TAP the kernel transmits to us.
    pub tx_dropped: u64,
}

/// Returns the figures of all interfaces of a host, without those of their devices.
pub(super) fn interfaces(host: &Host) -> impl Iterator<Item = Interface> {
    host.interfaces().zip(0..).map(|(interface, number)| {
        let id = InterfaceId(number);
        let (traffic, untaken) = (host.traffic(id).unwrap_or_default(), host.untaken(id));
        let missed = untaken.missed();
        Interface {
            number,
            name: interface.properties().name.clone(),
            received: traffic.received,
            missed,
            discarded: untaken.dropped.values().sum::<u64>() - missed,
            in_rings: untaken.in_rings,
            offloaded: untaken.forwarded,
            offload_refused: untaken.refused,
            transmitted: traffic.transmitted,
            output_full: traffic.dropped,
            queued: traffic.queued,
            device: None,
        }
    })
}

impl Interface {
    /// Adds the counters of the interface's device.
    pub(super) fn complete(&mut self, counters: &DeviceCounters) {
        let &DeviceCounters { sent, send_calls, refused, kernel, kept_from_kernel, .. } = counters;
        self.missed += counters.missed_before;
        let kernel = kernel.map(KernelDrops::from);
        self.device = Some(Device { sent, send_calls, refused, kernel, kept_from_kernel });
    }

    pub(super) fn all_since(now: &[Self], earlier: &[Self]) -> Vec<Self> {
        let nothing = Self::default();
        let since = |now: &Self| {
            let old = earlier.iter().find(|old| old.number == now.number).unwrap_or(&nothing);
            now.since(old)
        };
        now.iter().map(since).collect()
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            number: self.number,
            name: self.name.clone(),
            received: self.received.saturating_sub(earlier.received),
            missed: self.missed.saturating_sub(earlier.missed),
            discarded: self.discarded.saturating_sub(earlier.discarded),
            in_rings: self.in_rings,
            offloaded: self.offloaded.saturating_sub(earlier.offloaded),
            offload_refused: self.offload_refused.saturating_sub(earlier.offload_refused),
            transmitted: self.transmitted.saturating_sub(earlier.transmitted),
            output_full: self.output_full.saturating_sub(earlier.output_full),
            queued: self.queued,
            device: self.device.map(|device| device.since(&earlier.device.unwrap_or_default())),
        }
    }
}

impl Device {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(earlier.sent),
            send_calls: self.send_calls.saturating_sub(earlier.send_calls),
            refused: self.refused.saturating_sub(earlier.refused),
            kernel: self.kernel.map(|kernel| kernel.since(&earlier.kernel.unwrap_or_default())),
            kept_from_kernel: self
                .kept_from_kernel
                .map(|kept| kept.saturating_sub(earlier.kept_from_kernel.unwrap_or(0))),
        }
    }
}

impl From<KernelCounts> for KernelDrops {
    fn from(counts: KernelCounts) -> Self {
        let KernelCounts { rx_errors, rx_dropped, rx_fifo_errors, tx_errors, tx_dropped } = counts;
        Self { rx_errors, rx_dropped, rx_fifo_errors, tx_errors, tx_dropped }
    }
}

impl KernelDrops {
    /// Returns the non-zero losses, each with the kernel's name of its reason.
    pub fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [
            ("rx_errors", self.rx_errors),
            ("rx_dropped", self.rx_dropped),
            ("rx_fifo_errors", self.rx_fifo_errors),
            ("tx_errors", self.tx_errors),
            ("tx_dropped", self.tx_dropped),
        ];
        all.into_iter().filter(|&(_, frames)| frames > 0)
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            rx_errors: self.rx_errors.saturating_sub(earlier.rx_errors),
            rx_dropped: self.rx_dropped.saturating_sub(earlier.rx_dropped),
            rx_fifo_errors: self.rx_fifo_errors.saturating_sub(earlier.rx_fifo_errors),
            tx_errors: self.tx_errors.saturating_sub(earlier.tx_errors),
            tx_dropped: self.tx_dropped.saturating_sub(earlier.tx_dropped),
        }
    }
}
