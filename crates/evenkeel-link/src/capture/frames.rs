//! The kinds of frames that a filter judges.

use std::net::Ipv4Addr;

use evenkeel_core::frame::LinkType;

use crate::error::LinkError;
use crate::netdev::NetDevice;

/// Frames that a filter is to judge, by their link type and their origin: the same expression means other
/// bytes on other links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frames {
    pub(super) link_type: LinkType,
    pub(super) origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// This program, or a device that is not the kernel's.
    Memory,
    /// A network device.
    Device {
        name: String,
        /// The kernel's number for it.
        number: u32,
    },
    /// A capture file, written by a machine of this byte order.
    File { big_endian: bool },
}

impl Default for Frames {
    fn default() -> Self {
        Self::ETHERNET
    }
}

impl Frames {
    /// Frames of Ethernet in memory.
    pub const ETHERNET: Self = Self { link_type: LinkType::ETHERNET, origin: Origin::Memory };

    /// Returns those of the network device called `name`.
    ///
    /// # Errors
    /// [`LinkError`] if there is none, or its frames are of a kind that a monitor cannot have.
    pub fn on_device(name: &str) -> Result<Self, LinkError> {
        let device = NetDevice::open(name)?;
        let (framing, _) = device.framing()?;
        Ok(Self::of_device(name, device.index()?.unsigned_abs(), framing.link_type()))
    }

    pub(crate) fn of_device(name: &str, number: u32, link_type: LinkType) -> Self {
        Self { link_type, origin: Origin::Device { name: name.to_owned(), number } }
    }

    pub(crate) const fn of_file(link_type: LinkType, big_endian: bool) -> Self {
        Self { link_type, origin: Origin::File { big_endian } }
    }

    /// Returns the link type of the frames, which says which header they begin with.
    #[must_use]
    pub const fn link_type(&self) -> LinkType {
        self.link_type
    }

    /// Returns frames of the same origin that begin with something else.
    pub(super) fn with(&self, link_type: LinkType) -> Self {
        Self { link_type, ..self.clone() }
    }

    /// Returns the mask of the network that the frames pass on, by which `ip broadcast` knows a broadcast. As
    /// with tcpdump, without an address only 0.0.0.0 and 255.255.255.255 are broadcasts.
    pub(super) fn netmask(&self) -> Ipv4Addr {
        let Origin::Device { name, .. } = &self.origin else { return Ipv4Addr::UNSPECIFIED };
        let netmask = NetDevice::open(name).and_then(|device| device.netmask());
        netmask.unwrap_or(Ipv4Addr::UNSPECIFIED)
    }
}
