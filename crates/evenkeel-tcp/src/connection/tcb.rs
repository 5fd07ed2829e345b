//! The transmission control block (RFC 9293, 3.3.1): all that is kept of a connection.

use std::sync::Arc;

use super::super::buffer::{ReceiveBuffer, SendBuffer};
use super::super::counters::Tally;
use super::super::options::Cookie;
use super::super::recovery::Recovery;
use super::super::segment::Flags;
use super::super::seq::{SeqNumber, SeqRange};
use super::super::state::{State, StateEvent};
use super::clock::Clock;
use super::config::{Config, FastOpened};
use super::error::Error;
use crate::time::Instant;

/// A connection, sans-IO.
///
/// Give it segments ([`Connection::on_segment`]), the user's calls and passing time
/// ([`Connection::on_deadline`]); after each of these take what it has to send
/// ([`Connection::poll_transmit`], until it gives nothing), then ask for the next deadline
/// ([`Connection::deadline`]), which any of them may have changed. Time never goes back. Once
/// [`Connection::is_over`], it can be dropped.
#[derive(Debug)]
pub struct Connection {
    pub(super) config: Arc<Config>,
    pub(super) state: State,
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
    pub(super) ipv6: bool,
    pub(super) snd: SendSide,
    pub(super) rcv: ReceiveSide,
    pub(super) recovery: Recovery,
    /// Both sides send timestamps, or we still hope so.
    pub(super) clock: Option<Clock>,
    /// Both sides can use SACK, or we still hope so.
    pub(super) sack: bool,
    /// Both sides know ECN, or we still hope so.
    pub(super) ecn: bool,
    /// Both sides scale their windows, or we still hope so.
    pub(super) scaling: bool,
    pub(super) nagle: bool,
    /// Segments that are not full wait: because the user said so, or that more comes.
    pub(super) cork: bool,
    pub(super) more: bool,
    pub(super) due: Due,
    pub(super) timers: Timers,
    pub(super) challenges: Option<Box<Challenges>>,
    pub(super) error: Option<Error>,
    /// What the network said recently, and that need not be the end (RFC 5461).
    pub(super) soft_error: bool,
    pub(super) allowance: Allowance,
    pub(super) counts: Counts,
    /// For the counters of all connections.
    pub(super) tally: Tally,
}

/// Send sequence variables (RFC 9293, 3.3.1), and what is to be sent.
#[derive(Debug)]
pub(super) struct SendSide {
    pub(super) iss: SeqNumber,
    pub(super) una: SeqNumber,
    pub(super) nxt: SeqNumber,
    /// Scaled.
    pub(super) wnd: u32,
    pub(super) wl1: SeqNumber,
    pub(super) wl2: SeqNumber,
    /// The largest window the peer ever offered: how old an acceptable ACK can be (RFC 5961, 5.2), how large
    /// its buffer is (RFC 9293, 3.8.6.2.1).
    pub(super) wnd_max: u32,
    /// Snd.Wind.Shift.
    pub(super) shift: u8,
    /// Bytes after the 20 bytes of a header: options are taken off.
    pub(super) mss: u16,
    pub(super) buffer: SendBuffer,
    /// The user has nothing more to send: a FIN follows the last byte of the buffer.
    pub(super) fin: bool,
    /// The end of the last segment that was not full (Minshall's variant of Nagle's algorithm).
    pub(super) small: SeqNumber,
    /// The next new data carry CWR.
    pub(super) cwr: bool,
    /// New data may be marked as capable of ECN: every SYN of ours asked for it (RFC 3168, 6.1.1).
    pub(super) ect: bool,
    /// When the peer last moved things forward while something waited for it.
    pub(super) progress: Instant,
    pub(super) fast_open: Option<Box<FastOpen>>,
    pub(super) narrow: Option<Box<Narrow>>,
}

/// An active open with data (RFC 7413, 4.1).
#[derive(Debug, Clone, Copy)]
pub(super) struct FastOpen {
    /// The cookie, or the request for one, that the first SYN carries; in SYN-RECEIVED the one to give.
    pub(super) cookie: Option<Cookie>,
    /// The most that may go along, in a segment of so many bytes after the 20 of its header.
    pub(super) mss: u16,
    /// Bytes of data that went along with the SYN, and when.
    pub(super) data: u32,
    pub(super) sent_at: Instant,
    /// The SYN had to be sent again, without all that.
    pub(super) again: bool,
    /// What became of it.
    pub(super) opened: Option<FastOpened>,
}

impl FastOpen {
    pub(super) fn new(cookie: Option<Cookie>, now: Instant) -> Box<Self> {
        Box::new(Self { cookie, mss: u16::MAX, data: 0, sent_at: now, again: false, opened: None })
    }
}

impl SendSide {
    /// The number after the last there is to send, FIN included.
    pub(super) fn end(&self) -> SeqNumber {
        self.buffer.end() + u32::from(self.fin)
    }

    /// Bytes, and the FIN, that were never sent.
    pub(super) fn unsent(&self) -> u32 {
        self.end().since(self.nxt)
    }

    /// Where the peer's window ends: SND.UNA + SND.WND. It may be before SND.NXT.
    pub(super) const fn edge(&self) -> SeqNumber {
        SeqRange::at(self.una, self.wnd).end
    }

    /// The usable window: SND.UNA + SND.WND - SND.NXT.
    pub(super) const fn usable(&self) -> u32 {
        SeqRange::new(self.nxt, self.edge()).len()
    }

    /// A segment that was not full has left, and is not acknowledged. What was the last such 2 GiB ago seems
    /// to be yet to come.
    pub(super) fn is_small_under_way(&self) -> bool {
        SeqRange::new(self.una, self.nxt).contains(self.small - 1)
    }

    /// Our FIN is acknowledged.
    pub(super) fn fin_acked(&self) -> bool {
        self.fin && self.una.after(self.buffer.end())
    }
}

/// Receive sequence variables (RFC 9293, 3.3.1), and what was received.
#[derive(Debug)]
pub(super) struct ReceiveSide {
    pub(super) irs: SeqNumber,
    pub(super) buffer: ReceiveBuffer,
    /// Where the peer's FIN is, once it came.
    pub(super) fin_at: Option<SeqNumber>,
    /// The FIN and all before it came.
    pub(super) fin: bool,
    /// The right edge of the window, RCV.NXT + RCV.WND: as far as was ever promised.
    pub(super) edge: SeqNumber,
    /// Last.ACK.sent (RFC 7323, 4.3).
    pub(super) acked: SeqNumber,
    /// Rcv.Wind.Shift.
    pub(super) shift: u8,
    /// The peer was told that there is no room.
    pub(super) shut: bool,
    /// Bytes the buffer may hold.
    pub(super) limit: u32,
    /// Our MSS option.
    pub(super) mss: u16,
    /// The largest payload that came: what a full segment of the peer is.
    pub(super) segment: u16,
    /// What came twice, to be told once (RFC 2883).
    pub(super) dsack: Option<SeqRange>,
    /// ECE in every segment, until CWR comes (RFC 3168, 6.1.3).
    pub(super) ece: bool,
    /// The user has closed the connection.
    pub(super) closed: bool,
    /// The user reads no more.
    pub(super) deaf: bool,
    /// Bytes read since then: how large the buffer should be.
    pub(super) read: u32,
    pub(super) read_since: Instant,
}

impl ReceiveSide {
    /// RCV.NXT.
    pub(super) fn nxt(&self) -> SeqNumber {
        self.buffer.next() + u32::from(self.fin)
    }
}

/// What waits to be sent besides data.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// The number and flags of the last segment there will be, or of an answer to one that is not ours.
    pub(super) reset: Option<(SeqNumber, Flags)>,
    /// A SYN or SYN-ACK.
    pub(super) syn: bool,
    pub(super) ack: bool,
    /// One segment, whatever the congestion window says (RFC 8985, 7.3).
    pub(super) tail_loss_probe: bool,
    /// One lost segment, whatever the congestion window and the pacer say: the retransmission timer has
    /// expired (RFC 6298, 5.4).
    pub(super) retransmission: bool,
    /// One segment, whatever the peer's window says (RFC 9293, 3.8.6.1).
    pub(super) window_probe: bool,
    pub(super) keepalive: bool,
}

impl Due {
    pub(super) const fn any(&self) -> bool {
        let probe = self.tail_loss_probe | self.window_probe | self.keepalive;
        self.reset.is_some() | self.syn | self.ack | probe
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
    /// had left before is ([`RetransSegs`](crate::counters::Counter::RetransSegs)).
    pub const fn take_tally(&mut self) -> Tally {
        core::mem::replace(&mut self.tally, Tally::NOTHING)
    }

    /// It is closed, and has nothing more to send.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Closed) && self.due.reset.is_none()
    }

    /// Moves to the next state. That an event means something in a state is the caller's to know.
    pub(super) fn step(&mut self, event: StateEvent) {
        debug_assert!(self.state.after(event).is_some(), "{event:?} in {}", self.state);
        self.state = self.state.after(event).unwrap_or(self.state);
    }
}

/// What a connection may take of the memory that it shares with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Bytes that its buffers may grow by; more than so many make no difference to one connection.
    pub left: u32,
    /// There is little memory: bounds of buffers grow no more, and what comes out of order is dropped. The
    /// peer will send it again.
    pub pressed: bool,
}

impl Default for Allowance {
    /// No bound.
    fn default() -> Self {
        Self { left: u32::MAX, pressed: false }
    }
}

/// How many segments out of place were answered recently (RFC 5961, 7).
#[derive(Debug, Default)]
pub(super) struct Challenges {
    pub(super) since: Instant,
    pub(super) answered: u8,
}

/// A path that takes less than the handshake agreed on, or did.
#[derive(Debug, Clone, Copy)]
pub(super) struct Narrow {
    pub(super) agreed: u16,
    /// Until then the smaller size is kept.
    pub(super) until: Instant,
    /// How often large segments have vanished without a word.
    pub(super) vanished: u32,
}

/// When each is due; [`Instant::NEVER`] if it does not run. Loss recovery keeps its own.
#[derive(Debug)]
pub(super) struct Timers {
    pub(super) delayed_ack: Instant,
    pub(super) persist: Instant,
    pub(super) persist_backoff: u8,
    pub(super) keepalive: Instant,
    pub(super) keepalive_probes: u8,
    /// The end of TIME-WAIT, or of FIN-WAIT-2 when nobody reads any more.
    pub(super) two_msl: Instant,
    /// The pacer lets the next segment go.
    pub(super) pace: Instant,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            delayed_ack: Instant::NEVER,
            persist: Instant::NEVER,
            persist_backoff: 0,
            keepalive: Instant::NEVER,
            keepalive_probes: 0,
            two_msl: Instant::NEVER,
            pace: Instant::NEVER,
        }
    }
}
