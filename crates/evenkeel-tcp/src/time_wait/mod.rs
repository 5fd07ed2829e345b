//! Connections in TIME-WAIT, of which a small remainder is kept.

use alloc::sync::Arc;
use core::fmt;

use super::counters::{Counter, Counters};
use super::isn::InitialSequence;
use super::known::KnownEnds;
use super::options::{Options, Timestamps};
use super::queue::{Place, Queue, Waits};
use super::secret::Secret;
use super::segment::{Flags, Header, Segment};
use super::seq::SeqNumber;
use super::table::{Id, Refused, Table, TupleHash};
use super::tuple::FourTuple;
use crate::time::{Duration, Instant};

/// A segment that needs no answer gets one at most so often: else two ends that each hold the other's for
/// wrong would never stop (RFC 5961, 7; Linux, `tcp_invalid_ratelimit`).
const ACK_INTERVAL_MS: u32 = 500;

/// The time that must pass before we reuse the sockets of a connection ourselves.
const OPEN_AFTER: Duration = Duration::from_secs(1);

/// The limits of TIME-WAIT: the time and the number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeWaitConfig {
    /// Twice the maximum segment lifetime. Default 60 s, as in Linux. RFC 9293, 3.4.2 proposes 4 minutes, and
    /// calls that a choice.
    pub wait: Duration,
    /// The most connections in TIME-WAIT, of 96 bytes each. One more ends the wait of the connection that has
    /// waited longest. Default 131 072.
    pub connections: usize,
}

impl Default for TimeWaitConfig {
    fn default() -> Self {
        Self { wait: Duration::from_secs(60), connections: 1 << 17 }
    }
}

/// The state of a connection that is kept when it enters TIME-WAIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remains {
    /// SND.NXT, after our FIN.
    pub snd_nxt: SeqNumber,
    /// RCV.NXT, after the peer's FIN.
    pub rcv_nxt: SeqNumber,
    /// The window as the header of our last ACK had it.
    pub window: u16,
    /// TS.Recent, if timestamps are in use (RFC 7323, 4.3).
    pub ts_recent: Option<u32>,
}

/// The reaction of TIME-WAIT to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The segment needs no answer.
    Nothing,
    /// The caller sends this header.
    Send(Header),
    /// The segment is a SYN that may begin a new incarnation (RFC 6191). The caller gives it to the listener,
    /// whose initial sequence number must follow `previous`. If the listener takes it, the caller
    /// [recycles](TimeWait::recycle) the old connection. Without a listener, the SYN is one to a closed port.
    Reopen {
        /// SND.NXT of the old connection.
        previous: SeqNumber,
    },
}

/// All connections in TIME-WAIT.
///
/// A wait ends after twice the maximum segment lifetime since it began, or since the peer's FIN came again;
/// not by a reset (RFC 1337, 4, fix 1), nor by anything else a stranger can send.
pub struct TimeWait {
    table: Table<Entry>,
    queue: Queue,
    numbers: InitialSequence,
}

#[derive(Clone, Copy)]
struct Entry {
    place: Place,
    snd_nxt: SeqNumber,
    rcv_nxt: SeqNumber,
    ts_recent: u32,
    /// The last answer that was not called for, in milliseconds.
    acked_at: u32,
    window: u16,
    timestamps: bool,
}

impl Waits for Entry {
    fn place(&self) -> &Place {
        &self.place
    }
    fn place_mut(&mut self) -> &mut Place {
        &mut self.place
    }
}

impl TimeWait {
    /// Creates a table without connections. `numbers` is what connections have their timestamps from.
    #[must_use]
    pub const fn new(config: TimeWaitConfig, secret: Secret, numbers: InitialSequence) -> Self {
        Self { table: Table::new(secret, config.connections), queue: Queue::new(config.wait), numbers }
    }

    /// Makes `record` follow which connections are in TIME-WAIT.
    pub(super) fn follow(&mut self, record: &Arc<dyn KnownEnds>) {
        self.table.follow(record);
    }

    /// Moves a connection to TIME-WAIT. It waits from now on. If there are too many, the one that has
    /// waited longest no longer waits.
    pub fn enter(&mut self, tuple: FourTuple, remains: &Remains, now: Instant, counters: &mut Counters) {
        self.enter_hashed(self.table.hash(&tuple), tuple, remains, now, counters);
    }

    /// Moves a connection to TIME-WAIT; the caller already has the hash of its tuple.
    pub(super) fn enter_hashed(
        &mut self,
        hash: TupleHash,
        tuple: FourTuple,
        remains: &Remains,
        now: Instant,
        counters: &mut Counters,
    ) {
        let entry = Entry {
            place: Place::default(),
            snd_nxt: remains.snd_nxt,
            rcv_nxt: remains.rcv_nxt,
            ts_recent: remains.ts_recent.unwrap_or_default(),
            acked_at: millis(now).wrapping_sub(ACK_INTERVAL_MS),
            window: remains.window,
            timestamps: remains.ts_recent.is_some(),
        };
        let inserted = self.table.insert_hashed(hash, tuple, entry).or_else(|refused| {
            self.make_room(refused, counters);
            self.table.insert_hashed(hash, tuple, entry)
        });
        if let Ok(id) = inserted {
            self.queue.push(&mut self.table, id, now);
        }
    }

    fn make_room(&mut self, refused: Refused, counters: &mut Counters) {
        match refused {
            Refused::Taken(old) => _ = self.forget(old),
            Refused::Full => {
                if let Some(oldest) = self.queue.first(&self.table) {
                    counters.count(Counter::TimeWaitOverflow);
                    self.forget(oldest);
                }
            }
        }
    }

    /// Returns the connection of a tuple, if it is in TIME-WAIT.
    #[must_use]
    pub fn find(&self, tuple: &FourTuple) -> Option<Id> {
        self.table.find(tuple)
    }

    /// Finds a connection whose tuple's hash the caller already has.
    pub(super) fn find_hashed(&self, hash: TupleHash, tuple: &FourTuple) -> Option<Id> {
        self.table.find_hashed(hash, tuple)
    }

    /// Handles a segment for a connection that is in TIME-WAIT.
    pub fn handle_segment(
        &mut self,
        id: Id,
        segment: &Segment<'_>,
        now: Instant,
        counters: &mut Counters,
    ) -> Answer {
        let Some(entry) = self.table.get_mut(id) else { return Answer::Nothing };
        let header = &segment.header;
        if header.flags.contains(Flags::RST) {
            counters.count(Counter::TimeWaitResets);
            return Answer::Nothing;
        }
        if header.flags.contains(Flags::SYN) {
            if entry.may_reopen(header) {
                return Answer::Reopen { previous: entry.snd_nxt };
            }
            return self.acknowledge_seldom(id, now, Counter::SynChallenge, counters);
        }
        // RFC 7323, 5.3: a duplicate from long ago.
        if entry.is_old(header) {
            return self.acknowledge_seldom(id, now, Counter::PawsEstab, counters);
        }
        // RFC 9293, 3.10.7.4, eighth: our ACK of the peer's FIN was lost. Acknowledge it again, and wait as
        // long again.
        if header.flags.contains(Flags::FIN) && segment.range().end == entry.rcv_nxt {
            self.queue.remove(&mut self.table, id);
            self.queue.push(&mut self.table, id, now);
            return self.acknowledgment(id, now).map_or(Answer::Nothing, Answer::Send);
        }
        if !header.flags.contains(Flags::ACK) {
            return Answer::Nothing;
        }
        if segment.seq_len() == 0 && header.seq == entry.rcv_nxt && header.ack.at_or_before(entry.snd_nxt) {
            entry.record_timestamp(header);
            return Answer::Nothing;
        }
        self.acknowledge_seldom(id, now, Counter::ChallengeAck, counters)
    }

    /// Returns the number behind which our initial sequence number must lie, if a SYN could have begun a new
    /// incarnation whose next segment is this one. The caller knows that such a SYN came: the segment brings
    /// back a SYN cookie, with which a device has answered in place of the listener.
    pub(crate) fn reopened_by(&self, id: Id, header: &Header) -> Option<SeqNumber> {
        let entry = self.table.get(id)?;
        let syn = Header { seq: header.seq - 1, flags: Flags::SYN, ..*header };
        entry.may_reopen(&syn).then_some(entry.snd_nxt)
    }

    /// Returns the number behind which our initial sequence number must lie, if we may open the connection
    /// again ourselves. The caller then [recycles](TimeWait::recycle) this entry.
    ///
    /// This is RFC 6191 seen from the other end, as Linux has it (`tcp_tw_reuse`): with timestamps the peer
    /// can tell the new SYN from an old segment, and old segments from those of the new connection (PAWS, RFC
    /// 7323, 5), if our clock has ticked meanwhile. A second is enough for any clock that RFC 7323, 5.4
    /// allows. A peer that never got our last ACK answers the SYN with an ACK, gets a reset for it, and takes
    /// the SYN when it comes again.
    #[must_use]
    pub fn may_open(&self, id: Id, now: Instant) -> Option<SeqNumber> {
        let entry = self.table.get(id).filter(|entry| entry.timestamps)?;
        (now.since(self.queue.since(&entry.place)) >= OPEN_AFTER).then_some(entry.snd_nxt)
    }

    /// Removes a connection, because the listener has taken the SYN of a new incarnation, or we are about
    /// to send one.
    pub fn recycle(&mut self, id: Id, counters: &mut Counters) {
        if self.forget(id) {
            counters.count(Counter::TwRecycled);
        }
    }

    /// Removes a connection whose wait is over and returns it. To be called until there is none.
    pub fn poll_expired(&mut self, now: Instant, counters: &mut Counters) -> Option<FourTuple> {
        let id = self.queue.due(&self.table, now)?;
        let tuple = self.table.tuple(id).copied();
        self.forget(id);
        counters.count(Counter::Tw);
        tuple
    }

    /// Returns when the next wait is over.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.queue.deadline(&self.table)
    }

    /// Returns the number of connections in TIME-WAIT.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether no connection is in TIME-WAIT.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    fn forget(&mut self, id: Id) -> bool {
        self.queue.remove(&mut self.table, id);
        self.table.remove(id).is_some()
    }

    /// Returns an ACK with our current numbers, unless the last one was sent just now.
    fn acknowledge_seldom(&mut self, id: Id, now: Instant, why: Counter, counters: &mut Counters) -> Answer {
        let Some(entry) = self.table.get_mut(id) else { return Answer::Nothing };
        if millis(now).wrapping_sub(entry.acked_at) < ACK_INTERVAL_MS {
            counters.count(Counter::AckSkippedTimeWait);
            return Answer::Nothing;
        }
        entry.acked_at = millis(now);
        counters.count(why);
        self.acknowledgment(id, now).map_or(Answer::Nothing, Answer::Send)
    }

    fn acknowledgment(&self, id: Id, now: Instant) -> Option<Header> {
        let (entry, tuple) = (self.table.get(id)?, self.table.tuple(id)?);
        let value = || self.numbers.timestamp(tuple, now);
        let timestamps = entry.timestamps.then(|| Timestamps { value: value(), echo: entry.ts_recent });
        Some(Header {
            seq: entry.snd_nxt,
            ack: entry.rcv_nxt,
            flags: Flags::ACK,
            window: entry.window,
            options: Options { timestamps, ..Options::default() },
            ..tuple.header()
        })
    }
}

impl Entry {
    /// Returns whether a SYN cannot be an old duplicate, by its timestamp or by its sequence number
    /// (RFC 6191, 2).
    fn may_reopen(&self, header: &Header) -> bool {
        if header.flags.intersects(Flags::ACK | Flags::FIN) {
            return false;
        }
        let seq_is_new = header.seq.at_or_after(self.rcv_nxt);
        match header.options.timestamps {
            Some(_) if !self.timestamps => true,
            Some(new) => self.ts_before(new.value) || new.value == self.ts_recent && seq_is_new,
            None => seq_is_new,
        }
    }

    fn is_old(&self, header: &Header) -> bool {
        let older = |new: Timestamps| new.value != self.ts_recent && !self.ts_before(new.value);
        self.timestamps && header.options.timestamps.is_some_and(older)
    }

    /// Records the timestamp of a segment that is in order (RFC 7323, 4.3).
    fn record_timestamp(&mut self, header: &Header) {
        let counts = |new: &Timestamps| self.timestamps && self.ts_before(new.value);
        if let Some(new) = header.options.timestamps.filter(counts) {
            self.ts_recent = new.value;
        }
    }

    /// Timestamps go round as sequence numbers do (RFC 7323, 5.2).
    const fn ts_before(&self, value: u32) -> bool {
        SeqNumber::new(self.ts_recent).before(SeqNumber::new(value))
    }
}

const fn millis(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

impl fmt::Debug for TimeWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeWait").field("table", &self.table).field("next", &self.next_deadline()).finish()
    }
}

#[cfg(test)]
mod tests;
