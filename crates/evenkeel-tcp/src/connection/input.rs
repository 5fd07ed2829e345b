//! The processing of an arriving segment: RFC 9293, 3.10.7.4, in its order; RFC 5961 for segments out of
//! place; RFC 7323, 5, for old ones.
//!
//! `syn_sent.rs` has the state SYN-SENT, `ack.rs` the acknowledgment, and `predicted.rs` a short path for
//! the segment that is next in order.

use super::super::buffer::Insertion;
use super::super::counters::Counter;
use super::super::drop::{Fate, TcpDrop};
use super::super::segment::{Flags, Header, Segment};
use super::super::seq::SeqRange;
use super::super::state::{State, StateEvent};
use super::ack::{AckError, Acknowledgment};
use super::error::Error;
use super::reset::Reset;
use super::syn_sent::SynSent;
use super::tcb::Tcb;
use crate::time::Instant;

/// A segment that arrives at a connection.
pub(super) struct Arrival<'c, 's> {
    tcb: &'c mut Tcb,
    segment: &'c Segment<'s>,
    now: Instant,
}

impl<'c, 's> Arrival<'c, 's> {
    #[inline(always)]
    pub(super) const fn new(tcb: &'c mut Tcb, segment: &'c Segment<'s>, now: Instant) -> Self {
        Self { tcb, segment, now }
    }

    /// Processes the segment. Returns its fate.
    pub(super) fn process(mut self) -> Fate {
        match self.tcb.state {
            State::Closed | State::Listen => Fate::OUT_OF_PLACE,
            State::SynSent => self.in_syn_sent(),
            State::SynReceived => {
                let segment = self.without_known_syn();
                Arrival::new(self.tcb, &segment, self.now).in_other_states()
            }
            _ => self.in_other_states(),
        }
    }

    /// Processes the segment in SYN-SENT. "If there are other controls or text in the segment, then continue
    /// processing at the sixth step."
    fn in_syn_sent(&mut self) -> Fate {
        let answer = SynSent::new(self.tcb, self.segment, self.now).process();
        let Some(rest) = answer.rest else { return answer.fate };
        let mut arrival = Arrival::new(self.tcb, &rest, self.now);
        let fate = arrival.on_text();
        arrival.on_fin();
        fate
    }

    /// Returns the segment without the SYN that brought us to SYN-RECEIVED, if it comes again: alone, if our
    /// SYN-ACK was lost, or as SYN-ACK, if both sides open at the same time. The rest of it counts
    /// ("tailor actual segments"). A reset stays as it is: its sequence number must be exactly right.
    fn without_known_syn(&self) -> Segment<'s> {
        let header = &self.segment.header;
        let known = header.flags.contains(Flags::SYN)
            && !header.flags.contains(Flags::RST)
            && header.seq == self.tcb.handshake.irs;
        if !known {
            return *self.segment;
        }
        // The window of a SYN is not scaled (RFC 7323, 2.2), but that of the rest will be taken to be.
        let window = header.window >> self.tcb.snd.shift;
        let flags = header.flags.without(Flags::SYN);
        Segment { header: Header { seq: header.seq + 1, flags, window, ..*header }, ..*self.segment }
    }

    fn in_other_states(&mut self) -> Fate {
        let header = &self.segment.header;
        if header.flags.contains(Flags::RST) {
            return self.on_reset();
        }
        if self.tcb.negotiated.lacks_timestamp(header) {
            self.tcb.counts.paws += 1;
            return Fate::OUT_OF_PLACE;
        }
        if self.is_old() || !self.tcb.rcv.is_acceptable(self.segment) {
            return self.answer_unacceptable();
        }
        if header.flags.contains(Flags::SYN) {
            // RFC 5961, 4.2: whatever its number.
            self.tcb.counted.add(Counter::SynChallenge);
            self.tcb.challenge(self.now);
            return Fate::OUT_OF_PLACE;
        }
        if !header.flags.contains(Flags::ACK) {
            // Our SYN-ACK was lost: the peer repeats its SYN, which `without_known_syn` took away.
            let repeated = self.tcb.state == State::SynReceived && self.segment.payload_len() == 0;
            self.tcb.syn_due |= repeated;
            return Fate::Control;
        }
        match Acknowledgment::new(self.tcb, self.segment, self.now).process() {
            Ok(()) => self.after_ack(),
            Err(AckError::NotOurSyn) => {
                self.tcb.reset = Reset::answer_to(self.segment).or(self.tcb.reset);
                Fate::OUT_OF_PLACE
            }
            Err(AckError::OutOfRange) => {
                self.tcb.challenge(self.now);
                Fate::OUT_OF_PLACE
            }
        }
    }

    /// Processes the rest of the segment after its acknowledgment.
    fn after_ack(&mut self) -> Fate {
        // Not before the check of the acknowledgment: a stranger that cannot guess it could make the
        // peer's segments seem old.
        let last_ack = self.tcb.timers.delayed_ack.last_sent();
        self.tcb.negotiated.on_segment(&self.segment.header, last_ack, self.now);
        if self.tcb.state != State::TimeWait {
            self.tcb.timers.keepalive.restart(self.tcb.config.keepalive, self.now);
        }
        self.tcb.ecn.on_segment(self.segment);
        // URG has no effect: urgent data stays in its place in the stream. See `Connection::read`.
        let fate = self.on_text();
        self.on_fin();
        fate
    }

    /// Returns whether the segment is old by PAWS (RFC 7323, 5.3, R1), and counts it if so.
    fn is_old(&mut self) -> bool {
        let old = self.tcb.negotiated.is_old(&self.segment.header, self.now);
        self.tcb.counts.paws += u32::from(old);
        self.tcb.counted.add_if(old, Counter::PawsEstab);
        old
    }

    /// Answers a segment that is not acceptable. "If an incoming segment is not acceptable, an
    /// acknowledgment should be sent in reply", and a DSACK with it (RFC 2883, 4).
    fn answer_unacceptable(&mut self) -> Fate {
        let segment = self.segment;
        if self.tcb.state == State::TimeWait && segment.header.flags.contains(Flags::FIN) {
            // Our last ACK was lost. "Acknowledge it, and restart the 2 MSL timeout."
            self.tcb.start_time_wait(self.now);
        }
        if segment.is_empty() {
            self.tcb.challenge(self.now);
            return Fate::OUT_OF_PLACE;
        }
        self.tcb.timers.delayed_ack.send_now();
        let start = segment.range().start;
        if start.after(self.tcb.rcv.edge) {
            return Fate::Dropped(TcpDrop::NoRoom);
        }
        if start.before(self.tcb.rcv.nxt()) {
            self.tcb.counts.duplicates += 1;
            self.tcb.counted.add(Counter::DelayedAckLost);
            let seq = segment.header.seq;
            self.tcb.rcv.on_duplicate(seq, seq + segment.payload_len() as u32);
        }
        Fate::OUT_OF_PLACE
    }

    /// Processes a reset: only one with exactly the expected sequence number counts (RFC 5961, 3.2).
    fn on_reset(&mut self) -> Fate {
        let (seq, nxt) = (self.segment.header.seq, self.tcb.rcv.nxt());
        // RFC 1337, 3: a reset must not end TIME-WAIT early.
        if self.tcb.state == State::TimeWait || seq.before(nxt) || seq.after(self.tcb.rcv.edge) {
            return Fate::OUT_OF_PLACE;
        }
        if seq != nxt {
            self.tcb.challenge(self.now);
            return Fate::OUT_OF_PLACE;
        }
        match self.tcb.state {
            // An active opener was refused. With Fast Open the user has the connection already, and may have
            // read from it (RFC 7413, 4.2.2).
            State::SynReceived if self.tcb.handshake.fast_open.is_none() => self.tcb.fail(Error::Refused),
            // Both sides have closed. If the peer did not get all of our data, the user gets the error, as
            // in other implementations; else nothing is lost.
            State::Closing | State::LastAck if self.tcb.snd.buffer.is_empty() => self.tcb.end(),
            State::CloseWait => self.tcb.fail(Error::BrokenPipe),
            _ => self.tcb.fail(Error::Reset),
        }
        Fate::Control
    }

    /// Processes the text of the segment (seventh step).
    pub(super) fn on_text(&mut self) -> Fate {
        let (tcb, segment) = (&mut *self.tcb, self.segment);
        if segment.is_empty() || !tcb.state.may_receive() {
            return Fate::Control;
        }
        let range = SeqRange::at(segment.header.seq, segment.payload_len() as u32);
        if tcb.rcv.closed && range.end.after(tcb.rcv.nxt()) {
            // The user will not read it, and the peer should know (RFC 9293, 3.6.1).
            tcb.counted.add(Counter::AbortOnData);
            tcb.abort();
            return Fate::Control;
        }
        let fits = tcb.rcv.admit(range, tcb.allowance, &mut tcb.counted);
        let had_holes = tcb.rcv.buffer.has_holes();
        let insertion = tcb.rcv.insert(fits, segment.payload);
        let whole = fits == range && !insertion.refused;
        // RFC 5681, 4.2: data out of order, or that fills a hole, is acknowledged at once. So is data without
        // room.
        let at_once = had_holes || tcb.rcv.buffer.has_holes() || insertion.duplicate.is_some() || !whole;
        let ack = &mut tcb.timers.delayed_ack;
        ack.on_segment(range.len(), tcb.rcv.mss);
        ack.send_now_if(at_once);
        ack.on_text(tcb.rcv.nxt(), tcb.rcv.mss, tcb.config.ack_delay, self.now);
        if range.is_empty() { Fate::Control } else { self.count_text(range, &insertion, whole) }
    }

    /// Counts the text of the segment, at `range`, of which `insertion` tells what became; `whole` is whether
    /// all of it found room. Returns its fate.
    fn count_text(&mut self, range: SeqRange, insertion: &Insertion, whole: bool) -> Fate {
        let (counts, counted) = (&mut self.tcb.counts, &mut self.tcb.counted);
        let advanced = insertion.advanced > 0;
        let duplicate = insertion.duplicate == Some(range);
        let out_of_order = !advanced && whole && !duplicate;
        counts.bytes_in += u64::from(insertion.advanced);
        counts.out_of_order += u32::from(out_of_order);
        counts.duplicates += u32::from(duplicate);
        counts.no_room += u32::from(!whole);
        counted.add_if(out_of_order, Counter::OfoQueue);
        counted.add_if(duplicate, Counter::DelayedAckLost);
        if !whole {
            let closed = self.tcb.rcv.window() == 0;
            counted.add(if closed { Counter::ZeroWindowDrop } else { Counter::RcvQDrop });
        }
        if advanced || out_of_order {
            Fate::Data
        } else if whole {
            Fate::OUT_OF_PLACE
        } else {
            Fate::Dropped(TcpDrop::NoRoom)
        }
    }

    /// Processes the FIN of the segment, or that of an earlier one whose data is now complete (eighth step).
    pub(super) fn on_fin(&mut self) {
        let (tcb, segment) = (&mut *self.tcb, self.segment);
        let has_fin = segment.header.flags.contains(Flags::FIN);
        if tcb.state == State::TimeWait && has_fin {
            // "Acknowledge it, and restart the 2 MSL timeout."
            tcb.timers.delayed_ack.send_now();
            tcb.start_time_wait(self.now);
        }
        if !tcb.state.may_receive() {
            return;
        }
        if has_fin {
            tcb.rcv.on_fin(segment.header.seq + segment.payload_len() as u32);
            tcb.timers.delayed_ack.send_now();
        }
        if tcb.rcv.take_fin() {
            tcb.timers.delayed_ack.send_now();
            tcb.step(StateEvent::Fin);
            if tcb.state == State::TimeWait {
                tcb.start_time_wait(self.now);
            }
        }
    }
}
