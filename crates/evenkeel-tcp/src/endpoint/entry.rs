//! A connection in the table of an endpoint.

use super::super::connection::Connection;
use super::super::counters::{Counter, Counters};
use super::super::state::State;
use super::super::table::Id;
use super::egress::RouteHandle;
use super::event::Readiness;
use super::listeners::ListenerId;
use super::memory::Memory;

/// A connection, with the records that its endpoint keeps of it.
#[derive(Debug)]
pub(super) struct Entry<R> {
    pub(super) connection: Connection,
    pub(super) holder: Holder,
    /// The route that the connection's segments take.
    pub(super) route: RouteHandle<R>,
    /// Whether the connection is in the queue of those that may have something to send.
    pub(super) is_queued: bool,
    /// Whether an event of the connection waits to be reported.
    pub(super) is_pending: bool,
    /// The readiness of which the user was last notified, as far as it still holds.
    pub(super) notified: Readiness,
    /// The bytes of memory that are accounted to the connection: fewer than there are sequence numbers.
    pub(super) held: u32,
    /// Whether the connection is in the list of those with data out of order.
    pub(super) has_holes: bool,
    /// Whether the connection is counted in [`Counter::CurrEstab`].
    pub(super) established: bool,
    /// The Differentiated Services codepoint of the segments that it sends.
    pub(super) dscp: u8,
    /// The listener that made the connection; `None` if we opened it.
    pub(super) from: Option<ListenerId>,
    /// Whether its listener is to be notified when the handshake is over (RFC 7413, 5.1).
    pub(super) early: bool,
}

/// The holder of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// The listener: the connection waits to be accepted.
    Listener,
    User,
    /// No holder: the user has closed the connection, or it ended before it was accepted.
    Nobody,
}

impl<R: Copy> Entry<R> {
    /// Returns the entry of a new connection, of which the user has not been notified.
    pub(super) fn new(connection: Connection, holder: Holder) -> Self {
        Self {
            connection,
            holder,
            route: RouteHandle::NONE,
            is_queued: false,
            is_pending: false,
            notified: Readiness::default(),
            held: 0,
            has_holes: false,
            established: false,
            dscp: 0,
            from: None,
            early: false,
        }
    }
}

impl<R> Entry<R> {
    /// Returns whether the connection is not over.
    pub(super) fn is_open(&self) -> bool {
        self.connection.state() != State::Closed
    }

    /// Updates the account of the memory that the buffers of the connection `id` own.
    #[inline]
    pub(super) fn account(&mut self, id: Id, memory: &mut Memory, counters: &mut Counters) {
        self.held = memory.account(id, &mut self.connection, self.held as usize, counters) as u32;
    }

    /// Counts what has happened to the connection, and whether it is established.
    #[inline]
    pub(super) fn count(&mut self, counters: &mut Counters) {
        counters.count_all(self.connection.take_counted());
        let established = matches!(self.connection.state(), State::Established | State::CloseWait);
        match (core::mem::replace(&mut self.established, established), established) {
            (false, true) => counters.count(Counter::CurrEstab),
            (true, false) => counters.lower(Counter::CurrEstab),
            _ => {}
        }
    }

    /// Updates the readiness of which the user is notified. Returns it if the user is to be notified now: it
    /// is ready for more than before, and no event waits to be reported.
    #[inline]
    pub(super) fn notify(&mut self) -> Option<Readiness> {
        let ready = Readiness::of(&self.connection);
        let more = ready.has_more_than(self.notified);
        self.notified = ready;
        let notifies = more && self.holder == Holder::User && !core::mem::replace(&mut self.is_pending, true);
        notifies.then_some(ready)
    }

    /// Updates the readiness of which the user was notified after a read or a write: there can only be less.
    #[inline]
    pub(super) fn on_moved(&mut self) {
        self.notified.readable = self.notified.readable && self.connection.is_readable();
        self.notified.writable = self.connection.is_writable();
    }
}
