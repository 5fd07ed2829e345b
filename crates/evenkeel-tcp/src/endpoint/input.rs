//! The dispatch of incoming segments: to a connection, to TIME-WAIT, to a listener, or to a reset (RFC
//! 9293, 3.10.7).

use super::super::connection::{Connection, SynAck, SynReceived};
use super::super::counters::Counter;
use super::super::drop::{Fate, TcpDrop};
use super::super::listener::{self, Arrival, Reaction};
use super::super::options::Cookie;
use super::super::segment::{Ecn, Flags, Header, Malformed, Segment};
use super::super::state::State;
use super::super::table::{Id, TupleHash};
use super::super::time_wait;
use super::super::tuple::FourTuple;
use super::event::EndpointEvent;
use super::listeners::{ListenAt, ListenerId};
use super::state::{ANSWERS_MAX, Answer, Endpoint, Entry, Holder};
use crate::time::Instant;
use crate::wire::{IpAddress, IpEndpoint};

/// The fields of a packet's IP header, and the size of segments in return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The sender's address.
    pub source: IpAddress,
    /// The destination: a unicast address of ours, neither broadcast nor multicast.
    pub destination: IpAddress,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The largest segment that fits the path to the sender, in bytes after the 20 of its header.
    pub mss: u16,
}

impl<R: Copy> Endpoint<R> {
    /// Processes a packet with `bytes`, from the TCP header on. Returns their fate.
    pub fn input(&mut self, bytes: &[u8], packet: &Packet, now: Instant) -> Fate {
        self.input_expected(None, bytes, packet, now)
    }

    /// Processes a packet as [`Endpoint::input`] does. `expected` is the connection that the caller
    /// predicts for the segment; a right prediction saves the lookup in the table.
    pub fn input_expected(
        &mut self,
        expected: Option<Id>,
        bytes: &[u8],
        packet: &Packet,
        now: Instant,
    ) -> Fate {
        self.counters.count(Counter::InSegs);
        // The segment is not moved: a move takes longer than reading it.
        let parsed = Segment::parse(bytes, &packet.source, &packet.destination, packet.ecn);
        let segment = match &parsed {
            Ok(segment) => segment,
            Err(why) => return self.count_malformed(*why),
        };
        let header = &segment.header;
        let local = IpEndpoint::new(packet.destination, header.destination);
        let tuple = FourTuple::new(local, IpEndpoint::new(packet.source, header.source));
        if let Some(id) = expected.filter(|&id| self.is_between(id, &tuple)) {
            return self.deliver(id, segment, now);
        }
        let hash = self.connections.hash(&tuple);
        if let Some(id) = self.connections.find_hashed(hash, &tuple) {
            return self.deliver(id, segment, now);
        }
        let previous = match self.time_wait.find_hashed(hash, &tuple) {
            None => None,
            Some(id) => match self.time_wait.handle_segment(id, segment, now, &mut self.counters) {
                time_wait::Answer::Nothing => return Fate::Control,
                time_wait::Answer::Send(header) => {
                    self.answer(tuple, header, now);
                    return Fate::Control;
                }
                // The segment may begin a new connection, whose sequence numbers must exceed those of the
                // old one.
                time_wait::Answer::Reopen { previous } => Some(previous),
            },
        };
        self.offer_to_listener(hash, &Arrival { tuple, segment: *segment, mss: packet.mss, previous, now })
    }

    /// Returns whether `id` is a connection between the ends of `tuple`, and not over.
    fn is_between(&self, id: Id, tuple: &FourTuple) -> bool {
        self.connections
            .entry(id)
            .is_some_and(|(between, entry)| between == tuple && entry.connection.state() != State::Closed)
    }

    fn count_malformed(&mut self, why: Malformed) -> Fate {
        self.counters.count(Counter::InErrs);
        if why == Malformed::Checksum {
            self.counters.count(Counter::InCsumErrors);
            return Fate::Dropped(TcpDrop::Checksum);
        }
        Fate::Dropped(TcpDrop::Malformed)
    }

    fn deliver(&mut self, id: Id, segment: &Segment<'_>, now: Instant) -> Fate {
        let Some(entry) = self.connections.get_mut(id) else { return Fate::Control };
        entry.connection.set_allowance(self.memory.allowance());
        entry.connection.borrow_to_receive(self.memory.spares(), segment.payload_len(), id);
        let before = entry.connection.state();
        let fate = entry.connection.on_segment(segment, now);
        let after = entry.connection.state();
        if before == State::SynReceived && after != before && core::mem::take(&mut entry.early) {
            self.finish_early(id, after == State::Closed, now);
        }
        if before == State::SynSent
            && let Some(opened) = self.connections.get_mut(id).and_then(|e| e.connection.take_fast_opened())
            && let Some(tuple) = self.connections.tuple(id).copied()
        {
            self.on_fast_opened(&tuple, &opened, now);
        }
        self.touch(id);
        fate
    }

    /// Notifies the listener's Fast Open server that a connection with early data has left SYN-RECEIVED:
    /// the handshake is over, or a reset or a failure has ended it (`reset`).
    pub(super) fn finish_early(&mut self, id: Id, reset: bool, now: Instant) {
        let from = self.connections.get(id).and_then(|entry| entry.from);
        let server = from.and_then(|from| self.listeners.by_id(from)?.fast_open());
        if let Some(server) = server {
            server.finish(reset, now);
        }
    }

    fn offer_to_listener(&mut self, hash: TupleHash, arrival: &Arrival<'_>) -> Fate {
        let tuple = arrival.tuple;
        let Some((at, id)) = self.listening(&tuple.local) else {
            self.refuse(&tuple, &arrival.segment, arrival.now);
            return Fate::Dropped(TcpDrop::NoSocket);
        };
        if self.connections.is_full() {
            // A handshake that is completed now would be forgotten. The peer will try again.
            self.counters.count(Counter::ListenDrops);
            return Fate::Dropped(TcpDrop::Backlog);
        }
        let fate = match self.ask_listener(id, hash, arrival) {
            Reaction::Nothing => return Fate::Control,
            Reaction::Drop => return Fate::Dropped(TcpDrop::Backlog),
            Reaction::SendAgain(header) => {
                self.push_answer(Answer { tuple, header, again: true });
                return Fate::Control;
            }
            Reaction::Send(header) => {
                self.answer(tuple, header, arrival.now);
                if !header.flags.contains(Flags::SYN) {
                    return Fate::Control;
                }
                Fate::Control
            }
            Reaction::Establish(agreed) => self.establish((at, id), &agreed, hash, arrival),
            Reaction::FastOpen(agreed, cookie) => {
                self.establish_early((at, id), &agreed, cookie, hash, arrival)
            }
        };
        if let Some(old) = arrival.previous.and_then(|_| self.time_wait.find(&tuple)) {
            self.time_wait.recycle(old, &mut self.counters);
        }
        fate
    }

    fn ask_listener(&mut self, id: ListenerId, hash: TupleHash, arrival: &Arrival<'_>) -> Reaction {
        let Some(listener) = self.listeners.by_id(id) else { return Reaction::Nothing };
        let before = listener.syn_queue_len();
        let reaction = listener.handle_hashed(hash, arrival, &mut self.counters);
        if listener.syn_queue_len() > before {
            self.listeners.schedule(id);
        }
        reaction
    }

    fn establish(
        &mut self,
        at: (ListenAt, ListenerId),
        agreed: &listener::Handshake,
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
        agreed: &listener::Handshake,
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
        agreed: &listener::Handshake,
        syn_ack: SynAck,
        arrival: &Arrival<'_>,
    ) -> Connection {
        let options = self.listeners.options(listener).unwrap_or(&self.config.connection);
        let progress = SynReceived { syn_ack, ..agreed.progress() };
        let open = agreed.open(&self.numbers);
        let mut connection = Connection::accept(options, &open, &progress, arrival.now);
        connection.set_allowance(self.memory.allowance());
        self.recall_rate(&mut connection, &arrival.tuple, arrival.now);
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
        let entry = Entry { from: Some(listener), early, ..Entry::new(connection, Holder::Listener) };
        let Ok(id) = self.connections.insert_hashed(hash, *tuple, entry) else { return };
        if let Some(listener) = self.listeners.by_id(listener) {
            let first = listener.accept_queue_len() == 0;
            listener.queue(id);
            if first {
                self.events.push_back(EndpointEvent::Acceptable(at));
            }
        }
        self.touch(id);
    }

    /// Returns whether a segment that belongs to no connection or listener would have no effect, not even
    /// an answer. If so, it is counted, and the caller need not give it to [`Endpoint::input`]. Its
    /// checksum is not verified.
    pub fn drops_unanswered(&mut self, from: &IpAddress, flags: Flags, now: Instant) -> bool {
        let is_reset = flags.contains(Flags::RST);
        if !is_reset && self.resets.may_pass(from, now) {
            return false;
        }
        self.counters.count(Counter::InSegs);
        if !is_reset {
            self.counters.count(Counter::ResetsSkipped);
        }
        true
    }

    /// Answers a segment of no connection with a reset, unless it is one itself (RFC 9293, 3.10.7.1).
    fn refuse(&mut self, tuple: &FourTuple, segment: &Segment<'_>, now: Instant) {
        let header = &segment.header;
        if header.flags.contains(Flags::RST) {
            return;
        }
        let reset = if header.flags.contains(Flags::ACK) {
            Header { seq: header.ack, flags: Flags::RST, ..tuple.header() }
        } else {
            Header { ack: segment.range().end, flags: Flags::RST | Flags::ACK, ..tuple.header() }
        };
        self.answer(*tuple, reset, now);
    }

    /// Queues an answer on behalf of a listener, of TIME-WAIT, or of no connection. Resets have a rate
    /// limit: a sender that gets none retries, or gives up, as if there were no host.
    fn answer(&mut self, tuple: FourTuple, header: Header, now: Instant) {
        if header.flags.contains(Flags::RST) && !self.resets.pass(&tuple.remote.addr, now) {
            return self.counters.count(Counter::ResetsSkipped);
        }
        self.push_answer(Answer { tuple, header, again: false });
    }

    fn push_answer(&mut self, answer: Answer) {
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push_back(answer);
        }
    }
}
