//! Header prediction (Jacobson, 1990; RFC 1323, appendix E): nearly every segment of an established
//! connection is the next one in order, or acknowledges the next of ours, and nothing else happens.
//!
//! The short path here has the effect of the steps of `input.rs`, `ack.rs` and `data.rs` in sequence,
//! without those that find nothing to do. A test compares the results of both.

use super::super::counters::Counter;
use super::super::drop::Fate;
use super::super::segment::{Ecn, Flags, Header, Segment};
use super::super::state::State;
use super::ack::age_of_echo;
use super::tcb::Connection;
use crate::time::Instant;

/// The flags that an expected segment never has.
const UNEXPECTED: Flags = Flags::SYN.with(Flags::FIN).with(Flags::RST).with(Flags::ECE).with(Flags::CWR);

impl Connection {
    /// Returns whether a segment is predicted: all that it needs is to append its payload, to forget the
    /// data that it acknowledges, and to take over its window.
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

    /// Returns whether a segment passes PAWS (RFC 7323, 5.3, R1).
    fn is_timely(&self, header: &Header, now: Instant) -> bool {
        match (&self.clock, header.options.timestamps) {
            (None, _) => true,
            (Some(clock), Some(clocks)) => !clock.is_old(clocks.value, now),
            (Some(_), None) => false,
        }
    }

    /// Returns whether all of an in-order payload of `len` bytes can be appended: it lies in the window,
    /// there is memory for it, the user still reads, and no data waits out of order.
    fn takes_all(&self, len: usize) -> bool {
        let rcv = &self.rcv;
        let room = rcv.edge.since(rcv.buffer.next()) as usize;
        let memory = rcv.buffer.readable() == 0 || len <= self.allowance.left as usize;
        let gone = rcv.closed || rcv.deaf || rcv.fin_at.is_some();
        len <= room && memory && !gone && !rcv.buffer.has_holes()
    }

    /// Processes a segment that [is expected](Self::is_expected). Returns its fate.
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
