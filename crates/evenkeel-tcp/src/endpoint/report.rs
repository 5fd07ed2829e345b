//! Reports on connections and listeners, for people.

use super::super::connection::Info;
use super::super::table::Id;
use super::super::tuple::FourTuple;
use super::listeners::ListenAt;
use super::state::Endpoint;

/// The state of a listener's queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerInfo {
    /// The address and port at which it listens.
    pub at: ListenAt,
    /// The number of half-open connections.
    pub half_open: usize,
    /// The largest number of half-open connections before SYN cookies are used.
    pub syn_queue: usize,
    /// The number of connections that wait to be accepted.
    pub to_accept: usize,
    /// The largest number of connections that may wait to be accepted.
    pub backlog: usize,
}

impl<R: Copy> Endpoint<R> {
    /// Returns every connection with its report, in no particular order, without those that only
    /// [wait](Self::waiting). This goes through all of them.
    pub fn connections(&self) -> impl Iterator<Item = (Id, &FourTuple, Info)> {
        self.connections.iter().map(|(id, tuple, entry)| (id, tuple, entry.connection.info()))
    }

    /// Returns every listener with the state of its queues, in the order of [`ListenAt`].
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
