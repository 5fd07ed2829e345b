//! The counters of what became of every frame.

use core::fmt;

use crate::drop::Reason;

/// Counts of what became of frames, kept so that the counters can be balanced at any moment.
///
/// Input: `received + duplicated = delivered + consumed + forwarded + dropped(input reasons) + queued`.
/// Output: `originated + forwarded = transmitted + dropped(output reasons) + held`, where `held` waits for a
/// neighbour.
///
/// A packet for another host leaves the input side and enters the output side when its route is known: a
/// packet dropped before that is dropped on input. If it then leaves in fragments, those beyond the first
/// are originated. A datagram of several fragments counts as its frames. `queued` and `held` are not
/// counters: they are read from the queues themselves when the counters are checked.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// Frames taken from interfaces, or found in channels that an interface filled.
    pub received: u64,
    /// Copies made for further members of a multicast group.
    pub duplicated: u64,
    /// Frames whose payload a program has received.
    pub delivered: u64,
    /// Frames that ended inside the host: ARP, NDP, ICMP, IGMP, MLD.
    pub consumed: u64,
    /// Frames for other hosts that were forwarded.
    pub forwarded: u64,
    /// Frames this host made to be sent.
    pub originated: u64,
    /// Frames handed to an interface's transmit side.
    pub transmitted: u64,
    input_drops: [u64; Reason::COUNT],
    output_drops: [u64; Reason::COUNT],
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            received: 0,
            duplicated: 0,
            delivered: 0,
            consumed: 0,
            forwarded: 0,
            originated: 0,
            transmitted: 0,
            input_drops: [0; Reason::COUNT],
            output_drops: [0; Reason::COUNT],
        }
    }
}

/// The counters do not balance: a frame was lost or counted twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imbalance {
    /// The side whose counters do not balance: `input` or `output`.
    pub side: &'static str,
    /// Frames that came.
    pub came: u64,
    /// Frames accounted for.
    pub went: u64,
}

impl fmt::Display for Imbalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} frames came, {} are accounted for", self.side, self.came, self.went)
    }
}

impl core::error::Error for Imbalance {}

impl Ledger {
    /// Counts `frames` received frames as dropped.
    pub fn drop_input(&mut self, reason: impl Into<Reason>, frames: u64) {
        self.input_drops[reason.into().index()] += frames;
    }

    /// Counts one outgoing frame as dropped.
    pub fn drop_output(&mut self, reason: impl Into<Reason>) {
        self.output_drops[reason.into().index()] += 1;
    }

    /// Returns the number of received frames dropped for `reason`.
    #[must_use]
    pub fn input_drops(&self, reason: impl Into<Reason>) -> u64 {
        self.input_drops[reason.into().index()]
    }

    /// Returns the number of outgoing frames dropped for `reason`.
    #[must_use]
    pub fn output_drops(&self, reason: impl Into<Reason>) -> u64 {
        self.output_drops[reason.into().index()]
    }

    /// Returns an iterator over the reasons for which frames were dropped, with the counts of received and
    /// outgoing frames.
    pub fn drops(&self) -> impl Iterator<Item = (Reason, u64, u64)> {
        Reason::all()
            .map(|r| (r, self.input_drops[r.index()], self.output_drops[r.index()]))
            .filter(|&(_, input, output)| input + output > 0)
    }

    /// Balances the counters, given the frames now queued on the way up and held on the way down.
    ///
    /// # Errors
    /// [`Imbalance`] of the side that does not add up: a bug in evenkeel, never the fault of input.
    pub fn check(&self, queued: u64, held: u64) -> Result<(), Imbalance> {
        let ended = self.delivered + self.consumed + self.forwarded;
        let went = ended + self.input_drops.iter().sum::<u64>() + queued;
        let came = self.received + self.duplicated;
        if went != came {
            return Err(Imbalance { side: "input", came, went });
        }
        let went = self.transmitted + self.output_drops.iter().sum::<u64>() + held;
        let came = self.originated + self.forwarded;
        if went != came {
            return Err(Imbalance { side: "output", came, went });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drop::{IpDrop, QueueDrop};

    #[test]
    fn a_lost_frame_shows() {
        let mut ledger = Ledger { received: 5, delivered: 2, consumed: 1, ..Ledger::default() };
        ledger.drop_input(QueueDrop::Channel, 1);
        assert_eq!(ledger.check(1, 0), Ok(()));
        assert_eq!(ledger.check(0, 0).unwrap_err().to_string(), "input: 5 frames came, 4 are accounted for");
        ledger.originated = 1;
        ledger.drop_output(IpDrop::NoRoute);
        assert_eq!(ledger.check(1, 0), Ok(()));
        assert_eq!(ledger.check(1, 1).unwrap_err().side, "output");
    }

    #[test]
    fn a_forwarded_frame_is_counted_on_both_sides() {
        let mut ledger = Ledger { received: 2, forwarded: 2, transmitted: 1, ..Ledger::default() };
        assert_eq!(ledger.check(0, 1), Ok(()));
        ledger.originated = 1;
        assert_eq!(ledger.check(0, 1).unwrap_err().to_string(), "output: 3 frames came, 2 are accounted for");
    }
}
