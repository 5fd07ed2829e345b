//! Explicit congestion notification (RFC 3168).

use super::super::segment::{Ecn, Flags, Segment};

/// The state of ECN in both directions.
#[derive(Debug)]
pub(super) struct EcnState {
    /// Whether both sides use ECN, or the peer may still agree to.
    enabled: bool,
    /// Whether new data may be marked as capable of ECN: every SYN of ours asked for it (6.1.1).
    capable: bool,
    /// Whether the next segment with new data has CWR.
    reduced: bool,
    /// Whether every segment has ECE, until CWR comes (6.1.3).
    echoes: bool,
}

impl EcnState {
    pub(super) const fn new(enabled: bool) -> Self {
        Self { enabled, capable: true, reduced: false, echoes: false }
    }

    /// Returns whether ECN is in use, or the peer may still agree to it.
    pub(super) const fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Records whether the SYNs agree on ECN.
    pub(super) const fn agree(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    /// Returns the ECN flags of a SYN (`answers` if it is a SYN-ACK), and records what they ask for.
    /// `first` is whether the SYN was not sent before.
    ///
    /// An unanswered SYN may have been dropped because it asked for ECN (6.1.1.1).
    pub(super) const fn on_syn(&mut self, answers: bool, first: bool) -> Flags {
        let flags = match (self.enabled, answers) {
            (true, true) => Flags::ECE,
            (true, false) if first => Flags::ECE.with(Flags::CWR),
            _ => Flags::NONE,
        };
        self.capable &= flags.contains(Flags::ECE);
        flags
    }

    /// Records whether to send ECE: from the first mark of congestion until CWR (6.1.3). A segment may have
    /// both.
    pub(super) fn on_segment(&mut self, segment: &Segment<'_>) {
        if !self.enabled || segment.is_empty() {
            return;
        }
        self.echoes &= !segment.header.flags.contains(Flags::CWR);
        self.echoes |= segment.header.ecn == Ecn::Experienced;
    }

    /// Returns ECE if segments echo a mark of congestion.
    pub(super) const fn echo(&self) -> Flags {
        if self.echoes { Flags::ECE } else { Flags::NONE }
    }

    /// Records that the congestion window has become smaller: the next new data report it with CWR (6.1.2).
    /// `synchronized` is whether both sides know each other's sequence numbers.
    pub(super) const fn on_reduction(&mut self, synchronized: bool) {
        self.reduced |= self.enabled && synchronized;
    }

    /// Returns CWR if the segment with new data that leaves now is to have it.
    pub(super) const fn take_reduction(&mut self) -> Flags {
        if core::mem::replace(&mut self.reduced, false) { Flags::CWR } else { Flags::NONE }
    }

    /// Returns the codepoint of new data. No other segment is marked as capable (6.1.4 and 6.1.5).
    pub(super) const fn codepoint(&self) -> Ecn {
        if self.enabled && self.capable { Ecn::Capable } else { Ecn::NotCapable }
    }
}
