//! The SYN-RECEIVED state: the reactions of half-open connections to segments, before there is a connection
//! (RFC 9293, 3.10.7.4).

use super::{ANSWER_INTERVAL, Arrival, HalfOpen, Handshake, Listener, Reaction, millis, overflow, reset};
use crate::counters::{Counter, Counters};
use crate::options::Timestamps;
use crate::segment::{Flags, Header, Segment};
use crate::seq::SeqNumber;
use crate::table::Id;
use crate::time::Instant;
use crate::tuple::FourTuple;

impl Listener {
    /// Handles a segment for a half-open connection. The checks are in the order of RFC 9293, with its
    /// numbers "first" and so on.
    pub(super) fn handle_half_open(
        &mut self,
        id: Id,
        arrival: &Arrival<'_>,
        counters: &mut Counters,
    ) -> Reaction {
        let Some(&entry) = self.half_open.get(id) else { return Reaction::Nothing };
        let (header, now) = (&arrival.segment.header, arrival.now);
        let flags = header.flags;
        // The SYN is repeated: our SYN-ACK was lost.
        if header.seq == entry.irs && flags.contains(Flags::SYN) && !flags.intersects(Flags::ACK | Flags::RST)
        {
            return self.repeat_syn_ack(id, header, now, counters);
        }
        if flags.contains(Flags::RST) {
            return self.handle_reset(id, &entry, arrival, counters);
        }
        // First: timestamp (RFC 7323, 5.3) and sequence number.
        if entry.lacks_timestamp(header) {
            return Reaction::Nothing;
        }
        if entry.is_old(header) {
            return self.acknowledge_seldom(id, now, Some(Counter::PawsEstab), counters);
        }
        if !self.is_in_window(&entry, &arrival.segment) {
            return self.acknowledge_seldom(id, now, None, counters);
        }
        // Fourth, with RFC 5961, 4: a SYN in the window ends nothing. A peer that has restarted answers the
        // ACK with a reset, which does.
        if flags.contains(Flags::SYN) {
            return self.acknowledge_seldom(id, now, Some(Counter::SynChallenge), counters);
        }
        // Fifth: the ACK of our SYN.
        if !flags.contains(Flags::ACK) {
            return Reaction::Nothing;
        }
        if header.ack != entry.iss + 1 {
            return self.handle_other_ack(id, arrival, counters);
        }
        if !self.has_room() {
            return overflow(counters);
        }
        Reaction::Establish(self.establish(id, &entry, arrival))
    }

    /// Handles an acknowledgment of another number. It may acknowledge a cookie: the first SYN got one, then
    /// there was room, and the SYN was repeated.
    fn handle_other_ack(&mut self, id: Id, arrival: &Arrival<'_>, counters: &mut Counters) -> Reaction {
        if !self.expects_cookies(arrival) {
            return reset(&arrival.tuple, &arrival.segment.header);
        }
        let reaction = self.handle_ack(arrival, counters);
        if matches!(reaction, Reaction::Establish(_)) {
            self.remove(id);
        }
        reaction
    }

    fn establish(&mut self, id: Id, entry: &HalfOpen, arrival: &Arrival<'_>) -> Handshake {
        let sent_once = self.by_retries.first().filter(|_| entry.retries == 0 && !entry.sent_twice);
        let sent_at = sent_once.map(|queue| queue.since(&entry.place));
        self.remove(id);
        let mut handshake = entry.handshake(&arrival.tuple);
        // RFC 7323, 4.3: the timestamp of the segment that is next in order.
        let header = &arrival.segment.header;
        let in_order = header.options.timestamps.filter(|_| header.seq == entry.irs + 1);
        if let (Some(ts_recent), Some(new)) = (&mut handshake.ts_recent, in_order) {
            *ts_recent = new.value;
        }
        Handshake { sent_at, ..handshake }
    }

    /// Handles a reset. RFC 9293, 3.10.7.4, second, with RFC 5961, 3.2: a reset counts only with exactly the
    /// next number in order. The connection was opened passively, so this silently returns to LISTEN.
    fn handle_reset(
        &mut self,
        id: Id,
        entry: &HalfOpen,
        arrival: &Arrival<'_>,
        counters: &mut Counters,
    ) -> Reaction {
        if arrival.segment.header.seq == entry.irs + 1 {
            self.remove(id);
            counters.count(Counter::EmbryonicRsts);
            counters.count(Counter::AttemptFails);
            return Reaction::Nothing;
        }
        if !self.is_in_window(entry, &arrival.segment) {
            return Reaction::Nothing;
        }
        self.acknowledge_seldom(id, arrival.now, Some(Counter::ChallengeAck), counters)
    }

    /// Handles an ICMP error about our SYN-ACK, if it had the number `seq`. The SYN-ACK is sent again until
    /// its time is over, unless `hard` shows that this is useless (RFC 9293, 3.9.2.2). Returns whether the
    /// error was accepted.
    pub fn handle_unreachable(
        &mut self,
        tuple: &FourTuple,
        seq: SeqNumber,
        hard: bool,
        counters: &mut Counters,
    ) -> bool {
        let Some(id) = self.half_open.find(tuple) else { return false };
        let counts = self.half_open.get(id).is_some_and(|entry| entry.iss == seq);
        if counts && hard {
            self.remove(id);
            counters.count(Counter::AttemptFails);
        }
        counts
    }

    /// Returns whether some of the segment is in the window (RFC 9293, 3.4). A segment without length may be
    /// at its very end when the window is closed.
    fn is_in_window(&self, entry: &HalfOpen, segment: &Segment<'_>) -> bool {
        let (next, window) = (entry.irs + 1, u32::from(self.config.window));
        let first = segment.header.seq;
        match segment.seq_len() {
            0 => first == next || first.within(next, window),
            len => first.within(next, window) || (first + (len - 1)).within(next, window),
        }
    }

    fn repeat_syn_ack(&mut self, id: Id, syn: &Header, now: Instant, counters: &mut Counters) -> Reaction {
        // A SYN that was duplicated in the network needs no second answer.
        if now.since(self.syn_ack_sent_at(id)) < ANSWER_INTERVAL {
            counters.count(Counter::AckSkippedSynRecv);
            return Reaction::Nothing;
        }
        if let Some(entry) = self.half_open.get_mut(id) {
            entry.sent_twice = true;
            // RFC 3168, 6.1.1 and 6.1.1.1: a peer that requested ECN in vain, and now does not, gets none.
            entry.ecn &= syn.flags.contains(Flags::ECE | Flags::CWR);
        }
        self.take_place_of_timer(id, now);
        counters.count(Counter::SynRetrans);
        counters.count(Counter::RetransSegs);
        self.syn_ack(id, now).map_or(Reaction::Nothing, Reaction::SendAgain)
    }

    /// Moves a half-open connection to its next wait, because the answer to a repeated SYN replaces the
    /// SYN-ACK that the timer would send at about this time. A peer that gets both cannot explain the
    /// second (RFC 5961, 4.2). If there is no next wait, the last one begins anew, so that the peer has
    /// time to acknowledge the answer.
    fn take_place_of_timer(&mut self, id: Id, now: Instant) {
        let retries = self.retries(id);
        self.leave_queue(id);
        if retries + 1 < self.by_retries.len() {
            self.wait_longer(id, now);
        } else if let Some(last) = self.by_retries.last_mut() {
            last.push(&mut self.half_open, id, now);
        }
    }

    fn acknowledge_seldom(
        &mut self,
        id: Id,
        now: Instant,
        why: Option<Counter>,
        counters: &mut Counters,
    ) -> Reaction {
        let Some(entry) = self.half_open.get_mut(id) else { return Reaction::Nothing };
        if millis(now).wrapping_sub(entry.acked_at) < ANSWER_INTERVAL.as_millis() as u32 {
            counters.count(Counter::AckSkippedSynRecv);
            return Reaction::Nothing;
        }
        entry.acked_at = millis(now);
        if let Some(why) = why {
            counters.count(why);
        }
        self.acknowledgment(id, now).map_or(Reaction::Nothing, Reaction::Send)
    }

    /// Returns when the last SYN-ACK left. Each wait begins with one.
    fn syn_ack_sent_at(&self, id: Id) -> Instant {
        let entry = self.half_open.get(id);
        let queue = self.by_retries.get(self.retries(id));
        entry.zip(queue).map_or(Instant::ZERO, |(entry, queue)| queue.since(&entry.place))
    }
}

impl HalfOpen {
    pub(super) fn handshake(&self, tuple: &FourTuple) -> Handshake {
        Handshake {
            tuple: *tuple,
            iss: self.iss,
            irs: self.irs,
            peer_mss: self.peer_mss,
            mss: self.mss,
            window: self.window,
            peer_window_scale: self.peer_window_scale,
            sack_permitted: self.sack_permitted,
            ts_recent: self.timestamps.then_some(self.ts_recent),
            ecn: self.ecn,
            sent_at: None,
            sent_again: self.retries,
        }
    }

    /// Returns whether the segment lacks a required timestamp. Once agreed on, timestamps are in every
    /// segment but resets (RFC 7323, 3.2).
    const fn lacks_timestamp(&self, header: &Header) -> bool {
        self.timestamps && header.options.timestamps.is_none()
    }

    /// Returns whether the segment's timestamp is older than the last one (RFC 7323, 5.3).
    fn is_old(&self, header: &Header) -> bool {
        let before = |t: Timestamps| SeqNumber::new(t.value).before(SeqNumber::new(self.ts_recent));
        self.timestamps && header.options.timestamps.is_some_and(before)
    }
}
