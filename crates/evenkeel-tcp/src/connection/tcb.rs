//! The transmission control block (RFC 9293, 3.3.1): the whole state of a connection.

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
/// The caller gives it segments ([`Connection::on_segment`]), the user's calls and passing time
/// ([`Connection::on_deadline`]). After each of these the caller takes the segments to send
/// ([`Connection::poll_transmit`], until there is none), then asks for the next deadline
/// ([`Connection::deadline`]), which any of them may have changed. Time never goes back. Once
/// [`Connection::is_over`], the caller can drop it.
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
    /// Our clock, if both sides send timestamps or the peer may still agree to.
    pub(super) clock: Option<Clock>,
    /// Whether both sides can use SACK, or the peer may still agree to.
    pub(super) sack: bool,
    /// Whether both sides use ECN, or the peer may still agree to.
    pub(super) ecn: bool,
    /// Whether both sides scale their windows, or the peer may still agree to.
    pub(super) scaling: bool,
    pub(super) nagle: bool,
    /// Whether segments that are not full wait: because the user set `TCP_CORK`, or announced more data
    /// (`more`).
    pub(super) cork: bool,
    pub(super) more: bool,
    pub(super) due: Due,
    pub(super) timers: Timers,
    pub(super) challenges: Option<Box<Challenges>>,
    pub(super) error: Option<Error>,
    /// Whether the network has recently reported an error that need not be the end (RFC 5461).
    pub(super) soft_error: bool,
    pub(super) allowance: Allowance,
    pub(super) counts: Counts,
    /// Events to be added to the counters of all connections.
    pub(super) tally: Tally,
}

/// The send sequence variables (RFC 9293, 3.3.1), and the data to be sent.
#[derive(Debug)]
pub(super) struct SendSide {
    pub(super) iss: SeqNumber,
    pub(super) una: SeqNumber,
    pub(super) nxt: SeqNumber,
    /// SND.WND in bytes, after scaling.
    pub(super) wnd: u32,
    pub(super) wl1: SeqNumber,
    pub(super) wl2: SeqNumber,
    /// The largest window that the peer ever offered. It limits the age of an acceptable ACK (RFC 5961,
    /// 5.2), and stands for the size of the peer's buffer (RFC 9293, 3.8.6.2.1).
    pub(super) wnd_max: u32,
    /// Snd.Wind.Shift: the scale of the peer's window.
    pub(super) shift: u8,
    /// The largest segment in bytes after the 20 of its header; options reduce the payload.
    pub(super) mss: u16,
    pub(super) buffer: SendBuffer,
    /// Whether the user has nothing more to send: a FIN follows the last byte of the buffer.
    pub(super) fin: bool,
    /// The end of the last segment that was not full (Minshall's variant of Nagle's algorithm).
    pub(super) small: SeqNumber,
    /// Whether the next segment with new data has CWR.
    pub(super) cwr: bool,
    /// Whether new data may be marked as capable of ECN: every SYN of ours asked for it (RFC 3168, 6.1.1).
    pub(super) ect: bool,
    /// The time of the peer's last sign of progress while something waited for it.
    pub(super) progress: Instant,
    pub(super) fast_open: Option<Box<FastOpen>>,
    pub(super) narrow: Option<Box<Narrow>>,
}

/// An active open with data (RFC 7413, 4.1).
#[derive(Debug, Clone, Copy)]
pub(super) struct FastOpen {
    /// The cookie, or the request for one, in the first SYN; in SYN-RECEIVED the cookie to give.
    pub(super) cookie: Option<Cookie>,
    /// The limit on the data in the SYN: a segment of this many bytes after the 20 of its header.
    pub(super) mss: u16,
    /// The bytes of data in the SYN, and the time at which it left.
    pub(super) data: u32,
    pub(super) sent_at: Instant,
    /// Whether the SYN had to be sent again, without cookie and data.
    pub(super) again: bool,
    /// The outcome, once the SYN-ACK has come.
    pub(super) opened: Option<FastOpened>,
}

impl FastOpen {
    pub(super) fn new(cookie: Option<Cookie>, now: Instant) -> Box<Self> {
        Box::new(Self { cookie, mss: u16::MAX, data: 0, sent_at: now, again: false, opened: None })
    }
}

impl SendSide {
    /// Returns the sequence number after the last that there is to send, FIN included.
    pub(super) fn end(&self) -> SeqNumber {
        self.buffer.end() + u32::from(self.fin)
    }

    /// Returns the bytes that were never sent, the FIN counted as one.
    pub(super) fn unsent(&self) -> u32 {
        self.end().since(self.nxt)
    }

    /// Returns the right edge of the peer's window: SND.UNA + SND.WND. It may be before SND.NXT.
    pub(super) const fn edge(&self) -> SeqNumber {
        SeqRange::at(self.una, self.wnd).end
    }

    /// Returns the usable window: SND.UNA + SND.WND - SND.NXT.
    pub(super) const fn usable(&self) -> u32 {
        SeqRange::new(self.nxt, self.edge()).len()
    }

    /// Returns whether a segment that was not full has left and is not acknowledged. If the last such
    /// segment left more than 2 GiB ago, its number seems to lie ahead, and it does not count.
    pub(super) fn is_small_under_way(&self) -> bool {
        SeqRange::new(self.una, self.nxt).contains(self.small - 1)
    }

    /// Returns whether our FIN is acknowledged.
    pub(super) fn fin_acked(&self) -> bool {
        self.fin && self.una.after(self.buffer.end())
    }
}

/// The receive sequence variables (RFC 9293, 3.3.1), and the received data.
#[derive(Debug)]
pub(super) struct ReceiveSide {
    pub(super) irs: SeqNumber,
    pub(super) buffer: ReceiveBuffer,
    /// The sequence number of the peer's FIN, once it has come.
    pub(super) fin_at: Option<SeqNumber>,
    /// Whether the FIN and all data before it have come.
    pub(super) fin: bool,
    /// The right edge of the window, RCV.NXT + RCV.WND: the furthest that was ever offered.
    pub(super) edge: SeqNumber,
    /// Last.ACK.sent (RFC 7323, 4.3): the last acknowledgment number that left.
    pub(super) acked: SeqNumber,
    /// Rcv.Wind.Shift: the scale of our window.
    pub(super) shift: u8,
    /// Whether our last segment offered the peer no window.
    pub(super) shut: bool,
    /// The bytes that the receive buffer may hold.
    pub(super) limit: u32,
    /// The value of our MSS option, in bytes.
    pub(super) mss: u16,
    /// The largest payload that has come, in bytes: the estimate of a full segment of the peer's.
    pub(super) segment: u16,
    /// A range that came twice, to be reported once (RFC 2883).
    pub(super) dsack: Option<SeqRange>,
    /// Whether every segment has ECE, until CWR comes (RFC 3168, 6.1.3).
    pub(super) ece: bool,
    /// Whether the user has closed the connection.
    pub(super) closed: bool,
    /// Whether the user has closed the receiving direction.
    pub(super) deaf: bool,
    /// The bytes read since `read_since`, from which the size of the buffer follows.
    pub(super) read: u32,
    pub(super) read_since: Instant,
}

impl ReceiveSide {
    /// Returns RCV.NXT: the next sequence number that is expected, after the FIN if it has come.
    pub(super) fn nxt(&self) -> SeqNumber {
        self.buffer.next() + u32::from(self.fin)
    }
}

/// The segments that are due besides data.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// The sequence number and flags of a reset: the connection's last segment, or the answer to a segment
    /// that is not the connection's.
    pub(super) reset: Option<(SeqNumber, Flags)>,
    /// Whether a SYN or SYN-ACK is due.
    pub(super) syn: bool,
    pub(super) ack: bool,
    /// Whether one segment may leave regardless of the congestion window (RFC 8985, 7.3).
    pub(super) tail_loss_probe: bool,
    /// Whether one lost segment may leave regardless of the congestion window and the pacer: the
    /// retransmission timer has expired (RFC 6298, 5.4).
    pub(super) retransmission: bool,
    /// Whether one segment may leave regardless of the peer's window (RFC 9293, 3.8.6.1).
    pub(super) window_probe: bool,
    pub(super) keepalive: bool,
}

impl Due {
    pub(super) const fn any(&self) -> bool {
        let probe = self.tail_loss_probe | self.window_probe | self.keepalive;
        self.reset.is_some() | self.syn | self.ack | probe
    }
}

/// Counters of a connection since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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

impl Connection {
    /// Returns the connection's state (RFC 9293, 3.3.2).
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns the reason why the connection failed, if it did and [`Connection::take_error`] has not
    /// taken it.
    #[must_use]
    pub const fn error(&self) -> Option<Error> {
        self.error
    }

    /// Returns the events that calls have counted since the last call of this function. Segments that
    /// leave are not among the events, but retransmissions are
    /// ([`RetransSegs`](crate::counters::Counter::RetransSegs)).
    pub const fn take_tally(&mut self) -> Tally {
        core::mem::replace(&mut self.tally, Tally::NOTHING)
    }

    /// Returns whether the connection is closed and has nothing more to send.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Closed) && self.due.reset.is_none()
    }

    /// Moves to the next state. The caller makes sure that `event` has a meaning in the present state.
    pub(super) fn step(&mut self, event: StateEvent) {
        debug_assert!(self.state.after(event).is_some(), "{event:?} in {}", self.state);
        self.state = self.state.after(event).unwrap_or(self.state);
    }
}

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

/// The count of challenge ACKs in the current period (RFC 5961, 7).
#[derive(Debug, Default)]
pub(super) struct Challenges {
    pub(super) since: Instant,
    pub(super) answered: u8,
}

/// A path that takes smaller segments than the handshake agreed on, or did for a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Narrow {
    pub(super) agreed: u16,
    /// The time until which the smaller size is kept.
    pub(super) until: Instant,
    /// The number of times that large segments have vanished without a report.
    pub(super) vanished: u32,
}

/// The times at which timers expire; [`Instant::NEVER`] for one that does not run. Loss recovery has its
/// own timers.
#[derive(Debug)]
pub(super) struct Timers {
    pub(super) delayed_ack: Instant,
    pub(super) persist: Instant,
    pub(super) persist_backoff: u8,
    pub(super) keepalive: Instant,
    pub(super) keepalive_probes: u8,
    /// The end of TIME-WAIT, or of FIN-WAIT-2 once the user has closed the connection.
    pub(super) two_msl: Instant,
    /// The time at which the pacer releases the next segment.
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
