//! Header prediction (Jacobson, 1990; RFC 1323, appendix E): nearly every segment of an established
//! connection is the next one in order, or acknowledges the next of ours, and nothing else happens.
//!
//! What is done here for such a segment is what the steps of `input.rs`, `ack.rs` and `data.rs` come to, one
//! after the other, with those left out that find nothing to do. A test holds both to the same result.

use super::super::counters::Counter;
use super::super::drop::Fate;
use super::super::segment::{Ecn, Flags, Header, Segment};
use super::super::state::State;
use super::ack::age_of_echo;
use super::tcb::Connection;
use crate::time::Instant;

/// A segment with one of these is never what was expected.
const UNEXPECTED: Flags = Flags::SYN.with(Flags::FIN).with(Flags::RST).with(Flags::ECE).with(Flags::CWR);

impl Connection {
    /// Whether nothing comes of a segment but that its payload is appended, what it acknowledges forgotten,
    /// and its window taken over.
    pub(crate) fn is_expected(&self, segment: &Segment<'_>, now: Instant) -> bool {
        let (header, rcv) = (&segment.header, &self.rcv);
        let plain = header.flags.contains(Flags::ACK)
            && !header.flags.intersects(UNEXPECTED)
            && header.ecn != Ecn::Experienced
            && header.options.sack.is_empty();
        self.state == State::Established
            && plain
            && header.seq == rcv.buffer.next()
            && self.is_timely(header, now)
            && (segment.is_empty() || self.takes_all(segment.payload_len()))
            && self.recovery.expects(header.ack)
    }

    /// PAWS (RFC 7323, 5.3, R1) has nothing against it.
    fn is_timely(&self, header: &Header, now: Instant) -> bool {
        match (&self.clock, header.options.timestamps) {
            (None, _) => true,
            (Some(clock), Some(clocks)) => !clock.is_old(clocks.value, now),
            (Some(_), None) => false,
        }
    }

    /// So much payload, in order, fills no hole, lies in the window, and finds somebody to read it.
    fn takes_all(&self, len: usize) -> bool {
        let rcv = &self.rcv;
        let room = rcv.edge.since(rcv.buffer.next()) as usize;
        let memory = rcv.buffer.readable() == 0 || len <= self.allowance.left as usize;
        let gone = rcv.closed || rcv.deaf || rcv.fin_at.is_some();
        len <= room && memory && !gone && !rcv.buffer.has_holes()
    }

    /// The segment [is expected](Self::is_expected).
    pub(super) fn on_expected(&mut self, segment: &Segment<'_>, now: Instant) -> Fate {
        let header = &segment.header;
        let before = self.snd.wnd;
        self.update_window(header);
        let advances = header.ack != self.snd.una;
        if advances {
            let age = || age_of_echo(self.clock.as_ref(), &self.config, header, now);
            self.recovery.on_expected_ack(header.ack, age, now);
            self.snd.una = header.ack;
            self.forget_acknowledged(header.ack);
        }
        self.note_progress(advances, before, now);
        self.tally.note_if(segment.is_empty(), Counter::PureAcks);
        self.hear_timestamp(header, now);
        self.restart_keepalive(now);
        if segment.is_empty() {
            return Fate::Control;
        }
        let len = segment.payload_len() as u32;
        self.rcv.buffer.append(segment.payload);
        self.note_segment(len);
        self.counts.bytes_in += u64::from(len);
        self.delay_ack(now);
        Fate::Data
    }
}
