//! What leaves, what passes with time, and how a connection ends.

use std::collections::VecDeque;

use super::super::connection::Outgoing;
use super::super::counters::Counter;
use super::super::segment::{Ecn, Flags, Segment};
use super::super::table::Id;
use super::super::time_wait::Remains;
use super::super::tuple::FourTuple;
use super::egress::{Egress, EgressSet, RouteHandle, Routes};
use super::listeners::ListenerId;
use super::state::{ANSWERS_MAX, Answer, Endpoint, Entry, Holder};
use crate::time::Instant;
use evenkeel_timers::Wheel;

/// A segment that was written, for IP to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit<R = ()> {
    /// From `local` to `remote`.
    pub tuple: FourTuple,
    /// Bytes written, from the TCP header on.
    pub len: usize,
    /// How routers are to treat it: the Differentiated Services codepoint for the IP header, six bits.
    pub dscp: u8,
    /// What the IP header is to say about congestion.
    pub ecn: Ecn,
    /// The route of its connection; none of what a listener, TIME-WAIT or nobody answers.
    pub route: Option<R>,
}

/// What came of a connection's turn to send.
enum Turn<R> {
    /// A segment was written. The connection may have more.
    Sent(Transmit<R>, bool),
    /// It has nothing to send.
    Idle,
    /// Its egress interface is full.
    Blocked(Egress),
}

impl<R: Copy> Endpoint<R> {
    /// Writes the next segment to send to the beginning of `to`, checksum included. It counts as sent.
    ///
    /// `to` must have room for a header of 60 bytes and for as much payload as a segment of any connection
    /// has; what does not fit is lost, as in a network. `routes` say which way it goes: `&()` if there is
    /// only one.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        routes: &impl Routes<Route = R>,
        to: &mut [u8],
    ) -> Option<Transmit<R>> {
        while let Some(Answer { tuple, header, again }) = self.answers.pop_front() {
            self.count_sent(header.flags, again);
            if let Some(transmit) = write(&tuple, &Segment::bare(header), 0, None, to) {
                return Some(transmit);
            }
        }
        while let Some(id) = self.first_in_line(routes.generation()) {
            match self.turn_of(id, now, routes, to) {
                Turn::Sent(transmit, more) => {
                    self.to_send.pop_front();
                    if more {
                        // One segment each in turn.
                        self.to_send.push_back(id);
                    } else {
                        self.settle(id, now);
                    }
                    return Some(transmit);
                }
                Turn::Idle => {
                    self.to_send.pop_front();
                    self.settle(id, now);
                }
                Turn::Blocked(egress) => {
                    self.to_send.pop_front();
                    self.tx_blocked.push(id, egress, routes.generation());
                }
            }
        }
        None
    }

    /// Whether [`Endpoint::poll_transmit`] would have something to do if these interfaces were full, though
    /// it may find that there is no segment.
    #[must_use]
    pub fn may_transmit(&self, full: EgressSet, routes: &impl Routes<Route = R>) -> bool {
        !self.to_send.is_empty()
            || !self.answers.is_empty()
            || self.tx_blocked.may_go_on(full, routes.generation())
    }

    /// From now on these interfaces are full: connections that leave by them wait until they are not. At
    /// first none is. What is sent on behalf of no connection does not wait, as nobody knows by which
    /// interface it will leave.
    pub const fn set_full(&mut self, full: EgressSet) {
        self.full = full;
    }

    /// Who is to send next.
    fn first_in_line(&mut self, generation: u32) -> Option<Id> {
        if !self.tx_blocked.is_empty() {
            self.unblock(generation);
        }
        self.to_send.front().copied()
    }

    /// Whoever waited for an interface that is no longer full has missed a turn, and so comes first. If
    /// routes have changed, all have a turn: that finds out by which interface they leave now.
    #[cold]
    fn unblock(&mut self, generation: u32) {
        if !self.tx_blocked.is_stale(generation) {
            if let Some(id) = self.tx_blocked.pop(self.full) {
                self.to_send.push_front(id);
            }
            return;
        }
        let mut first: VecDeque<Id> = core::iter::from_fn(|| self.tx_blocked.pop(EgressSet::NONE)).collect();
        first.append(&mut self.to_send);
        self.to_send = first;
    }

    /// A connection takes this route, which a lookup said when `generation` was what [`Routes`] said; so its
    /// first segment needs no lookup.
    pub fn set_route(&mut self, id: Id, route: R, generation: u32) {
        if let Some(entry) = self.connections.get_mut(id) {
            entry.route = RouteHandle::new(route, generation);
        }
    }

    /// The route by which a connection's segments leave.
    pub fn route(&mut self, id: Id, routes: &impl Routes<Route = R>) -> Option<R> {
        let (tuple, entry) = self.connections.entry_mut(id)?;
        Some(entry.route.validate(tuple, routes))
    }

    fn turn_of(&mut self, id: Id, now: Instant, routes: &impl Routes<Route = R>, to: &mut [u8]) -> Turn<R> {
        let Some((tuple, entry)) = self.connections.entry_mut(id) else { return Turn::Idle };
        let Entry { connection, notified, dscp, route, .. } = entry;
        let route = route.validate(tuple, routes);
        if let Some(egress) = routes.egress(&route).filter(|&egress| self.full.contains(egress)) {
            return Turn::Blocked(egress);
        }
        // Nothing is taken or given back here, but it says how large its window is.
        connection.set_allowance(self.memory.allowance());
        let left = connection.poll_transmit(now);
        let left = left.as_ref().map(|Outgoing { segment, again }| {
            (segment.header.flags, *again, write(tuple, segment, *dscp, Some(route), to))
        });
        // Others may have taken memory, or the window shrunk after a pause (RFC 5681, 4.1), and with it the
        // room to write, though nothing leaves: the user is to hear when there is some again.
        notified.writable = notified.writable && connection.is_writable();
        let Some((flags, again, transmit)) = left else { return Turn::Idle };
        let more = connection.may_transmit();
        self.counters.count_all(connection.take_tally());
        self.count_sent(flags, again);
        transmit.map_or(Turn::Idle, |transmit| Turn::Sent(transmit, more))
    }

    /// RFC 4022: `tcpOutSegs` is without those that have nothing but bytes sent before.
    fn count_sent(&mut self, flags: Flags, again: bool) {
        if !again {
            self.counters.count(Counter::OutSegs);
        }
        if flags.contains(Flags::RST) {
            self.counters.count(Counter::OutRsts);
        }
    }

    /// A connection has nothing more to send for now: it waits for its deadline, or is over.
    fn settle(&mut self, id: Id, now: Instant) {
        let Some(entry) = self.connections.get_mut(id) else { return };
        let entry = match entry.connection.leave_in_time_wait() {
            None => entry,
            Some(remains) => {
                self.enter_time_wait(id, &remains, now);
                let Some(entry) = self.connections.get_mut(id) else { return };
                entry
            }
        };
        entry.queued = false;
        if entry.connection.is_over() {
            self.wheel.cancel(id.index());
            self.paced.cancel(id.index());
            let ours = entry.holder != Holder::User;
            if core::mem::take(&mut entry.early) {
                self.finish_early(id, false, now);
            }
            if ours {
                self.forget(id);
            }
            return;
        }
        let (pace, other) = (entry.connection.pace_deadline(), entry.connection.next_deadline_but_pace());
        set(&mut self.paced, id, pace);
        set(&mut self.wheel, id, other);
    }

    /// TIME-WAIT is no connection's, whether its user has closed it or not: there is one place that answers
    /// what comes.
    fn enter_time_wait(&mut self, id: Id, remains: &Remains, now: Instant) {
        if let (Some(hash), Some(&tuple)) = (self.connections.hash_of(id), self.connections.tuple(id)) {
            self.time_wait.enter_hashed(hash, tuple, remains, now, &mut self.counters);
        }
        self.touch(id);
    }

    /// A connection that is over leaves the table, and what it counted stays.
    fn forget(&mut self, id: Id) {
        let Some(&Entry { held, .. }) = self.connections.get(id) else { return };
        self.connections.discard(id);
        self.memory.change(held as usize, 0, &mut self.counters);
    }

    /// When [`Endpoint::advance`] is to be called, if nothing else happens before. Anything may change it.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        let all = [
            self.wheel.next_deadline(),
            self.paced.next_deadline(),
            self.time_wait.next_deadline(),
            self.listeners.next_deadline(),
        ];
        all.into_iter().flatten().min()
    }

    /// When pacing lets the next segment go of those that wait for it: a part of
    /// [`next_deadline`](Self::next_deadline), for who can be more exact if need be. What else passes with
    /// time may be late by as long as it takes to wake somebody.
    pub fn next_paced(&mut self) -> Option<Instant> {
        self.paced.next_deadline()
    }

    /// As [`next_paced`](Self::next_paced), or somewhat earlier: as [`not_before`](Self::not_before) is.
    #[must_use]
    pub fn paced_not_before(&self) -> Option<Instant> {
        self.paced.not_before()
    }

    /// As [`next_deadline`](Self::next_deadline), or somewhat earlier, for who is busy until then anyway, and
    /// will ask again: it takes next to no work, whereas the exact one has timers filed anew that were put
    /// off.
    #[must_use]
    pub fn not_before(&self) -> Option<Instant> {
        let all = [
            self.wheel.not_before(),
            self.paced.not_before(),
            self.time_wait.next_deadline(),
            self.listeners.not_before(),
        ];
        all.into_iter().flatten().min()
    }

    /// The time is `now`.
    pub fn advance(&mut self, now: Instant) {
        while let Some(place) = self.wheel.poll_expired(now).or_else(|| self.paced.poll_expired(now)) {
            let Some(id) = self.connections.at(place) else { continue };
            if let Some(entry) = self.entry(id) {
                entry.connection.on_deadline(now);
            }
            self.touch(id);
        }
        while self.time_wait.poll_expired(now, &mut self.counters).is_some() {
            self.ports.gone += 1;
        }
        // What finds no room among the answers stays due.
        while self.answers.len() < ANSWERS_MAX
            && self.listeners.advance(now, |listener| {
                while self.answers.len() < ANSWERS_MAX
                    && let Some((tuple, header)) = listener.poll_transmit(now, &mut self.counters)
                {
                    self.answers.push_back(Answer { tuple, header, again: true });
                }
            })
        {}
    }

    /// It was to be accepted, and will not be.
    pub(super) fn withdraw(&mut self, from: Option<ListenerId>) {
        let waits = |id| self.connections.get(id).is_some_and(|entry| entry.holder == Holder::Listener);
        if let Some(listener) = from.and_then(|from| self.listeners.by_id(from)) {
            listener.withdraw(waits);
        }
    }
}

/// Sets the timer of a connection, or cancels it.
fn set(wheel: &mut Wheel, id: Id, at: Instant) {
    if at == Instant::NEVER {
        wheel.cancel(id.index());
    } else {
        wheel.set(id.index(), at);
    }
}

fn write<R>(
    tuple: &FourTuple,
    segment: &Segment<'_>,
    dscp: u8,
    route: Option<R>,
    to: &mut [u8],
) -> Option<Transmit<R>> {
    let len = segment.emit(to, &tuple.local.addr, &tuple.remote.addr)?;
    Some(Transmit { tuple: *tuple, len, dscp, ecn: segment.header.ecn, route })
}
