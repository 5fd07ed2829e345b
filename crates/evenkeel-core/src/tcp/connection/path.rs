//! What ICMP says about the path. Anybody can send it: only what quotes a segment that is under way counts (RFC 5927, 4).

use super::super::seq::SeqNumber;
use super::super::state::State;
use super::{Connection, Error};
use crate::time::Instant;

/// Below this no path is believed to be: an attacker could make every segment tiny. That of Linux (`min_pmtu` of 552 octets), less two headers.
const PATH_MSS_MIN: u16 = 512;

impl Connection {
    /// Packet too big (RFC 1191, RFC 8201): a segment that began at `seq` does not fit, `mss` octets after the 20 of its header would. What is under way in
    /// larger segments is sent again. Says whether it was believed.
    pub fn on_packet_too_big(&mut self, seq: SeqNumber, mss: u16, _now: Instant) -> bool {
        if !self.is_under_way(seq) {
            return false;
        }
        let mss = mss.max(PATH_MSS_MIN);
        if mss < self.snd.mss {
            self.snd.mss = mss;
            self.recovery.set_mss(self.payload_max());
        }
        true
    }

    /// Destination unreachable. While opening, a refusal is the end (`hard`: port or protocol, RFC 9293, 3.9.2.2). Later it may pass; it only says why the
    /// connection fails, should it fail without a sign of the peer (RFC 5461, 4.1). Says whether it was believed.
    pub fn on_unreachable(&mut self, seq: SeqNumber, hard: bool) -> bool {
        let believed = self.is_under_way(seq);
        if believed && hard && !self.state.is_synchronized() {
            self.fail(Error::Refused);
        }
        self.soft_error |= believed;
        believed
    }

    fn is_under_way(&self, seq: SeqNumber) -> bool {
        self.state != State::Closed && seq.at_or_after(self.snd.una) && seq.before(self.snd.nxt)
    }
}
