//! The states of a connection and what leads from one to the next (RFC 9293, 3.3.2).

use core::fmt;

/// The state of a connection (RFC 9293, 3.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum State {
    /// There is none, or it is over.
    #[default]
    Closed,
    /// Waits for a SYN of anybody.
    Listen,
    /// Has sent a SYN, and waits for one.
    SynSent,
    /// Has sent and received a SYN, and waits for the acknowledgment of its own.
    SynReceived,
    /// Data flows.
    Established,
    /// Has sent a FIN.
    FinWait1,
    /// Its FIN is acknowledged: it only receives.
    FinWait2,
    /// Has received a FIN: it only sends.
    CloseWait,
    /// Has sent and received a FIN, and waits for the acknowledgment of its own.
    Closing,
    /// Has received a FIN, then sent one, and waits for its acknowledgment.
    LastAck,
    /// Both FINs are acknowledged; waits until no segment of this connection is left in the network.
    TimeWait,
}

/// The events that move a connection from one state to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateEvent {
    /// The user listens.
    PassiveOpen,
    /// The user connects.
    ActiveOpen,
    /// A SYN came that does not acknowledge ours.
    Syn,
    /// A SYN came that acknowledges ours.
    SynAck,
    /// Our SYN was acknowledged.
    SynAcked,
    /// The user has nothing more to send.
    Close,
    /// The peer has nothing more to send, and we have all of it.
    Fin,
    /// Our FIN was acknowledged.
    FinAcked,
    /// A reset came, or the user gave up, or the peer did not answer for too long.
    Abort,
    /// Twice the maximum segment lifetime has passed.
    Timeout,
}

impl State {
    /// All states, in the order of RFC 9293.
    pub const ALL: [Self; 11] = [
        Self::Closed,
        Self::Listen,
        Self::SynSent,
        Self::SynReceived,
        Self::Established,
        Self::FinWait1,
        Self::FinWait2,
        Self::CloseWait,
        Self::Closing,
        Self::LastAck,
        Self::TimeWait,
    ];

    /// Returns the state after `event`; `None` if the event means nothing in this state.
    #[must_use]
    pub const fn after(self, event: StateEvent) -> Option<Self> {
        use StateEvent::{
            Abort, ActiveOpen, Close, Fin, FinAcked, PassiveOpen, Syn, SynAck, SynAcked, Timeout,
        };
        Some(match (self, event) {
            (Self::Closed, PassiveOpen) => Self::Listen,
            (Self::Closed | Self::Listen, ActiveOpen) => Self::SynSent,
            (Self::Listen | Self::SynSent, Syn) => Self::SynReceived,
            (Self::SynSent, SynAck) | (Self::SynReceived, SynAcked) => Self::Established,
            (Self::Listen | Self::SynSent, Close) => Self::Closed,
            // In SYN-RECEIVED a close waits until our SYN is acknowledged, as RFC 9293, 3.10.4, lets it with
            // data to send.
            (Self::Established, Close) => Self::FinWait1,
            (Self::CloseWait, Close) => Self::LastAck,
            (Self::Established, Fin) => Self::CloseWait,
            (Self::FinWait1, Fin) => Self::Closing,
            (Self::FinWait2, Fin) => Self::TimeWait,
            (Self::FinWait1, FinAcked) => Self::FinWait2,
            (Self::Closing, FinAcked) => Self::TimeWait,
            (Self::LastAck, FinAcked) | (Self::TimeWait, Timeout) => Self::Closed,
            (Self::Closed, Abort) => return None,
            (_, Abort) => Self::Closed,
            _ => return None,
        })
    }

    /// Returns whether both sides know each other's sequence numbers (RFC 9293, 3.5.2).
    #[must_use]
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::Closed | Self::Listen | Self::SynSent | Self::SynReceived)
    }

    /// Returns whether the user may still send.
    #[must_use]
    pub const fn may_send(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived | Self::Established | Self::CloseWait)
    }

    /// Returns whether the peer may still send.
    #[must_use]
    pub const fn may_receive(self) -> bool {
        matches!(self, Self::SynReceived | Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}

/// As RFC 9293 writes it.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Closed => "CLOSED",
            Self::Listen => "LISTEN",
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECEIVED",
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write as _;

    const EVENTS: [StateEvent; 10] = [
        StateEvent::PassiveOpen,
        StateEvent::ActiveOpen,
        StateEvent::Syn,
        StateEvent::SynAck,
        StateEvent::SynAcked,
        StateEvent::Close,
        StateEvent::Fin,
        StateEvent::FinAcked,
        StateEvent::Abort,
        StateEvent::Timeout,
    ];

    #[test]
    fn the_transition_table_is_the_one_on_record() {
        let mut table = String::new();
        for (state, event) in State::ALL.iter().flat_map(|state| EVENTS.map(|event| (state, event))) {
            if let Some(next) = state.after(event) {
                writeln!(table, "{state:<12}  {event:<11}  {next}", event = format!("{event:?}")).unwrap();
            }
        }
        println!("{table}");
        assert_eq!(
            table,
            include_str!("tests/transitions.txt"),
            "printed above; keep it if the change is meant"
        );
    }

    #[test]
    fn every_state_can_be_reached_and_left() {
        for state in State::ALL {
            let next = |from: State| EVENTS.into_iter().filter_map(move |event| from.after(event));
            assert!(next(state).any(|to| to != state), "{state}");
            assert!(State::ALL.into_iter().any(|from| next(from).any(|to| to == state)), "{state}");
        }
    }
}
