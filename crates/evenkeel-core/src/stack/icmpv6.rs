//! ICMPv6 input: which message goes where (RFC 4443).

use super::address::Cast;
use super::io::Io;
use super::packet::Packet;
use super::path_mtu::MIN_V6;
use super::received::Received;
use super::state::Stack;
use crate::drop::IpDrop;
use crate::tcp::Checksum;
use crate::wire::{Icmpv6Message, IpProtocol};

/// MLDv1 report and done (RFC 2710 3), of which others may be heard.
const MLD_V1: [u8; 2] = [131, 132];

impl Stack {
    pub(super) fn input_icmpv6(&mut self, packet: Packet, io: &mut Io<'_>) -> Option<Received> {
        let protocol = IpProtocol::Icmpv6.into();
        let pseudo = Checksum::pseudo(&packet.source, &packet.destination, protocol, packet.payload.len());
        let sum = packet.payload.chunks().fold(pseudo, Checksum::add).finish();
        let Some(&[kind, _, _, _, a, b, c, d]) = packet.payload.head().get(..8).filter(|_| sum == 0) else {
            io.drop_payload(packet.payload, IpDrop::BadIcmp);
            return None;
        };
        let message = Icmpv6Message::from(kind);
        if packet.source.is_unspecified()
            && !(message.is_ndisc() || message.is_mld() || MLD_V1.contains(&kind))
        {
            io.drop_payload(packet.payload, IpDrop::Martian);
            return None;
        }
        // A link that takes less does not exist: to be discarded (RFC 8201 4).
        if message == Icmpv6Message::PktTooBig
            && usize::try_from(u32::from_be_bytes([a, b, c, d])).is_ok_and(|mtu| mtu < MIN_V6)
        {
            return Some(Received::consumed(packet.payload, io));
        }
        if !self.config.forward_only
            && let Some(error) = self.icmp_error_v6(packet.payload.head(), packet.interface)
        {
            Received::consumed(packet.payload, io);
            return Some(Received::IcmpError(error));
        }
        match message {
            message if self.config.forward_only && !message.is_ndisc() => {
                Some(Received::consumed(packet.payload, io))
            }
            Icmpv6Message::EchoRequest => {
                // RFC 4443 4.2 wants groups answered too: within the limit, so that one packet does not start
                // a storm.
                if packet.cast != Cast::Unicast && !self.within_rate(&packet.source, io) {
                    return Some(Received::consumed(packet.payload, io));
                }
                Some(self.echo([u8::from(Icmpv6Message::EchoReply), 0, 0, 0, a, b, c, d], packet, io))
            }
            Icmpv6Message::PktTooBig => {
                self.learn_path_mtu_v6(&packet, u32::from_be_bytes([a, b, c, d]), io);
                Some(Received::consumed(packet.payload, io))
            }
            message if message.is_ndisc() => self.input_ndp(message, packet, io),
            Icmpv6Message::MldQuery => self.input_mld(packet, io),
            _ => Some(Received::consumed(packet.payload, io)),
        }
    }
}
