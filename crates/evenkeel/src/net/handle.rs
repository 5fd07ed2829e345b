//! The handle of a shared host.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use evenkeel_core::host::{Host, System};
use evenkeel_core::process::ProcessId;

use super::helper;
use super::shared::Shared;
use crate::driver::Driver;
use crate::error::Error;
use crate::observer::Observer;

/// A host that the sockets of a program share, from any number of threads.
///
/// A clone is another handle of the same host. The host closes its devices once no handle and no socket is
/// left, and its connections are over.
#[derive(Debug, Clone)]
pub struct Net(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    /// The process of UDP sockets, and of streams that this host has opened.
    process: ProcessId,
    observer: Observer,
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
