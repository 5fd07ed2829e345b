//! Whose fault it is that a call failed.

/// The cause of a failed call, and so the party that can do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The caller: the call is impossible, or was made too late. Repeating it fails again.
    Misuse,
    /// The network or the peer: no route, no answer, a reset. Another time, or another peer, may succeed.
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
