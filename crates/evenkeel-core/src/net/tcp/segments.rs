//! Segments in and out, passing time, and notification of programs.

use super::state::Tcp;
use crate::context::Cx;
use crate::link::{Links, OUTPUT_PKTS, OutputRoom};
use crate::stack::{IcmpErrorKind, Io, Stack, TcpPacket, segment_max};
use crate::stray::Strays;
use crate::tcp::Flags;
use crate::tcp::endpoint::{EgressSet, Fate, Packet, Quote};
use crate::tcp::table::Id;
use crate::timed::Timed;
use crate::work::Work;

/// Segments that one unit of work sends at most, so that nothing waits long for it.
const SEGMENTS_PER_UNIT: usize = OUTPUT_PKTS / 2;

/// The way of segments between IP and TCP.
pub(crate) struct Segments<'a> {
    pub(crate) tcp: &'a mut Tcp,
    pub(crate) stack: &'a mut Timed<Stack>,
    pub(crate) links: &'a mut Links,
    pub(crate) strays: &'a mut Strays,
    pub(crate) cx: Cx<'a>,
}

impl Segments<'_> {
    /// Processes a segment that was in the channel of the connection `expected`, or in no connection's.
    pub(crate) fn input(&mut self, packet: TcpPacket, expected: Option<Id>) {
        self.cx.work.add(Work::Segment);
        let of = Packet {
            source: packet.source.into(),
            destination: packet.destination.into(),
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
            Fate::Stray => {
                let reason = self.strays.hand_over(packet.interface, packet.whole_frames(), self.cx.now);
                packet.drop(reason, self.cx.ledger, self.cx.pool);
            }
            Fate::Dropped(reason) => packet.drop(reason, self.cx.ledger, self.cx.pool),
        }
    }

    /// Passes an ICMP error about a segment of this host to its connection.
    pub(crate) fn input_icmp_error(&mut self, Quote { tuple, seq }: Quote, kind: IcmpErrorKind) {
        self.tcp.pending = true;
        match kind {
            IcmpErrorKind::PortClosed => self.tcp.endpoint.unreachable(&tuple, seq, true),
            IcmpErrorKind::Unreachable { hard } => self.tcp.endpoint.unreachable(&tuple, seq, hard),
            IcmpErrorKind::TooBig { mtu } => {
                let peer = tuple.remote.addr.into();
                let mss = segment_max(mtu, &peer);
                if self.tcp.endpoint.packet_too_big(&tuple, seq, mss, self.cx.now) {
                    self.stack.learn_path_mtu(peer, mtu, self.cx.now);
                }
            }
        }
    }

    /// Reports to TCP the segments that were given up because their next hop does not answer.
    pub(crate) fn take_unresolved(&mut self) {
        while let Some(Quote { tuple, seq }) = self.stack.next_unresolved() {
            self.tcp.endpoint.next_hop_silent(&tuple, seq);
            self.tcp.pending = true;
        }
    }

    /// Sends waiting segments by interfaces that have room. Returns whether none is left. TCP keeps its
    /// segments until they are acknowledged, so they can wait.
    pub(crate) fn send(&mut self) -> bool {
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

/// Returns whether a segment opens a new connection.
fn opens(bytes: &[u8]) -> bool {
    /// The offset of the flags in a TCP header, in bytes.
    const FLAGS: usize = 13;
    bytes.get(FLAGS).is_some_and(|&flags| Flags::from_bits(flags).opens())
}
