//! A connection as its caller sees it: segments and time in; segments and deadlines out. `user.rs` has the
//! user's calls.

use alloc::sync::Arc;

use core::num::NonZeroU8;

use super::super::buffer::Spares;
use super::super::counters::CounterSet;
use super::super::drop::Fate;
use super::super::options::Cookie;
use super::super::rate_cache::Remembered;
use super::super::segment::Segment;
use super::super::seq::{SeqNumber, SeqRange};
use super::super::state::{State, StateEvent};
use super::super::table::Id;
use super::super::time_wait::Remains;
use super::config::{Config, FastOpened, Open, SynAck, SynReceived};
use super::error::Error;
use super::expiry::Expiry;
use super::handshake::FastOpen;
use super::info::Info;
use super::input::Arrival;
use super::memory::Allowance;
use super::output::{Outgoing, Transmission};
use super::predicted::Prediction;
use super::tcb::Tcb;
use super::timers::Timer;
use crate::rate::Rate;
use crate::time::{Duration, Instant};

/// A connection, sans-IO.
///
/// The caller gives it segments ([`Connection::on_segment`]), the user's calls and passing time
/// ([`Connection::on_deadline`]). After each of these the caller takes the segments to send
/// ([`Connection::poll_transmit`], until there is none), then asks for the next deadline
/// ([`Connection::deadline`]), which any of them may have changed. Time never goes back. Once
/// [`Connection::is_over`], the caller can drop it.
///
/// ```
/// use std::sync::Arc;
///
/// use evenkeel_tcp::connection::Open;
/// use evenkeel_tcp::time::Instant;
/// use evenkeel_tcp::{Config, Connection, Flags, Header, Segment, SeqNumber, State};
///
/// let (mut now, iss) = (Instant::ZERO, SeqNumber::new(1_000));
/// let open =
///     Open { local_port: 40_000, remote_port: 80, ipv6: false, mss: 1_460, iss, timestamp_offset: 0 };
/// let mut connection = Connection::connect(&Arc::new(Config::default()), &open, None, now);
/// let syn = connection.poll_transmit(now).expect("a SYN").segment.header;
/// assert!(syn.flags.opens());
///
/// // The peer's answer, 20 ms later.
/// now = Instant::from_millis(20);
/// let flags = Flags::SYN | Flags::ACK;
/// let (seq, ack) = (SeqNumber::new(5_000), syn.seq + 1);
/// let answer =
///     Header { source: 80, destination: 40_000, seq, ack, flags, window: 65_535, ..Header::default() };
/// connection.on_segment(&Segment::bare(answer), now);
/// assert_eq!(connection.state(), State::Established);
///
/// connection.write(b"GET / HTTP/1.0\r\n\r\n")?;
/// let request = connection.poll_transmit(now).expect("a request").segment;
/// assert_eq!((request.header.ack, request.payload_len()), (seq + 1, 18));
/// # Ok::<(), evenkeel_tcp::connection::Unavailable>(())
/// ```
#[derive(Debug)]
pub struct Connection {
    pub(super) tcb: Tcb,
}

/// Opening.
impl Connection {
    /// Creates a connection that is opened actively: its SYN is to be sent.
    ///
    /// With `fast_open` the SYN has a cookie and the data that the user writes before it leaves; or the
    /// request for a cookie (RFC 7413, 4.1).
    #[must_use]
    pub fn connect(config: &Arc<Config>, open: &Open, fast_open: Option<Cookie>, now: Instant) -> Self {
        let mut tcb = Tcb::new(config, open, now);
        tcb.step(StateEvent::ActiveOpen);
        tcb.handshake.fast_open = fast_open.map(|cookie| FastOpen::new(Some(cookie), now));
        tcb.syn_due = true;
        Self { tcb }
    }

    /// Creates a connection in SYN-RECEIVED from a listener's agreement with a peer. The caller gives it
    /// the segment that acknowledges our SYN next.
    #[must_use]
    pub fn accept(config: &Arc<Config>, open: &Open, received: &SynReceived, now: Instant) -> Self {
        let mut tcb = Tcb::new(config, open, now);
        tcb.step(StateEvent::PassiveOpen);
        tcb.step(StateEvent::Syn);
        tcb.on_syn(received.irs, received.window, &received.agreement, now);
        let syn = SeqRange::at(open.iss, 1);
        match received.syn_ack {
            SynAck::Due(cookie) => {
                tcb.handshake.fast_open = Some(FastOpen::new(cookie, now));
                tcb.syn_due = true;
                return Self { tcb };
            }
            SynAck::SentAt(sent) => tcb.recovery.on_sent(syn, false, sent),
            SynAck::Sent(again) => {
                // Recorded as sent again, so that its acknowledgment gives no sample of the round-trip
                // time (Karn's algorithm).
                tcb.recovery.on_sent(syn, false, now);
                tcb.recovery.on_sent(syn, true, now);
                tcb.recovery.set_syn_timeouts(again);
            }
        }
        tcb.snd.nxt = syn.end;
        Self { tcb }
    }

    /// Limits the data in the SYN to what fits a segment of `mss` bytes after the 20 of its header: the
    /// peer's MSS on an earlier connection (RFC 7413, 4.2.1).
    pub fn limit_early_data(&mut self, mss: u16) {
        if let Some(fast_open) = &mut self.tcb.handshake.fast_open {
            fast_open.mss = mss;
        }
    }

    /// Returns the outcome of an active open with Fast Open, once it is known, and forgets it.
    pub fn take_fast_opened(&mut self) -> Option<FastOpened> {
        self.tcb.handshake.fast_open.take_if(|fast_open| fast_open.opened.is_some())?.opened
    }

    /// Sets the rate and the round-trip time of an earlier connection to this destination: see
    /// [`Start::Remembered`](crate::recovery::Start::Remembered).
    pub fn remember(&mut self, rate: Rate, rtt: Duration) {
        self.tcb.recovery.remember(rate, rtt);
    }

    /// Returns the rate at which data last arrived at the peer, if it is measured, for
    /// [`Connection::remember`] of a later connection.
    pub(crate) fn measured(&self) -> Option<Remembered> {
        let recovery = &self.tcb.recovery;
        let (rate, rtt) = recovery.delivery_rate()?;
        Some(Remembered { rate, rtt, at: recovery.last_sent() })
    }

    /// Returns whether the rate at which data arrives is measured.
    pub(crate) fn measures(&self) -> bool {
        self.tcb.recovery.measures()
    }
}

/// The state, as others see it.
impl Connection {
    /// Returns the connection's state (RFC 9293, 3.3.2).
    #[must_use]
    pub const fn state(&self) -> State {
        self.tcb.state
    }

    /// Returns the TTL or hop limit of segments; `None` for that of the host.
    #[must_use]
    #[inline]
    pub fn hop_limit(&self) -> Option<NonZeroU8> {
        self.tcb.config.hop_limit
    }

    /// Returns the reason why the connection failed, if it did and [`Connection::take_error`] has not
    /// taken it.
    #[must_use]
    pub const fn error(&self) -> Option<Error> {
        self.tcb.failure.error
    }

    /// Returns RCV.NXT: the next sequence number that is expected.
    #[must_use]
    pub fn rcv_nxt(&self) -> SeqNumber {
        self.tcb.rcv.nxt()
    }

    /// Returns a snapshot of the connection's state and counters.
    #[must_use]
    pub fn info(&self) -> Info {
        Info::of(&self.tcb)
    }

    /// Returns the events that calls have counted since the last call of this function. Segments that
    /// leave are not among the events, but retransmissions are
    /// ([`RetransSegs`](crate::counters::Counter::RetransSegs)).
    pub const fn take_counted(&mut self) -> CounterSet {
        core::mem::replace(&mut self.tcb.counted, CounterSet::EMPTY)
    }

    /// Returns whether the connection is closed and has nothing more to send.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.tcb.state, State::Closed) && self.tcb.reset.is_none()
    }

    /// Returns the remains of a connection in TIME-WAIT that has nothing more to send, and closes it.
    /// [`TimeWait`](crate::TimeWait) takes the remains and answers later segments. The user may still read
    /// data that has come.
    pub fn leave_in_time_wait(&mut self) -> Option<Remains> {
        if self.tcb.state != State::TimeWait || self.tcb.timers.delayed_ack.is_due() {
            return None;
        }
        let remains = Remains {
            snd_nxt: self.tcb.snd.nxt,
            rcv_nxt: self.tcb.rcv.nxt(),
            window: self.tcb.rcv.offer_window(self.tcb.allowance, &mut self.tcb.counted),
            ts_recent: self.tcb.negotiated.ts_recent(),
        };
        self.tcb.step(StateEvent::Timeout);
        self.tcb.end();
        Some(remains)
    }
}

/// Segments and ICMP errors.
impl Connection {
    /// Processes a segment of this connection, whose checksum the caller has verified. Returns its fate.
    pub fn on_segment(&mut self, segment: &Segment<'_>, now: Instant) -> Fate {
        self.tcb.counts.segments_in += 1;
        let prediction = Prediction::new(&mut self.tcb, segment, now);
        if prediction.holds() {
            prediction.apply()
        } else {
            Arrival::new(&mut self.tcb, segment, now).process()
        }
    }

    /// Processes a segment step by step, without header prediction. Returns its fate.
    #[cfg(test)]
    pub(crate) fn on_unpredicted(&mut self, segment: &Segment<'_>, now: Instant) -> Fate {
        self.tcb.counts.segments_in += 1;
        Arrival::new(&mut self.tcb, segment, now).process()
    }

    /// Returns whether a segment is predicted: see [`Prediction`].
    #[cfg(test)]
    pub(crate) fn is_expected(&mut self, segment: &Segment<'_>, now: Instant) -> bool {
        Prediction::new(&mut self.tcb, segment, now).holds()
    }

    /// Takes the payload of the SYN from which a connection with
    /// [`SynAck::Due`] was made: its cookie was right (RFC 7413, 4.2.2).
    pub fn on_early_data(&mut self, syn: &Segment<'_>, now: Instant) -> Fate {
        if self.tcb.state != State::SynReceived || syn.header.seq != self.tcb.handshake.irs {
            return Fate::OUT_OF_PLACE;
        }
        Arrival::new(&mut self.tcb, &syn.after_syn(), now).on_text()
    }

    /// Returns whether [`Connection::poll_transmit`] has something to do: something is due, was never
    /// sent, or is lost. It may still find that there is no segment to send.
    #[must_use]
    pub fn may_transmit(&self) -> bool {
        self.tcb.may_transmit()
    }

    /// Returns the next segment to send, if there is one, and counts it as sent. If there is none, frees
    /// the memory of empty buffers.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Outgoing<'_>> {
        Transmission::new(&mut self.tcb, 0, now).poll()
    }

    /// Returns the next segment to send as [`Connection::poll_transmit`] does, for a device that cuts large
    /// ones: if several full segments may leave one after the other, they are returned as one, with the size
    /// of each ([`Outgoing::cut`]), and of at most `most` bytes of payload together.
    pub fn poll_transmit_large(&mut self, most: usize, now: Instant) -> Option<Outgoing<'_>> {
        Transmission::new(&mut self.tcb, u32::try_from(most).unwrap_or(u32::MAX), now).poll()
    }

    /// Processes a report that a packet was too big (RFC 1191, RFC 8201): the segment that began at `seq`
    /// does not fit the path, and one of `mss` bytes after the 20 of its header would. Larger segments
    /// under way are sent again. Returns whether the report counted: whether the segment is under way.
    ///
    /// Anybody can send an ICMP error, so only one that quotes a segment under way counts (RFC 5927, 4).
    pub fn on_packet_too_big(&mut self, seq: SeqNumber, mss: u16, now: Instant) -> bool {
        let counts = self.tcb.is_under_way(seq);
        if counts {
            self.tcb.path.on_packet_too_big(mss, &self.tcb.negotiated, &mut self.tcb.recovery, now);
        }
        counts
    }

    /// Processes a report that the destination is unreachable. While the connection is being opened, a
    /// refusal ends it (`hard`: port or protocol, RFC 9293, 3.9.2.2). Later the condition may pass: the
    /// report is only the reason if the connection fails without a sign of the peer (RFC 5461, 4.1).
    /// Returns whether the report counted: whether the segment that began at `seq` is under way.
    pub fn on_unreachable(&mut self, seq: SeqNumber, hard: bool) -> bool {
        let counts = self.tcb.is_under_way(seq);
        if counts && hard && !self.tcb.state.is_synchronized() {
            self.tcb.fail(Error::Refused);
        }
        self.tcb.failure.unreachable |= counts;
        counts
    }

    /// Records that the segment that began at `seq` could not leave, because the next hop does not answer
    /// (see [`Endpoint::next_hop_silent`](crate::endpoint::Endpoint::next_hop_silent)). Returns whether it
    /// is under way.
    pub fn on_next_hop_silent(&mut self, seq: SeqNumber) -> bool {
        let under_way = self.tcb.is_under_way(seq);
        if under_way && !self.tcb.state.is_synchronized() {
            self.tcb.fail(Error::Unreachable);
        }
        self.tcb.failure.unreachable |= under_way;
        under_way
    }
}

/// Deadlines.
impl Connection {
    /// Returns the time at which [`Connection::on_deadline`] is to be called; [`Instant::NEVER`] if
    /// nothing is due at all.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        self.pace_deadline().min(self.next_deadline_but_pace())
    }

    /// Returns the time at which the pacer releases the next segment; [`Instant::NEVER`] if none waits.
    /// Callers should meet it exactly; other deadlines may be late.
    pub(crate) const fn pace_deadline(&self) -> Instant {
        if matches!(self.tcb.state, State::Closed) { Instant::NEVER } else { self.tcb.timers.pace.deadline() }
    }

    /// Returns the first deadline other than the pacer's; [`Instant::NEVER`] if there is none.
    pub(crate) fn next_deadline_but_pace(&self) -> Instant {
        if self.tcb.state == State::Closed {
            return Instant::NEVER;
        }
        self.tcb.recovery.next_deadline().min(self.tcb.timers.deadline()).min(self.tcb.user_timeout())
    }

    /// Returns the next deadline and its purpose; `None` if nothing is due at all.
    #[must_use]
    pub fn deadline(&self) -> Option<(Instant, Timer)> {
        if self.tcb.state == State::Closed {
            return None;
        }
        let timers = &self.tcb.timers;
        let all = [
            (self.tcb.recovery.next_deadline(), Timer::Recovery),
            (timers.delayed_ack.deadline(), Timer::DelayedAck),
            (timers.pace.deadline(), Timer::Pace),
            (timers.persist.deadline(), Timer::Persist),
            (timers.keepalive.deadline(), Timer::Keepalive),
            (timers.two_msl, Timer::TwoMsl),
            (self.tcb.user_timeout(), Timer::GiveUp),
        ];
        all.into_iter().min().filter(|(at, _)| *at != Instant::NEVER)
    }

    /// Processes the deadlines that have passed at `now`. Does nothing if none has.
    pub fn on_deadline(&mut self, now: Instant) {
        // Several deadlines may have passed. Each stops its timer, or sets it to later than `now`; one of
        // loss recovery may set another that is due at once.
        for _ in 0..2 * Timer::KINDS {
            let Some((_, timer)) = self.deadline().filter(|(at, _)| *at <= now) else { return };
            Expiry::new(&mut self.tcb, now).process(timer);
        }
    }
}

/// The memory that all connections share.
impl Connection {
    /// Returns the bytes of memory that the connection's buffers own: for data to be sent, acknowledged or
    /// read, and spare room besides.
    #[must_use]
    #[inline]
    pub fn held(&self) -> usize {
        self.tcb.snd.buffer.capacity() + self.tcb.rcv.buffer.capacity()
    }

    /// Sets how much more memory the connection may take. If others share the memory, the caller sets it
    /// before every call.
    pub const fn set_allowance(&mut self, allowance: Allowance) {
        self.tcb.allowance = allowance;
    }

    /// Takes memory from `spares` for `more` bytes that the user is about to write. `id` names the
    /// connection.
    pub(crate) fn borrow_to_send(&mut self, spares: &mut Spares, more: usize, id: Id) {
        self.tcb.snd.buffer.borrow_from(spares, more, id);
    }

    /// Takes memory from `spares` for a segment that has come with `more` bytes of payload. `id` names the
    /// connection.
    #[inline]
    pub(crate) fn borrow_to_receive(&mut self, spares: &mut Spares, more: usize, id: Id) {
        self.tcb.rcv.buffer.borrow_from(spares, more, id);
    }

    /// Gives the memory of empty buffers to `spares`: see [`Spares::take`].
    #[inline]
    pub(crate) fn give_to(&mut self, spares: &mut Spares, id: Id) {
        self.tcb.snd.buffer.give_to(spares, id);
        self.tcb.rcv.buffer.give_to(spares, id);
    }

    /// Returns whether data has come out of order. It takes memory up to where it belongs.
    #[must_use]
    pub fn has_holes(&self) -> bool {
        self.tcb.rcv.buffer.has_holes()
    }

    /// Discards data that has come out of order, and frees its memory for others.
    pub fn renege(&mut self) {
        self.tcb.rcv.renege(&mut self.tcb.counted);
    }
}
