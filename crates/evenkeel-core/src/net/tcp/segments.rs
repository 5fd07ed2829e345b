//! Segments in and out, passing time, and notification of programs.

use super::super::state::Net;
use crate::link::{OUTPUT_PKTS, OutputRoom};
use crate::stack::{IcmpError, IcmpErrorKind, TcpPacket, segment_max};
use crate::tcp::Flags;
use crate::tcp::endpoint::{EgressSet, Fate, Packet, Quote};
use crate::tcp::table::Id;
use crate::time::Instant;
use crate::work::Work;

/// Segments that one unit of work sends at most, so that nothing waits long for it.
const SEGMENTS_PER_UNIT: usize = OUTPUT_PKTS / 2;

impl Net {
    /// Processes a segment that was in the channel of the connection `expected`, or in no connection's.
    pub(in crate::net) fn input_segment(&mut self, packet: TcpPacket, expected: Option<Id>, now: Instant) {
        self.work.add(Work::Segment);
        let of = Packet {
            source: packet.source,
            destination: packet.destination,
            ecn: packet.ecn,
            mss: self.stack.mss_by(packet.interface, &packet.source),
        };
        let bytes = packet.bytes();
        if opens(&bytes) {
            self.work.add(Work::Open);
        }
        let fate = self.tcp.endpoint.input_expected(expected, &bytes, &of, now);
        self.tcp.pending = true;
        match fate {
            Fate::Data => packet.deliver(&mut self.ledger, &mut self.pool),
            Fate::Control => packet.consume(&mut self.ledger, &mut self.pool),
            Fate::Dropped(reason) => packet.drop(reason, &mut self.ledger, &mut self.pool),
        }
    }

    /// Passes an ICMP error about a segment of this host to its connection.
    pub(in crate::net) fn input_icmp_error(&mut self, error: IcmpError, now: Instant) {
        let IcmpError { quote: Quote { tuple, seq }, kind } = error;
        self.tcp.pending = true;
        match kind {
            IcmpErrorKind::Unreachable { hard } => self.tcp.endpoint.unreachable(&tuple, seq, hard),
            IcmpErrorKind::TooBig { mtu } => {
                let mss = segment_max(mtu, &tuple.remote.addr);
                if self.tcp.endpoint.packet_too_big(&tuple, seq, mss, now) {
                    self.stack.learn_path_mtu(tuple.remote.addr, mtu, now);
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
        self.tcp.pending = !self.send_segments(now);
        // With its last acknowledgment a connection is over, and nothing else may ever happen to it.
        self.activation().tell_events();
        while let Some((id, tuple)) = self.tcp.endpoint.poll_ended() {
            self.release_ring(id, tuple);
        }
        self.tcp.look_ahead();
    }

    /// Sends waiting segments by interfaces that have room. Returns whether none is left. TCP keeps its
    /// segments until they are acknowledged, so they can wait.
    fn send_segments(&mut self, now: Instant) -> bool {
        let mut left_pkts = 0;
        for _ in 0..SEGMENTS_PER_UNIT {
            if left_pkts == 0 {
                let OutputRoom { full, pkts } = self.links.output_room();
                self.tcp.endpoint.set_full(full);
                left_pkts = pkts;
            }
            let Some(left) = left_pkts.checked_sub(1) else { break };
            left_pkts = left;
            let Some(mut frame) = self.pool.take() else { return false };
            let room = frame.capacity();
            let sent = if frame.resize(room) {
                self.tcp.endpoint.poll_transmit(now, &*self.stack, frame.bytes_mut())
            } else {
                None
            };
            let Some(sent) = sent else {
                self.pool.recycle(frame);
                break;
            };
            // It was written to this very frame, so it fits.
            let _ = frame.resize(sent.len);
            self.work.add(Work::SegmentOutput);
            // A segment that cannot be sent is lost, as in the network: it is counted, and sent again.
            let _ = self.with_stack(now, |stack, io| stack.send_segment(frame, &sent, io));
        }
        !self.tcp.endpoint.may_transmit(EgressSet::NONE, &*self.stack)
    }

    // --- Time ---

    /// Retransmissions, delayed acknowledgments and the like that are due. The end of the unit says what
    /// is next.
    pub(crate) fn advance_tcp(&mut self, now: Instant) {
        self.tcp.endpoint.advance(now);
        self.tcp.pending = true;
        // What is due next is known when what there is to send has left.
        self.tcp.nothing_due();
    }
}

/// Returns whether a segment opens a new connection.
fn opens(bytes: &[u8]) -> bool {
    /// The offset of the flags in a TCP header, in bytes.
    const FLAGS: usize = 13;
    bytes.get(FLAGS).is_some_and(|&flags| Flags::from_bits(flags).opens())
}
