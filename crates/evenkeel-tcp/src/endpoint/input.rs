//! The dispatch of an incoming segment: to a connection, to TIME-WAIT, to a listener, or to a reset (RFC
//! 9293, 3.10.7).

use core::net::IpAddr;
use core::num::NonZeroU16;

use super::super::connection::{Connection, SynAck, SynReceived};
use super::super::counters::Counter;
use super::super::drop::{Fate, TcpDrop};
use super::super::listener::{Arrival, Handshake, Reaction};
use super::super::options::Cookie;
use super::super::segment::{Ecn, Malformed, Segment};
use super::super::seq::SeqNumber;
use super::super::state::State;
use super::super::table::{Id, TupleHash};
use super::super::time_wait;
use super::super::tuple::{AddrPort, FourTuple};
use super::entry::{Entry, Holder};
use super::event::EndpointEvent;
use super::listeners::{ListenAt, ListenerId};
use super::state::EndpointState;
use crate::time::Instant;

/// The fields of a packet's IP header, and the size of segments in return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The sender's address.
    pub source: IpAddr,
    /// The destination: a unicast address of ours, neither broadcast nor multicast.
    pub destination: IpAddr,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The largest segment that fits the path to the sender, in bytes after the 20 of its header.
    pub mss: u16,
}

/// A packet that arrives.
pub(super) struct Input<'e, R> {
    state: &'e mut EndpointState<R>,
    now: Instant,
}

impl<'e, R: Copy> Input<'e, R> {
    #[inline(always)]
    pub(super) const fn new(state: &'e mut EndpointState<R>, now: Instant) -> Self {
        Self { state, now }
    }

    /// Processes the packet. `expected` is the connection that the caller predicts for the segment. Returns
    /// the fate of its bytes.
    #[inline(always)]
    pub(super) fn process(&mut self, expected: Option<Id>, bytes: &[u8], packet: &Packet) -> Fate {
        self.state.counters.count(Counter::InSegs);
        // The segment is not moved: a move takes longer than reading it.
        let parsed = Segment::parse_between(bytes, &packet.source, &packet.destination, packet.ecn);
        match &parsed {
            Ok(segment) => self.dispatch(expected, segment, packet),
            Err(why) => self.count_malformed(*why),
        }
    }

    /// Processes a packet that was `size` bytes of payload a segment on the wire, and whose checksum a device
    /// has verified.
    pub(super) fn process_large(
        &mut self,
        expected: Option<Id>,
        bytes: &[u8],
        size: NonZeroU16,
        packet: &Packet,
    ) -> Fate {
        match Segment::parse_verified(bytes, packet.ecn) {
            Ok(segment) => {
                let segments = segment.payload_len().div_ceil(usize::from(size.get())).max(1);
                self.state.counters.add(Counter::InSegs, segments as u64);
                self.dispatch(expected, &segment, packet)
            }
            Err(why) => {
                self.state.counters.count(Counter::InSegs);
                self.count_malformed(why)
            }
        }
    }

    #[inline(always)]
    fn dispatch(&mut self, expected: Option<Id>, segment: &Segment<'_>, packet: &Packet) -> Fate {
        let header = &segment.header;
        let local = AddrPort::new(packet.destination, header.destination);
        let tuple = FourTuple::new(local, AddrPort::new(packet.source, header.source));
        if let Some(id) = expected.filter(|&id| self.is_between(id, &tuple)) {
            return self.deliver(id, segment);
        }
        let hash = self.state.connections.hash(&tuple);
        if let Some(id) = self.state.connections.find_hashed(hash, &tuple) {
            return self.deliver(id, segment);
        }
        self.without_connection(hash, tuple, segment, packet.mss)
    }

    /// Returns whether `id` is a connection between the ends of `tuple`, and not over.
    #[inline]
    fn is_between(&self, id: Id, tuple: &FourTuple) -> bool {
        self.state.connections.entry(id).is_some_and(|(between, entry)| between == tuple && entry.is_open())
    }

    fn count_malformed(&mut self, why: Malformed) -> Fate {
        self.state.counters.count(Counter::InErrs);
        if why == Malformed::Checksum {
            self.state.counters.count(Counter::InCsumErrors);
            return Fate::Dropped(TcpDrop::Checksum);
        }
        Fate::Dropped(TcpDrop::Malformed)
    }

    /// Gives a segment to its connection.
    fn deliver(&mut self, id: Id, segment: &Segment<'_>) -> Fate {
        let (state, now) = (&mut *self.state, self.now);
        let Some((tuple, entry)) = state.connections.entry_mut(id) else { return Fate::Control };
        entry.connection.set_allowance(state.memory.allowance());
        entry.connection.borrow_to_receive(state.memory.spares(), segment.payload_len(), id);
        let fate = entry.connection.on_segment(segment, now);
        if let Some(opened) = entry.connection.take_fast_opened() {
            state.destinations.on_fast_opened(tuple, &opened, &mut state.counters, now);
        }
        if entry.early && entry.connection.state() != State::SynReceived {
            entry.early = false;
            let (from, reset) = (entry.from, !entry.is_open());
            state.finish_early(from, reset, now);
        }
        state.touch(id);
        fate
    }

    /// Processes a segment that belongs to no connection.
    fn without_connection(
        &mut self,
        hash: TupleHash,
        tuple: FourTuple,
        segment: &Segment<'_>,
        mss: u16,
    ) -> Fate {
        let now = self.now;
        let arrival = Arrival { tuple, segment: *segment, mss, previous: None, now };
        let mut previous = None;
        if let Some(id) = self.state.time_wait.find_hashed(hash, &tuple) {
            if let Some(previous) = self.reopened_by_cookie(id, &arrival) {
                return self.offer_to_listener(hash, &Arrival { previous: Some(previous), ..arrival });
            }
            let state = &mut *self.state;
            match state.time_wait.handle_segment(id, segment, now, &mut state.counters) {
                time_wait::Answer::Nothing => return Fate::Control,
                time_wait::Answer::Send(header) => {
                    state.answers.send(tuple, header, None, &mut state.counters, now);
                    return Fate::Control;
                }
                // The segment may begin a new connection, whose sequence numbers must exceed those of the
                // old one.
                time_wait::Answer::Reopen { previous: number } => previous = Some(number),
            }
        }
        self.offer_to_listener(hash, &Arrival { previous, ..arrival })
    }

    /// Returns the number behind which our initial sequence number lies, if a device has answered the SYN of
    /// a new incarnation of a connection in TIME-WAIT with a cookie, which this segment brings back. Without
    /// timestamps, the cookie must lie behind it by chance.
    fn reopened_by_cookie(&self, id: Id, arrival: &Arrival<'_>) -> Option<SeqNumber> {
        let (at, _) = self.state.listeners.at_endpoint(&arrival.tuple.local)?;
        let header = &arrival.segment.header;
        self.state.listeners.get(&at).filter(|listener| listener.brings_cookie(arrival))?;
        let previous = self.state.time_wait.reopened_by(id, header)?;
        let follows = header.options.timestamps.is_some() || (header.ack - 1).after(previous);
        follows.then_some(previous)
    }

    fn offer_to_listener(&mut self, hash: TupleHash, arrival: &Arrival<'_>) -> Fate {
        let (state, tuple) = (&mut *self.state, arrival.tuple);
        let Some((at, id)) = state.listeners.at_endpoint(&tuple.local) else {
            if state.leaves_strays {
                return Fate::Stray;
            }
            state.answers.refuse(tuple, &arrival.segment, &mut state.counters, arrival.now);
            return Fate::Dropped(TcpDrop::NoSocket);
        };
        let opens = arrival.segment.header.flags.opens();
        if state.leaves_strays && !opens {
            let listener = state.listeners.get(&at);
            if !listener.is_some_and(|listener| listener.expects(hash, arrival)) {
                return Fate::Stray;
            }
        }
        if state.connections.is_full() {
            // A handshake that is completed now would be forgotten. The peer will try again.
            state.counters.count(Counter::ListenDrops);
            return Fate::Dropped(TcpDrop::Backlog);
        }
        let fate = match state.listeners.handle(id, hash, arrival, &mut state.counters) {
            Reaction::Nothing => return Fate::Control,
            Reaction::Drop => return Fate::Dropped(TcpDrop::Backlog),
            Reaction::SendAgain(header) => {
                state.answers.repeat(tuple, header, state.listeners.hop_limit(id));
                return Fate::Control;
            }
            Reaction::Send(header) | Reaction::Open(header) => {
                let hop_limit = state.listeners.hop_limit(id);
                state.answers.send(tuple, header, hop_limit, &mut state.counters, arrival.now);
                Fate::Control
            }
            Reaction::Establish(agreed) => self.establish((at, id), &agreed, hash, arrival),
            Reaction::FastOpen(agreed, cookie) => {
                self.establish_early((at, id), &agreed, cookie, hash, arrival)
            }
        };
        let state = &mut *self.state;
        if let Some(old) = arrival.previous.and_then(|_| state.time_wait.find(&tuple)) {
            state.time_wait.recycle(old, &mut state.counters);
        }
        fate
    }

    fn establish(
        &mut self,
        at: (ListenAt, ListenerId),
        agreed: &Handshake,
        hash: TupleHash,
        arrival: &Arrival<'_>,
    ) -> Fate {
        let mut connection = self.accepted(at.1, agreed, agreed.progress().syn_ack, arrival);
        let fate = connection.on_segment(&arrival.segment, arrival.now);
        self.enqueue(at, connection, false, hash, &arrival.tuple);
        fate
    }

    fn establish_early(
        &mut self,
        at: (ListenAt, ListenerId),
        agreed: &Handshake,
        cookie: Option<Cookie>,
        hash: TupleHash,
        arrival: &Arrival<'_>,
    ) -> Fate {
        let mut connection = self.accepted(at.1, agreed, SynAck::Due(cookie), arrival);
        let fate = connection.on_early_data(&arrival.segment, arrival.now);
        self.enqueue(at, connection, true, hash, &arrival.tuple);
        fate
    }

    fn accepted(
        &self,
        listener: ListenerId,
        agreed: &Handshake,
        syn_ack: SynAck,
        arrival: &Arrival<'_>,
    ) -> Connection {
        let state = &*self.state;
        let options = state.listeners.options(listener).unwrap_or(&state.config.connection);
        let progress = SynReceived { syn_ack, ..agreed.progress() };
        let open = agreed.open(&state.numbers);
        let mut connection = Connection::accept(options, &open, &progress, arrival.now);
        connection.set_allowance(state.memory.allowance());
        state.destinations.recall_rate(&mut connection, &arrival.tuple, arrival.now);
        connection
    }

    /// Adds a connection to the table and to the accept queue of its listener.
    fn enqueue(
        &mut self,
        (at, listener): (ListenAt, ListenerId),
        connection: Connection,
        early: bool,
        hash: TupleHash,
        tuple: &FourTuple,
    ) {
        let state = &mut *self.state;
        let entry = Entry { from: Some(listener), early, ..Entry::new(connection, Holder::Listener) };
        let Ok(id) = state.connections.insert_hashed(hash, *tuple, entry) else { return };
        if state.listeners.by_id(listener).is_some_and(|listener| listener.queue(id)) {
            state.events.push_back(EndpointEvent::Acceptable(at));
        }
        state.touch(id);
    }
}
