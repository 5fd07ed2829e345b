//! Network namespaces of the kernel.

use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Moves the calling thread into a new, empty network namespace, which ends with the last thread, process and
/// socket in it.
///
/// Programs that the thread starts are in the namespace, too. Other threads of the process stay in theirs.
///
/// # Errors
/// `PermissionDenied` without CAP_SYS_ADMIN; otherwise if the kernel has no network namespaces.
pub fn enter_new_network() -> io::Result<()> {
    // SAFETY: only the network namespace of this thread changes; no descriptor table, address space or
    // credentials that other threads rely on are unshared.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}
