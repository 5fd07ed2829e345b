//! The network between our endpoint and the peer. It may lose, duplicate, delay, reorder and mark, until it
//! becomes calm.

use std::collections::BTreeMap;

use evenkeel_tcp::Ecn;
use evenkeel_tcp::time::{Duration, Instant};

use super::choices::Choices;
use super::wire::Seg;

/// The conditions of one direction while the network is rough.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
    pub(crate) loss: u64,
    pub(crate) duplication: u64,
    pub(crate) reordering: u64,
    pub(crate) reordering_delay: Duration,
    pub(crate) mark: u64,
}

impl Way {
    /// Returns the longest time that anything is under way.
    pub(crate) fn longest(&self) -> Duration {
        self.delay + self.jitter + if self.reordering > 0 { self.reordering_delay } else { Duration::ZERO }
    }
}

/// A packet on its way.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    ToUs(Seg, Ecn),
    ToPeer(Seg, Ecn),
    /// A report that our segment with this number does not fit, and how many bytes after the 20 of the header
    /// would.
    TooBig(u32, u16),
}

/// The simulated network between us and the peer, with both directions.
#[derive(Debug)]
pub(crate) struct Network {
    /// The directions: from us to the peer, and back.
    pub(crate) ways: [Way; 2],
    pub(crate) calm: bool,
    /// The most bytes of an IP packet from us that pass.
    pub(crate) mtu: usize,
    /// Whether packets that are too big are reported to us.
    pub(crate) reports: bool,
    queue: BTreeMap<(Instant, u64), Item>,
    number: u64,
    /// The time before which only reordered packets arrive.
    order: [Instant; 2],
}

impl Network {
    pub(crate) const fn new(ways: [Way; 2]) -> Self {
        Self {
            ways,
            calm: false,
            mtu: usize::MAX,
            reports: true,
            queue: BTreeMap::new(),
            number: 0,
            order: [Instant::ZERO; 2],
        }
    }

    /// Returns when the next packet arrives.
    pub(crate) fn next(&self) -> Instant {
        self.queue.first_key_value().map_or(Instant::NEVER, |((at, _), _)| *at)
    }

    /// Takes a packet that has arrived.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Item> {
        let entry = self.queue.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// Sends a segment of ours, of this many bytes with all headers.
    pub(crate) fn send_to_peer(
        &mut self,
        seg: Seg,
        ecn: Ecn,
        len: usize,
        now: Instant,
        choices: &mut Choices<'_>,
    ) {
        if len > self.mtu {
            if self.reports {
                let at = now + self.ways[0].delay;
                self.push(at, Item::TooBig(seg.seq, (self.mtu - 40) as u16));
            }
            return;
        }
        self.send(0, Item::ToPeer(seg, ecn), now, choices);
    }

    /// Sends a segment of the peer's.
    pub(crate) fn send_to_us(&mut self, seg: Seg, now: Instant, choices: &mut Choices<'_>) {
        self.send(1, Item::ToUs(seg, Ecn::Capable), now, choices);
    }

    fn send(&mut self, way: usize, item: Item, now: Instant, choices: &mut Choices<'_>) {
        let Way { delay, jitter, loss, duplication, reordering, reordering_delay, mark } = self.ways[way];
        if self.calm {
            let at = self.order[way].max(now + delay);
            return self.push_in_order(way, at, item);
        }
        if choices.chance(loss) {
            return;
        }
        let item = if choices.chance(mark) { marked(item) } else { item };
        let copies = if choices.chance(duplication) { 2 } else { 1 };
        for _ in 0..copies {
            let late = Duration::from_micros(choices.below(jitter.as_micros() as u64 + 1));
            let at = now + delay + late;
            if choices.chance(reordering) {
                let more = Duration::from_micros(choices.below(reordering_delay.as_micros() as u64 + 1));
                self.push(at + more, item.clone());
            } else {
                self.push_in_order(way, self.order[way].max(at), item.clone());
            }
        }
    }

    fn push_in_order(&mut self, way: usize, at: Instant, item: Item) {
        self.order[way] = at;
        self.push(at, item);
    }

    fn push(&mut self, at: Instant, item: Item) {
        self.number += 1;
        self.queue.insert((at, self.number), item);
    }
}

fn marked(item: Item) -> Item {
    match item {
        Item::ToUs(seg, Ecn::Capable) => Item::ToUs(seg, Ecn::Experienced),
        Item::ToPeer(seg, Ecn::Capable) => Item::ToPeer(seg, Ecn::Experienced),
        other => other,
    }
}
