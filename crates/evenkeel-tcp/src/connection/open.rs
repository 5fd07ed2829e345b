//! Opening a connection: RFC 9293, 3.10.1 and 3.10.7.3.

use std::sync::Arc;

use super::super::buffer::{ReceiveBuffer, SendBuffer};
use super::super::counters::Tally;
use super::super::drop::Fate;
use super::super::options::{Cookie, MSS_DEFAULT_V4, MSS_DEFAULT_V6, MSS_MIN};
use super::super::recovery::{AckInfo, Recovery};
use super::super::segment::{Flags, Header, Segment};
use super::super::seq::{SeqNumber, SeqRange};
use super::super::state::{State, StateEvent};
use super::clock::Clock;
use super::config::{Agreement, Config, FastOpened, Open, SynAck, SynReceived};
use super::error::Error;
use super::input::OUT_OF_PLACE;
use super::tcb::{Allowance, Connection, Counts, Due, FastOpen, ReceiveSide, SendSide, Timers};
use crate::time::Instant;

impl Connection {
    /// Creates a connection that is opened actively: its SYN is to be sent.
    ///
    /// With `fast_open` the SYN has a cookie and the data that the user writes before it leaves; or the
    /// request for a cookie (RFC 7413, 4.1).
    #[must_use]
    pub fn connect(config: &Arc<Config>, open: &Open, fast_open: Option<Cookie>, now: Instant) -> Self {
        let mut connection = Self::new(config, open, now);
        connection.step(StateEvent::ActiveOpen);
        connection.snd.fast_open = fast_open.map(|cookie| FastOpen::new(Some(cookie), now));
        connection.due.syn = true;
        connection
    }

    /// Limits the data in the SYN to what fits a segment of `mss` bytes after the 20 of its header: the
    /// peer's MSS on an earlier connection (RFC 7413, 4.2.1).
    pub fn limit_early_data(&mut self, mss: u16) {
        if let Some(fast_open) = &mut self.snd.fast_open {
            fast_open.mss = mss;
        }
    }

    /// Returns the outcome of an active open with Fast Open, once it is known, and forgets it.
    pub fn take_fast_opened(&mut self) -> Option<FastOpened> {
        self.snd.fast_open.take_if(|fast_open| fast_open.opened.is_some())?.opened
    }

    /// Creates a connection in SYN-RECEIVED from a listener's agreement with a peer. The caller gives it
    /// the segment that acknowledges our SYN next.
    #[must_use]
    pub fn accept(config: &Arc<Config>, open: &Open, received: &SynReceived, now: Instant) -> Self {
        let mut connection = Self::new(config, open, now);
        connection.step(StateEvent::PassiveOpen);
        connection.step(StateEvent::Syn);
        connection.receive_from(received.irs);
        connection.agree(&received.agreement, now);
        connection.first_window(received.window, received.irs);
        let syn = SeqRange::at(open.iss, 1);
        match received.syn_ack {
            SynAck::Due(cookie) => {
                connection.snd.fast_open = Some(FastOpen::new(cookie, now));
                connection.due.syn = true;
                return connection;
            }
            SynAck::SentAt(sent) => connection.recovery.on_sent(syn, false, sent),
            SynAck::Sent(again) => {
                // Recorded as sent again, so that its acknowledgment gives no sample of the round-trip
                // time (Karn's algorithm).
                connection.recovery.on_sent(syn, false, now);
                connection.recovery.on_sent(syn, true, now);
                connection.recovery.set_syn_timeouts(again);
            }
        }
        connection.snd.nxt = syn.end;
        connection
    }

    fn new(config: &Arc<Config>, open: &Open, now: Instant) -> Self {
        let iss = open.iss;
        let mss = open.mss.min(config.mss_max.max(Config::MSS_MAX_LEAST));
        let snd = SendSide {
            iss,
            una: iss,
            nxt: iss,
            wnd: 0,
            wl1: SeqNumber::default(),
            wl2: SeqNumber::default(),
            wnd_max: 0,
            shift: 0,
            mss,
            buffer: SendBuffer::new(iss + 1),
            fin: false,
            small: iss,
            cwr: false,
            ect: true,
            progress: now,
            fast_open: None,
            narrow: None,
        };
        let rcv = ReceiveSide {
            irs: SeqNumber::default(),
            buffer: ReceiveBuffer::default(),
            fin_at: None,
            fin: false,
            edge: SeqNumber::default(),
            acked: SeqNumber::default(),
            shift: config.window_shift(),
            shut: false,
            limit: Config::bytes(config.receive_buffer_initial),
            mss,
            segment: 0,
            dsack: None,
            ece: false,
            closed: false,
            deaf: false,
            read: 0,
            read_since: now,
        };
        Self {
            state: State::Closed,
            local_port: open.local_port,
            remote_port: open.remote_port,
            ipv6: open.ipv6,
            snd,
            rcv,
            recovery: Recovery::new(&config.recovery, iss, mss),
            clock: config.timestamps.then(|| Clock::new(open.timestamp_offset)),
            sack: config.sack,
            ecn: config.ecn,
            scaling: config.window_scaling,
            nagle: config.nagle,
            cork: false,
            more: false,
            due: Due::default(),
            timers: Timers::default(),
            challenges: None,
            error: None,
            soft_error: false,
            allowance: Allowance::default(),
            counts: Counts::default(),
            tally: Tally::NOTHING,
            config: Arc::clone(config),
        }
    }

    /// Prepares to receive: the peer's SYN has the sequence number `irs`.
    fn receive_from(&mut self, irs: SeqNumber) {
        self.rcv.irs = irs;
        self.rcv.buffer = ReceiveBuffer::new(irs + 1);
        self.rcv.acked = irs + 1;
        self.rcv.edge = irs + 1 + u32::from(self.config.syn_window());
    }

    /// Puts into effect the options on which the SYNs agree.
    fn agree(&mut self, agreement: &Agreement, now: Instant) {
        let mss = agreement.mss.unwrap_or(if self.ipv6 { MSS_DEFAULT_V6 } else { MSS_DEFAULT_V4 });
        self.snd.mss = self.snd.mss.min(mss.max(MSS_MIN));
        match agreement.window_scale {
            // RFC 7323, 2.3: more than 14 counts as 14.
            Some(shift) => self.snd.shift = shift.min(Config::WINDOW_SHIFT_MAX),
            None => self.rcv.shift = 0,
        }
        self.scaling = agreement.window_scale.is_some();
        self.sack = agreement.sack;
        self.ecn = agreement.ecn;
        self.clock = self.clock.filter(|_| agreement.timestamp.is_some());
        if let (Some(clock), Some(value)) = (&mut self.clock, agreement.timestamp) {
            clock.hear(value, now);
        }
        self.recovery.set_sack_permitted(self.sack);
        self.recovery.set_mss(self.payload_max());
        self.recovery.set_overhead(self.headers_len());
    }

    /// Records the window of the peer's SYN, whose sequence number is `irs`.
    fn first_window(&mut self, window: u16, irs: SeqNumber) {
        self.snd.wnd = u32::from(window);
        self.snd.wnd_max = self.snd.wnd;
        self.snd.wl1 = irs;
        self.snd.wl2 = self.snd.iss;
    }

    /// Takes the payload of the SYN from which a connection with [`SynAck::Due`] was made: its cookie was
    /// right (RFC 7413, 4.2.2).
    pub fn on_early_data(&mut self, syn: &Segment<'_>, now: Instant) -> Fate {
        if self.state != State::SynReceived || syn.header.seq != self.rcv.irs {
            return OUT_OF_PLACE;
        }
        self.on_text(&after_syn(syn), now)
    }

    /// Processes a segment in SYN-SENT (RFC 9293, 3.10.7.3).
    pub(super) fn in_syn_sent(&mut self, segment: &Segment<'_>, now: Instant) -> Fate {
        let (header, flags) = (&segment.header, segment.header.flags);
        let acknowledges = flags.contains(Flags::ACK);
        let sent = self.snd.nxt + self.snd.fast_open.as_ref().map_or(0, |fast_open| fast_open.data);
        if acknowledges && !(header.ack.after(self.snd.iss) && header.ack.at_or_before(sent)) {
            self.answer_with_reset(segment);
            return OUT_OF_PLACE;
        }
        if flags.contains(Flags::RST) {
            if !acknowledges {
                return OUT_OF_PLACE;
            }
            self.fail(Error::Refused);
            return Fate::Control;
        }
        if !flags.contains(Flags::SYN) || self.snd.nxt == self.snd.iss {
            return OUT_OF_PLACE;
        }
        self.receive_from(header.seq);
        self.agree(&Agreement::on_syn(&self.config, &header.options, flags), now);
        self.first_window(header.window, header.seq);
        if !acknowledges {
            // Both sides open at the same time (RFC 9293, 3.5, figure 7).
            self.step(StateEvent::Syn);
            self.snd.fast_open = None;
            self.due.syn = true;
            return Fate::Control;
        }
        self.step(StateEvent::SynAck);
        self.fast_opened(header);
        self.syn_acked(header.ack, now);
        self.due.ack = true;
        // "If there are other controls or text in the segment, then continue processing at the sixth step."
        let rest = after_syn(segment);
        let fate = self.on_text(&rest, now);
        self.on_fin(&rest, now);
        fate
    }

    /// Records the outcome of Fast Open from the SYN-ACK.
    fn fast_opened(&mut self, syn_ack: &Header) {
        let Some(fast_open) = &mut self.snd.fast_open else { return };
        let default = if self.ipv6 { MSS_DEFAULT_V6 } else { MSS_DEFAULT_V4 };
        fast_open.opened = Some(FastOpened {
            cookie: syn_ack.options.fast_open.filter(|cookie| !cookie.is_request()),
            mss: syn_ack.options.mss.unwrap_or(default).max(MSS_MIN),
            sent: fast_open.data,
            taken: syn_ack.ack.since(self.snd.nxt).min(fast_open.data),
            again: fast_open.again,
        });
    }

    /// Processes the acknowledgment `ack` of our SYN, and perhaps of data that left with it.
    fn syn_acked(&mut self, ack: SeqNumber, now: Instant) {
        let sent = self.snd.nxt;
        if let Some(fast_open) = self.snd.fast_open.as_ref().filter(|_| ack.after(sent)) {
            // Data that the peer did not take counts as never sent: it is no sign of congestion (RFC 7413,
            // 4.2.1).
            self.recovery.on_sent(SeqRange::new(sent, ack), false, fast_open.sent_at);
            self.snd.nxt = ack;
        }
        self.recovery.on_ack(&AckInfo {
            ack,
            sack: &[],
            window_update: true,
            payload: true,
            rtt_echo: None,
            ece: false,
            unsent: self.snd.unsent() > 0,
            now,
        });
        self.snd.una = ack;
        self.forget_acknowledged(ack);
        self.established(now);
    }

    /// Ends the handshake: starts the keep-alive timer, and lets the FIN leave if the user has already
    /// closed the sending direction.
    pub(super) fn established(&mut self, now: Instant) {
        self.due.syn = false;
        self.snd.progress = now;
        self.rcv.read_since = now;
        self.restart_keepalive(now);
        if self.snd.fin {
            self.step(StateEvent::Close);
        }
    }
}

/// Returns the rest of a segment after its SYN.
fn after_syn<'a>(segment: &Segment<'a>) -> Segment<'a> {
    Segment { header: Header { seq: segment.header.seq + 1, ..segment.header }, ..*segment }
}
