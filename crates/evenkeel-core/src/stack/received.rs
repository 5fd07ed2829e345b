//! What input gives to the host.

use super::tcp::{IcmpError, TcpPacket};
use super::transit::Transit;
use super::udp::Datagram;

/// What a received frame comes to, if it does not end inside.
#[derive(Debug)]
pub enum Received {
    /// A whole datagram for a socket.
    Datagram(Datagram),
    /// A segment for a connection or a listener.
    Segment(TcpPacket),
    /// What ICMP says of a segment that we have sent. Its frame is consumed.
    IcmpError(IcmpError),
    /// A packet for somebody else; only if [`Config::forwarding`](super::Config::forwarding).
    Transit(Transit),
}
