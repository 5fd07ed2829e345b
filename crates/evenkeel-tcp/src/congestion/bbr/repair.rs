//! The state that outlasts an episode of losses: the window to come back to, and the model from before.

use super::super::control::{Recovering, Window};
use super::path::{Path, ShortTerm};
use super::state::State;

/// Loss recovery, and the window to come back to after it or after a probe of the round trip.
#[derive(Debug, Clone)]
pub(super) struct Repair {
    pub(super) recovering: Recovering,
    /// The round in which fast recovery began.
    pub(super) since_round: Option<u64>,
    /// `BBR.prior_cwnd`.
    pub(super) prior_cwnd: u32,
}

impl Default for Repair {
    fn default() -> Self {
        Self { recovering: Recovering::No, since_round: None, prior_cwnd: 0 }
    }
}

impl Repair {
    /// Returns whether there is recovery.
    pub(super) fn is_on(&self) -> bool {
        self.recovering != Recovering::No
    }

    /// Saves the window, which is not the one to come back to while it is reduced: `SaveCwnd`.
    pub(super) fn save_cwnd(&mut self, window: &Window, in_probe_rtt: bool) {
        let least = if self.is_on() || in_probe_rtt { self.prior_cwnd } else { 0 };
        self.prior_cwnd = least.max(window.cwnd);
    }

    /// Restores the window to the saved one, if that is larger: `RestoreCwnd`.
    pub(super) fn restore_cwnd(&self, window: &mut Window) {
        window.cwnd = window.cwnd.max(self.prior_cwnd);
    }
}

/// The model from before an episode of losses, but not the window: section 2.15. The episode may turn out to
/// be spurious after its end.
#[derive(Debug, Clone)]
pub(super) struct Undo {
    /// Whether the episode lasts. Its later losses save nothing.
    pub(super) is_open: bool,
    /// The state that the losses ended.
    pub(super) state: Option<State>,
    shortterm: ShortTerm,
    inflight_longterm: u64,
}

impl Undo {
    /// Saves the model before the first loss of an episode changes it: `SaveStateUponLoss`.
    pub(super) fn save(path: &Path) -> Self {
        let (shortterm, inflight_longterm) = (path.shortterm, path.longterm.inflight);
        Self { is_open: true, state: None, shortterm, inflight_longterm }
    }

    /// Lifts the bounds to those from before the episode.
    pub(super) fn restore(&self, path: &mut Path) {
        path.shortterm.restore(self.shortterm);
        path.longterm.inflight = path.longterm.inflight.max(self.inflight_longterm);
    }
}
