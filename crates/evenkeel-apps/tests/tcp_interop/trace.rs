//! A check of each of our segments in a capture, which proves right what the other checks excuse.

use std::collections::BTreeMap;
use std::path::Path;

use crate::kernel::tshark;

/// Our segments in a capture that are right but look wrong to the other checks.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Retransmitted SYN-ACKs. Their peer may have received the first.
    pub(crate) syn_acks_again: u64,
    /// Segments that tshark reports as retransmitted or out of order.
    pub(crate) retransmissions: u64,
}

const FIELDS: [&str; 13] = [
    "ip.src",
    "ipv6.src",
    "tcp.stream",
    "frame.time_relative",
    "tcp.flags",
    "tcp.seq",
    "tcp.len",
    "tcp.ack",
    "tcp.options.timestamp.tsval",
    "tcp.options.sack_le",
    "tcp.options.sack_re",
    "tcp.analysis.retransmission",
    "tcp.analysis.out_of_order",
];

const FIN: u16 = 0x01;
const SYN: u16 = 0x02;
const RST: u16 = 0x04;
const ACK: u16 = 0x10;

/// A segment in tshark's output. Sequence numbers count from the SYN, and do not wrap.
struct Segment<'a> {
    ours: bool,
    stream: &'a str,
    at_secs: f64,
    flags: u16,
    seq: u64,
    len: u64,
    ack: u64,
    clock: Option<u32>,
    sack: Vec<(u64, u64)>,
    /// Whether tshark reports the segment as retransmitted or out of order.
    again: bool,
    line: &'a str,
}

impl<'a> Segment<'a> {
    fn parse(line: &'a str) -> Self {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |index: usize| fields[index].parse().unwrap_or_else(|_| panic!("{line}"));
        let numbers = |index: usize| -> Vec<u64> {
            let all = fields[index].split(',').filter(|text| !text.is_empty());
            all.map(|text| text.parse().unwrap()).collect()
        };
        Self {
            ours: fields[0] == "10.77.0.2" || fields[1] == "fd77::2",
            stream: fields[2],
            at_secs: fields[3].parse().unwrap(),
            flags: u16::from_str_radix(fields[4].trim_start_matches("0x"), 16).unwrap(),
            seq: number(5),
            len: number(6),
            ack: number(7),
            clock: numbers(8).first().map(|&clock| clock as u32),
            sack: numbers(9).into_iter().zip(numbers(10)).collect(),
            again: !fields[11].is_empty() || !fields[12].is_empty(),
            line,
        }
    }

    /// Returns the sequence number of the first byte of data. A SYN may have data (RFC 7413).
    fn start(&self) -> u64 {
        self.seq + u64::from(self.has(SYN))
    }

    fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// Returns the sequence number of the FIN, if the segment has one.
    fn fin(&self) -> Option<u64> {
        self.has(FIN).then_some(self.start() + self.len)
    }

    /// Returns the bytes that the segment reports to have come twice. They are the first block, if it is
    /// acknowledged already or lies within the second (RFC 2883, 4).
    fn dsack(&self) -> Option<(u64, u64)> {
        let &(start, end) = self.sack.first()?;
        let within_second = self.sack.get(1).is_some_and(|&(from, to)| from <= start && end <= to);
        (end <= self.ack || within_second).then_some((start, end))
    }
}

/// Ranges of bytes of a stream.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Returns the parts of these ranges that lie between `start` and `end`.
    fn within(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut parts: Vec<_> = self.0.range(..end).rev().take_while(|&(_, &to)| to > start).collect();
        parts.reverse();
        parts.into_iter().map(|(&from, &to)| (from.max(start), to.min(end))).collect()
    }

    fn insert(&mut self, start: u64, end: u64) {
        let touched: Vec<_> = self.0.range(..=end).rev().take_while(|&(_, &to)| to >= start).collect();
        let from = touched.last().map_or(start, |&(&from, _)| from.min(start));
        let to = touched.first().map_or(end, |&(_, &to)| to.max(end));
        self.0.retain(|&at, _| at < from || at > to);
        self.0.insert(from, to);
    }
}

/// One side of a connection.
#[derive(Debug, Default)]
struct Side {
    fin: Option<u64>,
    acked: u64,
    clock: Option<u32>,
}

/// The state of a connection so far.
#[derive(Debug, Default)]
struct Conversation {
    us: Side,
    them: Side,
    came: Ranges,
    came_twice: Ranges,
    /// The time at which our last SYN-ACK left, in seconds.
    syn_ack_secs: Option<f64>,
    /// Whether the peer has sent something besides SYNs.
    answered: bool,
    /// Whether either side has sent a SYN.
    opened: bool,
}

impl Conversation {
    fn see(&mut self, segment: &Segment<'_>, findings: &mut Findings) {
        self.opened |= segment.has(SYN);
        if segment.ours {
            self.see_ours(segment, findings);
        } else {
            self.see_theirs(segment);
        }
        let side = if segment.ours { &mut self.us } else { &mut self.them };
        side.fin = side.fin.or(segment.fin());
        if segment.has(ACK) {
            side.acked = side.acked.max(segment.ack);
        }
    }

    fn see_theirs(&mut self, segment: &Segment<'_>) {
        self.answered |= !segment.has(SYN);
        let (start, end) = (segment.start(), segment.start() + segment.len);
        if segment.len > 0 {
            self.came.within(start, end).iter().for_each(|&(from, to)| self.came_twice.insert(from, to));
            self.came.insert(start, end);
        }
    }

    fn see_ours(&mut self, segment: &Segment<'_>, findings: &mut Findings) {
        findings.retransmissions += u64::from(segment.again);
        if segment.has(RST) {
            // A capture begins with its host. An earlier connection belonged to a previous host, and this
            // host does not have it.
            let unknown = !self.opened;
            return assert!(
                unknown || self.is_over(),
                "a reset for a connection that is not over: {}",
                segment.line
            );
        }
        if let (Some(last), Some(clock)) = (self.us.clock, segment.clock) {
            assert!(clock.wrapping_sub(last) as i32 >= 0, "a timestamp before {last}: {}", segment.line);
        }
        self.us.clock = segment.clock.or(self.us.clock);
        if let Some((start, end)) = segment.dsack() {
            let proven = start < end && self.came_twice.within(start, end) == [(start, end)];
            assert!(proven, "this has not come twice: {}", segment.line);
        }
        if segment.has(SYN | ACK)
            && let Some(last) = self.syn_ack_secs.replace(segment.at_secs)
        {
            assert!(!self.answered, "a SYN-ACK for who has it: {}", segment.line);
            // A SYN-ACK is retransmitted by the timer or for a repeated SYN, but not for both.
            assert!(segment.at_secs - last > 0.4, "a SYN-ACK soon after another: {}", segment.line);
            findings.syn_acks_again += 1;
        }
    }

    /// Returns whether both sides have sent all, with acknowledgment: later segments are late.
    fn is_over(&self) -> bool {
        let acknowledged = |side: &Side, by: &Side| side.fin.is_some_and(|fin| by.acked > fin);
        acknowledged(&self.us, &self.them) && acknowledged(&self.them, &self.us)
    }
}

/// Reads a capture of our end. Asserts that timestamps never go back, that D-SACKs are true, and that resets
/// are for connections that are over, or that a previous host had.
pub(crate) fn read(capture: &Path) -> Findings {
    let fields = FIELDS.map(|field| format!("-e {field}")).join(" ");
    // Only TCP is dissected: guessing the meaning of its bytes takes minutes.
    let options = format!("-o tcp.desegment_tcp_streams:false -T fields {fields} -Y");
    let said = tshark(&format!("-r {} {options}", capture.display()), "tcp");
    let (mut conversations, mut findings) = (BTreeMap::<&str, Conversation>::new(), Findings::default());
    for line in said.lines() {
        let segment = Segment::parse(line);
        conversations.entry(segment.stream).or_default().see(&segment, &mut findings);
    }
    findings
}
