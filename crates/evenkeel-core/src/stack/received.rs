//! The results of input that the host has to process further.

use super::icmp::quote::IcmpError;
use super::io::Io;
use super::packet::Payload;
use super::tcp::TcpPacket;
use super::transit::Transit;
use super::udp::Datagram;

/// The result of input of a frame that the stack does not process to completion.
#[derive(Debug)]
pub enum Received {
    /// A whole datagram for a socket.
    Datagram(Datagram),
    /// A segment for a connection or a listener.
    Segment(TcpPacket),
    /// An ICMP error about a segment or a datagram of this host. Its frame is consumed.
    IcmpError(IcmpError),
    /// A message to the host itself, which has been processed. Its frames are consumed.
    Control,
    /// A packet for another host; only if [`Config::forwarding`](super::Config::forwarding).
    Transit(Transit),
}

impl Received {
    /// Consumes a packet that is a message to the host itself, and has been processed.
    pub(super) fn consumed(payload: Payload, io: &mut Io<'_>) -> Self {
        io.consume(payload);
        Self::Control
    }
}
