//! Segments in and out, passing time, and notification of programs.

use core::num::NonZeroU16;

use super::state::Tcp;
use crate::context::Cx;
use crate::drop::QueueDrop;
use crate::frame::Frame;
use crate::link::{Links, OUTPUT_PKTS, OutputRoom};
use crate::segmentation::Cuts;
use crate::stack::{FirstHop, IcmpErrorKind, Io, Stack, TcpPacket, segment_max};
use crate::stray::Strays;
use crate::tcp::Flags;
use crate::tcp::endpoint::{EgressSet, Fate, Packet, Quote, Transmit};
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
        let (endpoint, now) = (&mut self.tcp.endpoint, self.cx.now);
        let fate = match packet.segment_bytes() {
            None => endpoint.input_expected(expected, &bytes, &of, now),
            Some(size) => endpoint.input_large(expected, &bytes, size, &of, now),
        };
        self.tcp.pending = true;
        match fate {
            Fate::Data => packet.deliver(self.cx.ledger, self.cx.pool),
            Fate::Control => packet.consume(self.cx.ledger, self.cx.pool),
            Fate::Stray => {
                let reason = self.hand_over(&packet);
                packet.drop(reason, self.cx.ledger, self.cx.pool);
            }
            Fate::Dropped(reason) => packet.drop(reason, self.cx.ledger, self.cx.pool),
        }
    }

    /// Hands over the frames of a segment to the next host of the group, as they are on the wire.
    fn hand_over(&mut self, packet: &TcpPacket) -> QueueDrop {
        let (strays, now, interface) = (&mut *self.strays, self.cx.now, packet.interface);
        let Some((frame, mut cuts)) =
            packet.large_frame().and_then(|frame| Some((frame, Cuts::of_large(frame)?)))
        else {
            return strays.hand_over(interface, packet.whole_frames(), now);
        };
        let mut reason = QueueDrop::Handover;
        while let Some(segment) = cuts.copy_next(frame, self.cx.pool) {
            reason = strays.hand_over(interface, core::iter::once(segment.bytes()), now);
            self.cx.pool.recycle(segment);
        }
        reason
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
        let (mut left_pkts, mut left) = (0, SEGMENTS_PER_UNIT);
        while left > 0 {
            if left_pkts == 0 {
                let OutputRoom { full, pkts } = self.links.output_room();
                self.tcp.endpoint.set_full(full);
                left_pkts = pkts;
            }
            let Some(left_now) = left_pkts.checked_sub(1) else { break };
            left_pkts = left_now;
            let large = self.cx.pool.take_large();
            let is_large = large.is_some();
            let Some(mut frame) = large.or_else(|| self.cx.pool.take()) else { return false };
            let sent = self.poll(&mut frame, is_large);
            let Some(sent) = sent else {
                self.cx.pool.recycle(frame);
                break;
            };
            // It was written to this very frame, so it fits.
            let _ = frame.resize(sent.len);
            if is_large {
                frame = self.fitting(frame, sent.cut);
            }
            left = left.saturating_sub(sent.cut.map_or(1, |size| sent.len / usize::from(size.get())));
            self.cx.work.add(Work::SegmentOutput);
            // A segment that cannot be sent is lost, as in the network: it is counted, and sent again.
            let Cx { now, pool, ledger, .. } = &mut self.cx;
            let mut io = Io { now: *now, pool, ledger, out: self.links.out() };
            let _ = self.stack.send_segment(frame, &sent, &mut io);
        }
        !self.tcp.endpoint.may_transmit(EgressSet::NONE, &**self.stack)
    }

    /// Writes the next segment to send to `frame`. In a large frame it may be a large segment.
    #[inline]
    fn poll(&mut self, frame: &mut Frame, is_large: bool) -> Option<Transmit<FirstHop>> {
        let room = frame.capacity();
        if !frame.resize(room) {
            return None;
        }
        let (endpoint, now) = (&mut self.tcp.endpoint, self.cx.now);
        if is_large {
            endpoint.poll_transmit_large(now, &**self.stack, frame.bytes_mut())
        } else {
            endpoint.poll_transmit(now, &**self.stack, frame.bytes_mut())
        }
    }

    /// Returns a large segment in its large frame, with the size of segments, and any other one in a usual
    /// frame, if there is one: large frames are few.
    fn fitting(&mut self, mut frame: Frame, cut: Option<NonZeroU16>) -> Frame {
        if cut.is_some() && frame.set_segment_bytes(cut) {
            return frame;
        }
        match self.cx.pool.take_copy(frame.bytes()) {
            Some(copy) => {
                self.cx.pool.recycle(frame);
                copy
            }
            None => frame,
        }
    }
}

/// Returns whether a segment opens a new connection.
fn opens(bytes: &[u8]) -> bool {
    /// The offset of the flags in a TCP header, in bytes.
    const FLAGS: usize = 13;
    bytes.get(FLAGS).is_some_and(|&flags| Flags::from_bits(flags).opens())
}
