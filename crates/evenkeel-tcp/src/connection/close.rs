//! Closing (RFC 9293, 3.6 and 3.10.4), giving up (3.10.5) and failing.

use super::super::counters::Counter;
use super::super::segment::Flags;
use super::super::state::{State, StateEvent};
use super::super::time_wait::Remains;
use super::error::Error;
use super::tcb::{Connection, Due, Timers};
use crate::time::Instant;

impl Connection {
    /// Closes the sending direction; the user may go on reading. The FIN leaves after everything that was
    /// written.
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

    /// Closes the connection in both directions.
    ///
    /// Data already written is still sent. If data came that the user never read, or comes later, the
    /// connection is reset, so that the peer does not take it for received (RFC 2525, 2.17).
    pub fn close(&mut self, now: Instant) {
        if self.state == State::SynSent {
            return self.end();
        }
        self.rcv.closed = true;
        if self.rcv.buffer.readable() > 0 {
            self.rcv.buffer.clear();
            // With Fast Open, data may have come before the handshake is over.
            if self.state != State::Closed && self.state != State::TimeWait {
                self.tally.note(Counter::AbortOnClose);
                return self.abort();
            }
        }
        self.shutdown();
        self.limit_fin_wait_2(now);
    }

    /// Ends the connection at once. The peer gets a reset if it knows of the connection and has not closed
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

    /// Returns the remains of a connection in TIME-WAIT that has nothing more to send, and closes it.
    /// [`TimeWait`](crate::TimeWait) takes the remains and answers later segments. The user may still read
    /// data that has come.
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

    /// Moves to CLOSED without an error: both sides know that the connection is over, or there never was
    /// one.
    pub(super) fn end(&mut self) {
        use State::{CloseWait, Established, SynReceived, SynSent};
        self.tally.note_if(matches!(self.state, Established | CloseWait), Counter::EstabResets);
        self.tally.note_if(matches!(self.state, SynSent | SynReceived), Counter::AttemptFails);
        self.state = State::Closed;
        self.snd.buffer.clear();
        self.timers = Timers::default();
        self.due = Due::default();
    }

    /// Moves to CLOSED and records `error` for the user.
    ///
    /// Data that is acknowledged and not read yet stays readable before the user gets the error, as in
    /// Linux, though RFC 9293, 3.10.7.4, has all queues flushed: the acknowledgment promised the peer that
    /// it arrived. It is no more than the receive buffer holds, and is freed when the user closes.
    pub(super) fn fail(&mut self, error: Error) {
        self.end();
        self.rcv.buffer.renege();
        self.error = Some(error);
    }

    /// Sets the timer that ends FIN-WAIT-2 of a connection that its user has closed: a peer that never
    /// sends its FIN must not keep it for ever.
    pub(super) fn limit_fin_wait_2(&mut self, now: Instant) {
        if self.state == State::FinWait2 && self.rcv.closed {
            self.timers.two_msl = now + self.config.fin_wait_2;
        }
    }

    /// Starts the timer of TIME-WAIT, and stops all others ("turn off the other timers").
    pub(super) fn start_time_wait(&mut self, now: Instant) {
        self.timers = Timers { two_msl: now + self.config.time_wait, ..Timers::default() };
    }
}
