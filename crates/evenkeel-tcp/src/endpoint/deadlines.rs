//! The deadlines of all connections.

use super::super::connection::Connection;
use super::super::table::Id;
use crate::time::Instant;
use evenkeel_timers::Wheel;

/// The deadlines of connections, by place in their table.
#[derive(Debug)]
pub(super) struct Deadlines {
    /// All deadlines but those of pacing.
    wheel: Wheel,
    /// The times at which pacing releases the next segments. They are to be met exactly.
    paced: Wheel,
}

impl Deadlines {
    pub(super) fn new() -> Self {
        Self { wheel: Wheel::new(), paced: Wheel::new() }
    }

    /// Sets the deadlines of a connection that has nothing more to send for now.
    #[inline]
    pub(super) fn set(&mut self, id: Id, connection: &Connection) {
        set(&mut self.paced, id, connection.pace_deadline());
        set(&mut self.wheel, id, connection.next_deadline_but_pace());
    }

    /// Cancels the deadlines of a connection that is over.
    pub(super) fn cancel(&mut self, id: Id) {
        self.wheel.cancel(id.index());
        self.paced.cancel(id.index());
    }

    /// Returns the first deadline.
    pub(super) fn next(&mut self) -> Option<Instant> {
        let (other, paced) = (self.wheel.next_deadline(), self.paced.next_deadline());
        [other, paced].into_iter().flatten().min()
    }

    /// Returns the first deadline, or an earlier time.
    pub(super) fn not_before(&self) -> Option<Instant> {
        let (other, paced) = (self.wheel.not_before(), self.paced.not_before());
        [other, paced].into_iter().flatten().min()
    }

    /// Returns the time at which pacing releases the next segment.
    pub(super) fn next_paced(&mut self) -> Option<Instant> {
        self.paced.next_deadline()
    }

    /// Returns the time at which pacing releases the next segment, or an earlier time.
    pub(super) fn paced_not_before(&self) -> Option<Instant> {
        self.paced.not_before()
    }

    /// Removes and returns the place of a connection whose deadline has passed.
    pub(super) fn poll_expired(&mut self, now: Instant) -> Option<u32> {
        self.wheel.poll_expired(now).or_else(|| self.paced.poll_expired(now))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.wheel.len() + self.paced.len()
    }
}

/// Sets the timer of a connection, or cancels it.
#[inline]
fn set(wheel: &mut Wheel, id: Id, at: Instant) {
    if at == Instant::NEVER {
        wheel.cancel(id.index());
    } else {
        wheel.set(id.index(), at);
    }
}
