//! The acknowledgment that nearly always comes: of the next segments, in order, while nothing is lost, sacked
//! or sent again, and no reduction of the window under way.

use super::Recovery;
use super::ack::{Arrived, Witness};
use crate::SeqNumber;
use crate::time::{Duration, Instant};

impl Recovery {
    /// Returns whether an acknowledgment is of the expected kind, or there is nothing that it could
    /// acknowledge. The caller has checked that it has neither SACK blocks nor ECE, is no duplicate, and
    /// acknowledges only bytes that were sent.
    #[must_use]
    pub fn expects(&self, ack: SeqNumber) -> bool {
        let settled = self.episode.is_none() && self.undo.is_none() && !self.tail_loss.in_episode();
        // What was sent before something that was sent again, and is acknowledged, may be late.
        let in_time = self.reordering_at == Instant::NEVER;
        let told = self.board.position(ack);
        let next = told > self.board.una() && told <= self.board.nxt();
        settled
            && in_time
            && self.duplicate_bytes == 0
            && self.board.is_undisturbed()
            && (next && !self.board.is_syn_outstanding() || told == self.board.una() && self.board.is_empty())
    }

    /// Processes an acknowledgment that [is expected](Self::expects) and advances, with the result of
    /// [`Recovery::on_ack`]. `rtt_echo` returns how long ago the segment left whose timestamp is echoed. It
    /// is called only if the round trip cannot be measured otherwise.
    pub fn on_expected_ack(
        &mut self,
        ack: SeqNumber,
        rtt_echo: impl FnOnce() -> Option<Duration>,
        now: Instant,
    ) {
        let (before, told) = (self.before(), self.board.position(ack));
        let acked = told.saturating_sub(self.board.una()) as u32;
        // Of segments that were sent only once the echo tells nothing.
        let mut arrived = Arrived::in_order(acked);
        let (rack, rtt) = (&mut self.rack, &mut self.rtt);
        let mut witness = Witness { rack, rtt, now, echoed: None, arrived: &mut arrived };
        self.board.acknowledge(told, |segment, whole| witness.see_acknowledged(segment, whole));
        self.sample_rtt(&arrived, rtt_echo, now);
        self.duplicates = 0;
        if !self.config.algorithm.is_model_based() {
            self.grow(&before, &arrived, now);
        }
        self.set_timers_after_ack(true, now);
        if self.pacing.is_some() {
            self.mind_rate(before, arrived, false, now);
        }
    }
}
