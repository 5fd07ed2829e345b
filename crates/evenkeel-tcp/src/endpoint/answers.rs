//! Answers on behalf of a listener, of TIME-WAIT, or of no connection, and the rate limit of resets among
//! them.

use alloc::collections::VecDeque;
use core::net::IpAddr;
use core::num::NonZeroU8;

use super::super::counters::{Counter, Counters};
use super::super::reply_limit::ReplyLimit;
use super::super::secret::Secret;
use super::super::segment::{Flags, Header, Segment};
use super::super::tuple::FourTuple;
use super::config::EndpointConfig;
use crate::time::Instant;

/// The largest number of answers that wait to be sent on behalf of no connection. Further segments are not
/// answered: the senders of so many can wait.
const ANSWERS_MAX: usize = 1_024;

/// The label of the [`ReplyLimit`] of resets, among others with the same secret.
const RESETS: u64 = 1;

/// The answers that wait to be sent.
#[derive(Debug)]
pub(super) struct Answers {
    queue: VecDeque<Answer>,
    /// The rate limit of resets: a sender that gets none retries, or gives up, as if there were no host.
    resets: ReplyLimit,
}

/// An answer on behalf of a listener, of TIME-WAIT, or of no connection.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) tuple: FourTuple,
    pub(super) header: Header,
    /// The TTL or hop limit of the listener; `None` for that of the host.
    pub(super) hop_limit: Option<NonZeroU8>,
    /// Whether the answer was sent before.
    pub(super) again: bool,
}

impl Answers {
    pub(super) fn new(config: &EndpointConfig, secret: Secret) -> Self {
        let resets = ReplyLimit::new(secret, RESETS, config.resets_per_s, config.reset_burst);
        Self { queue: VecDeque::new(), resets }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether there is room for another answer.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() < ANSWERS_MAX
    }

    /// Removes and returns the answer that has waited longest.
    pub(super) fn pop(&mut self) -> Option<Answer> {
        self.queue.pop_front()
    }

    /// Queues an answer that was sent before, if there is room.
    pub(super) fn repeat(&mut self, tuple: FourTuple, header: Header, hop_limit: Option<NonZeroU8>) {
        self.push(Answer { tuple, header, hop_limit, again: true });
    }

    /// Queues an answer, if there is room. A reset above its rate limit is only counted.
    pub(super) fn send(
        &mut self,
        tuple: FourTuple,
        header: Header,
        hop_limit: Option<NonZeroU8>,
        counters: &mut Counters,
        now: Instant,
    ) {
        if header.flags.contains(Flags::RST) && !self.resets.pass(&tuple.remote.addr, now) {
            return counters.count(Counter::ResetsSkipped);
        }
        self.push(Answer { tuple, header, hop_limit, again: false });
    }

    /// Answers a segment of no connection with a reset, unless it is one itself (RFC 9293, 3.10.7.1).
    pub(super) fn refuse(
        &mut self,
        tuple: FourTuple,
        segment: &Segment<'_>,
        counters: &mut Counters,
        now: Instant,
    ) {
        let header = &segment.header;
        if header.flags.contains(Flags::RST) {
            return;
        }
        let reset = if header.flags.contains(Flags::ACK) {
            Header { seq: header.ack, flags: Flags::RST, ..tuple.header() }
        } else {
            Header { ack: segment.range().end, flags: Flags::RST | Flags::ACK, ..tuple.header() }
        };
        self.send(tuple, reset, None, counters, now);
    }

    /// Returns whether a segment from `from` that belongs to no connection or listener would get no answer.
    /// Counts it if so.
    #[inline]
    pub(super) fn drops(&self, from: &IpAddr, flags: Flags, counters: &mut Counters, now: Instant) -> bool {
        let is_reset = flags.contains(Flags::RST);
        if !is_reset && self.resets.may_pass(from, now) {
            return false;
        }
        counters.count(Counter::InSegs);
        if !is_reset {
            counters.count(Counter::ResetsSkipped);
        }
        true
    }

    fn push(&mut self, answer: Answer) {
        if self.has_room() {
            self.queue.push_back(answer);
        }
    }
}
