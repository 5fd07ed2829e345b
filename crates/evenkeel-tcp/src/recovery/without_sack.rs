//! Loss detection without SACK: duplicate acknowledgments show that some segment has arrived, not which (RFC
//! 5681, 3.2; RFC 6582).

use super::arrived::{Arrived, Before};
use super::episode::{Episode, Episodes, Kind};
use super::scoreboard::{Scoreboard, bytes};

/// `DupThresh` (RFC 5681, 3.2).
const DUP_THRESH: u8 = 3;

/// The duplicate acknowledgments that have come in a row.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    count: u8,
    /// The bytes that they show to have arrived.
    bytes: u32,
}

impl Duplicates {
    /// Returns the bytes that the acknowledgments show to have arrived.
    #[inline]
    pub(super) const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Returns whether duplicate acknowledgments have come.
    pub(super) const fn any(&self) -> bool {
        self.count > 0
    }

    /// Forgets the number of acknowledgments, but not the bytes for which they stand.
    #[inline]
    pub(super) const fn restart(&mut self) {
        self.count = 0;
    }

    /// Forgets the acknowledgments, and the bytes for which they stand.
    pub(super) const fn forget(&mut self) {
        *self = Self { count: 0, bytes: 0 };
    }

    /// Accounts for an acknowledgment, which is a `duplicate` or not.
    pub(super) fn on_ack(
        &mut self,
        board: &Scoreboard,
        episodes: &Episodes,
        mss: u32,
        (before, arrived): (&Before, &mut Arrived),
        duplicate: bool,
    ) {
        if arrived.acked > 0 {
            // Beyond the first segment these are the bytes that the duplicates stood for.
            let stood_for = arrived.acked.saturating_sub(mss).min(self.bytes);
            self.bytes -= stood_for;
            self.count = 0;
            if episodes.current.as_ref().is_none_or(|episode| board.una() >= episode.end) {
                self.bytes = 0;
            }
        } else if duplicate && counts(board, episodes) {
            let most = stand_for(board, episodes).max(self.bytes);
            self.count = self.count.saturating_add(1);
            self.bytes = self.bytes.saturating_add(mss).min(most);
        }
        self.bytes = self.bytes.min(board.pipe());
        let unaccounted = board.outstanding().saturating_sub(self.bytes);
        arrived.delivered = before.unaccounted.saturating_sub(unaccounted);
    }

    /// Marks the segment as lost for which enough acknowledgments have come. Returns the number of bytes
    /// newly lost.
    pub(super) fn detect(&self, board: &mut Scoreboard, episodes: &Episodes) -> u32 {
        match episodes.kind() {
            // RFC 6582, 3.2, step 3: a partial acknowledgment says that the next segment is lost, too.
            Some(Kind::FastRecovery) if self.count == 0 => board.mark_first_lost_if_sent_once(),
            Some(Kind::FastRecovery | Kind::Timeout(_)) => 0,
            // Step 2: not for what a recovery before has sent again in vain.
            _ if self.count == DUP_THRESH && board.una() > episodes.recover => board.mark_first_lost(),
            _ => 0,
        }
    }
}

/// Returns whether duplicates count. After a timeout they are answers to needless retransmissions, unless new
/// data left since.
fn counts(board: &Scoreboard, episodes: &Episodes) -> bool {
    match episodes.current.as_deref() {
        Some(Episode { kind: Kind::Timeout(_), end, .. }) => board.nxt() > *end,
        _ => true,
    }
}

/// Returns how many bytes duplicate acknowledgments can stand for: the bytes sent before the episode, without
/// the first segment. Further duplicates are not taken for arrivals, so that a receiver cannot make us send
/// without end.
fn stand_for(board: &Scoreboard, episodes: &Episodes) -> u32 {
    let first = board.first().map_or(0, |segment| segment.len);
    let (una, nxt) = (board.una(), board.nxt());
    match episodes.current.as_deref() {
        Some(Episode { kind: Kind::Timeout(_), end, .. }) => bytes(*end, nxt),
        Some(Episode { end, .. }) => bytes(una, *end).saturating_sub(first),
        None => bytes(una, nxt).saturating_sub(first),
    }
}
