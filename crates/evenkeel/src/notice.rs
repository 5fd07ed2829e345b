//! Notices of external events that concern a running host.

use std::fmt;

use evenkeel_core::host::AddInterfaceError;
use evenkeel_core::stack::{AddressConflict, InterfaceId};
use evenkeel_core::wire::IpAddress;
use evenkeel_link::{Address, KernelWork, MTU_MAX};

/// An external event that concerns a host, for the program that runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The MTU of a device has changed. From now on packets are limited to the new MTU.
    Mtu {
        /// The device.
        name: String,
        /// The new MTU, in bytes.
        mtu: usize,
        /// The largest MTU whose packets the host receives.
        max: usize,
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
    /// The kernel's stack also works on frames of the host, which has the hardware address of the device.
    KernelWork {
        /// The name of the device.
        name: String,
        /// The frames that it works on.
        work: KernelWork,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mtu { name, mtu, max } if mtu > max => write!(
                f,
                "{name}: the MTU is {mtu} now, and frames of more than {max} bytes of IP are lost: ip link \
                 set {name} mtu {}",
                if *max > MTU_MAX { *max } else { 1500 }
            ),
            Self::Mtu { name, mtu, .. } => write!(f, "{name}: the MTU is {mtu} now"),
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
            Self::KernelWork { name, work: KernelWork::OnAll { why } } => write!(
                f,
                "{name}: the kernel's stack works on each frame of ours, too: a flood leaves us little of \
                 the core, and the kernel may answer. Use another hardware address than the device's, or run \
                 as root. ({why})"
            ),
            Self::KernelWork { name, work: KernelWork::On(address) } => write!(
                f,
                "{name}: the kernel has our address {address}, too, and answers what is for us; remove it \
                 there, or share it: xdp:{name},share"
            ),
        }
    }
}
