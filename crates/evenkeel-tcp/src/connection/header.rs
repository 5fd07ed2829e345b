//! Headers of outgoing segments.

use super::super::counters::Counter;
use super::super::options::{Options, SackBlocks, Timestamps};
use super::super::segment::{Flags, Header};
use super::super::seq::SeqNumber;
use super::super::state::State;
use super::tcb::Connection;
use crate::time::Instant;

/// The size of the timestamps option in bytes, padding included.
const TIMESTAMPS_LEN: u16 = 12;

impl Connection {
    /// Returns the bytes of payload in a full segment that reports no SACK: Eff.snd.MSS (RFC 9293, 3.7.1).
    pub(super) fn payload_max(&self) -> u16 {
        self.snd.mss.saturating_sub(if self.clock.is_some() { TIMESTAMPS_LEN } else { 0 })
    }

    /// Returns the bytes of headers of a segment with data, the IP header included.
    pub(super) fn headers_len(&self) -> u16 {
        const TCP: u16 = 20;
        let ip = if self.ipv6 { 40 } else { 20 };
        ip + TCP + self.snd.mss.saturating_sub(self.payload_max())
    }

    /// Returns the header of a segment other than a SYN. It acknowledges all data received, so no ACK is
    /// due any more.
    pub(super) fn header(&mut self, seq: SeqNumber, flags: Flags, now: Instant) -> Header {
        let options = self.options(now);
        let echo = if self.rcv.ece { Flags::ECE } else { Flags::NONE };
        let window = self.offer_window();
        if let Some(duplicate) = self.rcv.dsack.filter(|_| self.sack) {
            let old = duplicate.start.before(self.rcv.nxt());
            self.tally.note(if old { Counter::DsackOldSent } else { Counter::DsackOfoSent });
        }
        self.acknowledged();
        Header { window, options, ..self.plain(seq, flags | Flags::ACK | echo) }
    }

    /// Returns the options of a segment other than a SYN.
    pub(super) fn options(&self, now: Instant) -> Options {
        Options {
            timestamps: self.clock.as_ref().map(|clock| clock.option(now)),
            sack: if self.reports_sack() { self.sack_blocks() } else { SackBlocks::default() },
            ..Options::default()
        }
    }

    /// Returns the size in bytes of the options of a segment other than a SYN.
    pub(super) fn options_len(&self) -> usize {
        if !self.reports_sack() {
            return if self.clock.is_some() { usize::from(TIMESTAMPS_LEN) } else { 0 };
        }
        let timestamps = self.clock.as_ref().map(|_| Timestamps::default());
        Options { timestamps, sack: self.sack_blocks(), ..Options::default() }.len()
    }

    /// Returns whether the next segment reports SACK blocks.
    #[inline]
    fn reports_sack(&self) -> bool {
        self.sack && (self.rcv.dsack.is_some() || self.rcv.buffer.has_holes())
    }

    /// Returns the SACK blocks of RFC 2018, 4. A range received twice, and the block that contains it,
    /// come first (RFC 2883, 4).
    #[cold]
    fn sack_blocks(&self) -> SackBlocks {
        let Some(duplicate) = self.rcv.dsack else { return self.rcv.buffer.sack() };
        let around = self.rcv.buffer.held_around(duplicate);
        let recent = self.rcv.buffer.sack();
        let others = recent.as_slice().iter().copied().filter(|block| Some(*block) != around);
        core::iter::once(duplicate).chain(around).chain(others).collect()
    }

    /// Returns the header of a SYN or SYN-ACK; `first` if it was not sent before.
    pub(super) fn syn_header(&mut self, first: bool, now: Instant) -> Header {
        let answers = self.state == State::SynReceived;
        let fast_open = self.snd.fast_open.as_ref();
        let repeated = fast_open.is_some_and(|fast_open| fast_open.again);
        let cookie = fast_open.and_then(|fast_open| fast_open.cookie);
        let options = Options {
            mss: Some(self.rcv.mss),
            window_scale: self.scaling.then_some(self.rcv.shift),
            sack_permitted: self.sack,
            timestamps: self.clock.as_ref().map(|clock| clock.option(now)),
            // An unanswered segment may have been dropped for its options: a SYN is sent once with them
            // (RFC 7413, 4.1.3.1), a SYN-ACK twice.
            fast_open: cookie.filter(|_| first || answers && !repeated),
            ..Options::default()
        };
        // RFC 3168, 6.1.1; 6.1.1.1: an unanswered SYN may have been dropped because it asked for ECN.
        let ecn = match (self.ecn, answers) {
            (true, true) => Flags::ECE,
            (true, false) if first => Flags::ECE | Flags::CWR,
            _ => Flags::NONE,
        };
        let header = Header { options, ..self.plain(self.snd.iss, Flags::SYN | ecn) };
        if !answers {
            return Header { ack: SeqNumber::default(), window: self.config.syn_window(), ..header };
        }
        self.acknowledged();
        Header { flags: header.flags | Flags::ACK, window: self.syn_ack_window(), ..header }
    }

    /// Returns the window of a SYN-ACK, which is not scaled (RFC 7323, 2.2). Data that came with the SYN
    /// (RFC 7413, 4.2.2) reduces the window and does not move its right edge.
    fn syn_ack_window(&self) -> u16 {
        u16::try_from(self.rcv.edge.since(self.rcv.nxt())).unwrap_or(u16::MAX)
    }

    /// Returns the header of a reset. Without ACK it acknowledges nothing. It should have a timestamp if
    /// timestamps are in use (RFC 7323, 3.2).
    pub(super) fn reset_header(&self, seq: SeqNumber, flags: Flags, now: Instant) -> Header {
        let agreed = self.clock.as_ref().filter(|_| self.state != State::SynSent);
        let timestamps = agreed.map(|clock| clock.option(now));
        let header = self.plain(seq, flags);
        if flags.contains(Flags::ACK) {
            return Header { options: Options { timestamps, ..Options::default() }, ..header };
        }
        let timestamps = timestamps.map(|clocks| Timestamps { echo: 0, ..clocks });
        let options = Options { timestamps, ..Options::default() };
        Header { ack: SeqNumber::default(), options, ..header }
    }

    fn plain(&self, seq: SeqNumber, flags: Flags) -> Header {
        Header {
            source: self.local_port,
            destination: self.remote_port,
            seq,
            ack: self.rcv.nxt(),
            flags,
            ..Header::default()
        }
    }

    fn acknowledged(&mut self) {
        self.rcv.acked = self.rcv.nxt();
        self.rcv.dsack = None;
        self.due.ack = false;
        self.timers.delayed_ack = Instant::NEVER;
    }
}
