//! The way up begins: Ethernet.

use super::address::Cast;
use super::io::Io;
use super::problem::Problem;
use super::received::Received;
use super::state::Stack;
use super::udp::Datagram;
use crate::drop::LinkDrop;
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::plain::Plain;
use crate::wire::{EthernetAddress, EthernetFrame, EthernetProtocol};

impl Stack {
    /// Takes a received frame through everything below sockets. The frame has been counted as received.
    ///
    /// Returns a datagram when one is complete, or a packet to forward, or that the frame was consumed.
    /// `None` if it was dropped, or waits in reassembly.
    pub fn input(&mut self, interface: InterfaceId, frame: Frame, io: &mut Io<'_>) -> Option<Received> {
        let frame = match Plain::of(frame.bytes()) {
            Some(plain) => match self.input_plain(interface, frame, plain, io) {
                Ok(received) => return received,
                Err(frame) => frame,
            },
            None => frame,
        };
        self.input_any(interface, frame, io)
    }

    /// Receives any frame by the long way.
    pub(crate) fn input_any(
        &mut self,
        interface: InterfaceId,
        frame: Frame,
        io: &mut Io<'_>,
    ) -> Option<Received> {
        #[cfg(test)]
        self.long_ways.set(self.long_ways.get() + 1);
        let Ok(ethernet) = EthernetFrame::new_checked(frame.bytes()) else {
            io.drop_frame(frame, LinkDrop::Truncated);
            return None;
        };
        let Some(link) = self.link_cast(interface, ethernet.dst_addr()) else {
            io.drop_frame(frame, LinkDrop::NotForUs);
            return None;
        };
        match ethernet.ethertype() {
            EthernetProtocol::Ipv4 => self.input_v4(interface, link, frame, io),
            EthernetProtocol::Ipv6 => self.input_v6(interface, link, frame, io),
            EthernetProtocol::Arp => self.input_arp(interface, frame, io),
            EthernetProtocol::Unknown(_) => {
                io.drop_frame(frame, LinkDrop::UnknownEtherType);
                None
            }
        }
    }

    /// Returns how a frame is addressed to this host; `None` if it is for another. IP checks which groups
    /// are joined.
    fn link_cast(&self, interface: InterfaceId, destination: EthernetAddress) -> Option<Cast> {
        let own = self.addresses_of(interface)?;
        if destination == own.hardware {
            Some(Cast::Unicast)
        } else if destination.is_broadcast() {
            Some(Cast::Broadcast)
        } else {
            destination.is_multicast().then_some(Cast::Multicast)
        }
    }

    /// Sends "port unreachable" to the sender of a datagram that no socket takes, unless the rules forbid
    /// it (RFC 1122 3.2.2, RFC 4443 2.4 e) or the rate limit is reached. The caller drops the datagram
    /// afterwards.
    pub fn port_unreachable(&mut self, datagram: &Datagram, io: &mut Io<'_>) {
        self.report(datagram.interface, datagram.payload.first_frame(), Problem::Port, io);
    }
}
