//! The account of a guard in front of the kernel's own sockets.

use core::cmp::Reverse;

use evenkeel_link::{GuardAccount, Judged, Transport};

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
    /// Packets that the kernel got: datagrams for guarded sockets, SYNs for guarded listeners, and those that
    /// are limited.
    pub passed: u64,
    /// Packets that were dropped in front of the kernel: because a queue was full, or because the kernel was
    /// to refuse or answer no more. With `dry_run`, packets that would have been.
    pub dropped: u64,
    /// SYNs that were answered with a cookie because a listener's queue of SYNs was full. With `dry_run`,
    /// those that would have been.
    pub answered: u64,
    /// The accounts of ports. A port has one as soon as a packet for a socket has come there.
    pub ports: Vec<PortAccount>,
    /// The threads that do the interfaces' work, if the guard has started them.
    #[cfg_attr(feature = "json", serde(default))]
    pub threads: Option<ThreadShare>,
    /// Packets that are limited, by kind. There is no entry for a kind of which none came.
    #[cfg_attr(feature = "json", serde(default))]
    pub limited: Vec<LimitedAccount>,
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

/// The account of a kind of packets that the kernel gets only so often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Limited"))]
pub struct LimitedAccount {
    /// The kind of the packets.
    pub kind: Limited,
    /// Packets that the kernel got, and refused, answered, or forwarded to other hosts.
    pub passed: u64,
    /// Packets that were dropped because the kernel was to refuse or answer no more, or would have been.
    pub dropped: u64,
}

/// A kind of packets that the kernel gets only so often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "json", serde(rename_all = "snake_case"))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Limited {
    /// Datagrams for ports without a socket.
    UdpClosed,
    /// SYNs for ports without a listener.
    TcpClosed,
    /// Segments of TCP that belong to no connection. They count only while there are many.
    TcpStray,
    /// Requests for an echo (ping).
    Echo,
}

impl Limited {
    /// Returns the name of the kind, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UdpClosed => "udp_closed",
            Self::TcpClosed => "tcp_closed",
            Self::TcpStray => "tcp_stray",
            Self::Echo => "echo",
        }
    }

    /// Returns the name of the kind as tables of ports show it, in at most 11 characters.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::UdpClosed => "udp, closed",
            Self::TcpClosed => "tcp, closed",
            Self::TcpStray => "tcp, stray",
            Self::Echo => "echo",
        }
    }
}

impl Guarded {
    /// Sums up the accounts of a guard.
    #[must_use]
    pub fn of(accounts: &[GuardAccount]) -> Self {
        let mut guarded = Self::default();
        for &GuardAccount { of, passed, dropped, answered } in accounts {
            guarded.passed += passed;
            guarded.dropped += dropped;
            guarded.answered += answered;
            let kind = match of {
                Judged::Port(transport, port) => {
                    let protocol = transport.into();
                    guarded.ports.push(PortAccount { protocol, port, passed, dropped, answered });
                    continue;
                }
                Judged::Closed(Transport::Udp) => Limited::UdpClosed,
                Judged::Closed(Transport::Tcp) => Limited::TcpClosed,
                Judged::Strays => Limited::TcpStray,
                Judged::Echoes => Limited::Echo,
            };
            guarded.limited.push(LimitedAccount { kind, passed, dropped });
        }
        guarded
    }

    /// Returns what has been added since `earlier`, a previous account of the same guard.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |now: &PortAccount| earlier.ports.iter().find(|old| now.is_of_port(old));
        let since = |now: &PortAccount| before(now).map_or(*now, |old| now.since(old));
        let limited = |now: &LimitedAccount| earlier.limited.iter().find(|old| now.kind == old.kind);
        let limited_since = |now: &LimitedAccount| limited(now).map_or(*now, |old| now.since(old));
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
            limited: self.limited.iter().map(limited_since).collect(),
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

impl LimitedAccount {
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

impl From<Transport> for Protocol {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::Udp => Self::Udp,
            Transport::Tcp => Self::Tcp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(of: Judged, [passed, dropped, answered]: [u64; 3]) -> GuardAccount {
        GuardAccount { of, passed, dropped, answered }
    }

    #[test]
    fn what_is_limited_is_in_the_sums_and_in_no_account_of_a_port() {
        let (udp, tcp) = (Transport::Udp, Transport::Tcp);
        let guarded = Guarded::of(&[
            account(Judged::Port(udp, 7), [10, 20, 0]),
            account(Judged::Port(tcp, 80), [100, 0, 200]),
            account(Judged::Closed(udp), [1, 2, 0]),
            account(Judged::Closed(tcp), [5, 6, 0]),
            account(Judged::Strays, [1_000, 7, 0]),
            account(Judged::Echoes, [2_000, 8, 0]),
        ]);
        assert_eq!((guarded.passed, guarded.dropped, guarded.answered), (3_116, 43, 200));
        let limited: Vec<_> = guarded.limited.iter().map(|it| (it.kind, it.passed, it.dropped)).collect();
        let [closed, closed_tcp] = [(Limited::UdpClosed, 1, 2), (Limited::TcpClosed, 5, 6)];
        let [stray, echo] = [(Limited::TcpStray, 1_000, 7), (Limited::Echo, 2_000, 8)];
        assert_eq!(limited, [closed, closed_tcp, stray, echo]);
        let worst: Vec<_> = guarded.worst_first().iter().map(|it| (it.protocol, it.port)).collect();
        assert_eq!(worst, [(Protocol::Tcp, 80), (Protocol::Udp, 7)]);
    }

    #[test]
    fn a_difference_has_what_was_added_to_each_account() {
        let guarded = |seconds, seven, eighty| Guarded {
            seconds,
            interfaces: vec!["g0".to_owned()],
            ..Guarded::of(&[
                account(Judged::Port(Transport::Udp, 7), seven),
                account(Judged::Port(Transport::Tcp, 7), eighty),
                account(Judged::Closed(Transport::Tcp), seven),
                account(Judged::Echoes, eighty),
            ])
        };
        let (before, now) = (guarded(1.0, [1, 2, 0], [3, 4, 5]), guarded(3.5, [11, 22, 0], [33, 44, 55]));
        let added = now.since(&before);
        assert_eq!((added.seconds, &added.interfaces), (2.5, &before.interfaces));
        assert_eq!(added, guarded(2.5, [10, 20, 0], [30, 40, 50]));
        let new = now.since(&Guarded { ports: Vec::new(), limited: Vec::new(), ..before });
        assert_eq!((new.ports, new.limited), (now.ports, now.limited));
    }
}
