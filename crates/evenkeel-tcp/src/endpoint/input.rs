//! Where a segment goes: to its connection, to what is left of one, to a listener, or back (RFC 9293,
//! 3.10.7).

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

/// What the IP header says, and how much can be sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Who sent it.
    pub source: IpAddress,
    /// An address of ours, and of nobody else: no broadcast, no group.
    pub destination: IpAddress,
    /// What it says about congestion.
    pub ecn: Ecn,
    /// Bytes that a segment to the sender may have after the 20 bytes of its header.
    pub mss: u16,
}

impl<R: Copy> Endpoint<R> {
    /// A packet has brought `bytes`, from the TCP header on. Says what became of them.
    pub fn input(&mut self, bytes: &[u8], packet: &Packet, now: Instant) -> Fate {
        self.input_expected(None, bytes, packet, now)
    }

    /// The same, for who believes that they are for the connection `expected`, and can do without a look into
    /// the table then.
    pub fn input_expected(
        &mut self,
        expected: Option<Id>,
        bytes: &[u8],
        packet: &Packet,
        now: Instant,
    ) -> Fate {
        self.counters.count(Counter::InSegs);
        // It is not moved: that takes longer than to read it.
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
                // It may begin a new connection, whose numbers are to follow those of the old one.
                time_wait::Answer::Reopen { previous } => Some(previous),
            },
        };
        self.offer_to_listener(hash, &Arrival { tuple, segment: *segment, mss: packet.mss, previous, now })
    }

    /// Whether this is a connection between these two ends, and not over.
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

    /// The handshake of a connection that had data before is over, or a reset has ended it, or it has failed.
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

    /// It waits to be accepted.
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

    /// Whether nothing would come of a segment that is nobody's, not even an answer: it is counted then, and
    /// need not be given to [`Endpoint::input`]. Its sum is not looked at.
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

    /// RFC 9293, 3.10.7.1: nobody is there.
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

    /// Answers for nobody, or for a listener. Resets have a rate limit: to whom none is sent tries again, or
    /// gives up, as if there were no host.
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
