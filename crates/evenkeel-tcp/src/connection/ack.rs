//! Processing of acknowledgments: RFC 9293, 3.10.7.4, fifth step.

use super::super::counters::Counter;
use super::super::options::SackBlocks;
use super::super::recovery::{AckInfo, RecoveryState};
use super::super::segment::{Flags, Header, Segment};
use super::super::seq::SeqNumber;
use super::super::state::{State, StateEvent};
use super::clock::Clock;
use super::config::Config;
use super::tcb::Connection;
use crate::time::{Duration, Instant};

impl Connection {
    /// Processes the acknowledgment of a segment. Returns whether the rest of the segment is to be
    /// processed.
    pub(super) fn on_ack(&mut self, segment: &Segment<'_>, now: Instant) -> bool {
        let ack = segment.header.ack;
        if self.state == State::SynReceived {
            if !ack.after(self.snd.una) || ack.after(self.snd.nxt) {
                self.answer_with_reset(segment);
                return false;
            }
            self.step(StateEvent::SynAcked);
            self.snd.fast_open = None;
            self.established(now);
        } else if ack.before(self.snd.una - self.snd.wnd_max) || ack.after(self.snd.nxt) {
            // RFC 5961, 5.2: older than any acknowledgment that can still be under way, or of what was never
            // sent.
            self.challenge(now);
            return false;
        }
        if ack.at_or_after(self.snd.una) {
            self.acknowledge(segment, now);
            self.after_fin_acked(now);
        } else {
            self.learn_from_old(segment, now);
        }
        true
    }

    /// Processes an acknowledgment that later ones have overtaken. Only its SACK blocks carry new
    /// information (RFC 6675, 5: "for each ACK").
    fn learn_from_old(&mut self, segment: &Segment<'_>, now: Instant) {
        let header = &segment.header;
        let state = self.recovery.state();
        let acked = self.recovery.on_ack(&AckInfo {
            ack: header.ack,
            sack: self.heard_sack(header).as_slice(),
            window_update: false,
            payload: segment.seq_len() > 0,
            rtt_echo: None,
            ece: false,
            unsent: self.snd.unsent() > 0 && self.snd.usable() > 0,
            now,
        });
        self.count_ack(segment, state, acked.undone);
        if acked.cwr {
            self.tell_reduction();
        }
    }

    fn heard_sack(&self, header: &Header) -> SackBlocks {
        if self.sack { header.options.sack } else { SackBlocks::default() }
    }

    fn acknowledge(&mut self, segment: &Segment<'_>, now: Instant) {
        let header = &segment.header;
        let advances = header.ack.after(self.snd.una);
        let before = self.snd.wnd;
        self.update_window(header);
        let age = if advances { age_of_echo(self.clock.as_ref(), &self.config, header, now) } else { None };
        let state = self.recovery.state();
        let cut_off = advances && self.recovery.cuts_off(header.ack, header.ack + self.snd.wnd);
        let acked = self.recovery.on_ack(&AckInfo {
            ack: header.ack,
            sack: self.heard_sack(header).as_slice(),
            window_update: self.snd.wnd != before,
            payload: segment.seq_len() > 0,
            rtt_echo: age,
            ece: self.ecn && header.flags.contains(Flags::ECE),
            unsent: self.snd.unsent() > 0 && self.snd.usable() > 0,
            now,
        });
        self.count_ack(segment, state, acked.undone);
        if acked.cwr {
            self.tell_reduction();
        }
        if cut_off {
            self.recovery.on_cut_off();
        }
        self.due.retransmission &= !advances;
        self.snd.una = header.ack;
        self.forget_acknowledged(header.ack);
        self.note_progress(advances, before, now);
    }

    /// Records that the peer has answered: `advances` if its acknowledgment covers new data; `before` is
    /// the peer's window before this segment.
    pub(super) fn note_progress(&mut self, advances: bool, before: u32, now: Instant) {
        // A peer that keeps its window closed, but answers, may do so for as long as it likes (RFC 9293,
        // 3.8.6.1), unless our user has closed the connection: then no one could ever end it (RFC 6429, 3
        // and 4).
        if advances || self.snd.wnd == 0 && !self.rcv.closed {
            self.snd.progress = now;
            // The peer can be reached, whatever the network has reported.
            self.soft_error = false;
        }
        if self.snd.wnd > 0 && (advances || self.snd.wnd != before) {
            self.ease_persist(now);
        }
    }

    pub(super) fn forget_acknowledged(&mut self, ack: SeqNumber) {
        let before = self.snd.buffer.len();
        self.snd.buffer.acknowledge(ack);
        self.counts.bytes_acked += (before - self.snd.buffer.len()) as u64;
    }

    /// Counts an acknowledgment. `state` is the state of loss recovery before the acknowledgment was
    /// processed.
    fn count_ack(&mut self, segment: &Segment<'_>, state: RecoveryState, undone: bool) {
        let recovers = self.recovery.state() == RecoveryState::Recovery && state != RecoveryState::Recovery;
        let sack = segment.header.options.sack;
        let dsack = sack.as_slice().first().is_some_and(|first| {
            first.end.at_or_before(segment.header.ack)
                || sack.as_slice().get(1).is_some_and(|second| second.covers(*first))
        });
        let tally = &mut self.tally;
        tally.note_if(segment.is_empty(), Counter::PureAcks);
        tally.note_if(recovers && self.sack, Counter::SackRecovery);
        tally.note_if(recovers && !self.sack, Counter::RenoRecovery);
        tally.note_if(undone && state == RecoveryState::Loss, Counter::SpuriousRtos);
        tally.note_if(undone && state != RecoveryState::Loss, Counter::FullUndo);
        tally.note_if(dsack && self.sack, Counter::DsackRecv);
    }

    /// Updates the peer's window from a segment that is not older than the last update ("This is to
    /// prevent using old segments to update the window").
    ///
    /// A segment that acknowledges new data is not old, though its bytes may be sent again. If its window
    /// did not count, the earlier window would apply from the new SND.UNA on, and reach further than the
    /// peer ever offered.
    pub(super) fn update_window(&mut self, header: &Header) {
        let snd = &mut self.snd;
        let newer = snd.una.before(header.ack)
            || snd.wl1.before(header.seq)
            || snd.wl1 == header.seq && snd.wl2.at_or_before(header.ack);
        if newer {
            snd.wnd = u32::from(header.window) << snd.shift;
            snd.wnd_max = snd.wnd_max.max(snd.wnd);
            snd.wl1 = header.seq;
            snd.wl2 = header.ack;
        }
    }

    fn after_fin_acked(&mut self, now: Instant) {
        let waits = matches!(self.state, State::FinWait1 | State::Closing | State::LastAck);
        if !waits || !self.snd.fin_acked() {
            return;
        }
        self.step(StateEvent::FinAcked);
        match self.state {
            State::FinWait2 => self.limit_fin_wait_2(now),
            State::TimeWait => self.start_time_wait(now),
            _ => self.end(),
        }
    }
}

/// Returns the time since the segment was sent whose timestamp `header` echoes. `None` if timestamps are
/// not in use, or if the time is longer than the longest retransmission timeout.
pub(super) fn age_of_echo(
    clock: Option<&Clock>,
    config: &Config,
    header: &Header,
    now: Instant,
) -> Option<Duration> {
    let age = clock?.age(header.options.timestamps?.echo, now)?;
    // No segment is under way for that long: the echo was forged, and the pacer would wait as long for the
    // next segment.
    Some(age).filter(|age| *age <= config.recovery.rto.max)
}
