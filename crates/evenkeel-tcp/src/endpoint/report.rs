//! What there is to know about connections and listeners, for people.

use super::super::connection::Info;
use super::super::table::Id;
use super::super::tuple::FourTuple;
use super::listeners::ListenAt;
use super::state::Endpoint;

/// A listener's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerInfo {
    /// Where it listens.
    pub at: ListenAt,
    /// Half-open connections.
    pub half_open: usize,
    /// The most there may be, before SYN cookies are used.
    pub syn_queue: usize,
    /// Connections that wait to be accepted.
    pub to_accept: usize,
    /// The most there may be.
    pub backlog: usize,
}

impl<R: Copy> Endpoint<R> {
    /// Every connection with its figures, in no particular order; those that only [wait](Self::waiting)
    /// aside. For reports: this looks at all of them.
    pub fn connections(&self) -> impl Iterator<Item = (Id, &FourTuple, Info)> {
        self.connections.iter().map(|(id, tuple, entry)| (id, tuple, entry.connection.info()))
    }

    /// Every listener with its figures, in the order of places.
    pub fn listeners(&self) -> impl Iterator<Item = ListenerInfo> {
        self.listeners.iter().map(|(at, listener)| ListenerInfo {
            at: *at,
            half_open: listener.syn_queue_len(),
            syn_queue: listener.config().syn_queue,
            to_accept: listener.accept_queue_len(),
            backlog: listener.config().backlog,
        })
    }
}
