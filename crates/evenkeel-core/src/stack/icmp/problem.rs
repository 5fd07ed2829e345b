//! The problems of packets, and the ICMP and ICMPv6 messages that report them (RFC 792, RFC 1812 5.2.7, RFC
//! 4443 3).

/// A problem that the sender of a packet is notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    /// No socket is bound to the port.
    Port,
    /// No receiver takes the protocol (IPv4).
    UnknownProtocol,
    /// No route leads to the destination.
    NoRoute,
    /// The route to the destination is one that reports it as unreachable.
    RouteRejects,
    /// The next hop does not answer.
    Host,
    /// The packet is prohibited by screening or by a route.
    Prohibited,
    /// Screening refuses the packet with a certain code of "destination unreachable".
    Refused {
        /// The code, of the packet's family.
        code: u8,
    },
    /// Its source address means nothing where it is going (IPv6).
    BeyondScope,
    /// The packet has passed as many routers as it may.
    HopLimit,
    /// The packet is larger than the next link takes, and must not be fragmented.
    TooBig {
        /// The MTU of the next link, in bytes.
        mtu: u32,
    },
    /// Fragments are missing and their time is over.
    ReassemblyTime,
    /// A header field is wrong (IPv6).
    Header {
        /// Bytes into the packet.
        pointer: u32,
    },
    /// The next header is unknown (IPv6).
    NextHeader {
        /// Bytes into the packet.
        pointer: u32,
    },
    /// An option is unknown and wants to be reported (IPv6).
    Option {
        /// Bytes into the packet.
        pointer: u32,
    },
    /// The first fragment lacks headers (RFC 7112, IPv6).
    Incomplete,
}

impl Problem {
    /// Returns whether the problem may be reported about a packet to a group (RFC 4443 2.4 e 3). "Packet
    /// too big" could be as well, but no packet to a group is forwarded.
    pub(crate) const fn may_answer_group(self) -> bool {
        matches!(self, Self::Option { .. })
    }

    /// Returns type, code and the second word of the ICMP message; `None` if IPv4 has none.
    pub(crate) const fn v4(self) -> Option<(u8, u8, u32)> {
        match self {
            Self::NoRoute => Some((3, 0, 0)),
            Self::RouteRejects | Self::Host => Some((3, 1, 0)),
            Self::UnknownProtocol => Some((3, 2, 0)),
            Self::Port => Some((3, 3, 0)),
            Self::TooBig { mtu } => Some((3, 4, mtu)),
            Self::Prohibited => Some((3, 13, 0)),
            Self::Refused { code } => Some((3, code, 0)),
            Self::HopLimit => Some((11, 0, 0)),
            Self::ReassemblyTime => Some((11, 1, 0)),
            Self::BeyondScope
            | Self::Header { .. }
            | Self::NextHeader { .. }
            | Self::Option { .. }
            | Self::Incomplete => None,
        }
    }

    /// Returns type, code and the second word of the ICMPv6 message.
    pub(crate) const fn v6(self) -> (u8, u8, u32) {
        match self {
            Self::NoRoute => (1, 0, 0),
            Self::Prohibited => (1, 1, 0),
            Self::Refused { code } => (1, code, 0),
            Self::BeyondScope => (1, 2, 0),
            Self::Host => (1, 3, 0),
            Self::Port => (1, 4, 0),
            Self::RouteRejects => (1, 6, 0),
            Self::TooBig { mtu } => (2, 0, mtu),
            Self::HopLimit => (3, 0, 0),
            Self::ReassemblyTime => (3, 1, 0),
            Self::Header { pointer } => (4, 0, pointer),
            Self::NextHeader { pointer } => (4, 1, pointer),
            Self::Option { pointer } => (4, 2, pointer),
            // The pointer is zero (RFC 8200 4.5).
            Self::Incomplete => (4, 3, 0),
            Self::UnknownProtocol => (4, 1, 6),
        }
    }
}
