//! The outcomes of an expired timer of loss recovery.

/// The purpose of a deadline that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expired {
    /// Nothing: it was moved, or is not there yet. Ask for the deadline again.
    Nothing,
    /// The time for reordering is over: bytes are lost, and may be sent again.
    Reordering {
        /// Newly lost.
        lost: u32,
        /// The window is being reduced because of it.
        reduced: bool,
    },
    /// One segment must leave now, whatever [`Recovery::send_allowance`](super::Recovery::send_allowance)
    /// says: new data, or
    /// [`Recovery::probe_range`](super::Recovery::probe_range) again.
    TailLossProbe,
    /// No acknowledgment came. What was sent is lost, the window is one segment; the connection may give up
    /// ([`timeouts_in_a_row`](super::RecoveryInfo::timeouts_in_a_row)).
    Timeout,
}
