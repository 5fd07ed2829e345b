//! Segments that were given up because their next hop does not answer.

use std::collections::VecDeque;

use crate::stack::icmp::quote::quote;
use crate::tcp::endpoint::Quote;

/// The segments of this host that were given up because their next hop does not answer, until TCP takes them.
#[derive(Debug)]
pub(crate) struct Unresolved {
    segments: VecDeque<Quote>,
    limit: usize,
}

impl Unresolved {
    /// Creates an empty queue of at most `limit` segments.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { segments: VecDeque::new(), limit }
    }

    /// Records that a packet of this host is given up. Packets that are no segments are ignored, and so are
    /// those that find the queue full.
    pub(crate) fn record(&mut self, packet: &[u8]) {
        let quote = quote(packet);
        if self.segments.len() < self.limit {
            self.segments.extend(quote);
        }
    }

    /// Takes the oldest segment.
    pub(crate) fn next(&mut self) -> Option<Quote> {
        self.segments.pop_front()
    }
}
