//! Reports on listeners, for people.

use super::super::listener::Listener;
use super::listeners::ListenAt;

/// The state of a listener's queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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

impl ListenerInfo {
    pub(super) fn of(at: ListenAt, listener: &Listener) -> Self {
        Self {
            at,
            half_open: listener.syn_queue_len(),
            syn_queue: listener.config().syn_queue,
            to_accept: listener.accept_queue_len(),
            backlog: listener.config().backlog,
        }
    }
}
