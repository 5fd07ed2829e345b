//! Outgoing segments, deadlines, and the end of connections.

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

/// A written segment, for IP to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit<R = ()> {
    /// The addresses and ports: the segment goes from `local` to `remote`.
    pub tuple: FourTuple,
    /// The number of bytes written, from the TCP header on.
    pub len: usize,
    /// The Differentiated Services codepoint for the IP header, six bits.
    pub dscp: u8,
    /// The ECN field for the IP header.
    pub ecn: Ecn,
    /// The route of its connection; `None` if a listener, TIME-WAIT or no connection answers.
    pub route: Option<R>,
}

/// The result of a connection's turn to send.
enum Turn<R> {
    /// A segment was written. `true` if the connection may have more.
    Sent(Transmit<R>, bool),
    /// The connection has nothing to send.
    Idle,
    /// The connection's egress interface is full.
    Blocked(Egress),
}

impl<R: Copy> Endpoint<R> {
    /// Writes the next segment to send to the beginning of `to`, checksum included, and counts it as sent.
    ///
    /// `to` must have room for a header of 60 bytes and for as much payload as a segment of any connection
    /// has; a segment that does not fit is lost, as in a network. `routes` looks up the segment's route:
    /// `&()` if there is only one.
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
                        // Connections send one segment each in turn.
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

    /// Returns whether [`Endpoint::poll_transmit`] would have something to do if the interfaces in `full`
    /// were full. It may still find that there is no segment to send.
    #[must_use]
    pub fn may_transmit(&self, full: EgressSet, routes: &impl Routes<Route = R>) -> bool {
        !self.to_send.is_empty()
            || !self.answers.is_empty()
            || self.tx_blocked.may_go_on(full, routes.generation())
    }

    /// Sets which interfaces are full: connections that leave through them wait until they are not. At
    /// first none is full. Segments of no connection do not wait, because their interface is not known.
    pub const fn set_full(&mut self, full: EgressSet) {
        self.full = full;
    }

    /// Returns the connection that is to send next.
    fn first_in_line(&mut self, generation: u32) -> Option<Id> {
        if !self.tx_blocked.is_empty() {
            self.unblock(generation);
        }
        self.to_send.front().copied()
    }

    /// Moves the connection that has waited longest for an interface that is no longer full to the front
    /// of the queue, since it has missed a turn. If routes have changed, moves all that wait: their turns
    /// find out through which interface they leave now.
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

    /// Sets the route of a connection, the result of a lookup under `generation` of [`Routes`], so that
    /// its first segment needs no lookup.
    pub fn set_route(&mut self, id: Id, route: R, generation: u32) {
        if let Some(entry) = self.connections.get_mut(id) {
            entry.route = RouteHandle::new(route, generation);
        }
    }

    /// Returns the route of a connection's segments, after a lookup if need be.
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
        // The connection takes no memory here, but its window depends on the allowance.
        connection.set_allowance(self.memory.allowance());
        let left = connection.poll_transmit(now);
        let left = left.as_ref().map(|Outgoing { segment, again }| {
            (segment.header.flags, *again, write(tuple, segment, *dscp, Some(route), to))
        });
        // Other connections may have taken memory, or the congestion window may have shrunk after a pause
        // (RFC 5681, 4.1), and with it the room to write, though nothing leaves. The user is then to be
        // notified when there is room again.
        notified.writable = notified.writable && connection.is_writable();
        let Some((flags, again, transmit)) = left else { return Turn::Idle };
        let more = connection.may_transmit();
        self.counters.count_all(connection.take_tally());
        self.count_sent(flags, again);
        transmit.map_or(Turn::Idle, |transmit| Turn::Sent(transmit, more))
    }

    /// Counts a segment that leaves. `tcpOutSegs` does not include those that have nothing but bytes sent
    /// before (RFC 4022).
    fn count_sent(&mut self, flags: Flags, again: bool) {
        if !again {
            self.counters.count(Counter::OutSegs);
        }
        if flags.contains(Flags::RST) {
            self.counters.count(Counter::OutRsts);
        }
    }

    /// Sets the timers of a connection that has nothing more to send for now. If it is in TIME-WAIT or
    /// over, moves it on.
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

    /// Moves a connection to the table of TIME-WAIT, whether its user has closed it or not: one place
    /// answers all segments of such connections.
    fn enter_time_wait(&mut self, id: Id, remains: &Remains, now: Instant) {
        if let (Some(hash), Some(&tuple)) = (self.connections.hash_of(id), self.connections.tuple(id)) {
            self.time_wait.enter_hashed(hash, tuple, remains, now, &mut self.counters);
        }
        self.touch(id);
    }

    /// Removes a connection that is over from the table. Its counts stay in the counters.
    fn forget(&mut self, id: Id) {
        let Some(&Entry { held, .. }) = self.connections.get(id) else { return };
        self.connections.discard(id);
        self.memory.change(held as usize, 0, &mut self.counters);
    }

    /// Returns the time at which [`Endpoint::advance`] is to be called, if nothing else happens before.
    /// Any call may change it.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        let all = [
            self.wheel.next_deadline(),
            self.paced.next_deadline(),
            self.time_wait.next_deadline(),
            self.listeners.next_deadline(),
        ];
        all.into_iter().flatten().min()
    }

    /// Returns the time at which pacing releases the next segment of those that wait for it: a part of
    /// [`next_deadline`](Self::next_deadline), for callers that can meet it more exactly. Other deadlines
    /// may be late by the time that it takes to wake a thread.
    pub fn next_paced(&mut self) -> Option<Instant> {
        self.paced.next_deadline()
    }

    /// Returns the time of [`next_paced`](Self::next_paced), or an earlier one, as
    /// [`not_before`](Self::not_before) does.
    #[must_use]
    pub fn paced_not_before(&self) -> Option<Instant> {
        self.paced.not_before()
    }

    /// Returns the time of [`next_deadline`](Self::next_deadline), or an earlier one, for callers that are
    /// busy until then anyway and will ask again. This takes next to no work, whereas the exact time has
    /// postponed timers sorted anew.
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

    /// Processes all deadlines that have passed at `now`.
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
        // Deadlines whose answers find no room stay due.
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

    /// Notifies the listener `from` that a connection in its accept queue can no longer be accepted.
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
