//! The parts of loss recovery, and what concerns several of them.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::arrived::{Arrived, Before};
use super::config::{RecoveryConfig, Restart, Start};
use super::congestion::{Congestion, initial_window};
use super::delivery::Delivery;
use super::episode::{Episode, Episodes, Kind, Undo};
use super::info::{Counters, RecoveryState};
use super::pacing::{Pacing, PathNow};
use super::prr::Prr;
use super::rack::{Path, Rack};
use super::retransmission::RetransmissionTimer;
use super::rtt::RttEstimator;
use super::scoreboard::Scoreboard;
use super::tail_loss::TailLoss;
use super::without_sack::Duplicates;
use crate::SeqNumber;
use crate::congestion::Lost;
use crate::time::{Duration, Instant, nanos};

/// The state of loss recovery and congestion control.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) config: Arc<RecoveryConfig>,
    pub(super) board: Scoreboard,
    pub(super) rtt: RttEstimator,
    pub(super) rack: Rack,
    pub(super) tail_loss: TailLoss,
    pub(super) retransmission: RetransmissionTimer,
    pub(super) congestion: Congestion,
    pub(super) episodes: Episodes,
    /// The pacing, if the connection paces.
    pub(super) pacing: Option<Box<Pacing>>,
    /// The bytes of headers that a segment has, IP's included.
    pub(super) overhead: u8,
    /// Whether SACK was negotiated.
    pub(super) sack: bool,
    /// Whether the algorithm of congestion control has a model of the path, and sets the window itself.
    pub(super) has_model: bool,
    /// The number of timeouts since the last acknowledgment of new data.
    pub(super) timeouts: u8,
    /// The duplicate acknowledgments of a connection without SACK.
    pub(super) duplicates: Duplicates,
    pub(super) last_sent: Instant,
    /// The counters, once one of them is not zero.
    pub(super) counters: Option<Box<Counters>>,
}

impl Parts {
    pub(super) fn new(config: &Arc<RecoveryConfig>, iss: SeqNumber, mss: u16) -> Self {
        let mut board = Scoreboard::new(iss);
        let congestion = Congestion::new(config, u32::from(mss.max(1)), board.una());
        let has_model = congestion.control.is_model_based();
        let pacing = Pacing::new(config, has_model);
        let remembers = config.start == Start::Remembered || config.restart == Restart::LastRate;
        if pacing.is_some() && (has_model || remembers) {
            board.delivery = Some(Delivery::new(has_model));
        }
        Self {
            config: Arc::clone(config),
            episodes: Episodes::new(board.una()),
            board,
            rtt: RttEstimator::new(&config.rto),
            rack: Rack::new(),
            tail_loss: TailLoss::new(),
            retransmission: RetransmissionTimer::new(),
            congestion,
            pacing,
            overhead: 0,
            sack: false,
            has_model,
            timeouts: 0,
            duplicates: Duplicates::default(),
            last_sent: Instant::ZERO,
            counters: None,
        }
    }

    /// Returns the number of bytes thought to be on their way (`pipe` of RFC 6675).
    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        self.board.pipe().saturating_sub(self.duplicates.bytes())
    }

    /// Returns whether nothing from earlier is open: no episode, and no acknowledgment that stands for bytes
    /// that are not known.
    #[inline]
    pub(super) const fn is_settled(&self) -> bool {
        let settled = self.episodes.are_settled() && !self.tail_loss.in_episode();
        settled && self.duplicates.bytes() == 0
    }

    /// Returns whether the acknowledgment `ack` is of the expected kind, or there is nothing that it could
    /// acknowledge.
    #[inline]
    pub(super) fn expects(&self, ack: SeqNumber) -> bool {
        let (board, acked) = (&self.board, self.board.position(ack));
        // What was sent before something that was sent again, and is acknowledged, may be late.
        let in_time = self.rack.reordering_at == Instant::NEVER;
        let next = acked > board.una() && acked <= board.nxt();
        self.is_settled()
            && in_time
            && board.is_undisturbed()
            && (next && !board.is_syn_outstanding() || acked == board.una() && board.is_empty())
    }

    /// Returns the state before an acknowledgment.
    #[inline]
    pub(super) fn before(&self) -> Before {
        let unsacked = self.board.outstanding() - self.board.sacked_bytes();
        Before {
            una: self.board.una(),
            outstanding: self.board.outstanding(),
            unaccounted: unsacked.saturating_sub(self.duplicates.bytes()),
            in_flight: self.in_flight(),
            syn_outstanding: self.board.is_syn_outstanding(),
        }
    }

    /// Returns the state of loss recovery, as it is reported.
    pub(super) fn state(&self) -> RecoveryState {
        match self.episodes.kind() {
            Some(Kind::WindowReduced) => RecoveryState::Cwr,
            Some(Kind::FastRecovery) => RecoveryState::Recovery,
            Some(Kind::Timeout(_)) => RecoveryState::Loss,
            None if self.board.sacked_segments() > 0 || self.duplicates.any() => RecoveryState::Disorder,
            None => RecoveryState::Open,
        }
    }

    /// Returns the counters, to change them.
    pub(super) fn counters(&mut self) -> &mut Counters {
        self.counters.get_or_insert_default()
    }

    /// Counts bytes that are newly thought lost.
    pub(super) fn count_lost(&mut self, bytes: u32) {
        if bytes > 0 {
            self.counters().lost_bytes += u64::from(bytes);
        }
    }

    /// Takes one sample for each acknowledgment that measures a round trip with certainty (RFC 6298, 3;
    /// RFC 7323, 4).
    #[inline]
    pub(super) fn sample_rtt(
        &mut self,
        arrived: &Arrived,
        rtt_echo: impl FnOnce() -> Option<Duration>,
        now: Instant,
    ) {
        let by_clock =
            arrived.first_sent.filter(|_| !arrived.retransmitted).map(|sent| now.nanos_since(sent));
        let by_echo = || {
            let rtt = rtt_echo().filter(|_| arrived.acked > 0)?;
            Some(nanos(rtt.max(self.config.timestamp_tick)))
        };
        let Some(rtt) = by_clock.or_else(by_echo) else { return };
        let per_round = self.board.outstanding().div_ceil(self.congestion.window.mss.saturating_mul(2));
        self.rtt.sample(rtt, per_round, &self.config.rto);
        self.tail_loss.on_sample();
    }

    /// Marks lost segments, by RACK or by duplicate acknowledgments. Returns the number of bytes newly
    /// lost.
    pub(super) fn detect_losses(&mut self, now: Instant) -> u32 {
        let lost = if self.sack {
            let (path, repairing) = (self.path(), self.episodes.are_repairing());
            self.rack.detect(&mut self.board, path, repairing, now)
        } else {
            self.duplicates.detect(&mut self.board, &self.episodes)
        };
        self.on_lost(lost, now);
        lost
    }

    /// Returns how long after its transmission a segment counts as lost.
    pub(super) fn patience(&self) -> Duration {
        self.rack.patience(self.path(), self.episodes.are_repairing(), self.board.sacked_segments())
    }

    fn path(&self) -> Path {
        Path { min_rtt: self.rtt.min(), srtt: self.rtt.srtt() }
    }

    /// Counts `bytes` that are newly lost, and notifies an algorithm with a model of each segment.
    pub(super) fn on_lost(&mut self, bytes: u32, now: Instant) {
        self.count_lost(bytes);
        if self.has_model {
            self.report_losses(now);
        }
    }

    #[cold]
    fn report_losses(&mut self, now: Instant) {
        let Some(delivery) = &mut self.board.delivery else { return };
        let delivered = delivery.delivered;
        for lost in delivery.take_losses() {
            let lost = Lost {
                start: lost.start,
                len: lost.len,
                tx_in_flight: lost.tx_in_flight,
                since_sent: lost.since_sent,
                app_limited: lost.app_limited,
                delivered,
                selective: self.sack,
                now,
            };
            self.congestion.control.on_lost(&self.congestion.window, &lost);
        }
    }

    /// Returns the state to restore if the reduction that begins turns out to be spurious.
    pub(super) fn point_of_return(&self) -> Box<Undo> {
        Box::new(Undo::new(self.congestion.window, self.board.first_sent_again()))
    }

    /// Enters an episode, unless there is one already: a window of data causes one reduction (RFC 6675, 5;
    /// RFC 3168, 6.1.2). `certain` is whether it was congestion for sure. Returns whether it did.
    pub(super) fn reduce(&mut self, kind: Kind, before: &Before, certain: bool, now: Instant) -> bool {
        let end = self.board.nxt();
        match self.episodes.current.as_deref_mut() {
            None => {}
            Some(episode) if episode.kind == Kind::WindowReduced && kind == Kind::FastRecovery => {
                episode.kind = kind;
                episode.end = end;
                self.counters().fast_recoveries += 1;
                return false;
            }
            Some(_) => return false,
        }
        let undoable = kind == Kind::FastRecovery && !certain;
        self.episodes.undo = undoable.then(|| self.point_of_return());
        let flight = before.outstanding.min(self.congestion.window.cwnd);
        let Congestion { window, control, .. } = &mut self.congestion;
        control.on_congestion(window, flight);
        if matches!(&self.pacing, Some(pacing) if pacing.is_unvalidated(now)) {
            // Careful Resume, 3.5 (safe retreat): half, by any algorithm without a model.
            window.ssthresh = window.ssthresh.min(window.at_least_two_segments(u64::from(flight / 2)));
        }
        self.episodes.current = Some(Box::new(Episode { kind, end, prr: Prr::new(before.unaccounted) }));
        self.tail_loss.cancel();
        if kind == Kind::FastRecovery {
            self.counters().fast_recoveries += 1;
        }
        true
    }

    /// Restarts the retransmission timer.
    #[inline]
    pub(super) fn restart_retransmission_timer(&mut self, now: Instant) {
        self.retransmission.restart(self.rtt.rto_nanos(), now);
    }

    /// Sets the timers after an acknowledgment, which acknowledges new data (`advanced`) or not.
    #[inline]
    pub(super) fn set_timers_after_ack(&mut self, advanced: bool, now: Instant) {
        if self.board.is_empty() {
            // RFC 6298, 5.2
            self.retransmission.stop();
            self.rack.reordering_at = Instant::NEVER;
            self.tail_loss.cancel();
        } else if advanced {
            // RFC 6298, 5.3
            self.restart_retransmission_timer(now);
        }
        if advanced {
            self.timeouts = 0;
            self.tail_loss.due = false;
            self.schedule_probe(now);
        } else if self.board.sacked_segments() > 0 {
            self.tail_loss.cancel();
        }
    }

    /// Schedules the tail loss probe (RFC 8985, 7.2): with SACK, outside of recovery, while nothing has
    /// arrived out of order.
    pub(super) fn schedule_probe(&mut self, now: Instant) {
        let quiet = self.episodes.current.is_none()
            && self.board.sacked_segments() == 0
            && self.board.lost_bytes() == 0;
        let possible = self.sack && !self.board.is_syn_outstanding() && !self.board.is_empty();
        if !quiet || !possible || !self.tail_loss.may_probe() {
            return self.tail_loss.cancel();
        }
        let alone = self.board.segments() == 1;
        let (srtt, ack_delay) = (self.rtt.srtt_nanos(), self.config.ack_delay_max);
        self.tail_loss.schedule(now, srtt, alone, ack_delay, self.retransmission.deadline());
    }

    /// Makes a start that differs from slow start, if enough is known of the path by now: `delivered` bytes
    /// have arrived just now.
    #[cold]
    pub(super) fn start(&mut self, delivered: u32, now: Instant) {
        let Some(pacing) = &mut self.pacing else { return };
        if self.episodes.current.is_some() || self.timeouts > 0 {
            // There was congestion before it began.
            pacing.start = None;
            return;
        }
        let Some(srtt) = self.rtt.srtt() else { return };
        let window = &mut self.congestion.window;
        let path = PathNow {
            mss: window.mss,
            initial_window: initial_window(&self.config, window.mss),
            cwnd: window.cwnd,
            overhead: u32::from(self.overhead),
            srtt,
            una: self.board.una(),
            nxt: self.board.nxt(),
        };
        let Some(opening) = pacing.take_start(&path, delivered, now) else { return };
        let bytes = u32::try_from(opening.window).unwrap_or(u32::MAX);
        window.cwnd = window.cwnd.max(bytes);
        if opening.known {
            window.ssthresh = window.cwnd;
            pacing.opened = window.cwnd;
        }
    }
}
