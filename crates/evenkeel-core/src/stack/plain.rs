//! The short way up: a plain packet from somebody believable to an address of ours.
//!
//! What it takes, the [long way](super::Stack::input) would take just so. All else it gives back.

use super::address::Cast;
use super::believed::Between;
use super::io::Io;
use super::packet::{Payload, Piece};
use super::received::Received;
use super::state::Stack;
use super::tcp::TcpPacket;
use super::udp::Datagram;
use crate::drop::UdpDrop;
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::plain::Plain;
use crate::tcp::{Checksum, Ecn};
use crate::wire::{IpAddress, IpEndpoint, Ipv4Address, Ipv6Address};

const UDP: u8 = 17;

/// What protocol input knows of a plain packet once it is let in.
struct Admitted {
    source: IpAddress,
    destination: IpAddress,
    ecn: Ecn,
    /// Of its addresses.
    sum: Checksum,
}

impl Stack {
    /// Takes a plain frame up. `None` inside if it was dropped.
    ///
    /// # Errors
    /// Gives back a frame that has to take the long way.
    #[inline]
    pub(crate) fn input_plain(
        &self,
        interface: InterfaceId,
        frame: Frame,
        plain: Plain,
        io: &mut Io<'_>,
    ) -> Result<Option<Received>, Frame> {
        if plain.is_udp() {
            let mut received = None;
            self.input_plain_udp(interface, frame, plain, io, |datagram| {
                received = Some(Received::Datagram(datagram));
            })?;
            return Ok(received);
        }
        let Some(Admitted { source, destination, ecn, .. }) = self.admit(interface, frame.bytes(), plain)
        else {
            return Err(frame);
        };
        let payload = Payload::One(Piece::new(frame, plain.transport(), plain.end()));
        Ok(Some(Received::Segment(TcpPacket { interface, source, destination, ecn, payload })))
    }

    /// The same for one that carries UDP: the datagram is given to `to`. Says whether there was one.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub(crate) fn input_plain_udp(
        &self,
        interface: InterfaceId,
        frame: Frame,
        plain: Plain,
        io: &mut Io<'_>,
        to: impl FnOnce(Datagram),
    ) -> Result<bool, Frame> {
        let bytes = frame.bytes();
        let Some(Admitted { source, destination, sum, .. }) = self.admit(interface, bytes, plain) else {
            return Err(frame);
        };
        let start = plain.transport();
        let Some(udp) = bytes.get(start..plain.end()) else { return Err(frame) };
        let Some(&[s0, s1, d0, d1, l0, l1, c0, c1]) = udp.first_chunk() else { return Err(frame) };
        let len = usize::from(u16::from_be_bytes([l0, l1]));
        let is_summed = c0 | c1 != 0;
        // One without a sum is IPv4's alone.
        let Some(covered) = udp.get(..len).filter(|_| len >= 8 && (is_summed || plain.is_v4())) else {
            return Err(frame);
        };
        if is_summed && sum.add_array(&[0, UDP, l0, l1]).add(covered).finish() != 0 {
            io.drop_frame(frame, UdpDrop::Checksum);
            return Ok(false);
        }
        to(Datagram {
            interface,
            source: IpEndpoint::new(source, u16::from_be_bytes([s0, s1])),
            destination: IpEndpoint::new(destination, u16::from_be_bytes([d0, d1])),
            payload: Payload::One(Piece::new(frame, start + 8, start + len)),
        });
        Ok(true)
    }

    /// Between whom a plain packet is, if the long way would let it in.
    #[inline(always)]
    fn admit(&self, interface: InterfaceId, frame: &[u8], plain: Plain) -> Option<Admitted> {
        let own = self.interfaces.get(usize::from(interface.0))?;
        let (head, packet) = frame.split_first_chunk::<14>()?;
        if head[..6] != own.hardware.0 || self.config.forward_only {
            return None;
        }
        if plain.is_v4() {
            let header: &[u8; 20] = packet.first_chunk()?;
            let &addresses: &[u8; 8] = header.last_chunk()?;
            let [a, b, c, d, e, f, g, h] = addresses;
            let source = IpAddress::Ipv4(Ipv4Address::new(a, b, c, d));
            let destination = IpAddress::Ipv4(Ipv4Address::new(e, f, g, h));
            let between = Between { addresses, interface, generation: self.generation };
            if Checksum::default().add_array(header).finish() != 0
                || !self.believed.v4(between, || self.is_believable(&source, &destination, interface))
            {
                return None;
            }
            let sum = Checksum::default().add_array(&addresses);
            return Some(Admitted { source, destination, ecn: Ecn::from_bits(header[1]), sum });
        }
        let header: &[u8; 40] = packet.first_chunk()?;
        let &addresses: &[u8; 32] = header.last_chunk()?;
        let source = IpAddress::Ipv6(Ipv6Address::from_octets(*addresses.first_chunk()?));
        let destination = IpAddress::Ipv6(Ipv6Address::from_octets(*addresses.last_chunk()?));
        let between = Between { addresses, interface, generation: self.generation };
        if !self.believed.v6(between, || self.is_believable(&source, &destination, interface)) {
            return None;
        }
        let sum = Checksum::default().add_array(&addresses);
        Some(Admitted { source, destination, ecn: Ecn::from_bits(header[1] >> 4), sum })
    }

    /// Whether a packet from `source` may be, and one to `destination` is for us alone.
    fn is_believable(&self, source: &IpAddress, destination: &IpAddress, interface: InterfaceId) -> bool {
        !source.is_unspecified()
            && !self.is_martian(source, interface)
            && self.cast(destination, interface) == Some(Cast::Unicast)
    }
}
