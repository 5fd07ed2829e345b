//! Incoming segments: RFC 9293, 3.10.7.4, up to the acknowledgment; RFC 5961 for segments out of place;
//! RFC 7323, 5, for old ones.

use super::super::counters::Counter;
use super::super::drop::{Fate, TcpDrop};
use super::super::segment::{Ecn, Flags, Header, Segment};
use super::super::seq::SeqRange;
use super::super::state::State;
use super::config::Config;
use super::error::Error;
use super::tcb::{Challenges, Connection};
use crate::time::Instant;

/// The fate of a segment that is too old, or not from the peer.
pub(super) const OUT_OF_PLACE: Fate = Fate::Dropped(TcpDrop::NotAcceptable);

impl Connection {
    /// Processes a segment of this connection, whose checksum the caller has verified. Returns its fate.
    pub fn on_segment(&mut self, segment: &Segment<'_>, now: Instant) -> Fate {
        if self.is_expected(segment, now) {
            self.counts.segments_in += 1;
            return self.on_expected(segment, now);
        }
        self.on_unpredicted(segment, now)
    }

    /// Processes a segment step by step, without header prediction. Returns its fate.
    pub(crate) fn on_unpredicted(&mut self, segment: &Segment<'_>, now: Instant) -> Fate {
        self.counts.segments_in += 1;
        match self.state {
            State::Closed | State::Listen => OUT_OF_PLACE,
            State::SynSent => self.in_syn_sent(segment, now),
            State::SynReceived => self.in_other_states(&self.without_known_syn(segment), now),
            _ => self.in_other_states(segment, now),
        }
    }

    /// Returns a segment without the SYN that brought us to SYN-RECEIVED, if it comes again: alone, if our
    /// SYN-ACK was lost, or as SYN-ACK, if both sides open at the same time. The rest of it counts
    /// ("tailor actual segments", RFC 9293, 3.10.7.4). A reset stays as it is: its sequence number must be
    /// exactly right.
    fn without_known_syn<'a>(&self, segment: &Segment<'a>) -> Segment<'a> {
        let header = &segment.header;
        let known = header.flags.contains(Flags::SYN)
            && !header.flags.contains(Flags::RST)
            && header.seq == self.rcv.irs;
        if !known {
            return *segment;
        }
        // The window of a SYN is not scaled (RFC 7323, 2.2), but that of the rest will be taken to be.
        let window = header.window >> self.snd.shift;
        let flags = header.flags.without(Flags::SYN);
        Segment { header: Header { seq: header.seq + 1, flags, window, ..*header }, ..*segment }
    }

    fn in_other_states(&mut self, segment: &Segment<'_>, now: Instant) -> Fate {
        let flags = segment.header.flags;
        if flags.contains(Flags::RST) {
            return self.on_reset(&segment.header, now);
        }
        if self.lacks_timestamp(&segment.header) {
            self.counts.paws += 1;
            return OUT_OF_PLACE;
        }
        if self.is_old(&segment.header, now) || !self.is_acceptable(segment) {
            return self.answer_unacceptable(segment, now);
        }
        if flags.contains(Flags::SYN) {
            // RFC 5961, 4.2: whatever its number.
            self.tally.note(Counter::SynChallenge);
            self.challenge(now);
            return OUT_OF_PLACE;
        }
        if !flags.contains(Flags::ACK) {
            // Our SYN-ACK was lost: the peer repeats its SYN, which `without_known_syn` took away.
            self.due.syn |= self.state == State::SynReceived && segment.payload_len() == 0;
            return Fate::Control;
        }
        if !self.on_ack(segment, now) {
            return OUT_OF_PLACE;
        }
        // Not before the check of the acknowledgment: a stranger that cannot guess it could make the
        // peer's segments seem old.
        self.hear_timestamp(&segment.header, now);
        self.restart_keepalive(now);
        self.note_congestion(segment);
        // URG has no effect: urgent data stays in its place in the stream. See `Connection::read`.
        let fate = self.on_text(segment, now);
        self.on_fin(segment, now);
        fate
    }

    /// Returns whether a segment lacks the timestamp that both sides agreed on; it is then dropped
    /// silently (RFC 7323, 3.2). A SYN is excepted: a peer that has begun anew must get an answer (RFC
    /// 5961, 4.2). The caller handles resets before.
    const fn lacks_timestamp(&self, header: &Header) -> bool {
        self.clock.is_some() && header.options.timestamps.is_none() && !header.flags.contains(Flags::SYN)
    }

    /// Returns whether a segment is old by PAWS (RFC 7323, 5.3, R1), and counts it if so.
    fn is_old(&mut self, header: &Header, now: Instant) -> bool {
        let (Some(clock), Some(clocks)) = (&self.clock, header.options.timestamps) else { return false };
        let old = clock.is_old(clocks.value, now);
        self.counts.paws += u32::from(old);
        self.tally.note_if(old, Counter::PawsEstab);
        old
    }

    /// Returns whether a segment touches the window: the first check of RFC 9293, 3.10.7.4.
    ///
    /// The check is more lenient in two cases, as in other implementations. A peer that has filled the
    /// window acknowledges with the number at its right edge. And a segment that comes while the window is
    /// closed may have an acknowledgment; its text is cut off later.
    fn is_acceptable(&self, segment: &Segment<'_>) -> bool {
        let (range, nxt) = (segment.range(), self.rcv.nxt());
        let begins_in_time = range.start.at_or_before(self.rcv.edge);
        begins_in_time && if range.is_empty() { range.start.at_or_after(nxt) } else { range.end.after(nxt) }
    }

    /// Answers a segment that is not acceptable. "If an incoming segment is not acceptable, an
    /// acknowledgment should be sent in reply", and a DSACK with it (RFC 2883, 4).
    fn answer_unacceptable(&mut self, segment: &Segment<'_>, now: Instant) -> Fate {
        let nxt = self.rcv.nxt();
        if self.state == State::TimeWait && segment.header.flags.contains(Flags::FIN) {
            // Our last ACK was lost. "Acknowledge it, and restart the 2 MSL timeout."
            self.start_time_wait(now);
        }
        if segment.is_empty() {
            self.challenge(now);
            return OUT_OF_PLACE;
        }
        self.due.ack = true;
        if segment.range().start.after(self.rcv.edge) {
            return Fate::Dropped(TcpDrop::NoRoom);
        }
        if segment.range().start.before(nxt) {
            self.counts.duplicates += 1;
            self.tally.note(Counter::DelayedAckLost);
            // An old segment may reach beyond the data that has come.
            let end = segment.header.seq + segment.payload_len() as u32;
            self.rcv.dsack = Some(SeqRange::new(segment.header.seq, end.min(nxt)));
        }
        OUT_OF_PLACE
    }

    /// Answers a segment out of place with an ACK, so that a peer that really lost its state can reset us
    /// with the right number. At most [`Config::challenge_acks_max`] leave in each period.
    pub(super) fn challenge(&mut self, now: Instant) {
        let challenges = self.challenges.get_or_insert_default();
        if challenges.answered == 0 || now.since(challenges.since) >= Config::CHALLENGE_PERIOD {
            **challenges = Challenges { since: now, answered: 0 };
        }
        if challenges.answered < self.config.challenge_acks_max {
            challenges.answered += 1;
            self.counts.challenge_acks += 1;
            self.tally.note(Counter::ChallengeAck);
            self.due.ack = true;
        } else {
            self.tally.note(Counter::AckSkippedChallenge);
        }
    }

    /// Processes a reset: only one with exactly the expected sequence number counts (RFC 5961, 3.2).
    fn on_reset(&mut self, header: &Header, now: Instant) -> Fate {
        let nxt = self.rcv.nxt();
        // RFC 1337, 3: a reset must not end TIME-WAIT early.
        if self.state == State::TimeWait || header.seq.before(nxt) || header.seq.after(self.rcv.edge) {
            return OUT_OF_PLACE;
        }
        if header.seq != nxt {
            self.challenge(now);
            return OUT_OF_PLACE;
        }
        match self.state {
            // An active opener was refused. With Fast Open the user has the connection already, and may have
            // read from it (RFC 7413, 4.2.2).
            State::SynReceived if self.snd.fast_open.is_none() => self.fail(Error::Refused),
            // Both sides have closed. If the peer did not get all of our data, the user gets the error, as
            // in other implementations; else nothing is lost.
            State::Closing | State::LastAck if self.snd.buffer.is_empty() => self.end(),
            _ => self.fail(Error::Reset),
        }
        Fate::Control
    }

    /// Records the timestamp to echo: that of the segment for which the last ACK was sent (RFC 7323, 4.3).
    pub(super) fn hear_timestamp(&mut self, header: &Header, now: Instant) {
        let (Some(clock), Some(clocks)) = (&mut self.clock, header.options.timestamps) else { return };
        if header.seq.at_or_before(self.rcv.acked) {
            clock.hear(clocks.value, now);
        }
    }

    /// Records whether to send ECE: from the first mark of congestion until CWR (RFC 3168, 6.1.3). A
    /// segment may have both.
    fn note_congestion(&mut self, segment: &Segment<'_>) {
        if !self.ecn || segment.is_empty() {
            return;
        }
        self.rcv.ece &= !segment.header.flags.contains(Flags::CWR);
        self.rcv.ece |= segment.header.ecn == Ecn::Experienced;
    }

    /// Answers a segment that acknowledges what was never sent: `<SEQ=SEG.ACK><CTL=RST>`, unless it is a
    /// reset itself.
    pub(super) fn answer_with_reset(&mut self, segment: &Segment<'_>) {
        if !segment.header.flags.contains(Flags::RST) {
            self.due.reset = Some((segment.header.ack, Flags::RST));
        }
    }
}
