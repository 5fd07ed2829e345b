//! Segments in and out, passing time, and notification of programs.

use super::super::state::Net;
use super::Tcp;
use crate::context::Cx;
use crate::link::{Links, OUTPUT_PKTS, OutputRoom};
use crate::stack::{IcmpError, IcmpErrorKind, Io, Stack, TcpPacket, segment_max};
use crate::tcp::Flags;
use crate::tcp::endpoint::{EgressSet, Fate, Packet, Quote};
use crate::tcp::table::Id;
use crate::time::Instant;
use crate::timed::Timed;
use crate::work::Work;

/// Segments that one unit of work sends at most, so that nothing waits long for it.
const SEGMENTS_PER_UNIT: usize = OUTPUT_PKTS / 2;

/// The way of segments between IP and TCP.
pub(in crate::net) struct Segments<'a> {
    tcp: &'a mut Tcp,
    stack: &'a mut Timed<Stack>,
    links: &'a mut Links,
    cx: Cx<'a>,
}

impl Segments<'_> {
    /// Processes a segment that was in the channel of the connection `expected`, or in no connection's.
    pub(in crate::net) fn input(&mut self, packet: TcpPacket, expected: Option<Id>) {
        self.cx.work.add(Work::Segment);
        let of = Packet {
            source: packet.source,
            destination: packet.destination,
            ecn: packet.ecn,
            mss: self.stack.mss_by(packet.interface, &packet.source),
        };
        let bytes = packet.bytes();
        if opens(&bytes) {
            self.cx.work.add(Work::Open);
        }
        let fate = self.tcp.endpoint.input_expected(expected, &bytes, &of, self.cx.now);
        self.tcp.pending = true;
        match fate {
            Fate::Data => packet.deliver(self.cx.ledger, self.cx.pool),
            Fate::Control => packet.consume(self.cx.ledger, self.cx.pool),
            Fate::Dropped(reason) => packet.drop(reason, self.cx.ledger, self.cx.pool),
        }
    }

    /// Passes an ICMP error about a segment of this host to its connection.
    pub(in crate::net) fn input_icmp_error(&mut self, error: IcmpError) {
        let IcmpError { quote: Quote { tuple, seq }, kind } = error;
        self.tcp.pending = true;
        match kind {
            IcmpErrorKind::Unreachable { hard } => self.tcp.endpoint.unreachable(&tuple, seq, hard),
            IcmpErrorKind::TooBig { mtu } => {
                let mss = segment_max(mtu, &tuple.remote.addr);
                if self.tcp.endpoint.packet_too_big(&tuple, seq, mss, self.cx.now) {
                    self.stack.learn_path_mtu(tuple.remote.addr, mtu, self.cx.now);
                }
            }
        }
    }

    /// Reports to TCP the segments that were given up because their next hop does not answer.
    pub(in crate::net) fn take_unresolved(&mut self) {
        while let Some(Quote { tuple, seq }) = self.stack.next_unresolved() {
            self.tcp.endpoint.next_hop_silent(&tuple, seq);
            self.tcp.pending = true;
        }
    }

    /// Sends waiting segments by interfaces that have room. Returns whether none is left. TCP keeps its
    /// segments until they are acknowledged, so they can wait.
    pub(super) fn send(&mut self) -> bool {
        let mut left_pkts = 0;
        for _ in 0..SEGMENTS_PER_UNIT {
            if left_pkts == 0 {
                let OutputRoom { full, pkts } = self.links.output_room();
                self.tcp.endpoint.set_full(full);
                left_pkts = pkts;
            }
            let Some(left) = left_pkts.checked_sub(1) else { break };
            left_pkts = left;
            let Some(mut frame) = self.cx.pool.take() else { return false };
            let room = frame.capacity();
            let sent = if frame.resize(room) {
                self.tcp.endpoint.poll_transmit(self.cx.now, &**self.stack, frame.bytes_mut())
            } else {
                None
            };
            let Some(sent) = sent else {
                self.cx.pool.recycle(frame);
                break;
            };
            // It was written to this very frame, so it fits.
            let _ = frame.resize(sent.len);
            self.cx.work.add(Work::SegmentOutput);
            // A segment that cannot be sent is lost, as in the network: it is counted, and sent again.
            let Cx { now, pool, ledger, .. } = &mut self.cx;
            let mut io = Io { now: *now, pool, ledger, out: self.links.out() };
            let _ = self.stack.send_segment(frame, &sent, &mut io);
        }
        !self.tcp.endpoint.may_transmit(EgressSet::NONE, &**self.stack)
    }
}

impl Net {
    /// Returns the way of segments, in and out.
    #[inline(always)]
    pub(in crate::net) fn segments(&mut self, now: Instant) -> Segments<'_> {
        let Self { tcp, stack, links, pool, ledger, work, poller, .. } = self;
        Segments { tcp, stack, links, cx: Cx { now, pool, ledger, work, poller } }
    }

    /// Returns whether TCP has segments left to send, because the last work item had no time for them or
    /// because their interface has room only now.
    pub(crate) fn has_segments_to_send(&self) -> bool {
        self.tcp.pending && self.tcp.held == 0 && {
            let OutputRoom { full, pkts } = self.links.output_room();
            pkts > 0 && self.tcp.endpoint.may_transmit(full, &*self.stack)
        }
    }

    /// Notifies programs of the events that TCP reported in this work item. To be called at the end of
    /// every work item.
    pub(crate) fn notify_programs(&mut self) {
        if !self.tcp.pending {
            return;
        }
        self.activation().tell_events();
        self.activation().resume_listeners();
    }

    /// Segments leave that follow from this unit. To be called at the end of every unit, or of a later one if
    /// they are [held](super::Tcp::hold_segments).
    pub(crate) fn send_tcp(&mut self, now: Instant) {
        if !self.tcp.pending {
            return;
        }
        self.tcp.held = 0;
        self.tcp.pending = !self.segments(now).send();
        // With its last acknowledgment a connection is over, and nothing else may ever happen to it.
        self.activation().tell_events();
        while let Some((id, tuple)) = self.tcp.endpoint.poll_ended() {
            self.release_ring(id, tuple);
        }
        self.tcp.look_ahead();
    }
}

/// Returns whether a segment opens a new connection.
fn opens(bytes: &[u8]) -> bool {
    /// The offset of the flags in a TCP header, in bytes.
    const FLAGS: usize = 13;
    bytes.get(FLAGS).is_some_and(|&flags| Flags::from_bits(flags).opens())
}
