//! The choice of the next segment to send (RFC 9293, 3.8).
//!
//! The order is: a reset; a SYN; a tail loss probe; lost data; new data; a probe of the window, or of the
//! peer; an acknowledgment, unless one of the others brought it.
//!
//! New data may leave as one large segment, which the device cuts into those that would have left one after
//! the other. Everything else here, and the record of what was sent, goes by the latter.

use core::num::NonZeroU16;

use super::super::counters::Counter;
use super::super::options::Options;
use super::super::recovery::RecoveryState;
use super::super::segment::{Ecn, Flags, Header, Segment};
use super::super::seq::{SeqNumber, SeqRange};
use super::super::state::State;
use super::header::HeaderOf;
use super::send_side::Candidate;
use super::tcb::Tcb;
use crate::time::Instant;

/// An outgoing segment, and whether it only repeats an earlier one.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// The segment.
    pub segment: Segment<'a>,
    /// Whether the segment only repeats an earlier one (RFC 4022: it is not among `tcpOutSegs`).
    pub again: bool,
    /// Bytes of payload of each of the segments that the device is to cut it into; `None` if it is one.
    pub cut: Option<NonZeroU16>,
}

impl Outgoing<'_> {
    /// Returns the number of segments that it is on the wire.
    pub(crate) fn segments(&self) -> u32 {
        let len = self.segment.payload_len() as u32;
        self.cut.map_or(1, |size| len.div_ceil(size.get().into()))
    }
}

/// The next segment to send, other than a SYN or a reset.
struct Next {
    seq: SeqNumber,
    flags: Flags,
    /// The range of the send buffer that is the segment's payload.
    payload: SeqRange,
    ecn: Ecn,
    /// Whether the payload was sent before.
    again: bool,
    /// Bytes of payload of each segment, if the device is to cut it.
    cut: Option<NonZeroU16>,
}

impl Next {
    /// Returns a segment without payload that was not sent before.
    fn bare(seq: SeqNumber) -> Self {
        let payload = SeqRange::default();
        Self { seq, flags: Flags::NONE, payload, ecn: Ecn::NotCapable, again: false, cut: None }
    }
}

/// An opportunity of a connection to send a segment.
pub(super) struct Transmission<'c> {
    tcb: &'c mut Tcb,
    /// The largest payload that the device cuts into segments, in bytes; zero if it cuts none.
    most: u32,
    now: Instant,
}

impl<'c> Transmission<'c> {
    #[inline(always)]
    pub(super) const fn new(tcb: &'c mut Tcb, most: u32, now: Instant) -> Self {
        Self { tcb, most, now }
    }

    /// Returns the next segment to send, if there is one, and counts it as sent. If there is none, frees
    /// the memory of empty buffers.
    #[inline(always)]
    pub(super) fn poll(mut self) -> Option<Outgoing<'c>> {
        if !self.tcb.may_transmit() {
            self.after_last();
            return None;
        }
        // Only while opening: later SND.UNA comes round to ISS, after 4 GiB.
        let opening = matches!(self.tcb.state, State::SynSent | State::SynReceived);
        if opening || self.tcb.reset.is_some() {
            if let Some((header, payload, again)) = self.reset_or_syn() {
                return Some(self.count(header, payload, again, None));
            }
        }
        let Some(Next { seq, flags, payload, ecn, again, cut }) = self.next_segment() else {
            self.after_last();
            return None;
        };
        let header = Header { ecn, ..HeaderOf::new(self.tcb, self.now).segment(seq, flags) };
        Some(self.count(header, payload, again, cut))
    }

    #[inline(always)]
    fn count(self, header: Header, payload: SeqRange, again: bool, cut: Option<NonZeroU16>) -> Outgoing<'c> {
        let Self { tcb, .. } = self;
        let segment = Segment { header, payload: tcb.snd.buffer.get(payload) };
        let outgoing = Outgoing { segment, again, cut };
        tcb.counts.segments_out += u64::from(outgoing.segments());
        tcb.counts.bytes_out += segment.payload_len() as u64;
        outgoing
    }

    /// Ends a train of segments, unless the next waits for the pacer, when nothing leaves now. Frees the
    /// memory of empty buffers.
    #[inline]
    fn after_last(&mut self) {
        if !self.tcb.timers.pace.is_running() {
            self.tcb.recovery.end_train();
        }
        if self.tcb.recovery.measures() {
            self.record_limit();
        }
        self.tcb.release_idle_memory();
    }

    /// Records that the path does not limit the connection, if that is so: less than a segment is unsent
    /// (draft-ietf-ccwg-bbr, 4.1.2.4), or the unsent data waits for neither the congestion window nor the
    /// pacer. Then Nagle's algorithm, a small window of the peer's, or the user is the limit.
    ///
    /// The path may be full though the peer's window is the limit. So samples count for the path if more
    /// than half of the congestion window is in flight, which is twice what the path holds.
    #[cold]
    fn record_limit(&mut self) {
        let recovery = &self.tcb.recovery;
        let payload_max = self.tcb.path.payload_max(&self.tcb.negotiated);
        let deferred =
            || recovery.may_send(payload_max.into()) && recovery.in_flight() <= recovery.cwnd() / 2;
        if !self.tcb.timers.pace.is_running() && (self.has_little_to_send() || deferred()) {
            self.tcb.recovery.on_nothing_to_send();
        }
    }

    /// Records that the path does not limit the connection, if the segment that has just left was the
    /// last.
    #[cold]
    fn record_last(&mut self) {
        if self.has_little_to_send() {
            self.tcb.recovery.on_nothing_to_send();
        }
    }

    fn has_little_to_send(&self) -> bool {
        let payload_max = self.tcb.path.payload_max(&self.tcb.negotiated);
        self.tcb.snd.unsent() < payload_max.into() && !self.tcb.recovery.has_lost()
    }

    /// Returns the header of a reset, SYN or SYN-ACK that is due, the range of its payload, and whether it
    /// was sent before.
    #[cold]
    fn reset_or_syn(&mut self) -> Option<(Header, SeqRange, bool)> {
        let Some(reset) = self.tcb.reset.take() else { return self.syn() };
        Some((HeaderOf::new(self.tcb, self.now).reset(reset), SeqRange::default(), false))
    }

    /// Returns the header of a SYN or SYN-ACK that is due or lost, the range of its payload, and whether
    /// it was sent before.
    fn syn(&mut self) -> Option<(Header, SeqRange, bool)> {
        let iss = self.tcb.handshake.iss;
        let first = self.tcb.snd.nxt == iss;
        let lost = || self.tcb.recovery.next_retransmission(1).is_some_and(|range| range.start == iss);
        let due = self.tcb.syn_due || !first && lost();
        self.tcb.syn_due = false;
        if !due {
            return None;
        }
        let header = HeaderOf::new(self.tcb, self.now).syn(first);
        let tcb = &mut *self.tcb;
        tcb.counted.add_if(!first, Counter::SynRetrans);
        tcb.counted.add_if(!first, Counter::RetransSegs);
        let syn = SeqRange::at(iss, 1);
        tcb.recovery.on_sent(syn, !first, self.now);
        tcb.snd.nxt = tcb.snd.nxt.max(syn.end);
        let mut data = 0;
        if let Some(fast_open) = &mut tcb.handshake.fast_open {
            fast_open.again = !first;
            if first && tcb.state == State::SynSent {
                let (mss, options) = (tcb.path.mss(), header.options.len());
                data = fast_open.on_syn(mss, options, tcb.snd.buffer.len(), self.now);
            }
        }
        Some((header, SeqRange::at(syn.end, data), !first))
    }

    #[inline]
    fn next_segment(&mut self) -> Option<Next> {
        match self.tcb.state {
            State::Closed | State::Listen | State::SynSent => None,
            State::TimeWait => self.acknowledgment(),
            _ => self
                .repair()
                .or_else(|| self.new_data())
                .or_else(|| self.repair_after_all())
                .or_else(|| self.probe())
                .or_else(|| self.acknowledgment()),
        }
    }

    /// Returns a tail loss probe or a retransmission, if either is due and may leave.
    #[inline]
    fn repair(&mut self) -> Option<Next> {
        if !self.tcb.retransmission.is_probe_due() && !self.tcb.recovery.has_lost() {
            return None;
        }
        self.tail_loss_probe().or_else(|| self.retransmission())
    }

    /// Returns a retransmission if F-RTO waits for new data to find out whether a timeout was spurious
    /// (RFC 5682, 3.1, step 2a), and no new data may leave.
    #[inline]
    fn repair_after_all(&mut self) -> Option<Next> {
        let waits = self.tcb.recovery.has_lost() && !self.tcb.timers.pace.is_running();
        if waits && self.tcb.recovery.give_up_new_data() { self.retransmission() } else { None }
    }

    /// Returns a window probe or a keep-alive probe, if either is due.
    #[inline]
    fn probe(&mut self) -> Option<Next> {
        if !self.tcb.timers.persist.is_due() && !self.tcb.timers.keepalive.is_due() {
            return None;
        }
        self.window_probe().or_else(|| self.keepalive_probe())
    }

    /// Returns a tail loss probe, if one is due: new data if the window has room, else the last segment
    /// again (RFC 8985, 7.3).
    #[cold]
    fn tail_loss_probe(&mut self) -> Option<Next> {
        if !self.tcb.retransmission.take_probe() {
            return None;
        }
        self.tcb.counted.add(Counter::LossProbes);
        if let Some(new) = self.candidate() {
            return self.data(new.range, false);
        }
        let (room, edge) = (self.room() as u16, self.tcb.snd.edge());
        let Some(range) = self.tcb.recovery.probe_range(room, edge) else {
            self.tcb.recovery.skip_probe();
            return None;
        };
        self.data(range, true)
    }

    #[cold]
    fn retransmission(&mut self) -> Option<Next> {
        let limit = (self.room() as u16, self.tcb.snd.edge());
        let Tcb { timers, recovery, retransmission, .. } = &mut *self.tcb;
        let range = retransmission.next(recovery, &mut timers.pace, limit, self.now)?;
        let after_timeout = recovery.state() == RecoveryState::Loss;
        self.tcb.counted.add(if after_timeout { Counter::SlowStartRetrans } else { Counter::FastRetrans });
        self.data(range, true)
    }

    #[inline]
    fn new_data(&mut self) -> Option<Next> {
        let tcb = &mut *self.tcb;
        if tcb.snd.unsent() == 0 || is_opening(tcb.state) && tcb.handshake.fast_open.is_none() {
            return None;
        }
        tcb.path.widen(&tcb.negotiated, &mut tcb.recovery, self.now);
        let Some(new) = self.candidate().filter(|new| self.tcb.nagle.lets_pass(new, &self.tcb.snd)) else {
            self.start_persist();
            return None;
        };
        let Tcb { timers, recovery, snd, .. } = &mut *self.tcb;
        let bytes = new.range.len() - u32::from(new.range.end.after(snd.buffer.end()));
        // A FIN alone is too small to cause congestion, and it lets the peer free its resources.
        if bytes > 0 && (!recovery.may_send(bytes) || timers.pace.delays(recovery, self.now)) {
            return None;
        }
        let next = self.data(new.range, false)?;
        Some(if self.most > next.payload.len() { self.with_followers(next) } else { next })
    }

    /// Returns a full segment of new data together with those that may leave right after it, as one large
    /// segment for the device to cut. Each of them passes the same rules, and is recorded by itself.
    #[cold]
    fn with_followers(&mut self, first: Next) -> Next {
        let size = first.payload.len();
        let cut = u16::try_from(size).ok().and_then(NonZeroU16::new);
        // Only the last one may be shorter, have a FIN, or differ in any other way. A DSACK is for one alone:
        // each says that something came once more.
        let differs = first.flags.intersects(Flags::FIN | Flags::CWR) || self.tcb.rcv.dsack.is_some();
        let is_first = size == self.room() && !differs;
        let mut all = first;
        let mut is_full = is_first && cut.is_some();
        while is_full {
            let Some(more) = self.follower(self.most - all.payload.len()) else { break };
            is_full = more.payload.len() == size;
            all.payload = SeqRange::new(all.payload.start, more.payload.end);
            all.flags = all.flags | more.flags;
            all.cut = cut;
        }
        all
    }

    /// Returns the segment with new data that may leave next, if it has no more than `most` bytes.
    fn follower(&mut self, most: u32) -> Option<Next> {
        let new = self.candidate().filter(|new| self.tcb.nagle.lets_pass(new, &self.tcb.snd))?;
        let Tcb { timers, recovery, snd, .. } = &mut *self.tcb;
        let bytes = new.range.len() - u32::from(new.range.end.after(snd.buffer.end()));
        let fits = 0 < bytes && bytes <= most;
        if !fits || !recovery.may_send(bytes) || timers.pace.delays(recovery, self.now) {
            return None;
        }
        self.data(new.range, false)
    }

    /// Returns as much new data as the peer's window and one segment have room for, and the FIN if it is
    /// next.
    #[inline]
    fn candidate(&self) -> Option<Candidate> {
        self.tcb.snd.candidate(self.room(), !is_opening(self.tcb.state))
    }

    /// Returns the bytes of payload that the next segment has room for after its options.
    #[inline]
    fn room(&self) -> u32 {
        let Tcb { negotiated, rcv, path, .. } = &*self.tcb;
        if !negotiated.sack() || !rcv.has_sack_report() {
            return path.payload_max(negotiated).into();
        }
        let timestamps = negotiated.timestamps_option(self.now);
        let options = Options { timestamps, sack: rcv.sack_blocks(), ..Options::default() };
        u32::from(path.mss()).saturating_sub(options.len() as u32)
    }

    /// Returns a segment with the bytes, and perhaps the FIN, of `range`, and records it as sent.
    #[inline]
    fn data(&mut self, range: SeqRange, again: bool) -> Option<Next> {
        let end = self.tcb.snd.buffer.end();
        let bytes = range.intersection(SeqRange::new(range.start, end));
        let mut flags = Flags::NONE;
        if range.end.after(end) {
            flags = flags | Flags::FIN;
        }
        if bytes.end == end && !bytes.is_empty() {
            flags = flags | Flags::PSH;
        }
        let is_new = !again && !bytes.is_empty();
        let is_small = is_new && bytes.len() < self.room();
        let tcb = &mut *self.tcb;
        if is_new {
            flags = flags | tcb.ecn.take_reduction();
        }
        if is_small {
            tcb.nagle.on_small(range.end);
        }
        if tcb.recovery.is_empty() {
            tcb.timers.user_timeout.restart(self.now);
        }
        tcb.timers.persist.stop();
        tcb.counted.add_if(again, Counter::RetransSegs);
        tcb.recovery.on_sent(range, again, self.now);
        tcb.snd.nxt = tcb.snd.nxt.max(range.end);
        let ecn = if is_new { tcb.ecn.codepoint() } else { Ecn::NotCapable };
        if tcb.recovery.measures() {
            self.record_last();
        }
        Some(Next { seq: range.start, flags, payload: bytes, ecn, again, cut: None })
    }

    /// Starts the persist timer: data waits for a window that is too small, and nothing is on its way
    /// whose acknowledgment could open it. Does nothing if the timer runs.
    fn start_persist(&mut self) {
        let Tcb { timers, recovery, config, .. } = &mut *self.tcb;
        if !recovery.is_empty() || timers.persist.is_running() {
            return;
        }
        if timers.persist.backoff() == 0 {
            timers.user_timeout.restart(self.now);
        }
        timers.persist.start(recovery.rto(), config.recovery.rto.max, self.now);
    }

    /// Returns a window probe, if one is due: as much data as the window has room for, else a segment that
    /// asks for the window (RFC 9293, 3.8.6.1).
    ///
    /// The latter has the sequence number before SND.UNA and no data. It is never acceptable and so always
    /// answered, and there is no byte to remember as sent.
    #[cold]
    fn window_probe(&mut self) -> Option<Next> {
        let waits = self.tcb.snd.unsent() > 0 || !self.tcb.recovery.is_empty();
        if !self.tcb.timers.persist.take_due() || !waits {
            return None;
        }
        self.tcb.counted.add(Counter::WinProbe);
        let backoff = self.tcb.timers.persist.backoff();
        let next = match self.candidate() {
            Some(new) => self.data(new.range, false)?,
            None => Next::bare(self.tcb.snd.una - 1),
        };
        self.tcb.timers.persist.resume(backoff);
        self.start_persist();
        Some(next)
    }

    /// Returns a keep-alive probe, if one is due: SEG.SEQ = SND.NXT-1, without data (RFC 9293, 3.8.4).
    fn keepalive_probe(&mut self) -> Option<Next> {
        if !self.tcb.timers.keepalive.take_due() {
            return None;
        }
        self.tcb.counted.add(Counter::KeepAlive);
        Some(Next::bare(self.tcb.snd.nxt - 1))
    }

    #[inline]
    fn acknowledgment(&self) -> Option<Next> {
        self.tcb.timers.delayed_ack.is_due().then(|| Next::bare(self.tcb.snd.nxt))
    }
}

/// Returns whether our SYN is not acknowledged yet, and the peer's has come.
const fn is_opening(state: State) -> bool {
    matches!(state, State::SynReceived)
}
