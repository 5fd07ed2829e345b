//! The largest segment that the path takes, and ICMP errors about it. Anybody can send an ICMP error, so
//! only one that quotes a segment under way counts (RFC 5927, 4).
//!
//! Three things change the size. A router's report makes it smaller (RFC 1191, RFC 8201). So does silence,
//! where routers do not report (RFC 4821, 7.7, RFC 2923, 2.1). After ten minutes it returns to the size of
//! the handshake, because paths change (RFC 8201, 5.3).

use super::super::seq::SeqNumber;
use super::super::state::State;
use super::error::Error;
use super::tcb::{Connection, Narrow};
use crate::time::{Duration, Instant};

/// The smallest size of an IPv4 path that a report can set, in bytes: an attacker could otherwise make
/// every segment tiny. Linux's (`min_pmtu` of 552 bytes), less two headers.
const PATH_MSS_MIN: u16 = 512;
/// The smallest size of an IPv6 path, in bytes: every IPv6 link takes 1280 bytes (RFC 8200, 5), less two
/// headers.
const PATH_MSS_MIN_V6: u16 = 1_220;
/// The size to which silence first reduces a larger one, in bytes: nearly every path takes it. Linux's
/// `tcp_base_mss`.
const BASE_MSS: u16 = 1_024;
/// The number of timeouts in a row that makes a large segment suspect; a single one is likely to be loss.
/// Linux's `tcp_retries1`.
const SUSPICIOUS_TIMEOUTS: u32 = 3;
/// The time for which a smaller size is kept (RFC 8201, 5.3; RFC 1191, 6.3).
const KEPT: Duration = Duration::from_secs(600);
/// The largest number of times that [`KEPT`] is doubled, on a path where large segments vanish again and
/// again.
const DOUBLINGS_MAX: u32 = 5;

impl Connection {
    /// Processes a report that a packet was too big (RFC 1191, RFC 8201): the segment that began at `seq`
    /// does not fit the path, and one of `mss` bytes after the 20 of its header would. Larger segments
    /// under way are sent again. Returns whether the report counted: whether the segment is under way.
    pub fn on_packet_too_big(&mut self, seq: SeqNumber, mss: u16, now: Instant) -> bool {
        let believed = self.is_under_way(seq);
        let mss = mss.max(self.path_mss_min());
        if believed && mss < self.snd.mss {
            self.narrow(mss, now).until = now + KEPT;
        }
        believed
    }

    /// Reduces the segment size if several timeouts in a row suggest that the path discards large segments
    /// without a report. The first segment is then sent again in smaller ones.
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

    /// Restores the segment size of the handshake before new data leaves, if the smaller size has been
    /// kept for long enough.
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

    /// Limits segments to `mss` bytes from now on, whatever the path takes.
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

    /// Processes a report that the destination is unreachable. While the connection is being opened, a
    /// refusal ends it (`hard`: port or protocol, RFC 9293, 3.9.2.2). Later the condition may pass: the
    /// report is only the reason if the connection fails without a sign of the peer (RFC 5461, 4.1).
    /// Returns whether the report counted: whether the segment that began at `seq` is under way.
    pub fn on_unreachable(&mut self, seq: SeqNumber, hard: bool) -> bool {
        let believed = self.is_under_way(seq);
        if believed && hard && !self.state.is_synchronized() {
            self.fail(Error::Refused);
        }
        self.soft_error |= believed;
        believed
    }

    /// Records that the segment that began at `seq` could not leave, because the next hop does not answer
    /// (see [`Endpoint::next_hop_silent`](crate::endpoint::Endpoint::next_hop_silent)). Returns whether it
    /// is under way.
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
