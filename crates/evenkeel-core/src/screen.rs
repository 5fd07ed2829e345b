//! Screening: a process decides about every packet that is to be forwarded, one by one (`screend`; TOCS 1997,
//! section 6.2).

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is forwarded.
    Pass,
    /// It is dropped without a word.
    Drop,
    /// It is dropped, and its sender is told that communication is administratively prohibited (RFC 1812
    /// 5.2.7.1, RFC 4443 3.1).
    Reject,
}
