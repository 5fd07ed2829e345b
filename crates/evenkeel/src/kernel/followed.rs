//! The handle to a follower of the kernel's tables, and its report.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::stack::InterfaceId;
use evenkeel_link::EventFd;

/// The report about following the kernel's tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Serialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelReport {
    /// Routes taken over.
    pub routes: u64,
    /// Neighbours taken over.
    pub neighbors: u64,
    /// Changes that were announced, and followed.
    pub changes: u64,
    /// The number of times that announcements were lost and the tables were read as a whole.
    pub resyncs: u64,
    /// Entries that the host refused, or that have no meaning here.
    pub skipped: u64,
    /// Prefixes to which nothing is forwarded, because the kernel's decision cannot be followed here.
    pub closed: u64,
}

/// A handle to a host's follower of the kernel's tables. It is cloneable, and usable from any thread.
#[derive(Debug, Clone)]
pub struct FollowedTables {
    report: Arc<Mutex<KernelReport>>,
    moved: Sender<(u32, InterfaceId)>,
    event: EventFd,
}

/// The follower's end of the channel to its handles.
#[derive(Debug)]
pub(super) struct Moves {
    pub(super) moved: Receiver<(u32, InterfaceId)>,
    pub(super) event: EventFd,
}

impl FollowedTables {
    pub(super) fn new(report: Arc<Mutex<KernelReport>>) -> io::Result<(Self, Moves)> {
        let ((sender, moved), event) = (channel(), EventFd::new()?);
        Ok((Self { report, moved: sender, event: event.clone() }, Moves { moved, event }))
    }

    /// Returns the report about what has been followed until now.
    #[must_use]
    pub fn report(&self) -> KernelReport {
        lock(&self.report).clone()
    }

    /// Notifies the follower that an interface is now on another device of the kernel: `index` is the
    /// kernel's index of that device, which [`Notice::Returned`](crate::Notice::Returned) has, too.
    pub fn moved(&self, index: u32, interface: InterfaceId) {
        // A host that has ended does not need it.
        let _ = self.moved.send((index, interface));
        self.event.notify();
    }
}

/// Locks a mutex. No holder of these locks leaves partial changes.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
