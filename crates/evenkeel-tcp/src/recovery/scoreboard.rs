//! The scoreboard: what was sent and is not yet cumulatively acknowledged, segment by segment (RFC 6675, 3;
//! RFC 8985, 5.1).
//!
//! ```text
//!    SND.UNA                                                        SND.NXT
//!       │ in flight │ lost │ in flight │ sacked │ sacked │ in flight │
//!                                        skip 2   skip 1
//! ```
//!
//! Nothing here looks at the whole window for one acknowledgment. A position is found by bisection. Runs of
//! selectively acknowledged segments are stepped over by `skip`, as in a union-find forest with path
//! compression, so a block that a receiver repeats costs no more the second time. What may be overdue is
//! looked for from a cursor on (segments sent once were sent in the order of their numbers) and in the queue
//! of retransmissions (in the order of their times).
//!
//! A selective acknowledgment counts for a segment when it covers all of it, as in RFC 8985, 6.2: bytes are
//! sent again in segments, too. Of a segment that was sent twice only the later transmission counts as in
//! flight.

use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;

use super::delivery::Delivery;
use crate::time::{Duration, Instant};
use crate::{SeqNumber, SeqRange};

/// A sequence number that does not wrap: bytes since before the initial one.
pub(super) type Position = u64;

/// The position of the initial sequence number. Not zero, so that what lies before it has a position, too.
const ORIGIN: Position = 1 << 32;
/// That of the first byte of data.
pub(super) const FIRST: Position = ORIGIN + 1;

/// The presumed state of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// On its way, or its acknowledgment is.
    InFlight,
    /// Lost, and not sent again yet.
    Lost,
    /// Arrived, but something before it has not.
    Sacked,
}

/// One segment, as it was last sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start: Position,
    pub(super) len: u32,
    /// If it is sacked: from here on at least so many segments are.
    skip: u32,
    pub(super) sent_at: Instant,
    pub(super) fate: Fate,
    /// It was sent more than once.
    pub(super) retransmitted: bool,
}

impl Segment {
    pub(super) fn end(&self) -> Position {
        self.start + u64::from(self.len)
    }
}

/// The last transmission of a segment that was sent more than once. It is out of date when the segment says
/// something else.
#[derive(Debug, Clone, Copy)]
struct Resent {
    start: Position,
    at: Instant,
}

/// The segments to be sent again, and those that were.
#[derive(Debug, Default)]
struct Repairs {
    /// The starts of segments that were marked lost. The first is always the start of a segment that is
    /// still lost.
    lost: BinaryHeap<Reverse<Position>>,
    /// In the order of their times.
    resent: VecDeque<Resent>,
}

impl Repairs {
    fn put_in_order(&mut self, resent: Resent) {
        let place = self.resent.partition_point(|other| other.at <= resent.at);
        self.resent.insert(place, resent);
    }
}

/// Sent segments, in the order of their sequence numbers.
#[derive(Debug)]
pub(super) struct Scoreboard {
    iss: SeqNumber,
    una: Position,
    nxt: Position,
    segments: VecDeque<Segment>,
    sacked_bytes: u32,
    sacked_segments: u32,
    lost_bytes: u32,
    /// There while something is lost or was sent again and is on its way: most connections never have it.
    repairs: Option<Box<Repairs>>,
    /// Every segment before it that was sent only once is sacked or lost.
    first_unjudged: Position,
    /// The measurement of the delivery rate, if it is in use.
    pub(super) delivery: Option<Box<Delivery>>,
}

impl Scoreboard {
    pub(super) fn new(iss: SeqNumber) -> Self {
        Self {
            iss,
            una: ORIGIN,
            nxt: ORIGIN,
            segments: VecDeque::new(),
            sacked_bytes: 0,
            sacked_segments: 0,
            lost_bytes: 0,
            repairs: None,
            first_unjudged: ORIGIN,
            delivery: None,
        }
    }

    /// Returns the position of the first byte that is not cumulatively acknowledged.
    pub(super) fn una(&self) -> Position {
        self.una
    }

    /// Returns the position of the next new byte.
    pub(super) fn nxt(&self) -> Position {
        self.nxt
    }

    /// Returns whether nothing but the SYN, or not even that, is acknowledged or sent.
    pub(super) fn is_syn_outstanding(&self) -> bool {
        self.una == ORIGIN
    }

    /// Returns the position of a sequence number within half the circle of `SND.UNA`.
    pub(super) fn position(&self, seq: SeqNumber) -> Position {
        let una = self.seq(self.una);
        let away = seq.to_u32().wrapping_sub(una.to_u32()) as i32;
        self.una.saturating_add_signed(i64::from(away))
    }

    #[expect(clippy::cast_possible_truncation, reason = "sequence numbers wrap")]
    fn seq(&self, position: Position) -> SeqNumber {
        self.iss + position.wrapping_sub(ORIGIN) as u32
    }

    /// Returns the sequence numbers from `start` up to `end`.
    pub(super) fn range(&self, start: Position, end: Position) -> SeqRange {
        SeqRange::new(self.seq(start), self.seq(end))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }

    pub(super) fn first(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// Returns the last segment of which something lies before `edge`.
    pub(super) fn last_before(&self, edge: Position) -> Option<&Segment> {
        let behind = self.segments.partition_point(|segment| segment.start < edge);
        self.segments.get(behind.checked_sub(1)?)
    }

    /// Returns the segment that the byte at `position` is in.
    pub(super) fn at(&self, position: Position) -> Option<&Segment> {
        self.segments.get(self.find(position)?)
    }

    /// Returns the number of bytes sent and not cumulatively acknowledged: FlightSize of RFC 5681.
    pub(super) fn outstanding(&self) -> u32 {
        bytes(self.una, self.nxt)
    }

    pub(super) fn sacked_bytes(&self) -> u32 {
        self.sacked_bytes
    }

    pub(super) fn sacked_segments(&self) -> u32 {
        self.sacked_segments
    }

    /// Returns whether each outstanding segment was sent once, and none is known to have arrived or to be
    /// lost. Earlier segments may have been otherwise.
    pub(super) fn is_undisturbed(&self) -> bool {
        self.repairs.is_none() && self.sacked_segments == 0
    }

    pub(super) fn lost_bytes(&self) -> u32 {
        self.lost_bytes
    }

    /// Returns the number of bytes thought to be in flight: `pipe` of RFC 6675, 4.
    pub(super) fn pipe(&self) -> u32 {
        self.outstanding().saturating_sub(self.sacked_bytes).saturating_sub(self.lost_bytes)
    }

    /// Records that new bytes left, up to `end`.
    pub(super) fn sent(&mut self, end: Position, now: Instant) {
        let len = bytes(self.nxt, end);
        if len == 0 {
            return;
        }
        if self.segments.capacity() == 0 {
            self.segments.reserve_exact(1);
        }
        let fate = Fate::InFlight;
        self.segments.push_back(Segment {
            start: self.nxt,
            len,
            skip: 0,
            sent_at: now,
            fate,
            retransmitted: false,
        });
        self.nxt = end;
    }

    /// For [`Delivery`]: the last new segment has so many bytes.
    pub(super) fn stamp_new(&mut self, len: u32, now: Instant) {
        let in_flight = self.pipe();
        // There is one stamp for each segment.
        if let Some(delivery) = self.delivery.as_mut().filter(|_| len > 0) {
            delivery.on_sent(in_flight, len, now);
        }
    }

    /// Records that bytes left again. Returns how many of them were not acknowledged.
    pub(super) fn sent_again(&mut self, start: Position, end: Position, now: Instant) -> u32 {
        let mut at = start.max(self.una);
        let end = end.min(self.nxt);
        let mut again = 0;
        while at < end {
            let Some(index) = self.find(at) else { break };
            let index = self.split(index, at);
            self.split(index, end);
            at = self.transmit(index, now, &mut again).unwrap_or(end);
        }
        self.settle();
        again
    }

    /// Notes that the segment is sent again; returns its end.
    fn transmit(&mut self, index: usize, now: Instant, again: &mut u32) -> Option<Position> {
        let segment = self.segments.get_mut(index)?;
        if segment.fate == Fate::Sacked {
            return Some(segment.end());
        }
        if segment.fate == Fate::Lost {
            self.lost_bytes -= segment.len;
        }
        segment.fate = Fate::InFlight;
        segment.retransmitted = true;
        segment.sent_at = now;
        let (start, len, end) = (segment.start, segment.len, segment.end());
        *again += len;
        self.repairs.get_or_insert_default().resent.push_back(Resent { start, at: now });
        let in_flight = self.pipe();
        if let Some(delivery) = &mut self.delivery {
            delivery.on_sent_again(index, in_flight, len, now);
        }
        Some(end)
    }

    /// Cuts a segment in two if `at` lies within it; returns the index of what starts at `at`, or of the
    /// segment if nothing was cut.
    fn split(&mut self, index: usize, at: Position) -> usize {
        let Some(first) = self.segments.get_mut(index) else { return index };
        if at <= first.start || at >= first.end() || first.fate == Fate::Sacked {
            return index;
        }
        let mut second = *first;
        first.len = bytes(first.start, at);
        second.start = at;
        second.len -= first.len;
        if second.fate == Fate::Lost {
            self.repairs.get_or_insert_default().lost.push(Reverse(at));
        } else if second.retransmitted {
            self.repairs.get_or_insert_default().put_in_order(Resent { start: at, at: second.sent_at });
        }
        self.segments.insert(index + 1, second);
        if let Some(delivery) = &mut self.delivery {
            delivery.on_split(index);
        }
        index + 1
    }

    /// Records that all bytes before `ack` arrived. Calls `delivered` for each segment of which nothing was
    /// known yet, lowest first, with true if it arrived as a whole. Of the last a part may have arrived.
    pub(super) fn acknowledge(&mut self, ack: Position, mut delivered: impl FnMut(&Segment, bool)) {
        let ack = ack.min(self.nxt);
        while let Some(first) = self.segments.front_mut() {
            if first.end() <= ack {
                if first.fate != Fate::Sacked {
                    delivered(first, true);
                }
                let (fate, len) = (first.fate, first.len);
                if self.delivery.is_some() {
                    self.report_first_delivered();
                }
                self.segments.pop_front();
                self.forget(fate, len, 1);
            } else {
                let part = bytes(first.start, ack);
                if part > 0 && first.fate != Fate::Sacked {
                    delivered(first, false);
                }
                first.start += u64::from(part);
                first.len -= part;
                let fate = first.fate;
                self.forget(fate, part, 0);
                if let Some(delivery) = self.delivery.as_mut().filter(|_| fate != Fate::Sacked) {
                    delivery.on_part_delivered(part);
                }
                break;
            }
        }
        self.una = self.una.max(ack);
        self.settle();
        if self.segments.is_empty() {
            self.release();
        }
    }

    /// The first segment is acknowledged, and about to be forgotten.
    #[cold]
    fn report_first_delivered(&mut self) {
        let (Some(delivery), Some(first)) = (&mut self.delivery, self.segments.front()) else { return };
        if first.fate != Fate::Sacked {
            delivery.on_delivered(0, first.len, first.end(), first.sent_at);
        }
        delivery.forget_first();
    }

    fn forget(&mut self, fate: Fate, len: u32, segments: u32) {
        match fate {
            Fate::InFlight => {}
            Fate::Lost => self.lost_bytes -= len,
            Fate::Sacked => {
                self.sacked_bytes -= len;
                self.sacked_segments -= segments;
            }
        }
    }

    /// Releases memory. An idle connection owns none here, or that of one segment: many connections never
    /// have more in flight.
    #[inline]
    fn release(&mut self) {
        if self.segments.capacity() > 1 {
            self.segments = VecDeque::new();
            if let Some(delivery) = &mut self.delivery {
                delivery.release();
            }
        }
        self.repairs = None;
    }

    /// Records that the bytes from `start` up to `end` arrived. Calls `delivered` for each segment that is
    /// new among them, lowest first.
    pub(super) fn sack(&mut self, start: Position, end: Position, mut delivered: impl FnMut(&Segment)) {
        let mut index = self.segments.partition_point(|segment| segment.start < start);
        loop {
            index = self.unsacked_from(index);
            let Some(segment) = self.segments.get_mut(index) else { break };
            if segment.end() > end {
                break;
            }
            delivered(segment);
            if let Some(delivery) = &mut self.delivery {
                delivery.on_delivered(index, segment.len, segment.end(), segment.sent_at);
            }
            if segment.fate == Fate::Lost {
                self.lost_bytes -= segment.len;
            }
            segment.fate = Fate::Sacked;
            segment.skip = 1;
            self.sacked_bytes += segment.len;
            self.sacked_segments += 1;
            index += 1;
        }
        self.settle();
    }

    /// Returns the index of the first segment from `index` on that is not sacked.
    fn unsacked_from(&mut self, index: usize) -> usize {
        let mut to = index;
        while let Some(segment) = self.segments.get(to).filter(|segment| segment.fate == Fate::Sacked) {
            to += segment.skip as usize;
        }
        let mut from = index;
        while from < to {
            let Some(segment) = self.segments.get_mut(from) else { break };
            let next = from + segment.skip as usize;
            segment.skip = u32::try_from(to - from).unwrap_or(u32::MAX);
            from = next;
        }
        to
    }

    /// Returns whether all outstanding segments were sent since `newest` (a time and the end of a segment).
    /// In nearly all cases that follows from the first segment, because later ones were sent later.
    pub(super) fn is_sent_since(&self, newest: (Instant, Position)) -> bool {
        // Of what was sent again, a receiver that takes back what it said may leave the first.
        let is_since = |first: &Segment| !first.retransmitted && (first.sent_at, first.end()) >= newest;
        self.repairs.is_none() && self.first().is_none_or(is_since)
    }

    /// Marks as lost what was sent before `newest` (a time and the end of a segment) and is older than
    /// `patience` (RFC 8985, 6.2, step 5). Returns the bytes newly lost, and when the next of those sent
    /// before `newest` will be too old.
    pub(super) fn detect_overdue(
        &mut self,
        newest: (Instant, Position),
        patience: Duration,
        now: Instant,
    ) -> (u32, Option<Instant>) {
        let lost_before = self.lost_bytes;
        let first = self.detect_among_first_transmissions(newest, patience, now);
        let again = self.detect_among_retransmissions(newest, patience, now);
        self.settle();
        (self.lost_bytes - lost_before, first.into_iter().chain(again).min())
    }

    fn detect_among_first_transmissions(
        &mut self,
        newest: (Instant, Position),
        patience: Duration,
        now: Instant,
    ) -> Option<Instant> {
        let cursor = self.first_unjudged.max(self.una);
        let mut index = self.segments.partition_point(|segment| segment.start < cursor);
        let mut next = None;
        loop {
            index = self.unsacked_from(index);
            let Some(segment) = self.segments.get(index) else { break };
            if segment.fate == Fate::InFlight && !segment.retransmitted {
                if (segment.sent_at, segment.end()) >= newest {
                    break;
                }
                let due = segment.sent_at + patience;
                if due > now {
                    next = Some(due);
                    break;
                }
                self.mark_lost(index);
            }
            index += 1;
        }
        self.first_unjudged = self.segments.get(index).map_or(self.nxt, |segment| segment.start);
        next
    }

    fn detect_among_retransmissions(
        &mut self,
        newest: (Instant, Position),
        patience: Duration,
        now: Instant,
    ) -> Option<Instant> {
        while let Some(resent) = self.first_resent() {
            if let Some(index) = self.find_resent(resent) {
                let end = self.segments.get(index).map_or(resent.start, Segment::end);
                if (resent.at, end) >= newest {
                    return None;
                }
                let due = resent.at + patience;
                if due > now {
                    return Some(due);
                }
                self.mark_lost(index);
            }
            self.drop_first_resent();
        }
        None
    }

    /// Returns the segment of which this is the last transmission, if that is still in flight.
    fn find_resent(&self, resent: Resent) -> Option<usize> {
        let index = self.find(resent.start.max(self.una))?;
        let segment = self.segments.get(index)?;
        let current = segment.fate == Fate::InFlight && segment.retransmitted && segment.sent_at == resent.at;
        current.then_some(index)
    }

    fn drop_outdated_resent(&mut self) {
        while self.first_resent().is_some_and(|resent| self.find_resent(resent).is_none()) {
            self.drop_first_resent();
        }
    }

    /// Returns the time at which the first retransmission left that is still in flight.
    pub(super) fn first_sent_again(&self) -> Option<Instant> {
        self.first_resent().map(|resent| resent.at)
    }

    fn first_resent(&self) -> Option<Resent> {
        self.repairs.as_ref()?.resent.front().copied()
    }

    fn drop_first_resent(&mut self) {
        if let Some(repairs) = &mut self.repairs {
            repairs.resent.pop_front();
        }
    }

    fn mark_lost(&mut self, index: usize) {
        let Some(segment) = self.segments.get_mut(index) else { return };
        if segment.fate == Fate::InFlight {
            segment.fate = Fate::Lost;
            self.lost_bytes += segment.len;
            self.repairs.get_or_insert_default().lost.push(Reverse(segment.start));
            if let Some(delivery) = &mut self.delivery {
                delivery.on_lost(index, segment.start, segment.len);
            }
        }
    }

    /// Marks the first segment as lost, without looking at times (RFC 6582: no SACK).
    pub(super) fn mark_first_lost(&mut self) -> u32 {
        let before = self.lost_bytes;
        self.mark_lost(0);
        self.settle();
        self.lost_bytes - before
    }

    /// Marks the first segment as lost unless it was sent again already. Returns the number of bytes newly
    /// lost.
    pub(super) fn mark_first_lost_if_sent_once(&mut self) -> u32 {
        if self.first().is_some_and(|first| first.retransmitted) { 0 } else { self.mark_first_lost() }
    }

    /// Marks what `is_lost` says as lost. Looks at all segments: for timeouts and changes of the path only.
    pub(super) fn mark_lost_where(&mut self, is_lost: impl Fn(&Segment) -> bool) -> u32 {
        let before = self.lost_bytes;
        for index in 0..self.segments.len() {
            if self.segments.get(index).is_some_and(&is_lost) {
                self.mark_lost(index);
            }
        }
        self.settle();
        self.lost_bytes - before
    }

    /// Takes back all marks of loss: what was thought lost is on its way.
    pub(super) fn unmark_lost(&mut self) {
        let lost = self.repairs.as_mut().map(|repairs| core::mem::take(&mut repairs.lost));
        for Reverse(start) in lost.unwrap_or_default() {
            let Some(index) = self.find(start.max(self.una)) else { continue };
            let Some(segment) = self.segments.get_mut(index).filter(|segment| segment.fate == Fate::Lost)
            else {
                continue;
            };
            segment.fate = Fate::InFlight;
            self.lost_bytes -= segment.len;
            if segment.retransmitted {
                let resent = Resent { start: segment.start, at: segment.sent_at };
                self.repairs.get_or_insert_default().put_in_order(resent);
            }
        }
        self.first_unjudged = self.una;
    }

    /// Marks all segments as lost, because the receiver has discarded what it had acknowledged selectively,
    /// as it may (RFC 2018, 8).
    pub(super) fn renege(&mut self) {
        for segment in self.segments.iter_mut().filter(|segment| segment.fate == Fate::Sacked) {
            segment.fate = Fate::InFlight;
            segment.skip = 0;
        }
        self.sacked_bytes = 0;
        self.sacked_segments = 0;
        self.mark_lost_where(|_| true);
    }

    /// Returns the lowest lost segment.
    pub(super) fn first_lost(&self) -> Option<&Segment> {
        let &Reverse(start) = self.repairs.as_ref()?.lost.peek()?;
        self.segments.get(self.find(start.max(self.una))?)
    }

    /// Drops entries that are out of date until the first of `lost` is a lost segment, and the first of
    /// `resent` on its way; both, if there is none.
    fn settle(&mut self) {
        if self.repairs.is_some() {
            self.settle_repairs();
        }
    }

    #[cold]
    fn settle_repairs(&mut self) {
        while self.repairs.as_ref().is_some_and(|repairs| !repairs.lost.is_empty())
            && self.first_lost().is_none_or(|segment| segment.fate != Fate::Lost)
        {
            if let Some(repairs) = &mut self.repairs {
                repairs.lost.pop();
            }
        }
        self.drop_outdated_resent();
        self.repairs.take_if(|repairs| repairs.lost.is_empty() && repairs.resent.is_empty());
    }

    /// Returns the index of the segment that `position` lies in.
    fn find(&self, position: Position) -> Option<usize> {
        let index = self.segments.partition_point(|segment| segment.end() <= position);
        self.segments.get(index).filter(|segment| segment.start <= position).map(|_| index)
    }

    /// All counters, by looking at every segment.
    #[cfg(test)]
    pub(super) fn recount(&self) -> Recount {
        let mut count = Recount::default();
        for segment in &self.segments {
            match segment.fate {
                Fate::InFlight => count.in_flight += segment.len,
                Fate::Lost => {
                    count.lost += segment.len;
                    count.first_lost = count.first_lost.or(Some(segment.start));
                }
                Fate::Sacked => count.sacked += segment.len,
            }
        }
        count
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter()
    }
}

/// The number of bytes in each state, counted anew from the segments.
#[cfg(test)]
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Recount {
    pub(super) in_flight: u32,
    pub(super) lost: u32,
    pub(super) sacked: u32,
    pub(super) first_lost: Option<Position>,
}

/// Returns the number of bytes from `start` up to `end`; zero if `end` is not later.
pub(super) fn bytes(start: Position, end: Position) -> u32 {
    u32::try_from(end.saturating_sub(start)).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "scoreboard_tests.rs"]
mod tests;
