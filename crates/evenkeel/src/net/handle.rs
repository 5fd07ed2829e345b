//! The handle of a shared host.

use std::fmt;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use evenkeel_core::host::{Host, System};
use evenkeel_core::process::ProcessId;
use evenkeel_core::time::{Duration, Instant};

use super::helper;
use super::shared::Shared;
use crate::driver::Driver;
use crate::error::Error;
use crate::metrics::{self, Reader, Snapshot};
use crate::observer::Observer;

/// A host that the sockets of a program share, from any number of threads.
///
/// A clone is another handle of the same host. The host closes its devices once no handle and no socket is
/// left, and its connections are over.
#[derive(Clone)]
pub struct Net(Arc<Handle>);

impl fmt::Debug for Net {
    /// Writes the names of the host's interfaces; none while the host is in use, perhaps by the caller.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut net = f.debug_struct("Net");
        if let Some(mut held) = self.shared().try_lock() {
            let snapshot = Snapshot::of(held.host(), &self.0.observer, Duration::ZERO);
            let names: Vec<_> = snapshot.interfaces.into_iter().map(|interface| interface.name).collect();
            net.field("interfaces", &names);
        }
        net.finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    /// The process of UDP sockets, and of streams that this host has opened.
    process: ProcessId,
    observer: Observer,
    /// The handle of snapshots, once one was asked for.
    reader: Mutex<Option<Reader>>,
    helper: Mutex<Option<JoinHandle<()>>>,
    /// The asynchronous runtimes that have sockets of the host.
    #[cfg(feature = "tokio")]
    runtimes: super::runtimes::Runtimes,
    /// The host at the other end of a cable.
    peer: Option<Net>,
}

impl Net {
    /// Returns the host at the other end of the cable, if this host was opened on one.
    #[must_use]
    pub fn peer(&self) -> Option<&Self> {
        self.0.peer.as_ref()
    }

    pub(super) fn new(driver: Driver, peer: Option<Self>) -> Result<Self, Error> {
        let observer = driver.observer.clone();
        let shared = Shared::new(driver)?;
        let process = shared.lock().attach_callers("sockets", shared.now());
        let helper = Mutex::new(Some(helper::start(&shared)?));
        Ok(Self(Arc::new(Handle {
            shared,
            process,
            observer,
            reader: Mutex::default(),
            helper,
            #[cfg(feature = "tokio")]
            runtimes: super::runtimes::Runtimes::default(),
            peer,
        })))
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    #[cfg(feature = "tokio")]
    pub(super) fn runtimes(&self) -> &super::runtimes::Runtimes {
        &self.0.runtimes
    }

    /// Returns the process of UDP sockets, and of streams that this host has opened.
    pub(super) fn process(&self) -> ProcessId {
        self.0.process
    }

    /// Makes calls that do not block.
    pub(super) fn enter<T>(
        &self,
        process: ProcessId,
        call: impl FnOnce(&mut System<'_>) -> T,
    ) -> Result<T, Error> {
        let mut held = self.shared().lock();
        held.enter(process, call).ok_or_else(|| evenkeel_core::host::NotAttached.into())
    }

    /// Checks that the host accounts for every frame.
    ///
    /// # Errors
    /// The numbers that do not agree: a bug.
    pub fn check(&self) -> Result<(), evenkeel_core::ledger::Imbalance> {
        self.raw(|host| host.check())
    }

    /// Calls `with` with the host itself, while no other thread uses it. The book of a host, and settings
    /// that sockets do not need, are there ([`Host`]).
    pub fn raw<T>(&self, with: impl FnOnce(&mut Host) -> T) -> T {
        let mut held = self.shared().lock();
        let result = with(held.host());
        held.driver.wake_early_sleeper();
        result
    }

    /// Takes a snapshot of the host: every frame, drop, socket, device and process. No other thread uses the
    /// host meanwhile. The times of threads are not in it, as the kernel counts them for each thread.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let (mut held, elapsed) = (self.shared().lock(), self.shared().now().since(Instant::ZERO));
        Snapshot::of(held.host(), &self.0.observer, elapsed)
    }

    /// Returns a handle that takes snapshots of the host from any thread. The thread that drives the host
    /// answers, so no caller waits for the lock. It suits readers that must not disturb, such as an endpoint
    /// for other processes (`metrics::Endpoint`, feature `json`).
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn metrics(&self) -> io::Result<Reader> {
        let mut reader = self.0.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reader) = &*reader {
            return Ok(reader.clone());
        }
        let (new, event, answer) = metrics::publish(self.observer())?;
        self.shared().lock().driver.outside.attend_event(&event, answer);
        Ok(reader.insert(new).clone())
    }

    /// Returns the name of the first device that has failed, and the reason why it brings no more frames.
    #[must_use]
    pub fn failed_device(&self) -> Option<String> {
        self.shared().lock().driver.outside.devices.failure()
    }

    /// Returns a handle to the measurements of the host's devices.
    #[must_use]
    pub fn observer(&self) -> Observer {
        self.0.observer.clone()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let is_over = {
            let mut held = self.shared.lock();
            held.end(self.process);
            self.shared.closing.store(true, Ordering::Release);
            // Tasks end, and leave their role to the helper.
            held.rouse_tasks();
            !held.has_open_connections()
        };
        self.shared.kick.notify();
        self.shared.helper.rouse();
        let helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Otherwise the helper goes on by itself until they are.
        if is_over && let Some(helper) = helper {
            // It does not panic, and there would be nothing to do about it.
            let _ = helper.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_by_its_interfaces() {
        let (net, _peer) = Net::pair().unwrap();
        assert_eq!(format!("{net:?}"), "Net { interfaces: [\"a\"], .. }");
        assert_eq!(net.raw(|_| format!("{net:?}")), "Net { .. }");
    }
}
