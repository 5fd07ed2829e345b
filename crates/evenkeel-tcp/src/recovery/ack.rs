//! The steps of processing an acknowledgment, in their order.

use super::episode::{Episode, Frto, Kind, Undo};
use super::prr::{Delivery, Prr};
use super::rack::{Path, Rack};
use super::rtt::RttEstimator;
use super::scoreboard::{Fate, Position, Scoreboard, Segment, bytes};
use super::tail_loss::Verdict;
use super::{AckInfo, Acked, Recovery};
use crate::SeqRange;
use crate::congestion::{Arrival, Window};
use crate::time::{Duration, Instant, nanos};

/// The number of blocks that fit in a SACK option (RFC 2018, 3).
const SACK_BLOCKS: usize = 4;
/// `DupThresh` (RFC 5681, 3.2).
const DUP_THRESH: u8 = 3;

/// The state before the acknowledgment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    una: Position,
    outstanding: u32,
    /// On their way or lost: outstanding, and not known to have arrived.
    unaccounted: u32,
    /// `pipe`.
    in_flight: u32,
    pub(super) syn_outstanding: bool,
}

/// The data that an acknowledgment reports as arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Arrived {
    /// Bytes by which `SND.UNA` advanced; bytes newly sacked.
    pub(super) acked: u32,
    sacked: u32,
    /// Bytes of which nothing was known before: `DeliveredData` of RFC 9937.
    pub(super) delivered: u32,
    /// The times at which the first and the last of the arrived segments left. Only segments sent once
    /// count, even if they arrived in part.
    first_sent: Option<Instant>,
    pub(super) last_sent: Option<Instant>,
    /// A segment that was sent again is acknowledged cumulatively: others may have waited for it, and tell no
    /// round trip (RFC 6298, 3).
    pub(super) retransmitted: bool,
    /// A segment was thought lost and not sent again, and yet it arrived.
    lost_in_error: bool,
}

impl Arrived {
    /// Creates the report of `acked` bytes that were acknowledged in order, of which nothing was known
    /// before.
    pub(super) fn in_order(acked: u32) -> Self {
        Self { acked, delivered: acked, ..Self::default() }
    }
}

/// Sees each segment that arrives.
pub(super) struct Witness<'a> {
    pub(super) rack: &'a mut Rack,
    pub(super) rtt: &'a mut RttEstimator,
    pub(super) now: Instant,
    pub(super) echoed: Option<Instant>,
    pub(super) arrived: &'a mut Arrived,
}

impl Witness<'_> {
    #[inline]
    pub(super) fn see(&mut self, segment: &Segment) {
        if segment.retransmitted {
            self.arrived.retransmitted = true;
        } else {
            self.time(segment);
            self.arrived.lost_in_error |= segment.fate == Fate::Lost;
        }
        let rtt = self.now.nanos_since(segment.sent_at);
        self.rack.on_delivered(segment, rtt, self.rtt.min_nanos(), self.echoed);
    }

    /// Sees a segment that was acknowledged in part: the receiver had no room for the rest. If it was sent
    /// once, that tells a round trip. No acknowledgment may ever tell another: the rest is sent again.
    #[cold]
    pub(super) fn see_part(&mut self, segment: &Segment) {
        if !segment.retransmitted {
            self.time(segment);
        }
    }

    #[inline]
    fn time(&mut self, segment: &Segment) {
        self.rtt.note_min(self.now.nanos_since(segment.sent_at), self.now);
        self.arrived.first_sent.get_or_insert(segment.sent_at);
        self.arrived.last_sent = self.arrived.last_sent.max(Some(segment.sent_at));
    }

    /// Sees a segment up to which, or up to within which, all has arrived.
    #[inline]
    pub(super) fn see_acknowledged(&mut self, segment: &Segment, whole: bool) {
        if whole { self.see(segment) } else { self.see_part(segment) }
    }
}

impl Recovery {
    /// Processes an acknowledgment. An acknowledgment of bytes never sent changes nothing. If later ones
    /// have overtaken it, only its SACK blocks count (RFC 6675, 5), and it is never a duplicate
    /// acknowledgment.
    pub fn on_ack(&mut self, info: &AckInfo<'_>) -> Acked {
        let told = self.board.position(info.ack);
        let ack = told.max(self.board.una());
        let overtaken = told < ack;
        if ack > self.board.nxt() || overtaken && (info.sack.is_empty() || !self.sack) {
            return Acked::default();
        }
        if self.has_nothing_to_learn(ack, info) {
            return Acked::default();
        }
        let before = self.before();
        let echoed = info.rtt_echo.map(|age| earlier(info.now, age));
        let dsack = self.dsack(info, told);
        let mut arrived = self.deliver(ack, info, echoed);
        self.sample_rtt(&arrived, || info.rtt_echo, info.now);
        let repeats = arrived.acked == 0 && !overtaken && !info.payload && !info.window_update;
        let duplicate = repeats && !self.board.is_empty();
        if !self.sack {
            self.without_sack(&before, &mut arrived, duplicate);
        }
        if before.syn_outstanding && arrived.acked > 0 {
            self.on_syn_acknowledged(&arrived);
        }

        let mut acked = Acked {
            newly_acked: arrived.acked,
            newly_sacked: arrived.sacked,
            duplicate: duplicate && arrived.sacked == 0,
            ..Acked::default()
        };
        acked.undone = self.undo_if_for_nothing(&arrived, dsack, echoed)
            || self.judge_timeout(&arrived, info.unsent, acked.duplicate);
        self.end_episode_if_over();
        acked.newly_lost = self.detect_losses(info.now);
        acked.cwr = self.react(&before, &acked, info);
        let bare = arrived.acked == 0 && !info.payload && !info.window_update && info.sack.is_empty();
        acked.cwr |= self.judge_probe(&before, dsack, bare);
        self.adjust_window(&before, &arrived, acked.newly_lost, info);
        self.set_timers_after_ack(arrived.acked > 0, info.now);
        if self.pacing.is_some() {
            self.mind_rate(before, arrived, acked.cwr && info.ece, info.now);
        }
        acked
    }

    /// Updates the pacing for an acknowledgment: chooses the rate of a start that differs from slow start,
    /// and takes a sample of the rate.
    #[cold]
    pub(super) fn mind_rate(&mut self, before: Before, arrived: Arrived, marked: bool, now: Instant) {
        if matches!(&self.pacing, Some(pacing) if pacing.start.is_some()) {
            self.start(arrived.delivered, now);
        }
        self.sample(&before, &arrived, marked, now);
    }

    /// Returns whether nothing is outstanding and nothing from earlier is open. That holds at every segment
    /// of a connection that only receives.
    fn has_nothing_to_learn(&self, ack: Position, info: &AckInfo<'_>) -> bool {
        let quiet = self.board.is_empty() && ack == self.board.una() && info.sack.is_empty() && !info.ece;
        let settled = self.episode.is_none() && self.undo.is_none() && !self.tail_loss.in_episode();
        quiet && settled && self.duplicate_bytes == 0
    }

    pub(super) fn before(&self) -> Before {
        let unsacked = self.board.outstanding() - self.board.sacked_bytes();
        Before {
            una: self.board.una(),
            outstanding: self.board.outstanding(),
            unaccounted: unsacked.saturating_sub(self.duplicate_bytes),
            in_flight: self.in_flight(),
            syn_outstanding: self.board.is_syn_outstanding(),
        }
    }

    /// Returns the range that arrived twice, if the first SACK block reports one (RFC 2883, 4): the block
    /// is acknowledged already, or within the second block.
    fn dsack(&mut self, info: &AckInfo<'_>, told: Position) -> Option<(Position, Position)> {
        let first = info.sack.first().filter(|first| self.sack && !first.is_empty())?;
        let (start, end) = (self.board.position(first.start), self.board.position(first.end));
        let within_second = info.sack.get(1).is_some_and(|second| second.covers(*first));
        if (end > told && !within_second) || end > self.board.nxt() {
            return None;
        }
        // A probe in vain says nothing of reordering.
        if !self.tail_loss.ends_at(end) {
            self.rack.on_dsack(told.max(self.board.una()), self.board.nxt());
        }
        Some((start, end))
    }

    /// Brings the scoreboard up to date (RFC 6675, Update()), and RACK with it.
    fn deliver(&mut self, ack: Position, info: &AckInfo<'_>, echoed: Option<Instant>) -> Arrived {
        let before = self.before();
        let mut arrived = Arrived::default();
        let (rack, rtt) = (&mut self.rack, &mut self.rtt);
        let mut witness = Witness { rack, rtt, now: info.now, echoed, arrived: &mut arrived };
        self.board.acknowledge(ack, |segment, whole| witness.see_acknowledged(segment, whole));
        let sacked_before = self.board.sacked_bytes();
        if self.sack && !info.sack.is_empty() {
            deliver_sacked(&mut self.board, ack, info.sack, &mut witness);
        }
        let after = self.before();
        arrived.acked = bytes(before.una, ack);
        arrived.sacked = self.board.sacked_bytes() - sacked_before;
        arrived.delivered = before.unaccounted.saturating_sub(after.unaccounted);
        arrived
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
        let per_round = self.board.outstanding().div_ceil(self.window.mss.saturating_mul(2));
        self.rtt.sample(rtt, per_round, &self.config.rto);
        self.tail_loss.on_sample();
    }

    /// Accounts for a duplicate acknowledgment without SACK: it shows that some segment has arrived, not
    /// which (RFC 5681, 3.2; RFC 6582).
    fn without_sack(&mut self, before: &Before, arrived: &mut Arrived, duplicate: bool) {
        if arrived.acked > 0 {
            // Beyond the first segment these are the bytes that the duplicates stood for.
            let stood_for = arrived.acked.saturating_sub(self.window.mss).min(self.duplicate_bytes);
            self.duplicate_bytes -= stood_for;
            self.duplicates = 0;
            if self.episode.is_none()
                || matches!(&self.episode, Some(episode) if self.board.una() >= episode.end)
            {
                self.duplicate_bytes = 0;
            }
        } else if duplicate && self.counts_duplicates() {
            let most = self.duplicates_stand_for().max(self.duplicate_bytes);
            self.duplicates = self.duplicates.saturating_add(1);
            self.duplicate_bytes = self.duplicate_bytes.saturating_add(self.window.mss).min(most);
        }
        self.duplicate_bytes = self.duplicate_bytes.min(self.board.pipe());
        let unaccounted = self.board.outstanding().saturating_sub(self.duplicate_bytes);
        arrived.delivered = before.unaccounted.saturating_sub(unaccounted);
    }

    /// Returns whether duplicates count. After a timeout they are answers to needless retransmissions,
    /// unless new data left since.
    fn counts_duplicates(&self) -> bool {
        match self.episode.as_deref() {
            Some(Episode { kind: Kind::Timeout(_), end, .. }) => self.board.nxt() > *end,
            _ => true,
        }
    }

    /// Returns how many bytes duplicate acknowledgments can stand for: the bytes sent before the episode,
    /// without the first segment. Further duplicates are not taken for arrivals, so that a receiver cannot
    /// make us send without end.
    fn duplicates_stand_for(&self) -> u32 {
        let first = self.board.first().map_or(0, |segment| segment.len);
        let (una, nxt) = (self.board.una(), self.board.nxt());
        match self.episode.as_deref() {
            Some(Episode { kind: Kind::Timeout(_), end, .. }) => bytes(*end, nxt),
            Some(Episode { end, .. }) => bytes(una, *end).saturating_sub(first),
            None => bytes(una, nxt).saturating_sub(first),
        }
    }

    /// Ends the handshake. A lost SYN is a sign of congestion, too (RFC 6298, 5.7; RFC 6928, 2: tolerated
    /// once).
    fn on_syn_acknowledged(&mut self, arrived: &Arrived) {
        if arrived.retransmitted {
            self.rtt.syn_was_lost(&self.config.rto);
            if self.timeouts > 1 {
                self.window.cwnd = self.window.mss;
            }
        }
        // Nothing is known of the path yet, whatever became of the SYN.
        self.window.ssthresh = Window::UNKNOWN;
        self.episode = None;
        self.undo = None;
    }

    /// Takes the last reduction back if all that was sent again had arrived before (Eifel, RFC 3522 and 4015;
    /// DSACK, RFC 3708).
    fn undo_if_for_nothing(
        &mut self,
        arrived: &Arrived,
        dsack: Option<(Position, Position)>,
        echoed: Option<Instant>,
    ) -> bool {
        let Some(undo) = &mut self.undo else { return false };
        if let Some((start, end)) = dsack {
            undo.on_dsack(start, end);
        }
        let in_episode = undo.until.is_none();
        let for_original =
            in_episode && arrived.acked > 0 && undo.was_for_the_original(echoed, self.config.timestamp_tick);
        if for_original || undo.all_in_vain() {
            self.undo_reduction();
            return true;
        }
        if undo.until.is_some_and(|until| self.board.una() > until) {
            self.undo = None;
        }
        false
    }

    /// Returns the state to restore if the reduction that begins turns out to be spurious.
    pub(super) fn point_of_return(&self) -> Box<Undo> {
        Box::new(Undo::new(self.window, self.board.first_sent_again()))
    }

    fn undo_reduction(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        if undo.until.is_none() {
            self.episode = None;
            self.rack.on_recovered();
        }
        self.window.cwnd = self.window.cwnd.max(undo.window.cwnd);
        self.window.ssthresh = self.window.ssthresh.max(undo.window.ssthresh);
        self.control.on_undo(&self.window);
        self.board.unmark_lost();
        self.rtt.forget_backoff(&self.config.rto);
        self.duplicates = 0;
        self.totals.get_or_insert_default().undone += 1;
    }

    /// Returns whether the timeout was spurious (F-RTO, RFC 5682, 3.1).
    fn judge_timeout(&mut self, arrived: &Arrived, unsent: bool, duplicate: bool) -> bool {
        let (una, nxt) = (self.board.una(), self.board.nxt());
        let Some(Episode { kind: Kind::Timeout(frto), end, .. }) = self.episode.as_deref_mut() else {
            return false;
        };
        match *frto {
            Frto::Off => {}
            // Step 3b: not all that the timeout declared lost was.
            Frto::Waiting | Frto::SendingNew if arrived.lost_in_error && self.undo.is_some() => {
                self.undo_reduction();
                return true;
            }
            // Step 2b, or 2a if there is nothing new to send.
            Frto::Waiting if arrived.acked > 0 && una < *end => {
                *frto = if unsent { Frto::SendingNew } else { Frto::Off };
                *end = nxt;
            }
            // Steps 2a and 3a.
            Frto::Waiting if duplicate => *frto = Frto::Off,
            Frto::SendingNew if duplicate || arrived.sacked > 0 => *frto = Frto::Off,
            Frto::Waiting | Frto::SendingNew => {}
        }
        false
    }

    /// Ends the episode if all that was sent before it is acknowledged.
    fn end_episode_if_over(&mut self) {
        let una = self.board.una();
        let Some(episode) = self.episode.take_if(|episode| una >= episode.is_over_at()) else { return };
        match episode.kind {
            Kind::Timeout(_) => self.rack.on_recovered(),
            // RFC 9937, 6: the window is where the reduction was to bring it.
            Kind::FastRecovery => {
                self.rack.on_recovered();
                self.reach_ssthresh();
            }
            Kind::WindowReduced => self.reach_ssthresh(),
        }
        self.recover = episode.end;
        if let Some(undo) = &mut self.undo {
            undo.until = Some(self.board.nxt());
        }
    }

    /// The reduction is over.
    fn reach_ssthresh(&mut self) {
        if !self.config.algorithm.is_model_based() {
            self.window.cwnd = self.window.ssthresh;
        }
    }

    /// Marks lost segments, by RACK or by duplicate acknowledgments. Returns the number of bytes newly
    /// lost.
    pub(super) fn detect_losses(&mut self, now: Instant) -> u32 {
        let lost = if self.sack { self.detect_by_time(now) } else { self.detect_by_duplicates() };
        self.count_lost(lost);
        if self.config.algorithm.is_model_based() {
            self.tell_losses(now);
        }
        lost
    }

    /// Marks segments as lost by their times (RFC 8985, 6.2, step 5).
    fn detect_by_time(&mut self, now: Instant) -> u32 {
        self.reordering_at = Instant::NEVER;
        let Some(newest) = self.rack.newest().filter(|newest| !self.board.is_sent_since(*newest)) else {
            return 0;
        };
        let (lost, next) = self.board.detect_overdue(newest, self.patience(), now);
        self.reordering_at = next.unwrap_or(Instant::NEVER);
        lost
    }

    pub(super) fn patience(&self) -> Duration {
        let path = Path { min_rtt: self.rtt.min(), srtt: self.rtt.srtt() };
        let recovering = matches!(&self.episode, Some(episode) if episode.kind != Kind::WindowReduced);
        self.rack.patience(path, recovering, self.board.sacked_segments())
    }

    fn detect_by_duplicates(&mut self) -> u32 {
        match self.episode.as_deref() {
            // RFC 6582, 3.2, step 3: a partial acknowledgment says that the next segment is lost, too.
            Some(Episode { kind: Kind::FastRecovery, .. }) if self.duplicates == 0 => {
                self.board.mark_first_lost_if_sent_once()
            }
            Some(Episode { kind: Kind::FastRecovery | Kind::Timeout(_), .. }) => 0,
            // Step 2: not for what a recovery before has sent again in vain.
            _ if self.duplicates == DUP_THRESH && self.board.una() > self.recover => {
                self.board.mark_first_lost()
            }
            _ => 0,
        }
    }

    /// Begins a reduction if there is a sign of congestion. Returns whether it did.
    fn react(&mut self, before: &Before, acked: &Acked, info: &AckInfo<'_>) -> bool {
        if self.board.is_syn_outstanding() {
            return false;
        }
        let kind = if acked.newly_lost > 0 {
            Kind::FastRecovery
        } else if info.ece {
            Kind::WindowReduced
        } else {
            return false;
        };
        if info.ece {
            // It was congestion for sure.
            self.undo = None;
        }
        self.reduce(kind, before, info.ece, info.now)
    }

    /// Enters an episode, unless there is one already: a window of data causes one reduction (RFC 6675, 5;
    /// RFC 3168, 6.1.2).
    pub(super) fn reduce(&mut self, kind: Kind, before: &Before, certain: bool, now: Instant) -> bool {
        let end = self.board.nxt();
        match self.episode.as_deref_mut() {
            None => {}
            Some(episode) if episode.kind == Kind::WindowReduced && kind == Kind::FastRecovery => {
                episode.kind = kind;
                episode.end = end;
                self.totals.get_or_insert_default().fast_recoveries += 1;
                return false;
            }
            Some(_) => return false,
        }
        let undoable = kind == Kind::FastRecovery && !certain;
        self.undo = undoable.then(|| self.point_of_return());
        let flight = before.outstanding.min(self.window.cwnd);
        self.control.on_congestion(&mut self.window, flight);
        if matches!(&self.pacing, Some(pacing) if pacing.is_unvalidated(now)) {
            // Careful Resume, 3.5 (safe retreat): half, by any algorithm without a model.
            self.window.ssthresh =
                self.window.ssthresh.min(self.window.at_least_two_segments(u64::from(flight / 2)));
        }
        self.episode = Some(Box::new(Episode { kind, end, prr: Prr::new(before.unaccounted) }));
        self.tail_loss.cancel();
        if kind == Kind::FastRecovery {
            self.totals.get_or_insert_default().fast_recoveries += 1;
        }
        true
    }

    /// Did the tail loss probe hide a loss? Then the window is reduced as if it had been seen (RFC 8985,
    /// 7.4).
    fn judge_probe(&mut self, before: &Before, dsack: Option<(Position, Position)>, bare: bool) -> bool {
        let verdict = self.tail_loss.on_ack(self.board.una(), dsack.map(|(_, end)| end), bare);
        if verdict != Verdict::Repaired || self.episode.is_some() {
            return false;
        }
        let flight = before.outstanding.min(self.window.cwnd);
        self.control.on_congestion(&mut self.window, flight);
        self.reach_ssthresh();
        self.undo = None;
        true
    }

    /// Adjusts the window: growth, or proportional reduction.
    fn adjust_window(&mut self, before: &Before, arrived: &Arrived, lost: u32, info: &AckInfo<'_>) {
        match self.episode.as_deref_mut() {
            // It is told by a sample.
            _ if self.config.algorithm.is_model_based() => {}
            Some(episode) if !matches!(episode.kind, Kind::Timeout(_)) => {
                let safe = arrived.acked > 0 && lost == 0;
                let in_flight = self.board.pipe().saturating_sub(self.duplicate_bytes);
                let delivery = Delivery { delivered: arrived.delivered, in_flight, safe };
                self.window.cwnd = episode.prr.window(delivery, self.window.ssthresh, self.window.mss);
            }
            // The acknowledgment of the SYN does not open the window (RFC 5681, 3.1), nor does one that tells
            // of congestion (RFC 3168, 6.1.2).
            _ if arrived.acked > 0 && !before.syn_outstanding && !info.ece => {
                self.grow(before, arrived, info.now);
            }
            _ => {}
        }
    }

    pub(super) fn grow(&mut self, before: &Before, arrived: &Arrived, now: Instant) {
        if self.window_was_in_use() {
            let arrival = Arrival {
                bytes: arrived.delivered,
                una: self.board.una(),
                nxt: self.board.nxt(),
                rtt: arrived.last_sent.filter(|_| !arrived.retransmitted).map(|sent| now.since(sent)),
                srtt: self.rtt.srtt(),
                now,
            };
            self.control.on_arrival(&mut self.window, &arrival);
        } else {
            // The user, or the peer's window, was the limit.
            self.control.on_idle(self.told_at, now);
        }
        self.told_at = now;
        self.end_round(before);
    }

    /// A round trip may be over, for which the largest flight is kept.
    #[inline]
    pub(super) fn end_round(&mut self, before: &Before) {
        if self.board.una() >= self.round_end {
            self.round_end = self.board.nxt();
            self.flight_max = before.in_flight;
        }
    }

    /// A window that was not filled has not been tried, and must not grow (RFC 7661; RFC 9438, 5.8). In slow
    /// start half is enough, because it doubles.
    fn window_was_in_use(&self) -> bool {
        if self.window.in_slow_start() {
            self.window.cwnd < self.flight_max.saturating_mul(2)
        } else {
            self.window.cwnd < self.flight_max.saturating_add(self.window.mss)
        }
    }
}

/// Marks segments that the SACK blocks report as arrived.
fn deliver_sacked(board: &mut Scoreboard, ack: Position, sack: &[SeqRange], witness: &mut Witness<'_>) {
    // Ascending, so that what one acknowledgment brings together is not taken for reordered.
    let mut blocks = [(0, 0); SACK_BLOCKS];
    for (block, sack) in blocks.iter_mut().zip(sack) {
        *block = (board.position(sack.start), board.position(sack.end));
    }
    blocks.sort_unstable();
    for (start, end) in blocks {
        // The byte at SND.UNA is missing, and what was not sent cannot have arrived: other blocks are
        // mistaken or old.
        if start > ack && end <= board.nxt() {
            board.sack(start, end, |segment| witness.see(segment));
        }
    }
}

/// Returns the instant `age` before `now`.
fn earlier(now: Instant, age: Duration) -> Instant {
    Instant::ZERO + now.since(Instant::ZERO + age)
}
