//! A packet on its way through.

use super::address::interfaces::Interfaces;
use super::address::kinds::{Cast, ends_v4, is_link_local, is_reserved};
use super::address::local::Local;
use super::config::Config;
use super::header::ETHERNET;
use crate::drop::IpDrop;
use crate::frame::{Frame, Pool};
use crate::id::InterfaceId;
use crate::tcp::Checksum;
use crate::wire::IpAddress;

/// A packet for another host: checked, not yet forwarded.
///
/// Its frame is part of the counters: the packet is forwarded, refused, or counted as dropped and recycled.
#[derive(Debug)]
pub struct Transit {
    pub(super) interface: InterfaceId,
    pub(super) frame: Frame,
}

impl Transit {
    /// Checks by its addresses whether a packet that is not for this host may be forwarded.
    ///
    /// The check refuses packets that came by link-layer broadcast or multicast (RFC 1812 5.3.4). It also
    /// refuses multicasts (there is no multicast routing) and broadcasts, directed ones included (RFC
    /// 2644), addresses that no host can have (RFC 1812 5.3.7), and those that are valid on one link only
    /// (RFC 3927 7, RFC 4291 2.5.6).
    ///
    /// # Errors
    /// Returns the reason to drop the packet.
    pub(super) fn admit(
        (source, destination): (&IpAddress, &IpAddress),
        link: Cast,
        config: &Config,
        interfaces: &Interfaces,
    ) -> Result<(), IpDrop> {
        if !config.forwarding || link != Cast::Unicast {
            return Err(IpDrop::NotLocal);
        }
        if destination.is_multicast() || interfaces.is_broadcast(destination) {
            Err(IpDrop::NotLocal)
        } else if is_reserved(source) || is_reserved(destination) {
            Err(IpDrop::Martian)
        } else if is_link_local(source) || is_link_local(destination) {
            Err(IpDrop::Scope)
        } else {
            Ok(())
        }
    }

    /// Returns whether a plain IPv4 packet in `frame` is not for this host and may be forwarded.
    pub(super) fn admits_plain(
        frame: &[u8],
        interface: InterfaceId,
        config: &Config,
        local: Local<'_>,
    ) -> bool {
        let Some(header) = frame.get(ETHERNET..).and_then(<[u8]>::first_chunk::<20>) else { return false };
        let (source, destination) = header.last_chunk().map_or_else(|| ends_v4(&[0; 8]), ends_v4);
        Checksum::default().add_array(header).finish() == 0
            && local.interfaces.is_credible_source(&source, interface)
            && local.cast(&destination, interface).is_none()
            && Self::admit((&source, &destination), Cast::Unicast, config, local.interfaces).is_ok()
    }

    /// Creates a packet of `len` bytes behind the Ethernet header of `frame`. Padding behind the packet is
    /// cut off.
    pub(super) fn new(interface: InterfaceId, mut frame: Frame, len: usize) -> Self {
        // The header's length has been checked against the frame's.
        let _ = frame.resize(ETHERNET + len);
        Self { interface, frame }
    }

    /// Returns the interface that the packet came in by.
    #[must_use]
    pub const fn interface(&self) -> InterfaceId {
        self.interface
    }

    /// Returns the packet, from the IP header to its end.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        self.frame.bytes().get(ETHERNET..).unwrap_or_default()
    }

    pub(super) fn packet_mut(&mut self) -> &mut [u8] {
        self.frame.bytes_mut().get_mut(ETHERNET..).unwrap_or_default()
    }

    /// Returns the whole frame, from the Ethernet header on; without padding.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        self.frame.bytes()
    }

    /// Gives its frame back, faster than by dropping it. It must have been counted.
    pub fn recycle(self, pool: &mut Pool) {
        pool.recycle(self.frame);
    }
}
