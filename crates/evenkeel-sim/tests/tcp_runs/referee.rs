//! A referee that observes the segments and checks the rules that hold for any behaviour of the users.

use std::collections::BTreeMap;
use std::fmt;

use evenkeel_core::tcp::FourTuple;

use crate::early::Early;
use crate::program::Stream;

/// The state of one direction of a pair of sockets, as observed on the network.
#[derive(Debug, Default)]
struct Flow {
    /// The possible numbers of its first SYN: the last one, and with SYN cookies earlier ones.
    begun: Vec<u32>,
    /// The window shift that its SYN offered.
    shift: Option<u8>,
    /// Whether it offered different shifts: first with a SYN cookie, then without. Only the ends know which
    /// one counts.
    unclear: bool,
    /// The end of the peer's window, as far as it was announced.
    granted: Option<u32>,
    /// The end of our window, as far as it was announced.
    offered: Option<u32>,
    acked: Option<u32>,
    /// The end of the sent data.
    reached: Option<u32>,
}

/// The fields of a header that matter here.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    flags: u8,
    pub(crate) window: u16,
    pub(crate) options: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl fmt::Debug for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seq, ack, flags, window, .. } = self;
        let len = self.payload.len();
        write!(f, "flags {flags:#x}, seq {seq}, {len} bytes, ack {ack}, window {window}")
    }
}

const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

impl<'a> Seen<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        let word = |at: usize| bytes.get(at..at + 4)?.first_chunk().map(|word| u32::from_be_bytes(*word));
        let header = usize::from(*bytes.get(12)? >> 4) * 4;
        Some(Self {
            seq: word(4)?,
            ack: word(8)?,
            flags: *bytes.get(13)?,
            window: (word(12)? & 0xffff) as u16,
            options: bytes.get(20..header)?,
            payload: bytes.get(header..)?,
        })
    }

    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn end(&self) -> u32 {
        self.seq.wrapping_add(self.payload.len() as u32 + u32::from(self.has(SYN)) + u32::from(self.has(FIN)))
    }

    /// Returns the sequence number at which the segment's payload begins.
    fn text(&self) -> u32 {
        self.seq.wrapping_add(u32::from(self.has(SYN)))
    }

    fn shift(&self) -> Option<u8> {
        self.option(3)?.first().copied()
    }

    /// Returns the data of the option of this kind, if the segment has it.
    pub(crate) fn option(&self, kind: u8) -> Option<&'a [u8]> {
        let mut rest = self.options;
        loop {
            rest = match rest {
                [1, rest @ ..] => rest,
                [0, ..] | [] | [_] => return None,
                [this, len, ..] => {
                    let (option, rest) = rest.split_at_checked(usize::from(*len).max(2))?;
                    if *this == kind {
                        return option.get(2..);
                    }
                    rest
                }
            };
        }
    }
}

const fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// All directions of all connections, by sender.
#[derive(Debug, Default)]
pub(crate) struct Referee {
    flows: BTreeMap<FourTuple, Flow>,
    pub(crate) early: Early,
}

impl Referee {
    /// Observes a segment that leaves. Returns whether it has bytes that were never sent before. It belongs
    /// to one of `streams`, with the number of bytes that the sender's user has written so far.
    pub(crate) fn sent(
        &mut self,
        tuple: &FourTuple,
        bytes: &[u8],
        streams: &[(Stream, u64)],
    ) -> Result<bool, String> {
        let seen = Seen::new(bytes).ok_or("too short")?;
        let theirs = self.flows.get(&mirrored(tuple));
        let (peer_shift, unclear) = theirs.map_or((None, false), |flow| (flow.shift, flow.unclear));
        let flow = self.flows.entry(*tuple).or_default();
        if seen.has(RST) {
            // The sender's earlier announcements do not count any more. A SYN cookie may begin the connection
            // anew.
            (flow.offered, flow.acked) = (None, None);
            return Ok(false);
        }
        if seen.has(SYN) && !seen.has(ACK) {
            self.early.syn_sent(tuple, &seen, flow.begun.last() == Some(&seen.seq))?;
        }
        if seen.has(SYN) {
            let begins = !seen.has(ACK) && flow.begun.last() != Some(&seen.seq);
            if begins && !core::mem::take(flow).begun.is_empty() {
                // The tuple belongs to another connection now.
                self.flows.remove(&mirrored(tuple));
            }
            let flow = self.flows.entry(*tuple).or_default();
            if !flow.begun.contains(&seen.seq) {
                flow.unclear |= !flow.begun.is_empty() && flow.shift != seen.shift();
                flow.begun.push(seen.seq);
                flow.shift = seen.shift();
                (flow.offered, flow.acked) = (None, None);
            }
            if seen.has(ACK)
                && let Some(edge) = self.early.syn_ack_sent(tuple, &seen)?
            {
                flow.grant(edge);
            }
        }
        let flow = self.flows.entry(*tuple).or_default();
        let scale = flow.shift.filter(|_| peer_shift.is_some()).unwrap_or(0);
        if flow.begun.is_empty() {
            // The peer has begun another connection meanwhile, which replaced the state of this one.
            return Ok(false);
        }
        if !unclear && !flow.unclear {
            flow.check_acknowledgment(&seen, scale)?;
            flow.check_window(&seen)?;
        }
        flow.check_payload(&seen, streams)?;
        let is_new =
            !seen.payload.is_empty() && flow.reached.is_none_or(|reached| after(seen.end(), reached));
        if is_new {
            flow.reached = Some(seen.end());
        }
        Ok(is_new)
    }

    /// Records a segment that has arrived at its receiver. `tuple` is the receiver's.
    pub(crate) fn arrived(&mut self, tuple: &FourTuple, bytes: &[u8]) {
        let Some(seen) = Seen::new(bytes).filter(|seen| !seen.has(RST)) else { return };
        self.early.arrived(tuple, &seen);
        if !seen.has(ACK) {
            return;
        }
        let theirs = self.flows.get(&mirrored(tuple)).and_then(|flow| flow.shift);
        let Some(flow) = self.flows.get_mut(tuple) else { return };
        let scale = if seen.has(SYN) { 0 } else { theirs.filter(|_| flow.shift.is_some()).unwrap_or(0) };
        let edge = seen.ack.wrapping_add(u32::from(seen.window) << scale);
        flow.grant(edge);
    }
}

impl Flow {
    /// Records that the peer takes bytes up to `edge`.
    fn grant(&mut self, edge: u32) {
        if self.granted.is_none_or(|granted| after(edge, granted)) {
            self.granted = Some(edge);
        }
    }

    /// Checks that an acknowledgment covers at least as much as earlier ones, and that the window's end
    /// does not move back (RFC 9293, 3.8.6: "shrinking the window" is discouraged).
    fn check_acknowledgment(&mut self, seen: &Seen<'_>, scale: u8) -> Result<(), String> {
        if !seen.has(ACK) {
            return Ok(());
        }
        if seen.has(SYN) {
            // A SYN that is repeated after the end may get the SYN cookie of the first.
            self.acked.get_or_insert(seen.ack);
            return Ok(());
        }
        if self.acked.is_some_and(|acked| after(acked, seen.ack)) {
            return Err(format!("acknowledges less than before: {seen:?}, {self:?}"));
        }
        self.acked = Some(seen.ack);
        let edge = seen.ack.wrapping_add(u32::from(seen.window) << scale);
        let coarse = (1u32 << scale) - 1;
        if self.offered.is_some_and(|offered| after(offered, edge.wrapping_add(coarse))) {
            return Err(format!("takes back some of its window: {seen:?}, {self:?}"));
        }
        self.offered =
            Some(self.offered.map_or(edge, |offered| if after(offered, edge) { offered } else { edge }));
        Ok(())
    }

    fn check_window(&self, seen: &Seen<'_>) -> Result<(), String> {
        if seen.payload.is_empty() && !seen.has(FIN) || seen.has(SYN) {
            return Ok(());
        }
        if self.granted.is_none_or(|granted| after(seen.end(), granted)) {
            return Err(format!("sends beyond the peer's window: {seen:?}, {self:?}"));
        }
        Ok(())
    }

    fn check_payload(&self, seen: &Seen<'_>, streams: &[(Stream, u64)]) -> Result<(), String> {
        if seen.payload.is_empty() || streams.is_empty() {
            return Ok(());
        }
        let right = self.begun.iter().any(|begun| {
            let place = u64::from(seen.text().wrapping_sub(*begun).wrapping_sub(1));
            let end = place + seen.payload.len() as u64;
            streams.iter().any(|(stream, written)| end <= *written && stream.matches(place, seen.payload))
        });
        if right { Ok(()) } else { Err(format!("sends what was never written: {seen:?}, {self:?}")) }
    }
}

/// Describes a segment for a failure report.
pub(crate) fn describe(bytes: &[u8]) -> String {
    Seen::new(bytes).map_or_else(String::new, |seen| format!("{seen:?}, options {:02x?}", seen.options))
}

pub(crate) fn mirrored(tuple: &FourTuple) -> FourTuple {
    FourTuple::new(tuple.remote, tuple.local)
}
