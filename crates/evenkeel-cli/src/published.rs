//! The figures of a running command, which `evenkeel stats` reads.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel::metrics::{Endpoint, GuardReader, Reader};
use evenkeel_apps::host_setup::Limits;

use crate::failure::Failure;
use crate::{supervision, terminal};

/// The socket of this process, once it has a host.
static ENDPOINT: Mutex<Option<Endpoint>> = Mutex::new(None);

/// Returns limits with which a command answers SIGUSR1, and other processes read the figures of its hosts.
pub(crate) fn limits(duration: Option<Duration>, every: Option<Duration>) -> Result<Limits, Failure> {
    let (reports, supervised) = (terminal::reports()?, Some(supervision::supervised()?));
    Ok(Limits { duration, every, reports, publish: Some(publish), supervised })
}

/// Serves the figures of a host until [`close`]. Where there is no place for the socket, or no more
/// descriptors, the command runs without.
fn publish(host: Reader) {
    with_endpoint(|endpoint| endpoint.add(host));
}

/// Serves the account of a guard, as [`publish`] serves figures of a host.
pub(crate) fn publish_guard(guard: GuardReader) {
    with_endpoint(|endpoint| endpoint.add_guard(guard));
}

fn with_endpoint(add: impl FnOnce(&Endpoint)) {
    let mut endpoint = endpoint();
    if endpoint.is_none() {
        *endpoint = Endpoint::open(&program()).ok();
    }
    if let Some(endpoint) = &*endpoint {
        add(endpoint);
    }
}

/// Removes the socket of this process, if there is one.
pub(crate) fn close() {
    endpoint().take();
}

fn endpoint() -> MutexGuard<'static, Option<Endpoint>> {
    // Nothing that holds it panics.
    ENDPOINT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the name of the program and of its command.
fn program() -> String {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program).file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    words.next().map_or_else(|| name.clone(), |command| format!("{name} {command}"))
}
