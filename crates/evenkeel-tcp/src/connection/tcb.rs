//! The transmission control block (RFC 9293, 3.3.1): the whole state of a connection.

use alloc::sync::Arc;

use super::super::counters::{Counter, CounterSet};
use super::super::recovery::Recovery;
use super::super::seq::SeqNumber;
use super::super::state::{State, StateEvent};
use super::challenge::Challenges;
use super::config::{Agreement, Config, Open};
use super::counts::Counts;
use super::ecn::EcnState;
use super::error::{Error, Failure};
use super::handshake::Handshake;
use super::memory::Allowance;
use super::nagle::Nagle;
use super::negotiated::Negotiated;
use super::path_mtu::PathMtu;
use super::receive_side::ReceiveSide;
use super::reset::Reset;
use super::retransmission::Retransmission;
use super::send_side::SendSide;
use super::timers::Timers;
use crate::time::Instant;

/// The state of a connection.
///
/// Each part has its own file and changes its own fields. What concerns several parts is a step of the
/// processing of an event: see `input.rs`, `output.rs` and `expiry.rs`.
#[derive(Debug)]
pub(super) struct Tcb {
    pub(super) config: Arc<Config>,
    pub(super) state: State,
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
    pub(super) handshake: Handshake,
    pub(super) snd: SendSide,
    pub(super) rcv: ReceiveSide,
    pub(super) recovery: Recovery,
    pub(super) negotiated: Negotiated,
    pub(super) ecn: EcnState,
    pub(super) path: PathMtu,
    pub(super) nagle: Nagle,
    pub(super) timers: Timers,
    pub(super) retransmission: Retransmission,
    /// Whether a SYN or SYN-ACK is due.
    pub(super) syn_due: bool,
    pub(super) challenges: Challenges,
    pub(super) reset: Option<Reset>,
    pub(super) failure: Failure,
    pub(super) allowance: Allowance,
    pub(super) counts: Counts,
    /// Events to be added to the counters of all connections.
    pub(super) counted: CounterSet,
}

impl Tcb {
    /// Returns the state of a connection that is not open yet.
    pub(super) fn new(config: &Arc<Config>, open: &Open, now: Instant) -> Self {
        let iss = open.iss;
        let mss = open.mss.min(config.mss_max.max(Config::MSS_MAX_LEAST));
        Self {
            state: State::Closed,
            local_port: open.local_port,
            remote_port: open.remote_port,
            handshake: Handshake::new(iss),
            snd: SendSide::new(iss),
            rcv: ReceiveSide::new(config, mss, now),
            recovery: Recovery::new(&config.recovery, iss, mss),
            negotiated: Negotiated::offer(config, open.timestamp_offset),
            ecn: EcnState::new(config.ecn),
            path: PathMtu::new(mss, open.ipv6),
            nagle: Nagle::new(config.nagle, iss),
            timers: Timers::new(now),
            retransmission: Retransmission::default(),
            syn_due: false,
            challenges: Challenges::default(),
            reset: None,
            failure: Failure::default(),
            allowance: Allowance::default(),
            counts: Counts::default(),
            counted: CounterSet::EMPTY,
            config: Arc::clone(config),
        }
    }

    /// Records the peer's SYN, which has the sequence number `irs` and the window `window`, and puts into
    /// effect the options on which the SYNs agree.
    pub(super) fn on_syn(&mut self, irs: SeqNumber, window: u16, agreement: &Agreement, now: Instant) {
        self.handshake.irs = irs;
        self.rcv.start(irs, self.config.syn_window());
        self.timers.delayed_ack.start(irs + 1);
        self.path.agree(agreement.mss);
        match agreement.window_scale {
            // RFC 7323, 2.3: more than 14 counts as 14.
            Some(shift) => self.snd.shift = shift.min(Config::WINDOW_SHIFT_MAX),
            None => self.rcv.shift = 0,
        }
        self.negotiated.agree(agreement, now);
        self.ecn.agree(agreement.ecn);
        self.recovery.set_sack_permitted(agreement.sack);
        self.recovery.set_mss(self.path.payload_max(&self.negotiated));
        self.recovery.set_overhead(self.path.headers_len(&self.negotiated));
        self.snd.on_first_window(window, irs, self.handshake.iss);
    }

    /// Returns whether something is due, was never sent, or is lost.
    pub(super) fn may_transmit(&self) -> bool {
        let probe = self.retransmission.is_probe_due();
        let due = self.reset.is_some() | self.syn_due | probe | self.timers.any_due();
        due || self.state != State::Closed && (self.snd.unsent() > 0 || self.recovery.has_lost())
    }

    /// Returns whether the segment that began at `seq` is under way.
    pub(super) fn is_under_way(&self, seq: SeqNumber) -> bool {
        self.state != State::Closed && self.snd.is_under_way(seq)
    }

    /// Returns whether a pure ACK should report that the window has opened.
    pub(super) fn is_window_update_due(&self) -> bool {
        self.rcv.is_window_update_due(self.allowance)
    }

    /// Returns the bytes that the send buffer may hold.
    pub(super) fn send_limit(&self) -> usize {
        self.snd.limit(&self.config, self.recovery.cwnd(), self.allowance)
    }

    /// Returns the bytes that the user may write now.
    pub(super) fn send_room(&self) -> usize {
        self.snd.room(self.send_limit(), self.path.mss(), self.allowance)
    }

    /// Records that the peer has answered: `advances` if its acknowledgment covers new data; `before` is
    /// the peer's window before this segment.
    #[inline]
    pub(super) fn on_progress(&mut self, advances: bool, before: u32, now: Instant) {
        // A peer that keeps its window closed, but answers, may do so for as long as it likes (RFC 9293,
        // 3.8.6.1), unless our user has closed the connection: then no one could ever end it (RFC 6429, 3
        // and 4).
        if advances || self.snd.wnd == 0 && !self.rcv.closed {
            self.timers.user_timeout.restart(now);
            // The peer can be reached, whatever the network has reported.
            self.failure.unreachable = false;
        }
        if self.snd.wnd > 0 && (advances || self.snd.wnd != before) {
            let persist = &mut self.timers.persist;
            if persist.is_running() && self.snd.unsent() > 0 {
                persist.ease(self.recovery.rto(), now);
            } else {
                persist.stop();
            }
        }
    }

    /// Records that the congestion window has become smaller.
    pub(super) fn on_reduction(&mut self) {
        self.ecn.on_reduction(self.state.is_synchronized());
    }

    /// Answers a segment out of place with an ACK, so that a peer that really lost its state can reset us
    /// with the right number. At most [`Config::challenge_acks_max`] leave in each period.
    pub(super) fn challenge(&mut self, now: Instant) {
        if self.challenges.pass(self.config.challenge_acks_max, now) {
            self.counts.challenge_acks += 1;
            self.counted.add(Counter::ChallengeAck);
            self.timers.delayed_ack.send_now();
        } else {
            self.counted.add(Counter::AckSkippedChallenge);
        }
    }

    /// Returns the end of the user timeout; [`Instant::NEVER`] if nothing waits for the peer.
    #[inline]
    pub(super) fn user_timeout(&self) -> Instant {
        let persist = &self.timers.persist;
        let probes = persist.is_running() || persist.is_due() && self.snd.unsent() > 0;
        let waits = !self.recovery.is_empty() || probes;
        if waits { self.timers.user_timeout.deadline(self.state, &self.config) } else { Instant::NEVER }
    }

    /// Frees the memory of empty buffers, unless an endpoint has taken it before. So an idle connection
    /// owns no memory once the caller has sent all of its segments.
    #[inline]
    pub(super) fn release_idle_memory(&mut self) {
        let (snd, rcv) = (&mut self.snd.buffer, &mut self.rcv.buffer);
        if snd.capacity() > 0 && snd.is_empty() || rcv.capacity() > 0 && rcv.is_empty() {
            snd.release();
            rcv.release();
        }
    }

    /// Moves to the next state. The caller makes sure that `event` has a meaning in the present state.
    pub(super) fn step(&mut self, event: StateEvent) {
        debug_assert!(self.state.after(event).is_some(), "{event:?} in {}", self.state);
        self.state = self.state.after(event).unwrap_or(self.state);
    }

    /// Ends the connection at once. The peer gets a reset if it knows of the connection and has not closed
    /// it, too.
    pub(super) fn abort(&mut self) {
        use State::{CloseWait, Established, FinWait1, FinWait2, SynReceived};
        let resets = matches!(self.state, SynReceived | Established | FinWait1 | FinWait2 | CloseWait);
        if self.state != State::Closed {
            self.fail(Error::Aborted);
            self.rcv.buffer.clear();
            self.reset = resets.then_some(Reset::abort(self.snd.nxt));
        }
    }

    /// Ends the handshake: starts the keep-alive timer, and lets the FIN leave if the user has already
    /// closed the sending direction.
    pub(super) fn establish(&mut self, now: Instant) {
        self.syn_due = false;
        self.timers.user_timeout.restart(now);
        self.rcv.sizing.start(now);
        self.timers.keepalive.restart(self.config.keepalive, now);
        if self.snd.fin {
            self.step(StateEvent::Close);
        }
    }

    /// Sets the timer that ends FIN-WAIT-2 of a connection that its user has closed: a peer that never
    /// sends its FIN must not keep it for ever.
    pub(super) fn limit_fin_wait_2(&mut self, now: Instant) {
        if self.state == State::FinWait2 && self.rcv.closed {
            self.timers.two_msl = now + self.config.fin_wait_2;
        }
    }

    /// Starts the timer of TIME-WAIT.
    pub(super) fn start_time_wait(&mut self, now: Instant) {
        self.timers.start_time_wait(now + self.config.time_wait);
    }

    /// Moves to CLOSED without an error: both sides know that the connection is over, or there never was
    /// one.
    pub(super) fn end(&mut self) {
        use State::{CloseWait, Established, SynReceived, SynSent};
        self.counted.add_if(matches!(self.state, Established | CloseWait), Counter::EstabResets);
        self.counted.add_if(matches!(self.state, SynSent | SynReceived), Counter::AttemptFails);
        self.state = State::Closed;
        self.snd.buffer.clear();
        self.timers.cancel();
        self.retransmission = Retransmission::default();
        self.syn_due = false;
        self.reset = None;
    }

    /// Moves to CLOSED and records `error` for the user.
    ///
    /// Data that is acknowledged and not read yet stays readable before the user gets the error, as in
    /// Linux, though RFC 9293, 3.10.7.4, has all queues flushed: the acknowledgment promised the peer that
    /// it arrived. It is no more than the receive buffer holds, and is freed when the user closes.
    pub(super) fn fail(&mut self, error: Error) {
        self.end();
        self.rcv.buffer.renege();
        self.failure.error = Some(error);
    }
}
