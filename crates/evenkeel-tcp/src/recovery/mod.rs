//! Loss recovery and sending rate of one connection: what must be sent again, and how much may leave when.
//!
//! The connection tells [`Recovery`] what it sent and what was acknowledged; it asks what to send again
//! ([`Recovery::next_retransmission`]), how much may leave ([`Recovery::send_allowance`]), when
//! ([`Recovery::release_time`]), and when to come back without an acknowledgment ([`Recovery::deadline`]).
//! The peer's window is not its business, nor are bytes: it counts them.
//!
//! | looking for | file |
//! | --- | --- |
//! | what became of each segment; `pipe` | `scoreboard.rs` |
//! | what an acknowledgment means, step by step; the one that nearly always comes | `ack.rs`; `expected.rs` |
//! | timers: reordering, tail loss probe, retransmission | `timers.rs` |
//! | when a segment counts as lost (RACK) | `rack.rs` |
//! | tail loss probes | `tail_loss.rs` |
//! | how the window is reduced (PRR) | `prr.rs` |
//! | recovery that was for nothing: Eifel, DSACK, F-RTO | `episode.rs`, `ack.rs` |
//! | round-trip time, retransmission timeout | `rtt.rs` |
//! | how fast data arrive; what algorithms with a model of the path are told | `delivery.rs`; `model.rs` |
//! | how fast segments leave; where to start, and to go on after a pause | `pacing.rs` |
//! | how large the window may be | [`congestion`](super::congestion) |
//!
//! With SACK, RACK alone says what is lost (RFC 8985 instead of RFC 6675's counting; `pipe` is RFC 6675's).
//! Without it, three duplicate acknowledgments do (RFC 6582). Limited transmit (RFC 3042) needs no rule of
//! its own: what a duplicate acknowledgment says has arrived is no longer in `pipe`.

mod ack;
mod config;
mod delivery;
mod episode;
mod expected;
mod expired;
mod model;
mod pacing;
mod prr;
mod rack;
mod rtt;
mod scoreboard;
mod tail_loss;
#[cfg(test)]
mod tests;
mod timers;

pub use config::{RecoveryConfig, Restart, RtoConfig, Start};
pub use expired::Expired;

use delivery::Delivery;
use episode::{Episode, Frto, Kind, Undo};
use pacing::{Leaving, Pacing, PathNow};
use rack::Rack;
use rtt::RttEstimator;
use scoreboard::{Position, Scoreboard};
use tail_loss::TailLoss;

use std::sync::Arc;

use super::congestion::{CongestionControl, Window};
use super::rate::Rate;
use super::{SeqNumber, SeqRange};
use crate::time::{Duration, Instant};

/// The parts of an acknowledgment that loss recovery uses.
///
/// To be given for every acceptable segment with ACK once the connection is synchronized, and for the one
/// that acknowledges our SYN.
#[derive(Debug, Clone, Copy)]
pub struct AckInfo<'a> {
    /// `SEG.ACK`.
    pub ack: SeqNumber,
    /// The SACK blocks, in the order of the option: a DSACK (RFC 2883) is the first.
    pub sack: &'a [SeqRange],
    /// The segment changes the window the peer offers, so it is no duplicate acknowledgment.
    pub window_update: bool,
    /// The segment has data, a SYN or a FIN, so it is no duplicate acknowledgment.
    pub payload: bool,
    /// The age by our timestamp clock of the segment whose timestamp is echoed (RFC 7323).
    pub rtt_echo: Option<Duration>,
    /// ECE is set, and ECN was negotiated (RFC 3168).
    pub ece: bool,
    /// Data that were never sent are waiting, and the peer's window has room for them.
    pub unsent: bool,
    /// The time at which the segment arrived.
    pub now: Instant,
}

/// The changes that an acknowledgment made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Acked {
    /// Bytes (SYN and FIN count one each) by which `SND.UNA` advanced.
    pub newly_acked: u32,
    /// Bytes newly acknowledged selectively.
    pub newly_sacked: u32,
    /// Bytes newly thought lost.
    pub newly_lost: u32,
    /// The window is being reduced: the next new data carry CWR if ECN was negotiated (RFC 3168, 6.1.2).
    /// [`Expired::Timeout`] means that, too.
    pub cwr: bool,
    /// The acknowledgment repeats the last one (RFC 5681, 2).
    pub duplicate: bool,
    /// The last reduction was for nothing, and is taken back.
    pub undone: bool,
}

/// Scoreboard, round-trip time, loss detection and congestion control of one connection.
#[derive(Debug)]
pub struct Recovery {
    config: Arc<RecoveryConfig>,
    board: Scoreboard,
    rtt: RttEstimator,
    rack: Rack,
    tail_loss: TailLoss,
    window: Window,
    control: Box<dyn CongestionControl>,
    episode: Option<Box<Episode>>,
    undo: Option<Box<Undo>>,
    /// If it paces.
    pacing: Option<Box<Pacing>>,
    /// Bytes of headers that a segment has, IP's included.
    overhead: u8,
    /// SACK was negotiated.
    sack: bool,
    /// Without SACK: how many duplicate acknowledgments came in a row, and how many bytes they say have
    /// arrived.
    duplicates: u8,
    duplicate_bytes: u32,
    /// The end of the last episode (`recover` of RFC 6582).
    recover: Position,
    /// The number of times in a row that the retransmission timer expired.
    timeouts: u8,
    retransmission_at: Instant,
    reordering_at: Instant,
    /// The largest flight of this round trip, which ends with the acknowledgment of `round_end`: was the
    /// window in use?
    flight_max: u32,
    round_end: Position,
    last_sent: Instant,
    /// Since then congestion control has not heard what time it is.
    told_at: Instant,
    /// There once one of them is not zero.
    totals: Option<Box<Totals>>,
}

/// Counted since the connection began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Totals {
    retransmitted_segments: u64,
    retransmitted_bytes: u64,
    lost_bytes: u64,
    timeouts: u32,
    fast_recoveries: u32,
    probes: u32,
    undone: u32,
}

impl Recovery {
    /// Creates the recovery of a connection whose SYN has the number `iss` and whose full segments carry
    /// `mss` bytes. SACK is off until [`Recovery::set_sack_permitted`]. Connections share the
    /// configuration, because there are very many of them.
    #[must_use]
    pub fn new(config: &Arc<RecoveryConfig>, iss: SeqNumber, mss: u16) -> Self {
        let mss = u32::from(mss.max(1));
        let cwnd = initial_window(config, mss);
        let mut board = Scoreboard::new(iss);
        let control =
            config.algorithm.start(config.hystart, config.segments_per_ack, config.fast_convergence);
        let model = config.algorithm.is_model_based();
        let pacing = Pacing::new(config, model);
        let remembers = config.start == Start::Remembered || config.restart == Restart::LastRate;
        if pacing.is_some() && (model || remembers) {
            board.delivery = Some(Delivery::new(model));
        }
        Self {
            config: Arc::clone(config),
            recover: board.una(),
            round_end: board.una(),
            board,
            rtt: RttEstimator::new(&config.rto),
            rack: Rack::new(),
            tail_loss: TailLoss::new(),
            window: Window { cwnd, ssthresh: Window::UNKNOWN, mss },
            control,
            episode: None,
            undo: None,
            pacing,
            overhead: 0,
            sack: false,
            duplicates: 0,
            duplicate_bytes: 0,
            timeouts: 0,
            retransmission_at: Instant::NEVER,
            reordering_at: Instant::NEVER,
            flight_max: 0,
            last_sent: Instant::ZERO,
            told_at: Instant::ZERO,
            totals: None,
        }
    }

    /// Sets whether both sides sent SACK-Permitted (RFC 2018, 2).
    pub fn set_sack_permitted(&mut self, permitted: bool) {
        self.sack = permitted;
    }

    /// Sets the payload of segments to `mss` bytes from now on. Larger segments in flight are too big for
    /// the path: they are to be sent again, which is no sign of congestion (RFC 1191, 6.4).
    ///
    /// The window keeps its bytes, unless it is the initial one.
    pub fn set_mss(&mut self, mss: u16) {
        let mss = u32::from(mss.max(1));
        if self.window.cwnd == self.initial_window() {
            self.window.cwnd = initial_window(&self.config, mss);
        }
        if mss < self.window.mss {
            let lost = self.board.mark_lost_where(|segment| segment.len > mss);
            self.count_lost(lost);
            if let Some(delivery) = &mut self.board.delivery {
                delivery.take_losses();
            }
        }
        self.window.mss = mss;
        self.window.cwnd = self.window.cwnd.max(mss);
        if self.board.is_syn_outstanding() {
            // The peer's SYN says what a segment is before any leaves.
            self.window.cwnd = self.initial_window();
        }
    }

    /// Records that the bytes of `range` (SYN and FIN count one each) left in one segment: new bytes that
    /// continue those sent before, or a retransmission.
    pub fn on_sent(&mut self, range: SeqRange, retransmission: bool, now: Instant) {
        let start = self.board.position(range.start);
        let end = start + u64::from(range.len());
        if retransmission {
            self.sent_again(start, end, now);
        } else {
            self.after_idle(now);
            self.board.sent(end, now);
        }
        let bytes = range.len();
        if let Some(episode) = &mut self.episode {
            episode.prr.on_sent(bytes);
        }
        if self.pacing.is_some() {
            self.pace(bytes, retransmission, now);
        }
        self.last_sent = now;
        self.flight_max = self.flight_max.max(self.in_flight());
        self.set_timers_after_sending((start, end), retransmission, now);
    }

    /// Records in the pacing that a segment left.
    #[cold]
    fn pace(&mut self, bytes: u32, retransmission: bool, now: Instant) {
        if !retransmission {
            self.board.stamp_new(bytes, now);
        }
        if let Some(pacing) = &mut self.pacing {
            let srtt = self.rtt.srtt();
            let rate = if self.config.algorithm.is_model_based() {
                self.control.pacing_rate(&self.window, srtt)
            } else {
                None
            };
            let sent = Leaving { bytes, overhead: u32::from(self.overhead), rate };
            pacing.on_sent(sent, &self.window, self.rtt.srtt_nanos(), now);
        }
    }

    fn sent_again(&mut self, start: Position, end: Position, now: Instant) {
        let bytes = self.board.sent_again(start, end, now);
        if let Some(undo) = &mut self.undo {
            undo.on_sent_again(start, end, bytes, now);
        }
        let totals = self.totals.get_or_insert_default();
        totals.retransmitted_segments += 1;
        totals.retransmitted_bytes += u64::from(bytes);
    }

    fn count_lost(&mut self, bytes: u32) {
        if bytes > 0 {
            self.totals.get_or_insert_default().lost_bytes += u64::from(bytes);
        }
    }

    /// Adapts the state of congestion control to the time in which nothing was sent, because knowledge of
    /// the path ages (RFC 5681, 4.1).
    fn after_idle(&mut self, now: Instant) {
        if !self.board.is_empty() || self.board.is_syn_outstanding() {
            return;
        }
        self.control.on_idle(self.told_at, now);
        self.told_at = now;
        if now.nanos_since(self.last_sent) > self.rtt.rto_nanos() {
            self.after_pause(now);
        }
    }

    /// Adapts the connection after a pause longer than a retransmission timeout.
    #[cold]
    fn after_pause(&mut self, now: Instant) {
        if self.config.algorithm.is_model_based() {
            return self.control.on_restart(&mut self.window, now);
        }
        if let Some(window) = self.pacing.as_ref().and_then(|pacing| pacing.known_window(&self.window)) {
            self.window.cwnd = window;
            return;
        }
        let initial = self.initial_window();
        let (Restart::LastRate, Some(pacing), Some(srtt)) =
            (self.config.restart, &mut self.pacing, self.rtt.srtt())
        else {
            self.window.cwnd = self.window.cwnd.min(initial);
            return;
        };
        // RFC 7661, 4.4.3, for each of its periods.
        let periods = now.since(self.last_sent).as_nanos() / NON_VALIDATED_MAX.as_nanos();
        if periods > 0 {
            self.window.ssthresh = self.window.ssthresh.max(self.window.cwnd / 4 * 3);
            let halved = self.window.cwnd.checked_shr(u32::try_from(periods).unwrap_or(u32::MAX));
            self.window.cwnd = halved.unwrap_or(0).max(initial);
        }
        let known = self.board.delivery.as_ref().and_then(|delivery| delivery.rate);
        let by_window = Rate::of(u64::from(self.window.cwnd), srtt);
        // A connection that had little to say has shown no rate: slow start would be as fast as this.
        let least = Rate::of(u64::from(initial), srtt);
        if let Some(rate) = known.into_iter().chain(by_window).min().max(least) {
            pacing.be_careful(rate, srtt, now);
        }
    }

    /// Returns the retransmission timeout for what is sent now.
    #[must_use]
    pub fn rto(&self) -> Duration {
        self.rtt.rto()
    }

    fn initial_window(&self) -> u32 {
        initial_window(&self.config, self.window.mss)
    }

    /// Returns whether a segment is lost that was not sent again since.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.board.lost_bytes() > 0
    }

    /// Returns the next bytes to send again: lost and not sent again since, lowest first, at most `mss` of
    /// them. They are in no more than one segment that was sent before. To be sent while
    /// [`Recovery::send_allowance`] has room for them.
    #[must_use]
    pub fn next_retransmission(&self, mss: u16) -> Option<SeqRange> {
        if self.episode.as_ref().is_some_and(|episode| episode.kind == Kind::Timeout(Frto::SendingNew)) {
            return None;
        }
        let lost = self.board.first_lost()?;
        Some(self.board.range(lost.start, lost.start + u64::from(lost.len.min(u32::from(mss)))))
    }

    /// Returns what to send again for [`Expired::TailLossProbe`] if there is nothing new to send: the last
    /// `mss` bytes at most of the last segment, as far as it lies before `edge`, where the peer's window
    /// ends.
    #[must_use]
    pub fn probe_range(&self, mss: u16, edge: SeqNumber) -> Option<SeqRange> {
        let edge = self.board.position(edge);
        let last = self.board.last_before(edge)?;
        let end = last.end().min(edge);
        let len = scoreboard::bytes(last.start, end).min(u32::from(mss));
        Some(self.board.range(end - u64::from(len), end))
    }

    /// Returns whether `ack` acknowledges a part of a segment that was sent again, and whose rest reaches
    /// beyond `edge`, where the peer's window then ends. The peer took as much of the segment as it had room
    /// for, and not the rest. For a segment that was sent once, a tail loss probe or the timeout shows that.
    #[must_use]
    pub fn cuts_off(&self, ack: SeqNumber, edge: SeqNumber) -> bool {
        if self.board.is_undisturbed() {
            return false;
        }
        let (ack, edge) = (self.board.position(ack), self.board.position(edge));
        let cut = |segment: &scoreboard::Segment| segment.start < ack && segment.end() > edge;
        self.board.at(ack).is_some_and(|segment| segment.retransmitted && cut(segment))
    }

    /// Marks the first segment as lost, whose beginning an acknowledgment has [cut off](Self::cuts_off). The
    /// peer had no room for it, which is no sign of congestion.
    #[cold]
    pub fn on_cut_off(&mut self) {
        let lost = self.board.mark_first_lost();
        self.count_lost(lost);
        if let Some(delivery) = &mut self.board.delivery {
            delivery.take_losses();
        }
    }

    /// Returns how many bytes may leave now, as whole segments: retransmissions and new data together. The
    /// peer's window is not considered.
    #[must_use]
    pub fn send_allowance(&self) -> u32 {
        if self.board.segments() >= self.config.segments_max && self.board.lost_bytes() == 0 {
            return 0;
        }
        let room = self.window.cwnd.saturating_sub(self.in_flight());
        room - room % self.window.mss
    }

    /// Returns whether [`Recovery::send_allowance`] has room for `bytes`.
    #[must_use]
    #[inline]
    pub fn may_send(&self, bytes: u32) -> bool {
        // Of one segment that takes no division.
        let segment = bytes <= self.window.mss && self.board.segments() < self.config.segments_max;
        let room = self.window.cwnd.saturating_sub(self.in_flight());
        if segment { room >= self.window.mss || bytes == 0 } else { self.send_allowance() >= bytes }
    }

    /// Returns whether the rate at which data arrive is measured.
    #[must_use]
    #[inline]
    pub fn measures(&self) -> bool {
        self.board.delivery.is_some()
    }

    /// Records that there is nothing more to send although the window has room: arrivals then show less
    /// than the path's rate.
    #[cold]
    pub fn on_nothing_to_send(&mut self) {
        let in_flight = self.in_flight();
        if let Some(delivery) = self.board.delivery.as_mut().filter(|_| in_flight < self.window.cwnd) {
            delivery.limit_by_user(in_flight);
        }
    }

    /// Returns when a segment was last sent.
    pub(crate) const fn last_sent(&self) -> Instant {
        self.last_sent
    }

    /// Returns the rate at which data last arrived, if that is measured, and the shortest round trip.
    #[must_use]
    pub fn delivery_rate(&self) -> Option<(Rate, Duration)> {
        Some((self.board.delivery.as_ref()?.rate?, self.rtt.min()?))
    }

    /// Returns when the next segment may leave if it must wait; [`None`] if it may leave now. The caller
    /// has such a segment and will wait: the rate clock makes up for the lateness of its timer.
    pub fn release_time(&mut self, now: Instant) -> Option<Instant> {
        let pacing = self.pacing.as_mut()?;
        let release = pacing.clock.release_time(now)?;
        pacing.clock.wait();
        Some(release)
    }

    /// Ends the train: no segment waits for its release. Segments not sent meanwhile are not made up for.
    #[inline]
    pub fn end_train(&mut self) {
        if let Some(pacing) = &mut self.pacing {
            pacing.clock.stop();
        }
    }

    /// Sets the number of bytes of a segment's headers, including IP's.
    pub(crate) fn set_overhead(&mut self, bytes: u16) {
        // IPv6's header and TCP's with all options are less.
        self.overhead = u8::try_from(bytes).unwrap_or(u8::MAX);
    }

    /// Sets the highest rate from now on, headers included ([`RecoveryConfig::rate_max`]).
    pub fn set_rate_max(&mut self, rate: Option<Rate>) {
        if rate.is_some() || self.pacing.is_some() {
            self.paced().rate_max = rate.unwrap_or(Rate::UNLIMITED);
        }
    }

    /// Sets the capacity: from now on the connection sends [at that rate](Start::At), unless it is
    /// recovering from a loss.
    pub fn set_capacity(&mut self, rate: Rate, now: Instant) {
        let pacing = self.paced();
        pacing.capacity = rate;
        pacing.start = Some(pacing::Start::At(rate));
        if self.rtt.srtt().is_some() {
            self.start(0, now);
        }
    }

    /// It paces from now on.
    fn paced(&mut self) -> &mut Pacing {
        self.pacing.get_or_insert_with(|| Box::new(Pacing::of(&self.config)))
    }

    /// Sets the rate and the round trip of an earlier connection to the destination: see
    /// [`Start::Remembered`].
    pub fn remember(&mut self, rate: Rate, rtt: Duration) {
        if let Some(pacing) = self.pacing.as_mut().filter(|_| self.config.start == Start::Remembered) {
            pacing.start = Some(pacing::Start::Remembered { rate, rtt });
        }
    }

    /// Starts elsewhere than slow start does, if enough is known of the path by now. So many bytes have
    /// arrived just now.
    #[cold]
    fn start(&mut self, delivered: u32, now: Instant) {
        let Some(pacing) = &mut self.pacing else { return };
        if self.episode.is_some() || self.timeouts > 0 {
            // There was congestion before it began.
            pacing.start = None;
            return;
        }
        let Some(srtt) = self.rtt.srtt() else { return };
        let path = PathNow {
            mss: self.window.mss,
            initial_window: initial_window(&self.config, self.window.mss),
            cwnd: self.window.cwnd,
            overhead: u32::from(self.overhead),
            srtt,
            una: self.board.una(),
            nxt: self.board.nxt(),
        };
        let Some(opening) = pacing.take_start(&path, delivered, now) else { return };
        let bytes = u32::try_from(opening.window).unwrap_or(u32::MAX);
        self.window.cwnd = self.window.cwnd.max(bytes);
        if opening.known {
            self.window.ssthresh = self.window.cwnd;
            pacing.opened = self.window.cwnd;
        }
    }

    /// Returns the congestion window, in bytes.
    #[must_use]
    pub const fn cwnd(&self) -> u32 {
        self.window.cwnd
    }

    /// Returns the smoothed round-trip time, once there was a sample.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.rtt.srtt()
    }

    pub(super) fn srtt_nanos(&self) -> Option<u64> {
        self.rtt.srtt_nanos()
    }

    /// Returns the number of bytes thought to be on their way (`pipe` of RFC 6675).
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.board.pipe().saturating_sub(self.duplicate_bytes)
    }

    /// Returns whether all that was sent is acknowledged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.board.is_empty()
    }

    /// Expirations of the retransmission timer since the last acknowledgment of new data.
    #[must_use]
    pub const fn timeouts_in_a_row(&self) -> u32 {
        self.timeouts as u32
    }

    /// Returns the connection's figures, for people and for tests.
    #[must_use]
    pub fn info(&self) -> RecoveryInfo {
        let totals = self.totals.as_deref().copied().unwrap_or_default();
        RecoveryInfo {
            state: self.state(),
            algorithm: self.control.name(),
            cwnd: self.window.cwnd,
            ssthresh: self.window.ssthresh,
            mss: self.window.mss,
            in_flight: self.in_flight(),
            delivery_rate: self.delivery_rate().map(|(rate, _)| rate),
            pacing_rate: self.control.pacing_rate(&self.window, self.rtt.srtt()),
            rate_max: self.pacing.as_ref().and_then(|pacing| pacing.most()),
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            min_rtt: self.rtt.min(),
            rto: self.rto(),
            reordering_seen: self.rack.reordering_seen(),
            retransmitted_segments: totals.retransmitted_segments,
            retransmitted_bytes: totals.retransmitted_bytes,
            lost_bytes: totals.lost_bytes,
            timeouts: totals.timeouts,
            timeouts_in_a_row: self.timeouts.into(),
            fast_recoveries: totals.fast_recoveries,
            probes: totals.probes,
            undone: totals.undone,
        }
    }

    /// Returns the state of loss recovery.
    #[must_use]
    pub fn state(&self) -> RecoveryState {
        match self.episode.as_ref().map(|episode| episode.kind) {
            Some(Kind::WindowReduced) => RecoveryState::Cwr,
            Some(Kind::FastRecovery) => RecoveryState::Recovery,
            Some(Kind::Timeout(_)) => RecoveryState::Loss,
            None if self.board.sacked_segments() > 0 || self.duplicates > 0 => RecoveryState::Disorder,
            None => RecoveryState::Open,
        }
    }
}

/// The time for which an unused window is kept (RFC 7661, 4.4.3).
const NON_VALIDATED_MAX: Duration = Duration::from_secs(300);

/// Returns the initial window (IW of RFC 6928): the configured number of segments, but at most as many
/// bytes as that number of common segments (1460 bytes) has, or two segments if those are more.
fn initial_window(config: &RecoveryConfig, mss: u32) -> u32 {
    const COMMON: u32 = 1460;
    let segments = config.initial_window_segments.max(1);
    segments.saturating_mul(mss).min(segments.saturating_mul(COMMON).max(mss.saturating_mul(2)))
}

/// The state of a connection's loss recovery. The names are Linux's (`tcp_ca_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryState {
    /// Nothing unusual.
    Open,
    /// Something arrived out of order.
    Disorder,
    /// The window is being reduced because of an ECN mark.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// Recovery after a timeout.
    Loss,
}

/// A connection's figures. Bytes where not said otherwise; counters since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryInfo {
    /// The state of loss recovery.
    pub state: RecoveryState,
    /// The algorithm of congestion control.
    pub algorithm: &'static str,
    /// The congestion window.
    pub cwnd: u32,
    /// The window at which slow start ends; [`Window::UNKNOWN`] before the first loss.
    pub ssthresh: u32,
    /// The payload of a full segment.
    pub mss: u32,
    /// Thought to be on their way.
    pub in_flight: u32,
    /// The rate of payload at which data last arrived, if that is measured.
    pub delivery_rate: Option<Rate>,
    /// The rate at which the congestion control algorithm wants payload to leave; [`None`] if it sets none.
    pub pacing_rate: Option<Rate>,
    /// The highest rate, headers included; [`None`] unless it was configured or the capacity is known.
    pub rate_max: Option<Rate>,
    /// The smoothed round-trip time, once there was a sample.
    pub srtt: Option<Duration>,
    /// Its variation.
    pub rttvar: Option<Duration>,
    /// The shortest round trip of the last minutes.
    pub min_rtt: Option<Duration>,
    /// The retransmission timeout of now.
    pub rto: Duration,
    /// Segments have arrived out of order, without loss.
    pub reordering_seen: bool,
    /// Segments sent again, probes included.
    pub retransmitted_segments: u64,
    /// The number of bytes in the retransmitted segments.
    pub retransmitted_bytes: u64,
    /// Thought lost.
    pub lost_bytes: u64,
    /// Expirations of the retransmission timer.
    pub timeouts: u32,
    /// Those since the last acknowledgment of new data: a connection may give up on that.
    pub timeouts_in_a_row: u32,
    /// Fast recoveries begun.
    pub fast_recoveries: u32,
    /// Tail loss probes sent.
    pub probes: u32,
    /// Reductions that were for nothing.
    pub undone: u32,
}
