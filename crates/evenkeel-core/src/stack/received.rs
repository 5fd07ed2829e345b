//! The results of input that the host has to process further.

use super::tcp::{IcmpError, TcpPacket};
use super::transit::Transit;
use super::udp::Datagram;

/// The result of input of a frame that the stack does not process to completion.
#[derive(Debug)]
pub enum Received {
    /// A whole datagram for a socket.
    Datagram(Datagram),
    /// A segment for a connection or a listener.
    Segment(TcpPacket),
    /// An ICMP error about a segment of this host. Its frame is consumed.
    IcmpError(IcmpError),
    /// A packet for another host; only if [`Config::forwarding`](super::Config::forwarding).
    Transit(Transit),
}
