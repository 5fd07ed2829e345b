//! Header prediction (Jacobson, 1990; RFC 1323, appendix E): nearly every segment of an established
//! connection is the next one in order, or acknowledges the next of ours, and nothing else happens.
//!
//! The short path here has the effect of the steps of `input.rs` and `ack.rs` in sequence, without those
//! that find nothing to do. A test compares the results of both.

use super::super::counters::Counter;
use super::super::drop::Fate;
use super::super::segment::{Ecn, Flags, Segment};
use super::super::state::State;
use super::tcb::Tcb;
use crate::time::Instant;

/// The flags that an expected segment never has.
const UNEXPECTED: Flags = Flags::SYN.with(Flags::FIN).with(Flags::RST).with(Flags::ECE).with(Flags::CWR);

/// The prediction that all that a segment needs is to append its payload, to forget the data that it
/// acknowledges, and to take over its window.
pub(super) struct Prediction<'c, 's> {
    tcb: &'c mut Tcb,
    segment: &'c Segment<'s>,
    now: Instant,
}

impl<'c, 's> Prediction<'c, 's> {
    #[inline(always)]
    pub(super) const fn new(tcb: &'c mut Tcb, segment: &'c Segment<'s>, now: Instant) -> Self {
        Self { tcb, segment, now }
    }

    /// Returns whether the prediction is right.
    #[inline(always)]
    pub(super) fn holds(&self) -> bool {
        let (header, tcb) = (&self.segment.header, &*self.tcb);
        let plain = header.flags.contains(Flags::ACK)
            && !header.flags.intersects(UNEXPECTED)
            && header.ecn != Ecn::Experienced
            && header.options.sack.is_empty();
        tcb.state == State::Established
            && plain
            && header.seq == tcb.rcv.buffer.next()
            && tcb.negotiated.is_timely(header, self.now)
            && (self.segment.is_empty() || tcb.rcv.takes_all(self.segment.payload_len(), tcb.allowance))
            && tcb.recovery.expects(header.ack)
    }

    /// Processes the segment of a prediction that [holds](Self::holds). Returns its fate.
    #[inline(always)]
    pub(super) fn apply(self) -> Fate {
        let Self { tcb, segment, now } = self;
        let header = &segment.header;
        let before = tcb.snd.wnd;
        tcb.snd.on_window(header);
        let advances = header.ack != tcb.snd.una;
        if advances {
            let rto_max = tcb.config.recovery.rto.max;
            let age = || tcb.negotiated.age_of_echo(header, rto_max, now);
            tcb.recovery.on_expected_ack(header.ack, age, now);
            tcb.counts.bytes_acked += tcb.snd.on_ack(header.ack);
        }
        tcb.on_progress(advances, before, now);
        tcb.counted.add_if(segment.is_empty(), Counter::PureAcks);
        tcb.negotiated.on_segment(header, tcb.timers.delayed_ack.last_sent(), now);
        tcb.timers.keepalive.restart(tcb.config.keepalive, now);
        if segment.is_empty() {
            return Fate::Control;
        }
        let len = segment.payload_len() as u32;
        tcb.rcv.buffer.append(segment.payload);
        tcb.counts.bytes_in += u64::from(len);
        let ack = &mut tcb.timers.delayed_ack;
        ack.on_segment(len, tcb.rcv.mss);
        ack.on_text(tcb.rcv.nxt(), tcb.rcv.mss, tcb.config.ack_delay, now);
        Fate::Data
    }
}
