//! Closing (RFC 9293, 3.6 and 3.10.4), giving up (3.10.5) and failing.

use super::super::counters::Counter;
use super::super::segment::Flags;
use super::super::state::{State, StateEvent};
use super::super::time_wait::Remains;
use super::error::Error;
use super::tcb::{Connection, Due, Timers};
use crate::time::Instant;

impl Connection {
    /// The user has nothing more to send; it may go on reading. A FIN leaves behind what was written.
    pub fn shutdown(&mut self) {
        if !self.state.may_send() || self.snd.fin {
            return;
        }
        self.snd.fin = true;
        // Before the handshake is over the FIN waits (3.10.4).
        if matches!(self.state, State::Established | State::CloseWait) {
            self.step(StateEvent::Close);
        }
    }

    /// The user neither sends nor reads any more.
    ///
    /// What was written is still sent. If something came that was never read, or comes yet, the connection is
    /// reset, so that the peer does not take it for received (RFC 2525, 2.17).
    pub fn close(&mut self, now: Instant) {
        if self.state == State::SynSent {
            return self.end();
        }
        self.rcv.closed = true;
        if self.rcv.buffer.readable() > 0 {
            self.rcv.buffer.clear();
            // With Fast Open something may have come before the handshake is over.
            if self.state != State::Closed && self.state != State::TimeWait {
                self.tally.note(Counter::AbortOnClose);
                return self.abort();
            }
        }
        self.shutdown();
        self.limit_fin_wait_2(now);
    }

    /// Ends the connection at once. The peer gets a reset, if it knows of the connection and has not closed
    /// it, too.
    pub fn abort(&mut self) {
        use State::{CloseWait, Established, FinWait1, FinWait2, SynReceived};
        let tell = matches!(self.state, SynReceived | Established | FinWait1 | FinWait2 | CloseWait);
        if self.state != State::Closed {
            self.fail(Error::Aborted);
            self.rcv.buffer.clear();
            self.due.reset = tell.then_some((self.snd.nxt, Flags::RST | Flags::ACK));
        }
    }

    /// What is left to remember of a connection in TIME-WAIT that has nothing more to send, once: then it is
    /// over, and what still comes is answered by [`TimeWait`](crate::TimeWait), for which this is. The user
    /// may still read what has come.
    pub fn leave_in_time_wait(&mut self) -> Option<Remains> {
        if self.state != State::TimeWait || self.due.ack {
            return None;
        }
        let remains = Remains {
            snd_nxt: self.snd.nxt,
            rcv_nxt: self.rcv.nxt(),
            window: self.offer_window(),
            ts_recent: self.clock.as_ref().map(|clock| clock.recent()),
        };
        self.step(StateEvent::Timeout);
        self.end();
        Some(remains)
    }

    /// The connection is over, and both sides know it; or there never was one.
    pub(super) fn end(&mut self) {
        use State::{CloseWait, Established, SynReceived, SynSent};
        self.tally.note_if(matches!(self.state, Established | CloseWait), Counter::EstabResets);
        self.tally.note_if(matches!(self.state, SynSent | SynReceived), Counter::AttemptFails);
        self.state = State::Closed;
        self.snd.buffer.clear();
        self.timers = Timers::default();
        self.due = Due::default();
    }

    /// The connection is over, and the user should know why.
    ///
    /// What is acknowledged and not read yet stays to be read before the user hears of it, as in Linux,
    /// though RFC 9293, 3.10.7.4, has all queues flushed: the peer was told that it arrived. It is no more
    /// than the receive buffer holds, and goes when the user closes.
    pub(super) fn fail(&mut self, error: Error) {
        self.end();
        self.rcv.buffer.renege();
        self.error = Some(error);
    }

    /// A peer that never sends its FIN must not hold a connection that nobody has open any more.
    pub(super) fn limit_fin_wait_2(&mut self, now: Instant) {
        if self.state == State::FinWait2 && self.rcv.closed {
            self.timers.two_msl = now + self.config.fin_wait_2;
        }
    }

    /// 2 MSL from now on; "turn off the other timers".
    pub(super) fn start_time_wait(&mut self, now: Instant) {
        self.timers = Timers { two_msl: now + self.config.time_wait, ..Timers::default() };
    }
}
