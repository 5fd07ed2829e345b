//! The receive sequence variables (RFC 9293, 3.3.1), the window to offer (3.8.6.2.2), and the received data.

use super::super::buffer::{Insertion, ReceiveBuffer};
use super::super::counters::{Counter, CounterSet};
use super::super::options::SackBlocks;
use super::super::segment::Segment;
use super::super::seq::{SeqNumber, SeqRange};
use super::config::Config;
use super::memory::Allowance;
use super::right_sizing::RightSizing;
use crate::time::Instant;

/// The receiving direction of a connection.
#[derive(Debug)]
pub(super) struct ReceiveSide {
    pub(super) buffer: ReceiveBuffer,
    /// The sequence number of the peer's FIN, once it has come.
    pub(super) fin_at: Option<SeqNumber>,
    /// Whether the FIN and all data before it have come.
    pub(super) fin: bool,
    /// The right edge of the window, RCV.NXT + RCV.WND: the furthest that was ever offered.
    pub(super) edge: SeqNumber,
    /// Rcv.Wind.Shift: the scale of our window.
    pub(super) shift: u8,
    /// Whether our last segment offered the peer no window.
    shut: bool,
    pub(super) sizing: RightSizing,
    /// The value of our MSS option, in bytes.
    pub(super) mss: u16,
    /// A range that came twice, to be reported once (RFC 2883).
    pub(super) dsack: Option<SeqRange>,
    /// Whether the user has closed the connection.
    pub(super) closed: bool,
    /// Whether the user has closed the receiving direction.
    pub(super) shut_down: bool,
}

impl ReceiveSide {
    pub(super) fn new(config: &Config, mss: u16, now: Instant) -> Self {
        Self {
            buffer: ReceiveBuffer::default(),
            fin_at: None,
            fin: false,
            edge: SeqNumber::default(),
            shift: config.window_shift(),
            shut: false,
            sizing: RightSizing::new(Config::bytes(config.receive_buffer_initial), now),
            mss,
            dsack: None,
            closed: false,
            shut_down: false,
        }
    }

    /// Prepares to receive: the peer's SYN has the sequence number `irs`, and ours offered `window`.
    pub(super) fn start(&mut self, irs: SeqNumber, window: u16) {
        self.buffer = ReceiveBuffer::new(irs + 1);
        self.edge = irs + 1 + u32::from(window);
    }

    /// Returns RCV.NXT: the next sequence number that is expected, after the FIN if it has come.
    #[inline]
    pub(super) fn nxt(&self) -> SeqNumber {
        self.buffer.next() + u32::from(self.fin)
    }

    /// Returns RCV.WND: the window that was offered and is not used yet.
    pub(super) fn window(&self) -> u32 {
        self.edge.since(self.nxt())
    }

    /// Returns whether a segment touches the window: the first check of RFC 9293, 3.10.7.4.
    ///
    /// The check is more lenient in two cases, as in other implementations. A peer that has filled the
    /// window acknowledges with the number at its right edge. And a segment that comes while the window is
    /// closed may have an acknowledgment; its text is cut off later.
    pub(super) fn is_acceptable(&self, segment: &Segment<'_>) -> bool {
        let (range, nxt) = (segment.range(), self.nxt());
        let begins_in_time = range.start.at_or_before(self.edge);
        begins_in_time && if range.is_empty() { range.start.at_or_after(nxt) } else { range.end.after(nxt) }
    }

    /// Returns whether all of an in-order payload of `len` bytes can be appended: it lies in the window,
    /// there is memory for it, the user still reads, and no data waits out of order.
    #[inline]
    pub(super) fn takes_all(&self, len: usize, allowance: Allowance) -> bool {
        let room = self.edge.since(self.buffer.next()) as usize;
        let memory = self.buffer.readable() == 0 || len <= allowance.left as usize;
        let gone = self.closed || self.shut_down || self.fin_at.is_some();
        len <= room && memory && !gone && !self.buffer.has_holes()
    }

    /// Returns the part of a segment's text, at `range`, that lies in the window and that there is memory
    /// for: all of it from its beginning on, or an empty range if memory is too scarce.
    pub(super) fn admit(&self, range: SeqRange, allowance: Allowance, counted: &mut CounterSet) -> SeqRange {
        let end = self.fin_at.map_or(self.edge, |fin| fin.min(self.edge));
        let payload = range.intersection(SeqRange::new(range.start, end));
        let nxt = self.nxt();
        let refused = if payload.start.after(nxt) {
            allowance.pressed || payload.len() > allowance.left
        } else {
            let new = payload.end.max(nxt).since(nxt);
            self.buffer.readable() > 0 && new > allowance.left
        };
        counted.add_if(refused && payload.start.after(nxt), Counter::OfoDrop);
        if refused { SeqRange::at(payload.start, 0) } else { payload }
    }

    /// Adds text that was [admitted](Self::admit). If the user has closed the receiving direction, discards
    /// it.
    pub(super) fn insert(&mut self, fits: SeqRange, payload: [&[u8]; 2]) -> Insertion {
        let insertion = self.buffer.insert(fits.start, cut(payload, fits.len() as usize));
        self.dsack = insertion.duplicate.or(self.dsack);
        if self.shut_down {
            self.buffer.discard();
        }
        insertion
    }

    /// Records that a segment came again that began at `start` and had text up to `end`.
    pub(super) fn on_duplicate(&mut self, start: SeqNumber, end: SeqNumber) {
        // An old segment may reach beyond the data that has come.
        self.dsack = Some(SeqRange::new(start, end.min(self.nxt())));
    }

    /// Records the FIN at `fin`. It needs room in the window like a byte, and data beyond a FIN is not from
    /// this connection.
    pub(super) fn on_fin(&mut self, fin: SeqNumber) {
        if fin.before(self.edge) && fin.at_or_after(self.nxt()) {
            self.fin_at.get_or_insert(fin);
        }
    }

    /// Returns whether the FIN and all data before it have come, and takes it if so.
    pub(super) fn take_fin(&mut self) -> bool {
        let complete = self.fin_at == Some(self.buffer.next());
        self.fin |= complete;
        complete
    }

    /// Discards data that has come out of order.
    pub(super) fn renege(&mut self, counted: &mut CounterSet) {
        counted.add_if(self.buffer.has_holes(), Counter::OfoPruned);
        self.buffer.renege();
        self.dsack = None;
    }

    /// Returns whether there is something to report in SACK blocks.
    #[inline]
    pub(super) fn has_sack_report(&self) -> bool {
        self.dsack.is_some() || self.buffer.has_holes()
    }

    /// Returns the SACK blocks of RFC 2018, 4. A range received twice, and the block that contains it,
    /// come first (RFC 2883, 4).
    #[cold]
    pub(super) fn sack_blocks(&self) -> SackBlocks {
        let Some(duplicate) = self.dsack else { return self.buffer.sack() };
        let around = self.buffer.held_around(duplicate);
        let recent = self.buffer.sack();
        let others = recent.as_slice().iter().copied().filter(|block| Some(*block) != around);
        core::iter::once(duplicate).chain(around).chain(others).collect()
    }

    /// Returns the window field of the next segment, RCV.WND scaled, and records it as offered.
    ///
    /// The right edge moves by at least a full segment or half the buffer, whichever is less (silly-window
    /// avoidance), and never back. The window field may be too coarse for its exact place (RFC 7323, 2.4).
    /// The field is then rounded up if there is room, else down: what was offered still holds.
    pub(super) fn offer_window(&mut self, allowance: Allowance, counted: &mut CounterSet) -> u16 {
        let nxt = self.nxt();
        let (free, promised) = (self.free(allowance), self.edge.since(nxt));
        let gain = (nxt + free).since(self.edge);
        let window = if gain >= self.window_step() { free } else { promised };
        let shift = self.shift;
        let rounded_up = window.saturating_add((1 << shift) - 1) >> shift;
        let fits = rounded_up << shift <= free.max(promised);
        let field = u16::try_from(if fits { rounded_up } else { window >> shift }).unwrap_or(u16::MAX);
        self.edge = self.edge.max(nxt + (u32::from(field) << shift));
        counted.add_if(field == 0 && !self.shut, Counter::ToZeroWindowAdv);
        counted.add_if(field > 0 && self.shut, Counter::FromZeroWindowAdv);
        self.shut = field == 0;
        field
    }

    /// Returns whether a pure ACK should report that the window has opened: it has at least doubled. More
    /// frequent reports would cost more than they gain.
    pub(super) fn is_window_update_due(&self, allowance: Allowance) -> bool {
        let promised = self.window();
        let gain = (self.nxt() + self.free(allowance)).since(self.edge);
        gain >= self.window_step() && gain >= promised
    }

    fn window_step(&self) -> u32 {
        u32::from(self.mss).min(self.sizing.limit / 2)
    }

    /// Returns the room in the buffer, in bytes, as far as the window field can express it. Data beyond a
    /// hole lies inside the window.
    fn free(&self, allowance: Allowance) -> u32 {
        let largest = u32::from(u16::MAX) << self.shift;
        u32::try_from(self.room(allowance)).unwrap_or(u32::MAX).min(largest)
    }

    /// Returns the bytes of payload that there is memory for.
    pub(super) fn room(&self, allowance: Allowance) -> usize {
        let waiting = self.buffer.readable();
        let least = if waiting == 0 { usize::from(self.mss) } else { 0 };
        (self.sizing.limit as usize).saturating_sub(waiting).min((allowance.left as usize).max(least))
    }
}

/// Returns the first `len` bytes.
fn cut([a, b]: [&[u8]; 2], len: usize) -> [&[u8]; 2] {
    [a.get(..len).unwrap_or(a), b.get(..len.saturating_sub(a.len())).unwrap_or(b)]
}
