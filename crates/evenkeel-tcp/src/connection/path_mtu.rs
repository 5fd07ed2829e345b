//! Path MTU discovery: the largest segment that the path takes.
//!
//! Three things change the size. A router's report makes it smaller (RFC 1191, RFC 8201). So does silence,
//! where routers do not report (RFC 4821, 7.7, RFC 2923, 2.1). After ten minutes it returns to the size of
//! the handshake, because paths change (RFC 8201, 5.3).

use alloc::boxed::Box;

use super::super::options::{MSS_DEFAULT_V4, MSS_DEFAULT_V6, MSS_MIN};
use super::super::recovery::Recovery;
use super::negotiated::Negotiated;
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

/// The size of segments.
#[derive(Debug)]
pub(super) struct PathMtu {
    /// The largest segment in bytes after the 20 of its header; options reduce the payload.
    mss: u16,
    /// Whether the addresses are of IPv6.
    ipv6: bool,
    narrow: Option<Box<Narrow>>,
}

/// A path that takes smaller segments than the handshake agreed on, or did for a time.
#[derive(Debug, Clone, Copy)]
struct Narrow {
    agreed: u16,
    /// The time until which the smaller size is kept.
    until: Instant,
    /// The number of times that large segments have vanished without a report.
    vanished: u32,
}

impl PathMtu {
    pub(super) const fn new(mss: u16, ipv6: bool) -> Self {
        Self { mss, ipv6, narrow: None }
    }

    /// Returns the largest segment in bytes after the 20 of its header.
    pub(super) const fn mss(&self) -> u16 {
        self.mss
    }

    /// Returns the bytes of payload in a full segment that reports no SACK: Eff.snd.MSS (RFC 9293, 3.7.1).
    #[inline]
    pub(super) const fn payload_max(&self, options: &Negotiated) -> u16 {
        self.mss.saturating_sub(options.options_len())
    }

    /// Returns the bytes of headers of a segment with data, the IP header included.
    pub(super) const fn headers_len(&self, options: &Negotiated) -> u16 {
        const TCP: u16 = 20;
        let ip = if self.ipv6 { 40 } else { 20 };
        ip + TCP + self.mss.saturating_sub(self.payload_max(options))
    }

    /// Returns the size of segments that `mss`, the MSS option of the peer's SYN, allows.
    pub(super) fn peer_mss(&self, mss: Option<u16>) -> u16 {
        mss.unwrap_or(if self.ipv6 { MSS_DEFAULT_V6 } else { MSS_DEFAULT_V4 }).max(MSS_MIN)
    }

    /// Limits segments to the MSS option of the peer's SYN.
    pub(super) fn agree(&mut self, mss: Option<u16>) {
        self.mss = self.mss.min(self.peer_mss(mss));
    }

    /// Processes a report that a packet was too big, and that a segment of `mss` bytes would fit. Larger
    /// segments under way are sent again.
    pub(super) fn on_packet_too_big(
        &mut self,
        mss: u16,
        options: &Negotiated,
        recovery: &mut Recovery,
        now: Instant,
    ) {
        let mss = mss.max(self.least());
        if mss < self.mss {
            self.narrow(mss, options, recovery, now).until = now + KEPT;
        }
    }

    /// Processes a retransmission timeout. Reduces the segment size if several timeouts in a row suggest
    /// that the path discards large segments without a report. The first segment is then sent again in
    /// smaller ones.
    pub(super) fn on_timeout(&mut self, options: &Negotiated, recovery: &mut Recovery, now: Instant) {
        let timeouts = recovery.timeouts_in_a_row();
        if timeouts < SUSPICIOUS_TIMEOUTS {
            return;
        }
        let overhead = self.mss - self.payload_max(options);
        let first = recovery.next_retransmission(u16::MAX).map_or(0, |range| range.len());
        let size = first + u32::from(overhead);
        // Nearly every path takes a segment of the base size. If one vanishes again and again, this path is
        // another.
        let is_base_enough = size > u32::from(BASE_MSS) || timeouts == SUSPICIOUS_TIMEOUTS;
        let base = if self.mss > BASE_MSS && is_base_enough { BASE_MSS } else { PATH_MSS_MIN };
        let mss = base.max(self.least());
        if mss < self.mss && size > u32::from(mss) {
            let path = self.narrow(mss, options, recovery, now);
            path.until = now + KEPT * (1 << path.vanished.min(DOUBLINGS_MAX));
            path.vanished += u32::from(timeouts == SUSPICIOUS_TIMEOUTS);
        }
    }

    /// Restores the segment size of the handshake before new data leaves, if the smaller size has been
    /// kept for long enough.
    #[inline]
    pub(super) fn widen(&mut self, options: &Negotiated, recovery: &mut Recovery, now: Instant) {
        let wide = self.narrow.as_ref().filter(|path| path.until <= now && path.agreed > self.mss);
        if let Some(mss) = wide.map(|path| path.agreed) {
            self.set(mss, options, recovery);
        }
    }

    /// Limits segments to `mss` bytes from now on, whatever the path takes.
    pub(super) fn limit(&mut self, mss: u16, options: &Negotiated, recovery: &mut Recovery) {
        if let Some(narrow) = &mut self.narrow {
            narrow.agreed = narrow.agreed.min(mss);
        }
        if mss < self.mss {
            self.set(mss, options, recovery);
        }
    }

    fn narrow(
        &mut self,
        mss: u16,
        options: &Negotiated,
        recovery: &mut Recovery,
        now: Instant,
    ) -> &mut Narrow {
        let agreed = self.mss;
        self.set(mss, options, recovery);
        self.narrow.get_or_insert_with(|| Box::new(Narrow { agreed, until: now, vanished: 0 }))
    }

    fn set(&mut self, mss: u16, options: &Negotiated, recovery: &mut Recovery) {
        self.mss = mss;
        recovery.set_mss(self.payload_max(options));
    }

    const fn least(&self) -> u16 {
        if self.ipv6 { PATH_MSS_MIN_V6 } else { PATH_MSS_MIN }
    }
}
