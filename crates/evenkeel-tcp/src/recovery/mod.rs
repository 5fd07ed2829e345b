//! Loss recovery and the sending rate of one connection: the bytes to send again, and how much may leave
//! when.
//!
//! The connection notifies [`Recovery`] of segments that leave and of acknowledgments. It takes from it the
//! bytes to send again ([`Recovery::next_retransmission`]), the amount that may leave
//! ([`Recovery::send_allowance`]), the time to wait for ([`Recovery::release_time`]), and the next deadline
//! ([`Recovery::deadline`]). Recovery counts bytes, does not hold them, and does not know the peer's window.
//!
//! | looking for | file |
//! | --- | --- |
//! | settings; what goes in, reports | `config.rs`; `info.rs` |
//! | the parts of the state together | `parts.rs` |
//! | what became of each segment; `pipe` | `scoreboard.rs` |
//! | the retransmission timer | `retransmission.rs` |
//! | when a segment counts as lost (RACK), and the reordering timer | `rack.rs` |
//! | loss detection without SACK: duplicate acknowledgments | `without_sack.rs` |
//! | tail loss probes | `tail_loss.rs` |
//! | how the window is reduced (PRR) | `prr.rs` |
//! | recovery that was for nothing: Eifel, DSACK, F-RTO | `episode.rs`, `ack.rs` |
//! | round-trip time, retransmission timeout | `rtt.rs` |
//! | the congestion window, and how much of it is in use | `congestion.rs` |
//! | how fast data arrive | `delivery.rs` |
//! | how fast segments leave; where to start, and to go on after a pause | `pacing.rs` |
//! | how large the window may be | [`congestion`](super::congestion) |
//!
//! Events that are being processed, step by step:
//!
//! | looking for | file |
//! | --- | --- |
//! | an acknowledgment; the one that nearly always comes | `ack.rs`, `arrived.rs`; `expected.rs` |
//! | the samples for algorithms with a model of the path | `model.rs` |
//! | a segment that leaves | `sending.rs` |
//! | a deadline that has passed | `expiry.rs`; `expired.rs` |
//!
//! With SACK, RACK alone decides which segments are lost (RFC 8985 instead of RFC 6675's counting; `pipe` is
//! RFC 6675's). Without SACK, three duplicate acknowledgments do (RFC 6582). Limited transmit (RFC 3042)
//! needs no rule of its own: segments for which a duplicate acknowledgment stands are no longer in `pipe`.

mod ack;
mod arrived;
mod config;
mod congestion;
mod delivery;
mod episode;
mod expected;
mod expired;
mod expiry;
mod info;
mod model;
mod pacing;
mod parts;
mod prr;
mod rack;
mod retransmission;
mod rtt;
mod scoreboard;
mod sending;
mod tail_loss;
#[cfg(test)]
mod tests;
mod without_sack;

pub use config::{RecoveryConfig, Restart, RtoConfig, Start};
pub use expired::Expired;
pub use info::{AckInfo, Acked, RecoveryInfo, RecoveryState};

use alloc::boxed::Box;
use alloc::sync::Arc;

use self::ack::Acknowledgment;
use self::congestion::initial_window;
use self::expected::ExpectedAck;
use self::expiry::Expiry;
use self::pacing::Pacing;
use self::parts::Parts;
use self::sending::Sending;
use super::rate::Rate;
use super::{SeqNumber, SeqRange};
use crate::time::{Duration, Instant};

/// Scoreboard, round-trip time, loss detection and congestion control of one connection.
#[derive(Debug)]
pub struct Recovery {
    parts: Parts,
}

/// Settings.
impl Recovery {
    /// Creates the recovery of a connection whose SYN has the number `iss` and whose full segments carry
    /// `mss` bytes. SACK is off until [`Recovery::set_sack_permitted`]. Connections share the
    /// configuration, because there are very many of them.
    #[must_use]
    pub fn new(config: &Arc<RecoveryConfig>, iss: SeqNumber, mss: u16) -> Self {
        Self { parts: Parts::new(config, iss, mss) }
    }

    /// Sets whether both sides sent SACK-Permitted (RFC 2018, 2).
    pub fn set_sack_permitted(&mut self, permitted: bool) {
        self.parts.sack = permitted;
    }

    /// Sets the payload of segments to `mss` bytes from now on. Larger segments in flight are too big for
    /// the path: they are to be sent again, which is no sign of congestion (RFC 1191, 6.4).
    ///
    /// The window keeps its bytes, unless it is the initial one.
    pub fn set_mss(&mut self, mss: u16) {
        let (parts, mss) = (&mut self.parts, u32::from(mss.max(1)));
        if mss < parts.congestion.window.mss {
            let lost = parts.board.mark_lost_where(|segment| segment.len > mss);
            parts.count_lost(lost);
            if let Some(delivery) = &mut parts.board.delivery {
                delivery.take_losses();
            }
        }
        parts.congestion.set_mss(&parts.config, mss);
        if parts.board.is_syn_outstanding() {
            // The peer's SYN says what a segment is before any leaves.
            parts.congestion.window.cwnd = initial_window(&parts.config, mss);
        }
    }

    /// Sets the number of bytes of a segment's headers, including IP's.
    pub(crate) fn set_overhead(&mut self, bytes: u16) {
        // IPv6's header and TCP's with all options are less.
        self.parts.overhead = u8::try_from(bytes).unwrap_or(u8::MAX);
    }

    /// Sets the highest rate from now on, headers included ([`RecoveryConfig::rate_max`]).
    pub fn set_rate_max(&mut self, rate: Option<Rate>) {
        if rate.is_some() || self.parts.pacing.is_some() {
            self.paced().rate_max = rate.unwrap_or(Rate::UNLIMITED);
        }
    }

    /// Sets the capacity: from now on the connection sends [at that rate](Start::At), unless it is
    /// recovering from a loss.
    pub fn set_capacity(&mut self, rate: Rate, now: Instant) {
        let pacing = self.paced();
        pacing.capacity = rate;
        pacing.start = Some(pacing::Start::At(rate));
        if self.parts.rtt.srtt().is_some() {
            self.parts.start(0, now);
        }
    }

    /// Returns the pacing, after creating it if need be: the connection paces from now on.
    fn paced(&mut self) -> &mut Pacing {
        self.parts.pacing.get_or_insert_with(|| Box::new(Pacing::of(&self.parts.config)))
    }

    /// Sets the rate and the round trip of an earlier connection to the destination: see
    /// [`Start::Remembered`].
    pub fn remember(&mut self, rate: Rate, rtt: Duration) {
        if let Some(pacing) =
            self.parts.pacing.as_mut().filter(|_| self.parts.config.start == Start::Remembered)
        {
            pacing.start = Some(pacing::Start::Remembered { rate, rtt });
        }
    }

    /// Sets the number of times that a listener has sent the SYN again, before there was this connection.
    pub fn set_syn_timeouts(&mut self, timeouts: u8) {
        self.parts.timeouts = timeouts;
    }
}

/// Segments that leave.
impl Recovery {
    /// Records that the bytes of `range` (SYN and FIN count one each) left in one segment: new bytes that
    /// continue those sent before, or a retransmission.
    pub fn on_sent(&mut self, range: SeqRange, retransmission: bool, now: Instant) {
        Sending::new(&mut self.parts, range, retransmission, now).process();
    }

    /// Returns whether a segment is lost that was not sent again since.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.parts.board.lost_bytes() > 0
    }

    /// Returns the next bytes to send again: lost and not sent again since, lowest first, at most `mss` of
    /// them. They are in no more than one segment that was sent before. To be sent while
    /// [`Recovery::send_allowance`] has room for them.
    #[must_use]
    pub fn next_retransmission(&self, mss: u16) -> Option<SeqRange> {
        if self.parts.episodes.sends_new() {
            return None;
        }
        let lost = self.parts.board.first_lost()?;
        Some(self.parts.board.range(lost.start, lost.start + u64::from(lost.len.min(u32::from(mss)))))
    }

    /// Returns what to send again for [`Expired::TailLossProbe`] if there is nothing new to send: the last
    /// `mss` bytes at most of the last segment, as far as it lies before `edge`, where the peer's window
    /// ends.
    #[must_use]
    pub fn probe_range(&self, mss: u16, edge: SeqNumber) -> Option<SeqRange> {
        let edge = self.parts.board.position(edge);
        let last = self.parts.board.last_before(edge)?;
        let end = last.end().min(edge);
        let len = scoreboard::bytes(last.start, end).min(u32::from(mss));
        Some(self.parts.board.range(end - u64::from(len), end))
    }

    /// Skips the probe of [`Expired::TailLossProbe`], because no segment may leave.
    pub fn skip_probe(&mut self) {
        self.parts.tail_loss.forget();
    }

    /// Records that F-RTO waits for new data to leave, and none can. Returns whether
    /// [`next_retransmission`](Self::next_retransmission) now gives what is lost instead.
    #[cold]
    pub fn give_up_new_data(&mut self) -> bool {
        let room = self.may_send(self.parts.congestion.window.mss);
        self.parts.episodes.give_up_new_data(self.parts.board.nxt(), room)
    }

    /// Returns how many bytes may leave now, as whole segments: retransmissions and new data together. The
    /// peer's window is not considered.
    #[must_use]
    pub fn send_allowance(&self) -> u32 {
        if self.parts.board.segments() >= self.parts.config.segments_max && self.parts.board.lost_bytes() == 0
        {
            return 0;
        }
        let room = self.parts.congestion.window.cwnd.saturating_sub(self.parts.in_flight());
        room - room % self.parts.congestion.window.mss
    }

    /// Returns whether [`Recovery::send_allowance`] has room for `bytes`.
    #[must_use]
    #[inline]
    pub fn may_send(&self, bytes: u32) -> bool {
        // Of one segment that takes no division.
        let segment = bytes <= self.parts.congestion.window.mss
            && self.parts.board.segments() < self.parts.config.segments_max;
        let room = self.parts.congestion.window.cwnd.saturating_sub(self.parts.in_flight());
        if segment {
            room >= self.parts.congestion.window.mss || bytes == 0
        } else {
            self.send_allowance() >= bytes
        }
    }

    /// Returns whether the rate at which data arrive is measured.
    #[must_use]
    #[inline]
    pub fn measures(&self) -> bool {
        self.parts.board.delivery.is_some()
    }

    /// Records that there is nothing more to send although the window has room: arrivals then show less
    /// than the path's rate.
    #[cold]
    pub fn on_nothing_to_send(&mut self) {
        let in_flight = self.parts.in_flight();
        if let Some(delivery) =
            self.parts.board.delivery.as_mut().filter(|_| in_flight < self.parts.congestion.window.cwnd)
        {
            delivery.limit_by_user(in_flight);
        }
    }

    /// Returns when the next segment may leave if it must wait; [`None`] if it may leave now. The caller
    /// has such a segment and will wait: the rate clock makes up for the lateness of its timer.
    pub fn release_time(&mut self, now: Instant) -> Option<Instant> {
        let pacing = self.parts.pacing.as_mut()?;
        let release = pacing.clock.release_time(now)?;
        pacing.clock.wait();
        Some(release)
    }

    /// Ends the train: no segment waits for its release. Segments not sent meanwhile are not made up for.
    #[inline]
    pub fn end_train(&mut self) {
        if let Some(pacing) = &mut self.parts.pacing {
            pacing.clock.stop();
        }
    }
}

/// Acknowledgments.
impl Recovery {
    /// Processes an acknowledgment. An acknowledgment of bytes never sent changes nothing. If later ones
    /// have overtaken it, only its SACK blocks count (RFC 6675, 5), and it is never a duplicate
    /// acknowledgment.
    pub fn on_ack(&mut self, info: &AckInfo<'_>) -> Acked {
        Acknowledgment::new(&mut self.parts, info).map_or_else(Acked::default, Acknowledgment::process)
    }

    /// Returns whether an acknowledgment is of the expected kind, or there is nothing that it could
    /// acknowledge. The caller has checked that it has neither SACK blocks nor ECE, is no duplicate, and
    /// acknowledges only bytes that were sent.
    #[must_use]
    #[inline]
    pub fn expects(&self, ack: SeqNumber) -> bool {
        self.parts.expects(ack)
    }

    /// Processes an acknowledgment that [is expected](Self::expects) and advances, with the result of
    /// [`Recovery::on_ack`]. `rtt_echo` returns how long ago the segment left whose timestamp is echoed. It
    /// is called only if the round trip cannot be measured otherwise.
    pub fn on_expected_ack(
        &mut self,
        ack: SeqNumber,
        rtt_echo: impl FnOnce() -> Option<Duration>,
        now: Instant,
    ) {
        ExpectedAck::new(&mut self.parts, now).process(ack, rtt_echo);
    }

    /// Returns whether `ack` acknowledges a part of a segment that was sent again, and whose rest reaches
    /// beyond `edge`, where the peer's window then ends. The peer took as much of the segment as it had room
    /// for, and not the rest. For a segment that was sent once, a tail loss probe or the timeout shows that.
    #[must_use]
    pub fn cuts_off(&self, ack: SeqNumber, edge: SeqNumber) -> bool {
        if self.parts.board.is_undisturbed() {
            return false;
        }
        let (ack, edge) = (self.parts.board.position(ack), self.parts.board.position(edge));
        let cut = |segment: &scoreboard::Segment| segment.start < ack && segment.end() > edge;
        self.parts.board.at(ack).is_some_and(|segment| segment.retransmitted && cut(segment))
    }

    /// Marks the first segment as lost, whose beginning an acknowledgment has [cut off](Self::cuts_off). The
    /// peer had no room for it, which is no sign of congestion.
    #[cold]
    pub fn on_cut_off(&mut self) {
        let lost = self.parts.board.mark_first_lost();
        self.parts.count_lost(lost);
        if let Some(delivery) = &mut self.parts.board.delivery {
            delivery.take_losses();
        }
    }
}

/// Deadlines.
impl Recovery {
    /// Returns when [`Recovery::on_deadline`] is to be called; [`None`] while nothing is outstanding. The
    /// time changes with every segment sent and every acknowledgment.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        Some(self.next_deadline()).filter(|at| *at != Instant::NEVER)
    }

    /// Returns when [`Recovery::on_deadline`] is to be called; [`Instant::NEVER`] while nothing is
    /// outstanding.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Instant {
        self.parts.rack.reordering_at.min(self.parts.tail_loss.at).min(self.parts.retransmission.deadline())
    }

    /// Handles the expiry of a deadline at `now`, when no acknowledgment has come.
    pub fn on_deadline(&mut self, now: Instant) -> Expired {
        Expiry::new(&mut self.parts, now).process()
    }

    /// Returns whether [`Recovery::on_deadline`] would return [`Expired::Timeout`].
    #[must_use]
    pub fn is_timeout_due(&self, now: Instant) -> bool {
        let Parts { retransmission, rack, tail_loss, .. } = &self.parts;
        retransmission.deadline() <= now && rack.reordering_at > now && tail_loss.at > now
    }

    /// Restarts the retransmission timer: the segment that it called for last time has not left yet.
    pub fn postpone_timeout(&mut self, now: Instant) {
        self.parts.restart_retransmission_timer(now);
    }

    /// Does what [`Recovery::on_deadline`] does, while the peer's window is closed, and nothing can be sent
    /// again. The retransmission timer then is the persist timer (RFC 9293, 3.8.6.1): [`Expired::Timeout`]
    /// asks for a probe of the window, the next comes after 2^`probes` timeouts, and none counts as one.
    ///
    /// All that is old enough is lost, however: the peer had no room for it.
    pub fn on_deadline_of_closed_window(&mut self, probes: u8, now: Instant) -> Expired {
        Expiry::new(&mut self.parts, now).process_with_closed_window(probes)
    }
}

/// Reports.
impl Recovery {
    /// Returns the retransmission timeout for what is sent now.
    #[must_use]
    pub fn rto(&self) -> Duration {
        self.parts.rtt.rto()
    }

    /// Returns when a segment was last sent.
    pub(crate) const fn last_sent(&self) -> Instant {
        self.parts.last_sent
    }

    /// Returns the rate at which data last arrived, if that is measured, and the shortest round trip.
    #[must_use]
    pub fn delivery_rate(&self) -> Option<(Rate, Duration)> {
        Some((self.parts.board.delivery.as_ref()?.rate?, self.parts.rtt.min()?))
    }

    /// Returns the congestion window, in bytes.
    #[must_use]
    pub const fn cwnd(&self) -> u32 {
        self.parts.congestion.window.cwnd
    }

    /// Returns the smoothed round-trip time, once there was a sample.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.parts.rtt.srtt()
    }

    pub(super) fn srtt_nanos(&self) -> Option<u64> {
        self.parts.rtt.srtt_nanos()
    }

    /// Returns the number of bytes thought to be on their way (`pipe` of RFC 6675).
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.parts.in_flight()
    }

    /// Returns whether all that was sent is acknowledged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.board.is_empty()
    }

    /// Returns the number of timeouts since the last acknowledgment of new data.
    #[must_use]
    pub const fn timeouts_in_a_row(&self) -> u32 {
        self.parts.timeouts as u32
    }

    /// Returns the connection's figures, for people and for tests.
    #[must_use]
    pub fn info(&self) -> RecoveryInfo {
        let counters = self.parts.counters.as_deref().copied().unwrap_or_default();
        RecoveryInfo {
            state: self.state(),
            algorithm: self.parts.congestion.control.name(),
            cwnd: self.parts.congestion.window.cwnd,
            ssthresh: self.parts.congestion.window.ssthresh,
            mss: self.parts.congestion.window.mss,
            in_flight: self.parts.in_flight(),
            delivery_rate: self.delivery_rate().map(|(rate, _)| rate),
            pacing_rate: self
                .parts
                .congestion
                .control
                .pacing_rate(&self.parts.congestion.window, self.parts.rtt.srtt()),
            rate_max: self.parts.pacing.as_ref().and_then(|pacing| pacing.most()),
            srtt: self.parts.rtt.srtt(),
            rttvar: self.parts.rtt.rttvar(),
            min_rtt: self.parts.rtt.min(),
            rto: self.rto(),
            reordering_seen: self.parts.rack.reordering_seen(),
            retransmitted_segments: counters.retransmitted_segments,
            retransmitted_bytes: counters.retransmitted_bytes,
            lost_bytes: counters.lost_bytes,
            timeouts: counters.timeouts,
            timeouts_in_a_row: self.parts.timeouts.into(),
            fast_recoveries: counters.fast_recoveries,
            probes: counters.probes,
            undone: counters.undone,
        }
    }

    /// Returns the state of loss recovery.
    #[must_use]
    pub fn state(&self) -> RecoveryState {
        self.parts.state()
    }
}
