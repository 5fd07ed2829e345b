//! Screening: a process decides about every packet that is to be forwarded, one by one (`screend`; TOCS 1997,
//! section 6.2).

/// The decision about a packet that is to be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is forwarded.
    Pass,
    /// It is dropped without a word.
    Drop,
    /// It is dropped, and its sender gets a message that communication is administratively prohibited (RFC
    /// 1812 5.2.7.1, RFC 4443 3.1).
    Reject,
    /// It is dropped, and its sender gets a message that the destination is unreachable, with this code of
    /// the family's message: type 3 of ICMP (RFC 792), type 1 of ICMPv6 (RFC 4443 3.1).
    Unreachable(u8),
    /// It is dropped, and if it is a TCP segment its sender gets a reset (RFC 9293 3.10.7.1), as from the
    /// host it was sent to. The sender of any other packet gets the message of [`Verdict::Reject`].
    Reset,
}
