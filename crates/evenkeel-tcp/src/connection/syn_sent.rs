//! The processing of an arriving segment in SYN-SENT: RFC 9293, 3.10.7.3.

use super::super::drop::Fate;
use super::super::recovery::AckInfo;
use super::super::segment::{Flags, Segment};
use super::super::seq::{SeqNumber, SeqRange};
use super::super::state::StateEvent;
use super::config::Agreement;
use super::error::Error;
use super::reset::Reset;
use super::tcb::Tcb;
use crate::time::Instant;

/// A segment that arrives in SYN-SENT.
pub(super) struct SynSent<'c, 's> {
    tcb: &'c mut Tcb,
    segment: &'c Segment<'s>,
    now: Instant,
}

/// The result of a segment in SYN-SENT.
pub(super) struct Answer<'s> {
    pub(super) fate: Fate,
    /// The rest of the segment after its SYN, if the connection is established.
    pub(super) rest: Option<Segment<'s>>,
}

impl Answer<'_> {
    const CONTROL: Self = Self { fate: Fate::Control, rest: None };
    const OUT_OF_PLACE: Self = Self { fate: Fate::OUT_OF_PLACE, rest: None };
}

impl<'c, 's> SynSent<'c, 's> {
    #[inline(always)]
    pub(super) const fn new(tcb: &'c mut Tcb, segment: &'c Segment<'s>, now: Instant) -> Self {
        Self { tcb, segment, now }
    }

    /// Processes the segment. Returns its fate, and the rest that is to be processed.
    pub(super) fn process(mut self) -> Answer<'s> {
        let (header, flags) = (&self.segment.header, self.segment.header.flags);
        let acknowledges = flags.contains(Flags::ACK);
        if acknowledges && !self.is_ack_of_syn() {
            self.tcb.reset = Reset::answer_to(self.segment).or(self.tcb.reset);
            return Answer::OUT_OF_PLACE;
        }
        if flags.contains(Flags::RST) {
            if !acknowledges {
                return Answer::OUT_OF_PLACE;
            }
            self.tcb.fail(Error::Refused);
            return Answer::CONTROL;
        }
        if !flags.contains(Flags::SYN) || self.tcb.snd.nxt == self.tcb.handshake.iss {
            return Answer::OUT_OF_PLACE;
        }
        let agreement = Agreement::on_syn(&self.tcb.config, &header.options, flags);
        self.tcb.on_syn(header.seq, header.window, &agreement, self.now);
        if !acknowledges {
            // Both sides open at the same time (RFC 9293, 3.5, figure 7).
            self.tcb.step(StateEvent::Syn);
            self.tcb.handshake.fast_open = None;
            self.tcb.syn_due = true;
            return Answer::CONTROL;
        }
        self.on_syn_ack();
        Answer { fate: Fate::Control, rest: Some(self.segment.after_syn()) }
    }

    /// Returns whether the segment acknowledges our SYN, and no data but that which left with it.
    fn is_ack_of_syn(&self) -> bool {
        let (ack, handshake) = (self.segment.header.ack, &self.tcb.handshake);
        let sent = self.tcb.snd.nxt + handshake.fast_open.as_ref().map_or(0, |fast_open| fast_open.data);
        ack.after(handshake.iss) && ack.at_or_before(sent)
    }

    fn on_syn_ack(&mut self) {
        let (tcb, header) = (&mut *self.tcb, &self.segment.header);
        tcb.step(StateEvent::SynAck);
        if let Some(fast_open) = &mut tcb.handshake.fast_open {
            fast_open.on_syn_ack(header, tcb.snd.nxt, &tcb.path);
        }
        self.on_ack(header.ack);
        self.tcb.timers.delayed_ack.send_now();
    }

    /// Processes the acknowledgment `ack` of our SYN, and perhaps of data that left with it.
    fn on_ack(&mut self, ack: SeqNumber) {
        let (tcb, now) = (&mut *self.tcb, self.now);
        let sent = tcb.snd.nxt;
        if let Some(fast_open) = tcb.handshake.fast_open.as_ref().filter(|_| ack.after(sent)) {
            // Data that the peer did not take counts as never sent: it is no sign of congestion (RFC 7413,
            // 4.2.1).
            tcb.recovery.on_sent(SeqRange::new(sent, ack), false, fast_open.sent_at);
            tcb.snd.nxt = ack;
        }
        tcb.recovery.on_ack(&AckInfo {
            ack,
            sack: &[],
            window_update: true,
            payload: true,
            rtt_echo: None,
            ece: false,
            unsent: tcb.snd.unsent() > 0,
            now,
        });
        tcb.counts.bytes_acked += tcb.snd.on_ack(ack);
        tcb.establish(now);
    }
}
