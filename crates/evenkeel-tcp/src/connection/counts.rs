//! The counters of one connection.

/// Counters of a connection since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Segments received.
    pub segments_in: u64,
    /// Segments sent.
    pub segments_out: u64,
    /// Bytes of payload received in order.
    pub bytes_in: u64,
    /// Bytes of payload sent, retransmissions included.
    pub bytes_out: u64,
    /// Bytes of payload that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Segments out of order (`TCPOFOQueue`).
    pub out_of_order: u32,
    /// Segments without any new data (`DelayedACKLost`).
    pub duplicates: u32,
    /// Segments whose timestamp was too old (`PAWSEstab`), or missing.
    pub paws: u32,
    /// Answers to segments out of place (`TCPChallengeACK`).
    pub challenge_acks: u32,
    /// Segments without room: beyond the window, with one hole too many, or beyond the memory there is
    /// (`TCPRcvQDrop`).
    pub no_room: u32,
}
