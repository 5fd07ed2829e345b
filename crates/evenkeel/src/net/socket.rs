//! A socket of a shared host, as its clones share it.

use std::sync::Arc;

use evenkeel_core::host::System;
use evenkeel_core::process::ProcessId;
use evenkeel_core::socket::{Fd, Kinds};

use super::handle::Net;
use super::settings::{Blocking, Timeout};
use super::waiting::Awaited;
use crate::error::Error;

/// A socket that is closed when its last clone is dropped.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) net: Net,
    /// Whose the socket is.
    pub(super) account: Account,
    pub(super) fd: Fd,
    pub(super) blocking: Blocking,
}

/// The process of a socket.
#[derive(Debug, Clone)]
pub(super) enum Account {
    /// The process of the host that most sockets have.
    Common(ProcessId),
    /// The process of a listener and of the streams that it has accepted. Segments of the listener's port
    /// are processed in the calls on these, and no others.
    Listener(Arc<ListenerProcess>),
    /// The process of an asynchronous runtime.
    #[cfg(feature = "tokio")]
    Runtime(Arc<super::runtimes::Attached>),
}

/// A process that ends when its last socket is gone.
#[derive(Debug)]
pub(super) struct ListenerProcess {
    pub(super) net: Net,
    pub(super) process: ProcessId,
}

impl Account {
    /// Returns the account of a socket whose calls block, and that is no listener.
    pub(super) fn common(net: &Net) -> Self {
        Self::Common(net.process())
    }

    pub(super) fn process(&self) -> ProcessId {
        match self {
            Self::Common(process) => *process,
            Self::Listener(listener) => listener.process,
            #[cfg(feature = "tokio")]
            Self::Runtime(runtime) => runtime.process(),
        }
    }
}

impl Drop for ListenerProcess {
    fn drop(&mut self) {
        self.net.shared().lock().end(self.process);
    }
}

impl Socket {
    /// Opens a socket of a host, in the process of `account`.
    pub(super) fn open(
        net: &Net,
        account: Account,
        open: impl FnOnce(&mut System<'_>) -> Result<Fd, Error>,
    ) -> Result<Self, Error> {
        let fd = net.enter(account.process(), open)??;
        Ok(Self::new(net, account, fd))
    }

    pub(super) fn new(net: &Net, account: Account, fd: Fd) -> Self {
        Self { net: net.clone(), account, fd, blocking: Blocking::default() }
    }

    /// Makes calls that do not block.
    pub(super) fn enter<T>(&self, call: impl FnOnce(&mut System<'_>) -> T) -> Result<T, Error> {
        self.net.enter(self.account.process(), call)
    }

    /// Makes a call that waits for one of `kinds`, within `timeout` and as the socket's clones are set.
    pub(super) fn wait_in<T>(
        &self,
        kinds: Kinds,
        timeout: &Timeout,
        call: impl FnMut(&mut System<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let shared = self.net.shared();
        let awaited = Awaited { process: self.account.process(), fd: self.fd, kinds };
        shared.wait_in(awaited, self.blocking.until(timeout, || shared.now()), call)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Its process may have ended with its host.
        let _ = self.enter(|system| system.close(self.fd));
    }
}
