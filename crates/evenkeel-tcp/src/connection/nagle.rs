//! Nagle's algorithm (RFC 9293, 3.7.4), `TCP_CORK`, and the avoidance of silly windows by the sender
//! (3.8.6.2.1): the segments that wait for more data.

use super::super::seq::{SeqNumber, SeqRange};
use super::send_side::{Candidate, SendSide};

/// The rules for segments that are not full.
#[derive(Debug)]
pub(super) struct Nagle {
    /// Whether Nagle's algorithm is in use.
    pub(super) enabled: bool,
    /// Whether segments that are not full wait, because the user set `TCP_CORK`.
    pub(super) cork: bool,
    /// Whether segments that are not full wait, because the user announced more data.
    pub(super) more: bool,
    /// The end of the last segment that was not full (Minshall's variant of Nagle's algorithm).
    small: SeqNumber,
}

impl Nagle {
    pub(super) const fn new(enabled: bool, iss: SeqNumber) -> Self {
        Self { enabled, cork: false, more: false, small: iss }
    }

    /// Returns whether a segment may leave under silly-window avoidance and Nagle's algorithm in Minshall's
    /// variant: a small segment waits only while another small one is on its way. So the last piece of a
    /// long write need not wait for the acknowledgment of the piece before.
    pub(super) fn lets_pass(&self, new: &Candidate, snd: &SendSide) -> bool {
        let len = new.range.len();
        if len >= new.full || new.range.end == snd.end() && snd.fin {
            return true;
        }
        if self.cork || self.more {
            return false;
        }
        let alone = !self.enabled || !self.is_small_under_way(snd);
        alone && (len == new.queued || len >= snd.wnd_max / 2)
    }

    /// Records that a segment that is not full leaves, which ends at `end`.
    pub(super) const fn on_small(&mut self, end: SeqNumber) {
        self.small = end;
    }

    /// Returns whether a segment that was not full has left and is not acknowledged. If the last such
    /// segment left more than 2 GiB ago, its number seems to lie ahead, and it does not count.
    fn is_small_under_way(&self, snd: &SendSide) -> bool {
        SeqRange::new(snd.una, snd.nxt).contains(self.small - 1)
    }
}
