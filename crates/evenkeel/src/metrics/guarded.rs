//! The account of a guard in front of the kernel's own sockets.

use core::cmp::Reverse;

use evenkeel_link::{GuardedPort, Transport};

/// The account of a guard since it was attached.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Guarded {
    /// The time that the guard was attached, in seconds.
    pub seconds: f64,
    /// The network interfaces.
    pub interfaces: Vec<String>,
    /// Interfaces on which the kernel answers all SYNs itself: the guard is behind another program there, or
    /// they would drop its answers. A veth does, while its other end has no XDP program.
    pub mute: Vec<String>,
    /// Interfaces that have another XDP program, behind which the guard is: the kernel makes a packet of each
    /// frame first.
    #[cfg_attr(feature = "json", serde(default))]
    pub behind: Vec<String>,
    /// Whether packets were only counted, and none was dropped or answered.
    pub dry_run: bool,
    /// Packets that the kernel got: datagrams for guarded sockets, SYNs for guarded listeners, and both for
    /// ports without one.
    pub passed: u64,
    /// Packets that were dropped in front of the kernel: because a queue was full, or because the kernel was
    /// to refuse no more. With `dry_run`, packets that would have been.
    pub dropped: u64,
    /// SYNs that were answered with a cookie because a listener's queue of SYNs was full. With `dry_run`,
    /// those that would have been.
    pub answered: u64,
    /// The accounts of ports. A port has one as soon as a packet for a socket has come there.
    pub ports: Vec<PortAccount>,
    /// The threads that do the interfaces' work, if the guard has started them.
    #[cfg_attr(feature = "json", serde(default))]
    pub threads: Option<ThreadShare>,
    /// Packets for ports without a socket: datagrams, SYNs, or both. There is no entry for those that did not
    /// come.
    pub closed_ports: Vec<ClosedPorts>,
}

/// The share of the threads that do the interfaces' work (threaded NAPI).
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadShare {
    /// The percentage of a core that each gets, while sockets are flooded, next to one program that wants all
    /// of it.
    pub percent: u8,
    /// The time during which sockets were flooded, in seconds.
    pub lowered_seconds: f64,
}

/// The account of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Port"))]
pub struct PortAccount {
    /// The protocol that the port belongs to.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
    /// Packets that the kernel got: datagrams, or SYNs.
    pub passed: u64,
    /// Packets that were dropped, or would have been.
    pub dropped: u64,
    /// SYNs that were answered with a cookie, or would have been.
    pub answered: u64,
}

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "json", serde(rename_all = "lowercase"))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Protocol {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

/// The account of the datagrams, or of the SYNs, for all ports without a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClosedPorts {
    /// The protocol of the packets.
    pub protocol: Protocol,
    /// Packets that the kernel got, and refused, or forwarded to other hosts.
    pub passed: u64,
    /// Packets that were dropped because the kernel was to refuse no more, or would have been.
    pub dropped: u64,
}

impl Guarded {
    /// Sums up the accounts of ports, of which port 0 stands for all ports without a socket.
    #[must_use]
    pub fn of(ports: &[GuardedPort]) -> Self {
        let (closed, open): (Vec<_>, Vec<_>) =
            ports.iter().map(PortAccount::from).partition(|account| account.port == 0);
        let closed = closed.into_iter().map(|PortAccount { protocol, passed, dropped, .. }| ClosedPorts {
            protocol,
            passed,
            dropped,
        });
        Self {
            passed: ports.iter().map(|account| account.passed).sum(),
            dropped: ports.iter().map(|account| account.dropped).sum(),
            answered: ports.iter().map(|account| account.answered).sum(),
            ports: open,
            closed_ports: closed.collect(),
            ..Self::default()
        }
    }

    /// Returns what has been added since `earlier`, a previous account of the same guard.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |now: &PortAccount| earlier.ports.iter().find(|old| now.is_of_port(old));
        let since = |now: &PortAccount| before(now).map_or(*now, |old| now.since(old));
        let was_closed =
            |now: &ClosedPorts| earlier.closed_ports.iter().find(|old| now.protocol == old.protocol);
        let closed_since = |now: &ClosedPorts| was_closed(now).map_or(*now, |old| now.since(old));
        Self {
            seconds: self.seconds - earlier.seconds,
            passed: self.passed.saturating_sub(earlier.passed),
            dropped: self.dropped.saturating_sub(earlier.dropped),
            answered: self.answered.saturating_sub(earlier.answered),
            ports: self.ports.iter().map(since).collect(),
            threads: self.threads.map(|now| ThreadShare {
                lowered_seconds: now.lowered_seconds
                    - earlier.threads.map_or(0.0, |threads| threads.lowered_seconds),
                ..now
            }),
            closed_ports: self.closed_ports.iter().map(closed_since).collect(),
            ..self.clone()
        }
    }

    /// Returns the accounts of ports, those with most drops and answers first.
    #[must_use]
    pub fn worst_first(&self) -> Vec<&PortAccount> {
        let mut ports: Vec<&PortAccount> = self.ports.iter().collect();
        ports.sort_by_key(|&&PortAccount { protocol, port, passed, dropped, answered }| {
            (Reverse((dropped + answered, passed)), port, protocol)
        });
        ports
    }
}

impl PortAccount {
    fn is_of_port(&self, other: &Self) -> bool {
        (self.protocol, self.port) == (other.protocol, other.port)
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            passed: self.passed.saturating_sub(earlier.passed),
            dropped: self.dropped.saturating_sub(earlier.dropped),
            answered: self.answered.saturating_sub(earlier.answered),
            ..*self
        }
    }
}

impl ClosedPorts {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            passed: self.passed.saturating_sub(earlier.passed),
            dropped: self.dropped.saturating_sub(earlier.dropped),
            ..*self
        }
    }
}

impl Protocol {
    /// Returns the name of the protocol: `udp` or `tcp`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

impl From<&GuardedPort> for PortAccount {
    fn from(&GuardedPort { transport, port, passed, dropped, answered }: &GuardedPort) -> Self {
        let protocol = match transport {
            Transport::Udp => Protocol::Udp,
            Transport::Tcp => Protocol::Tcp,
        };
        Self { protocol, port, passed, dropped, answered }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(transport: Transport, port: u16, [passed, dropped, answered]: [u64; 3]) -> GuardedPort {
        GuardedPort { transport, port, passed, dropped, answered }
    }

    #[test]
    fn closed_ports_are_in_the_sums_and_in_no_account_of_a_port() {
        let (udp, tcp) = (Transport::Udp, Transport::Tcp);
        let guarded = Guarded::of(&[
            port(udp, 0, [1, 2, 0]),
            port(udp, 7, [10, 20, 0]),
            port(tcp, 0, [5, 6, 0]),
            port(tcp, 80, [100, 0, 200]),
        ]);
        assert_eq!((guarded.passed, guarded.dropped, guarded.answered), (116, 28, 200));
        let closed = |protocol, passed, dropped| ClosedPorts { protocol, passed, dropped };
        assert_eq!(guarded.closed_ports, [closed(Protocol::Udp, 1, 2), closed(Protocol::Tcp, 5, 6)]);
        let worst: Vec<_> = guarded.worst_first().iter().map(|it| (it.protocol, it.port)).collect();
        assert_eq!(worst, [(Protocol::Tcp, 80), (Protocol::Udp, 7)]);
    }

    #[test]
    fn a_difference_has_what_was_added_to_each_port() {
        let account = |seconds, seven, eighty| Guarded {
            seconds,
            interfaces: vec!["g0".to_owned()],
            ..Guarded::of(&[
                port(Transport::Udp, 7, seven),
                port(Transport::Tcp, 0, seven),
                port(Transport::Tcp, 7, eighty),
            ])
        };
        let (before, now) = (account(1.0, [1, 2, 0], [3, 4, 5]), account(3.5, [11, 22, 0], [33, 44, 55]));
        let added = now.since(&before);
        assert_eq!((added.seconds, &added.interfaces), (2.5, &before.interfaces));
        assert_eq!(added, account(2.5, [10, 20, 0], [30, 40, 50]));
        let new = now.since(&Guarded { ports: Vec::new(), closed_ports: Vec::new(), ..before });
        assert_eq!((new.ports, new.closed_ports), (now.ports, now.closed_ports));
    }
}
