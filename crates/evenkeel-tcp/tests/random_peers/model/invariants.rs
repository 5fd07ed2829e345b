//! The invariants of a connection at every step, judged from the segments that pass and from the user's
//! calls.
//!
//! The stated times:
//!
//! - While anything is unsent or unacknowledged, the silence before the next SYN, segment with data, FIN or
//!   window probe is at most `Times::silence`, which bounds the retransmission timeout (RFC 6298) and the
//!   pacer, and the longest timeout so far, both twice: a backoff doubles, until a round trip is measured.
//! - The first segment that is not acknowledged is sent again as soon, or the window is probed, whatever else
//!   leaves.
//! - With nothing under way, and a window with room for a segment or for all there is, new data leave at
//!   once; if the connection paces, after `Times::pacing`.
//! - An acknowledgment leaves within the configured delay; at once for what is out of order, repeated or
//!   beyond the window (RFC 5681, 4.2).
//! - Once the reader has read all, the window is at least half of the receive buffer (RFC 9293, 3.8.6.2.2).

use std::collections::VecDeque;

use evenkeel_tcp::connection::Info;
use evenkeel_tcp::time::{Duration, Instant};

use super::peer::Peer;
use super::wire::{ACK, FIN, RST, SYN, Seg, after, byte, earlier, later};

/// The limits on times in a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) silence: Duration,
    /// The longest delay by pacing; `None` if the connection does not pace.
    pub(crate) pacing: Option<Duration>,
    pub(crate) ack_delay: Duration,
}

/// The tolerance for timers.
const SLACK: Duration = Duration::from_millis(2);
/// The first timeout if a SYN was lost, or may have been (RFC 6298, 5.7), with a delay of the peer's.
const AFTER_LOST_SYN: Duration = Duration::from_millis(3_100);
/// A tick of the timestamps' clock. The next constant is how far back a SYN cookie sets it, which has six
/// bits of it.
const CLOCK: Duration = Duration::from_millis(1);
const COOKIE_CLOCK: Duration = Duration::from_millis(64);

#[derive(Debug)]
pub(crate) struct Invariants {
    times: Times,
    /// Whether segments of odd peers may be refused, so that our side's state is known only within bounds.
    odd: bool,
    receive_buffer: u32,
    // What the user has said.
    pub(crate) opened: Option<Instant>,
    pub(crate) written: u64,
    pub(crate) fin: bool,
    pub(crate) read: u64,
    /// Whether the connection has ended, for any reason.
    pub(crate) over: bool,
    // What we have sent.
    iss: Option<u32>,
    max: u32,
    /// The number up to which an acknowledgment measures no round trip, because data was sent twice (Karn's
    /// algorithm).
    sent_twice: u32,
    last_sent: Instant,
    work_since: Option<Instant>,
    /// The longest timeout since a round trip was measured.
    timeout: Duration,
    ready_since: Option<Instant>,
    /// The ends of segments that were sent once, with their times. `longest` is the longest round trip that
    /// they measured.
    under_way: VecDeque<(u32, Instant)>,
    longest: Duration,
    /// Whether the handshake does not measure the round trip.
    late_start: bool,
    /// The time at which the first unacknowledged byte was last sent, or the window was last probed.
    first_sent: Instant,
    /// The value of our timestamp clock when virtual time is zero. `coarse` is the amount by which an echo
    /// may be lower than the timestamp that it echoes.
    epoch: Option<u32>,
    coarse: Duration,
    shift: Option<u8>,
    acked: Option<u32>,
    promised: u32,
    // What has arrived.
    una: u32,
    advanced_at: Instant,
    peer_shift: Option<u8>,
    edge: u32,
    edge_max: u32,
    /// Whether our side may send before it has processed all segments that arrive at one instant.
    pub(crate) sends_between: bool,
    arrived_at: Instant,
    edge_then: u32,
    wl: Option<(u32, u32)>,
    come: Option<u32>,
    beyond: Vec<(u32, u32)>,
    /// The ends of unacknowledged data in order, each with its time of arrival.
    unacked: VecDeque<(u32, Instant)>,
    answer: Option<&'static str>,
    clock: Option<u32>,
    /// The number of the first byte of the peer's stream.
    peer_first: Option<u32>,
    /// The window of the first SYN, which a Fast Open server may use; SYNs may be repeated.
    syn_window: Option<u32>,
    /// Whether our SYN has timestamps.
    clocks: bool,
    /// Whether a segment came that we may or may not have accepted.
    unsure: bool,
}

impl Invariants {
    pub(crate) const fn new(times: Times, cookies: bool, odd: bool, receive_buffer: u32) -> Self {
        Self {
            times,
            odd,
            receive_buffer,
            opened: None,
            written: 0,
            fin: false,
            read: 0,
            over: false,
            iss: None,
            max: 0,
            sent_twice: 0,
            last_sent: Instant::ZERO,
            work_since: None,
            timeout: Duration::ZERO,
            ready_since: None,
            under_way: VecDeque::new(),
            longest: Duration::ZERO,
            late_start: cookies,
            first_sent: Instant::ZERO,
            epoch: None,
            coarse: if cookies { COOKIE_CLOCK } else { CLOCK },
            shift: None,
            acked: None,
            promised: 0,
            una: 0,
            advanced_at: Instant::ZERO,
            peer_shift: None,
            edge: 0,
            edge_max: 0,
            sends_between: false,
            arrived_at: Instant::ZERO,
            edge_then: 0,
            wl: None,
            come: None,
            beyond: Vec::new(),
            unacked: VecDeque::new(),
            answer: None,
            clock: None,
            peer_first: None,
            syn_window: None,
            clocks: false,
            unsure: false,
        }
    }

    /// Returns the number after the last that the user has given us to send.
    fn end(&self) -> u32 {
        let first = self.iss.unwrap_or_default().wrapping_add(1);
        first.wrapping_add(self.written as u32).wrapping_add(u32::from(self.fin))
    }

    fn has_work(&self) -> bool {
        !self.over && self.opened.is_some() && self.iss.is_none_or(|_| after(self.end(), self.una))
    }

    /// Returns the time of the last event that makes us send.
    fn since(&self) -> Instant {
        self.last_sent.max(self.advanced_at).max(self.work_since.unwrap_or(Instant::ZERO))
    }

    /// Returns when the retransmission timer was last started.
    fn timer_since(&self) -> Instant {
        self.first_sent.max(self.advanced_at).max(self.work_since.unwrap_or(Instant::ZERO))
    }

    // --- A segment leaves ---

    pub(crate) fn sent(&mut self, seg: &Seg, peer: &Peer, now: Instant) -> Result<(), String> {
        if seg.has(RST) {
            // A segment after a reset belongs to no connection.
            self.over |= self.acked.is_some() && self.opened.is_some();
            return Ok(());
        }
        if seg.has(SYN) && seg.has(ACK) && peer.irs.is_some_and(|irs| irs != seg.seq) {
            // This answers another SYN, which the peer does not want.
            return Ok(());
        }
        self.find_iss(seg, peer);
        let Some(iss) = self.iss else { return Ok(()) };
        if self.over || !seg.has(SYN) && !seg.has(ACK) {
            return Ok(());
        }
        let first = iss.wrapping_add(1);
        let place = u64::from(seg.text().wrapping_sub(first));
        for (at, sent) in (place..).zip(&seg.payload) {
            if at >= self.written || *sent != byte(true, at) {
                return Err(format!("byte {at} of {} is wrong: {}", self.written, brief(seg)));
            }
        }
        let is_forward = seg.end() != seg.seq || seg.seq == self.una.wrapping_sub(1);
        if is_forward && !seg.has(SYN) && seg.end() != seg.seq {
            let is_new = after(seg.end(), self.max);
            let edge = if is_new && !self.odd { self.edge_at(now) } else { self.edge_max };
            if after(seg.end(), edge) {
                return Err(format!("beyond the window, which ends at {edge}: {}", brief(seg)));
            }
        }
        if is_forward {
            if !after(seg.seq, self.una) {
                // RFC 6298, 5: the timer has been running since then, whatever else has left.
                self.timeout = self.timeout.max(now.since(self.timer_since()));
                self.first_sent = now;
            }
            self.timeout = self.timeout.max(now.since(self.since()));
            self.last_sent = now;
            self.ready_since = None;
        }
        if let Some((value, _)) = seg.clock {
            self.epoch.get_or_insert(value.wrapping_sub(millis(now)));
        }
        if seg.end() != seg.seq {
            if after(self.max, seg.seq) {
                // All data in flight may be acknowledged selectively, so it measures nothing.
                self.sent_twice = self.max;
                self.under_way.clear();
            }
            if after(seg.end(), self.max) {
                self.under_way.push_back((seg.end(), now));
            }
            self.max = later(self.max, seg.end());
        }
        if seg.has(ACK) { self.acknowledges(seg, peer) } else { Ok(()) }
    }

    /// Returns where the window ends for what leaves now.
    fn edge_at(&self, now: Instant) -> u32 {
        if self.sends_between && self.arrived_at == now {
            later(self.edge, self.edge_then)
        } else {
            self.edge
        }
    }

    fn find_iss(&mut self, seg: &Seg, peer: &Peer) {
        if let Some(irs) = peer.irs.filter(|irs| self.iss != Some(*irs)) {
            self.begin(irs);
        } else if seg.has(SYN) && self.iss != Some(seg.seq) && peer.irs.is_none() {
            self.begin(seg.seq);
        }
        if seg.has(SYN) {
            (self.shift, self.clocks) = (seg.scale, seg.clock.is_some());
            self.acked = None;
            self.late_start |= after(self.max, seg.seq);
        }
    }

    fn begin(&mut self, iss: u32) {
        self.iss = Some(iss);
        (self.una, self.max, self.sent_twice) = (iss, iss, iss);
        let edge = iss.wrapping_add(1 + self.syn_window.take().unwrap_or(0));
        (self.edge, self.edge_max) = (edge, edge);
    }

    fn acknowledges(&mut self, seg: &Seg, peer: &Peer) -> Result<(), String> {
        if after(seg.ack, peer.sent_end()) {
            return Err(format!("acknowledges what was never sent: {}", brief(seg)));
        }
        if self.acked.is_some_and(|acked| after(acked, seg.ack)) {
            return Err(format!("acknowledges less than before: {}", brief(seg)));
        }
        let syn = seg.has(SYN);
        let shift = self.shift.filter(|_| self.peer_shift.is_some() && !syn).unwrap_or(0);
        let edge = seg.ack.wrapping_add(u32::from(seg.window) << shift);
        let coarse = (1 << shift) - 1;
        if self.acked.is_some() && after(self.promised, edge.wrapping_add(coarse)) {
            return Err(format!("takes back a window that ended at {}: {}", self.promised, brief(seg)));
        }
        self.promised = if self.acked.is_some() { later(self.promised, edge) } else { edge };
        self.acked = Some(seg.ack);
        (self.answer, self.unsure) = (None, false);
        if let Some(come) = self.come.filter(|come| after(seg.ack, *come)) {
            // The endpoint has accepted what the rules here would let it refuse.
            self.take(later(come, seg.ack));
        }
        while self.unacked.pop_front_if(|(end, _)| !after(*end, seg.ack)).is_some() {}
        Ok(())
    }

    // --- A segment arrives ---

    /// Handles a segment of the peer that is about to be passed to the endpoint.
    pub(crate) fn arrives(&mut self, seg: &Seg, peer: &Peer, now: Instant) {
        if seg.has(SYN) && seg.seq == peer.plan.iss && self.wl.is_none() {
            self.peer_shift = seg.scale;
            let first = seg.seq.wrapping_add(1);
            (self.peer_first, self.come) = (Some(first), self.come.or(Some(first)));
            self.clock = seg.clock.map(|(value, _)| value);
            self.syn_window.get_or_insert(u32::from(seg.window));
        }
        if seg.has(RST) || !seg.has(ACK) {
            return;
        }
        if let Some(irs) = peer.irs.filter(|irs| self.iss != Some(*irs)) {
            self.begin(irs);
        }
        let Some(iss) = self.iss else { return };
        if self.is_old(seg) {
            return;
        }
        if after(seg.ack, self.max) || !after(seg.ack, iss) {
            return;
        }
        let shift = self.peer_shift.filter(|_| self.shift.is_some() && !seg.has(SYN)).unwrap_or(0);
        let edge = seg.ack.wrapping_add(u32::from(seg.window) << shift.min(14));
        self.edge_max = later(self.edge_max, edge);
        self.edge_then = if self.arrived_at == now { later(self.edge_then, self.edge) } else { self.edge };
        self.arrived_at = now;
        let newer = self.wl.is_none_or(|(seq, ack)| {
            after(seg.ack, self.una) || after(seg.seq, seq) || seg.seq == seq && !after(ack, seg.ack)
        });
        if seg.has(SYN) && self.wl.is_some() {
            // The segment is a repetition without information.
        } else if self.opened.is_none() {
            // A listener that has kept no state may begin with any of them.
            self.odd |= self.edge != edge;
            self.edge = edge;
        } else if newer && !after(self.una, seg.ack) {
            (self.edge, self.wl) = (edge, Some((seg.seq, seg.ack)));
        }
        if after(seg.ack, self.una) {
            if seg.clock.is_some() || after(seg.ack, self.sent_twice) {
                self.timeout = Duration::ZERO;
            }
            (self.una, self.advanced_at) = (seg.ack, now);
        } else if self.opened.is_some() {
            return;
        }
        self.measure(seg, now);
    }

    /// Measures a round trip: an acknowledgment may measure the age of the acknowledged segment, or of its
    /// echo (RFC 7323, 4), because earlier acknowledgments may have been lost.
    fn measure(&mut self, seg: &Seg, now: Instant) {
        while let Some((_, at)) = self.under_way.pop_front_if(|(end, _)| !after(*end, seg.ack)) {
            self.longest = self.longest.max(now.since(at));
        }
        if let (Some(epoch), Some((_, echo))) = (self.epoch, seg.clock) {
            let sent_at = Duration::from_millis(echo.wrapping_sub(epoch).into());
            let age = now.since(Instant::ZERO).saturating_sub(sent_at);
            self.longest = self.longest.max(age + self.coarse);
        }
    }

    /// Handles a segment that was passed to the endpoint, whose connection is synchronized: its effects are
    /// due from now on.
    pub(crate) fn arrived(&mut self, seg: &Seg, now: Instant) {
        let Some(come) = self.come else { return };
        if seg.flags & (SYN | RST | ACK) != ACK || self.is_old(seg) || self.over || self.acked.is_none() {
            return;
        }
        if after(self.una, seg.ack) || after(seg.ack, self.max) {
            // Its data may or may not be accepted.
            self.unsure |= after(seg.end(), come);
            return;
        }
        let is_next = after(seg.end(), come) || seg.end() == come && seg.end() == seg.seq;
        // RFC 7323, 4.3
        if self.acked.is_some_and(|acked| !after(seg.seq, acked)) && is_next {
            self.clock = seg.clock.map(|(value, _)| value);
        }
        if seg.payload.is_empty() && (!seg.has(FIN) || !after(seg.end(), come)) {
            // Answers to old segments without data are limited (RFC 5961, 7).
            return;
        }
        let promised = self.promised;
        let start = later(seg.seq, come);
        let text_end = earlier(seg.end(), promised);
        if self.unsure {
            return;
        }
        if after(start, promised) || !after(text_end, come) {
            self.answer = Some("data out of place");
        } else if start == come {
            self.take(text_end);
            self.unacked.push_back((self.come.unwrap_or(text_end), now));
        } else {
            self.answer = Some("data out of order");
            self.beyond.push((start, text_end));
        }
    }

    /// Returns whether PAWS (RFC 7323, 5) requires us to drop the segment.
    fn is_old(&self, seg: &Seg) -> bool {
        self.clock
            .filter(|_| self.clocks)
            .is_some_and(|last| seg.clock.is_none_or(|(value, _)| after(last, value)))
    }

    fn take(&mut self, end: u32) {
        let mut end = end;
        while let Some(at) = self.beyond.iter().position(|(from, to)| !after(*from, end) && after(*to, end)) {
            end = self.beyond.swap_remove(at).1;
        }
        self.beyond.retain(|(_, to)| after(*to, end));
        self.come = Some(end);
    }

    // --- The endpoint has nothing more to do now ---

    /// Checks the state when nothing happens before `next`.
    pub(crate) fn check(&mut self, info: Option<&Info>, now: Instant, next: Instant) -> Result<(), String> {
        if self.over {
            return Ok(());
        }
        self.check_silence(now, next)?;
        if let Some(what) = self.answer.take() {
            return Err(format!("no acknowledgment leaves at once for {what}"));
        }
        if let Some(&(_, at)) = self.unacked.front()
            && next > at + self.times.ack_delay + SLACK
        {
            return Err(format!("data that came at {at:?} are not acknowledged before {next:?}"));
        }
        let Some(info) = info else { return Ok(()) };
        self.check_new_data(info, now, next)?;
        self.check_window()
    }

    fn check_silence(&mut self, now: Instant, next: Instant) -> Result<(), String> {
        if !self.has_work() {
            (self.work_since, self.ready_since) = (None, None);
            return Ok(());
        }
        self.work_since.get_or_insert(now);
        // The bound is twice the timer, which may have begun before the last segment left.
        let first = self.times.silence.max(self.longest * 5).max(if self.late_start {
            AFTER_LOST_SYN
        } else {
            Duration::ZERO
        });
        let longest = first * 2 + self.timeout * 2 + SLACK;
        let (una, end, since) = (self.una, self.end(), self.since());
        if next > since + longest {
            let bytes = end.wrapping_sub(una);
            return Err(format!(
                "nothing leaves before {next:?}, though {bytes} bytes wait since {since:?} (una {una})"
            ));
        }
        let since = self.timer_since();
        if una != self.max && next > since + longest {
            return Err(format!("{una} does not leave again before {next:?}, and has not since {since:?}"));
        }
        Ok(())
    }

    fn check_new_data(&mut self, info: &Info, now: Instant, next: Instant) -> Result<(), String> {
        let nothing_under_way = self.una == self.max && info.send_queue == info.unsent as usize;
        let unsent = u32::try_from(info.send_queue).unwrap_or(u32::MAX);
        let window = if after(self.edge, self.max) { self.edge.wrapping_sub(self.max) } else { 0 };
        let window = if self.odd { window.min(info.send_window) } else { window };
        let may_leave = info.state.is_synchronized()
            && nothing_under_way
            && unsent > 0
            && window >= unsent.min(u32::from(info.mss));
        if !may_leave {
            self.ready_since = None;
            return Ok(());
        }
        let since = *self.ready_since.get_or_insert(now);
        let due = self.times.pacing.map_or(since, |pacing| since + pacing.max(self.longest) + SLACK);
        if next > due {
            return Err(format!("{unsent} bytes may leave since {since:?}, and do not before {next:?}"));
        }
        Ok(())
    }

    fn check_window(&self) -> Result<(), String> {
        let (Some(come), Some(acked)) = (self.come, self.acked) else { return Ok(()) };
        let all_read = self.unacked.is_empty() && acked == come && self.beyond.is_empty();
        let shift = self.shift.filter(|_| self.peer_shift.is_some()).unwrap_or(0);
        let largest = self.receive_buffer.min(65_535 << shift);
        let window = self.promised.wrapping_sub(acked);
        if all_read && self.read_all(come) && window + (1 << shift) < largest / 2 {
            return Err(format!("all is read, and the window is {window} of {largest}"));
        }
        Ok(())
    }

    /// Returns whether the user has read up to `come`. The peer's FIN may be part of what arrived.
    fn read_all(&self, come: u32) -> bool {
        self.peer_first.is_some_and(|first| {
            let text = u64::from(come.wrapping_sub(first));
            self.read == text
        })
    }
}

const fn millis(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

fn brief(seg: &Seg) -> String {
    let Seg { seq, ack, flags, window, .. } = seg;
    format!("flags {flags:#x}, {seq}:{} ({}), ack {ack}, win {window}", seg.end(), seg.payload.len())
}
