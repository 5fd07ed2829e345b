//! Headers of outgoing segments.

use super::super::counters::Counter;
use super::super::options::{Options, SackBlocks, Timestamps};
use super::super::segment::{Flags, Header};
use super::super::seq::SeqNumber;
use super::super::state::State;
use super::reset::Reset;
use super::tcb::Tcb;
use crate::time::Instant;

/// The header of a segment that leaves now.
pub(super) struct HeaderOf<'c> {
    tcb: &'c mut Tcb,
    now: Instant,
}

impl<'c> HeaderOf<'c> {
    #[inline(always)]
    pub(super) const fn new(tcb: &'c mut Tcb, now: Instant) -> Self {
        Self { tcb, now }
    }

    /// Returns the header of a segment other than a SYN or a reset. It acknowledges all data received, so no
    /// ACK is due any more.
    #[inline]
    pub(super) fn segment(mut self, seq: SeqNumber, flags: Flags) -> Header {
        let tcb = &mut *self.tcb;
        let reports = tcb.negotiated.sack() && tcb.rcv.has_sack_report();
        let options = Options {
            timestamps: tcb.negotiated.timestamps_option(self.now),
            sack: if reports { tcb.rcv.sack_blocks() } else { SackBlocks::default() },
            ..Options::default()
        };
        let echo = tcb.ecn.echo();
        let window = tcb.rcv.offer_window(tcb.allowance, &mut tcb.counted);
        if let Some(duplicate) = tcb.rcv.dsack.filter(|_| tcb.negotiated.sack()) {
            let old = duplicate.start.before(tcb.rcv.nxt());
            tcb.counted.add(if old { Counter::DsackOldSent } else { Counter::DsackOfoSent });
        }
        self.acknowledge();
        Header { window, options, ..self.bare(seq, flags | Flags::ACK | echo) }
    }

    /// Returns the header of a SYN or SYN-ACK; `first` if it was not sent before.
    pub(super) fn syn(mut self, first: bool) -> Header {
        let tcb = &mut *self.tcb;
        let answers = tcb.state == State::SynReceived;
        let fast_open = tcb.handshake.fast_open.as_ref();
        let repeated = fast_open.is_some_and(|fast_open| fast_open.again);
        let cookie = fast_open.and_then(|fast_open| fast_open.cookie);
        let options = Options {
            mss: Some(tcb.rcv.mss),
            window_scale: tcb.negotiated.scaling().then_some(tcb.rcv.shift),
            sack_permitted: tcb.negotiated.sack(),
            timestamps: tcb.negotiated.timestamps_option(self.now),
            // An unanswered segment may have been dropped for its options: a SYN is sent once with them
            // (RFC 7413, 4.1.3.1), a SYN-ACK twice.
            fast_open: cookie.filter(|_| first || answers && !repeated),
            ..Options::default()
        };
        let ecn = tcb.ecn.on_syn(answers, first);
        let (iss, window) = (tcb.handshake.iss, tcb.config.syn_window());
        let header = Header { options, ..self.bare(iss, Flags::SYN | ecn) };
        if !answers {
            return Header { ack: SeqNumber::default(), window, ..header };
        }
        self.acknowledge();
        // The window of a SYN-ACK is not scaled (RFC 7323, 2.2). Data that came with the SYN (RFC 7413,
        // 4.2.2) reduces the window and does not move its right edge.
        let window = u16::try_from(self.tcb.rcv.window()).unwrap_or(u16::MAX);
        Header { flags: header.flags | Flags::ACK, window, ..header }
    }

    /// Returns the header of a reset. Without ACK it acknowledges nothing. It should have a timestamp if
    /// timestamps are in use (RFC 7323, 3.2).
    pub(super) fn reset(self, Reset { seq, acknowledges }: Reset) -> Header {
        let agreed = self.tcb.state != State::SynSent;
        let timestamps = self.tcb.negotiated.timestamps_option(self.now).filter(|_| agreed);
        let header = self.bare(seq, Flags::RST);
        if acknowledges {
            let options = Options { timestamps, ..Options::default() };
            return Header { flags: Flags::RST | Flags::ACK, options, ..header };
        }
        let timestamps = timestamps.map(|clocks| Timestamps { echo: 0, ..clocks });
        let options = Options { timestamps, ..Options::default() };
        Header { ack: SeqNumber::default(), options, ..header }
    }

    #[inline]
    fn bare(&self, seq: SeqNumber, flags: Flags) -> Header {
        Header {
            source: self.tcb.local_port,
            destination: self.tcb.remote_port,
            seq,
            ack: self.tcb.rcv.nxt(),
            flags,
            ..Header::default()
        }
    }

    /// Records that the segment acknowledges all that has come.
    #[inline]
    fn acknowledge(&mut self) {
        let nxt = self.tcb.rcv.nxt();
        self.tcb.rcv.dsack = None;
        self.tcb.timers.delayed_ack.on_sent(nxt);
    }
}
