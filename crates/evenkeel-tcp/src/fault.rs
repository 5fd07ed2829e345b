//! Whose fault it is that a call failed.

/// Whose fault it is that a call failed, and so who can do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The caller's: the call asks for what cannot be, or was made too late. The same call fails again.
    Misuse,
    /// The network's or the peer's: no route, no answer, a reset. It may go better at another time, or with
    /// another peer.
    Network,
    /// A limit was met: of memory, connections, ports, rings, descriptors. The same call may succeed once
    /// something is given back, or the limit is raised.
    Limit,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Misuse => "misuse",
            Self::Network => "network",
            Self::Limit => "limit",
        })
    }
}
