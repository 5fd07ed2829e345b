//! The choice of the next segment to send (RFC 9293, 3.8).
//!
//! The order is: a reset; a SYN; a tail loss probe; lost data; new data; a probe of the window, or of the
//! peer; an acknowledgment, unless one of the others brought it.

use super::super::counters::Counter;
use super::super::recovery::RecoveryState;
use super::super::segment::{Ecn, Flags, Header, Segment};
use super::super::seq::{SeqNumber, SeqRange};
use super::super::state::State;
use super::tcb::Connection;
use crate::time::Instant;

/// An outgoing segment, and whether it only repeats an earlier one.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// The segment.
    pub segment: Segment<'a>,
    /// Whether the segment only repeats an earlier one (RFC 4022: it is not among `tcpOutSegs`).
    pub again: bool,
}

/// The next segment to send, other than a SYN or a reset.
struct Next {
    seq: SeqNumber,
    flags: Flags,
    /// The range of the send buffer that is the segment's payload.
    payload: SeqRange,
    ecn: Ecn,
    /// Whether the payload was sent before.
    again: bool,
}

impl Next {
    /// Returns a segment without payload that was not sent before.
    fn bare(seq: SeqNumber) -> Self {
        let payload = SeqRange::default();
        Self { seq, flags: Flags::NONE, payload, ecn: Ecn::NotCapable, again: false }
    }
}

/// A candidate for the next segment with new data.
struct Candidate {
    range: SeqRange,
    /// The bytes never sent, from which the candidate is taken.
    queued: u32,
    /// The bytes that a segment has room for.
    full: u32,
}

impl Connection {
    /// Returns whether [`Connection::poll_transmit`] has something to do: something is due, was never
    /// sent, or is lost. It may still find that there is no segment to send.
    #[must_use]
    pub fn may_transmit(&self) -> bool {
        self.due.any() || self.state != State::Closed && (self.snd.unsent() > 0 || self.recovery.has_lost())
    }

    /// Returns the next segment to send, if there is one, and counts it as sent. If there is none, frees
    /// the memory of empty buffers.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Outgoing<'_>> {
        if !self.may_transmit() {
            self.after_last();
            return None;
        }
        // Only while opening: later SND.UNA comes round to ISS, after 4 GiB.
        let opening = matches!(self.state, State::SynSent | State::SynReceived);
        if (opening || self.due.reset.is_some())
            && let Some((header, payload, again)) = self.reset_or_syn(now)
        {
            return Some(self.outgoing(header, payload, again));
        }
        let Some(Next { seq, flags, payload, ecn, again }) = self.next_segment(now) else {
            self.after_last();
            return None;
        };
        let header = Header { ecn, ..self.header(seq, flags, now) };
        Some(self.outgoing(header, payload, again))
    }

    /// Ends a train of segments, unless the next waits for the pacer, when nothing leaves now. Frees the
    /// memory of empty buffers.
    #[inline]
    fn after_last(&mut self) {
        if self.timers.pace == Instant::NEVER {
            self.recovery.end_train();
        }
        if self.recovery.measures() {
            self.note_limit();
        }
        self.release_idle_memory();
    }

    /// Records that the path does not limit the connection, if that is so: less than a segment is unsent
    /// (draft-ietf-ccwg-bbr, 4.1.2.4), or the unsent data waits for neither the congestion window nor the
    /// pacer. Then Nagle's algorithm, a small window of the peer's, or the user is the limit.
    ///
    /// The path may be full though the peer's window is the limit. So samples count for the path if more
    /// than half of the congestion window is in flight, which is twice what the path holds.
    #[cold]
    fn note_limit(&mut self) {
        let recovery = &self.recovery;
        let held_back =
            || recovery.may_send(self.payload_max().into()) && recovery.in_flight() <= recovery.cwnd() / 2;
        if self.timers.pace == Instant::NEVER && (self.has_little_to_send() || held_back()) {
            self.recovery.on_nothing_to_send();
        }
    }

    /// Records that the path does not limit the connection, if the segment that has just left was the
    /// last.
    #[cold]
    fn note_last(&mut self) {
        if self.has_little_to_send() {
            self.recovery.on_nothing_to_send();
        }
    }

    fn has_little_to_send(&self) -> bool {
        self.snd.unsent() < self.payload_max().into() && !self.recovery.has_lost()
    }

    #[inline]
    fn outgoing(&mut self, header: Header, payload: SeqRange, again: bool) -> Outgoing<'_> {
        let segment = Segment { header, payload: self.snd.buffer.get(payload) };
        self.counts.segments_out += 1;
        self.counts.bytes_out += segment.payload_len() as u64;
        Outgoing { segment, again }
    }

    /// Returns the header of a reset, SYN or SYN-ACK that is due, the range of its payload, and whether it
    /// was sent before.
    #[cold]
    fn reset_or_syn(&mut self, now: Instant) -> Option<(Header, SeqRange, bool)> {
        match self.due.reset.take() {
            Some((seq, flags)) => Some((self.reset_header(seq, flags, now), SeqRange::default(), false)),
            None => self.syn(now),
        }
    }

    fn next_segment(&mut self, now: Instant) -> Option<Next> {
        match self.state {
            State::Closed | State::Listen | State::SynSent => None,
            State::TimeWait => self.acknowledgment(),
            _ => self
                .repair(now)
                .or_else(|| self.new_data(now))
                .or_else(|| self.repair_after_all(now))
                .or_else(|| self.probe(now))
                .or_else(|| self.acknowledgment()),
        }
    }

    /// Returns a tail loss probe or a retransmission, if either is due and may leave.
    #[inline]
    fn repair(&mut self, now: Instant) -> Option<Next> {
        if !self.due.tail_loss_probe && !self.recovery.has_lost() {
            return None;
        }
        self.tail_loss_probe(now).or_else(|| self.lost(now))
    }

    /// Returns a retransmission if F-RTO waits for new data to find out whether a timeout was spurious
    /// (RFC 5682, 3.1, step 2a), and no new data may leave.
    #[inline]
    fn repair_after_all(&mut self, now: Instant) -> Option<Next> {
        let waits = self.recovery.has_lost() && self.timers.pace == Instant::NEVER;
        if waits && self.recovery.give_up_new_data() { self.lost(now) } else { None }
    }

    /// Returns a window probe or a keep-alive probe, if either is due.
    #[inline]
    fn probe(&mut self, now: Instant) -> Option<Next> {
        if !self.due.window_probe && !self.due.keepalive {
            return None;
        }
        self.window_probe(now).or_else(|| self.keepalive_probe())
    }

    /// Returns the header of a SYN or SYN-ACK that is due or lost, the range of its payload, and whether
    /// it was sent before.
    fn syn(&mut self, now: Instant) -> Option<(Header, SeqRange, bool)> {
        let first = self.snd.nxt == self.snd.iss;
        let lost = || self.recovery.next_retransmission(1).is_some_and(|range| range.start == self.snd.iss);
        if !(core::mem::take(&mut self.due.syn) || !first && lost()) {
            return None;
        }
        let header = self.syn_header(first, now);
        self.snd.ect &= header.flags.contains(Flags::ECE);
        if let Some(fast_open) = &mut self.snd.fast_open {
            fast_open.again = !first;
        }
        self.tally.note_if(!first, Counter::SynRetrans);
        self.tally.note_if(!first, Counter::RetransSegs);
        let syn = SeqRange::at(self.snd.iss, 1);
        self.recovery.on_sent(syn, !first, now);
        self.snd.nxt = self.snd.nxt.max(syn.end);
        let data = if first && self.state == State::SynSent { self.early_data(&header, now) } else { 0 };
        Some((header, SeqRange::at(syn.end, data), !first))
    }

    /// Returns the bytes of data that leave with a SYN that has a cookie (RFC 7413, 4.1.2).
    fn early_data(&mut self, header: &Header, now: Instant) -> u32 {
        let Some(fast_open) = &mut self.snd.fast_open else { return 0 };
        let room = usize::from(self.snd.mss.min(fast_open.mss)).saturating_sub(header.options.len());
        if fast_open.cookie.is_some_and(|cookie| !cookie.is_request()) {
            fast_open.data = room.min(self.snd.buffer.len()) as u32;
            fast_open.sent_at = now;
        }
        fast_open.data
    }

    /// Returns a tail loss probe, if one is due: new data if the window has room, else the last segment
    /// again (RFC 8985, 7.3).
    #[cold]
    fn tail_loss_probe(&mut self, now: Instant) -> Option<Next> {
        if !core::mem::take(&mut self.due.tail_loss_probe) {
            return None;
        }
        self.tally.note(Counter::LossProbes);
        if let Some(new) = self.candidate() {
            return self.data(new.range, false, now);
        }
        let Some(range) = self.recovery.probe_range(self.room() as u16, self.snd.edge()) else {
            self.recovery.skip_probe();
            return None;
        };
        self.data(range, true, now)
    }

    /// Returns a retransmission within the peer's present window: the peer would discard data beyond it
    /// (RFC 9293, 3.8.6, SHLD-16).
    #[cold]
    fn lost(&mut self, now: Instant) -> Option<Next> {
        let range = self.recovery.next_retransmission(self.room() as u16)?;
        let range = range.intersection(SeqRange::new(range.start, self.snd.edge()));
        let waits =
            |connection: &mut Self| !connection.recovery.may_send(range.len()) || connection.must_pace(now);
        if range.is_empty() || !self.due.retransmission && waits(self) {
            return None;
        }
        self.due.retransmission = false;
        let after_timeout = self.recovery.state() == RecoveryState::Loss;
        self.tally.note(if after_timeout { Counter::SlowStartRetrans } else { Counter::FastRetrans });
        self.data(range, true, now)
    }

    fn new_data(&mut self, now: Instant) -> Option<Next> {
        if self.snd.unsent() == 0 || self.is_opening() && self.snd.fast_open.is_none() {
            return None;
        }
        self.widen_path(now);
        let Some(new) = self.candidate().filter(|new| self.is_worth_sending(new)) else {
            self.start_persist(now);
            return None;
        };
        let bytes = new.range.len() - u32::from(new.range.end.after(self.snd.buffer.end()));
        // A FIN alone is too small to cause congestion, and it lets the peer free its resources.
        if bytes > 0 && (!self.recovery.may_send(bytes) || self.must_pace(now)) {
            return None;
        }
        self.data(new.range, false, now)
    }

    const fn is_opening(&self) -> bool {
        matches!(self.state, State::SynReceived)
    }

    /// Returns as much new data as the peer's window and one segment have room for, and the FIN if it is
    /// next.
    #[inline]
    fn candidate(&self) -> Option<Candidate> {
        let (queued, usable, full) =
            (self.snd.buffer.end().since(self.snd.nxt), self.snd.usable(), self.room());
        let bytes = queued.min(usable).min(full);
        let fin =
            self.snd.fin && bytes == queued && usable > bytes && self.snd.unsent() > 0 && !self.is_opening();
        let range = SeqRange::at(self.snd.nxt, bytes + u32::from(fin));
        (!range.is_empty()).then_some(Candidate { range, queued, full })
    }

    /// Returns the bytes of payload that the next segment has room for after its options.
    fn room(&self) -> u32 {
        u32::from(self.snd.mss).saturating_sub(self.options_len() as u32)
    }

    /// Returns whether a segment may leave under silly-window avoidance (RFC 9293, 3.8.6.2.1) and Nagle's
    /// algorithm (3.7.4) in Minshall's variant: a small segment waits only while another small one is on
    /// its way. So the last piece of a long write need not wait for the acknowledgment of the piece
    /// before.
    fn is_worth_sending(&self, new: &Candidate) -> bool {
        let len = new.range.len();
        if len >= new.full || new.range.end == self.snd.end() && self.snd.fin {
            return true;
        }
        if self.cork || self.more {
            return false;
        }
        let alone = !self.nagle || !self.snd.is_small_under_way();
        alone && (len == new.queued || len >= self.snd.wnd_max / 2)
    }

    /// Returns whether the pacer delays the next segment, and sets the timer to its release time if so.
    fn must_pace(&mut self, now: Instant) -> bool {
        let release = self.recovery.release_time(now).filter(|release| *release > now);
        if let Some(release) = release {
            self.timers.pace = release;
        }
        release.is_some()
    }

    /// Returns a segment with the bytes, and perhaps the FIN, of `range`, and records it as sent.
    #[inline]
    fn data(&mut self, range: SeqRange, again: bool, now: Instant) -> Option<Next> {
        let end = self.snd.buffer.end();
        let bytes = range.intersection(SeqRange::new(range.start, end));
        let mut flags = Flags::NONE;
        if range.end.after(end) {
            flags = flags | Flags::FIN;
        }
        if bytes.end == end && !bytes.is_empty() {
            flags = flags | Flags::PSH;
        }
        let is_new = !again && !bytes.is_empty();
        if is_new && core::mem::take(&mut self.snd.cwr) {
            flags = flags | Flags::CWR;
        }
        if is_new && bytes.len() < self.room() {
            self.snd.small = range.end;
        }
        if self.recovery.is_empty() {
            self.snd.progress = now;
        }
        self.stop_persist();
        self.tally.note_if(again, Counter::RetransSegs);
        self.recovery.on_sent(range, again, now);
        self.snd.nxt = self.snd.nxt.max(range.end);
        if self.recovery.measures() {
            self.note_last();
        }
        // RFC 3168, 6.1.4 and 6.1.5: only new data is marked as capable.
        let ecn = if self.ecn && self.snd.ect && is_new { Ecn::Capable } else { Ecn::NotCapable };
        Some(Next { seq: range.start, flags, payload: bytes, ecn, again })
    }

    /// Returns a window probe, if one is due: as much data as the window has room for, else a segment that
    /// asks for the window (RFC 9293, 3.8.6.1).
    ///
    /// The latter has the sequence number before SND.UNA and no data. It is never acceptable and so always
    /// answered, and there is no byte to remember as sent.
    #[cold]
    fn window_probe(&mut self, now: Instant) -> Option<Next> {
        let waits = self.snd.unsent() > 0 || !self.recovery.is_empty();
        if !core::mem::take(&mut self.due.window_probe) || !waits {
            return None;
        }
        self.tally.note(Counter::WinProbe);
        let backoff = self.timers.persist_backoff;
        let outgoing = match self.candidate() {
            Some(new) => self.data(new.range, false, now)?,
            None => Next::bare(self.snd.una - 1),
        };
        self.timers.persist_backoff = backoff;
        self.start_persist(now);
        Some(outgoing)
    }

    /// Returns a keep-alive probe, if one is due: SEG.SEQ = SND.NXT-1, without data (RFC 9293, 3.8.4).
    fn keepalive_probe(&mut self) -> Option<Next> {
        if !core::mem::take(&mut self.due.keepalive) {
            return None;
        }
        self.tally.note(Counter::KeepAlive);
        Some(Next::bare(self.snd.nxt - 1))
    }

    fn acknowledgment(&self) -> Option<Next> {
        self.due.ack.then(|| Next::bare(self.snd.nxt))
    }
}
