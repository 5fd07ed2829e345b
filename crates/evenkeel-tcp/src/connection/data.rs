//! Payload and FIN (RFC 9293, 3.10.7.4, seventh and eighth step), the delay of acknowledgments (3.8.6.3,
//! RFC 5681, 4.2), and the window to offer (3.8.6.2.2).

use super::super::counters::Counter;
use super::super::drop::{Fate, TcpDrop};
use super::super::segment::{Flags, Segment};
use super::super::seq::{SeqNumber, SeqRange};
use super::super::state::{State, StateEvent};
use super::config::Config;
use super::input::OUT_OF_PLACE;
use super::tcb::Connection;
use crate::time::Instant;

/// The lower limit in bytes of the estimate of a peer's full segment: it may have sent only small ones so
/// far.
const FULL_SEGMENT_MIN: u16 = 536;

impl Connection {
    pub(super) fn on_text(&mut self, segment: &Segment<'_>, now: Instant) -> Fate {
        if segment.is_empty() || !self.state.may_receive() {
            return Fate::Control;
        }
        let range = SeqRange::at(segment.header.seq, segment.payload_len() as u32);
        if self.rcv.closed && range.end.after(self.rcv.nxt()) {
            // The user will not read it, and the peer should know (RFC 9293, 3.6.1).
            self.tally.note(Counter::AbortOnData);
            self.abort();
            return Fate::Control;
        }
        let end = self.rcv.fin_at.map_or(self.rcv.edge, |fin| fin.min(self.rcv.edge));
        let fits = self.admit(range.intersection(SeqRange::new(range.start, end)));
        let had_holes = self.rcv.buffer.has_holes();
        let insertion = self.rcv.buffer.insert(range.start, cut(segment.payload, fits.len() as usize));
        let whole = fits == range && !insertion.refused;
        self.note_segment(range.len());
        self.rcv.dsack = insertion.duplicate.or(self.rcv.dsack);
        let duplicate = insertion.duplicate == Some(range);
        if self.rcv.deaf {
            self.rcv.buffer.discard();
        }
        self.counts.bytes_in += u64::from(insertion.advanced);
        if !range.is_empty() {
            self.count_text(insertion.advanced > 0, duplicate, whole);
        }
        if had_holes || self.rcv.buffer.has_holes() || insertion.duplicate.is_some() || !whole {
            // RFC 5681, 4.2: data out of order, or that fills a hole. Data without room is acknowledged at
            // once, too.
            self.due.ack = true;
        }
        self.delay_ack(now);
        match (insertion.advanced > 0, whole) {
            _ if range.is_empty() => Fate::Control,
            (true, _) => Fate::Data,
            (false, true) if !duplicate => Fate::Data,
            (false, true) => OUT_OF_PLACE,
            (false, false) => Fate::Dropped(TcpDrop::NoRoom),
        }
    }

    /// Updates the estimate of a peer's full segment from one with `len` bytes of payload.
    pub(super) fn note_segment(&mut self, len: u32) {
        self.rcv.segment = self.rcv.segment.max(u16::try_from(len).unwrap_or(u16::MAX).min(self.rcv.mss));
    }

    fn count_text(&mut self, advanced: bool, duplicate: bool, whole: bool) {
        let out_of_order = !advanced && whole && !duplicate;
        self.counts.out_of_order += u32::from(out_of_order);
        self.counts.duplicates += u32::from(duplicate);
        self.counts.no_room += u32::from(!whole);
        self.tally.note_if(out_of_order, Counter::OfoQueue);
        self.tally.note_if(duplicate, Counter::DelayedAckLost);
        if !whole {
            let closed = self.rcv.edge == self.rcv.nxt();
            self.tally.note(if closed { Counter::ZeroWindowDrop } else { Counter::RcvQDrop });
        }
    }

    /// Schedules the acknowledgment of received data: at once after every second full segment, else a
    /// little later.
    pub(super) fn delay_ack(&mut self, now: Instant) {
        let full = u32::from(self.rcv.segment.max(FULL_SEGMENT_MIN.min(self.rcv.mss)));
        if self.rcv.nxt().since(self.rcv.acked) >= full.saturating_mul(2) || self.config.ack_delay.is_zero() {
            self.due.ack = true;
        } else if self.rcv.nxt() != self.rcv.acked {
            let delay = self.config.ack_delay.min(Config::ACK_DELAY_MAX);
            self.timers.delayed_ack = self.timers.delayed_ack.min(now + delay);
        }
    }

    pub(super) fn on_fin(&mut self, segment: &Segment<'_>, now: Instant) {
        if self.state == State::TimeWait && segment.header.flags.contains(Flags::FIN) {
            // "Acknowledge it, and restart the 2 MSL timeout."
            self.due.ack = true;
            self.start_time_wait(now);
        }
        if !self.state.may_receive() {
            return;
        }
        if segment.header.flags.contains(Flags::FIN) {
            let fin = segment.header.seq + segment.payload_len() as u32;
            // The FIN needs room in the window like a byte, and data beyond a FIN is not from this
            // connection.
            if fin.before(self.rcv.edge) && fin.at_or_after(self.rcv.nxt()) {
                self.rcv.fin_at.get_or_insert(fin);
            }
            self.due.ack = true;
        }
        if self.rcv.fin_at == Some(self.rcv.buffer.next()) {
            self.rcv.fin = true;
            self.due.ack = true;
            self.step(StateEvent::Fin);
            if self.state == State::TimeWait {
                self.start_time_wait(now);
            }
        }
    }

    /// Returns the window field of the next segment, RCV.WND scaled, and records it as offered.
    ///
    /// The right edge moves by at least a full segment or half the buffer, whichever is less (silly-window
    /// avoidance), and never back. The window field may be too coarse for its exact place (RFC 7323, 2.4).
    /// The field is then rounded up if there is room, else down: what was offered still holds.
    pub(super) fn offer_window(&mut self) -> u16 {
        let nxt = self.rcv.nxt();
        let (free, promised) = (self.free(), self.rcv.edge.since(nxt));
        let gain = (nxt + free).since(self.rcv.edge);
        let window = if gain >= self.window_step() { free } else { promised };
        let shift = self.rcv.shift;
        let rounded_up = window.saturating_add((1 << shift) - 1) >> shift;
        let fits = rounded_up << shift <= free.max(promised);
        let field = u16::try_from(if fits { rounded_up } else { window >> shift }).unwrap_or(u16::MAX);
        self.rcv.edge = self.rcv.edge.max(nxt + (u32::from(field) << shift));
        self.tally.note_if(field == 0 && !self.rcv.shut, Counter::ToZeroWindowAdv);
        self.tally.note_if(field > 0 && self.rcv.shut, Counter::FromZeroWindowAdv);
        self.rcv.shut = field == 0;
        field
    }

    /// Returns whether a pure ACK should report that the window has opened: it has at least doubled. More
    /// frequent reports would cost more than they gain.
    pub(super) fn is_window_update_due(&self) -> bool {
        let promised = self.rcv.edge.since(self.rcv.nxt());
        let gain = (self.rcv.nxt() + self.free()).since(self.rcv.edge);
        gain >= self.window_step() && gain >= promised
    }

    fn window_step(&self) -> u32 {
        u32::from(self.rcv.mss).min(self.rcv.limit / 2)
    }

    /// Returns the room in the buffer, in bytes, as far as the window field can express it. Data beyond a
    /// hole lies inside the window.
    fn free(&self) -> u32 {
        let largest = u32::from(u16::MAX) << self.rcv.shift;
        u32::try_from(self.receive_room()).unwrap_or(u32::MAX).min(largest)
    }

    /// Returns RCV.NXT: the next sequence number that is expected.
    #[must_use]
    pub fn rcv_nxt(&self) -> SeqNumber {
        self.rcv.nxt()
    }
}

/// Returns the first `len` bytes.
fn cut([a, b]: [&[u8]; 2], len: usize) -> [&[u8]; 2] {
    [a.get(..len).unwrap_or(a), b.get(..len.saturating_sub(a.len())).unwrap_or(b)]
}
