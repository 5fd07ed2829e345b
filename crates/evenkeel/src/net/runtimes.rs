//! The asynchronous runtimes that have sockets of a host.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ::tokio::runtime::Id;
use evenkeel_core::process::ProcessId;

use super::seat::Seat;
use super::shared::Shared;

/// The runtimes that have sockets of a host.
#[derive(Debug, Default)]
pub(super) struct Runtimes(Mutex<Vec<Weak<Attached>>>);

/// A runtime that has sockets of a host: a process of the host.
pub(super) struct Attached {
    runtime: Id,
    pub(super) shared: Arc<Shared>,
    process: ProcessId,
    /// The place of the task that drives the host.
    pub(super) seat: Arc<Seat>,
    /// Whether the task has ended, with the runtime or with the host.
    has_ended: AtomicBool,
}

impl Runtimes {
    /// Returns a runtime. At its first call, `begin` starts the task that drives the host.
    pub(super) fn get(
        &self,
        runtime: Id,
        shared: &Arc<Shared>,
        begin: impl FnOnce(&Arc<Attached>) -> io::Result<()>,
    ) -> io::Result<Arc<Attached>> {
        let mut runtimes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is = |it: &Arc<Attached>| it.runtime == runtime && !it.has_ended.load(Ordering::Acquire);
        if let Some(known) = runtimes.iter().filter_map(Weak::upgrade).find(is) {
            return Ok(known);
        }
        let attached = Arc::new(Attached::new(runtime, shared));
        begin(&attached)?;
        runtimes.retain(|other| other.strong_count() > 0);
        runtimes.push(Arc::downgrade(&attached));
        Ok(attached)
    }
}

impl Attached {
    fn new(runtime: Id, shared: &Arc<Shared>) -> Self {
        let (now, seat) = (shared.now(), shared.seat());
        let process = shared.lock().host().attach("tokio", 0, now);
        Self { runtime, shared: Arc::clone(shared), process, seat, has_ended: AtomicBool::new(false) }
    }

    pub(super) const fn process(&self) -> ProcessId {
        self.process
    }

    /// Records that the task has ended.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.shared.lock().end(self.process);
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").field("process", &self.process).finish_non_exhaustive()
    }
}
