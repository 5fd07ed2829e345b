//! The processing of an acknowledgment, step by step.

use super::arrived::{Arrived, Before, Witness};
use super::episode::{Episode, Frto, Kind};
use super::info::{AckInfo, Acked};
use super::model::RateUpdate;
use super::parts::Parts;
use super::prr::Delivery;
use super::scoreboard::{Position, Scoreboard, bytes};
use super::tail_loss::Verdict;
use crate::SeqRange;
use crate::congestion::{Arrival, Window};
use crate::time::{Duration, Instant};

/// The number of blocks that fit in a SACK option (RFC 2018, 3).
const SACK_BLOCKS: usize = 4;

/// A range of positions that arrived twice.
type Twice = (Position, Position);

/// An acknowledgment that arrives.
pub(super) struct Acknowledgment<'r, 'a> {
    parts: &'r mut Parts,
    info: &'r AckInfo<'a>,
    /// The position that the acknowledgment names, and the one up to which all is acknowledged.
    named: Position,
    ack: Position,
    /// The time at which the segment left whose timestamp is echoed.
    echoed: Option<Instant>,
    /// The state before the acknowledgment.
    before: Before,
}

impl<'r, 'a> Acknowledgment<'r, 'a> {
    /// Creates the processing of an acknowledgment; `None` if there is nothing new in it. An acknowledgment
    /// of bytes never sent changes nothing. If later ones have overtaken it, only its SACK blocks count (RFC
    /// 6675, 5), and it is never a duplicate acknowledgment.
    #[inline]
    pub(super) fn new(parts: &'r mut Parts, info: &'r AckInfo<'a>) -> Option<Self> {
        let named = parts.board.position(info.ack);
        let ack = named.max(parts.board.una());
        let overtaken = named < ack;
        if ack > parts.board.nxt() || overtaken && (info.sack.is_empty() || !parts.sack) {
            return None;
        }
        // At every segment of a connection that only receives, nothing is outstanding.
        let quiet = parts.board.is_empty() && ack == parts.board.una() && info.sack.is_empty() && !info.ece;
        if quiet && parts.is_settled() {
            return None;
        }
        let before = parts.before();
        let echoed = info.rtt_echo.map(|age| earlier(info.now, age));
        Some(Self { parts, info, named, ack, echoed, before })
    }

    /// Processes the acknowledgment. Returns the changes that it made.
    pub(super) fn process(mut self) -> Acked {
        let info = self.info;
        let dsack = self.dsack();
        let mut arrived = self.deliver();
        self.parts.sample_rtt(&arrived, || info.rtt_echo, info.now);
        let bare = arrived.acked == 0 && !info.payload && !info.window_update;
        let duplicate = bare && self.named == self.ack && !self.parts.board.is_empty();
        if !self.parts.sack {
            let Parts { duplicates, board, episodes, congestion, .. } = &mut *self.parts;
            let mss = congestion.window.mss;
            duplicates.on_ack(board, episodes, mss, (&self.before, &mut arrived), duplicate);
        }
        if self.before.syn_outstanding && arrived.acked > 0 {
            self.on_syn_acknowledged(&arrived);
        }

        let mut acked = Acked {
            newly_acked: arrived.acked,
            newly_sacked: arrived.sacked,
            duplicate: duplicate && arrived.sacked == 0,
            ..Acked::default()
        };
        acked.undone =
            self.undo_if_spurious(&arrived, dsack) || self.judge_timeout(&arrived, acked.duplicate);
        self.end_episode_if_over();
        acked.newly_lost = self.parts.detect_losses(info.now);
        acked.cwr = self.react(acked.newly_lost);
        acked.cwr |= self.judge_probe(dsack, bare && info.sack.is_empty());
        self.adjust_window(&arrived, acked.newly_lost);
        self.parts.set_timers_after_ack(arrived.acked > 0, info.now);
        if self.parts.pacing.is_some() {
            let marked = acked.cwr && info.ece;
            RateUpdate::new(self.parts, info.now).process(self.before, arrived, marked);
        }
        acked
    }

    /// Returns the range that arrived twice, if the first SACK block reports one (RFC 2883, 4): the block
    /// is acknowledged already, or within the second block.
    fn dsack(&mut self) -> Option<Twice> {
        let (parts, sack) = (&mut *self.parts, self.info.sack);
        let first = sack.first().filter(|first| parts.sack && !first.is_empty())?;
        let (start, end) = (parts.board.position(first.start), parts.board.position(first.end));
        let within_second = sack.get(1).is_some_and(|second| second.covers(*first));
        if (end > self.named && !within_second) || end > parts.board.nxt() {
            return None;
        }
        // A probe in vain says nothing of reordering.
        if !parts.tail_loss.ends_at(end) {
            parts.rack.on_dsack(self.ack, parts.board.nxt());
        }
        Some((start, end))
    }

    /// Brings the scoreboard up to date (RFC 6675, Update()), and RACK with it.
    fn deliver(&mut self) -> Arrived {
        let (parts, info, ack) = (&mut *self.parts, self.info, self.ack);
        let mut arrived = Arrived::default();
        let (rack, rtt) = (&mut parts.rack, &mut parts.rtt);
        let (now, echoed) = (info.now, self.echoed);
        let mut witness = Witness { rack, rtt, now, echoed, arrived: &mut arrived };
        parts.board.acknowledge(ack, |segment, whole| witness.see_acknowledged(segment, whole));
        let sacked_before = parts.board.sacked_bytes();
        if parts.sack && !info.sack.is_empty() {
            deliver_sacked(&mut parts.board, ack, info.sack, &mut witness);
        }
        let after = parts.before();
        arrived.acked = bytes(self.before.una, ack);
        arrived.sacked = parts.board.sacked_bytes() - sacked_before;
        arrived.delivered = self.before.unaccounted.saturating_sub(after.unaccounted);
        arrived
    }

    /// Ends the handshake. A lost SYN is a sign of congestion, too (RFC 6298, 5.7; RFC 6928, 2: tolerated
    /// once).
    fn on_syn_acknowledged(&mut self, arrived: &Arrived) {
        let parts = &mut *self.parts;
        let window = &mut parts.congestion.window;
        if arrived.retransmitted {
            parts.rtt.syn_was_lost(&parts.config.rto);
            if parts.timeouts > 1 {
                window.cwnd = window.mss;
            }
        }
        // Nothing is known of the path yet, whatever became of the SYN.
        window.ssthresh = Window::UNKNOWN;
        parts.episodes.forget();
    }

    /// Takes the last reduction back if all that was sent again had arrived before (Eifel, RFC 3522 and 4015;
    /// DSACK, RFC 3708).
    fn undo_if_spurious(&mut self, arrived: &Arrived, dsack: Option<Twice>) -> bool {
        let parts = &mut *self.parts;
        let Some(undo) = &mut parts.episodes.undo else { return false };
        if let Some((start, end)) = dsack {
            undo.on_dsack(start, end);
        }
        let in_episode = undo.until.is_none();
        let for_original = in_episode
            && arrived.acked > 0
            && undo.was_for_the_original(self.echoed, parts.config.timestamp_tick);
        if for_original || undo.all_in_vain() {
            self.undo();
            return true;
        }
        if undo.until.is_some_and(|until| parts.board.una() > until) {
            parts.episodes.undo = None;
        }
        false
    }

    /// Takes the last reduction back.
    fn undo(&mut self) {
        let parts = &mut *self.parts;
        let Some(undo) = parts.episodes.undo.take() else { return };
        if undo.until.is_none() {
            parts.episodes.current = None;
            parts.rack.on_recovered();
        }
        parts.congestion.undo(&undo.window);
        parts.board.unmark_lost();
        parts.rtt.forget_backoff(&parts.config.rto);
        parts.duplicates.restart();
        parts.counters().undone += 1;
    }

    /// Returns whether the timeout was spurious (F-RTO, RFC 5682, 3.1).
    fn judge_timeout(&mut self, arrived: &Arrived, duplicate: bool) -> bool {
        let Parts { board, episodes, .. } = &mut *self.parts;
        let Some(Episode { kind: Kind::Timeout(frto), end, .. }) = episodes.current.as_deref_mut() else {
            return false;
        };
        match *frto {
            Frto::Off => {}
            // Step 3b: not all that the timeout declared lost was.
            Frto::Waiting | Frto::SendingNew if arrived.lost_in_error && episodes.undo.is_some() => {
                self.undo();
                return true;
            }
            // Step 2b, or 2a if there is nothing new to send.
            Frto::Waiting if arrived.acked > 0 && board.una() < *end => {
                *frto = if self.info.unsent { Frto::SendingNew } else { Frto::Off };
                *end = board.nxt();
            }
            // Steps 2a and 3a.
            Frto::Waiting if duplicate => *frto = Frto::Off,
            Frto::SendingNew if duplicate || arrived.sacked > 0 => *frto = Frto::Off,
            Frto::Waiting | Frto::SendingNew => {}
        }
        false
    }

    fn end_episode_if_over(&mut self) {
        let Parts { board, episodes, rack, congestion, has_model, .. } = &mut *self.parts;
        let Some(kind) = episodes.end_if_over(board.una(), board.nxt()) else { return };
        if kind != Kind::WindowReduced {
            rack.on_recovered();
        }
        // RFC 9937, 6: the window is where the reduction was to bring it.
        if !matches!(kind, Kind::Timeout(_)) && !*has_model {
            congestion.reach_ssthresh();
        }
    }

    /// Begins a reduction if there is a sign of congestion: `lost` bytes are newly lost, or a router has
    /// marked a packet. Returns whether it did.
    fn react(&mut self, lost: u32) -> bool {
        let ece = self.info.ece;
        if self.parts.board.is_syn_outstanding() || lost == 0 && !ece {
            return false;
        }
        let kind = if lost > 0 { Kind::FastRecovery } else { Kind::WindowReduced };
        if ece {
            // It was congestion for sure.
            self.parts.episodes.undo = None;
        }
        self.parts.reduce(kind, &self.before, ece, self.info.now)
    }

    /// Returns whether the tail loss probe hid a loss. The window is then reduced as if the loss had been
    /// seen (RFC 8985, 7.4).
    fn judge_probe(&mut self, dsack: Option<Twice>, bare: bool) -> bool {
        let Parts { board, episodes, tail_loss, congestion, has_model, .. } = &mut *self.parts;
        let verdict = tail_loss.on_ack(board.una(), dsack.map(|(_, end)| end), bare);
        if verdict != Verdict::Repaired || episodes.current.is_some() {
            return false;
        }
        let flight = self.before.outstanding.min(congestion.window.cwnd);
        congestion.control.on_congestion(&mut congestion.window, flight);
        if !*has_model {
            congestion.reach_ssthresh();
        }
        episodes.undo = None;
        true
    }

    /// Adjusts the window: growth, or proportional reduction. An algorithm with a model is notified through a
    /// sample.
    fn adjust_window(&mut self, arrived: &Arrived, lost: u32) {
        let Parts { board, episodes, congestion, rtt, duplicates, has_model, .. } = &mut *self.parts;
        match episodes.current.as_deref_mut() {
            _ if *has_model => {}
            Some(episode) if !matches!(episode.kind, Kind::Timeout(_)) => {
                let safe = arrived.acked > 0 && lost == 0;
                let in_flight = board.pipe().saturating_sub(duplicates.bytes());
                let delivery = Delivery { delivered: arrived.delivered, in_flight, safe };
                let window = &mut congestion.window;
                window.cwnd = episode.prr.window(delivery, window.ssthresh, window.mss);
            }
            // The acknowledgment of the SYN does not open the window (RFC 5681, 3.1), nor does one that tells
            // of congestion (RFC 3168, 6.1.2).
            _ if arrived.acked > 0 && !self.before.syn_outstanding && !self.info.ece => {
                let (una, nxt, now) = (board.una(), board.nxt(), self.info.now);
                congestion.grow(now, || {
                    let (rtt, srtt) = (arrived.round_trip(now), rtt.srtt());
                    Arrival { bytes: arrived.delivered, una, nxt, rtt, srtt, now }
                });
                congestion.end_round(una, nxt, self.before.in_flight);
            }
            _ => {}
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
