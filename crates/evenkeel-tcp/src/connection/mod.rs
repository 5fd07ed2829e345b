//! One connection: RFC 9293, section 3.10, with what later RFCs changed.
//!
//! | looking for | file |
//! | --- | --- |
//! | opening: SYNs out, SYNs in, what they agree on | `open.rs` |
//! | a segment arrives: acceptability, PAWS, RST, SYN | `input.rs` |
//! | what an acknowledgment means; the send window | `ack.rs` |
//! | payload and FIN in; when to acknowledge; the receive window | `data.rs` |
//! | the user's calls | `user.rs` |
//! | what the user may choose | `options.rs` |
//! | closing and failing | `close.rs` |
//! | what to send next: repeats, new data, probes | `output.rs` |
//! | what a header says | `header.rs` |
//! | deadlines | `timers.rs` |
//! | path MTU, and what else ICMP says | `path.rs` |
//! | timestamps | `clock.rs` |
//! | memory that all connections share | `memory.rs` |

mod ack;
mod clock;
mod close;
mod config;
mod data;
mod header;
mod input;
mod memory;
mod open;
mod options;
mod output;
mod path;
mod timers;
mod user;

use core::fmt;
use std::sync::Arc;

pub use config::{Agreement, Config, FastOpened, Keepalive, Open, SynAck, SynReceived};
pub use memory::Allowance;
pub use options::StreamOption;
pub use output::Outgoing;
pub use timers::Timer;
pub use user::Unavailable;

use super::buffer::{ReceiveBuffer, SendBuffer};
use super::counters::Tally;
use super::fault::Fault;
use super::options::Cookie;
use super::recovery::{Recovery, RecoveryInfo};
use super::segment::Flags;
use super::seq::{SeqNumber, SeqRange};
use super::state::{Event, State};
use crate::time::Instant;
use clock::Clock;
use input::Challenges;
use path::Narrow;
use timers::Timers;

/// A connection, sans-IO.
///
/// Give it segments ([`Connection::on_segment`]), the user's calls and passing time
/// ([`Connection::on_deadline`]); after each of these take what it has to send
/// ([`Connection::poll_transmit`], until it gives nothing), then ask for the next deadline
/// ([`Connection::deadline`]), which any of them may have changed. Time never goes back. Once
/// [`Connection::is_over`], it can be dropped.
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    state: State,
    local_port: u16,
    remote_port: u16,
    ipv6: bool,
    snd: SendSide,
    rcv: ReceiveSide,
    recovery: Recovery,
    /// Both sides send timestamps, or we still hope so.
    clock: Option<Clock>,
    /// Both sides can use SACK, or we still hope so.
    sack: bool,
    /// Both sides know ECN, or we still hope so.
    ecn: bool,
    /// Both sides scale their windows, or we still hope so.
    scaling: bool,
    nagle: bool,
    /// Segments that are not full wait: because the user said so, or that more comes.
    cork: bool,
    more: bool,
    due: Due,
    timers: Timers,
    challenges: Option<Box<Challenges>>,
    error: Option<Error>,
    /// What the network said lately, and that need not be the end (RFC 5461).
    soft_error: bool,
    allowance: Allowance,
    counts: Counts,
    /// For the counters of all connections.
    tally: Tally,
}

/// Send sequence variables (RFC 9293, 3.3.1), and what is to be sent.
#[derive(Debug)]
struct SendSide {
    iss: SeqNumber,
    una: SeqNumber,
    nxt: SeqNumber,
    /// Scaled.
    wnd: u32,
    wl1: SeqNumber,
    wl2: SeqNumber,
    /// The largest window the peer ever offered: how old an acceptable ACK can be (RFC 5961, 5.2), how large
    /// its buffer is (RFC 9293, 3.8.6.2.1).
    wnd_max: u32,
    /// Snd.Wind.Shift.
    shift: u8,
    /// Bytes after the 20 bytes of a header: options are taken off.
    mss: u16,
    buffer: SendBuffer,
    /// The user has nothing more to send: a FIN follows the last byte of the buffer.
    fin: bool,
    /// The end of the last segment that was not full (Minshall's variant of Nagle's algorithm).
    small: SeqNumber,
    /// The next new data carry CWR.
    cwr: bool,
    /// New data may be marked as capable of ECN: every SYN of ours asked for it (RFC 3168, 6.1.1).
    ect: bool,
    /// When the peer last moved things forward while something waited for it.
    progress: Instant,
    fast_open: Option<Box<FastOpen>>,
    narrow: Option<Box<Narrow>>,
}

/// An active open with data (RFC 7413, 4.1).
#[derive(Debug, Clone, Copy)]
struct FastOpen {
    /// The cookie, or the request for one, that the first SYN carries; in SYN-RECEIVED the one to give.
    cookie: Option<Cookie>,
    /// The most that may go along, in a segment of so many bytes after the 20 of its header.
    mss: u16,
    /// Bytes of data that went along with the SYN, and when.
    data: u32,
    sent_at: Instant,
    /// The SYN had to be sent again, without all that.
    again: bool,
    /// What became of it.
    opened: Option<FastOpened>,
}

impl FastOpen {
    fn new(cookie: Option<Cookie>, now: Instant) -> Box<Self> {
        Box::new(Self { cookie, mss: u16::MAX, data: 0, sent_at: now, again: false, opened: None })
    }
}

impl SendSide {
    /// The number after the last there is to send, FIN included.
    fn end(&self) -> SeqNumber {
        self.buffer.end() + u32::from(self.fin)
    }

    /// Bytes, and the FIN, that were never sent.
    fn unsent(&self) -> u32 {
        self.end().since(self.nxt)
    }

    /// The usable window: SND.UNA + SND.WND - SND.NXT.
    const fn usable(&self) -> u32 {
        SeqRange::new(self.nxt, SeqRange::at(self.una, self.wnd).end).len()
    }

    /// Our FIN is acknowledged.
    fn fin_acked(&self) -> bool {
        self.fin && self.una.after(self.buffer.end())
    }
}

/// Receive sequence variables (RFC 9293, 3.3.1), and what was received.
#[derive(Debug)]
struct ReceiveSide {
    irs: SeqNumber,
    buffer: ReceiveBuffer,
    /// Where the peer's FIN is, once it came.
    fin_at: Option<SeqNumber>,
    /// The FIN and all before it came.
    fin: bool,
    /// The right edge of the window, RCV.NXT + RCV.WND: as far as was ever promised.
    edge: SeqNumber,
    /// Last.ACK.sent (RFC 7323, 4.3).
    acked: SeqNumber,
    /// Rcv.Wind.Shift.
    shift: u8,
    /// The peer was told that there is no room.
    shut: bool,
    /// Bytes the buffer may hold.
    limit: u32,
    /// Our MSS option.
    mss: u16,
    /// The largest payload that came: what a full segment of the peer is.
    segment: u16,
    /// What came twice, to be told once (RFC 2883).
    dsack: Option<SeqRange>,
    /// ECE in every segment, until CWR comes (RFC 3168, 6.1.3).
    ece: bool,
    /// The user has closed the connection.
    closed: bool,
    /// The user reads no more.
    deaf: bool,
    /// Bytes read since then: how large the buffer should be.
    read: u32,
    read_since: Instant,
}

impl ReceiveSide {
    /// RCV.NXT.
    fn nxt(&self) -> SeqNumber {
        self.buffer.next() + u32::from(self.fin)
    }
}

/// What waits to be sent besides data.
#[derive(Debug, Default)]
struct Due {
    /// The number and flags of the last segment there will be, or of an answer to one that is not ours.
    reset: Option<(SeqNumber, Flags)>,
    /// A SYN or SYN-ACK.
    syn: bool,
    ack: bool,
    /// One segment, whatever the congestion window says (RFC 8985, 7.3).
    tail_loss_probe: bool,
    /// One segment, whatever the peer's window says (RFC 9293, 3.8.6.1).
    window_probe: bool,
    keepalive: bool,
}

/// Why a connection is over, other than by closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Error {
    /// The peer does not listen.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The peer gave no sign for too long.
    TimedOut,
    /// The network says the peer cannot be reached.
    Unreachable,
    /// The user gave it up, or closed it while data was still coming.
    Aborted,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused",
            Self::Reset => "connection reset by peer",
            Self::TimedOut => "connection timed out",
            Self::Unreachable => "peer is unreachable",
            Self::Aborted => "connection aborted",
        })
    }
}

impl core::error::Error for Error {}

impl Error {
    /// Whose fault it is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::Refused | Self::Reset | Self::TimedOut | Self::Unreachable => Fault::Network,
            Self::Aborted => Fault::Misuse,
        }
    }
}

/// Counted since the connection began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Segments that came.
    pub segments_in: u64,
    /// Segments that left.
    pub segments_out: u64,
    /// Bytes of payload that came in order.
    pub bytes_in: u64,
    /// Bytes of payload that left, those sent again included.
    pub bytes_out: u64,
    /// Bytes of payload that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Segments out of order (`TCPOFOQueue`).
    pub out_of_order: u32,
    /// Segments with nothing that had not come before (`DelayedACKLost`).
    pub duplicates: u32,
    /// Segments whose timestamp was too old (`PAWSEstab`), or missing.
    pub paws: u32,
    /// Answers to segments out of place (`TCPChallengeACK`).
    pub challenge_acks: u32,
    /// Segments that found no room: beyond the window, with one hole too many, or beyond the memory there is
    /// (`TCPRcvQDrop`).
    pub no_room: u32,
}

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
    /// Where it stands.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Why it is over, if it failed.
    #[must_use]
    pub const fn error(&self) -> Option<Error> {
        self.error
    }

    /// What the calls since the last time have to count. A segment that leaves is not among it, but that it
    /// had left before is ([`RetransSegs`](super::counters::Counter::RetransSegs)).
    pub const fn take_tally(&mut self) -> Tally {
        core::mem::replace(&mut self.tally, Tally::NOTHING)
    }

    /// It is closed, and has nothing more to send.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Closed) && self.due.reset.is_none()
    }

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

    /// Moves to the next state. That an event means something in a state is the caller's to know.
    fn step(&mut self, event: Event) {
        debug_assert!(self.state.after(event).is_some(), "{event:?} in {}", self.state);
        self.state = self.state.after(event).unwrap_or(self.state);
    }
}
