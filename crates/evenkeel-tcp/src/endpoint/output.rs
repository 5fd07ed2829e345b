//! What leaves, what passes with time, and how a connection ends.

use super::super::connection::Outgoing;
use super::super::counters::Counter;
use super::super::segment::{Ecn, Flags, Segment};
use super::super::table::Id;
use super::super::time_wait::Remains;
use super::super::tuple::FourTuple;
use super::listeners::ListenerId;
use super::{ANSWERS_MAX, Answer, Endpoint, Entry, Holder, Lane, Lanes};
use crate::time::Instant;

/// A segment that was written, for IP to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// From `local` to `remote`.
    pub tuple: FourTuple,
    /// Bytes written, from the TCP header on.
    pub len: usize,
    /// How routers are to treat it: the Differentiated Services codepoint for the IP header, six bits.
    pub dscp: u8,
    /// What the IP header is to say about congestion.
    pub ecn: Ecn,
    /// The lane by which its connection believes that it leaves; none of what a listener, TIME-WAIT or nobody
    /// answers.
    pub lane: Option<Lane>,
}

impl Endpoint {
    /// Writes the next segment to send to the beginning of `to`, checksum included. It counts as sent.
    ///
    /// `to` must have room for a header of 60 bytes and for as much payload as a segment of any connection
    /// has; what does not fit is lost, as in a network.
    pub fn poll_transmit(&mut self, now: Instant, to: &mut [u8]) -> Option<Transmit> {
        while let Some(Answer { tuple, header, again }) = self.answers.pop_front() {
            self.count_sent(header.flags, again);
            if let Some(transmit) = write(&tuple, &Segment::bare(header), 0, None, to) {
                return Some(transmit);
            }
        }
        while let Some(id) = self.first_in_line() {
            if let Some(transmit) = self.next_of(id, now, to) {
                // One segment each in turn.
                self.to_send.rotate_left(1);
                return Some(transmit);
            }
            self.to_send.pop_front();
            self.settle(id, now);
        }
        None
    }

    /// Whether [`Endpoint::poll_transmit`] would have something to do if these lanes were full, though it may
    /// find that there is no segment.
    #[must_use]
    pub fn may_transmit(&self, full: Lanes) -> bool {
        self.tx_blocked.is_any_past(full) || !self.to_send.is_empty() || !self.answers.is_empty()
    }

    /// From now on these lanes are full: connections that leave by them wait until they are not. At first
    /// none is. What is sent on behalf of no connection does not wait, as nobody knows by which lane it will
    /// leave.
    pub const fn set_full(&mut self, lanes: Lanes) {
        self.full = lanes;
    }

    /// Who is to send next, by a lane that is not full.
    fn first_in_line(&mut self) -> Option<Id> {
        if !(self.full.is_empty() && self.tx_blocked.is_empty()) {
            self.mind_full_lanes();
        }
        self.to_send.front().copied()
    }

    /// Whoever is first in line, and in a full lane, leaves the line. Whoever had to, and is in a full lane
    /// no longer, has missed a turn, and so comes first.
    #[cold]
    fn mind_full_lanes(&mut self) {
        if let Some(id) = self.tx_blocked.pop_past(self.full) {
            return self.to_send.push_front(id);
        }
        while let Some(&id) = self.to_send.front()
            && let Some(lane) = self.connections.get(id).map(|entry| entry.lane)
            && self.full.contains(lane)
        {
            self.to_send.pop_front();
            self.tx_blocked.push(id, lane);
        }
    }

    /// By which lane a connection's segments leave.
    #[must_use]
    pub fn lane(&self, id: Id) -> Option<Lane> {
        Some(self.connections.get(id)?.lane)
    }

    /// By which lane a connection's segments leave from now on. At first it is that of the
    /// [packet](super::Packet) that opened the connection, or else number 0.
    pub fn set_lane(&mut self, id: Id, lane: Lane) {
        if let Some(entry) = self.connections.get_mut(id) {
            entry.lane = lane;
        }
    }

    fn next_of(&mut self, id: Id, now: Instant, to: &mut [u8]) -> Option<Transmit> {
        let tuple = *self.connections.tuple(id)?;
        // Nothing is taken or given back here, but it says how large its window is.
        let allowance = self.memory.allowance();
        let Entry { connection, notified, dscp, lane, .. } = self.connections.get_mut(id)?;
        connection.set_allowance(allowance);
        let left = connection.poll_transmit(now).map(|Outgoing { segment, again }| {
            (segment.header.flags, again, write(&tuple, &segment, *dscp, Some(*lane), to))
        });
        // Others may have taken memory, or the window shrunk after a pause (RFC 5681, 4.1), and with it the
        // room to write, though nothing leaves: the user is to hear when there is some again.
        notified.writable &= connection.writable() > 0;
        let (flags, again, transmit) = left?;
        self.counters.count_all(connection.take_tally());
        self.count_sent(flags, again);
        transmit
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
        entry.queued = false;
        let entry = match entry.connection.leave_in_time_wait() {
            None => entry,
            Some(remains) => {
                self.enter_time_wait(id, &remains, now);
                let Some(entry) = self.connections.get_mut(id) else { return };
                entry
            }
        };
        if entry.connection.is_over() {
            self.wheel.cancel(id.index());
            let ours = entry.holder != Holder::User;
            if core::mem::take(&mut entry.early) {
                self.finish_early(id, false, now);
            }
            if ours {
                self.forget(id);
            }
            return;
        }
        match entry.connection.deadline() {
            Some((at, _)) => self.wheel.set(id.index(), at),
            None => {
                self.wheel.cancel(id.index());
            }
        }
    }

    /// TIME-WAIT is no connection's, whether its user has closed it or not: there is one place that answers
    /// what comes.
    fn enter_time_wait(&mut self, id: Id, remains: &Remains, now: Instant) {
        if let (Some(hash), Some(&tuple)) = (self.connections.hash_of(id), self.connections.tuple(id)) {
            self.time_wait.enter_hashed(hash, tuple, remains, now, &mut self.counters);
        }
        self.take_note(id);
    }

    /// A connection that is over leaves the table, and what it counted stays.
    fn forget(&mut self, id: Id) {
        let Some(&Entry { held, .. }) = self.connections.get(id) else { return };
        self.connections.discard(id);
        self.memory.account(held, 0, &mut self.counters);
    }

    /// When [`Endpoint::advance`] is to be called, if nothing else happens before. Anything may change it.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        let all =
            [self.wheel.next_deadline(), self.time_wait.next_deadline(), self.listeners.next_deadline()];
        all.into_iter().flatten().min()
    }

    /// The time is `now`.
    pub fn advance(&mut self, now: Instant) {
        while let Some(place) = self.wheel.poll_expired(now) {
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

fn write(
    tuple: &FourTuple,
    segment: &Segment<'_>,
    dscp: u8,
    lane: Option<Lane>,
    to: &mut [u8],
) -> Option<Transmit> {
    let len = segment.emit(to, &tuple.local.addr, &tuple.remote.addr)?;
    Some(Transmit { tuple: *tuple, len, dscp, ecn: segment.header.ecn, lane })
}
