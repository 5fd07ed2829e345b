//! The processing of an acknowledgment: RFC 9293, 3.10.7.4, fifth step.

use super::super::counters::Counter;
use super::super::recovery::{AckInfo, RecoveryState};
use super::super::segment::{Flags, Segment};
use super::super::state::{State, StateEvent};
use super::tcb::Tcb;
use crate::time::{Duration, Instant};

/// An acknowledgment that arrives.
pub(super) struct Acknowledgment<'c, 's> {
    tcb: &'c mut Tcb,
    segment: &'c Segment<'s>,
    now: Instant,
}

/// The reason why the rest of a segment is not processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AckError {
    /// In SYN-RECEIVED, the segment does not acknowledge our SYN.
    NotOurSyn,
    /// The acknowledgment is older than any that can still be under way, or of what was never sent (RFC
    /// 5961, 5.2).
    OutOfRange,
}

impl<'c, 's> Acknowledgment<'c, 's> {
    #[inline(always)]
    pub(super) const fn new(tcb: &'c mut Tcb, segment: &'c Segment<'s>, now: Instant) -> Self {
        Self { tcb, segment, now }
    }

    /// Processes the acknowledgment, or returns why the segment is not to be processed further.
    pub(super) fn process(mut self) -> Result<(), AckError> {
        let (ack, snd) = (self.segment.header.ack, &self.tcb.snd);
        if self.tcb.state == State::SynReceived {
            if !ack.after(snd.una) || ack.after(snd.nxt) {
                return Err(AckError::NotOurSyn);
            }
            self.tcb.step(StateEvent::SynAcked);
            self.tcb.handshake.fast_open = None;
            self.tcb.establish(self.now);
        } else if ack.before(snd.una - snd.wnd_max) || ack.after(snd.nxt) {
            return Err(AckError::OutOfRange);
        }
        if ack.at_or_after(self.tcb.snd.una) {
            self.acknowledge();
            self.on_fin_acked();
        } else {
            // Later acknowledgments have overtaken it. Only its SACK blocks carry new information (RFC 6675,
            // 5: "for each ACK").
            self.recover(false, None, false);
        }
        Ok(())
    }

    fn acknowledge(&mut self) {
        let header = &self.segment.header;
        let advances = header.ack.after(self.tcb.snd.una);
        let before = self.tcb.snd.wnd;
        self.tcb.snd.on_window(header);
        let rto_max = self.tcb.config.recovery.rto.max;
        let age = if advances { self.tcb.negotiated.age_of_echo(header, rto_max, self.now) } else { None };
        let cut_off = advances && self.tcb.recovery.cuts_off(header.ack, header.ack + self.tcb.snd.wnd);
        let ece = self.tcb.ecn.is_enabled() && header.flags.contains(Flags::ECE);
        self.recover(self.tcb.snd.wnd != before, age, ece);
        if cut_off {
            self.tcb.recovery.on_cut_off();
        }
        if advances {
            self.tcb.retransmission.on_advance();
        }
        self.tcb.counts.bytes_acked += self.tcb.snd.on_ack(header.ack);
        self.tcb.on_progress(advances, before, self.now);
    }

    /// Passes the acknowledgment to loss recovery, and counts it. `age` is that of the segment whose
    /// timestamp is echoed.
    fn recover(&mut self, window_update: bool, age: Option<Duration>, ece: bool) {
        let header = &self.segment.header;
        let state = self.tcb.recovery.state();
        let acked = self.tcb.recovery.on_ack(&AckInfo {
            ack: header.ack,
            sack: self.tcb.negotiated.sack_blocks(header).as_slice(),
            window_update,
            payload: self.segment.seq_len() > 0,
            rtt_echo: age,
            ece,
            unsent: self.tcb.snd.may_send_new(),
            now: self.now,
        });
        self.count(state, acked.undone);
        if acked.cwr {
            self.tcb.on_reduction();
        }
    }

    /// Counts the acknowledgment. `state` is the state of loss recovery before the acknowledgment was
    /// processed.
    fn count(&mut self, state: RecoveryState, undone: bool) {
        let after = self.tcb.recovery.state();
        let recovers = after == RecoveryState::Recovery && state != RecoveryState::Recovery;
        let blocks = self.segment.header.options.sack;
        let dsack = blocks.as_slice().first().is_some_and(|first| {
            first.end.at_or_before(self.segment.header.ack)
                || blocks.as_slice().get(1).is_some_and(|second| second.covers(*first))
        });
        let (counted, sack) = (&mut self.tcb.counted, self.tcb.negotiated.sack());
        counted.add_if(self.segment.is_empty(), Counter::PureAcks);
        counted.add_if(recovers && sack, Counter::SackRecovery);
        counted.add_if(recovers && !sack, Counter::RenoRecovery);
        counted.add_if(undone && state == RecoveryState::Loss, Counter::SpuriousRtos);
        counted.add_if(undone && state != RecoveryState::Loss, Counter::FullUndo);
        counted.add_if(dsack && sack, Counter::DsackRecv);
    }

    /// Moves to the next state if our FIN is acknowledged.
    fn on_fin_acked(&mut self) {
        let waits = matches!(self.tcb.state, State::FinWait1 | State::Closing | State::LastAck);
        if !waits || !self.tcb.snd.fin_acked() {
            return;
        }
        self.tcb.step(StateEvent::FinAcked);
        match self.tcb.state {
            State::FinWait2 => self.tcb.limit_fin_wait_2(self.now),
            State::TimeWait => self.tcb.start_time_wait(self.now),
            _ => self.tcb.end(),
        }
    }
}
