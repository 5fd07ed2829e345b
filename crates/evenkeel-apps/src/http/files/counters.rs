//! Counters of a server: connections, requests by the status of their answer, and bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

/// The counters of a running server.
#[derive(Debug, Default)]
pub struct Counters(Mutex<Report>);

/// The counters of a server at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Report {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that are open.
    pub open: u64,
    /// The most open connections at a time.
    pub most_open: u64,
    /// Connections that were closed because the client took too long.
    pub timed_out: u64,
    /// Requests answered.
    pub requests: u64,
    /// The number of answers with each status. A request that is no HTTP is refused with 400 and not counted.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes of content in the answers.
    pub content_bytes: u64,
}

impl Counters {
    /// Returns a copy of the counters.
    #[must_use]
    pub fn report(&self) -> Report {
        self.lock().clone()
    }

    /// Counts a connection, which is open until the result is dropped.
    pub(super) fn accepted(self: &Arc<Self>) -> Open {
        let mut report = self.lock();
        report.accepted += 1;
        report.open += 1;
        report.most_open = report.most_open.max(report.open);
        drop(report);
        Open(Arc::clone(self))
    }

    /// Counts a connection that was closed because the client took too long.
    pub(super) fn timed_out(&self) {
        self.lock().timed_out += 1;
    }

    /// Counts a request that is answered with `status`.
    pub(super) fn answered(&self, status: StatusCode) {
        let mut report = self.lock();
        report.requests += 1;
        *report.statuses.entry(status.as_u16()).or_default() += 1;
    }

    /// Counts bytes of content that went on their way.
    pub(super) fn sent(&self, bytes: u64) {
        self.lock().content_bytes += bytes;
    }

    fn lock(&self) -> MutexGuard<'_, Report> {
        // Nothing that holds it panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is open.
#[derive(Debug)]
pub(super) struct Open(Arc<Counters>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().open -= 1;
    }
}
