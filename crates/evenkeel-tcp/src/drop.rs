//! The outcomes of received segments, with the reasons for drops.

/// The outcome of a received segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It brought bytes for the user.
    Data,
    /// It ended here: an acknowledgment, part of a handshake, a reset.
    Control,
    /// It was dropped.
    Dropped(TcpDrop),
    /// It belongs to no connection here, and opens none. It may be another host's, and was not answered:
    /// [`Endpoint::leave_strays`](crate::Endpoint::leave_strays).
    Stray,
}

impl Fate {
    /// The fate of a segment of a connection that is too old, or not from the peer.
    pub(crate) const OUT_OF_PLACE: Self = Self::Dropped(TcpDrop::NotAcceptable);
}

/// Why a segment, or the bytes in it, went no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TcpDrop {
    /// Bad header length, or a port of zero.
    Malformed,
    /// Bad checksum.
    Checksum,
    /// Sent to a broadcast or a group.
    NotUnicast,
    /// For no connection, and no socket listens at the port; answered with a reset, within their rate limit.
    NoSocket,
    /// Data beyond the receive window, or more than buffers may hold.
    NoRoom,
    /// Of a connection, but out of place: too old, or not by its peer.
    NotAcceptable,
    /// A SYN, or the end of a handshake, that found the listener's queues full.
    Backlog,
    /// A SYN that the device answered with a SYN cookie in place of its listener.
    Cookie,
    /// A segment of no connection that brought no good SYN cookie to a listener that expects some. The device
    /// dropped it.
    WrongCookie,
}

impl TcpDrop {
    /// Every reason, in the order of declaration.
    pub const ALL: &'static [Self] = &[
        Self::Malformed,
        Self::Checksum,
        Self::NotUnicast,
        Self::NoSocket,
        Self::NoRoom,
        Self::NotAcceptable,
        Self::Backlog,
        Self::Cookie,
        Self::WrongCookie,
    ];

    /// Returns the name used in tables and machine-readable output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "tcp-malformed",
            Self::Checksum => "tcp-checksum",
            Self::NotUnicast => "tcp-not-unicast",
            Self::NoSocket => "tcp-no-socket",
            Self::NoRoom => "tcp-no-room",
            Self::NotAcceptable => "tcp-not-acceptable",
            Self::Backlog => "tcp-backlog",
            Self::Cookie => "tcp-cookie",
            Self::WrongCookie => "tcp-wrong-cookie",
        }
    }

    /// Returns one line that describes the reason.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Malformed => "bad header length, or a port of zero",
            Self::Checksum => "bad checksum",
            Self::NotUnicast => "sent to a broadcast or a group",
            Self::NoSocket => {
                "for no connection, and nobody listens on the port; answered with a reset, within their rate \
                 limit"
            }
            Self::NoRoom => "data beyond the receive window, or more than buffers may hold",
            Self::NotAcceptable => "of a connection, but out of place: too old, or not by its peer",
            Self::Backlog => "a SYN, or the end of a handshake, that found the listener's queues full",
            Self::Cookie => "a SYN that the device answered with a SYN cookie, in place of its listener",
            Self::WrongCookie => {
                "of no connection, to a listener that expects SYN cookies, and brought no good one; dropped \
                 by the device"
            }
        }
    }
}
