//! The limit on the memory that a connection takes of what all share.
//!
//! Scarcity never stops a connection for good: one with nothing to send may take a segment to send, and
//! one with nothing to read may take the next segment.

/// The limit on the memory that a connection may take of what it shares with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// The bytes that its buffers may grow by; `u32::MAX` stands for more, too.
    pub left: u32,
    /// Whether memory is scarce: limits of buffers stop growing, and data out of order is dropped. The
    /// peer will send it again.
    pub pressed: bool,
}

impl Default for Allowance {
    /// Returns an allowance without bound.
    fn default() -> Self {
        Self { left: u32::MAX, pressed: false }
    }
}
