//! The end of a link that a host under test has.

use std::io;

use evenkeel::Engine;
use evenkeel::raw::cable::End;
use evenkeel::raw::device::Device;
use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::wire::IpCidr;

/// An end of a cable, or a device of the kernel.
pub(super) enum Link {
    Cable(Box<End>),
    Device(Box<dyn Device>),
}

impl Link {
    /// Gives the link to the host of `engine`, with an address.
    pub(super) fn add_to(self, engine: &mut Engine, address: IpCidr) -> io::Result<InterfaceId> {
        let added = match self {
            Self::Cable(end) => engine.add_cable(*end, &[address]),
            Self::Device(device) => engine.add_device(device, &[address]),
        };
        added.map_err(io::Error::other)
    }
}
