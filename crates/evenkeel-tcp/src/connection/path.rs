//! How large a segment the path takes, and what ICMP says of it. Anybody can send that: only what quotes a
//! segment that is under way counts (RFC 5927, 4).
//!
//! Three things change the size: a router's report makes it smaller (RFC 1191, RFC 8201); so does silence,
//! where routers do not report (RFC 4821, 7.7, RFC 2923, 2.1); and after ten minutes it is again what the
//! handshake agreed on, for paths change (RFC 8201, 5.3).

use super::super::seq::SeqNumber;
use super::super::state::State;
use super::error::Error;
use super::tcb::{Connection, Narrow};
use crate::time::{Duration, Instant};

/// Below this no path is believed to be: an attacker could make every segment tiny. That of Linux (`min_pmtu`
/// of 552 bytes), less two headers.
const PATH_MSS_MIN: u16 = 512;
/// IPv6 has at least 1280 bytes everywhere (RFC 8200, 5).
const PATH_MSS_MIN_V6: u16 = 1_220;
/// What silence makes of a larger size, at the first: nearly every path takes it. Linux's `tcp_base_mss`.
const BASE_MSS: u16 = 1_024;
/// So many timeouts in a row make a large segment suspect; one is likely to be loss. Linux's `tcp_retries1`.
const SUSPICIOUS_TIMEOUTS: u32 = 3;
/// How long a smaller size is kept (RFC 8201, 5.3; RFC 1191, 6.3).
const KEPT: Duration = Duration::from_secs(600);
/// Where large segments vanish again and again it is kept longer, up to this many times twice as long.
const DOUBLINGS_MAX: u32 = 5;

impl Connection {
    /// Packet too big (RFC 1191, RFC 8201): a segment that began at `seq` does not fit, `mss` bytes after the
    /// 20 of its header would. What is under way in larger segments is sent again. Says whether it was
    /// believed.
    pub fn on_packet_too_big(&mut self, seq: SeqNumber, mss: u16, now: Instant) -> bool {
        let believed = self.is_under_way(seq);
        let mss = mss.max(self.path_mss_min());
        if believed && mss < self.snd.mss {
            self.narrow(mss, now).until = now + KEPT;
        }
        believed
    }

    /// The retransmission timer has expired: perhaps nothing as large as the first segment gets through, and
    /// nobody says so. Then it is sent again in smaller ones.
    pub(super) fn suspect_path(&mut self, now: Instant) {
        let timeouts = self.recovery.timeouts_in_a_row();
        if !self.state.is_synchronized() || timeouts < SUSPICIOUS_TIMEOUTS {
            return;
        }
        let overhead = self.snd.mss - self.payload_max();
        let first = self.recovery.next_retransmission(u16::MAX).map_or(0, |range| range.len());
        let size = first + u32::from(overhead);
        // Nearly every path takes a segment of the base size. If one vanishes again and again, this path is
        // another.
        let is_base_enough = size > u32::from(BASE_MSS) || timeouts == SUSPICIOUS_TIMEOUTS;
        let base = if self.snd.mss > BASE_MSS && is_base_enough { BASE_MSS } else { PATH_MSS_MIN };
        let mss = base.max(self.path_mss_min());
        if mss < self.snd.mss && size > u32::from(mss) {
            let path = self.narrow(mss, now);
            path.until = now + KEPT * (1 << path.vanished.min(DOUBLINGS_MAX));
            path.vanished += u32::from(timeouts == SUSPICIOUS_TIMEOUTS);
        }
    }

    /// New data is about to leave: if the size has been small for long enough, it is again what was agreed
    /// on.
    pub(super) fn widen_path(&mut self, now: Instant) {
        let wide = self.snd.narrow.as_ref().filter(|path| path.until <= now && path.agreed > self.snd.mss);
        if let Some(mss) = wide.map(|path| path.agreed) {
            self.set_mss(mss);
        }
    }

    fn narrow(&mut self, mss: u16, now: Instant) -> &mut Narrow {
        let agreed = self.snd.mss;
        self.set_mss(mss);
        self.snd.narrow.get_or_insert_with(|| Box::new(Narrow { agreed, until: now, vanished: 0 }))
    }

    /// No segment is larger from now on, whatever the path takes.
    pub(super) fn limit_mss(&mut self, mss: u16) {
        if let Some(narrow) = &mut self.snd.narrow {
            narrow.agreed = narrow.agreed.min(mss);
        }
        if mss < self.snd.mss {
            self.set_mss(mss);
        }
    }

    fn set_mss(&mut self, mss: u16) {
        self.snd.mss = mss;
        self.recovery.set_mss(self.payload_max());
    }

    const fn path_mss_min(&self) -> u16 {
        if self.ipv6 { PATH_MSS_MIN_V6 } else { PATH_MSS_MIN }
    }

    /// Destination unreachable. While opening, a refusal is the end (`hard`: port or protocol, RFC 9293,
    /// 3.9.2.2). Later it may pass; it only says why the connection fails, should it fail without a sign of
    /// the peer (RFC 5461, 4.1). Says whether it was believed.
    pub fn on_unreachable(&mut self, seq: SeqNumber, hard: bool) -> bool {
        let believed = self.is_under_way(seq);
        if believed && hard && !self.state.is_synchronized() {
            self.fail(Error::Refused);
        }
        self.soft_error |= believed;
        believed
    }

    /// The segment that began at `seq` could not leave, because the next hop does not answer (see
    /// [`Endpoint::next_hop_silent`](crate::endpoint::Endpoint::next_hop_silent)). Returns whether it was
    /// under way.
    pub fn on_next_hop_silent(&mut self, seq: SeqNumber) -> bool {
        let under_way = self.is_under_way(seq);
        if under_way && !self.state.is_synchronized() {
            self.fail(Error::Unreachable);
        }
        self.soft_error |= under_way;
        under_way
    }

    fn is_under_way(&self, seq: SeqNumber) -> bool {
        self.state != State::Closed && seq.at_or_after(self.snd.una) && seq.before(self.snd.nxt)
    }
}
