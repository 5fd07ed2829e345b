//! Outgoing segments, and the end of connections that have sent their last.

use core::num::{NonZeroU8, NonZeroU16};

use super::super::connection::Outgoing;
use super::super::counters::Counter;
use super::super::segment::{Ecn, Flags, Segment};
use super::super::table::Id;
use super::super::time_wait::Remains;
use super::super::tuple::FourTuple;
use super::answers::Answer;
use super::egress::{Egress, Routes};
use super::entry::{Entry, Holder};
use super::state::EndpointState;
use crate::time::Instant;

/// A written segment, for IP to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit<R = ()> {
    /// The addresses and ports: the segment goes from `local` to `remote`.
    pub tuple: FourTuple,
    /// The number of bytes written, from the TCP header on.
    pub len: usize,
    /// The Differentiated Services codepoint for the IP header, six bits.
    pub dscp: u8,
    /// The TTL or hop limit for the IP header; `None` for that of the host.
    pub hop_limit: Option<NonZeroU8>,
    /// The ECN field for the IP header.
    pub ecn: Ecn,
    /// The route of its connection; `None` if a listener, TIME-WAIT or no connection answers.
    pub route: Option<R>,
    /// Bytes of payload of each of the segments that the interface is to cut it into, whose checksum is
    /// unfinished then: it is the sum of the pseudo-header. `None` for a segment as it is on the wire.
    pub cut: Option<NonZeroU16>,
}

/// The longest header of a segment, in bytes.
const HEADER_MAX: usize = 60;

/// The result of a connection's turn to send.
enum Turn<R> {
    /// A segment was written. `true` if the connection may have more.
    Sent(Transmit<R>, bool),
    /// The connection has nothing to send.
    Idle,
    /// The connection's egress interface is full.
    Blocked(Egress),
}

/// An opportunity of an endpoint to send a segment.
pub(super) struct Output<'e, R> {
    state: &'e mut EndpointState<R>,
    /// Whether it may be a large one.
    large: bool,
    now: Instant,
}

impl<'e, R: Copy> Output<'e, R> {
    #[inline(always)]
    pub(super) const fn new(state: &'e mut EndpointState<R>, large: bool, now: Instant) -> Self {
        Self { state, large, now }
    }

    /// Writes the next segment to send to the beginning of `to`, and counts it as sent.
    #[inline(always)]
    pub(super) fn poll(&mut self, routes: &impl Routes<Route = R>, to: &mut [u8]) -> Option<Transmit<R>> {
        while let Some(Answer { tuple, header, hop_limit, again }) = self.state.answers.pop() {
            self.count(header.flags, again, 1);
            let marks = Marks { dscp: 0, hop_limit };
            let answer = Outgoing { segment: Segment::bare(header), again, cut: None };
            if let Some(transmit) = write(&tuple, &answer, marks, None, to) {
                return Some(transmit);
            }
        }
        while let Some(id) = self.state.send_queue.first(routes.generation()) {
            match self.turn_of(id, routes, to) {
                Turn::Sent(transmit, more) => {
                    if more {
                        // Connections send one segment each in turn.
                        self.state.send_queue.rotate();
                    } else {
                        self.state.send_queue.end_turn();
                        self.settle(id);
                    }
                    return Some(transmit);
                }
                Turn::Idle => {
                    self.state.send_queue.end_turn();
                    self.settle(id);
                }
                Turn::Blocked(egress) => self.state.send_queue.block(id, egress, routes.generation()),
            }
        }
        None
    }

    #[inline]
    fn turn_of(&mut self, id: Id, routes: &impl Routes<Route = R>, to: &mut [u8]) -> Turn<R> {
        let state = &mut *self.state;
        let Some((tuple, entry)) = state.connections.entry_mut(id) else { return Turn::Idle };
        let Entry { connection, notified, dscp, route, .. } = entry;
        let route = route.validate(tuple, routes);
        if let Some(egress) = routes.egress(&route).filter(|&egress| state.send_queue.is_full(egress)) {
            return Turn::Blocked(egress);
        }
        // The connection takes no memory here, but its window depends on the allowance.
        connection.set_allowance(state.memory.allowance());
        let marks = Marks { dscp: *dscp, hop_limit: connection.hop_limit() };
        let most = if self.large { routes.cuts(&route).min(to.len().saturating_sub(HEADER_MAX)) } else { 0 };
        let left = connection.poll_transmit_large(most, self.now);
        let left = left.as_ref().map(|outgoing| {
            let transmit = write(tuple, outgoing, marks, Some(route), to);
            (outgoing.segment.header.flags, outgoing.again, outgoing.segments(), transmit)
        });
        // Other connections may have taken memory, or the congestion window may have shrunk after a pause
        // (RFC 5681, 4.1), and with it the room to write, though nothing leaves. The user is then to be
        // notified when there is room again.
        notified.writable = notified.writable && connection.is_writable();
        let Some((flags, again, segments, transmit)) = left else { return Turn::Idle };
        let more = connection.may_transmit();
        state.counters.count_all(connection.take_counted());
        self.count(flags, again, segments);
        transmit.map_or(Turn::Idle, |transmit| Turn::Sent(transmit, more))
    }

    /// Counts what leaves as one segment or as several. `tcpOutSegs` does not include those that have nothing
    /// but bytes sent before (RFC 4022).
    #[inline]
    fn count(&mut self, flags: Flags, again: bool, segments: u32) {
        if !again {
            self.state.counters.add(Counter::OutSegs, segments.into());
        }
        if flags.contains(Flags::RST) {
            self.state.counters.count(Counter::OutRsts);
        }
    }

    /// Sets the timers of a connection that has nothing more to send for now. If it is in TIME-WAIT or
    /// over, moves it on.
    fn settle(&mut self, id: Id) {
        let Some(entry) = self.state.connections.get_mut(id) else { return };
        let entry = match entry.connection.leave_in_time_wait() {
            None => entry,
            Some(remains) => {
                self.enter_time_wait(id, &remains);
                let Some(entry) = self.state.connections.get_mut(id) else { return };
                entry
            }
        };
        entry.is_queued = false;
        if !entry.connection.is_over() {
            return self.state.deadlines.set(id, &entry.connection);
        }
        let (from, held_by_user) = (entry.from, entry.holder == Holder::User);
        if core::mem::take(&mut entry.early) {
            self.state.finish_early(from, false, self.now);
        }
        self.state.deadlines.cancel(id);
        if !held_by_user {
            self.state.forget(id);
        }
    }

    /// Moves a connection to the table of TIME-WAIT, whether its user has closed it or not: one place
    /// answers all segments of such connections.
    fn enter_time_wait(&mut self, id: Id, remains: &Remains) {
        let state = &mut *self.state;
        if let (Some(hash), Some(&tuple)) = (state.connections.hash_of(id), state.connections.tuple(id)) {
            state.time_wait.enter_hashed(hash, tuple, remains, self.now, &mut state.counters);
        }
        state.touch(id);
    }
}

/// The fields of a segment's IP header that its user chooses.
#[derive(Clone, Copy)]
struct Marks {
    dscp: u8,
    hop_limit: Option<NonZeroU8>,
}

#[inline]
fn write<R>(
    tuple: &FourTuple,
    &Outgoing { ref segment, cut, .. }: &Outgoing<'_>,
    Marks { dscp, hop_limit }: Marks,
    route: Option<R>,
    to: &mut [u8],
) -> Option<Transmit<R>> {
    let (source, destination) = (&tuple.local.addr, &tuple.remote.addr);
    let len = match cut {
        None => segment.emit_between(to, source, destination)?,
        Some(_) => segment.emit_unfinished(to, source, destination)?,
    };
    Some(Transmit { tuple: *tuple, len, dscp, hop_limit, ecn: segment.header.ecn, route, cut })
}
