//! The activity of a connection, from which its time-outs follow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The event that a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The rest of a request's head. Also the first request of a connection.
    Head,
    /// A request.
    Idle,
    /// A client that takes an answer.
    Answer,
}

/// The activity of a connection. Its stream, its requests and its answers record it, the last two possibly on
/// other threads; the task of the connection reads it.
///
/// The order between the parts does not matter: the task reads them again whenever it runs.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// The number of writes, of pieces of answers and of requests.
    progress: AtomicU64,
    in_flight: AtomicUsize,
    /// Whether bytes arrived since the last request ended.
    has_head: AtomicBool,
    /// Whether requests share the connection, so that bytes can arrive that are no request's.
    is_shared: AtomicBool,
    /// Whether the content of a request was left unread.
    has_unread: AtomicBool,
}

impl Activity {
    /// Creates the activity of a new connection, whose first request is due.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { has_head: true.into(), ..Self::default() })
    }

    /// Returns what the connection waits for, and a number that grows with its progress.
    pub(super) fn snapshot(&self) -> (Phase, u64) {
        let phase = match self.in_flight.load(Relaxed) {
            0 if self.has_head.load(Relaxed) => Phase::Head,
            0 => Phase::Idle,
            _ => Phase::Answer,
        };
        (phase, self.progress.load(Relaxed))
    }

    /// Records that a part of an answer went on its way.
    pub(super) fn progress(&self) {
        self.progress.fetch_add(1, Relaxed);
    }

    /// Records that bytes arrived, which is no progress.
    pub(super) fn received(&self) {
        if self.in_flight.load(Relaxed) == 0 && !self.is_shared.load(Relaxed) {
            self.has_head.store(true, Relaxed);
        }
    }

    /// Returns whether the content of a request was left unread.
    pub(super) fn has_unread_request(&self) -> bool {
        self.has_unread.load(Relaxed)
    }

    /// Records that the connection is being closed, which takes no longer than a head.
    pub(super) fn close(&self) {
        self.has_head.store(true, Relaxed);
    }

    /// Records that a request's head is complete. `is_shared` says whether requests share the connection,
    /// and `has_content` whether more bytes belong to the request, which nobody reads.
    pub(super) fn begin(self: &Arc<Self>, is_shared: bool, has_content: bool) -> InFlight {
        self.in_flight.fetch_add(1, Relaxed);
        self.has_head.store(false, Relaxed);
        self.has_unread.fetch_or(has_content, Relaxed);
        self.is_shared.store(is_shared, Relaxed);
        self.progress();
        InFlight(Arc::clone(self))
    }
}

/// A request that is being answered, until this is dropped.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Activity>);

impl InFlight {
    /// Records that a part of the answer went on its way.
    pub(super) fn progress(&self) {
        self.0.progress();
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
        self.0.progress();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_goes_from_head_to_answer_to_idle() {
        let activity = Activity::new();
        let phase = || activity.snapshot().0;
        assert_eq!(phase(), Phase::Head, "the first request is due");
        let request = activity.begin(false, false);
        activity.received();
        assert_eq!(phase(), Phase::Answer);
        drop(request);
        assert_eq!(phase(), Phase::Idle);
        activity.received();
        assert_eq!(phase(), Phase::Head);
    }

    #[test]
    fn bytes_that_arrive_are_no_progress_and_no_head_where_requests_share_a_connection() {
        let activity = Activity::new();
        let requests = [activity.begin(true, false), activity.begin(true, false)];
        let [first, second] = requests;
        drop(first);
        assert_eq!(activity.snapshot().0, Phase::Answer);
        drop(second);
        let before = activity.snapshot();
        activity.received();
        assert_eq!(activity.snapshot(), before);
        assert_eq!(before.0, Phase::Idle);
        activity.progress();
        assert!(activity.snapshot().1 > before.1);
    }
}
