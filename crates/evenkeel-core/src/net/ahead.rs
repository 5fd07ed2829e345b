//! Processing of messages that change neighbours or path MTUs ahead of frames that arrived after them in
//! other channels.

use super::state::Net;
use crate::id::ChannelId;
use crate::time::Instant;

impl Net {
    /// Processes, within a bound, the waiting messages that change neighbours or path MTUs. Called before a
    /// frame is dequeued from a channel; the process that dequeues the frame is charged.
    #[inline(always)]
    pub(super) fn keep_order(&mut self, now: Instant) {
        if self.rx.ahead.may_wait() {
            self.input_ahead(now);
        }
    }

    #[cold]
    fn input_ahead(&mut self, now: Instant) {
        // An interface may fill the channels meanwhile: then it says so again.
        self.rx.ahead.settle();
        let all = self.rx.channels.daemons().ahead();
        let waits = |id: &ChannelId| self.rx.channels.get(*id).is_some_and(|channel| !channel.is_empty());
        if !all.iter().flatten().any(waits) {
            return;
        }
        self.rx.ahead.begin(self.ledger.delivered + self.ledger.forwarded, now);
        for (kind, channel) in all.into_iter().enumerate() {
            let Some(id) = channel else { continue };
            while self.rx.channels.get(id).is_some_and(|channel| !channel.is_empty()) {
                if !self.rx.ahead.spend(kind) {
                    self.rx.ahead.counters.overtook += 1;
                    self.rx.ahead.expect();
                    break;
                }
                let Some(waiting) = self.take_from_channel(id, now) else { break };
                self.input_waiting(waiting, now);
            }
        }
    }
}
