//! A report on a connection, for people.

use super::super::recovery::RecoveryInfo;
use super::super::state::State;
use super::counts::Counts;
use super::error::Error;
use super::tcb::Tcb;

/// A snapshot of a connection's state and counters, for people and for tests.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Info {
    /// The state of the connection (RFC 9293, 3.3.2).
    pub state: State,
    /// The figures of loss recovery and congestion control.
    pub recovery: RecoveryInfo,
    /// The counters of segments and bytes since the connection began.
    pub counts: Counts,
    /// The reason why the connection failed, if it did.
    pub error: Option<Error>,
    /// Whether the network has reported that the peer cannot be reached, and the peer has not shown the
    /// contrary since (RFC 9293, 3.9.2.2, SHLD-25). The condition may pass.
    pub unreachable: bool,
    /// SND.WND, scaled: the window that the peer offers, in bytes.
    pub send_window: u32,
    /// Bytes written and not acknowledged.
    pub send_queue: usize,
    /// Bytes written and never sent, the FIN counted as one.
    pub unsent: u32,
    /// The bytes that the send buffer may hold now.
    pub send_limit: usize,
    /// RCV.WND, scaled: the window that was offered to the peer and is not used yet.
    pub receive_window: u32,
    /// Bytes that can be read.
    pub receive_queue: usize,
    /// The bytes that the receive buffer may hold.
    pub receive_limit: usize,
    /// Bytes of memory that both buffers own.
    pub held: usize,
    /// Bytes of payload in a full segment.
    pub mss: u16,
    /// Whether selective acknowledgments are in use.
    pub sack: bool,
    /// Whether timestamps are in use.
    pub timestamps: bool,
    /// Whether ECN is in use.
    pub ecn: bool,
}

impl Info {
    /// Returns a snapshot of a connection.
    pub(super) fn of(tcb: &Tcb) -> Self {
        let Tcb { snd, rcv, negotiated, path, recovery, .. } = tcb;
        Self {
            state: tcb.state,
            recovery: recovery.info(),
            counts: tcb.counts,
            error: tcb.failure.error,
            unreachable: tcb.failure.unreachable,
            send_window: snd.wnd,
            send_queue: snd.buffer.len(),
            unsent: snd.unsent(),
            send_limit: tcb.send_limit(),
            receive_window: rcv.window(),
            receive_queue: rcv.buffer.readable(),
            receive_limit: rcv.sizing.limit as usize,
            held: snd.buffer.capacity() + rcv.buffer.capacity(),
            mss: path.payload_max(negotiated),
            sack: negotiated.sack(),
            timestamps: negotiated.timestamps(),
            ecn: tcb.ecn.is_enabled(),
        }
    }
}
