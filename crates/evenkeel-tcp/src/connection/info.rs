//! What there is to know about a connection, for people.

use super::super::recovery::RecoveryInfo;
use super::super::state::State;
use super::error::Error;
use super::tcb::{Connection, Counts};

/// A connection's figures, for people and for tests.
#[derive(Debug, Clone, Copy)]
pub struct Info {
    /// Where it stands.
    pub state: State,
    /// Loss recovery and congestion control.
    pub recovery: RecoveryInfo,
    /// What went through.
    pub counts: Counts,
    /// Why it is over, if it failed.
    pub error: Option<Error>,
    /// The network says that the peer cannot be reached, and the peer has not shown the contrary since (RFC
    /// 9293, 3.9.2.2, SHLD-25). It may pass.
    pub unreachable: bool,
    /// SND.WND, scaled.
    pub send_window: u32,
    /// Bytes written and not acknowledged.
    pub send_queue: usize,
    /// Those that were never sent.
    pub unsent: u32,
    /// Bytes the send buffer may hold now.
    pub send_limit: usize,
    /// RCV.WND, scaled: what the peer was promised, and has not used.
    pub receive_window: u32,
    /// Bytes that can be read.
    pub receive_queue: usize,
    /// Bytes the receive buffer may hold.
    pub receive_limit: usize,
    /// Bytes of memory that both buffers own.
    pub held: usize,
    /// Bytes of payload in a full segment.
    pub mss: u16,
    /// Selective acknowledgments are in use.
    pub sack: bool,
    /// Timestamps are in use.
    pub timestamps: bool,
    /// ECN is in use.
    pub ecn: bool,
}

impl Connection {
    /// Its figures.
    #[must_use]
    pub fn info(&self) -> Info {
        Info {
            state: self.state,
            recovery: self.recovery.info(),
            counts: self.counts,
            error: self.error,
            unreachable: self.soft_error,
            send_window: self.snd.wnd,
            send_queue: self.snd.buffer.len(),
            unsent: self.snd.unsent(),
            send_limit: self.send_limit(),
            receive_window: self.rcv.edge.since(self.rcv.nxt()),
            receive_queue: self.rcv.buffer.readable(),
            receive_limit: self.rcv.limit as usize,
            held: self.held(),
            mss: self.payload_max(),
            sack: self.sack,
            timestamps: self.clock.is_some(),
            ecn: self.ecn,
        }
    }
}
