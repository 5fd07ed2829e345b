//! Which bytes have come out of order, and what SACK says of them.

use alloc::vec::Vec;

use super::super::options::SackBlocks;
use super::super::seq::{SeqNumber, SeqRange};

/// Ranges kept apart. A peer that makes more holes than this has its segments dropped until some are filled,
/// so that neither memory nor work per segment grows with what it sends.
pub(super) const RANGES_MAX: usize = 128;

/// Ranges beyond RCV.NXT, in order, that neither touch nor overlap.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    ranges: Vec<SeqRange>,
    /// The four that grew last, the last first (RFC 2018, 4).
    recent: SackBlocks,
}

impl Assembly {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds `range`, which lies beyond `start` or begins there. Says how far it all reaches from `start`
    /// without a hole.
    ///
    /// `None` if it would be one range too many.
    pub(super) fn insert(&mut self, start: SeqNumber, range: SeqRange) -> Option<SeqNumber> {
        let first = self.ranges.partition_point(|held| held.end.before(range.start));
        let after = self.ranges.partition_point(|held| held.start.at_or_before(range.end));
        if first == after && self.ranges.len() >= RANGES_MAX && range.start != start {
            return None;
        }
        let merged = self.ranges.get(first..after).unwrap_or_default().iter().fold(range, |all, held| {
            SeqRange { start: all.start.min(held.start), end: all.end.max(held.end) }
        });
        if merged.start == start {
            self.ranges.drain(first..after);
            self.recent =
                self.recent.as_slice().iter().copied().filter(|held| held.start.after(merged.end)).collect();
            return Some(merged.end);
        }
        self.ranges.splice(first..after, [merged]);
        let others = self.recent.as_slice().iter().copied().filter(|held| !merged.overlaps(*held));
        self.recent = core::iter::once(merged).chain(others).collect();
        Some(start)
    }

    /// Returns the first bytes of `range` that are here already.
    pub(super) fn first_overlap(&self, range: SeqRange) -> Option<SeqRange> {
        let first = self.ranges.partition_point(|held| held.end.at_or_before(range.start));
        self.ranges.get(first).map(|held| held.intersection(range)).filter(|common| !common.is_empty())
    }

    /// Returns the range that holds `range`, if one does.
    pub(super) fn around(&self, range: SeqRange) -> Option<SeqRange> {
        let first = self.ranges.partition_point(|held| held.end.at_or_before(range.start));
        self.ranges.get(first).copied().filter(|held| held.covers(range))
    }

    pub(super) const fn recent(&self) -> &SackBlocks {
        &self.recent
    }
}
