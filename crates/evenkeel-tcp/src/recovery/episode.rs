//! A time in which the window is being reduced or refilled, and how to take that back when it was for
//! nothing (Eifel, DSACK, F-RTO).

use alloc::boxed::Box;

use super::prr::Prr;
use super::scoreboard::{Position, bytes};
use crate::congestion::Window;
use crate::time::{Duration, Instant};

/// The episode that is in progress, and the records of the last one.
#[derive(Debug)]
pub(super) struct Episodes {
    pub(super) current: Option<Box<Episode>>,
    pub(super) undo: Option<Box<Undo>>,
    /// The end of the last episode (`recover` of RFC 6582).
    pub(super) recover: Position,
}

impl Episodes {
    pub(super) const fn new(una: Position) -> Self {
        Self { current: None, undo: None, recover: una }
    }

    /// Returns why there is an episode; `None` if there is none.
    #[inline]
    pub(super) fn kind(&self) -> Option<Kind> {
        self.current.as_ref().map(|episode| episode.kind)
    }

    /// Returns whether there is no episode, and no report of the last one can still come.
    #[inline]
    pub(super) const fn are_settled(&self) -> bool {
        self.current.is_none() && self.undo.is_none()
    }

    /// Returns whether lost segments are being recovered.
    pub(super) fn are_repairing(&self) -> bool {
        self.kind().is_some_and(|kind| kind != Kind::WindowReduced)
    }

    /// Returns whether new data leaves instead of lost data, to find out whether a timeout was spurious.
    pub(super) fn sends_new(&self) -> bool {
        self.kind() == Some(Kind::Timeout(Frto::SendingNew))
    }

    /// Records that `bytes` left, old or new.
    #[inline]
    pub(super) fn on_sent(&mut self, bytes: u32) {
        if let Some(episode) = &mut self.current {
            episode.prr.on_sent(bytes);
        }
    }

    /// Forgets the episode and the last one.
    pub(super) fn forget(&mut self) {
        self.current = None;
        self.undo = None;
    }

    /// Ends the episode if all that was sent before it is acknowledged. Returns why there was one.
    pub(super) fn end_if_over(&mut self, una: Position, nxt: Position) -> Option<Kind> {
        let episode = self.current.take_if(|episode| una >= episode.is_over_at())?;
        self.recover = episode.end;
        if let Some(undo) = &mut self.undo {
            undo.until = Some(nxt);
        }
        Some(episode.kind)
    }

    /// Records that F-RTO waits for new data to leave, and none can, though there is `room`. Returns whether
    /// lost data leaves now instead.
    pub(super) fn give_up_new_data(&mut self, nxt: Position, room: bool) -> bool {
        let Some(Episode { kind: Kind::Timeout(frto @ Frto::SendingNew), end, .. }) =
            self.current.as_deref_mut()
        else {
            return false;
        };
        let none_left = nxt == *end && room;
        if none_left {
            *frto = Frto::Off;
        }
        none_left
    }
}

/// From the sign of congestion until all that was sent before it is acknowledged.
#[derive(Debug)]
pub(super) struct Episode {
    pub(super) kind: Kind,
    /// `RecoveryPoint` of RFC 6675, `recover` of RFC 6582: it is over when this is acknowledged.
    pub(super) end: Position,
    pub(super) prr: Prr,
}

impl Episode {
    /// Returns the position at which `SND.UNA` ends the episode.
    pub(super) fn is_over_at(&self) -> Position {
        match self.kind {
            // Until our CWR has arrived each acknowledgment has ECE, and CWR is in the first segment after
            // the end.
            Kind::WindowReduced => self.end + 1,
            Kind::FastRecovery | Kind::Timeout(_) => self.end,
        }
    }
}

/// Why there is an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A router marked a packet (RFC 3168); nothing is lost.
    WindowReduced,
    /// Segments were lost.
    FastRecovery,
    /// The retransmission timer expired.
    Timeout(Frto),
}

/// Was the timeout spurious? F-RTO with SACK (RFC 5682, 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frto {
    /// It was not, or there is no way to tell.
    Off,
    /// The first segment is being sent again, and nothing has been acknowledged yet.
    Waiting,
    /// It has been acknowledged. New data leave now, not the old (step 2b): if the next acknowledgment is for
    /// old data that were sent once, they were never lost.
    SendingNew,
}

/// The state that detects a spurious reduction and undoes it. It is kept for a round trip after the
/// episode, because the report of a segment that arrived twice comes late.
#[derive(Debug, Clone, Copy)]
pub(super) struct Undo {
    /// The window before.
    pub(super) window: Window,
    /// Only what lies here was sent again in the episode.
    from: Position,
    to: Position,
    /// The episode is over, and its reports are when this is acknowledged.
    pub(super) until: Option<Position>,
    /// The time at which the first retransmission left that was unacknowledged when the episode began, or
    /// that was sent later (the Eifel algorithm, RFC 3522).
    first_retransmission: Option<Instant>,
    /// Bytes sent again in the episode, and of these those reported to have arrived twice (RFC 3708).
    sent_again: u32,
    in_vain: u32,
}

impl Undo {
    /// Creates the state for an episode that begins. The segment sent again at `first_retransmission`, in
    /// the episode before, is still in flight: its acknowledgment is not for an original.
    pub(super) fn new(window: Window, first_retransmission: Option<Instant>) -> Self {
        Self {
            window,
            from: Position::MAX,
            to: 0,
            until: None,
            first_retransmission,
            sent_again: 0,
            in_vain: 0,
        }
    }

    /// Records that `bytes` bytes from `start` up to `end` are sent again.
    pub(super) fn on_sent_again(&mut self, start: Position, end: Position, bytes: u32, now: Instant) {
        if bytes > 0 && self.until.is_none() {
            self.from = self.from.min(start);
            self.to = self.to.max(end);
            self.first_retransmission.get_or_insert(now);
            self.sent_again = self.sent_again.saturating_add(bytes);
        }
    }

    /// Records that the bytes from `start` up to `end` arrived twice. If they were not sent again, the
    /// network has duplicated them.
    pub(super) fn on_dsack(&mut self, start: Position, end: Position) {
        self.in_vain = self.in_vain.saturating_add(bytes(start.max(self.from), end.min(self.to)));
    }

    /// Returns whether all that was sent again had arrived before, so that nothing was lost.
    pub(super) fn all_in_vain(&self) -> bool {
        self.sent_again > 0 && self.in_vain >= self.sent_again
    }

    /// New data are acknowledged by a segment sent at `echoed`, give or take a tick of the clock that says
    /// so: was that before anything was sent again?
    pub(super) fn was_for_the_original(&self, echoed: Option<Instant>, tick: Duration) -> bool {
        matches!((echoed, self.first_retransmission), (Some(echoed), Some(first)) if echoed + tick < first)
    }
}
