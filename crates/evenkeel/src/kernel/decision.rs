//! A decision about packets to a prefix.

use evenkeel_core::stack::Via;

pub(super) const LOCAL: u32 = 255;
pub(super) const MAIN: u32 = 254;
pub(super) const DEFAULT: u32 = 253;

/// A decision about packets to a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) via: Via,
    pub(super) metric: u32,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Packets are forwarded.
    Forwards,
    /// The packets are for the kernel itself, which answers them.
    Kernels,
    /// Packets are discarded.
    Discards,
    /// The kernel's decision cannot be followed.
    Closed,
}

impl Decision {
    pub(super) const fn of(via: Via) -> Self {
        let kind = match via {
            Via::Link(_) | Via::Gateway(..) | Via::Multipath(_) => Kind::Forwards,
            Via::Blackhole | Via::Unreachable | Via::Prohibit => Kind::Discards,
        };
        Self { via, metric: 0, kind }
    }

    /// Returns the decision that there is no route, where a shorter prefix has one.
    pub(super) const fn none() -> Self {
        Self::of(Via::Unreachable)
    }

    /// Returns the decision that forwards nothing, because a packet might take another route than the
    /// kernel's. Any other route to the prefix that a user has given takes precedence.
    pub(super) const fn closed() -> Self {
        Self { via: Via::Unreachable, metric: u32::MAX, kind: Kind::Closed }
    }
}

/// A decision, and the length of the prefix that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) decision: Decision,
    pub(super) length: u8,
}
