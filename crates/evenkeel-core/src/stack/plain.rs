//! Plain input, the short way: a plain packet from a trusted source to an address of this host.
//!
//! A packet that it takes, the [long way](super::input) would take alike. A packet that it drops (a datagram
//! with a wrong checksum), the long way would drop, too. It gives all others back.

use super::address::kinds::{Cast, ends_v4, ends_v6};
use super::address::local::Local;
use super::address::source_check::{AddressPair, SourceCheckCache};
use super::config::Config;
use super::io::Io;
use super::multicast::groups::Groups;
use super::packet::{Payload, Piece};
use super::received::Received;
use super::route::routing::Routing;
use super::tcp::TcpPacket;
use super::transit::Transit;
use super::udp::{Datagram, TakesDatagrams};
use crate::drop::UdpDrop;
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::plain::Plain;
use crate::tcp::{Checksum, Ecn};
use crate::wire::{IpAddress, Ipv4Address};

const UDP: u8 = 17;

/// Plain input: the parts of a stack that a plain frame needs.
pub(super) struct PlainInput<'a> {
    pub(super) config: &'a Config,
    pub(super) routing: &'a Routing,
    pub(super) groups: &'a Groups,
    pub(super) source_checks: &'a SourceCheckCache,
    /// Whether every frame must take the long way.
    #[cfg(test)]
    pub(super) long_way_only: bool,
}

impl PlainInput<'_> {
    /// Takes a plain frame up. `None` inside if it was dropped.
    ///
    /// # Errors
    /// Gives back a frame that has to take the long way.
    #[inline(always)]
    pub(super) fn frame(
        &self,
        interface: InterfaceId,
        frame: Frame,
        plain: Plain,
        io: &mut Io<'_>,
    ) -> Result<Option<Received>, Frame> {
        if plain.is_v4() && self.config.forwarding {
            let bytes = frame.bytes();
            match bytes.get(30..).and_then(<[u8]>::first_chunk) {
                Some(&[a, b, c, d]) if !self.routing.interfaces().owns_v4(Ipv4Address::new(a, b, c, d)) => {
                    return self.transit_plain(interface, frame, plain).map(Some);
                }
                _ => {}
            }
        }
        if plain.is_udp() {
            let mut received = None;
            self.udp(interface, frame, plain, io, &mut received)?;
            return Ok(received.map(Received::Datagram));
        }
        let Some((source, destination, ecn)) = self.admit(interface, frame.bytes(), plain) else {
            return Err(frame);
        };
        let payload = Payload::One(Piece::new(frame, plain.transport(), plain.end()));
        Ok(Some(Received::Segment(TcpPacket { interface, source, destination, ecn, payload })))
    }

    /// Receives a plain frame that carries UDP, and gives its datagram to `to`. Returns whether there was
    /// one; a datagram with a wrong checksum is dropped.
    ///
    /// # Errors
    /// Gives back a frame that has to take the long way.
    #[inline(always)]
    pub(super) fn udp(
        &self,
        interface: InterfaceId,
        frame: Frame,
        plain: Plain,
        io: &mut Io<'_>,
        to: &mut impl TakesDatagrams,
    ) -> Result<bool, Frame> {
        let bytes = frame.bytes();
        // Written out for each family: it is what a datagram costs.
        let length = if plain.is_v4() {
            self.admit_v4_plain(interface, bytes).and_then(|(addresses, _)| length(bytes, plain, &addresses))
        } else {
            self.admit_v6_plain(interface, bytes).and_then(|(addresses, _)| length(bytes, plain, &addresses))
        };
        match length {
            None => return Err(frame),
            Some(Length::Wrong) => {
                io.drop_frame(frame, UdpDrop::Checksum);
                return Ok(false);
            }
            Some(Length::Of(len)) => {
                let start = plain.transport();
                let payload = Payload::One(Piece::new(frame, start + 8, start + len));
                to.put(Datagram::new(interface, Cast::Unicast, payload));
            }
        }
        Ok(true)
    }

    /// Returns source, destination and ECN field of a plain packet, if the long way would admit it.
    fn admit(
        &self,
        interface: InterfaceId,
        frame: &[u8],
        plain: Plain,
    ) -> Option<(IpAddress, IpAddress, Ecn)> {
        let ((source, destination), ecn) = if plain.is_v4() {
            let (addresses, ecn) = self.admit_v4_plain(interface, frame)?;
            (ends_v4(&addresses), ecn)
        } else {
            let (addresses, ecn) = self.admit_v6_plain(interface, frame)?;
            (ends_v6(&addresses), ecn)
        };
        Some((source, destination, ecn))
    }

    /// Receives a plain IPv4 packet that is to be forwarded.
    ///
    /// # Errors
    /// Gives back a frame that has to take the long way.
    fn transit_plain(&self, interface: InterfaceId, frame: Frame, plain: Plain) -> Result<Received, Frame> {
        let local = Local { interfaces: self.routing.interfaces(), groups: self.groups };
        let is_in_transit = self.is_to_our_hardware(interface, frame.bytes())
            && Transit::admits_plain(frame.bytes(), interface, self.config, local);
        if !is_in_transit {
            return Err(frame);
        }
        Ok(Received::Transit(Transit::new(interface, frame, plain.end() - 14)))
    }

    /// Returns whether a frame is for the hardware address of `interface`, on a host that does not only
    /// forward.
    #[inline(always)]
    fn is_for_us(&self, interface: InterfaceId, frame: &[u8]) -> bool {
        !self.config.forward_only && self.is_to_our_hardware(interface, frame)
    }

    /// Returns whether a frame is for the hardware address of `interface`. An adaptor that demultiplexes
    /// must have checked this.
    #[inline(always)]
    fn is_to_our_hardware(&self, interface: InterfaceId, frame: &[u8]) -> bool {
        #[cfg(test)]
        if self.long_way_only {
            return false;
        }
        let own = self.routing.interfaces().of(interface);
        own.is_some_and(|own| frame.starts_with(&own.hardware.0))
    }

    #[inline(always)]
    fn admit_v4_plain(&self, interface: InterfaceId, frame: &[u8]) -> Option<([u8; 8], Ecn)> {
        let header: &[u8; 20] = frame.get(14..)?.first_chunk()?;
        let &addresses = header.last_chunk()?;
        let pair = AddressPair { addresses, interface, generation: self.routing.generation() };
        let is_known = self.source_checks.is_last_v4(&pair);
        let [.., a, b, c, d] = addresses;
        if !is_known && !self.routing.interfaces().owns_v4(Ipv4Address::new(a, b, c, d)) {
            return None;
        }
        if !self.is_for_us(interface, frame) || Checksum::default().add_array(header).finish() != 0 {
            return None;
        }
        if !is_known {
            if !self.routing.interfaces().is_credible_source(&ends_v4(&addresses).0, interface) {
                return None;
            }
            self.source_checks.record_v4(pair);
        }
        Some((addresses, Ecn::from_bits(header[1])))
    }

    #[inline(always)]
    fn admit_v6_plain(&self, interface: InterfaceId, frame: &[u8]) -> Option<([u8; 32], Ecn)> {
        let header: &[u8; 40] = frame.get(14..)?.first_chunk()?;
        let &addresses = header.last_chunk()?;
        let pair = AddressPair { addresses, interface, generation: self.routing.generation() };
        let is_known = self.source_checks.is_last_v6(&pair);
        let is_ours = || self.routing.interfaces().owns_by(&ends_v6(&addresses).1, interface);
        if !is_known && !is_ours() {
            return None;
        }
        if !self.is_for_us(interface, frame) {
            return None;
        }
        if !is_known {
            if !self.routing.interfaces().is_credible_source(&ends_v6(&addresses).0, interface) {
                return None;
            }
            self.source_checks.record_v6(pair);
        }
        Some((addresses, Ecn::from_bits(header[1] >> 4)))
    }
}

/// The length of a datagram in a plain frame, or the finding that its checksum is wrong.
enum Length {
    /// Header and payload.
    Of(usize),
    /// The checksum is wrong.
    Wrong,
}

/// Returns the length of the datagram in a frame, or the finding that its checksum is wrong; `None` if the
/// datagram has to take the long way.
#[inline(always)]
fn length<const N: usize>(frame: &[u8], plain: Plain, addresses: &[u8; N]) -> Option<Length> {
    let udp = frame.get(plain.transport()..plain.end())?;
    let &[_, _, _, _, l0, l1, c0, c1] = udp.first_chunk()?;
    let len = usize::from(u16::from_be_bytes([l0, l1]));
    let is_summed = c0 | c1 != 0;
    // One without a sum is IPv4's alone.
    let covered = udp.get(..len).filter(|_| len >= 8 && (is_summed || plain.is_v4()))?;
    if is_summed {
        let pseudo = Checksum::default().add_array(addresses).add_array(&[0, UDP, l0, l1]);
        if pseudo.add(covered).finish() != 0 {
            return Some(Length::Wrong);
        }
    }
    Some(Length::Of(len))
}
