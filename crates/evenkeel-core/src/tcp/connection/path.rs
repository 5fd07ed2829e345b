//! What ICMP says about the path. Anybody can send it: only what quotes a segment that is under way counts (RFC 5927, 4).

use super::super::seq::SeqNumber;
use super::super::state::State;
use super::{Connection, Error};

/// Below this no path is believed to be: an attacker could make every segment tiny. That of Linux (`min_pmtu` of 552 octets), less two headers.
const PATH_MSS_MIN: u16 = 512;

impl Connection {
    /// Packet too big (RFC 1191, RFC 8201): a segment that began at `seq` does not fit, `mss` octets after the 20 of its header would. What is under way in
    /// larger segments is sent again.
    pub fn on_packet_too_big(&mut self, seq: SeqNumber, mss: u16) {
        let mss = mss.max(PATH_MSS_MIN);
        if !self.is_under_way(seq) || mss >= self.snd.mss {
            return;
        }
        self.snd.mss = mss;
        self.recovery.set_mss(self.payload_max());
    }

    /// Destination unreachable. While opening, a refusal is the end (`hard`: port or protocol, RFC 9293, 3.9.2.2). Later it may pass; it only says why the
    /// connection fails, should it fail.
    pub fn on_unreachable(&mut self, seq: SeqNumber, hard: bool) {
        if !self.is_under_way(seq) {
            return;
        }
        if hard && matches!(self.state, State::SynSent) {
            return self.fail(Error::Refused);
        }
        self.soft_error = true;
    }

    fn is_under_way(&self, seq: SeqNumber) -> bool {
        self.state != State::Closed && seq.at_or_after(self.snd.una) && seq.before(self.snd.nxt)
    }
}
