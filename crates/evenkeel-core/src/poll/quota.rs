//! Quotas: the number of frames that one callback of the polling thread may take (TOCS 1997, section
//! 6.6.2).

/// The quota of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quota {
    /// So many frames: by default 16, a vector. The paper, whose router handles one packet at a time, finds 8
    /// the best.
    Fixed(usize),
    /// No quota: a callback returns when its ring is empty. Under overload the transmit side then never gets
    /// its turn: for experiments.
    Unlimited,
    /// Set by feedback, just below the onset of livelock, from 2 to 64. The paper leaves this as future work.
    Dynamic,
}

impl Default for Quota {
    fn default() -> Self {
        Self::Fixed(16)
    }
}

/// The controller of [`Quota::Dynamic`].
///
/// A quota is too large when frames die *after* their input work was done, because the transmit side gets its
/// turn too seldom: that is the one unequivocal sign, and it is the onset of livelock. It is too small when
/// callbacks use all of it and nothing of that kind happens: then each frame pays more of the round's
/// overhead than it must. So: additive increase by one frame after [`Dynamic::PATIENCE`] full callbacks
/// without waste, and a quarter less as soon as there is any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dynamic {
    quota_pkts: usize,
    /// Callbacks that used the whole quota since the last change.
    full: u32,
    /// Waste is held against a quota once: what a full queue drops until then was let in under the old one.
    blind: u32,
}

impl Dynamic {
    /// Smallest and largest quota.
    pub(super) const RANGE: [usize; 2] = [2, 64];
    const PATIENCE: u32 = 32;
    /// Full callbacks until a smaller quota shows effect.
    const BLIND: u32 = 16;

    pub(super) const fn new() -> Self {
        Self { quota_pkts: 8, full: 0, blind: 0 }
    }

    pub(super) const fn quota_pkts(&self) -> usize {
        self.quota_pkts
    }

    /// Records that a callback used its whole quota.
    pub(super) fn used_up(&mut self) {
        self.blind = self.blind.saturating_sub(1);
        self.full += 1;
        if self.full >= Self::PATIENCE {
            self.full = 0;
            self.quota_pkts = (self.quota_pkts + 1).min(Self::RANGE[1]);
        }
    }

    /// Records that a frame was dropped after its input work was done, for want of room on the way out.
    pub(super) fn wasted(&mut self) {
        self.full = 0;
        if self.blind == 0 {
            self.blind = Self::BLIND;
            self.quota_pkts = (self.quota_pkts - self.quota_pkts.div_ceil(4)).max(Self::RANGE[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_quota_grows_while_nothing_is_wasted_and_shrinks_at_once() {
        let mut quota = Dynamic::new();
        (0..64).for_each(|_| quota.used_up());
        assert_eq!(quota.quota_pkts(), 10);
        quota.wasted();
        assert_eq!(quota.quota_pkts(), 7);
        quota.wasted();
        assert_eq!(quota.quota_pkts(), 7, "the same overflow counts once");
        (0..16).for_each(|_| quota.used_up());
        quota.wasted();
        assert_eq!(quota.quota_pkts(), 5);
    }

    #[test]
    fn a_dynamic_quota_stays_in_its_range() {
        let mut quota = Dynamic::new();
        (0..100_000).for_each(|_| quota.used_up());
        assert_eq!(quota.quota_pkts(), Dynamic::RANGE[1]);
        for _ in 0..100 {
            (0..16).for_each(|_| quota.used_up());
            quota.wasted();
        }
        assert_eq!(quota.quota_pkts(), Dynamic::RANGE[0]);
    }
}
