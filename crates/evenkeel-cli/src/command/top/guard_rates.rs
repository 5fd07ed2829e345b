//! The rates of a guard over an interval, made from the difference of two accounts.

use evenkeel::metrics::{Guarded, Limited, LimitedAccount, PortAccount, Protocol, ThreadShare};
use schemars::JsonSchema;
use serde::Serialize;

/// The share of its packets that the guard drops or answers at a port at least if the port counts as flooded.
const FLOODED: f64 = 0.01;

/// The rates of a guard over an interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub(crate) struct GuardRates {
    /// The length of the interval, in seconds.
    pub(super) seconds: f64,
    /// The network interfaces.
    pub(super) interfaces: Vec<String>,
    /// Interfaces on which the kernel answers all SYNs itself.
    pub(super) mute: Vec<String>,
    /// Whether packets were only counted, and none was dropped or answered.
    pub(super) dry_run: bool,
    /// Packets that the kernel got, in packets a second.
    pub(super) passed_pps: f64,
    /// Packets that were dropped in front of the kernel, or would have been.
    pub(super) dropped_pps: f64,
    /// SYNs that were answered with a cookie, or would have been.
    pub(super) answered_pps: f64,
    /// The rates of ports, those with most drops and answers first.
    pub(super) ports: Vec<PortRates>,
    /// The rates of packets that the kernel gets only so often, by kind.
    pub(super) limited: Vec<LimitedRates>,
    /// The threads that do the interfaces' work, if the guard has started them: what they get of a core while
    /// sockets are flooded, and for how long in the interval that was.
    pub(super) threads: Option<ThreadShare>,
}

/// The rates of a port, in packets a second.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct PortRates {
    /// The protocol that the port belongs to.
    pub(super) protocol: Protocol,
    /// The port.
    pub(super) port: u16,
    /// Packets that the kernel got: datagrams, or SYNs.
    pub(super) passed_pps: f64,
    /// Packets that were dropped, or would have been.
    pub(super) dropped_pps: f64,
    /// SYNs that were answered with a cookie, or would have been.
    pub(super) answered_pps: f64,
}

/// The rates of a kind of packets that the kernel gets only so often, in packets a second.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct LimitedRates {
    /// The kind of the packets.
    pub(super) kind: Limited,
    /// Packets that the kernel got, and refused, answered, or forwarded to other hosts.
    pub(super) passed_pps: f64,
    /// Packets that were dropped because the kernel was to refuse or answer no more, or would have been.
    pub(super) dropped_pps: f64,
}

impl GuardRates {
    /// Returns the rates of what was `added` in an interval; `None` if no time has passed.
    pub(super) fn of(added: &Guarded) -> Option<Self> {
        let seconds = added.seconds;
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let per_s = |packets: u64| packets as f64 / seconds;
        let port = |&&PortAccount { protocol, port, passed, dropped, answered }: &&PortAccount| PortRates {
            protocol,
            port,
            passed_pps: per_s(passed),
            dropped_pps: per_s(dropped),
            answered_pps: per_s(answered),
        };
        let limited = |&LimitedAccount { kind, passed, dropped }: &LimitedAccount| LimitedRates {
            kind,
            passed_pps: per_s(passed),
            dropped_pps: per_s(dropped),
        };
        (seconds > 0.0).then(|| Self {
            seconds,
            interfaces: added.interfaces.clone(),
            mute: added.mute.clone(),
            dry_run: added.dry_run,
            passed_pps: per_s(added.passed),
            dropped_pps: per_s(added.dropped),
            answered_pps: per_s(added.answered),
            ports: added.worst_first().iter().map(port).collect(),
            limited: added.limited.iter().map(limited).collect(),
            threads: added.threads,
        })
    }

    /// Returns the rate of all packets that the guard judged.
    pub(super) fn offered_pps(&self) -> f64 {
        self.passed_pps + self.dropped_pps + self.answered_pps
    }
}

impl PortRates {
    /// Returns whether too many packets found the socket's queue full.
    pub(super) fn is_flooded(&self) -> bool {
        let lost = self.dropped_pps + self.answered_pps;
        lost > 0.0 && lost >= FLOODED * (lost + self.passed_pps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::top::samples::guarding;

    #[test]
    fn the_ports_with_most_drops_come_first() {
        let (before, now) = (guarding(1, 1_000, 500), guarding(5, 1_000, 500));
        let rates = GuardRates::of(&now.guards[0].since(&before.guards[0])).unwrap();
        assert_eq!((rates.seconds, rates.dropped_pps, rates.passed_pps), (4.0, 1_000.0, 1_020.0));
        assert_eq!(rates.offered_pps(), 2_090.0);
        let ports: Vec<_> = rates.ports.iter().map(|port| (port.port, port.is_flooded())).collect();
        assert_eq!(ports, [(53, true), (443, true), (9, false)]);
        assert_eq!(GuardRates::of(&now.guards[0].since(&now.guards[0])), None);
    }
}
