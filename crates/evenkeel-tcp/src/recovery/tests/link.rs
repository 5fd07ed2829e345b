//! Senders and receivers over one link, in virtual time. What becomes of each packet the test decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::properties::check;
use crate::recovery::{AckInfo, Expired, Recovery, RecoveryConfig};
use crate::time::{Duration, Instant};
use crate::{SeqNumber, SeqRange};

pub(super) const MSS: u32 = 1000;
const ISS: SeqNumber = SeqNumber::new(u32::MAX - 100_000);

/// The simulated path that all flows share.
#[derive(Debug, Clone)]
pub(super) struct Path {
    /// The round trip without queueing.
    pub(super) rtt: Duration,
    /// The time that the bottleneck takes for a segment; zero if there is no bottleneck.
    pub(super) segment_time: Duration,
    /// The maximum number of segments that wait at the bottleneck.
    pub(super) queue: u32,
}

/// The behaviour of both ends of a flow.
#[derive(Debug, Clone)]
pub(super) struct Ends {
    pub(super) config: RecoveryConfig,
    pub(super) sack: bool,
    pub(super) timestamps: bool,
    /// In-order segments are acknowledged in pairs, or after 40 ms.
    pub(super) delayed_acks: bool,
}

impl Default for Ends {
    fn default() -> Self {
        let config = RecoveryConfig { hystart: false, ..RecoveryConfig::default() };
        Self { config, sack: true, timestamps: false, delayed_acks: false }
    }
}

/// The treatment of a packet by the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fortune {
    Arrives,
    Lost,
    Late(Duration),
    Twice,
}

/// A packet that asks for its fortune.
#[derive(Debug, Clone, Copy)]
pub(super) enum Packet {
    /// The `number`th data packet of all flows: segment `segment` of its flow.
    Data { number: u64, segment: u64, again: bool },
    /// An acknowledgment.
    Ack,
}

enum Event {
    Data { flow: usize, start: u64, end: u64, sent: Instant },
    Ack { flow: usize, ack: u64, sack: Vec<(u64, u64)>, echo: Instant },
    DelayedAck { flow: usize },
}

pub(super) struct Flow {
    pub(super) recovery: Recovery,
    receiver: Receiver,
    /// Bytes sent for the first time, and how many there are to send.
    sent: u64,
    total: u64,
    acked: u64,
}

#[derive(Default)]
struct Receiver {
    next: u64,
    /// Beyond `next`: start and end.
    early: BTreeMap<u64, u64>,
    /// Starts of early blocks, the one that grew last first.
    recent: Vec<u64>,
    /// In-order segments not acknowledged yet.
    unacknowledged: u32,
    echo: Instant,
    delayed_until: Option<Instant>,
}

pub(super) struct World<F> {
    path: Path,
    ends: Ends,
    pub(super) now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    serial: u64,
    data: u64,
    fortune: F,
    pub(super) flows: Vec<Flow>,
    /// The time at which the bottleneck has sent all that waits for it.
    free_at: Instant,
    pub(super) overflows: u64,
    /// Counters are recounted after every step: dear with large windows.
    pub(super) checked: bool,
}

impl<F: FnMut(Packet) -> Fortune> World<F> {
    /// Creates `flows` established flows at time zero, each with `segments` segments to send.
    pub(super) fn new(path: Path, ends: Ends, flows: usize, segments: u64, fortune: F) -> Self {
        let config = Arc::new(ends.config.clone());
        let flow = |_| {
            let mut recovery = Recovery::new(&config, ISS, 1000);
            recovery.set_sack_permitted(ends.sack);
            recovery.on_sent(SeqRange::at(ISS, 1), false, Instant::ZERO);
            recovery.on_ack(&AckInfo {
                ack: ISS + 1,
                sack: &[],
                window_update: false,
                payload: false,
                rtt_echo: None,
                ece: false,
                unsent: true,
                now: Instant::ZERO + path.rtt,
            });
            Flow {
                recovery,
                receiver: Receiver::default(),
                sent: 0,
                total: segments * u64::from(MSS),
                acked: 0,
            }
        };
        Self {
            flows: (0..flows).map(flow).collect(),
            now: Instant::ZERO + path.rtt,
            path,
            ends,
            events: BTreeMap::new(),
            serial: 0,
            data: 0,
            fortune,
            free_at: Instant::ZERO,
            overflows: 0,
            checked: false,
        }
    }

    /// Runs until all is acknowledged, or until `limit`. Returns whether all is.
    pub(super) fn run(&mut self, limit: Instant) -> bool {
        (0..self.flows.len()).for_each(|flow| self.pump(flow));
        while self.flows.iter().any(|flow| flow.acked < flow.total) {
            let event = self.events.first_key_value().map(|(&(at, _), _)| at);
            let timer = (0..self.flows.len())
                .filter_map(|flow| Some((self.flows[flow].recovery.deadline()?, flow)))
                .min();
            let next = event
                .into_iter()
                .chain(timer.map(|(at, _)| at))
                .min()
                .expect("something is on its way, or a timer runs");
            if next > limit {
                self.now = limit;
                return false;
            }
            self.now = self.now.max(next);
            match timer {
                Some((at, flow)) if event.is_none_or(|event| at < event) => self.expire(flow),
                _ => self.deliver(),
            }
        }
        true
    }

    fn expire(&mut self, flow: usize) {
        let sender = &mut self.flows[flow];
        if sender.recovery.on_deadline(self.now) == Expired::TailLossProbe {
            if sender.sent < sender.total {
                self.send_new(flow);
            } else if let Some(range) = sender.recovery.probe_range(1000, number(sender.sent)) {
                self.send_again(flow, range);
            }
        }
        self.pump(flow);
    }

    fn pump(&mut self, flow: usize) {
        loop {
            let sender = &self.flows[flow];
            if self.checked {
                check(&sender.recovery);
            }
            if sender.recovery.send_allowance() < MSS {
                break;
            }
            if let Some(range) = sender.recovery.next_retransmission(1000) {
                self.send_again(flow, range);
            } else if sender.sent < sender.total {
                self.send_new(flow);
            } else {
                break;
            }
            let sender = &self.flows[flow].recovery;
            assert!(sender.in_flight() <= sender.info().cwnd, "no more than the window");
        }
    }

    fn send_new(&mut self, flow: usize) {
        let sender = &mut self.flows[flow];
        let start = sender.sent;
        let end = (start + u64::from(MSS)).min(sender.total);
        sender.sent = end;
        let range = SeqRange::new(number(start), number(end));
        sender.recovery.on_sent(range, false, self.now);
        self.transmit(flow, start, end, false);
    }

    fn send_again(&mut self, flow: usize, range: SeqRange) {
        let sender = &mut self.flows[flow];
        let start = sender.acked + u64::from(range.start.since(number(sender.acked)));
        sender.recovery.on_sent(range, true, self.now);
        self.transmit(flow, start, start + u64::from(range.len()), true);
    }

    fn transmit(&mut self, flow: usize, start: u64, end: u64, again: bool) {
        self.data += 1;
        let segment = start / u64::from(MSS);
        let fortune = (self.fortune)(Packet::Data { number: self.data, segment, again });
        if fortune == Fortune::Lost {
            return;
        }
        let waiting = self.free_at.since(self.now);
        if waiting > self.path.segment_time * self.path.queue {
            self.overflows += 1;
            return;
        }
        self.free_at = self.free_at.max(self.now) + self.path.segment_time;
        let at = self.free_at.max(self.now) + self.path.rtt / 2;
        let sent = self.now;
        let packet = || Event::Data { flow, start, end, sent };
        match fortune {
            Fortune::Late(late) => self.schedule(at + late, packet()),
            Fortune::Twice => {
                self.schedule(at, packet());
                self.schedule(at, packet());
            }
            Fortune::Arrives | Fortune::Lost => self.schedule(at, packet()),
        }
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.serial += 1;
        self.events.insert((at, self.serial), event);
    }

    fn deliver(&mut self) {
        match self.events.pop_first().unwrap().1 {
            Event::Data { flow, start, end, sent } => {
                let receiver = &mut self.flows[flow].receiver;
                let (at_once, dsack) = receiver.take(start, end, sent);
                if at_once || !self.ends.delayed_acks {
                    self.acknowledge(flow, dsack);
                } else if receiver.delayed_until.is_none() {
                    let at = self.now + Duration::from_millis(40);
                    receiver.delayed_until = Some(at);
                    self.schedule(at, Event::DelayedAck { flow });
                }
            }
            Event::DelayedAck { flow } => {
                if self.flows[flow].receiver.delayed_until == Some(self.now) {
                    self.acknowledge(flow, None);
                }
            }
            Event::Ack { flow, ack, sack, echo } => self.on_ack(flow, ack, &sack, echo),
        }
    }

    fn acknowledge(&mut self, flow: usize, dsack: Option<(u64, u64)>) {
        let receiver = &mut self.flows[flow].receiver;
        receiver.unacknowledged = 0;
        receiver.delayed_until = None;
        let blocks = if self.ends.sack { receiver.blocks(dsack) } else { Vec::new() };
        let (ack, echo) = (receiver.next, receiver.echo);
        let at = self.now + self.path.rtt / 2;
        let late = match (self.fortune)(Packet::Ack) {
            Fortune::Lost => return,
            Fortune::Late(late) => late,
            Fortune::Arrives | Fortune::Twice => Duration::ZERO,
        };
        self.schedule(at + late, Event::Ack { flow, ack, sack: blocks, echo });
    }

    fn on_ack(&mut self, flow: usize, ack: u64, sack: &[(u64, u64)], echo: Instant) {
        let sender = &mut self.flows[flow];
        let blocks: Vec<SeqRange> =
            sack.iter().map(|&(start, end)| SeqRange::new(number(start), number(end))).collect();
        // As coarse as the timestamp clock: milliseconds.
        let age = Duration::from_millis(self.now.as_nanos() / 1_000_000 - echo.as_nanos() / 1_000_000);
        sender.recovery.on_ack(&AckInfo {
            ack: number(ack),
            sack: &blocks,
            window_update: false,
            payload: false,
            rtt_echo: self.ends.timestamps.then_some(age),
            ece: false,
            unsent: sender.sent < sender.total,
            now: self.now,
        });
        sender.acked = sender.acked.max(ack);
        assert!(sender.acked <= sender.receiver.next, "what is acknowledged has arrived");
        self.pump(flow);
    }

    /// Returns the number of bytes acknowledged, by flow.
    pub(super) fn acked(&self) -> Vec<u64> {
        self.flows.iter().map(|flow| flow.acked).collect()
    }
}

impl Receiver {
    /// Returns whether to acknowledge at once, and the range if it was there already.
    fn take(&mut self, start: u64, end: u64, sent: Instant) -> (bool, Option<(u64, u64)>) {
        if start <= self.next {
            self.echo = sent.max(self.echo);
        }
        if end <= self.next || self.early.range(..=start).next_back().is_some_and(|(_, &to)| to >= end) {
            return (true, Some((start, end)));
        }
        let filled = !self.early.is_empty();
        let (mut from, mut to) = (start, end);
        while let Some((&first, &last)) =
            self.early.range(..=to).next_back().filter(|(_, last)| **last >= from)
        {
            self.early.remove(&first);
            self.recent.retain(|&block| block != first);
            from = from.min(first);
            to = to.max(last);
        }
        if from <= self.next {
            self.next = to;
            self.unacknowledged += 1;
            return (filled || self.unacknowledged >= 2, None);
        }
        self.early.insert(from, to);
        self.recent.insert(0, from);
        (true, None)
    }

    /// Returns the blocks of the SACK option: the range that arrived twice, then the block that grew last,
    /// then others (RFC 2018, 4; RFC 2883, 4).
    fn blocks(&self, dsack: Option<(u64, u64)>) -> Vec<(u64, u64)> {
        let early = self.recent.iter().map(|start| (*start, self.early[start]));
        match dsack {
            // A duplicate within an early block is followed by that block.
            Some((start, end)) if start > self.next => {
                let around = early.clone().find(|&(from, to)| from <= start && end <= to);
                Some((start, end))
                    .into_iter()
                    .chain(around)
                    .chain(early.filter(|block| Some(*block) != around))
                    .take(3)
                    .collect()
            }
            _ => dsack.into_iter().chain(early).take(3).collect(),
        }
    }
}

/// Returns the sequence number of a byte of data.
#[expect(clippy::cast_possible_truncation, reason = "sequence numbers wrap")]
fn number(byte: u64) -> SeqNumber {
    ISS + 1 + byte as u32
}
