//! The round trips of a flow, counted in packets, and the signals of congestion within one of them.

use super::super::control::{Lost, Sample};
use crate::rate::Rate;

/// Round trips, counted in packets: section 2.7. One ends with the acknowledgment of a segment that left
/// after the one before had ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Rounds {
    /// `BBR.round_count`.
    pub(super) count: u64,
    /// Whether this acknowledgment begins a round trip: `BBR.round_start`.
    pub(super) is_start: bool,
    /// `BBR.next_round_delivered`.
    pub(super) next_delivered: u64,
}

impl Rounds {
    /// Lets a round trip begin with what leaves from now on: `StartRound`.
    pub(super) fn start(&mut self, delivered: u64) {
        self.next_delivered = delivered;
    }

    /// Counts a round trip if one has ended: `UpdateRound`.
    pub(super) fn update(&mut self, sample: &Sample) {
        self.is_start = sample.prior_delivered >= self.next_delivered;
        if self.is_start {
            self.start(sample.delivered);
            self.count += 1;
        }
    }
}

/// Signals of congestion in the latest round trip: section 2.10. These rounds begin anew with a first loss.
#[derive(Debug, Clone, Default)]
pub(super) struct Signals {
    /// `BBR.loss_round_delivered`.
    round_delivered: u64,
    /// Whether this acknowledgment begins a round: `BBR.loss_round_start`.
    pub(super) is_round_start: bool,
    /// `BBR.is_loss_in_round`.
    pub(super) is_loss_in_round: bool,
    /// The number of ranges of the stream in which something was lost in this round.
    pub(super) lost_ranges: u32,
    /// The end of the last of these ranges.
    lost_until: u64,
    /// `BBR.bw_latest`.
    pub(super) bw: Option<Rate>,
    /// `BBR.inflight_latest`.
    pub(super) inflight: u64,
}

impl Signals {
    /// Forgets the signals of this round: `ResetCongestionSignals`.
    pub(super) fn reset(&mut self) {
        self.is_loss_in_round = false;
        self.lost_ranges = 0;
        self.bw = None;
        self.inflight = 0;
    }

    /// Raises the signals to those of a sample: `UpdateLatestDeliverySignals`.
    pub(super) fn update(&mut self, sample: &Sample) {
        self.bw = self.bw.max(sample.rate);
        self.inflight = self.inflight.max(sample.volume);
        self.is_round_start = sample.prior_delivered >= self.round_delivered;
        if self.is_round_start {
            self.round_delivered = sample.delivered;
        }
    }

    /// Lets the signals begin anew with a round: `AdvanceLatestDeliverySignals`.
    pub(super) fn advance(&mut self, sample: &Sample) {
        if self.is_round_start {
            self.bw = sample.rate;
            self.inflight = sample.volume;
            self.lost_ranges = 0;
        }
    }

    /// Records a loss. Returns whether it is the first of its round.
    pub(super) fn on_loss(&mut self, delivered: u64) -> bool {
        let is_first = !core::mem::replace(&mut self.is_loss_in_round, true);
        if is_first {
            self.round_delivered = delivered;
        }
        is_first
    }

    /// Counts the ranges lost in this round. A segment that adjoins the one lost before belongs to the same
    /// range.
    pub(super) fn count_range(&mut self, lost: &Lost) {
        if self.lost_ranges == 0 || lost.start != self.lost_until {
            self.lost_ranges += 1;
        }
        self.lost_until = lost.start + u64::from(lost.len);
    }
}
