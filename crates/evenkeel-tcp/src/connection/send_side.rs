//! The send sequence variables (RFC 9293, 3.3.1), the peer's window, and the data to be sent.

use super::super::buffer::SendBuffer;
use super::super::segment::Header;
use super::super::seq::{SeqNumber, SeqRange};
use super::config::Config;
use super::memory::Allowance;

/// The sending direction of a connection.
#[derive(Debug)]
pub(super) struct SendSide {
    pub(super) una: SeqNumber,
    pub(super) nxt: SeqNumber,
    /// SND.WND in bytes, after scaling.
    pub(super) wnd: u32,
    wl1: SeqNumber,
    wl2: SeqNumber,
    /// The largest window that the peer ever offered. It limits the age of an acceptable ACK (RFC 5961,
    /// 5.2), and stands for the size of the peer's buffer (RFC 9293, 3.8.6.2.1).
    pub(super) wnd_max: u32,
    /// Snd.Wind.Shift: the scale of the peer's window.
    pub(super) shift: u8,
    /// Whether the user has nothing more to send: a FIN follows the last byte of the buffer.
    pub(super) fin: bool,
    pub(super) buffer: SendBuffer,
}

/// A candidate for the next segment with new data.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) range: SeqRange,
    /// The bytes never sent, from which the candidate is taken.
    pub(super) queued: u32,
    /// The bytes that a segment has room for.
    pub(super) full: u32,
}

impl SendSide {
    pub(super) fn new(iss: SeqNumber) -> Self {
        Self {
            una: iss,
            nxt: iss,
            wnd: 0,
            wl1: SeqNumber::default(),
            wl2: SeqNumber::default(),
            wnd_max: 0,
            shift: 0,
            fin: false,
            buffer: SendBuffer::new(iss + 1),
        }
    }

    /// Records the window of the peer's SYN, whose sequence number is `irs`; `iss` is that of ours.
    pub(super) fn on_first_window(&mut self, window: u16, irs: SeqNumber, iss: SeqNumber) {
        self.wnd = u32::from(window);
        self.wnd_max = self.wnd;
        self.wl1 = irs;
        self.wl2 = iss;
    }

    /// Updates the peer's window from a segment that is not older than the last update ("This is to
    /// prevent using old segments to update the window").
    ///
    /// A segment that acknowledges new data is not old, though its bytes may be sent again. If its window
    /// did not count, the earlier window would apply from the new SND.UNA on, and reach further than the
    /// peer ever offered.
    #[inline]
    pub(super) fn on_window(&mut self, header: &Header) {
        let newer = self.una.before(header.ack)
            || self.wl1.before(header.seq)
            || self.wl1 == header.seq && self.wl2.at_or_before(header.ack);
        if newer {
            self.wnd = u32::from(header.window) << self.shift;
            self.wnd_max = self.wnd_max.max(self.wnd);
            self.wl1 = header.seq;
            self.wl2 = header.ack;
        }
    }

    /// Takes `ack` as the new SND.UNA, and frees the data before it. Returns the number of its bytes.
    #[inline]
    pub(super) fn on_ack(&mut self, ack: SeqNumber) -> u64 {
        self.una = ack;
        let before = self.buffer.len();
        self.buffer.acknowledge(ack);
        (before - self.buffer.len()) as u64
    }

    /// Returns the sequence number after the last that there is to send, FIN included.
    pub(super) fn end(&self) -> SeqNumber {
        self.buffer.end() + u32::from(self.fin)
    }

    /// Returns the bytes that were never sent, the FIN counted as one.
    pub(super) fn unsent(&self) -> u32 {
        self.end().since(self.nxt)
    }

    /// Returns whether data that was never sent finds room in the peer's window.
    pub(super) fn may_send_new(&self) -> bool {
        self.unsent() > 0 && self.usable() > 0
    }

    /// Returns the right edge of the peer's window: SND.UNA + SND.WND. It may be before SND.NXT.
    pub(super) const fn edge(&self) -> SeqNumber {
        SeqRange::at(self.una, self.wnd).end
    }

    /// Returns the usable window: SND.UNA + SND.WND - SND.NXT.
    const fn usable(&self) -> u32 {
        SeqRange::new(self.nxt, self.edge()).len()
    }

    /// Returns as much new data as the peer's window and one segment, which takes `full` bytes, have room
    /// for. The FIN follows if it is next and `may_fin` holds.
    #[inline]
    pub(super) fn candidate(&self, full: u32, may_fin: bool) -> Option<Candidate> {
        let (queued, usable) = (self.buffer.end().since(self.nxt), self.usable());
        let bytes = queued.min(usable).min(full);
        let fin = self.fin && bytes == queued && usable > bytes && self.unsent() > 0 && may_fin;
        let range = SeqRange::at(self.nxt, bytes + u32::from(fin));
        (!range.is_empty()).then_some(Candidate { range, queued, full })
    }

    /// Returns whether our FIN is acknowledged.
    pub(super) fn fin_acked(&self) -> bool {
        self.fin && self.una.after(self.buffer.end())
    }

    /// Returns whether a segment that began at `seq` is under way.
    pub(super) fn is_under_way(&self, seq: SeqNumber) -> bool {
        seq.at_or_after(self.una) && seq.before(self.nxt)
    }

    /// Returns the bytes that the send buffer may hold: two congestion windows, one in the network and one
    /// waiting, within the configured limits.
    pub(super) fn limit(&self, config: &Config, cwnd: u32, allowance: Allowance) -> usize {
        let cwnd = if allowance.pressed { 0 } else { cwnd as usize };
        let (initial, max) = (config.send_buffer_initial, config.send_buffer_max);
        cwnd.saturating_mul(2).clamp(initial.min(max), max)
    }

    /// Returns the bytes that the user may write now, into a buffer of `limit` bytes. With nothing to send,
    /// one segment of `mss` bytes has room however scarce memory is.
    pub(super) fn room(&self, limit: usize, mss: u16, allowance: Allowance) -> usize {
        let waiting = self.buffer.len();
        let least = if waiting == 0 { usize::from(mss) } else { 0 };
        limit.saturating_sub(waiting).min((allowance.left as usize).max(least))
    }
}
